"""Should a gate that has examples decide by a policy fitted on them? Beside the best eight, on everyday requests.

python benchmarks/examples_policy.py                 a table
python benchmarks/examples_policy.py --json FILE     the same numbers as JSON
python benchmarks/examples_policy.py --check FILE    exit 1 where they are not what the file has

Needs the extra start. Over the 40 tools of tests/data/everyday. A fifth of the examples at a time is ranked by a
`Start` that has read the others, as real requests will be. The default is fitted on these rankings, and gives on
average, on them, as many tools as the rule beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from conversations import decided as decided_turns
from examples import SHARE
from first_day import NOISE, WORKING_SET, Way, decided

import camdf
from camdf.core.rankings import LoggedTasks
from camdf.core.vectors import from_bytes
from camdf.datasets.gather import Gathered
from camdf.gate import Gate, Limits
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.pressure import pressure_for_tools
from camdf.policies.rules import TopK, TopShare
from camdf.scorers import Start
from camdf.scorers.base import vector_of
from camdf.tools import view

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from everyday import catalogue, conversations, examples, requests

SIZE = "40"
"""Which list."""

FOLDS = 5
RECOURSE = 0.9
"""What a task is worth if a tool has to be searched for."""


def ranked() -> LoggedTasks:
    """The examples as tasks, each part ranked by the others."""
    tools = [view(tool) for tool in catalogue(SIZE)[0]]
    known = [example for example in examples(SIZE) if example.needed and not example.alternatives]
    order = np.random.default_rng(0).permutation(len(known)) % FOLDS
    gathered = Gathered()
    for fold in range(FOLDS):
        scorer = Start(examples=[example for example, part in zip(known, order, strict=True) if part != fold])
        for number in np.flatnonzero(order == fold):
            text = known[number].text
            needed = known[number].needed
            scores = dict(zip((tool.name for tool in tools), scorer(text, tools), strict=True))
            vector = from_bytes([vector_of(scorer, text)])[0].tolist()
            gathered.add(str(number), str(number), scores, needed, len(needed), None, vector)
    return gathered.logged(priced=False, keep_order=False)


def measured() -> list[dict[str, Any]]:
    """Requests with all needed tools loaded, and turns of conversations, by rule and by the fitted policy."""
    logged = ranked()
    policy = ExpectedPayoffBySet().fit(logged, camdf.Payoff(0.1))
    scorer = Start(examples=examples(SIZE))
    rows = []
    share = SHARE * logged.rankings.width
    for name, rule, tools in (
        ("the best eight", TopK(WORKING_SET), WORKING_SET),
        (f"the best {SHARE:.0%}", TopShare(SHARE), share),
    ):
        payoff = pressure_for_tools(policy, logged, "exact", RECOURSE, tools=tools)
        for chosen, at in ((rule, camdf.Payoff(0.0)), (policy, payoff)):
            gate = Gate(chosen, scorer, at, limits=Limits(seconds=None))
            way = Way("Start", "", gate, True)
            asked = [request for request in requests() if request.size == SIZE and request.needed]
            kept = [set(decided(way, request).kept) for request in asked]
            loaded = [
                all(needed & here for needed in request.needed) for request, here in zip(asked, kept, strict=True)
            ]
            rows.append(
                {
                    "loads": name if chosen is rule else f"{name}, as a mean of the fitted policy",
                    "requests": len(asked),
                    "loaded": sum(loaded),
                    "tools": round(float(np.mean([len(here) for here in kept])), 2),
                    "conversations": of_conversations(gate),
                }
            )
    return rows


def of_conversations(gate: Gate) -> dict[str, Any]:
    """Those over the 40 tools, with a tool search: turns with signal, those that have what they need, what is kept."""
    turns = [
        (turn.needed <= kept, len(kept) / len(one.tools))
        for one in conversations()
        if len(one.tools) == int(SIZE)
        for turn, kept in decided_turns(gate, one, True)
        if turn.signal
    ]
    loaded, shares = zip(*turns, strict=True)
    return {"turns": len(turns), "needed tools loaded": sum(loaded), "mean share": round(float(np.mean(shares)), 4)}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| loads | requests with all needed tools | tools a request | turns of conversations |",
        "|" + " --- |" * 4,
    ]
    for row in rows:
        turns = row["conversations"]
        share = f"{turns['needed tools loaded'] / turns['turns']:.0%} at {turns['mean share']:.0%} of the list"
        lines.append(f"| {row['loads']} | {row['loaded']} of {row['requests']} | {row['tools']:.1f} | {share} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    rows = measured()
    print(table(rows))
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")
    stored = json.loads(chosen.check.read_text()) if chosen.check else rows
    return int(any(abs(before["loaded"] - now["loaded"]) > NOISE for before, now in zip(stored, rows, strict=True)))


if __name__ == "__main__":
    raise SystemExit(main())
