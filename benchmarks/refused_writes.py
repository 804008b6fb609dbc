"""What a privilege refuses of what everyday requests need: tools with effects that a turn needed and that may not run.

python benchmarks/refused_writes.py                 a table
python benchmarks/refused_writes.py --json FILE     the same numbers as JSON
python benchmarks/refused_writes.py --check FILE    exit 1 where they are not what the file has

The gate is `Gate.start` with a `Privilege` whose effects are those that `camdf privilege` guesses, with examples of the
tools and without. The conversations are those of tests/data/everyday.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from stored import measure_and_compare

from camdf.gate import Gate, Limits, Privilege
from camdf.gate.guessed_effects import guessed_effect
from camdf.tools import view
from everyday import catalogue, conversations, examples, played

SIZES = ("40", "400")
TOLD = {"no examples": False, "examples": True}


def measured(gate: Gate, size: str, effects: Mapping[str, str]) -> dict[str, Any]:
    """How many needed tools have effects, how many of them may not run, and how many each conversation brings."""
    need = 0
    refused = 0
    brought = 0
    count = 0
    for conversation in conversations():
        if len(conversation.tools) != int(size):
            continue
        history = conversation.before(0)
        last: tuple[str, ...] = ()
        for turn in conversation.turns:
            if conversation.summary_after is not None and turn.number == conversation.summary_after + 1:
                history = conversation.before(turn.number)
            forced = [turn.tool_choice] if turn.tool_choice else []
            messages = [*history, {"role": "user", "content": turn.content}]
            decision = gate.decide(messages, conversation.tools, forced=forced)
            bound = {name for name in turn.needed if effects[name] != "read"}
            need += len(bound)
            refused += len(bound - (decision.may_run or frozenset()))
            last = decision.brought
            history += played(turn, set(decision.kept) - set(decision.joined))
        brought += len(last)
        count += 1
    return {"needed": need, "refused": refused, "brought a conversation": round(brought / count, 2)}


def rows() -> list[dict[str, Any]]:
    """Every list, with examples and without."""
    found = []
    for size in SIZES:
        tools = catalogue(size)[0]
        effects = {tool.name: guessed_effect(tool).effect for tool in map(view, tools)}
        for told, has_examples in TOLD.items():
            given = examples(size) if has_examples else None
            gate = Gate.start(tools, examples=given, limits=Limits(seconds=None), privilege=Privilege(effects))
            found.append({"tools": int(size), "told": told, **measured(gate, size, effects)})
    return found


def table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| `Gate.start` | tools | needed tools with effects | refused | brought a conversation |"]
    lines.append("|" + " --- |" * 5)
    for row in stored:
        share = row["refused"] / row["needed"]
        cells = (row["told"], row["tools"], row["needed"], f"{share:.0%}", f"{row['brought a conversation']:.1f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, rows, table))
