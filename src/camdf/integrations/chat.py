"""What adapters share: a message as OpenAI's chat has it, which the gate reads, and words for a refused tool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def chat_message(role: str, texts: Iterable[str], calls: Iterable[tuple[str, Any]] = ()) -> dict[str, Any]:
    """What was said, and which tools were called with which arguments.

    >>> chat_message("assistant", ["Let me see."], [("get_weather", {"city": "Oslo"})])["tool_calls"]
    [{'function': {'name': 'get_weather', 'arguments': {'city': 'Oslo'}}}]
    """
    return {
        "role": role,
        "content": [{"type": "text", "text": text} for text in texts],
        "tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls],
    }


def refusal(name: str) -> str:
    """What a model is told that calls from memory what the gate refuses."""
    return f"{name} may not be used."
