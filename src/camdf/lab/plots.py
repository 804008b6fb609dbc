"""The paper's figures, drawn from outcomes and filled studies: each function returns a matplotlib figure.

Figures are made without pyplot, so nothing is shown, kept open or changed outside them. Colours are Okabe and Ito's,
which colour-blind readers can tell apart, and every colour comes with a marker or a word that says the same.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, LoggedTasks
from camdf.lab.replay import ORACLE, Outcomes
from camdf.lab.study import Figure, Result
from camdf.lab.tables import VERDICTS, counted
from camdf.policies.linear import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GRAY = "#0072B2", "#D55E00", "#CC79A7", "#777777"

COLUMN = 3.5
"""The width of one column of a two-column paper, in inches."""

LOOK = {
    "axes.edgecolor": "#444444",
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "camdf",
    "xtick.labelsize": 7,
    "xtick.major.width": 0.7,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.7,
}

POLICY_LOOKS = {
    "cam-df": (VERMILLION, "o"),
    "cam-df-lite": (ORANGE, "s"),
    "predict": (BLUE, "^"),
    "aggregate-only": (SKY, "v"),
    "score-per-cost": (GREEN, "D"),
    "score-threshold": (PURPLE, "P"),
    "fixed-k": (GRAY, "X"),
    ORACLE: (BLACK, "*"),
}
OTHER_LOOKS = (("#882255", "<"), ("#44AA99", ">"), ("#332288", "h"), ("#999933", "p"))
"""For policies beyond the paper's main table, in the order in which they are asked for (Tol's muted colours)."""

VERDICT_COLOURS = dict(zip(VERDICTS, (BLUE, SKY, VERMILLION, "#D8D8D8"), strict=True))

AXIS_NAMES = {"": "cost pressure λ", "lambda": "cost pressure λ", "d": "cost dispersion d"}

Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Picture]) -> Callable[Arguments, Picture]:
    """Draw with the house look, and leave the reader's settings as they were."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Picture:
        with _matplotlib().rc_context(LOOK):
            return draw(*args, **kwargs)

    return drawn


@styled
def payoff_by_depth(logged: LoggedTasks, payoff: Payoff, outcomes: Outcomes, policies: Mapping[str, str]) -> Picture:
    """The paper's payoff against tools acquired: one common top-k for all tasks, and policies that choose by task.

    `policies` maps a label to the policy's name in `outcomes`. The curve is over all of `logged` and its peak is picked
    in hindsight; the shading says on which side of that peak a common depth is too small or too large. The lower panel
    enlarges where the policies stand, with one standard error to either side.
    """
    picture, (whole, near) = canvas(COLUMN, 4.6, rows=2)
    common = payoff.by_depth(logged).mean(axis=0)
    points = np.array([(outcomes.mean(policy, "tools"), outcomes.mean(policy)) for policy in policies.values()])
    errors = np.array([outcomes.standard_error(policy) for policy in policies.values()])
    for axes, size in ((whole, 4.0), (near, 6.0)):
        _shade_sides(axes, int(common.argmax()), len(common) - 1)
        axes.plot(common, color=GRAY, linewidth=1.3, marker=".", markersize=4, label="common top-k", zorder=2)
        for label, look, point in zip(policies, _looks(policies.values()), points, strict=True):
            axes.plot(*point, linestyle="none", label=label, zorder=4, **_marker(look, size))
        axes.set_ylabel("payoff, mean per task")
    low, high = min(common.min(), points[:, 1].min()), max(common.max(), points[:, 1].max())
    room = 0.06 * (high - low)
    whole.set(xlim=(-0.3, len(common) - 0.7), ylim=(low - room, high + 3 * room))
    whole.xaxis.get_major_locator().set_params(integer=True)
    _name_sides(whole, int(common.argmax()), len(common) - 1)
    _enlarge(whole, near, np.vstack([points - errors[:, None] * [0, 1], points + errors[:, None] * [0, 1]]))
    colours = [colour for colour, _ in _looks(policies.values())]
    near.errorbar(*points.T, errors, fmt="none", ecolor=colours, elinewidth=0.8, zorder=3)
    near.set_ylabel("payoff ± SE, enlarged")
    near.set_xlabel("tools acquired, mean per task")
    _legend_below(picture, near)
    return picture


