"""A simulated year: traffic, tools and prices drift. What does a service earn that learns by `camdf learn`?

python benchmarks/year.py                   a table
python benchmarks/year.py --json FILE       the same numbers as JSON; some minutes
python benchmarks/year.py --check FILE      exit 1 where days drawn by CAMDF_SAMPLE are not what the file has
python benchmarks/year.py --draw FILE       docs/pictures/year.svg and .png, from a file of numbers alone

The tasks are those of workbench, ranked by MiniLM. The loop is the one of the service, with its files and its journal
(`camdf.service.learning.PolicyContest`), and looks every day. Needs the extras serve and lab.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, Ints, LoggedTasks
from camdf.evaluation.drawing import BLACK, BLUE, COLUMN, GRAY, GREEN, ORANGE, VERMILLION, canvas, save_picture, styled
from camdf.policies.artifact import load
from camdf.policies.artifact import save as save_policy
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.service.config import LearnSettings
from camdf.service.config_file import parsed
from camdf.service.learning import PolicyContest
from camdf.service.lessons import Lesson, Seen, tasks_of_lessons
from camdf_lab import domains
from camdf_lab.stored import check_digest, note_digests

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "year"
PAYOFF = Payoff(0.06)
CONFIGURATION = f'[gate]\npolicy = "policy.json"\ncost_pressure = {PAYOFF.cost_pressure}\n'
DAYS = 365
RUNS = 1000
"""A day."""

EXPLORE = 0.05
"""The share of runs that see every tool, and cost accordingly, where something learns from them."""

LEARN = LearnSettings(tasks=300, fewest=100, patience=1000)
SHIFT = (60, 150)
"""Between these days the traffic goes from one half of the requests to the other."""

RENAMED = 200
"""From this day on three tools have successors of other names."""

DEARER = 280
"""From this day on every third tool costs three times as much."""

BROKEN = (240, 254)
"""Between these days a client reports only the first call of a run."""

EVERY = 28
"""Days between two refits of those who do not judge."""

YEARS = 3
"""How many are simulated."""

SAMPLE = 25
"""Days that are measured again to check what is stored."""

NOISE = 1e-6
"""By how much a payoff may differ from the stored one."""

NEVER = "never refitted"
BLIND = "refitted blindly on its own runs"
EXPLORED = "refitted blindly on explored runs"
LOOP = "camdf learn"
BEST = "oracle: fitted on the day itself"
WAYS = {NEVER: GRAY, BLIND: VERMILLION, EXPLORED: ORANGE, LOOP: BLUE, BEST: GREEN}


class Year:
    """What comes on each day: the requests, how often each, the tools and their prices."""

    def __init__(self) -> None:
        self.tasks = domains.load("workbench", "minilm")
        names = self.tasks.rankings.catalogue
        needed = [Counter(_required(self.tasks, row)) for row in range(len(self.tasks))]
        self.late = self._late_half(needed)
        popular = sum((each for each, late in zip(needed, self.late, strict=True) if late), Counter[str]())
        successors = {name for name, _ in popular.most_common(3)}
        self.renamed = tuple(f"{name}.v2" if name in successors else name for name in names)

    def _late_half(self, needed: Sequence[Counter[str]]) -> Bools:
        """The requests of the second half of the year: whole groups, by the tool that they need most."""
        groups = self.tasks.groups
        most = {}
        for group in np.unique(groups):
            together = sum((needed[row] for row in np.flatnonzero(groups == group).tolist()), Counter[str]())
            most[group] = min(together, key=lambda name: (-together[name], name))
        order = sorted(most, key=lambda group: (most[group], group))
        size = np.cumsum([(groups == group).sum() for group in order])
        late: Bools = np.isin(
            groups, [group for group, so_far in zip(order, size, strict=True) if so_far > size[-1] / 2]
        )
        return late

    def on(self, day: int) -> LoggedTasks:
        """The requests with the tools and the prices of a day."""
        return self._on(day >= RENAMED, day >= DEARER)

    @cache  # noqa: B019
    def _on(self, renamed: bool, dearer: bool) -> LoggedTasks:
        tasks = self.tasks
        if dearer:
            dear = np.arange(len(tasks.rankings.catalogue)) % 3 == 0
            tasks = tasks.with_costs(np.where(np.append(dear, False)[tasks.rankings.tool_ids], 3.0, 1.0))
        if renamed:
            tasks = replace(tasks, rankings=replace(tasks.rankings, catalogue=self.renamed))
        return tasks

    def shares(self, day: int) -> Floats:
        """How often each request comes on a day."""
        share = 0.02 + 0.96 * float(np.clip((day - SHIFT[0]) / (SHIFT[1] - SHIFT[0]), 0, 1))
        each: Floats = np.where(self.late, share / self.late.sum(), (1 - share) / (~self.late).sum())
        return each

    def drawn(self, day: int, count: int, rng: np.random.Generator) -> Ints:
        """Requests of a day, by their rows."""
        found: Ints = rng.choice(len(self.tasks), count, p=self.shares(day))
        return found


def _required(tasks: LoggedTasks, row: int) -> list[str]:
    pairs = zip(tasks.rankings.names(row), tasks.required[row], strict=False)
    return [name for name, needed in pairs if needed]


class Paid:
    """What each request pays under a policy, known until the policy or the day's tools and prices change."""

    def __init__(self, year: Year) -> None:
        self.year = year
        self._known = dict[str, Any]()

    def on(self, day: int, policy: Policy, explore: float) -> float:
        """The mean payoff of a day's traffic, of which a share sees every tool."""
        now = {"policy": policy, "world": (day >= RENAMED, day >= DEARER)}
        if now != {name: self._known.get(name) for name in now}:
            tasks = self.year.on(day)
            usual = policy.decide(tasks.rankings, PAYOFF).acquired
            every = tasks.rankings.listed
            self._known = {**now, "usual": PAYOFF.of(tasks, usual), "every": PAYOFF.of(tasks, every)}
        each = (1 - explore) * self._known["usual"] + explore * self._known["every"]
        return float(self.year.shares(day) @ each)


