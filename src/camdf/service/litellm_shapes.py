"""What LiteLLM's proxy sends to a guardrail behind a URL and takes from it, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from camdf.errors import needs
from camdf.service.shapes import Body, JsonObject, Names

with needs("serve"):
    from msgspec import Meta, Struct


class DeclaredParams(Body):
    """What the proxy's configuration declares of the clients of one guardrail."""

    route: Annotated[str, Meta(max_length=64)] = ""
    """One of the routes in the service's configuration."""

    keep: Names = []
    """Tools that stay in every request."""


class GuardrailRequest(Struct, kw_only=True):
    """A request that LiteLLM is about to send to a model. Fields that are not named here are not read."""

    input_type: Literal["request", "response"]
    """A "response" has no tools to choose from."""

    structured_messages: list[JsonObject] | None = None
    """The conversation in the shape of OpenAI's chat, whatever the client speaks."""

    tools: list[JsonObject] | None = None
    """Its tools in the same shape."""

    litellm_trace_id: str | None = None
    """The client's session, or one that LiteLLM makes up for the request."""

    request_headers: dict[str, str] | None = None
    """The client's, with "[present]" for a value that LiteLLM does not forward."""

    request_data: dict[str, str | None] | None = None
    """Who asks, as LiteLLM knows it: `user_api_key_end_user_id` is the user."""

    additional_provider_specific_params: DeclaredParams | None = None
    """What the proxy's configuration declares."""


class GuardrailAnswer(Struct, kw_only=True, omit_defaults=True):
    """What LiteLLM is to do with a request."""

    action: Literal["NONE", "GUARDRAIL_INTERVENED", "BLOCKED"]
    """Send it as it is, send what stands here in its place, or refuse it."""

    blocked_reason: str = ""
    """Why it is refused."""

    tools: list[JsonObject] = []
    """The tools to send."""

    structured_messages: list[JsonObject] = []
    """The messages to send, where some of them change."""
