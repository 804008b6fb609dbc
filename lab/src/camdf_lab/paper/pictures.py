"""The paper's figures, drawn from outcomes and filled tables: each function returns a matplotlib figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, LoggedTasks
from camdf.errors import UsageError
from camdf.evaluation.drawing import (
    BLACK,
    BLUE,
    COLUMN,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    canvas,
    matplotlib,
    styled,
)
from camdf.evaluation.replay import ORACLE, Outcomes
from camdf_lab.paper.figure import Figure
from camdf_lab.paper.quantities import Difference
from camdf_lab.paper.summary import VERDICTS, by_place, verdict_counts
from camdf_lab.paper.table import Result, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

POLICY_LOOKS = {
    "cam-df": (VERMILLION, "o"),
    "cam-df-lite": (ORANGE, "s"),
    "predict-then-threshold": (BLUE, "^"),
    "aggregate-only-df": (SKY, "v"),
    "score-per-cost-threshold": (GREEN, "D"),
    "score-threshold": (PURPLE, "P"),
    "fixed-k": (GRAY, "X"),
    ORACLE: (BLACK, "*"),
}
OTHER_LOOKS = (("#882255", "<"), ("#44AA99", ">"), ("#332288", "h"), ("#999933", "p"))
"""For policies beyond the paper's main table, in the order in which a picture names them (Tol's muted colors)."""

VERDICT_COLORS = dict(zip(VERDICTS, (BLUE, SKY, "#A9B4BD", VERMILLION, "#E3E3E3"), strict=True))

PRESSURE = "cost pressure λ"
DISPERSION = "cost dispersion d"

HEADING = 36
"""How many characters of a heading fit into one column."""


@styled
def payoff_by_depth_picture(
    logged: LoggedTasks, payoff: Payoff, outcomes: Outcomes, policies: Sequence[str]
) -> Picture:
    """The paper's payoff against tools acquired: one common top-k for all tasks, and policies that choose by task.

    The curve is over all of `logged` and its peak is picked in hindsight; the shading shows on which side of that peak
    a common depth is too small or too large. The lower panel enlarges the region of the policies, with one standard
    error to either side.
    """
    picture, (whole, near) = canvas(COLUMN, 4.6, rows=2)
    common = payoff.by_depth(logged).mean(axis=0)
    points = np.array([(outcomes.mean(policy, "tools"), outcomes.mean(policy)) for policy in policies])
    errors = np.array([outcomes.standard_error(policy) for policy in policies])
    for axes, size in ((whole, 4.0), (near, 6.0)):
        _shade_sides(axes, int(common.argmax()), len(common) - 1)
        axes.plot(common, color=GRAY, linewidth=1.3, marker=".", markersize=4, label="common top-k", zorder=2)
        for policy, look, point in zip(policies, _looks(policies), points, strict=True):
            axes.plot(*point, linestyle="none", label=policy, zorder=4, **_marker(look, size))
        axes.set_ylabel("payoff, mean per task")
    low = min(common.min(), points[:, 1].min())
    high = max(common.max(), points[:, 1].max())
    room = 0.06 * (high - low)
    whole.set(xlim=(-0.3, len(common) - 0.7), ylim=(low - room, high + 3 * room))
    whole.xaxis.get_major_locator().set_params(integer=True)
    _name_sides(whole, int(common.argmax()), len(common) - 1)
    _enlarge(whole, near, np.vstack([points - errors[:, None] * [0, 1], points + errors[:, None] * [0, 1]]))
    colors = [color for color, _ in _looks(policies)]
    near.errorbar(*points.T, errors, fmt="none", ecolor=colors, elinewidth=0.8, zorder=3)
    near.set_ylabel("payoff ± SE, enlarged")
    near.set_xlabel("tools acquired, mean per task")
    _legend_below(picture, near)
    return picture


@styled
def dispersion_picture(outcomes: Mapping[float, Outcomes], policies: Sequence[str]) -> Picture:
    """Mean payoff against cost dispersion, one curve a policy, with one standard error to either side.

    `outcomes` maps d to the replay at that dispersion. Points that share a d stand side by side, so that readers can
    tell their bars apart.
    """
    picture, axes = canvas(COLUMN, 3.3)
    spreads = np.array(sorted(outcomes))
    step = float(np.diff(spreads).min()) if len(spreads) > 1 else 1.0
    shifts = np.linspace(-0.09, 0.09, len(policies)) * step
    for policy, look, shift in zip(policies, _looks(policies), shifts, strict=True):
        means = [outcomes[d].mean(policy) for d in spreads]
        errors = [outcomes[d].standard_error(policy) for d in spreads]
        axes.errorbar(spreads + shift, means, errors, label=policy, elinewidth=0.8, linewidth=1.1, **_marker(look, 5.5))
    axes.set(xticks=spreads, xlabel=DISPERSION, ylabel="payoff, mean per task ± SE")
    _legend_below(picture, axes)
    return picture


@styled
def regime_picture(table: Table, results: Iterable[Result]) -> Picture:
    """A table's differences over cost pressure and dispersion, one panel a baseline.

    Red favors the policy, blue the baseline. All panels share one color scale, symmetric around zero; every square
    prints its value, with a star where its interval excludes zero. Only differences on a single cell are drawn.
    """
    squares = _squares(table, results)
    panels = list(dict.fromkeys(square.baseline for square in squares))
    dispersions = sorted({square.dispersion for square in squares})
    pressures = sorted({square.pressure for square in squares})
    reach = max(abs(square.difference.value) for square in squares) or 1.0
    width = 0.8 + len(panels) * (0.2 + 0.45 * len(pressures))
    picture, axes = canvas(max(width, COLUMN), 1.0 + 0.34 * len(dispersions), columns=len(panels))
    for axis, panel in zip(np.ravel(axes), panels, strict=True):
        inside = [square for square in squares if square.baseline == panel]
        shading = _draw_grid(axis, dispersions, pressures, inside, reach)
        axis.set_title(f"over {panel}")
        axis.label_outer()
    bar = picture.colorbar(shading, ax=axes, aspect=18, pad=0.03, shrink=0.95)
    bar.outline.set_visible(False)
    bar.set_label("gain in mean payoff")
    return picture


@styled
def interval_picture(results: Iterable[Result]) -> Picture:
    """A forest plot: differences with 95% intervals, ours beside the paper's, a group a row and a line a column.

    A filled marker is a difference whose interval excludes zero, a cross one of the paper's whose interval is unknown.
    Results of ours without an interval are left out.
    """
    shown = [result for result in results if result.ours.low is not None]
    if not shown:
        raise UsageError(
            "The 'results' of interval_picture must hold at least one difference with an interval. Got none."
        )
    groups = {result.row: textwrap.wrap(result.row, HEADING, break_on_hyphens=False) for result in shown}
    heights = _heights(shown, groups)
    lowest = max(heights) + 1.0
    picture, axes = canvas(COLUMN, 0.75 + 0.155 * (lowest + 1))
    for result, height in zip(shown, heights, strict=True):
        _draw_interval(axes, result.ours, height - 0.16, BLUE, "o")
        if result.paper is not None:
            _draw_interval(axes, result.paper, height + 0.20, VERMILLION, "D")
    _label_groups(axes, shown, heights, groups)
    axes.set(ylim=(lowest, -1.1), xlabel="difference in mean payoff, 95% interval")
    axes.locator_params(axis="x", nbins=6)
    _interval_legend(picture, shown)
    return picture


@styled
def verdict_picture(results: Mapping[str, Sequence[Result]]) -> Picture:
    """One bar a table, its name to the left: the share of every verdict, with counts inside."""
    picture, axes = canvas(COLUMN * 1.5, 0.75 + 0.23 * len(results))
    for line, judged in enumerate(results.values()):
        left = 0.0
        for verdict, count in verdict_counts(judged).items():
            share = count / max(len(judged), 1)
            axes.barh(line, share, left=left, height=0.68, color=VERDICT_COLORS[verdict], edgecolor="white")
            if share > 0.016 * len(str(count)):
                dark = verdict in ("replicates", "differs")
                axes.text(
                    left + share / 2,
                    line,
                    str(count),
                    ha="center",
                    va="center",
                    color="w" if dark else "k",
                    fontsize=7,
                )
            left += share
    axes.set(yticks=range(len(results)), yticklabels=list(results), xlim=(0, 1), ylim=(len(results) - 0.4, -0.6))
    axes.set(xticks=[0, 0.5, 1], xticklabels=["0%", "50%", "100%"], xlabel="share of a table's numbers (counts inside)")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    patches = matplotlib().patches
    handles = [patches.Patch(color=color, label=verdict) for verdict, color in VERDICT_COLORS.items()]
    picture.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.0, handlelength=1.0)
    return picture


def _looks(policies: Iterable[str]) -> list[tuple[str, str]]:
    """A color and a marker for each policy; policies of the main table look the same in every picture."""
    others = iter(OTHER_LOOKS * 4)
    return [POLICY_LOOKS[policy] if policy in POLICY_LOOKS else next(others) for policy in policies]


def _marker(look: tuple[str, str], size: float) -> dict[str, Any]:
    color, marker = look
    larger = {"*": 1.5, "P": 1.25, "X": 1.2}.get(marker, 1.0)
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    return {"color": color, "marker": marker, "markersize": size * larger} | edge


def _legend_below(picture: Picture, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = 3 if max(map(len, labels)) <= 16 else 2
    picture.legend(
        handles, labels, loc="outside lower center", ncols=columns, columnspacing=1.2, handletextpad=0.5, numpoints=1
    )


def _shade_sides(axes: Axes, best: int, deepest: int) -> None:
    axes.axvspan(-0.3, best, color=SKY, alpha=0.13, linewidth=0, zorder=0)
    axes.axvspan(best, deepest + 0.3, color=ORANGE, alpha=0.13, linewidth=0, zorder=0)


def _name_sides(axes: Axes, best: int, deepest: int) -> None:
    """Write the meaning of the shading into it, where there is room."""
    style: dict[str, Any] = {
        "transform": axes.get_xaxis_transform(),
        "ha": "center",
        "va": "top",
        "fontsize": 7,
        "color": "#444444",
    }
    if best >= 0.2 * deepest:
        axes.text((best - 0.3) / 2, 0.985, "k too small", **style)
    if deepest - best >= 0.2 * deepest:
        axes.text((best + deepest + 0.3) / 2, 0.985, "k too large", **style)


def _enlarge(whole: Axes, near: Axes, points: Floats) -> None:
    """Set the limits of `near` around the points, and frame that part of `whole`."""
    left, bottom = points.min(axis=0)
    right, top = points.max(axis=0)
    across = max(right - left, 0.2)
    up = max(top - bottom, 0.02)
    near.set(xlim=(left - 0.12 * across, right + 0.12 * across), ylim=(bottom - 0.12 * up, top + 0.12 * up))
    corner = near.get_xlim()[0], near.get_ylim()[0]
    frame = matplotlib().patches.Rectangle(corner, 1.24 * across, 1.24 * up, fill=False, edgecolor="#444444")
    frame.set(linewidth=0.7, linestyle=(0, (3, 2)), zorder=4)
    whole.add_patch(frame)


class _Square(NamedTuple):
    """One square of a regime picture."""

    baseline: str
    dispersion: float
    pressure: float
    difference: Figure


def _squares(table: Table, results: Iterable[Result]) -> list[_Square]:
    placed = by_place(table, results)
    squares = []
    for entry in table.entries:
        result = placed.get((entry.row, entry.column))
        if result is not None and isinstance(entry.quantity, Difference) and len(entry.cells) == 1:
            (cell,) = entry.cells
            squares.append(_Square(entry.quantity.baseline, cell.dispersion, cell.cost_pressure, result.ours))
    if not squares:
        raise UsageError(
            "The 'results' of regime_picture must hold at least one difference with an interval, on one cell of the "
            "table. Got none."
        )
    return squares


def _draw_grid(
    axes: Axes, dispersions: Sequence[float], pressures: Sequence[float], inside: Sequence[_Square], reach: float
) -> Any:
    values: Floats = np.full((len(dispersions), len(pressures)), np.nan)
    for square in inside:
        row = dispersions.index(square.dispersion)
        column = pressures.index(square.pressure)
        difference = square.difference
        values[row, column] = difference.value
        star = "*" if difference.clear else ""
        text = f"{difference.value:+.2f}{star}".replace("-", "\N{MINUS SIGN}")
        color = "white" if abs(difference.value) > 0.62 * reach else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=color)
    shading = axes.imshow(values, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto")
    axes.set(xticks=range(len(pressures)), xticklabels=[f"{pressure:.2f}" for pressure in pressures], xlabel=PRESSURE)
    axes.set(yticks=range(len(dispersions)), yticklabels=[f"{d:g}" for d in dispersions], ylabel=DISPERSION)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return shading


def _heights(shown: Sequence[Result], groups: Mapping[str, Sequence[str]]) -> list[float]:
    """How far down every line stands: the lines of a group together, below a gap and the group's heading."""
    heights: dict[int, float] = {}
    down = -1.0
    for group, heading in groups.items():
        down += 0.4 + len(heading)
        for i, result in enumerate(shown):
            if result.row == group:
                heights[i] = down
                down += 1.0
    return [heights[i] for i in range(len(shown))]


