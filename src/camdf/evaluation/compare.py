"""Did the cut pay? Gated conversations beside those that saw every tool, with intervals that hold at every look.

A gate deals conversations to the two arms by chance (`Gate(explore=0.1)`, or a rollout), so that a difference of their
means is what the cut did. One looks at it every day, so its interval must hold at all looks together: the asymptotic
confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (Time-uniform central limit theory and asymptotic
confidence sequences, Annals of Statistics 2024). With n conversations of which a share p is gated, the difference of
means behaves as a mean of n terms with variance s^2 = s_1^2 / p + s_0^2 / (1 - p), and lies within

    s * sqrt(2 (n r^2 + 1) / (n r)^2 * log(sqrt(n r^2 + 1) / alpha))

of the truth at all n at once, but for a share alpha of histories; r is set so that it is narrowest at `NARROWEST`. As
the central limit theorem, it wants some conversations first: `FEWEST_OF_AN_ARM` an arm.

Conversations that began and never ended, or have no outcome where one is required, count as failed in both arms. Where
an arm lost more of them than the other, or has more conversations than it was dealt, what is left of the arms is not
comparable any more, and nothing good is said.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import erfc, inf, isnan, log, nan, sqrt
from typing import Any

import numpy as np

from camdf.core.rankings import Bools, Floats
from camdf.core.resampling import Interval
from camdf.errors import UsageError

ERROR = 0.05
FEWEST_OF_AN_ARM = 100
MOST = 10**9
"""More conversations than that are called never."""

NARROWEST = 2000
"""Conversations at which the intervals are as narrow as they can be made; nowhere are they much wider than that."""

SUCCESS = "success"
UNEQUAL = 0.01
"""How unlikely under equal arms what was lost, or what was dealt, must be for the arms to be called unequal."""

_LOG = -2 * log(ERROR)
_RATE = (_LOG + log(_LOG + 1)) / NARROWEST


@dataclass(frozen=True)
class Measure:
    """The means of one measure in the two arms, and what gating changed; NaN where nobody recorded it in an arm."""

    gated: float
    everything: float
    difference: Interval
    spread: float
    """s: the standard deviation of one conversation's part in the difference."""

    known: tuple[int, int]
    """Conversations of each arm in which it was recorded."""

    @property
    def early(self) -> bool:
        """Whether it was recorded too rarely for an interval."""
        return min(self.known) < FEWEST_OF_AN_ARM

    def record(self) -> dict[str, float | None]:
        """As JSON."""
        means = {
            "gated": _none_for_nan(self.gated),
            "everything": _none_for_nan(self.everything),
            "difference": _none_for_nan(self.difference.mean),
        }
        if self.early:
            return means
        return {**means, "low": self.difference.low, "high": self.difference.high}


