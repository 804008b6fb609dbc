"""How many labels are enough? What policies pay on held-out tasks after learning from 3 tasks, 10, 20 and so on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, Ints, LoggedTasks
from camdf.core.resampling import Interval, paired_bootstrap
from camdf.errors import UsageError
from camdf.evaluation.assess import require_choice
from camdf.evaluation.replay import DANGERS, Outcomes, replay
from camdf.evaluation.splits import Split, draw_splits
from camdf.policies.registry import DEFAULT, POLICIES
from camdf.runtime.progress import Progress, counted, silent

LABEL_COUNTS = (3, 10, 20, 50, 100, 200, 500, 1000)
"""Numbers of labeled tasks to learn from; all that a split leaves come last."""

CURVE_FEWEST = 20
SPLITS = 20
LITTLE = 0.01
"""A gain of less, in solved tasks, is called little."""

PAPER = "cam-df"
THRESHOLD = "score-per-cost-threshold"
LEARNING = (DEFAULT, PAPER, THRESHOLD)
RULES = ("score-at-least", "top-k", "plug-in")
"""Rules that learn nothing: a score of at least 0.5, the top 5, and every tool whose score is worth its price."""


@dataclass(frozen=True, eq=False)
class CurveStep:
    """One number of labels: the mean over splits of how many tasks are learned from, and the splits."""

    labels: float
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class Point:
    """One point of a learning curve: mean payoffs, and the default's margin over the tuned threshold.

    `gain` is what the default pays here more than at the point before; the first point has none.
    """

    labels: float
    payoff: Mapping[str, Interval]
    margin: Interval
    gain: Interval | None = None
    danger: Mapping[str, float] | None = None
    """What the default exposes (`camdf.evaluation.replay.DANGERS`); None where nobody says which tools have effects."""


def draw_steps(logged: LoggedTasks, splits: int = SPLITS, seed: int = 0) -> list[CurveStep]:
    """Nested subsets of what each split leaves for learning; test tasks are the same at every step.

    Tasks come in random order, group by group, so a small subset holds near-copies as a young log does. No group is
    split between learning and test. Every policy learns from all labels of a step, and tunes on them too: one number
    hardly overfits, and a threshold that had to give up a quarter of ten tasks would be a weak bar.
    """
    if len(logged) < CURVE_FEWEST:
        raise UsageError(
            f"A learning curve needs at least {CURVE_FEWEST} logged tasks. Got {len(logged)}. Log more tasks first; "
            "until then a rule that learns nothing, such as camdf.PlugIn, is the choice."
        )
    require_choice(logged)
    grouped = numbered(logged.groups)[1] < len(logged)
    drawn = list(draw_splits(logged, splits, seed, grouped=grouped))
    orders = [_group_by_group(logged, split, [seed, number, 4]) for number, split in enumerate(drawn)]
    fewest = min(map(len, orders))
    nobody = np.zeros(0, dtype=np.int64)
    steps = []
    sizes = [size for size in LABEL_COUNTS if size <= fewest]
    if not sizes or sizes[-1] < max(map(len, orders)):
        sizes.append(len(logged))
    for size in sizes:
        parts = [Split(order[:size], nobody, split.test) for order, split in zip(orders, drawn, strict=True)]
        steps.append(CurveStep(float(np.mean([len(part.train) for part in parts])), tuple(parts)))
    return steps


def _group_by_group(logged: LoggedTasks, split: Split, seed: list[int]) -> Ints:
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.concatenate([split.train, split.validation]))
    group, groups = numbered(logged.groups[rows])
    turn = rng.permutation(groups)[group]
    ordered: Ints = rows[np.argsort(turn, kind="stable")]
    return ordered


def replay_steps(
    logged: LoggedTasks,
    payoff: Payoff,
    steps: Sequence[CurveStep],
    progress: Progress = silent,
    *,
    with_effects: Collection[str] = (),
) -> Outcomes:
    """What every policy paid at every step, named by `at_step`; rules that learn nothing go by their own names."""
    values: dict[str, Floats] = {}
    splits = len(steps[0].splits)
    for number, step in enumerate(steps):
        drawn = counted(step.splits, splits * len(steps), progress, before=splits * number)
        makers = {name: POLICIES[name] for name in LEARNING}
        outcomes = replay(makers, logged, payoff, drawn, with_effects=with_effects)
        values |= {at_step(number, name): outcomes.values[name] for name in LEARNING}
    rules = {name: POLICIES[name] for name in RULES}
    fixed = replay(rules, logged, payoff, steps[-1].splits, with_effects=with_effects)
    values |= {name: fixed.values[name] for name in RULES}
    return Outcomes(logged.task_ids, logged.groups, values, {})


def at_step(number: int, policy: str) -> str:
    """The name under which a policy's outcome at a step is kept."""
    return f"{number}: {policy}"


