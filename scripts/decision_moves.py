"""How far a reader moves to follow one decision over four tools: `python scripts/decision_moves.py`.

Counted are the functions of camdf in the order in which they are called, on the thread of the caller and on that of the
gate. A move is a call in another file than the call before. Comprehensions and lambdas count as part of the function
that they stand in, and what is called for each of the tools counts each time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType

import camdf
from camdf import Gate, Payoff, ScoreAtLeast
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


def calls_of_a_decision() -> list[tuple[str, str]]:
    """The file and the name of every function, as called by the second decision of a gate."""
    calls = list[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            calls.append((code.co_filename.removeprefix(PACKAGE), code.co_name))

    threading.setprofile(note)  # for the gate's thread, which the first decision starts
    gate = Gate(ScoreAtLeast(0.5), falling, Payoff(0.05))
    gate.decide("Send a mail to the office", TOOLS)
    calls.clear()
    sys.setprofile(note)
    gate.decide("What is the weather in Oslo?", TOOLS)
    sys.setprofile(None)
    return calls


def main() -> None:
    """Print the counts, and the moves that are made most often."""
    calls = calls_of_a_decision()
    files = [file for file, _ in calls]
    moves = [pair for pair in pairwise(files) if pair[0] != pair[1]]
    print(
        f"{len(set(calls))} functions in {len(set(files))} files, {len(calls)} calls, {len(moves)} moves between files"
    )
    for pair in sorted(set(moves), key=lambda pair: -moves.count(pair))[:10]:
        print(f"{moves.count(pair):4}  {pair[0]} -> {pair[1]}")


if __name__ == "__main__":
    main()
