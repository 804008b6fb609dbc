"""What the gate adds to the scorer's own time. Ratios measured side by side in one run, because machines are shared.

python benchmarks/gate.py            a table
python benchmarks/gate.py --json     the same numbers as JSON
python benchmarks/gate.py --check    exit 1 where a ratio misses its limit twice, with slack for noise
python benchmarks/gate.py --frameworks PYTHON    also what the frameworks of that interpreter take for a model call
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from decision import PAYOFF, SLACK, side_by_side

import camdf
from camdf.checks import sample_tasks
from camdf.core.stopping import hindsight_targets
from camdf.gate import Gate
from camdf.policies.models.linear import logistic_pipeline, state_matrix
from camdf.prices import Prices
from camdf.tools import Tool

LIMITS = {50: 5.0, 500: 12.0}
"""Tools offered, and how many of scikit-learn's calls the first decision on a turn may take.

A scorer with a time limit runs on a thread, so that a decision changes threads twice, even where the scorer takes no
time, as here and nowhere else."""

DECIDED_BEFORE = {50: 1.0, 500: 3.5}
"""And how many a turn that was decided before."""

PAUSES = {50: 2.4, 500: 10.0}
"""And how many an event loop may stand still."""


def tools_of(count: int) -> list[dict[str, Any]]:
    """As a client sends them: a sentence of description and a schema of four arguments each."""
    arguments = {
        name: {"type": "string", "description": f"The {name} to use."} for name in ("id", "day", "place", "note")
    }
    schema = {"type": "object", "properties": arguments, "required": ["id"]}
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{i}",
                "description": f"Does the thing number {i} for a customer and says how it went.",
                "parameters": schema,
            },
        }
        for i in range(count)
    ]


def overhead(listed: int) -> dict[str, float]:
    """A decision with a scorer that takes no time, against scikit-learn's call on features made beforehand."""
    tools = tools_of(listed)
    scores = [(i * 37 % 101) / 101 for i in range(listed)]
    logged = sample_tasks(seed=0, tasks=60, tools=listed)
    targets = hindsight_targets(logged, PAYOFF)
    columns = camdf.CAMDF().fit(sample_tasks(seed=0, tools=20), PAYOFF).model_.columns
    matrix = state_matrix(logged.rankings, PAYOFF, columns, (), targets.state)
    pipeline = logistic_pipeline(matrix, targets.stop[targets.state], targets.weight[targets.state])
    one = logged.rankings.take(slice(0, 1))
    prebuilt = state_matrix(one, PAYOFF, columns, (), one.listed)
    policy = camdf.ExpectedPayoffBySet(identity=False).fit(sample_tasks(seed=0, tools=20), PAYOFF)

    def instant(task: str, offered: Sequence[Tool]) -> list[float]:
        return scores

    gate = Gate(policy, instant, PAYOFF, prices=Prices())
    numbers = count()
    sklearn, whole, inline, again = side_by_side(
        [
            lambda: pipeline.predict_proba(prebuilt),
            lambda: gate.decide(f"do the thing {next(numbers)}", tools),  # what was decided once is not decided again
            lambda: gate.decide("do the thing", tools, scores=scores),
            lambda: gate.decide("do the thing", tools, conversation="c"),
        ],
        rounds=30,
        repeats=10,
    )
    return {
        f"{listed} tools: gate / scikit-learn": whole / sklearn,
        f"{listed} tools: gate with scores given / scikit-learn": inline / sklearn,
        f"{listed} tools: a turn decided before / scikit-learn": again / sklearn,
        f"{listed} tools: longest pause of an event loop / scikit-learn": asyncio.run(
            pause(gate, tools, lambda: pipeline.predict_proba(prebuilt))
        ),
        f"{listed} tools: gate, microseconds": whole * 1e6,
        f"{listed} tools: scikit-learn, microseconds": sklearn * 1e6,
    }


async def pause(gate: Gate, tools: list[dict[str, Any]], beside: Callable[[], object], rounds: int = 400) -> float:
    """The longest that the loop stands still inside one decision, over another call's time: both at their best."""
    best = float("inf")
    other = float("inf")
    for number in range(rounds):
        (took,) = side_by_side([beside], rounds=1, repeats=1)
        other = min(other, took)
        longest = 0.0
        last = time.perf_counter()
        deciding = asyncio.create_task(gate.adecide(f"do thing {number}", tools))
        while not deciding.done():
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now
        best = min(best, longest)
    return best / other


def frameworks(python: str) -> dict[str, float]:
    """What the frameworks themselves take for a model call, measured where they are installed."""
    script = Path(__file__).with_name("framework_calls.py")
    run = subprocess.run([python, str(script)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(run.stdout)
    return found


def limits() -> dict[str, float]:
    pauses = {f"{count} tools: longest pause of an event loop / scikit-learn": most for count, most in PAUSES.items()}
    first = {f"{count} tools: gate / scikit-learn": most for count, most in LIMITS.items()}
    again = {f"{count} tools: a turn decided before / scikit-learn": most for count, most in DECIDED_BEFORE.items()}
    return first | again | pauses


def measured() -> dict[str, float]:
    """The overhead at every number of tools."""
    return {name: value for count in LIMITS for name, value in overhead(count).items()}


def missed(results: dict[str, float]) -> list[str]:
    """The ratios that are beyond their limit, slack included."""
    return [name for name, limit in limits().items() if results[name] > limit * SLACK]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    parser.add_argument("--frameworks", metavar="PYTHON", help="an interpreter that has the frameworks installed")
    options = parser.parse_args()
    results = measured()
    if options.check and missed(results):  # once more: another program may have been ending
        results = {name: min(value, results[name]) for name, value in measured().items()}
    if options.frameworks:
        results |= frameworks(options.frameworks)
    if options.json:
        print(json.dumps({"ratios": results, "limits": limits(), "slack": SLACK}, indent=1))
    else:
        for name, value in results.items():
            limit = f"   (limit {limits()[name]:g})" if name in limits() else ""
            print(f"{value:10.3g}  {name}{limit}")
    over = missed(results) if options.check else []
    for name in over:
        print(f"missed: {name}: {results[name]:.3g}, at most {limits()[name]:g}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