@styled
def dispersion_curves(outcomes: Mapping[float, Outcomes], policies: Mapping[str, str]) -> Picture:
    """Mean payoff against cost dispersion, one curve a policy, with one standard error to either side.

    `outcomes` maps d to the replay at that dispersion; `policies` maps a label to the policy's name. Points that share
    a d stand side by side, so that their bars can be told apart.
    """
    picture, axes = canvas(COLUMN, 3.3)
    spreads = np.array(sorted(outcomes))
    step = float(np.diff(spreads).min()) if len(spreads) > 1 else 1.0
    shifts = np.linspace(-0.09, 0.09, len(policies)) * step
    for (label, policy), look, shift in zip(policies.items(), _looks(policies.values()), shifts, strict=True):
        means = [outcomes[d].mean(policy) for d in spreads]
        errors = [outcomes[d].standard_error(policy) for d in spreads]
        axes.errorbar(spreads + shift, means, errors, label=label, elinewidth=0.8, linewidth=1.1, **_marker(look, 5.5))
    axes.set(xticks=spreads, xlabel=AXIS_NAMES["d"], ylabel="payoff, mean per task ± SE")
    _legend_below(picture, axes)
    return picture


@styled
def regime_map(results: Iterable[Result]) -> Picture:
    """Differences over a grid of regimes, one panel a baseline: red favours the policy, blue the baseline.

    Rows are labelled `baseline, d=1`, `baseline at 0.12` or just `d=1`, columns `lambda 0.12`: the baseline titles a
    panel, the numbers are ticks. All panels share one colour scale, symmetric around zero; every cell prints its value,
    with a star where its interval excludes zero. Results of ours without an interval are left out.
    """
    shown = _with_interval(results, "regime_map")
    panels = list(dict.fromkeys(_regime(result.row)[0] for result in shown))
    rows = list(dict.fromkeys(_regime(result.row)[1:] for result in shown))
    columns = list(dict.fromkeys(_regime(result.column)[1:] for result in shown))
    reach = max(abs(result.ours.value) for result in shown) or 1.0
    width = 0.8 + len(panels) * (0.2 + 0.45 * len(columns))
    picture, axes = canvas(max(width, COLUMN), 1.0 + 0.34 * len(rows), columns=len(panels))
    for axis, panel in zip(np.ravel(axes), panels, strict=True):
        inside = [result for result in shown if _regime(result.row)[0] == panel]
        shading = _draw_grid(axis, rows, columns, inside, reach)
        axis.set_title(f"over {panel}" if panel else "")
        axis.label_outer()
    bar = picture.colorbar(shading, ax=axes, aspect=18, pad=0.03, shrink=0.95)
    bar.outline.set_visible(False)
    bar.set_label("gain in mean payoff")
    return picture


@styled
def intervals(results: Iterable[Result]) -> Picture:
    """A forest plot: differences with 95% intervals, ours beside the paper's, a group a row and a line a column.

    A filled marker is a difference whose interval excludes zero, a cross one of the paper's whose interval is unknown.
    Results of ours without an interval are left out.
    """
    shown = _with_interval(results, "intervals")
    groups = list(dict.fromkeys(result.row for result in shown))
    places = _places(shown, groups)
    lowest = max(places) + 1.0
    picture, axes = canvas(COLUMN, 0.75 + 0.155 * (lowest + 1))
    for result, place in zip(shown, places, strict=True):
        _draw_interval(axes, result.ours, place - 0.16, BLUE, "o")
        if result.paper is not None:
            _draw_interval(axes, result.paper, place + 0.20, VERMILLION, "D")
    _label_groups(axes, shown, places, groups)
    axes.set(ylim=(lowest, -1.1), xlabel="difference in mean payoff, 95% interval")
    axes.locator_params(axis="x", nbins=6)
    _interval_legend(picture, shown)
    return picture


