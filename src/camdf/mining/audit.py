"""Can these labels be learned from? Noise, censoring, depth, drift and exploration, and one sentence that decides.

Every finding is a small value with its numbers, an interval where one makes sense, and a `sentence`. What the data does
not tell is an `Unknown` that says which column lacks. The thresholds of the verdict are the constants of this module.
"""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints
from camdf.core.resampling import Interval
from camdf.mining.flat import FlatTasks, within
from camdf.policies.label_noise import NORMAL_QUANTILE, estimate_label_noise, upper_end
from camdf.policies.linear import MissingExtraError

ENOUGH_TASKS = 100
"""Fewer tasks with labels that count are not enough to learn from: a judgement, which `camdf curve` can measure."""

NOISY, TOO_NOISY = 0.05, 0.10
"""Shares of wrong labels: the paper's edge survives the first and is gone by the second."""

CENSORED = 0.05
"""Where a gate cut candidates in a larger share of the runs, only explored runs say what a task needs."""

MISSED = 0.2
"""Where the ranking lacks a required tool in a larger share of the tasks, mend the ranking first."""

MOVED, CHANCE = 0.15, 0.01
"""Scores have moved where their distributions lie this far apart and chance does not explain it."""

SAME_CATALOGUE = 0.9
"""Two periods have the same tools where they share at least this much of all."""

MOST_FITTED = 1000
"""Label noise is estimated on at most so many tasks."""

MOST_COMPARED = 4000
"""Scores of two periods are compared on at most so many tasks of both together."""

PERMUTATIONS = 199
WIDTH = 118


@dataclass(frozen=True)
class Unknown:
    """A question that these data cannot answer."""

    sentence: str


@dataclass(frozen=True)
class RepeatedRuns:
    """How far runs of the same task agree."""

    tasks: int
    runs: int
    agreement: Interval
    """Of pairs of runs: tools that both called, of those that either called and both could."""

    flips: Interval
    """The share of labels that independent flips would have to change to explain the differences."""

    by: str

    @property
    def sentence(self) -> str:
        """In words."""
        same = "tasks ran more than once" if self.by == "text" else "groups of near-copies"
        return (
            f"{self.tasks:,} {same}, {self.runs:,} runs in all. Two runs of one agree on {_percent(self.agreement)} of "
            f"the tools that either called, as if {_percent(self.flips)} of all labels were flipped at random."
        )


@dataclass(frozen=True)
class Noise:
    """What the learning side's estimator says (camdf.policies.label_noise)."""

    rate: float
    at_most: float
    labels: int
    tasks: int

    @property
    def sentence(self) -> str:
        """In words."""
        return (
            f"{self.rate:.1%} of the {self.labels:,} labels that a model is surest of contradict it, at most "
            f"{self.at_most:.1%}, in {self.tasks:,} runs that saw their whole ranking. An upper bound on random flips: "
            "a task that is hard to read looks like a wrong label."
        )


@dataclass(frozen=True)
class Censoring:
    """What a gate kept from the runs that did not explore: a tool that was cut cannot have been called."""

    runs: int
    cut_runs: Interval
    cut_candidates: float
    never_offered: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """In words."""
        never = f"Never offered to any run: {_some(self.never_offered)}." if self.never_offered else ""
        if self.cut_runs.mean == 0:
            return f"None: the {self.runs:,} runs that did not explore saw every ranked tool. {never}".rstrip()
        return (
            f"{_percent(self.cut_runs)} of the {self.runs:,} runs that did not explore lost a ranked tool, and "
            f"{self.cut_candidates:.0%} of their candidates were cut. What is cut cannot be called. {never}"
        ).rstrip()


@dataclass(frozen=True)
class Surfacing:
    """How deep the ranking reaches, and how deep anything was needed or offered. The first position is 1."""

    tasks: int
    missed: Interval
    """Tasks that required a tool which the ranking lacks."""

    longest: int
    deepest_required: int
    deepest_offered: int | None

    @property
    def sentence(self) -> str:
        """In words."""
        words = f"{_percent(self.missed)} of {self.tasks:,} tasks required a tool that the ranking lacks. "
        words += f"Lists reach position {self.longest}; the deepest required tool stood at {self.deepest_required}"
        if self.deepest_offered is None:
            return f"{words}. What was offered is not recorded."
        if self.deepest_offered < self.longest:
            return f"{words}, and nothing past {self.deepest_offered} was ever offered: nothing can be learned there."
        return f"{words}, and every position was offered to some run."


