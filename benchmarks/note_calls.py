"""Calls as weak models slip them: what comes of a tool that a note tells of, beside the same tool on the list.

python benchmarks/note_calls.py                 a table
python benchmarks/note_calls.py --json FILE     the same numbers as JSON
python benchmarks/note_calls.py --check FILE    exit 1 where they are not what the file has

The calls are those of the thirty everyday conversations, each written anew with every slip: through `call_tool`, as a
note asks for, and by the tool's own name, as a list asks for. `Gate.answer` says what runs. A slip that only one of the
two can have is counted for that one. No model is asked: this says what comes of a slip, not how often one happens.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from stored import measure_and_compare

from camdf.core.payoff import Payoff
from camdf.gate import Gate
from camdf.gate.tool_search import CALL
from camdf.policies.rules import AcquireAll
from everyday import Conversation, conversations, played

Written: TypeAlias = tuple[str, object]
"""The name of a call, and its arguments, as text or as an object."""


def through(name: str, arguments: object) -> Written:
    """A call by `call_tool`."""
    return CALL.name, {"name": name, "arguments": arguments}


def cut_off(arguments: object) -> str:
    """Arguments that end in the middle."""
    return json.dumps(arguments)[:-2]


Slip: TypeAlias = Callable[[str, dict[str, Any]], Written]

SLIPS: dict[str, tuple[Slip | None, Slip | None]] = {
    "as it was told": (through, lambda name, given: (name, given)),
    "arguments as JSON text": (
        lambda name, given: through(name, json.dumps(given)),
        lambda name, given: (name, json.dumps(json.dumps(given))),
    ),
    "arguments wrapped once more": (
        lambda name, given: through(name, {"arguments": given}),
        lambda name, given: (name, {"arguments": given}),
    ),
    "`args` for `arguments`": (lambda name, given: (CALL.name, {"name": name, "args": given}), None),
    "arguments beside the name": (lambda name, given: (CALL.name, {"name": name, **given}), None),
    "the name in capitals": (
        lambda name, given: through(name.upper(), given),
        lambda name, given: (name.upper(), given),
    ),
    "a prefix before the name": (
        lambda name, given: through(f"functions.{name}", given),
        lambda name, given: (f"functions.{name}", given),
    ),
    "cut off in the middle": (
        lambda name, given: (CALL.name, cut_off({"name": name, "arguments": given})),
        lambda name, given: (name, cut_off(given)),
    ),
    "by its own name, though only noted": (lambda name, given: (name, given), None),
}
"""Of a tool that is noted, and of one that is on the list."""

OUTCOMES = ("runs as meant", "answered in words", "runs as something else")


def calls_of(conversation: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tools that a conversation calls, with their arguments."""
    for turn in conversation.turns:
        for message in played(turn):
            for call in message.get("tool_calls", ()):
                yield call["function"]["name"], json.loads(call["function"]["arguments"])


def outcome(gate: Gate, tools: Sequence[Any], written: Written, name: str, given: Mapping[str, Any]) -> str:
    """What comes of a call that means a tool with these arguments."""
    answer = gate.answer({"id": "call", "function": {"name": written[0], "arguments": written[1]}}, tools)
    if answer.run is None:
        return "answered in words" if answer.text else "runs as something else"
    if (answer.run.name, answer.run.arguments) == (name, given):
        return "runs as meant"
    return "runs as something else"


def rows() -> list[dict[str, Any]]:
    """By slip and way, how many calls came to what."""
    gate = Gate(AcquireAll(), None, Payoff(0.0), tool_search=True)
    counted: dict[tuple[str, str], Counter[str]] = {}
    for conversation in conversations():
        for name, given in calls_of(conversation):
            if name in ("find_tool", "call_tool"):
                continue
            for slip, ways in SLIPS.items():
                for way, write in zip(("noted", "listed"), ways, strict=True):
                    if write is not None:
                        counts = counted.setdefault((slip, way), Counter())
                        counts[outcome(gate, conversation.tools, write(name, given), name, given)] += 1
    return [
        {"slip": slip, "way": way, "calls": counts.total(), **{each: counts[each] for each in OUTCOMES}}
        for (slip, way), counts in counted.items()
    ]


def table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown: of each slip, how many calls run as meant and how many are answered in words."""
    lines = ["| how the call is written | noted: runs, words, other | listed: runs, words, other |", "|" + " --- |" * 3]
    for slip in SLIPS:
        cells = []
        for way in ("noted", "listed"):
            own = [row for row in stored if (row["slip"], row["way"]) == (slip, way)]
            cells.append(", ".join(str(own[0][each]) for each in OUTCOMES) if own else "-")
        lines.append(f"| {slip} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, rows, table))
