"""The tools of a conversation as a fold over its turns: nothing at first, then what each turn makes worth adding.

The first decision keeps the order of the request, and what a later turn or call adds is appended, so that any worker,
after any restart, sends the same bytes for the same history, and a cached prompt stays intact up to what is new.

A turn without signal changes nothing: it has no words, its scores prefer no tool, or the policy chooses none. One that
most likely needs no tool adds none either, and a later turn may still be the first that decides.

Where tools join the messages, every turn is decided by itself, since an addition rewrites nothing. On a list, the first
decision stands where the agent has a tool search: a missing tool costs a search, and not a rewritten prompt. Only a
tool that the request forced and the model called by its own name is added even then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple
from weakref import WeakKeyDictionary

from camdf.gate.append import Channel
from camdf.gate.catalogue import Catalogue
from camdf.gate.decision import Reason
from camdf.gate.ranking import Ranked, Ranking
from camdf.gate.request import Request
from camdf.gate.scoring import Judge, KnownScores, ScoredTurn, TurnScores
from camdf.gate.turns import Call, Turn
from camdf.scorers.base import says_nothing

REMEMBERED = "remembered"
"""Stands for the first turn with signal where a memory knows it, or what the history has of tools that joined."""

MOST_LIKELY = 0.5
"""A task is taken to need no tool from this chance on."""

NO_CANDIDATES = ScoredTurn(())
"""The scores of any turn where there is nothing to score."""


BROUGHT = 2
"""How many tools with effects a turn brings under a policy that learned nothing: those that its words rank first."""

NEAR = 0.2
"""And only those that score at least so much of the turn's best tool."""


class UnscoredError(Exception):
    """A turn of the past has no scores, so what the conversation has is not known here."""


class Fold(NamedTuple):
    """What the turns of a conversation make of its tools."""

    kept: tuple[str, ...] = ()
    """In the order in which the conversation got them."""

    first: str = ""
    """The first turn with signal; "" where none has any, and nothing is decided."""

    reason: Reason = "empty task"
    """Of the last turn."""

    ranking: tuple[Ranked, ...] = ()
    """Of the last turn that has one, with what became of each tool."""

    called: frozenset[str] = frozenset()
    joined: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """What each turn brings: the place of its message, and the tools that no turn before it brought."""

    none: float | None = None
    """How likely the last turn that has a ranking is to need no tool, where the policy learned that."""

    vector: bytes = b""
    """The direction of the text of the turn that was ranked, where the policy reads it."""


class Step(NamedTuple):
    """All that a turn's part in a fold follows from, beside its scores and the settings of the gate."""

    before: Fold
    turn: Turn
    judge: Judge
    catalogue: Catalogue
    guarded: dict[str, str]
    channel: Channel | None


class Outcome(NamedTuple):
    """What came of a call, the type of what was raised on the way, and whether the conversation explores."""

    fold: Fold
    error: str = ""
    explores: bool = False
    brought: frozenset[str] = frozenset()
    """Of the tools that run only where they are asked for, those that the user's own words bring."""


