"""The loop: fit a challenger on what the service saw, judge it on newer tasks, and put it in the champion's place.

One challenger at a time. It is judged against the policy that serves, on tasks that came after it was fitted, and takes
its place only where its margin is shown by an interval that holds at every look (`camdf.evaluation.champion`). Beside a
policy's file, in a folder of its name, stand all versions by the SHA-256 of their content, and a journal: a line a
look, in words and in numbers. The last line is all that the next look needs to know.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, LoggedTasks
from camdf.datasets.counts import in_one_line
from camdf.datasets.examples import (
    Example,
    logged_examples,
    past_tasks,
    read_examples,
    renamed_examples,
    write_examples,
)
from camdf.errors import DataError, UsageError, needs
from camdf.evaluation.assess import require_choice
from camdf.evaluation.champion import Evidence, Trial, compared
from camdf.evaluation.replay import all_handed_over
from camdf.gate.settings import Limits
from camdf.policies.artifact import to_json
from camdf.policies.base import Policy, copies_of
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.drift import fitted_catalogue
from camdf.policies.models.past_tasks import PastTasks
from camdf.policies.training import ScorerRecord, Training
from camdf.runtime.files import clear_unfinished, held_bytes, locked, write_whole
from camdf.scorers import record_of
from camdf.scorers.named import scorer_record
from camdf.service import config_file
from camdf.service.config import COLD_STARTS, START, Configuration, LearnSettings
from camdf.service.gates import payoff_of_route, policy_of, scorer_of_route
from camdf.service.lessons import Lesson, alone_with, given_tools, read_lessons, renamed_lesson, tasks_of_lessons

with needs("serve"):
    import msgspec

Place: TypeAlias = tuple[str, str]
"""A tenant and a route."""

JOURNAL = "journal.jsonl"
LONGER = 3
"""A challenger that the evidence favors has so many times the patience. After that, what it learned is too old."""

SHOWN = 12
"""How many digits of a digest people read."""


@dataclass(frozen=True)
class Learned:
    """What came of a look at every policy of a configuration."""

    said: list[str]
    """A line a policy."""

    sums: dict[str, dict[str, int]]
    """What adds up: outcomes read, and runs begun that explored or were only watched."""

    exploring: dict[str, Exploring]
    """The price of exploring, by policy."""

    def __str__(self) -> str:
        return "\n".join([*(in_one_line(what, counts) for what, counts in self.sums.items()), *self.said])


@dataclass(frozen=True)
class Exploring:
    """The labels that runs gave which saw every tool, and the payoff that each of them gave up for it."""

    labels: int
    given_up: float
    """Payoff a run, on average: that of the tools which the champion chooses minus that of every tool."""

    def __str__(self) -> str:
        compared_with = "more" if self.given_up < 0 else "less"
        paid = f"{abs(self.given_up):.3f} {compared_with} a run than the champion's tools"
        return f"{self.labels:,} runs that saw every tool gave a label each, and paid {paid}."


def learn(path: Path, states: Sequence[Path]) -> Learned:
    """One look at every policy of a configuration."""
    folder, configuration = _configuration_in(path)
    settings = configuration.learn
    if settings is None:
        raise UsageError(f"{path.name} has no table [learn], so the service keeps nothing to learn from. Add one.")
    with alone_with(states):
        return _look_at_all(folder, configuration, settings, states)


def _look_at_all(
    folder: Path, configuration: Configuration, settings: LearnSettings, states: Sequence[Path]
) -> Learned:
    known, sums = read_lessons(states)
    said: list[str] = []
    exploring: dict[str, Exploring] = {}
    for source, places in configuration.policies().items():
        why = _cannot_learn(source, configuration, places)
        if why:
            said.append(f"{source}: {why}")
            continue
        with contest_of(folder, source, configuration) as contest:
            own = _lessons_of(known, configuration, places)
            words = contest.look(own, settings)
            if own:
                exploring[source] = contest.exploring(own[-settings.tasks :])
                words = f"{words} {exploring[source]}"
            said.append(f"{source}: {words}")
    return Learned(said, sums, exploring)


def _lessons_of(known: Sequence[Lesson], configuration: Configuration, places: Sequence[Place]) -> list[Lesson]:
    """Those of the runs that a policy served, with tools under the names that they have there now."""
    renames = {place: configuration.settings(*place).renamed or {} for place in places}
    own: list[Lesson] = []
    for lesson in known:
        place = (lesson.seen.tenant, lesson.seen.route)
        if place in renames:
            own.append(renamed_lesson(lesson, renames[place]))
    return own


def roll_back(path: Path, policy: str = "") -> str:
    """Put the version that served before in the place of the one that serves; `policy` where there are several."""
    folder, configuration = _configuration_in(path)
    sources = [source for source in configuration.policies() if versions_of(folder / source).is_dir()]
    if policy:
        sources = [source for source in sources if source == os.path.normpath(policy)]
    if len(sources) != 1:
        named = ", ".join(sources) or "none"
        raise UsageError(
            f"One policy with versions to go back to must be meant; here: {named}. Name it: --roll-back policy.json."
        )
    with contest_of(folder, sources[0], configuration) as contest:
        return f"{sources[0]}: {contest.roll_back()}"


@dataclass(frozen=True)
class State:
    """Where a policy's file stands, after the last line of its journal."""

    champion: str = ""
    """The SHA-256 of what serves; so are the others."""

    earlier: tuple[str, ...] = ()
    """What served before, the latest last."""

    challenger: str = ""
    trial: Trial = field(default_factory=lambda: Trial(0))
    """Of the challenger, or of the last one where there is none."""

    seen: Mapping[str, int] = field(default_factory=dict)
    """By log of outcomes, the last one that was learned from or judged on."""

    remembered: Mapping[str, int] = field(default_factory=dict)
    """The same, of those that joined the past requests."""

    def replaced_by(self, version: str) -> State:
        """After another version took the champion's place. No trial against the old champion goes on."""
        return replace(self, champion=version, earlier=(*self.earlier, self.champion), challenger="")