def fitted(tasks: LoggedTasks) -> Policy:
    """The default policy, from the tasks as they are."""
    return ExpectedPayoffBySet().fit(tasks, PAYOFF)


class Draws:
    """The runs of one simulated year: the same for everyone who learns."""

    def __init__(self, year: Year, seed: int) -> None:
        self.year = year
        self.seed = seed

    @cached_property
    def first(self) -> Policy:
        """What everyone begins with: fitted on runs of the day before."""
        return fitted(self.year.on(0).take(self.year.drawn(0, LEARN.tasks, np.random.default_rng([self.seed, 0]))))

    def runs(self, day: int) -> tuple[Ints, Bools]:
        """The requests of a day, and which of them explored."""
        rng = np.random.default_rng([self.seed, 1 + day])
        return self.year.drawn(day, RUNS, rng), rng.random(RUNS) < EXPLORE


def never(draws: Draws) -> Iterator[Policy]:
    """The same policy on every day."""
    for _ in range(DAYS):
        yield draws.first


def oracle(draws: Draws) -> Iterator[Policy]:
    """Fitted anew whenever the day is another one, on as many requests as there are, with every label known."""
    for day in range(DAYS):
        shifts = SHIFT[0] < day <= SHIFT[1] and day % 15 == 0
        if shifts or day in (0, RENAMED, DEARER):
            rows = draws.year.drawn(day, len(draws.year.tasks), np.random.default_rng([draws.seed, 999, day]))
            policy = fitted(draws.year.on(day).take(rows))
        yield policy