@dataclass(frozen=True)
class Folding:
    """Folds conversations: by the scores of turns, within bounds, at a price of rewritten prompts."""

    turn_scores: TurnScores
    at_least: int
    at_most: int | None
    rewrite: Callable[[int], float]
    """What it costs, in the unit of tool costs, that a provider reads so many characters anew."""

    untrusted_places: int
    """How many tools of untrusted servers a conversation gets at most, beyond what it gets without them."""

    latest: WeakKeyDictionary[ScoredTurn, tuple[Step, Fold]] = field(default_factory=WeakKeyDictionary)
    """The latest step of each turn whose scores are kept, and what came of it: a history is folded at every call."""

    def by_judges(self, request: Request, judges: Sequence[Judge], scored: KnownScores, failure: Reason) -> Fold:
        """The fold of the last of some judges, with all that the earlier ones would have given, in their order."""
        folds = [self.by_judge(request, judge, scored, failure) for judge in judges]
        decided = [fold for fold in folds if fold.first]
        if len(folds) == 1 or not decided:
            return folds[-1]
        kept = tuple(dict.fromkeys(key for fold in decided for key in fold.kept))
        joined: dict[int, tuple[str, ...]] = {}
        for fold in decided:
            for place, keys in fold.joined:
                joined[place] = _appended(joined.get(place, ()), keys)
        return decided[-1]._replace(kept=kept, joined=tuple(sorted(joined.items())))

    def by_judge(self, request: Request, judge: Judge, scored: KnownScores, failure: Reason) -> Fold:
        """The fold of one judge; `failure` says why the last turn may have no scores."""
        now = Fold(request.before, REMEMBERED) if request.before else Fold()
        without_scores = None if request.catalogue.costs else NO_CANDIDATES
        for event in request.events:
            if isinstance(event, Call):
                now = self._after_call(now, request, event)
            elif event in request.standing or (now.first and request.settled):
                now = now._replace(reason="decided before")
            elif not event.subject:
                now = now._replace(reason="empty task")
            elif event.greets:
                now = now._replace(reason="no signal")
            else:
                turn = scored.turns.get(event.subject, without_scores)
                ranking = None if turn is None else self.ranking(request, turn, judge, scored)
                if turn is not None and ranking is not None:
                    step = Step(now, event, judge, request.catalogue, request.guarded, request.channel)
                    now = self._after_turn(step, turn, ranking)
                elif event is request.turns[-1] or event.subject in scored.silent:
                    now = now._replace(reason=failure)
                else:
                    raise UnscoredError
        return now

    def brought(self, request: Request, scored: KnownScores) -> frozenset[str]:
        """Of the tools that run only where they are asked for, those that the user's own words bring.

        Of a policy that learned nothing, the best by the words; of another, what it chooses. A turn without scores
        brings nothing, and so does one on which a policy breaks.
        """
        keys: set[str] = set()
        for turn in request.asked if request.asking else ():
            keys.update(turn.keys)
            known = scored.turns.get(turn.asks)
            if known is not None:
                for judge in request.judges:
                    with suppress(Exception):
                        keys |= self._brought_by_turn(request, known, judge, scored)
        return request.bound & keys

    def _brought_by_turn(self, request: Request, turn: ScoredTurn, judge: Judge, scored: KnownScores) -> set[str]:
        ranking = self.ranking(request, turn, judge, scored)
        if ranking is None or needs_none(ranking.none):
            return set()
        if judge.policy.only_ranks:
            ranking = best_ranked(ranking, request.bound)
        trusted = [tool.name for tool in ranking.tools if tool.kept and tool.trusted]
        others = [tool.name for tool in ranking.tools if tool.kept and not tool.trusted]
        return {*trusted, *others[: self.untrusted_places]}

    def ranking(self, request: Request, turn: ScoredTurn, judge: Judge, scored: KnownScores) -> Ranking | None:
        """The candidates of a turn in rank order; None where time is up and the judge has not spoken."""
        if not request.catalogue.costs:
            return Ranking()
        if scored.late:
            return turn.rankings.get(judge)
        return self.turn_scores.ranking(turn, request.catalogue, judge)

    def _after_call(self, now: Fold, request: Request, call: Call) -> Fold:
        called = now.called.union(call.keys)
        if now.reason == "decided":
            now = now._replace(reason="decided before")
        if call.joins and request.channel is not None:
            return now._replace(kept=_appended(now.kept, call.keys), first=now.first or REMEMBERED)
        if not now.first or request.channel is not None or (request.tool_search and request.found_by_name):
            return now._replace(called=called)
        return now._replace(kept=_appended(now.kept, call.keys), called=called)

    def _after_turn(self, step: Step, scored: ScoredTurn, ranked: Ranking) -> Fold:
        """What a turn makes of the fold, as it did the last time where nothing else has changed."""
        known, after = self.latest.get(scored, (None, step.before))
        if known != step:
            after = self._with_turn(step, scored, ranked)
            self.latest[scored] = (step, after)
        return after

    def _with_turn(self, step: Step, scored: ScoredTurn, ranked: Ranking) -> Fold:
        now = step.before
        turn = step.turn
        vector = scored.vector
        ranking = ranked.tools
        stays = {
            **dict.fromkeys(now.kept, "kept before"),
            **dict.fromkeys(now.called, "called before"),
            **dict.fromkeys(turn.keys, "the task is its name"),
            **step.guarded,
        }
        decides = trusted_part(ranking)
        marks = handed_over(
            [tool.score for tool in decides],
            [tool.kept for tool in decides],
            [tool.name in stays for tool in decides],
            self.at_least,
            self.at_most,
            named=bool(turn.keys) or not ranking,
            none=ranked.none,
        )
        if marks is None:
            return now._replace(reason="no signal", ranking=ranking, none=ranked.none, vector=vector)
        marked = [tool.name for tool, mark in zip(decides, marks, strict=True) if mark]
        if needs_none(ranked.none) and not turn.keys and stays.keys() >= set(marked):
            return now._replace(reason="nothing needed", ranking=ranking, none=ranked.none, vector=vector)
        trusted: tuple[Ranked, ...] = ()
        if decides and decides[0].trusted:
            trusted = self._with_marks(decides, marks, stays)
        others = tuple([tool for tool in ranking if not tool.trusted])
        if now.first and step.channel is None:
            price = self.rewrite(turn.before)
            trusted = self._worth_rewriting(trusted, step, vector, price, stays)
            others = self._worth_rewriting(others, step, vector, price, stays)
        ranking = trusted
        if others:
            ranking = (*trusted, *self._within_places(others, stays, sum(tool.kept for tool in trusted)))
        adds = {*stays, *[tool.name for tool in ranking if tool.kept]}
        kept = _appended(now.kept, [key for key in step.catalogue.offered if key in adds])
        more = kept[len(now.kept) :]
        if now.first and not more:
            return Fold(kept, now.first, "decided before", ranking, now.called, now.joined, ranked.none, vector)
        joined = (*now.joined, (turn.place, more))
        return Fold(kept, now.first or turn.subject, "decided", ranking, now.called, joined, ranked.none, vector)

    def _within_places(self, ranking: tuple[Ranked, ...], stays: Mapping[str, str], trusted: int) -> tuple[Ranked, ...]:
        """Of untrusted servers' tools those that stay, and the best of the others while there are places."""
        left = self.untrusted_places - sum(tool.name in stays for tool in ranking)
        if self.at_most is not None:
            left = min(left, self.at_most - trusted - sum(tool.name in stays for tool in ranking))
        placed: list[Ranked] = []
        for tool in ranking:
            if tool.name in stays:
                tool = tool._replace(kept=True, why=stays[tool.name], held=True)
            elif tool.kept and left > 0:
                left -= 1
            elif tool.kept:
                tool = tool._replace(kept=False, why="no place is left for untrusted servers")
            placed.append(tool)
        return tuple(placed)

    def _with_marks(
        self, ranking: tuple[Ranked, ...], marks: Sequence[bool], stays: Mapping[str, str]
    ) -> tuple[Ranked, ...]:
        """The ranking with what becomes of each tool, and why."""
        if not stays and not self.at_least and self.at_most is None:
            return ranking
        filled = f"at least {self.at_least}"
        marked: list[Ranked] = []
        for tool, is_kept in zip(ranking, marks, strict=True):
            name, score, cost, priced_cost, evidence, was_chosen, why, _, trusted = tool
            if not is_kept:
                why = "not worth it"
            elif name in stays:
                why = stays[name]
            elif not was_chosen:
                why = filled
            if why != tool.why:
                tool = Ranked(name, score, cost, priced_cost, evidence, is_kept, why, name in stays, trusted)
            marked.append(tool)
        return tuple(marked)

    def _worth_rewriting(
        self, ranking: tuple[Ranked, ...], step: Step, vector: bytes, price: float, stays: Mapping[str, str]
    ) -> tuple[Ranked, ...]:
        """Without what is not worth its share of rewriting the cached prompt: shared anew until all that is left is."""
        if price <= 0:
            return ranking
        added = {tool.name for tool in ranking if tool.kept and tool.name not in stays}
        adds = added
        while adds:
            share = price / len(adds)
            costs = step.catalogue.costs.items()
            shared = {key: cost if key in stays else cost + share for key, cost in costs}
            again = step.judge.ranked({tool.name: tool.score for tool in ranking}, shared, vector)
            left = adds & {tool.name for tool in again.tools if tool.kept}
            if left == adds:
                break
            adds = left
        too_dear = added - adds
        return tuple([_not_worth_rewriting(tool) if tool.name in too_dear else tool for tool in ranking])


