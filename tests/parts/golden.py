"""One set of tasks and tools, and what the gate keeps of them: the library and every adapter must say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import camdf
from camdf.gate import Gate
from camdf.scorers.base import Scorer
from camdf.tools import Tool

HERE = Path(__file__).parent
PAYOFF = camdf.Payoff(0.06)


class Vector(NamedTuple):
    """A task, the tools offered (name and description), and the names that the gate keeps, in order."""

    task: str
    tools: dict[str, str]
    kept: list[str]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def overlap(task: str, tools: Sequence[Tool]) -> list[float]:
    """The share of a tool's words that the task has: a scorer that needs nothing."""
    asked = words(task)
    return [len(asked & words(tool.text)) / max(len(words(tool.text)), 1) for tool in tools]


def golden_gate(scorer: Scorer | None = overlap, **settings: Any) -> Gate:
    """The gate that every adapter is given."""
    return Gate(camdf.load(HERE / "golden-policy.json"), scorer, PAYOFF, **settings)


def openai_tool(name: str, description: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": {}}},
    }


VECTORS = [Vector(**each) for each in json.loads((HERE / "golden.json").read_text(encoding="utf-8"))]