def blindly(draws: Draws, *, explored: bool) -> Iterator[Policy]:
    """Fitted anew every so often on the newest runs that succeeded, of those that explored or of all, and served."""
    policy = draws.first
    newest = list[tuple[int, int]]()
    for day in range(DAYS):
        yield policy
        rows, explores = draws.runs(day)
        tasks = draws.year.on(day).take(rows)
        if explored:
            good = explores & (tasks.missing == 0)
        else:
            good = tasks.sufficient(policy.decide(tasks.rankings, PAYOFF).acquired)
        newest = [*newest, *((day, row) for row in rows[good].tolist())][-LEARN.tasks :]
        if day % EVERY == EVERY - 1:
            runs = [_lesson(draws.year, day, row, number) for number, (day, row) in enumerate(newest)]
            policy = fitted(tasks_of_lessons(runs))


def learned(draws: Draws, said: list[dict[str, Any]]) -> Iterator[Policy]:
    """The loop of the service, a look a day; `said` gets what is worth a line."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        save_policy(draws.first, path)
        configuration = parsed(CONFIGURATION, "camdf.toml")
        (Path(folder) / "policy.json.learned").mkdir()
        seat = PolicyContest(path, configuration, [("", "")])
        policy = draws.first
        serves = ""
        known = list[Lesson]()
        for day in range(DAYS):
            yield policy
            rows, explores = draws.runs(day)
            tasks = draws.year.on(day)
            for row in rows[explores & (tasks.missing[rows] == 0)].tolist():
                known.append(_lesson(draws.year, day, row, len(known) + 1))
            words = seat.look(known[-2 * LEARN.tasks :], LEARN)
            if "Promoted" in words or "Refused" in words:
                said.append({"seed": draws.seed, "day": day, "words": words.partition(" Challenger ")[0]})
            if seat.state.champion != serves:
                serves = seat.state.champion
                policy = load(path)


def _lesson(year: Year, day: int, row: int, number: int) -> Lesson:
    """A run that saw every tool, as the service keeps it."""
    tasks = year.on(day)
    rankings = tasks.rankings
    required = _required(tasks, row)
    length = int(rankings.lengths[row])
    scores, costs = (each[row, :length].tolist() for each in (rankings.scores, rankings.costs))
    called = required[:1] if BROKEN[0] <= day < BROKEN[1] else required
    return Lesson(
        Seen(str(number), "", "", rankings.names(row), scores, costs, []), called, "log", number, float(number)
    )


def paid_by_day(draws: Draws, way: str, said: list[dict[str, Any]], days: int = DAYS) -> list[float]:
    """The mean payoff of every day; `said` gets what the loop says."""
    ways: dict[str, tuple[Callable[[], Iterator[Policy]], float]] = {
        NEVER: (lambda: never(draws), 0.0),
        BLIND: (lambda: blindly(draws, explored=False), 0.0),
        EXPLORED: (lambda: blindly(draws, explored=True), EXPLORE),
        LOOP: (lambda: learned(draws, said), EXPLORE),
        BEST: (lambda: oracle(draws), 0.0),
    }
    policies, explore = ways[way]
    paid = Paid(draws.year)
    by_day = list[float]()
    with closing(policies()) as each:  # type: ignore[type-var]
        for day, policy in zip(range(days), each, strict=False):
            by_day.append(round(paid.on(day, policy, explore), 6))
    return by_day


def measured(seed: int) -> dict[str, Any]:
    """One year."""
    draws = Draws(Year(), seed)
    said = list[dict[str, Any]]()
    paid = {}
    for way in WAYS:
        paid[way] = paid_by_day(draws, way, said)
        print(f"year {seed}, {way}: {np.mean(paid[way]):.3f}", file=sys.stderr, flush=True)
    return {"seed": seed, "paid": paid, "said": said}


def means(found: dict[str, Any]) -> dict[str, float]:
    """What each way paid a task, over all years."""
    return {way: float(np.mean([year["paid"][way] for year in found["years"]])) for way in WAYS}


def table(found: dict[str, Any]) -> str:
    """Markdown: each way, over the year and in its parts."""
    parts = {"the year": (0, DAYS), "before": (0, SHIFT[0]), "traffic shifts": SHIFT}
    parts |= {"after": (SHIFT[1], RENAMED), "new names": (RENAMED, BROKEN[0])}
    parts |= {"false reports, and after": (BROKEN[0], DEARER), "new prices": (DEARER, DAYS)}
    lines = [f"| | {' | '.join(parts)} |", "| --- |" + " --- |" * len(parts)]
    for way in WAYS:
        by_day = np.mean([year["paid"][way] for year in found["years"]], axis=0)
        shown = " | ".join(f"{by_day[slice(*part)].mean():.3f}" for part in parts.values())
        lines.append(f"| {way} | {shown} |")
    return "\n".join(lines)


def journal(found: dict[str, Any]) -> str:
    """What the loop said in the first year, a line each."""
    said = found["years"][0]["said"]
    return "\n".join(f"day {line['day']}: {line['words']}" for line in said)


@styled
def draw(found: dict[str, Any]) -> Picture:
    """The mean payoff of every day, a line a way; what drifts, as words; promotions of the first year, as marks."""
    picture, axes = canvas(2 * COLUMN, 3.1)
    for way, color in WAYS.items():
        by_day = np.mean([year["paid"][way] for year in found["years"]], axis=0)
        axes.plot(range(DAYS), by_day, color=color, linewidth=2.0 if way == LOOP else 1.1, label=way)
    top = axes.get_ylim()[1]
    for first, last, what in (
        (*SHIFT, "traffic shifts"),
        (RENAMED, RENAMED, "new names"),
        (*BROKEN, "false reports"),
        (DEARER, DEARER, "new prices"),
    ):
        axes.axvspan(first, max(last, first + 0.6), color=BLACK, alpha=0.08, linewidth=0)
        axes.text(first + 2, top, what, fontsize=7, va="bottom")
    axes.set(xlabel="day", ylabel="mean payoff of the day's runs", xlim=(0, DAYS))
    picture.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return picture


def sampled(found: dict[str, Any], seed: int) -> list[str]:
    """Where the first weeks of one year, measured again, are not what is stored."""
    year = found["years"][(seed + 1) % len(found["years"])]
    draws = Draws(Year(), year["seed"])
    said = list[dict[str, Any]]()
    differ = []
    for way in (NEVER, LOOP):
        now = paid_by_day(draws, way, said, SAMPLE)
        before = year["paid"][way][:SAMPLE]
        differ += [
            f"{way}, day {day}: stored {then}, now {again}"
            for day, (then, again) in enumerate(zip(before, now, strict=True))
            if abs(then - again) > NOISE
        ]
    told, anew = ([without_digests(line) for line in lines if line["day"] < SAMPLE] for lines in (year["said"], said))
    return differ + ([] if told == anew else [f"stored {told}, now {anew}"])


def without_digests(line: dict[str, Any]) -> str:
    """What the loop said on a day, but for names that hang on the last bit of a number."""
    return re.sub(r"\b[0-9a-f]{12}\b", "...", f"day {line['day']}: {line['words']}")


def stored(path: Path) -> dict[str, Any]:
    """The numbers in a file, if it is the one whose digest was noted."""
    check_digest(path.parent, path.name, sha256(path.read_bytes()).hexdigest(), f"benchmarks/year.py --json {path}")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--draw", type=Path)
    options.add_argument("--years", type=int, default=YEARS)
    options.add_argument("--workers", type=int, default=3)
    chosen = options.parse_args()
    if chosen.draw:
        save_picture(draw(stored(chosen.draw)), PICTURE)
        return 0
    if chosen.check:
        differ = sampled(stored(chosen.check), int(os.environ.get("CAMDF_SAMPLE", "0")))
        print(*differ, sep="\n", file=sys.stderr)
        return 1 if differ else 0
    with ProcessPoolExecutor(chosen.workers) as pool:
        found = {"years": list(pool.map(measured, range(chosen.years)))}
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=None) + "\n", encoding="utf-8")
        note_digests(chosen.json.parent, {chosen.json.name: sha256(chosen.json.read_bytes()).hexdigest()})
    print(table(found), journal(found), sep="\n\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