@dataclass(frozen=True)
class Comparison:
    """Both arms, measure by measure. `margin` is how much success may fall and still be called safe."""

    gated: int
    everything: int
    measures: Mapping[str, Measure]
    margin: float
    lost: tuple[int, int] = (0, 0)
    """Conversations of each arm that count as failed because nobody knows how they ended."""

    unplaced: int = 0
    """Other conversations without an end, of which nobody knows the arm."""

    share: float | None = None
    """The share of conversations that were to be gated."""

    @property
    def unequal(self) -> str:
        """Why the arms cannot be compared, or ""."""
        begun = (self.gated, self.everything)
        if self.share is not None and chance_of_share(*begun, self.share) < UNEQUAL:
            part = self.gated / max(sum(begun), 1)
            return f"{part:.1%} of the conversations were gated, and {self.share:.1%} were to be"
        if chance_of_equal_shares(self.lost, begun) < UNEQUAL:
            return f"{self._lost_in_words()} never ended"
        if chance_of_equal_shares((self.lost[0] + self.unplaced, self.lost[1]), begun) < UNEQUAL:
            return f"nobody knows the arm of {self.unplaced:,} conversations that never ended"
        return ""

    def _lost_in_words(self) -> str:
        shares = [lost / max(n, 1) for lost, n in zip(self.lost, (self.gated, self.everything), strict=True)]
        return f"{shares[0]:.1%} of the gated conversations and {shares[1]:.1%} of those that saw every tool"

    @property
    def bounds(self) -> tuple[float, float]:
        """By how much success changed at the worst, and at the best, whatever became of those that were lost."""
        success = self.measures[SUCCESS]
        least, most = self._bounds_of_arm(success.gated, success.known[0], self.lost[0])
        least_other, most_other = self._bounds_of_arm(success.everything, success.known[1], self.lost[1])
        return least - most_other, most - least_other

    def _bounds_of_arm(self, mean: float, n: int, lost: int) -> tuple[float, float]:
        """The share that succeeded of n if all the lost and unplaced failed, and if they all succeeded."""
        most_begun = max(n + self.unplaced, 1)
        return mean * n / most_begun, (mean * n + lost + self.unplaced) / most_begun

    @property
    def early(self) -> bool:
        """Whether there are too few conversations of which it is known whether they succeeded."""
        return self.measures[SUCCESS].early

    @property
    def harms(self) -> bool:
        """Whether success is shown to have fallen."""
        return not self.early and self.measures[SUCCESS].difference.high < 0

    @property
    def is_safe(self) -> bool:
        """Whether success is shown not to have fallen by more than the margin."""
        shown = not self.early and self.measures[SUCCESS].difference.low > -self.margin
        return shown and not self.unequal

    @property
    def saves(self) -> str:
        """The first of dollars and input tokens that is shown to be saved, or ""."""
        shown = (name for name in ("dollars", "input_tokens") if name in self.measures)
        return next((name for name in shown if self._shows_less(self.measures[name])), "")

    def _shows_less(self, measure: Measure) -> bool:
        return not self.early and not measure.early and measure.difference.high < 0

    @property
    def wanted(self) -> int | None:
        """How many more conversations it takes until success is shown to be safe, if all goes on as it does.

        None where it never will be, because success falls by more than the margin.
        """
        if self.is_safe:
            return 0
        if self.unequal:
            return None
        success = self.measures[SUCCESS]
        n = sum(success.known)
        fewest = min(success.known)
        if fewest == 0:
            return None
        if self.early:
            return FEWEST_OF_AN_ARM * n // fewest + 1 - n
        room = success.difference.mean + self.margin
        if room <= 0:
            return None
        more = bisect_left(range(n, MOST), True, key=lambda count: half_width(count, success.spread) < room)
        if n + more >= MOST:
            return None
        return max(more, 1)

    @property
    def verdict(self) -> str:
        """One sentence: what to do."""
        if self.early:
            gated, everything = self.measures[SUCCESS].known
            known = ""
            if gated + everything < self.gated + self.everything:
                known = " whose success is known"
            return (
                f"Too early: {gated:,} gated conversations and {everything:,} that saw every tool{known}, and at "
                f"least {FEWEST_OF_AN_ARM} of each are needed. {self._what_will_tell()}"
            )
        success = self.measures[SUCCESS]
        fell = f"{100 * success.difference.mean:+.1f} points ({_points(success.difference)} at every look)"
        if self.harms:
            return f"Stop: success changed by {fell}. Lower the cost pressure, or gate with a tool search."
        if self.unequal:
            return (
                f"The arms cannot be compared: {self.unequal}. Success changed by {fell}, and by "
                f"{100 * self.bounds[0]:+.1f} to {100 * self.bounds[1]:+.1f} points whatever became of the lost ones."
            )
        if not self.is_safe:
            return f"Not shown to be safe yet: success changed by {fell}. {self._what_will_tell()}"
        if not self.saves:
            return f"Safe, and not shown to save anything: success changed by {fell}."
        saved = self.measures[self.saves]
        part = -saved.difference.mean / saved.everything if saved.everything else 0.0
        return f"Pays: {part:.0%} fewer {MEASURE_NAMES[self.saves]} a conversation, and success changed by {fell}."

    def _what_will_tell(self) -> str:
        wanted = self.wanted
        if wanted is not None:
            return f"About {wanted:,} more conversations will tell, if they go on as they do."
        if self.early:
            return "Gate some, and explore with some."
        return "More of the same will not change that."

    def table(self) -> str:
        """A row a measure."""
        lines = [f"{'a conversation':<16} {'gated':>12} {'every tool':>12} {'difference':>12}  at every look"]
        for name, measure in self.measures.items():
            shown = _percent_or_unknown if name == SUCCESS else _number_or_unknown
            difference = measure.difference
            interval = "" if measure.early else f"{shown(difference.low)} to {shown(difference.high)}"
            lines.append(
                f"{MEASURE_NAMES[name]:<16} {shown(measure.gated):>12} {shown(measure.everything):>12} "
                f"{shown(difference.mean):>12}  {interval}"
            )
        if any(self.lost) or self.unplaced:
            worst, best = map(_percent_or_unknown, self.bounds)
            told = f"\nNobody knows how {self._lost_in_words()} ended: they count as failed."
            if self.unplaced:
                told += f" The arm of {self.unplaced:,} more is unknown."
            lines.append(f"{told} Whatever became of them, success changed by {worst} to {best}.")
        return "\n".join(line.rstrip() for line in lines)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "gated": self.gated,
            "everything": self.everything,
            "measures": {name: measure.record() for name, measure in self.measures.items()},
            "margin": self.margin,
            "lost": {"gated": self.lost[0], "everything": self.lost[1], "unknown_arm": self.unplaced},
            "bounds": [_none_for_nan(bound) for bound in self.bounds],
            "unequal": self.unequal,
            "safe": self.is_safe,
            "saves": self.saves,
            "wanted": self.wanted,
            "verdict": self.verdict,
        }