def points_of(outcomes: Outcomes, steps: Sequence[CurveStep]) -> list[Point]:
    """Means and margins with 95% intervals, resampling groups."""
    points = []
    for number, step in enumerate(steps):
        names = {name: at_step(number, name) for name in LEARNING} | {name: name for name in RULES}
        payoff = {name: _mean_payoff(outcomes, key) for name, key in names.items()}
        margin = outcomes.difference(names[DEFAULT], names[THRESHOLD], by_group=True)
        gain = None
        if number > 0:
            gain = outcomes.difference(names[DEFAULT], at_step(number - 1, DEFAULT), by_group=True)
        danger: dict[str, float] | None = None
        if DANGERS[0] in outcomes.measures:
            danger = {name: outcomes.mean(names[DEFAULT], name) for name in DANGERS}
        points.append(Point(step.labels, payoff, margin, gain, danger))
    return points


def _mean_payoff(outcomes: Outcomes, name: str) -> Interval:
    payoffs = outcomes.values[name][:, 0]
    tested = ~np.isnan(payoffs)
    return paired_bootstrap(payoffs[tested], groups=outcomes.groups[tested])


def ahead_from(points: Sequence[Point], *, clearly: bool = False) -> float | None:
    """The fewest labels from which on the default stays at least level with the threshold; None where it does not.

    `clearly` asks that the margin's whole interval lies above zero, at that number and every larger one.
    """
    fewest = None
    for point in reversed(points):
        behind = point.margin.mean < 0
        if clearly:
            behind = point.margin.low <= 0
        if behind:
            break
        fewest = point.labels
    return fewest


def verdict(points: Sequence[Point]) -> str:
    """One sentence on whether learning pays yet, and one on what more labels seem to add."""
    last = points[-1]
    margin = f"{last.margin.mean:+.3f}, 95% CI {last.margin.low:+.3f} to {last.margin.high:+.3f}"
    clear = ahead_from(points, clearly=True)
    ahead = ahead_from(points)
    if clear is not None:
        said = f"From about {clear:.0f} labeled tasks on, learning earns more than the tuned threshold: {margin}"
    elif ahead is not None:
        said = f"From about {ahead:.0f} labeled tasks on, learning leads the tuned threshold, not surely: {margin}"
    else:
        said = f"Learning does not earn more than the tuned threshold yet: {margin}"
    said += f" with {last.labels:.0f} labels."
    if last.gain is None:
        return said
    gain = f"{last.gain.mean:+.3f}, 95% CI {last.gain.low:+.3f} to {last.gain.high:+.3f}"
    more = "more may help"
    if last.gain.low > 0:
        more = "more should help"
    elif last.gain.mean < LITTLE:
        more = "more seem to add little"
    return f"{said} From {points[-2].labels:.0f} to {last.labels:.0f} labels it gained {gain}; {more}."


def danger_lines(points: Sequence[Point]) -> list[str]:
    """Tasks covered against effects exposed by number of labels; nothing where nobody says which tools have effects."""
    told = [(point.labels, point.danger) for point in points if point.danger is not None]
    if not told:
        return []
    rows = [
        f"{labels:6.0f}  {danger['covered']:7.0%}  {danger['exposed']:7.2f}  {danger['needless']:8.0%}"
        for labels, danger in told
    ]
    return ["", "labels  covered  exposed  needless   by the default, of tools with effects", *rows]


def table(points: Sequence[Point]) -> str:
    """Payoff by number of labels as aligned text, and the rules that learn nothing below."""
    heads = {DEFAULT: "default", PAPER: PAPER, THRESHOLD: "threshold"}
    lines = [f"labels  {'  '.join(heads.values())}   default minus threshold"]
    for point in points:
        means = "  ".join(f"{point.payoff[name].mean:{len(head)}.3f}" for name, head in heads.items())
        lines.append(f"{point.labels:6.0f}  {means}   {point.margin}")
    lines.append(f"default: {DEFAULT}; threshold: {THRESHOLD}, tuned")
    lines += danger_lines(points)
    fixed = "; ".join(f"{name} {points[-1].payoff[name].mean:.3f}" for name in RULES)
    return "\n".join([*lines, f"without labels: {fixed}"])
