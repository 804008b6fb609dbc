"""How often is `camdf compare` wrong, and how soon is it sure? Made-up deployments, whose effects are known.

    python benchmarks/compare.py --json results/compare.json     all histories, some minutes
    python benchmarks/compare.py --check results/compare.json    the first of them again, and the bounds

A history is 60 days of 100 conversations, of which a fifth sees every tool and succeeds in 90% of cases. Gating takes
60% of the tokens away, whose number is spread as widely as such numbers are (log-normal, a standard deviation as large
as the mean), and changes success by what the row says. `camdf compare` looks every day, at a margin of 3 points.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from camdf.evaluation.compare import compare

EFFECTS = (0.0, -0.01, -0.03, -0.06)
HISTORIES = 500
FIRST = 25
DAYS = 60
A_DAY = 100
EXPLORED = 0.2
SUCCESS = 0.9
TOKENS = 8000.0
SAVED = 0.6
MARGIN = 0.03
WRONG = 0.05


def history(effect: float, number: int) -> dict[str, Any]:
    """What one history saw: whether a truth was ever outside, and on which day each verdict first came."""
    rng = np.random.default_rng([number, round(-1000 * effect)])
    n = DAYS * A_DAY
    gated = rng.random(n) >= EXPLORED
    success = (rng.random(n) < np.where(gated, SUCCESS + effect, SUCCESS)).astype(np.float64)
    spread = np.sqrt(np.log(2.0))
    tokens = np.where(gated, 1 - SAVED, 1.0) * TOKENS * rng.lognormal(-(spread**2) / 2, spread, n)
    seen: dict[str, Any] = {"success": False, "input_tokens": False, "safe": None, "harms": None, "saves": None}
    for day in range(1, DAYS + 1):
        some = slice(0, day * A_DAY)
        found = compare(gated[some], {"success": success[some], "input_tokens": tokens[some]}, MARGIN)
        if found.early:
            continue
        truths = {"success": effect, "input_tokens": -SAVED * TOKENS}
        for name, truth in truths.items():
            interval = found.measures[name].difference
            seen[name] |= not interval.low <= truth <= interval.high
        for name, said in (("safe", found.is_safe), ("harms", found.harms), ("saves", bool(found.saves))):
            if said and seen[name] is None:
                seen[name] = day
    return seen


def summary(histories: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares of histories, and the median day of those that came to a verdict."""
    measures = ("success", "input_tokens")
    found: dict[str, Any] = {
        "outside": {name: sum(each[name] for each in histories) / len(histories) for name in measures}
    }
    for name in ("safe", "harms", "saves"):
        days = [each[name] for each in histories if each[name] is not None]
        found[name] = {"share": len(days) / len(histories), "median_day": float(np.median(days)) if days else None}
    return found


def errors(figures: dict[str, Any]) -> dict[str, float]:
    """In which share of histories something false was said on any day."""
    outside = [each["outside"] for each in figures.values()]
    return {
        "the interval of success misses": float(np.mean([each["success"] for each in outside])),
        "the interval of tokens misses": float(np.mean([each["input_tokens"] for each in outside])),
        "harm is seen where there is none": figures["0.0"]["harms"]["share"],
        "a fall by the margin or more is called safe": max(
            figures[str(effect)]["safe"]["share"] for effect in EFFECTS if effect <= -MARGIN
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to store all histories' figures")
    parser.add_argument("--check", type=Path, help="stored figures to compare the first histories with")
    options = parser.parse_args()
    if options.check:
        stored = json.loads(options.check.read_text())
        for effect in EFFECTS:
            now = summary([history(effect, number) for number in range(FIRST)])
            if now != stored["first"][str(effect)]:
                sys.exit(f"compare: the first histories at {effect} give {now}, stored {stored['first'][str(effect)]}")
        for name, share in errors(stored["all"]).items():
            if share > WRONG:
                sys.exit(f"compare: {name} in {share:.1%} of histories, where {WRONG:.0%} are allowed")
        print("compare: the first histories are as stored, and none of the errors exceeds 5%")
        return
    figures: dict[str, Any] = {"histories": HISTORIES, "first": {}, "all": {}}
    for effect in EFFECTS:
        found = [history(effect, number) for number in range(HISTORIES)]
        figures["first"][str(effect)] = summary(found[:FIRST])
        figures["all"][str(effect)] = summary(found)
        print(effect, figures["all"][str(effect)], flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
