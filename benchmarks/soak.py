"""A million conversations on one process: threads, memory and answers stay as they are.

python benchmarks/soak.py --json results/soak.json                      a million; some minutes
python benchmarks/soak.py --conversations 80000 --check results/soak.json    a sample now, and what is stored

Every conversation has a name of its own and one turn, every fourth a second one; one in a hundred comes to a gate that
is made for it and dropped, one in ten thousand to a forked process. Policy and scorer are simple: the gate is tried.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import camdf
from camdf.gate import Gate, Records
from camdf.policies.rules import ScoreAtLeast
from camdf.runtime.workers import REST
from camdf.tools import Tool

WHOLE = 1_000_000
LOOKS = 10
"""How often in a whole run threads and memory are looked at; twice in a sample, which must be long enough that what a
gate keeps (scores of 25,000 of these turns, 10,000 conversations) is full at the first look."""

MEGABYTES = 32.0
"""By how much memory may differ between the first look and the last."""

THREADS = 4
"""By how many threads."""

DESCRIPTORS = 4
"""By how many open files."""

LOCK = threading.Lock()
TOOLS = [Tool(f"tool_{i}", f"does the thing number {i}") for i in range(8)]


def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
    """Prefers the tool whose number the task ends with."""
    return [1.0 if tool.name[-1] == task[-1] else 0.1 for tool in tools]


def gate_of(received: list[int]) -> Gate:
    """A gate that counts what it reports."""

    def count(decision: object) -> None:
        with LOCK:
            received[0] += 1

    return Gate(ScoreAtLeast(0.5), scorer, camdf.Payoff(0.06), records=Records(on_decision=count))


def look(conversations: int) -> dict[str, Any]:
    """What the process holds, once threads without work have ended."""
    gc.collect()
    time.sleep(REST + 1)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    threads = threading.active_count()
    return {"conversations": conversations, "mb": kilobytes / 1024, "threads": threads, "descriptors": descriptors}


def wrong(gate: Gate, number: int) -> int:
    """How many answers of a conversation are not as they should be."""
    first = number % 8
    second = (number + 3) % 8
    name = f"conversation {number}"
    bad = int(gate.decide(f"in {number} please do {first}", TOOLS, conversation=name).kept != (f"tool_{first}",))
    if number % 4 == 0:
        kept = gate.decide(f"in {number} then do {second}", TOOLS, conversation=name).kept
        bad += kept != (f"tool_{first}", f"tool_{second}")
    return bad


def wrong_in_a_fork(gate: Gate, number: int) -> int:
    """The same in a process of its own."""
    child = os.fork()
    if child == 0:
        os._exit(wrong(gate, number))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def soak(conversations: int) -> dict[str, Any]:
    """Rows of looks, and how many answers were wrong or never reported."""
    received = [0]
    decided = 0
    gate = gate_of(received)
    looks: list[dict[str, Any]] = []
    bad = 0
    looked_at = LOOKS if conversations == WHOLE else 2
    for number in range(conversations):
        if number % 10_000 == 5_000:
            bad += wrong_in_a_fork(gate, number)
        else:
            bad += wrong(gate_of(received) if number % 100 == 50 else gate, number)
            decided += 1 + (number % 4 == 0)
        if (number + 1) % (conversations // looked_at) == 0:
            looks.append(look(number + 1))
            print(json.dumps(looks[-1]), file=sys.stderr)
    assert gate.sink is not None
    gate.sink.drain()
    time.sleep(1)
    return {"wrong": bad, "unreported": decided - received[0], "remembered": len(gate.memory), "looks": looks}


def missed(found: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    first = found["looks"][0]
    last = found["looks"][-1]
    limits = {"mb": MEGABYTES, "threads": THREADS, "descriptors": DESCRIPTORS}
    grown = [name for name, limit in limits.items() if last[name] - first[name] > limit]
    lines = [f"{name} grew from {first[name]:.4g} to {last[name]:.4g}" for name in grown]
    return lines + [f"{found[name]} {name}" for name in ("wrong", "unreported") if found[name]]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--conversations", type=int, default=WHOLE)
    options.add_argument("--json", type=Path, help="where to store what was measured")
    options.add_argument("--check", type=Path, help="a stored run of a million, which must hold too")
    chosen = options.parse_args()
    found = soak(chosen.conversations)
    problems = missed(found)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if chosen.check:
        stored = json.loads(chosen.check.read_text(encoding="utf-8"))
        problems += [f"stored: {problem}" for problem in missed(stored)]
        if stored["looks"][-1]["conversations"] != WHOLE:
            problems.append(f"stored: {stored['looks'][-1]['conversations']} conversations, and not {WHOLE}")
    print(json.dumps(found["looks"][0]), json.dumps(found["looks"][-1]), sep="\n")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