def best_ranked(ranking: Ranking, bound: Collection[str]) -> Ranking:
    """A ranking that keeps the best of the tools with effects, `BROUGHT` of trusted servers and as many of others."""
    scores = [tool.score for tool in trusted_part(ranking.tools)]
    least = inf if says_nothing(scores) else NEAR * max(scores, default=0.0)
    left = {True: BROUGHT, False: BROUGHT}
    tools: list[Ranked] = []
    for tool in ranking.tools:
        kept = tool.name in bound and tool.score >= least and left[tool.trusted] > 0
        left[tool.trusted] -= kept
        tools.append(tool._replace(kept=kept))
    return ranking._replace(tools=tuple(tools))


def without_shut(fold: Fold, shut: Collection[str]) -> Fold:
    """What turns make of the tools, without those that may not run."""
    if not shut:
        return fold
    ranking = [_shut(tool) if tool.kept and tool.name in shut else tool for tool in fold.ranking]
    joined = [(place, tuple([key for key in keys if key not in shut])) for place, keys in fold.joined]
    kept = tuple([key for key in fold.kept if key not in shut])
    return fold._replace(kept=kept, ranking=tuple(ranking), joined=tuple(joined))


def _shut(tool: Ranked) -> Ranked:
    return tool._replace(kept=False, why="the user's own words do not ask for it")