@dataclass(frozen=True)
class Shift:
    """The largest distance between two distribution functions, and how often chance does as much."""

    distance: float
    chance: float

    @property
    def moved(self) -> bool:
        """Far, and not by chance."""
        return self.distance >= MOVED and self.chance <= CHANCE

    def __str__(self) -> str:
        return f"{self.distance:.2f} (p {'<' if self.chance < CHANCE else '='} {max(self.chance, CHANCE):.2f})"


@dataclass(frozen=True)
class Drift:
    """What changed between two periods."""

    since: str
    earlier: int
    later: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    shared: float
    """Tools of both periods, of all tools."""

    scores: Shift
    top_scores: Shift
    required: Interval
    """Mean number of required tools, later minus earlier."""

    @property
    def moved(self) -> bool:
        """Whether what was learned before may be wrong now."""
        return self.scores.moved or self.top_scores.moved or self.shared < SAME_CATALOGUE

    @property
    def sentence(self) -> str:
        """In words."""
        changes = (("came", self.added), ("went", self.removed))
        changed = "; ".join(f"{_some(names)} {what}" for what, names in changes if names) or "no tool came or went"
        return (
            f"Since {self.since} ({self.later:,} tasks, {self.earlier:,} before): {changed}; {self.shared:.0%} of all "
            f"tools are in both periods. Distance of scores {self.scores}, of top scores {self.top_scores}; required "
            f"tools {self.required.mean:+.2f} [{self.required.low:+.2f}, {self.required.high:+.2f}]."
        )


@dataclass(frozen=True)
class Exploration:
    """The runs that saw every tool, whatever the gate thought: their labels are unbiased."""

    share: Interval
    unbiased: int
    """Explored runs with a ranking that saw all of it."""

    incomplete: int
    """Explored runs that lacked a ranked tool all the same."""

    @property
    def sentence(self) -> str:
        """In words."""
        enough = "enough to learn from" if self.unbiased >= ENOUGH_TASKS else f"{ENOUGH_TASKS} are enough"
        wrong = f" {self.incomplete:,} explored runs lacked a ranked tool all the same." if self.incomplete else ""
        return (
            f"{_percent(self.share)} of runs explored: {self.unbiased:,} tasks have unbiased labels, {enough}.{wrong}"
        )


@dataclass(frozen=True)
class Verdict:
    """Whether to learn, from what, and what to do."""

    fit: Literal["yes", "explored only", "not yet"]
    sentence: str


@dataclass(frozen=True)
class Audit:
    """Everything found, and the verdict."""

    tasks: int
    ranked: int
    tools: int
    repeated_runs: RepeatedRuns | Unknown
    label_noise: Noise | Unknown
    censoring: Censoring | Unknown
    surfacing: Surfacing | Unknown
    drift: Drift | Unknown
    exploration: Exploration | Unknown

    @property
    def findings(self) -> dict[str, Finding]:
        """By the name under which the report shows them."""
        return {
            "repeated runs": self.repeated_runs,
            "label noise": self.label_noise,
            "censoring": self.censoring,
            "surfacing": self.surfacing,
            "drift": self.drift,
            "exploration": self.exploration,
        }

    @property
    def verdict(self) -> Verdict:
        """One sentence, from the thresholds above."""
        return _verdict(self)

    def to_json(self) -> dict[str, Any]:
        """Numbers and sentences, for machines."""
        found = {
            name.replace(" ", "_"): {**asdict(finding), "sentence": finding.sentence}
            for name, finding in self.findings.items()
        }
        counts = {"tasks": self.tasks, "ranked": self.ranked, "tools": self.tools}
        return {**counts, **found, "verdict": asdict(self.verdict)}

    def __str__(self) -> str:
        indent = max(map(len, self.findings)) + 2
        lines = [f"{self.tasks:,} tasks, {self.ranked:,} with a ranking, {self.tools:,} tools.", ""]
        for name, finding in (*self.findings.items(), ("verdict", self.verdict)):
            lines += textwrap.wrap(
                finding.sentence, WIDTH, initial_indent=f"{name:{indent}}", subsequent_indent=" " * indent
            )
        return "\n".join(lines)


Finding: TypeAlias = RepeatedRuns | Noise | Censoring | Surfacing | Drift | Exploration | Unknown


