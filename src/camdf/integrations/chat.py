"""What adapters share: a message as OpenAI's chat has it, which the gate reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from camdf.gate.notes import without_note


def chat_message(role: str, texts: Iterable[str], calls: Iterable[tuple[str, Any]] = ()) -> dict[str, Any]:
    """What was said, and which tools were called with which arguments.

    Without a note, which nobody but the user can have written there: an adapter adds notes to each request anew.

    >>> chat_message("assistant", ["Let me see."], [("get_weather", {"city": "Oslo"})])["tool_calls"]
    [{'function': {'name': 'get_weather', 'arguments': {'city': 'Oslo'}}}]
    """
    message = {
        "role": role,
        "content": [{"type": "text", "text": text} for text in texts],
        "tool_calls": [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls],
    }
    return dict(without_note(message).message)
