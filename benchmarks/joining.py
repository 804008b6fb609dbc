"""What joins the turns of everyday conversations: whether a turn has its tools without a search, and how many it takes.

python benchmarks/joining.py                 a table
python benchmarks/joining.py --json FILE     the same numbers as JSON
python benchmarks/joining.py --check FILE    exit 1 where they are not what the file has

The gate is `Gate.start`, with examples of the tools and without, where the harness sends the messages of the decision
and where it takes tools alone. A tool that a turn needed and did not have is searched for, and is there from then on.
The conversations are those of tests/data/everyday. Last, one conversation of four subjects over the same 40 tools.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from stored import measure_and_compare

from camdf.gate import Gate, Limits
from everyday import catalogue, conversations, examples, played

SIZES = ("40", "400")
WAYS = {"joined": True, "tools alone": False}
"""Whether the harness sends the messages of the decision, by what the table calls it."""

SUBJECTS = {
    "Play some quiet jazz in the kitchen": "play_music",
    "Now send an email to Kim that I will be late today": "send_email",
    "What will the weather in Lyon be like at the weekend?": "get_forecast",
    "Please find me a hotel in Lyon for two nights from Friday": "search_hotels",
}
"""Turns of one conversation, each about something else, and the tool that each needs."""


def measured(gate: Gate, size: str, *, sends_messages: bool) -> dict[str, Any]:
    """Turns that need tools, how many had all of them without a search, and how many tools joined a turn."""
    need = 0
    there = 0
    turns = 0
    joined = 0
    for conversation in conversations():
        if len(conversation.tools) != int(size):
            continue
        history = conversation.before(0)
        found: set[str] = set()
        for turn in conversation.turns:
            if conversation.summary_after is not None and turn.number == conversation.summary_after + 1:
                history = conversation.before(turn.number)
            forced = [turn.tool_choice] if turn.tool_choice else []
            messages = [*history, {"role": "user", "content": turn.content}]
            decision = gate.decide(messages, conversation.tools, forced=forced, takes_messages=sends_messages)
            new = [key for addition in decision.appended if addition.after == len(history) for key in addition.keys]
            if turn.needed:
                need += 1
                there += turn.needed <= {*decision.kept, *found}
            found |= turn.needed
            turns += 1
            joined += len(new)
            history += played(turn, set(decision.kept) - set(decision.joined))
    return {"turns": need, "with all tools": there, "joined a turn": round(joined / turns, 2)}


def of_four_subjects(gate: Gate, *, sends_messages: bool) -> int:
    """Of how many turns the needed tool is there."""
    tools = catalogue("40")[0]
    history: list[dict[str, Any]] = []
    there = 0
    for text, needed in SUBJECTS.items():
        history.append({"role": "user", "content": text})
        there += needed in gate.decide(history, tools, takes_messages=sends_messages).kept
        history.append({"role": "assistant", "content": "Done."})
    return there


def rows() -> list[dict[str, Any]]:
    """Every list, with examples and without, each way."""
    measured_so_far = []
    for size in SIZES:
        for told in ("no examples", "examples"):
            given = examples(size) if told == "examples" else None
            gate = Gate.start(catalogue(size)[0], examples=given, limits=Limits(seconds=None))
            for way, sends_messages in WAYS.items():
                of = {"tools": int(size), "told": told, "way": way}
                measured_so_far.append({**of, **measured(gate, size, sends_messages=sends_messages)})
    gate = Gate.start(catalogue("40")[0], limits=Limits(seconds=None))
    for way, sends_messages in WAYS.items():
        there = of_four_subjects(gate, sends_messages=sends_messages)
        of = {"tools": 40, "told": "no examples", "way": f"four subjects, {way}"}
        measured_so_far.append({**of, "turns": len(SUBJECTS), "with all tools": there, "joined a turn": 0.0})
    return measured_so_far


def table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| turns with all their tools and no search | 40 tools | joined a turn | 400 tools | joined a turn |",
        "|" + " --- |" * 5,
    ]
    for told in ("no examples", "examples"):
        for way in WAYS:
            cells: list[str] = []
            for size in map(int, SIZES):
                (row,) = (row for row in stored if (row["tools"], row["told"], row["way"]) == (size, told, way))
                cells += [f"{row['with all tools']} of {row['turns']}"]
                cells += [f"{row['joined a turn']:.2f}" if way == "joined" else "-"]
            name = "`Gate.start`" if told == "no examples" else "`Gate.start`, with examples"
            if way == "tools alone":
                name = f"{name}, tools alone"
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, rows, table))
