"""What the filled tables say together: verdicts counted, and the findings that stand out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from camdf_lab.paper.table import Result, Table

VERDICTS = ("replicates", "same direction", "unclear in both", "differs", "cannot be compared")
"""Every verdict, best first. Where neither side is clear nothing is found, so nothing can replicate."""

NOT_PAYOFFS = frozenset({"lite-coefficients"})
"""Tables whose signed numbers are not differences in payoff: their numbers are judged, but are no gain and no loss."""

FINDINGS_SHOWN = 8
"""How many of the largest gains and of the largest losses a page names."""


def by_place(table: Table, results: Iterable[Result]) -> dict[tuple[str, str], Result]:
    """(row, column) -> result, of one table; `results` may hold those of other tables too."""
    return {(result.row, result.column): result for result in results if result.table == table.name}


def verdict_counts(results: Iterable[Result]) -> dict[str, int]:
    """How many results have each verdict, in the order of `VERDICTS`."""
    counts = Counter(result.verdict for result in results)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def sentences(results: Sequence[Result]) -> list[str]:
    """Plain sentences for readers: how many findings replicate, and how often a policy wins and loses."""
    counts = verdict_counts(results)
    compared = len(results) - counts["cannot be compared"]
    opposite = sum((result.verdict, result.why) == ("unclear in both", "with opposite signs") for result in results)
    said = [
        f"Of {_counted(len(results), 'number')}, {compared:,} can be compared with the paper: "
        f"{counts['replicates']:,} replicate, clear in both with the same sign; {counts['same direction']:,} go the "
        f"same direction, clear in one of them; {counts['unclear in both']:,} are clear in neither, "
        f"{opposite:,} of these with opposite signs; and {counts['differs']:,} differ."
    ]
    reasons = Counter(result.why for result in results if result.verdict == "cannot be compared")
    if reasons:
        listed = "; ".join(f"{why} ({count:,})" for why, count in reasons.most_common())
        said.append(f"{counts['cannot be compared']:,} cannot be compared: {listed}.")
    measured = [r.margin for r in results if r.margin.clear is not None and r.table not in NOT_PAYOFFS]
    if measured:
        ahead = sum(bool(margin.clear) and margin.value > 0 for margin in measured)
        behind = sum(bool(margin.clear) and margin.value < 0 for margin in measured)
        said.append(
            f"Of {_counted(len(measured), 'difference')} measured here, the policy under test is clearly ahead in "
            f"{ahead:,}, clearly behind in {behind:,}, and neither in {len(measured) - ahead - behind:,}."
        )
    return said


def largest(results: Iterable[Result], sign: int) -> list[Result]:
    """The largest clear gains (`sign` 1) or losses (-1), one a table, so that no table fills the list alone."""
    best: dict[str, Result] = {}
    for result in results:
        if result.margin.clear and sign * result.margin.value > 0 and result.table not in NOT_PAYOFFS:
            held = best.get(result.table)
            if held is None or sign * result.margin.value > sign * held.margin.value:
                best[result.table] = result
    return sorted(best.values(), key=lambda result: -sign * result.margin.value)[:FINDINGS_SHOWN]


def departures(results: Iterable[Result]) -> list[Result]:
    """The findings that differ, one a table, furthest from the paper's number first."""
    furthest: dict[str, Result] = {}
    for result in results:
        if result.verdict == "differs":
            held = furthest.get(result.table)
            if held is None or _distance(result) > _distance(held):
                furthest[result.table] = result
    return sorted(furthest.values(), key=_distance, reverse=True)[:FINDINGS_SHOWN]


def _distance(result: Result) -> float:
    if result.paper_margin is None:
        return 0.0
    return abs(result.margin.value - result.paper_margin.value)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