def audit(tasks: FlatTasks, *, since: datetime | None = None, split: float = 0.5, seed: int = 0) -> Audit:
    """Every finding. Drift compares the tasks before and since a time, or the first `split` share with the rest."""
    return Audit(
        len(tasks),
        int(tasks.ranked.filled.sum()),
        len(tasks.catalogue),
        repeated_runs(tasks),
        label_noise(tasks, np.random.default_rng(seed)),
        censoring(tasks),
        surfacing(tasks),
        drift(tasks, np.random.default_rng(seed), since=since, split=split),
        exploration(tasks),
    )


def repeated_runs(tasks: FlatTasks) -> RepeatedRuns | Unknown:
    """Agreement between runs of the same task, and the flips that would explain what is missing of it.

    Two runs are compared on the tools that both could call: ranked ones (offered ones without a ranking), less what was
    cut. Where each label is flipped with probability e, independently, two labels of one thing differ with probability
    d = 2 e (1 - e), whatever is true. So e = (1 - sqrt(1 - 2 d)) / 2. Every run weighs the same. Intervals come from
    the variance between tasks.
    """
    if tasks.repeats is None:
        return Unknown("No text and no groups: which runs repeat a task is not known. Mine with --with-text.")
    size = np.bincount(tasks.repeats + 1)[1:]
    again = (tasks.repeats >= 0) & (size[tasks.repeats] > 1)
    if not again.any():
        return Unknown("No task ran twice.")
    task, tool, called = _labels(tasks, again)
    width = len(tasks.catalogue)
    thing, number = np.unique(tasks.repeats[task] * width + tool, return_inverse=True)
    runs, calls = np.bincount(number).astype(float), np.bincount(number, weights=called)
    which = thing // width
    # The pairs of a task with r runs weigh 1 / (r - 1) each, so that each of its runs weighs 1/2.
    weight = 1 / (size[which] - 1)
    by_tool = (calls * (calls - 1) / 2, calls * (runs - calls), runs * (runs - 1) / 2)
    both, differ, pairs = (_sums(which, weight * pair, len(size))[size > 1] for pair in by_tool)
    if not (both + differ).any():
        return Unknown("Tasks ran more than once, but no two runs could call the same tool.")
    different = _ratio(differ, pairs)
    flips = Interval(*(_flips(share) for share in (different.mean, different.low, different.high)))
    agreement = _ratio(both, both + differ)
    return RepeatedRuns(int((size > 1).sum()), int(again.sum()), agreement, flips, tasks.repeats_by)


def label_noise(tasks: FlatTasks, rng: np.random.Generator) -> Noise | Unknown:
    """The estimator of the learning side, on at most MOST_FITTED tasks that saw all of their ranking.

    A tool that was cut is never called, so its label is never contradicted: such runs would make labels look clean.
    """
    whole = np.flatnonzero(tasks.ranked.filled & ~tasks.lacked)
    some = np.sort(rng.choice(whole, min(len(whole), MOST_FITTED), replace=False)) if len(whole) else whole
    if len({tasks.groups[row] for row in some.tolist()}) < 2 or not tasks.called.filled[some].any():
        return Unknown("Too few runs saw all of their ranking to estimate it.")
    try:
        found = estimate_label_noise(tasks.logged(some))
    except MissingExtraError as error:
        return Unknown(f"Not estimated. {error}")
    return Noise(found.rate, found.at_most, found.labels, len(some))


def censoring(tasks: FlatTasks) -> Censoring | Unknown:
    """How many candidates were cut before the run began, in runs that did not explore."""
    if tasks.offered is None:
        return Unknown("What was offered is not recorded, so what was cut is not known.")
    looked = tasks.ranked.filled & tasks.offered.filled
    looked &= True if tasks.explored is None else ~tasks.explored
    seen = np.zeros(len(tasks.catalogue), dtype=bool)
    seen[tasks.offered.tools] = True
    never = tuple(sorted(tasks.catalogue[tool] for tool in np.flatnonzero(~seen)))
    if not looked.any():
        return Censoring(0, Interval(0.0, 0.0, 1.0), 0.0, never)
    cut, runs = tasks.cut & looked[tasks.ranked.task], tasks.lacked & looked
    candidates = tasks.ranked.lengths[looked].sum()
    return Censoring(
        int(looked.sum()), _share(int(runs.sum()), int(looked.sum())), float(cut.sum() / candidates), never
    )