@dataclass(frozen=True)
class JournalLine:
    """What a look, or a way back, came to."""

    at: str
    words: str
    state: State


class PolicyContest:
    """A policy's file: the champion that it holds, the challenger that may replace it, and the journal of both."""

    def __init__(
        self, path: Path, configuration: Configuration, places: Sequence[Place], root: Path | None = None
    ) -> None:
        self.path = path
        self.configuration = configuration
        self.places = places
        self.root = root or path.parent
        self.folder = versions_of(path)
        self.state = self._last_state()

    @property
    def journal(self) -> Path:
        """One line a look."""
        return self.folder / JOURNAL

    def look(self, known: Sequence[Lesson], settings: LearnSettings) -> str:
        """Judge the challenger on what is new, and make one where there is none; what came of it, in words."""
        said = [*self._notice_replaced(), *self._judge_challenger(known, settings)]
        if not self.state.challenger:
            said.append(self._make_challenger(known[-settings.tasks :], settings))
        return " ".join([*said, *self._remember_new(known)])

    def exploring(self, recent: Sequence[Lesson]) -> Exploring:
        """The price of exploring, at what the champion would have chosen for runs that saw every tool and succeeded."""
        given_up = 0.0
        champion = self._policy_of(self.state.champion)
        for logged, payoff, given, limits, past in self._by_place(recent, champion):
            decisions = champion.recalling(past).decide(logged.rankings, payoff)
            searches = payoff.recourse > 0
            chosen = all_handed_over(
                logged.rankings, decisions, given, limits.at_least, limits.at_most, searches=searches
            )
            given_up += float((payoff.of(logged, chosen) - payoff.of(logged, logged.rankings.listed)).sum())
        return Exploring(len(recent), given_up / len(recent))

    def roll_back(self) -> str:
        """Put the version before back; what came of it, in words."""
        self._notice_replaced()
        if not self.state.earlier:
            raise UsageError(f"{self.path.name} has no earlier version here, so there is nothing to go back to.")
        *earlier, before = self.state.earlier
        after = self.state.champion
        self.state = replace(self.state, champion=before, earlier=tuple(earlier), challenger="")
        words = self._note_in_journal(f"Rolled back from {_short(after)} to {_short(before)}.")
        # Last, so that one that was killed can be repeated.
        write_whole(self.path, self._text_of_version(before).encode())
        return words

    def _notice_replaced(self) -> list[str]:
        """Keep what serves, and notice where somebody else has put another file there."""
        content = self.path.read_text(encoding="utf-8")
        digest = _sha256_of(content)
        before = self.state.champion
        if digest == before:
            return []
        write_whole(self.folder / f"{digest}.json", content.encode(), private=True)
        if not before:
            self.state = State(digest)
            return []
        self.state = self.state.replaced_by(digest)
        return [self._note_in_journal(f"{_short(digest)} was put in the place of {_short(before)} by somebody else.")]

    def _judge_challenger(self, known: Sequence[Lesson], settings: LearnSettings) -> list[str]:
        """The trial after the tasks that neither policy has learned from."""
        state = self.state
        if not state.challenger:
            return []
        new = [lesson for lesson in known if lesson.seq > state.seen.get(lesson.log, 0)]
        trial = state.trial.and_then(self._evidence(new))
        self.state = replace(state, trial=trial, seen={**state.seen, **_last_numbers(new)})
        name = f"challenger {trial.number} ({_short(state.challenger)})"
        if trial.pays:
            write_whole(self.path, self._text_of_version(state.challenger).encode())
            self.state = self.state.replaced_by(state.challenger)
            return [
                self._note_in_journal(f"Promoted {name} in the place of {_short(state.champion)}: {trial.verdict}.")
            ]
        patience = settings.patience
        if trial.is_promising:
            patience *= LONGER
        if trial.margin.high < 0 or trial.evidence.tasks >= patience:
            self.state = replace(self.state, challenger="")
            return [self._note_in_journal(f"Refused {name}: {trial.verdict}.")]
        return [self._note_in_journal(f"Goes on judging {name}: {trial.verdict}.")]

    def _evidence(self, new: Sequence[Lesson]) -> Evidence:
        """Each task at the payoff of its own tenant and route, within the bounds of its gate."""
        champion = self._policy_of(self.state.champion)
        challenger = self._policy_of(self.state.challenger)
        evidence = Evidence()
        for logged, payoff, given, limits, past in self._by_place(new, champion):
            evidence += compared(
                challenger.recalling(past),
                champion.recalling(past),
                logged,
                payoff,
                given,
                at_least=limits.at_least,
                at_most=limits.at_most,
            )
        return evidence

    def _examples_of(self, source: str) -> list[Example]:
        """Those of a file that a configuration names; none of a URL, which only the service reads."""
        if not source or "://" in source:
            return []
        return read_examples(self.root / source)

    def _remember_new(self, known: Sequence[Lesson]) -> list[str]:
        """What is new joins the past requests that the champion recalls, within their bounds, once it was judged on."""
        if not self._policy_of(self.state.champion).recalls:
            return []
        said: list[str] = []
        joined: list[Lesson] = []
        for source in dict.fromkeys(self.configuration.settings(*place).examples for place in self.places):
            if source and "://" not in source:
                with locked(self.root / source, wait=True):  # else what `camdf forget` deletes now is written back
                    new, count = self._join_past_requests(source, known)
                if new:
                    said.append(f"{len(new):,} requests joined those of {source}, which has {count:,}.")
                    joined += new
        self.state = replace(self.state, remembered={**self.state.remembered, **_last_numbers(joined)})
        if not said:
            return []
        return [self._note_in_journal(" ".join(said))]

    def _join_past_requests(self, source: str, known: Sequence[Lesson]) -> tuple[list[Lesson], int]:
        """What is new to a file of past requests, once it has joined them, and how many they are then."""
        copies = copies_of(self._policy_of(self.state.champion))
        examples = self._examples_of(source)
        renames = self.configuration.settings(*self.places[0]).renamed or {}
        past = past_tasks(renamed_examples(examples, renames))
        if past is None:
            return [], 0
        new = [
            lesson
            for lesson in known
            if lesson.seq > self.state.remembered.get(lesson.log, 0)
            and self.configuration.settings(lesson.seen.tenant, lesson.seen.route).examples == source
            and len(lesson.seen.vector) == past.dimensions
        ]
        if not new:
            return [], len(past)
        kept = past.joined(PastTasks.all_of(tasks_of_lessons(new, copies))).bounded()
        others = [example for example in examples if not example.is_past]
        write_examples(self.root / source, [*others, *logged_examples(kept)])
        return new, len(kept)

    def _by_place(
        self, some: Sequence[Lesson], champion: Policy
    ) -> Iterator[tuple[LoggedTasks, Payoff, Bools, Limits, PastTasks | None]]:
        """The tasks of each tenant and route, its payoff, tools that its runs have anyway, bounds and past requests."""
        copies = copies_of(champion)
        for place in self.places:
            own = [lesson for lesson in some if (lesson.seen.tenant, lesson.seen.route) == place]
            if own:
                logged = tasks_of_lessons(own, copies)
                settings = self.configuration.settings(*place)
                examples = renamed_examples(self._examples_of(settings.examples), settings.renamed or {})
                past = past_tasks(examples)
                yield logged, self._payoff_at(place, champion), given_tools(own, logged, copies), settings.limits, past

    def _make_challenger(self, recent: Sequence[Lesson], settings: LearnSettings) -> str:
        """A challenger that has learned from the tasks of late."""
        if len(recent) < settings.fewest:
            return (
                f"No challenger yet: it takes {settings.fewest} tasks of runs that saw every tool and succeeded, and "
                f"there are {len(recent)}: {settings.fewest - len(recent)} are missing."
            )
        champion = self._policy_of(self.state.champion)
        copies = copies_of(champion)
        logged = tasks_of_lessons(recent, copies)
        try:
            require_choice(logged)
        except DataError as error:
            return f"No challenger yet: {error}"
        payoff = self._payoff_at(self.places[0], champion)
        params = champion.get_params() if isinstance(champion, ExpectedPayoffBySet) else {}
        fitted = ExpectedPayoffBySet(**params).fit(logged, payoff)
        chosen = fitted.decide(logged.rankings, payoff).acquired.sum(axis=1)
        training = Training(
            logged.digest(),
            len(logged),
            len(set(logged.groups)),
            payoff=payoff,
            scorer=self._scored_by(champion),
            catalogue=fitted_catalogue(logged, chosen, payoff.cost_pressure, copies),
            effects=None if champion.training_ is None else champion.training_.effects,
            copies=tuple(copies.items()),
        )
        content = to_json(fitted, training)
        digest = _sha256_of(content)
        number = self.state.trial.number + 1
        write_whole(self.folder / f"{digest}.json", content.encode(), private=True)
        seen = {**self.state.seen, **_last_numbers(recent)}
        self.state = replace(self.state, challenger=digest, trial=Trial(number), seen=seen)
        return self._note_in_journal(
            f"Challenger {number} ({_short(digest)}) has learned from {len(recent)} tasks, and is judged on newer ones."
        )

    def _scored_by(self, champion: Policy) -> ScorerRecord | None:
        """What gave the scores of what the service saw: the champion's scorer, unless another one is allowed."""
        settings = self.configuration.settings(*self.places[0])
        fitted = scorer_record(champion)
        if fitted is None or settings.scorer_mismatch == "refuse":
            return fitted
        if "://" in settings.examples:  # only the service reads it
            return None
        examples = ""
        if settings.examples:
            examples = (self.root / settings.examples).read_text(encoding="utf-8")
        return record_of(scorer_of_route(settings, champion, examples))

    def _payoff_at(self, place: Place, champion: Policy) -> Payoff:
        return payoff_of_route(self.configuration.settings(*place), champion)

    def _policy_of(self, digest: str) -> Policy:
        settings = self.configuration.settings(*self.places[0])
        return policy_of(f"{digest}.json", self._text_of_version(digest), settings)

    def _text_of_version(self, digest: str) -> str:
        return (self.folder / f"{digest}.json").read_text(encoding="utf-8")

    def _last_state(self) -> State:
        lines = held_bytes(self.journal).splitlines()
        if not lines:
            return State()
        return msgspec.json.decode(lines[-1], type=JournalLine).state

    def _note_in_journal(self, words: str) -> str:
        """Write a line of the journal."""
        line = JournalLine(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), words, self.state)
        write_whole(self.journal, held_bytes(self.journal) + msgspec.json.encode(line) + b"\n", private=True)
        return words


