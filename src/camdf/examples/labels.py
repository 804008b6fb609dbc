"""The same rules for every log: which calls no task requires, and which texts are one task."""

from __future__ import annotations

import hashlib
import re

from camdf.gate.tool_search import CALL

SERVER = r"(.*(/|\.|:|__))?"
DISCOVERY = (
    rf"{SERVER}(tool_?search(_tool)?(_regex|_bm25)?|tools/list"
    r"|(search|find|list|discover|retrieve)_?(available_)?tools?)|.*[_-]find_tool"
)
"""Calls that look for tools instead of doing the task, with or without a server's name before them."""

WITHIN = "handoff"
"""The call by which LlamaIndex passes the task on; all agents of its workflow share one run."""

HANDOFF = rf"{SERVER}(transfer|hand_?off)_(back_)?to_.+|handoff to .+|{WITHIN}"
"""Calls that pass the task on to another agent."""

ANSWER = r"final_result(_.+)?"
"""Calls that carry the answer in the form that was asked for, by the name that pydantic-ai gives them."""

NO_TOOL = f"(?i)^({DISCOVERY}|{HANDOFF}|{ANSWER}|{CALL.name})$"
"""Calls that no task requires. The pattern means the same in Python, Rust and Java."""


def text_group(text: str) -> str:
    """The group of tasks whose texts are the same, but for case, spaces and numbers.

    >>> text_group("Cancel order 17") == text_group(" cancel  order 4711") != text_group("Cancel my order")
    True
    """
    same = re.sub(r"\d+", "0", " ".join(text.lower().split()))
    return f"text-{hashlib.sha256(same.encode()).hexdigest()[:16]}"