def _draw_interval(axes: Axes, figure: Figure, height: float, color: str, marker: str) -> None:
    if figure.low is not None and figure.high is not None:
        axes.plot([figure.low, figure.high], [height, height], color=color, linewidth=1.1, solid_capstyle="butt")
    face = color if figure.clear else "white"
    shape = "x" if figure.clear is None else marker
    axes.plot(figure.value, height, marker=shape, markersize=3.6, color=color, markerfacecolor=face, zorder=3)


def _label_groups(
    axes: Axes, shown: Sequence[Result], heights: Sequence[float], groups: Mapping[str, Sequence[str]]
) -> None:
    axes.set_yticks(heights, [result.column for result in shown])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for group, heading in groups.items():
        lines = [height for result, height in zip(shown, heights, strict=True) if result.row == group]
        axes.plot([0, 0], [min(lines) - 0.5, max(lines) + 0.5], color="#444444", linewidth=0.8, zorder=1)
        axes.text(
            0,
            min(lines) - 0.45 - 0.5 * len(heading),
            "\n".join(heading),
            transform=axes.get_yaxis_transform(),
            fontweight="bold",
            va="center",
            linespacing=1.1,
        )


def _interval_legend(picture: Picture, shown: Sequence[Result]) -> None:
    papers = [result.paper for result in shown if result.paper is not None]
    kinds = [("ours", BLUE, "o", BLUE, 1.1)]
    if papers:
        kinds.append(("paper", VERMILLION, "D", VERMILLION, 1.1))
    kinds.append(("covers zero", GRAY, "o", "white", 0.0))
    if any(paper.clear is None for paper in papers):
        kinds.append(("no interval", VERMILLION, "x", VERMILLION, 0.0))
    handles = [
        matplotlib().lines.Line2D(
            [], [], color=color, marker=marker, markersize=3.6, markerfacecolor=face, linewidth=width, label=label
        )
        for label, color, marker, face, width in kinds
    ]
    picture.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.0, handletextpad=0.4)