@contextmanager
def contest_of(folder: Path, source: str, configuration: Configuration) -> Iterator[PolicyContest]:
    """The contest for a policy's file, for one process at a time."""
    path = folder / source
    versions = versions_of(path)
    versions.mkdir(mode=0o700, exist_ok=True)
    with locked(versions, wait=True):
        clear_unfinished(versions)
        yield PolicyContest(path, configuration, configuration.policies()[source], folder)


def versions_of(path: Path) -> Path:
    """The folder of a policy's versions and of its journal, beside its file."""
    return path.with_name(f"{path.name}.learned")


def _configuration_in(path: Path) -> tuple[Path, Configuration]:
    text, folder = config_file.read_configuration(path)
    return Path(folder), config_file.parsed(text, path.name)


def _cannot_learn(source: str, configuration: Configuration, places: Sequence[Place]) -> str:
    """Why nothing can be put in the place of a policy; "" where it can."""
    if source == START:
        return "loads the best tools of a ranking, and has nothing to learn. Fit a policy, and name its file."
    if source in COLD_STARTS:
        return (
            "ships with the package and is no file, so nothing can take its place. Save it to one and name that: "
            f'python -c \'import camdf; camdf.save(camdf.cold_start("{COLD_STARTS[source]}"), "policy.json")\''
        )
    if "://" in source:
        return "is a URL, and only a file can be replaced. Name a file."
    if any(configuration.settings(*place).sha256 for place in places):
        return "is pinned by sha256, so nothing may take its place. Leave sha256 out."
    return ""


def _last_numbers(lessons: Sequence[Lesson]) -> dict[str, int]:
    """By log, the last number."""
    return {lesson.log: lesson.seq for lesson in sorted(lessons, key=lambda lesson: lesson.seq)}


def _sha256_of(content: str) -> str:
    return sha256(content.encode()).hexdigest()


def _short(digest: str) -> str:
    return digest[:SHOWN]