MEASURE_NAMES = {
    SUCCESS: "success",
    "tool_calls": "tool calls",
    "input_tokens": "input tokens",
    "dollars": "dollars",
    "seconds": "seconds",
}


def compare(
    gated: Bools,
    measures: Mapping[str, Floats],
    margin: float = 0.02,
    *,
    lost: Bools | None = None,
    unplaced: int = 0,
    share: float | None = None,
) -> Comparison:
    """Conversations that were gated, and others that had every tool: how what was measured differs.

    Args:
        gated: (n,): whether a conversation was gated.
        measures: (n,) each, by name, NaN where nobody recorded it. `success` must be among them, as 0 or 1.
        margin: How much success may fall and still be called safe.
        lost: (n,): those that are lost count as failed.
        unplaced: Of so many more nobody knows the arm.
        share: The share of conversations that were to be gated.
    """
    if not 0 < margin < 1:
        raise UsageError(f"The 'margin' of success must lie between 0 and 1. Got {margin!r} instead.")
    if share is not None and not 0 < share < 1:
        raise UsageError(f"The 'share' to be gated must lie between 0 and 1. Got {share!r} instead.")
    if lost is None:
        lost = np.zeros(len(gated), dtype=bool)
    counted = {**measures, SUCCESS: np.where(lost, 0.0, measures[SUCCESS])}
    compared = {name: _measure_of_arms(gated, values, binary=name == SUCCESS) for name, values in counted.items()}
    by_arm = int((lost & gated).sum()), int((lost & ~gated).sum())
    return Comparison(int(gated.sum()), int((~gated).sum()), compared, margin, by_arm, unplaced, share)


def chance_of_share(gated: int, everything: int, share: float) -> float:
    """How likely a share at least this far from the one that was dealt is, by the normal law.

    >>> round(chance_of_share(520, 480, 0.5), 3)
    0.206
    """
    n = gated + everything
    if n == 0:
        return 1.0
    return erfc(abs(gated - n * share) / sqrt(2 * n * share * (1 - share)))


def chance_of_equal_shares(lost: tuple[int, int], begun: tuple[int, int]) -> float:
    """How likely shares at least this far apart are where both arms lose alike, by the normal law of the pooled share.

    >>> round(chance_of_equal_shares((30, 20), (1000, 1000)), 3)
    0.152
    """
    pooled = sum(lost) / max(sum(begun), 1)
    if not all(begun) or not 0 < pooled < 1:
        return 1.0
    spread = sqrt(2 * pooled * (1 - pooled) * sum(1 / n for n in begun))
    return erfc(abs(lost[0] / begun[0] - lost[1] / begun[1]) / spread)


def half_width(n: int, spread: float) -> float:
    """How far the truth may lie from the difference of n conversations, at every n at once.

    >>> [round(half_width(n, 1.0), 3) for n in (200, 2000, 20000)]
    [0.273, 0.068, 0.023]
    """
    grown = n * _RATE + 1
    return spread * sqrt(2 * grown / (n * n * _RATE) * log(sqrt(grown) / ERROR))


def _measure_of_arms(gated: Bools, values: Floats, *, binary: bool) -> Measure:
    known = np.isfinite(values)
    arms = [values[known & gated], values[known & ~gated]]
    counts = (len(arms[0]), len(arms[1]))
    n = sum(counts)
    one = _mean_or_nan(arms[0])
    other = _mean_or_nan(arms[1])
    difference = one - other
    if min(counts) < 2:
        return Measure(one, other, Interval(difference, -inf, inf), inf, counts)
    variances = [_variance(arm, binary) for arm in arms]
    spread = sqrt(sum(variance * n / count for variance, count in zip(variances, counts, strict=True)))
    half = half_width(n, spread)
    return Measure(one, other, Interval(difference, difference - half, difference + half), spread, counts)


def _mean_or_nan(values: Floats) -> float:
    return float(values.mean()) if len(values) else nan


def _variance(values: Floats, binary: bool) -> float:
    """Of one arm; where all of it succeeded, or nothing, as if one more had of each."""
    if binary:
        rate = float(values.sum() + 1) / (len(values) + 2)
        return rate * (1 - rate)
    return float(values.var(ddof=1))


def _points(interval: Interval) -> str:
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _none_for_nan(value: float) -> float | None:
    return None if isnan(value) else value


def _percent_or_unknown(value: float) -> str:
    return "unknown" if isnan(value) else f"{value:.1%}"


def _number_or_unknown(value: float) -> str:
    if isnan(value):
        return "unknown"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 0.1:
        return f"{value:,.2f}"
    return f"{value:,.4f}"
