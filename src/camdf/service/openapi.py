"""The OpenAPI document, generated from the types that bodies are read into and answers are written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from camdf._version import __version__
from camdf.errors import needs
from camdf.gate.ranking import Ranked
from camdf.runtime.docstrings import meanings
from camdf.service import litellm_shapes, shapes
from camdf.service.config import LimitSettings

with needs("serve"):
    import msgspec
    from msgspec import Struct

ABOUT = "Which of the ranked tools are worth giving to the agent?"
DECIDE = "Decide on one request, or on each of a list."
FIND = "Search for a tool that an agent was not given."
ANSWER = "Say what a call means that a model wrote. Nothing is run."
OUTCOMES = "Say what became of decisions. The answer comes once they are on disk."
GUARDRAIL = "Decide on a request that LiteLLM's proxy shows to a guardrail."
TOKEN = "The token of a tenant or of the service. The header x-api-key takes it, too."

TYPES: Mapping[str, type] = {
    name: kind
    for module in (shapes, litellm_shapes)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in (Struct, shapes.Body)
}
"""Of all bodies and answers, and of what is in them, by name."""

SERVERS = [{"url": "/", "description": "Where this document is."}]
STATUSES = {200: "It is.", 503: "It is not."}
PROBLEMS = {
    400: "The body is not JSON, or a field of the head stands twice.",
    401: "The token is missing or not known.",
    404: "There is no such route, or no such decision of this tenant.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    422: "The body is JSON, and not as it should be.",
    503: "The service is at its capacity, or cannot write. Try again after the time in Retry-After.",
}
READING = (400, 401, 408, 413, 415, 422, 503)
"""What may come of a request with a body."""

EITHER = {"RankingRequest": ("ranking",), "ConversationRequest": ("messages", "tools")}
"""The two shapes of a `DecideRequest`, and the fields that each requires and the other may not have."""


def document(limits: LimitSettings, *, tokens: bool) -> dict[str, Any]:
    """The document of a service with these limits."""
    _, schemas = msgspec.json.schema_components(list(TYPES.values()), ref_template="#/components/schemas/{name}")
    for name, schema in schemas.items():
        _describe(schema, Ranked if name == "RankedTool" else TYPES[name])
    _split(schemas, limits)
    security: dict[str, Any] = {}
    schemes: dict[str, Any] = {}
    if tokens:
        security = {"security": [{"token": []}]}
        schemes = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": TOKEN}}}

    def post(name: str, summary: str, body: dict[str, Any], said: str, answer: dict[str, Any], *also: int) -> Any:
        asked = {"requestBody": {"required": True, **_content(body)}}
        answers = {"200": _described_answer(said, answer), **_problems(*READING, *also)}
        return {"post": {"operationId": name, "summary": summary, **asked, "responses": answers, **security}}

    def get(name: str, summary: str, answers: dict[str, Any], **also: Any) -> Any:
        return {"get": {"operationId": name, "summary": summary, "responses": answers, **also}}

    decide = _one_or_many({"anyOf": [_ref(name) for name in EITHER]}, minItems=0, maxItems=limits.batch)
    outcomes = _one_or_many(_ref("OutcomeRequest"), minItems=1, maxItems=limits.batch)
    decisions = _one_or_many(_ref("Decision"))
    policy = _described_answer("What decides.", _ref("PolicyAnswer"))
    status = {str(code): _described_answer(said, _ref("Status")) for code, said in STATUSES.items()}
    numbers = {"description": "Numbers.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    paths = {
        "/v1/decide": post("decide", DECIDE, decide, "The decision, or one for each request.", decisions, 404),
        "/v1/find": post("find", FIND, _ref("FindRequest"), "What it finds.", _ref("Found"), 404),
        "/v1/answer": post("answer", ANSWER, _ref("AnswerRequest"), "What to do.", _ref("Answered"), 404),
        "/v1/outcomes": post("outcomes", OUTCOMES, outcomes, "Their sequence numbers.", _ref("Accepted"), 404),
        "/beta/litellm_basic_guardrail_api": post(
            "guardrail", GUARDRAIL, _ref("GuardrailRequest"), "What to do.", _ref("GuardrailAnswer"), 404
        ),
        "/v1/policy": get("policy", "What decides now, route by route.", {"200": policy, **_problems(401)}, **security),
        "/healthz": get("healthz", "Whether the process is alive.", {"200": status["200"]}),
        "/readyz": get("readyz", "Whether it takes requests: not while it drains.", status),
        "/metrics": get("metrics", "Numbers for Prometheus.", {"200": numbers}),
    }
    about = {"title": "camdf", "version": __version__, "description": ABOUT}
    components = {"schemas": schemas, **schemes}
    return {"openapi": "3.1.0", "info": about, "servers": SERVERS, "paths": paths, "components": components}


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Say of each field what its class says, in a way that generators of clients read as it is meant.

    They take a field with a default for one that is always there, which holds of no question and of no answer.
    """
    for field, words in meanings(kind).items():
        schema["properties"][field]["description"] = words
    for part in _parts(schema):
        part.pop("default", None)
        if "enum" in part:
            part["type"] = "string"
        if part.get("type") == "object" and not part.keys() & {"properties", "additionalProperties"}:
            part["additionalProperties"] = True


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all that are in it."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _parts(part)


def _split(schemas: dict[str, Any], limits: LimitSettings) -> None:
    """The one type as the two shapes that it takes, so that a document says which fields go together."""
    whole = schemas.pop("DecideRequest")
    for field in ("ranking", "messages", "tools"):
        whole["properties"][field] = {**whole["properties"][field], "maxItems": limits.tools}
    for name in ("FindRequest", "AnswerRequest"):
        schemas[name]["properties"]["tools"]["maxItems"] = limits.tools - 1
    special = {field for fields in EITHER.values() for field in fields}
    for name, required in EITHER.items():
        fields = {key: schema for key, schema in whole["properties"].items() if key in required or key not in special}
        schemas[name] = {**whole, "title": name, "properties": fields, "required": list(required)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _one_or_many(schema: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "array", "items": schema, **bounds}]}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _described_answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, **_content(schema)}


def _problems(*statuses: int) -> dict[str, Any]:
    refusals = {str(status): _described_answer(PROBLEMS[status], _ref("Problem")) for status in sorted(statuses)}
    if 503 in statuses:
        refusals["503"]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return refusals