@styled
def verdict_overview(results: Mapping[str, Sequence[Result]]) -> Picture:
    """One bar a study, its title to the left: the share of every verdict, with counts inside."""
    picture, axes = canvas(COLUMN * 1.5, 0.75 + 0.23 * len(results))
    for place, found in enumerate(results.values()):
        left = 0.0
        for verdict, count in counted(found).items():
            share = count / max(len(found), 1)
            axes.barh(place, share, left=left, height=0.68, color=VERDICT_COLOURS[verdict], edgecolor="white")
            if share > 0.016 * len(str(count)):
                dark = verdict in ("replicates", "differs")
                axes.text(
                    left + share / 2,
                    place,
                    str(count),
                    ha="center",
                    va="center",
                    color="w" if dark else "k",
                    fontsize=7,
                )
            left += share
    axes.set(yticks=range(len(results)), yticklabels=list(results), xlim=(0, 1), ylim=(len(results) - 0.4, -0.6))
    axes.set(xticks=[0, 0.5, 1], xticklabels=["0%", "50%", "100%"], xlabel="share of a study's numbers (counts inside)")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    patches = _matplotlib().patches
    handles = [patches.Patch(color=colour, label=verdict) for verdict, colour in VERDICT_COLOURS.items()]
    picture.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.0, handlelength=1.0)
    return picture


def svg(picture: Picture) -> str:
    """The picture as SVG text, the same for the same picture: no date, no random names, no outside reference."""
    text = io.StringIO()
    with _matplotlib().rc_context(LOOK):
        picture.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return text.getvalue()


