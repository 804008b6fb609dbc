"""A driver of the conformance suite for each adapter, and one for a loop of your own: `build`, `send`, `EXEMPT`."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple


class Framework(NamedTuple):
    """A framework with an adapter, or a client that a loop calls by itself."""

    title: str
    distribution: str
    part: str = ""
    """Another distribution without which it is not checked here."""

    @property
    def version(self) -> str:
        """The version that is installed here; "" where none is."""
        try:
            return "" if self.part and not version(self.part) else version(self.distribution)
        except PackageNotFoundError:
            return ""


FRAMEWORKS = {
    "langchain": Framework("LangChain", "langchain"),
    "pydantic_ai": Framework("pydantic-ai", "pydantic-ai-slim"),
    "openai_agents": Framework("OpenAI Agents", "openai-agents"),
    "llama_index": Framework("LlamaIndex", "llama-index-core"),
    "fastmcp": Framework("FastMCP", "fastmcp"),
    "litellm": Framework("LiteLLM proxy", "litellm", "litellm-proxy-extras"),
    "google_adk": Framework("Google ADK", "google-adk"),
    "strands": Framework("Strands Agents", "strands-agents"),
    "agent_framework": Framework("Microsoft Agent Framework", "agent-framework-core"),
    "haystack": Framework("Haystack", "haystack-ai"),
    "own_loop": Framework("A loop of your own, with OpenAI's client", "openai", "anthropic"),
}
"""By the name of the driver's file."""


def driver(name: str) -> Any:
    return import_module(f"drivers.{name}")