def _not_worth_rewriting(tool: Ranked) -> Ranked:
    return tool._replace(kept=False, why="not worth rewriting the cached prompt")


def _appended(kept: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*kept, *more)))


def trusted_part(ranking: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """The part of a ranking that decides whether a turn says anything: trusted tools, unless there are none."""
    if not ranking or ranking[-1].trusted:  # the others come last
        return ranking
    return tuple([tool for tool in ranking if tool.trusted]) or ranking


def needs_none(chance: float | None) -> bool:
    """Whether a task most likely needs no tool."""
    return chance is not None and chance >= MOST_LIKELY


def handed_over(
    scores: Sequence[float],
    chosen: Sequence[bool],
    stays: Sequence[bool],
    at_least: int = 0,
    at_most: int | None = None,
    *,
    named: bool = False,
    none: float | None = None,
) -> list[bool] | None:
    """Which tools of a list are handed over, the best first: those chosen and those that stay, within bounds.

    None where nothing is decided: the scores prefer no tool, or no tool is chosen, none is `named` by the task and none
    has to be handed over. A choice of no tool is a decision where the task most likely needs none, with a chance `none`
    of at least a half: a tool that is too expensive may still be needed. Where the chosen are too few, the best of the
    rest are handed over too. Where they are too many, the last that need not stay are left out. What stays counts, and
    is handed over even beyond `at_most`.

    >>> handed_over([0.9, 0.5, 0.4, 0.2], [True, False, False, True], [False] * 4, at_least=3)
    [True, True, False, True]
    >>> handed_over([0.9, 0.5, 0.4, 0.2], [True, True, False, False], [False, False, False, True], at_most=2)
    [True, False, False, True]
    >>> handed_over([0.5, 0.5], [True, True], [False, False]), handed_over([0.5, 0.4], [False] * 2, [False] * 2)
    (None, None)
    >>> handed_over([0.5, 0.4], [False] * 2, [False, True], none=0.6)
    [False, True]
    """
    decided = named or at_least > 0 or any(chosen) or needs_none(none)
    if not decided or says_nothing(scores):
        return None
    handed = [one or other for one, other in zip(chosen, stays, strict=True)]
    count = sum(handed)
    if count < at_least:
        rest = [place for place, held in enumerate(handed) if not held]
        for place in rest[: at_least - count]:
            handed[place] = True
    if at_most is not None and count > at_most:
        loose = [place for place, held in enumerate(handed) if held and not stays[place]]
        for place in loose[max(len(loose) - (count - at_most), 0) :]:
            handed[place] = False
    return handed
