"""How far a reader moves to follow one decision: `python scripts/decision_moves.py`.

Two decisions are followed: one of a policy over four tools, and that of `Gate.start` over forty as a client sends them.
Counted are the functions of camdf in the order in which they are called, on the thread of the caller and on that of the
scorer. A move is a call in another file than the call before. Comprehensions and lambdas count as part of the function
that they stand in, and what is called for each of the tools counts each time. Threads are those that run any of it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import camdf
from camdf import Gate, Payoff, ScoreAtLeast
from camdf.gate import Limits
from camdf.tools import Tool

PACKAGE = str(Path(camdf.__file__).parent)
TOOLS = [
    Tool("get_weather", "Weather of a city"),
    Tool("send_mail", "Send an e-mail"),
    Tool("search_web", "Search the web"),
    Tool("read_file", "Read a file"),
]


def falling(task: str, tools: Sequence[Tool]) -> list[float]:
    """A scorer that prefers the first tools."""
    return [1.0 - place / len(tools) for place in range(len(tools))]


FORTY = [
    {
        "type": "function",
        "function": {
            "name": f"do_thing_{number}",
            "description": f"Does the thing number {number} for a customer, and says how it went.",
            "parameters": {"type": "object", "properties": {"customer": {"type": "string"}}},
        },
    }
    for number in range(40)
]


class Followed(NamedTuple):
    """What was called, and on how many threads."""

    calls: list[tuple[str, str]]
    """The file and the name of every function, in order."""

    threads: int


def followed(gate: Gate, tools: Sequence[Any], first: str, second: str) -> Followed:
    """The second decision of a gate."""
    calls = list[tuple[str, str]]()
    threads = set[int]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            calls.append((code.co_filename.removeprefix(PACKAGE), code.co_name))
            threads.add(threading.get_ident())

    threading.setprofile(note)  # for the scorer's thread, which the first decision starts
    gate.decide(first, tools)
    calls.clear()
    threads.clear()
    sys.setprofile(note)
    gate.decide(second, tools)
    sys.setprofile(None)
    threading.setprofile(None)
    return Followed(calls, len(threads))


def told(name: str, decision: Followed) -> str:
    """The counts in a line."""
    files = [file for file, _ in decision.calls]
    moves = [pair for pair in pairwise(files) if pair[0] != pair[1]]
    return (
        f"{name}: {len(set(decision.calls))} functions in {len(set(files))} files, {len(decision.calls)} calls, "
        f"{len(moves)} moves between files, threads: {decision.threads}"
    )


def main() -> None:
    """Print the counts, and the moves that are made most often."""
    texts = ("Send a mail to the office", "What is the weather in Oslo?")
    small = followed(Gate(ScoreAtLeast(0.5), falling, Payoff(0.05)), TOOLS, *texts)
    print(told("four tools", small))
    unlimited = Gate(ScoreAtLeast(0.5), falling, Payoff(0.05), limits=Limits(seconds=None))
    print(told("four tools, no time limit", followed(unlimited, TOOLS, *texts)))
    print(told("Gate.start over forty", followed(Gate.start(FORTY), FORTY, *texts)))
    files = [file for file, _ in small.calls]
    moves = [pair for pair in pairwise(files) if pair[0] != pair[1]]
    for pair in sorted(set(moves), key=lambda pair: -moves.count(pair))[:10]:
        print(f"{moves.count(pair):4}  {pair[0]} -> {pair[1]}")


if __name__ == "__main__":
    main()