def save(picture: Picture, stem: Path) -> tuple[Path, Path]:
    """Write `stem`.svg and `stem`.png; the same picture gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    vector, pixels = stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")
    vector.write_text(svg(picture), encoding="utf-8")
    with _matplotlib().rc_context(LOOK):
        picture.savefig(pixels, format="png", dpi=200, metadata={"Software": None})
    return vector, pixels


def _matplotlib() -> Any:
    try:
        import matplotlib
        import matplotlib.figure
        import matplotlib.lines
        import matplotlib.patches
    except ImportError as error:
        raise MissingExtraError("Plots need matplotlib. Install it with: pip install 'camdf[lab]'") from error
    return matplotlib


def canvas(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Picture, Any]:
    """A picture of so many inches, and its axes."""
    picture = _matplotlib().figure.Figure(figsize=(width, height), layout="constrained")
    return picture, picture.subplots(rows, columns)


def _looks(policies: Iterable[str]) -> list[tuple[str, str]]:
    """A colour and a marker a policy: the same in every figure for those of the paper."""
    others = iter(OTHER_LOOKS * 4)
    return [POLICY_LOOKS[policy] if policy in POLICY_LOOKS else next(others) for policy in policies]


def _marker(look: tuple[str, str], size: float) -> dict[str, Any]:
    colour, marker = look
    larger = {"*": 1.5, "P": 1.25, "X": 1.2}.get(marker, 1.0)
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.5}
    return {"color": colour, "marker": marker, "markersize": size * larger} | edge


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
    """Say what the shading means, where there is room to."""
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
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    across, up = max(right - left, 0.2), max(top - bottom, 0.02)
    near.set(xlim=(left - 0.12 * across, right + 0.12 * across), ylim=(bottom - 0.12 * up, top + 0.12 * up))
    corner = near.get_xlim()[0], near.get_ylim()[0]
    frame = _matplotlib().patches.Rectangle(corner, 1.24 * across, 1.24 * up, fill=False, edgecolor="#444444")
    frame.set(linewidth=0.7, linestyle=(0, (3, 2)), zorder=4)
    whole.add_patch(frame)


def _with_interval(results: Iterable[Result], caller: str) -> list[Result]:
    shown = [result for result in results if result.ours.low is not None]
    if not shown:
        raise ValueError(f"The 'results' of {caller} must hold at least one difference with an interval. Got none.")
    return shown


Tick = tuple[str, str]
"""What an axis is named, and where on it a regime stands."""

_REGIME = re.compile(r"(?:(?P<panel>.+?)(?:,| at)\s+)?(?P<name>\D*?)[\s=]*(?P<number>[-+]?\d*\.?\d+)")


def _regime(label: str) -> tuple[str, str, str]:
    """Panel, axis and tick of a label; one that has no number is a tick of its own.

    >>> _regime("fixed-k, d=1.5"), _regime("fixed-k at 0.12"), _regime("lambda 0.05")
    (('fixed-k', 'd', '1.5'), ('fixed-k', '', '0.12'), ('', 'lambda', '0.05'))
    """
    parts = _REGIME.fullmatch(label)
    return ("", "", label) if parts is None else (parts["panel"] or "", parts["name"], parts["number"])


def _draw_grid(
    axes: Axes, rows: Sequence[Tick], columns: Sequence[Tick], inside: Sequence[Result], reach: float
) -> Any:
    values: Floats = np.full((len(rows), len(columns)), np.nan)
    for result in inside:
        row, column = rows.index(_regime(result.row)[1:]), columns.index(_regime(result.column)[1:])
        values[row, column] = result.ours.value
        text = f"{result.ours.value:+.2f}".replace("-", "\N{MINUS SIGN}") + ("*" if result.ours.clear else "")
        colour = "white" if abs(result.ours.value) > 0.62 * reach else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    shading = axes.imshow(values, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto")
    axes.set(
        xticks=range(len(columns)), xticklabels=[tick for _, tick in columns], xlabel=AXIS_NAMES.get(columns[0][0])
    )
    axes.set(yticks=range(len(rows)), yticklabels=[tick for _, tick in rows], ylabel=AXIS_NAMES.get(rows[0][0]))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return shading


def _places(shown: Sequence[Result], groups: Sequence[str]) -> list[float]:
    """How far down every line stands: lines of a group together, a gap and its heading before each."""
    order = sorted(range(len(shown)), key=lambda i: groups.index(shown[i].row))
    return [order.index(i) + 1.4 * groups.index(result.row) + 0.4 for i, result in enumerate(shown)]


def _draw_interval(axes: Axes, figure: Figure, place: float, colour: str, marker: str) -> None:
    if figure.low is not None and figure.high is not None:
        axes.plot([figure.low, figure.high], [place, place], color=colour, linewidth=1.1, solid_capstyle="butt")
    face = colour if figure.clear else "white"
    shape = "x" if figure.clear is None else marker
    axes.plot(figure.value, place, marker=shape, markersize=3.6, color=colour, markerfacecolor=face, zorder=3)


def _label_groups(axes: Axes, shown: Sequence[Result], places: Sequence[float], groups: Sequence[str]) -> None:
    axes.set_yticks(places, [result.column for result in shown])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for group in groups:
        lines = [place for result, place in zip(shown, places, strict=True) if result.row == group]
        axes.plot([0, 0], [min(lines) - 0.5, max(lines) + 0.5], color="#444444", linewidth=0.8, zorder=1)
        axes.text(0, min(lines) - 0.95, group, transform=axes.get_yaxis_transform(), fontweight="bold", va="center")


def _interval_legend(picture: Picture, shown: Sequence[Result]) -> None:
    papers = [result.paper for result in shown if result.paper is not None]
    kinds = [("ours", BLUE, "o", BLUE, 1.1)]
    kinds += [("paper", VERMILLION, "D", VERMILLION, 1.1)] if papers else []
    kinds += [("covers zero", GRAY, "o", "white", 0.0)]
    kinds += [("no interval", VERMILLION, "x", VERMILLION, 0.0)] if any(paper.clear is None for paper in papers) else []
    handles = [
        _matplotlib().lines.Line2D(
            [], [], color=colour, marker=marker, markersize=3.6, markerfacecolor=face, linewidth=width, label=label
        )
        for label, colour, marker, face, width in kinds
    ]
    picture.legend(handles=handles, loc="outside upper center", ncols=4, columnspacing=1.0, handletextpad=0.4)
