"""The picture of a learning curve: what `camdf curve` draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from camdf.evaluation.curve import PAPER, RULES, THRESHOLD, Point
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, GREEN, VERMILLION, canvas, styled
from camdf.policies.registry import DEFAULT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

NEAR = 1.4
"""A number of labels is not printed on the axis where the next is less than this many times as large."""


@styled
def curve_picture(points: Sequence[Point]) -> Picture:
    """One learning curve, with a legend."""
    picture, axes = canvas(1.5 * COLUMN, 3.2)
    draw_curve(axes, points)
    axes.set(xlabel="labeled tasks to learn from", ylabel="payoff on held-out tasks, mean")
    picture.legend(loc="outside lower center", ncols=3)
    return picture


def draw_curve(axes: Axes, points: Sequence[Point]) -> None:
    """Payoff against labels: bands are 95% intervals, flat lines are rules that learn nothing.

    The curves fill the panel; a rule that lies outside it is named with its payoff instead.
    """
    labels = [point.labels for point in points]
    fixed = {name: points[-1].payoff[name].mean for name in RULES}
    for (name, payoff), style in zip(fixed.items(), (":", "--", "-."), strict=True):
        axes.axhline(payoff, color=GRAY, linewidth=0.9, linestyle=style, label=name)
    styles = (
        (PAPER, VERMILLION, "s", "CAM-DF"),
        (THRESHOLD, GREEN, "D", "tuned score per cost"),
        (DEFAULT, BLUE, "o", "by set, the default"),
    )
    shown = []
    for name, color, marker, text in styles:
        intervals = [point.payoff[name] for point in points]
        means = [interval.mean for interval in intervals]
        axes.plot(labels, means, color=color, marker=marker, markersize=3, label=text)
        shown += means
        if name != PAPER:
            low = [interval.low for interval in intervals]
            high = [interval.high for interval in intervals]
            axes.fill_between(labels, low, high, color=color, alpha=0.13, linewidth=0)
            shown += low + high
    room = 0.12 * max(max(shown) - min(shown), 0.05)
    bottom = min(shown) - 1.5 * room
    top = max(shown) + room
    outside = [f"{name}: {payoff:.2f}" for name, payoff in fixed.items() if not bottom <= payoff <= top]
    axes.text(0.98, 0.02, "\n".join(outside), transform=axes.transAxes, ha="right", fontsize=5.5, color=GRAY)
    axes.set_ylim(bottom, top)
    axes.set_xscale("log")
    following = [*labels[1:], float("inf")]
    kept = [count for count, after in zip(labels, following, strict=True) if after / count >= NEAR]
    axes.set_xticks(kept, [f"{count:.0f}" for count in kept])
    axes.minorticks_off()