def surfacing(tasks: FlatTasks) -> Surfacing | Unknown:
    """How often the ranking lacks what was required, and the depths at which anything was required or offered."""
    ranked = tasks.ranked
    if not ranked.filled.any():
        return Unknown("No task has a ranking. Run a gate in shadow mode, which records one.")
    listed = np.bincount(ranked.task[tasks.required], minlength=len(tasks))
    missed = (listed < tasks.n_required) & ranked.filled
    offered = None
    if tasks.offered is not None:
        offered = int(ranked.place[~tasks.cut & tasks.offered.filled[ranked.task]].max(initial=0))
    n = int(ranked.filled.sum())
    deepest = int(ranked.place[tasks.required].max(initial=0))
    return Surfacing(n, _share(int(missed.sum()), n), int(ranked.lengths.max()), deepest, offered)


def drift(
    tasks: FlatTasks, rng: np.random.Generator, *, since: datetime | None = None, split: float = 0.5
) -> Drift | Unknown:
    """The catalogue, the scores and the number of required tools, before and since a time.

    Scores are compared by the Kolmogorov-Smirnov distance. The scores of one task belong together, so chance is
    measured by dealing whole tasks to the two periods at random.
    """
    if tasks.time is None:
        return Unknown("The tasks carry no times.")
    if since is None:
        edge = int(np.sort(tasks.time)[min(int(len(tasks) * split), len(tasks) - 1)])
    else:
        edge = int((since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp() * 1e9)
    later = tasks.time >= edge
    day = datetime.fromtimestamp(edge / 1e9, UTC).date().isoformat()
    if later.all() or not later.any():
        return Unknown(f"All tasks lie on one side of {day}. Name another --since or --split.")
    before, now = (_tools(tasks, period) for period in (~later, later))
    added, removed = now & ~before, before & ~now
    names = [tuple(sorted(tasks.catalogue[tool] for tool in np.flatnonzero(part))) for part in (added, removed)]
    some = np.flatnonzero(tasks.ranked.filled)
    some = np.sort(rng.choice(some, min(len(some), MOST_COMPARED), replace=False)) if len(some) else some
    compared = np.isin(np.arange(len(tasks)), some)
    if not (later[compared].any() and (~later[compared]).any()):
        return Unknown(f"Only one side of {day} has tasks with a ranking.")
    entries = compared[tasks.ranked.task]
    task, values = tasks.ranked.task[entries], tasks.scores[entries]
    top = tasks.ranked.place[entries] == 1
    return Drift(
        day,
        int((~later).sum()),
        int(later.sum()),
        names[0],
        names[1],
        float((before & now).sum() / (before | now).sum()),
        shift(values, task, later, rng),
        shift(values[top], task[top], later, rng),
        _difference(tasks.n_required[later], tasks.n_required[~later]),
    )


def shift(values: Floats, task: Ints, later: Bools, rng: np.random.Generator) -> Shift:
    """The Kolmogorov-Smirnov distance of values in two periods, and the share of random dealings that reach it."""
    order = np.argsort(values, kind="stable")
    ends = np.append(np.diff(values[order]) > 0, True)
    _, whose = np.unique(task[order], return_inverse=True)
    side = later[np.unique(task)]

    def distance(sides: Bools) -> float:
        marks = sides[whose]
        now = np.cumsum(marks)[ends]
        before = np.flatnonzero(ends) + 1 - now
        return float(np.abs(now / max(now[-1], 1) - before / max(before[-1], 1)).max())

    found = distance(side)
    # Counts are whole numbers, so a dealing that does as well differs by rounding at most.
    reached = sum(distance(rng.permutation(side)) >= found - 1e-12 for _ in range(PERMUTATIONS))
    return Shift(found, (1 + reached) / (1 + PERMUTATIONS))


def exploration(tasks: FlatTasks) -> Exploration | Unknown:
    """How many runs explored, and how many of those give unbiased labels."""
    if tasks.explored is None:
        return Unknown("Nobody recorded which runs explored. A gate with explore=0.1 shows every tool to a tenth.")
    explored = tasks.explored & tasks.ranked.filled
    share = _share(int(tasks.explored.sum()), len(tasks))
    return Exploration(share, int((explored & ~tasks.lacked).sum()), int((explored & tasks.lacked).sum()))


def _verdict(found: Audit) -> Verdict:
    if found.ranked == 0:
        return Verdict(
            "not yet", "Not yet: no task has a ranking. Run a gate in shadow mode, or rank with camdf score."
        )
    censored = isinstance(found.censoring, Censoring) and found.censoring.cut_runs.mean > CENSORED
    unbiased = found.exploration.unbiased if isinstance(found.exploration, Exploration) else 0
    count, which = (unbiased, "explored runs") if censored else (found.ranked, "tasks")
    noise = found.label_noise.rate if isinstance(found.label_noise, Noise) else 0.0
    # Near-copies may truly need different tools; runs of the same text should not.
    if isinstance(found.repeated_runs, RepeatedRuns) and found.repeated_runs.by == "text":
        noise = max(noise, found.repeated_runs.flips.mean)
    if noise > TOO_NOISY:
        return Verdict(
            "not yet",
            f"Not yet: {noise:.0%} of the labels look wrong, and past {TOO_NOISY:.0%} learning does worse than a tuned "
            "threshold. Leave out runs without a recorded outcome (camdf mine --require-outcome).",
        )
    if count < ENOUGH_TASKS:
        more = "explore with a larger share of the traffic, or run in shadow mode" if censored else "log more tasks"
        return Verdict(
            "not yet", f"Not yet: {count:,} {which} are too few, {ENOUGH_TASKS} are enough. Until then {more}."
        )
    words = [f"Fit to learn from: {count:,} tasks."]
    if censored:
        words = [f"Fit to learn from the {count:,} explored runs only, as the gate cut tools of the others."]
        words.append("Run camdf fit --explored-only.")
    if noise > NOISY:
        words.append(f"Expect little: {noise:.0%} of the labels look wrong.")
    if isinstance(found.censoring, Unknown):
        words.append("What a gate may have cut is not known.")
    if isinstance(found.surfacing, Surfacing) and found.surfacing.missed.mean > MISSED:
        words.append("Mend the ranking first: no cut brings back a tool that it lacks.")
    if isinstance(found.drift, Drift) and found.drift.moved:
        words.append(f"Things changed: check the fitted policy on tasks since {found.drift.since}.")
    return Verdict("explored only" if censored else "yes", " ".join(words))


def _labels(tasks: FlatTasks, rows: Bools) -> tuple[Ints, Ints, Bools]:
    """Task, tool and whether it was called, for each tool that a run could call."""
    ranked, called, offered = tasks.ranked, tasks.called, tasks.offered
    listed = rows[ranked.task] & (tasks.required | ~tasks.cut)
    unlisted = rows[called.task] & ~within(tasks.codes(called), tasks.codes(ranked))
    parts = [
        (ranked.task[listed], ranked.tools[listed], tasks.required[listed]),
        (called.task[unlisted], called.tools[unlisted], np.ones(unlisted.sum(), dtype=bool)),
    ]
    if offered is not None:
        idle = (rows & ~ranked.filled)[offered.task] & ~within(tasks.codes(offered), tasks.codes(called))
        parts.append((offered.task[idle], offered.tools[idle], np.zeros(idle.sum(), dtype=bool)))
    task, tool, was_called = (np.concatenate(part) for part in zip(*parts, strict=True))
    return task, tool, was_called


def _tools(tasks: FlatTasks, period: Bools) -> Bools:
    """The tools that a period's tasks ranked or were offered."""
    found = np.zeros(len(tasks.catalogue), dtype=bool)
    for lists in (tasks.ranked, tasks.offered):
        if lists is not None:
            found[lists.tools[period[lists.task]]] = True
    return found


def _sums(number: Ints, weights: Floats, count: int) -> Floats:
    return np.bincount(number, weights, count).astype(np.float64)


def _flips(different: float) -> float:
    return float((1 - np.sqrt(1 - 2 * min(different, 0.5))) / 2)


def _share(some: int, count: int) -> Interval:
    """A share of independent cases, with Wilson's interval."""
    share = some / count
    return Interval(share, max(1 - upper_end(1 - share, count), 0.0), min(upper_end(share, count), 1.0))


def _ratio(part: Floats, whole: Floats) -> Interval:
    """The ratio of two sums over independent tasks, with the interval of its linear approximation."""
    ratio = float(part.sum() / whole.sum())
    n = len(part)
    error = np.sqrt(((part - ratio * whole) ** 2).sum() * n / max(n - 1, 1)) / whole.sum()
    reach = NORMAL_QUANTILE * float(error)
    return Interval(ratio, max(ratio - reach, 0.0), min(ratio + reach, 1.0))


def _difference(now: Ints, before: Ints) -> Interval:
    mean = float(now.mean() - before.mean())
    reach = NORMAL_QUANTILE * float(np.sqrt(now.var() / len(now) + before.var() / len(before)))
    return Interval(mean, mean - reach, mean + reach)


def _percent(share: Interval) -> str:
    return f"{share.mean:.1%} [{share.low:.1%}, {share.high:.1%}]"


def _some(names: tuple[str, ...], most: int = 3) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
