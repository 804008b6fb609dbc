"""One picture of the choice: sufficiency against cost at every pressure, with what promises and budgets picked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.errors import UsageError
from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, GREEN, PURPLE, VERMILLION, canvas, styled
from camdf_lab.beyond.promises import THRESHOLDS, Frontier, Promises

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

EDGE: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5, "linestyle": "none"}
LABELED_DEPTHS = (1, 2, 3, 5, 10, 20, 30)


@styled
def frontier_picture(studies: Mapping[str, Promises]) -> Picture:
    """A panel a study, titled by its name: mean sufficiency against mean cost, in tools a task.

    The line is the policy at every cost pressure on the held-out tasks. A circle is a promised level, at the mean over
    recalibrations, measured on tasks that did not calibrate, with a bar over the middle 90% of them; the dotted line
    at its level is the promise. A diamond is a budget. Crosses are a common top-k and pluses a common score threshold,
    at every setting, in hindsight.
    """
    if not studies:
        raise UsageError("The 'studies' of frontier_picture must hold at least one study. Got none.")
    picture, panels = canvas(COLUMN * len(studies), 3.6, 1, len(studies), sharey=True)
    panels = np.ravel(panels)
    for axes, (name, study) in zip(panels, studies.items(), strict=True):
        _draw(axes, study)
        axes.set(title=name, xlabel="cost: tools a task, mean")
    panels[0].set_ylabel("sufficiency: share of tasks\nwith every required tool")
    drawn = [axes.get_legend_handles_labels() for axes in panels]
    handles = {text: handle for pair in drawn for handle, text in zip(*pair, strict=True)}
    picture.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=3 if len(studies) > 1 else 2,
        columnspacing=1.2,
        handletextpad=0.5,
        numpoints=1,
    )
    return picture


def _draw(axes: Axes, study: Promises) -> None:
    highest = float(study.frontier.sufficiency[-1])
    promised = [promise for promise in study.coverage if promise.refused < 1]
    right = _reach(study)
    axes.plot(study.frontier.cost, study.frontier.sufficiency, color=BLUE, linewidth=1.6, zorder=3, label="the policy")
    _draw_depths(axes, study.by_k, right)
    _draw_thresholds(axes, study.by_score, right)
    for promise in promised:
        axes.plot([0, right], [promise.level] * 2, color="#BBBBBB", linewidth=0.7, linestyle=":", zorder=1)
        axes.plot([promise.cost] * 2, promise.spread, color=VERMILLION, linewidth=1.0, zorder=4)
        _point(axes, (promise.cost, promise.sufficiency), "o", VERMILLION, "promised level")
        partly = f" ({promise.refused:.0%} refused)" if promise.refused else ""
        promised_level = f"≥ {promise.level:.2f}{partly}"
        _label(axes, promise.cost, promise.sufficiency, promised_level, VERMILLION, (-6, 5), "right")
    for spent in study.spending:
        _point(axes, (spent.cost, spent.sufficiency), "D", GREEN, "budget")
        _label(axes, spent.cost, spent.sufficiency, f"budget {spent.budget:g}", GREEN, (6, -8), "left")
    refused = [promise for promise in study.coverage if promise.refused == 1]
    if refused:
        names = ", ".join(f"{promise.level:.2f}" for promise in refused)
        axes.text(right, 0.02, f"refused: {names} (highest {refused[0].highest:.2f})", ha="right", fontsize=6.5)
    if highest < 0.995:
        axes.axhline(highest, color=GRAY, linewidth=0.7, linestyle="--", zorder=1)
        _label(axes, 0.0, highest, "all listed tools", GRAY, (2, 3), "left")
    axes.set(xlim=(-0.02 * right, 1.02 * right), ylim=(-0.02, 1.04))


def _draw_depths(axes: Axes, by_k: Frontier, right: float) -> None:
    axes.plot(by_k.cost, by_k.sufficiency, "X", color=GRAY, markersize=6, zorder=2, label="top k, in hindsight", **EDGE)
    for k in LABELED_DEPTHS:
        if k < len(by_k.cost) and by_k.cost[k] <= right and by_k.sufficiency[k] < 0.93:
            shift = (4, -8) if by_k.sufficiency[k] > 0.05 else (4, 4)
            _label(axes, by_k.cost[k], by_k.sufficiency[k], f"k={k}", "#555555", shift, "left")


def _draw_thresholds(axes: Axes, by_score: Frontier, right: float) -> None:
    """The path at every threshold, and marks at a few."""
    axes.plot(by_score.cost, by_score.sufficiency, color=PURPLE, linewidth=0.8, zorder=2)
    # Scores leave at 1 + score, and a threshold keeps the scores that equal it: the highest pressure below 1 + t.
    at = [int(np.flatnonzero(by_score.pressure < 1.0 + threshold)[0]) for threshold in THRESHOLDS]
    axes.plot(
        by_score.cost[at],
        by_score.sufficiency[at],
        "P",
        color=PURPLE,
        markersize=6.5,
        zorder=2,
        label="score threshold, in hindsight",
        **EDGE,
    )
    for threshold, place in zip(THRESHOLDS, at, strict=True):
        if 0.02 * right < by_score.cost[place] < 0.9 * right and by_score.sufficiency[place] < 0.93:
            _label(axes, by_score.cost[place], by_score.sufficiency[place], f"t={threshold:g}", PURPLE, (5, -8), "left")


def _reach(study: Promises) -> float:
    """How far to the right the picture goes: past what all promises cost, and no further than all tools."""
    of_all_tools = study.frontier.cost[-1]
    costs = [promise.cost for promise in study.coverage if promise.refused < 1]
    costs += [spent.cost for spent in study.spending]
    return float(min(of_all_tools, max(1.6 * max(costs, default=np.inf), 0.5 * of_all_tools)))


def _point(axes: Axes, place: tuple[float, float], marker: str, color: str, name: str) -> None:
    axes.plot(*place, marker, color=color, markersize=5.5, zorder=6, label=name, **EDGE)


def _label(axes: Axes, x: float, y: float, text: str, color: str, shift: tuple[float, float], side: str) -> None:
    style: dict[str, Any] = {"fontsize": 6.5, "color": color, "ha": side, "zorder": 5}
    style["bbox"] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.3}
    axes.annotate(text, (x, y), xytext=shift, textcoords="offset points", **style)
