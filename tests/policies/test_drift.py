"""What moved since a fit is named, and lists like those of the fit are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import camdf
from camdf import LoggedTasks, Rankings
from camdf.core.rankings import Floats
from camdf.policies.artifact import from_json, to_json
from camdf.policies.drift import FEWEST, Moved, fitted_catalogue, moved
from camdf.policies.training import MOST_CHOSEN, FittedCatalogue, Training

PRESSURE = 0.05
TRIALS = 400


class Traffic:
    """Lists of one distribution: long or short, of the whole catalogue or of a part, smooth scores or coarse ones."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.tools = int(rng.choice([8, 40, 120]))
        self.longest = int(rng.integers(5, min(self.tools, 60) + 1))
        self.whole = bool(rng.random() < 0.4)
        self.exponent = rng.uniform(0.5, 4.0)
        self.between_tasks = rng.choice([0.0, 0.5, 1.0])
        self.coarse = bool(rng.random() < 0.3)
        self.silent = rng.choice([0.0, 0.1])
        self.popularity = rng.random(self.tools) ** rng.choice([0.0, 2.0])
        self.copies = int(rng.choice([1, 1, 4]))

    def logged(self, rng: np.random.Generator, tasks: int, prefix: str = "tool") -> LoggedTasks:
        """Some tasks; where there are copies, so many of each group."""
        distinct = -(-tasks // self.copies)
        lengths = np.full(distinct, self.tools) if self.whole else rng.integers(2, self.longest + 1, distinct)
        listed = np.arange(lengths.max()) < lengths[:, None]
        likely = np.log(self.popularity) + rng.gumbel(size=(distinct, self.tools))
        tool_ids = np.where(listed, np.argsort(-likely, axis=1)[:, : listed.shape[1]], -1)
        of_task = np.exp(self.between_tasks * rng.standard_normal((distinct, 1)))
        scores: Floats = np.power(rng.random(listed.shape), self.exponent * of_task)
        if self.coarse:
            scores = np.round(scores * 4) / 4
        scores = np.where(listed & (rng.random((distinct, 1)) >= self.silent), scores, 0.0)
        catalogue = tuple(f"{prefix}_{tool}" for tool in range(self.tools))
        rankings = Rankings(scores, listed.astype(np.float64), lengths, tool_ids, catalogue)
        which = np.repeat(np.arange(distinct), self.copies)[:tasks]
        copied = rankings.take(which)
        nothing = np.zeros(tasks, dtype=np.int64)
        names = np.arange(tasks).astype(np.str_)
        return LoggedTasks(copied, np.zeros(copied.scores.shape, dtype=bool), nothing, names, which.astype(np.str_))


def chosen_of(logged: LoggedTasks) -> Any:
    """As many tools as have a score above a half."""
    return (logged.rankings.scores > 0.5).sum(axis=1)


def kept_of(logged: LoggedTasks) -> FittedCatalogue:
    return fitted_catalogue(logged, chosen_of(logged), PRESSURE)


def moved_since(fitted: FittedCatalogue | None, logged: LoggedTasks) -> tuple[Moved, ...]:
    return moved(fitted, logged.rankings, logged.groups, chosen_of(logged))


def with_scores(logged: LoggedTasks, scores: Any) -> LoggedTasks:
    rankings = logged.rankings
    return replace(logged, rankings=replace(rankings, scores=np.where(rankings.listed, scores, 0.0)))


def what(found: tuple[Moved, ...]) -> set[str]:
    return {each.what for each in found}


@pytest.mark.parametrize(("before", "since"), [(60, 60), (300, 60), (60, 600), (240, 240)])
def test_lists_like_those_of_the_fit_are_told_to_have_moved_in_at_most_one_of_a_hundred_logs(
    before: int, since: int
) -> None:
    rng = np.random.default_rng([before, since])
    named = []
    for _ in range(TRIALS):
        traffic = Traffic(rng)
        found = moved_since(kept_of(traffic.logged(rng, before)), traffic.logged(rng, since))
        named += [sorted(what(found))] if found else []
    assert len(named) <= TRIALS / 100, named


def test_scores_that_become_half_of_themselves_and_two_fifths_are_always_named_from_60_tasks_on() -> None:
    rng = np.random.default_rng(5)
    for _ in range(TRIALS):
        traffic = Traffic(rng)
        traffic.copies = 1
        fitted = kept_of(traffic.logged(rng, 60))
        later = traffic.logged(rng, 60)
        found = moved_since(fitted, with_scores(later, 0.5 * later.rankings.scores + 0.4))
        assert "scores" in what(found), vars(traffic)


@pytest.mark.parametrize("before", [60, 300])
@pytest.mark.parametrize("change", [lambda s: s / 2, lambda s: s**3, lambda s: 1 - s])
def test_other_changes_of_scores_are_named_too(before: int, change: Any) -> None:
    rng = np.random.default_rng(6)
    traffic = Traffic(rng)
    traffic.copies = 1
    later = traffic.logged(rng, 60)
    found = moved_since(kept_of(traffic.logged(rng, before)), with_scores(later, change(later.rankings.scores)))
    assert "scores" in what(found)


@pytest.mark.parametrize(("new", "named"), [(0, False), (3, False), (4, True), (40, True)])
def test_a_tenth_of_the_catalogue_is_named_when_it_is_new(new: int, named: bool) -> None:
    fitted = kept_of(listing([f"tool_{place}" for place in range(40)]))
    tools = [f"v2_tool_{place}" if place < new else f"tool_{place}" for place in range(40)]
    assert ("catalogue" in what(moved_since(fitted, listing(tools)))) == named


def test_a_catalogue_of_which_every_tool_is_new_is_named_where_lists_are_a_part_of_it() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        traffic = Traffic(rng)
        found = moved_since(kept_of(traffic.logged(rng, 300)), traffic.logged(rng, 60, "v2"))
        assert "catalogue" in what(found), vars(traffic)


@pytest.mark.parametrize(("times", "named"), [(1.0, False), (1.3, False), (1.7, True), (3.0, True), (0.3, True)])
def test_tools_per_task_are_named_when_they_moved_by_half(times: float, named: bool) -> None:
    logged = listing([f"tool_{place}" for place in range(40)], tasks=120)
    chosen = np.random.default_rng(8).integers(8, 13, len(logged))
    fitted = fitted_catalogue(logged, chosen, PRESSURE)
    found = moved(fitted, logged.rankings, logged.groups, np.rint(times * chosen).astype(np.int64))
    assert what(found) == ({"tools"} if named else set())
    assert moved(fitted, logged.rankings, logged.groups) == (), "what was chosen at another payoff is not compared"


def test_nothing_is_said_where_nothing_was_kept_and_of_too_few_tasks() -> None:
    logged = listing(["a", "b"])
    scored = with_scores(logged, logged.rankings.scores / 9)
    assert moved_since(None, scored) == ()
    assert moved_since(FittedCatalogue.of(["a", "b"]), scored) == ()
    assert what(moved_since(kept_of(logged), scored)) == {"scores", "tools"}
    assert moved_since(kept_of(logged), scored.take(slice(FEWEST - 1))) == ()
    one_group = replace(scored, groups=np.zeros(len(scored)).astype(np.str_))
    assert moved_since(kept_of(logged), one_group) == (), "copies of one task are one"


def test_empty_lists_say_nothing() -> None:
    empty = LoggedTasks.from_records([{"scores": {}, "required": []}] * 2)
    assert kept_of(empty).lists is None
    logged = listing(["a", "b"])
    assert moved_since(kept_of(logged), empty) == ()


def test_what_is_kept_is_small_and_survives_in_a_file() -> None:
    logged = Traffic(np.random.default_rng(9)).logged(np.random.default_rng(9), 500)
    fitted = fitted_catalogue(logged, np.full(500, 10_000), PRESSURE)
    assert fitted.lists is not None
    assert len(fitted.lists.chosen) == MOST_CHOSEN + 1
    training = Training(catalogue=kept_of(logged))
    text = to_json(camdf.AcquireAll(), training)
    assert from_json(text.encode()).training_ == training
    less = to_json(camdf.AcquireAll(), Training(catalogue=FittedCatalogue.of(logged.rankings.catalogue)))
    assert len(text) - len(less) < 4_000


def listing(tools: list[str], tasks: int = 60) -> LoggedTasks:
    """Tasks that all list the same tools, at random scores."""
    scores = np.random.default_rng(len(tools)).random((tasks, len(tools))).tolist()
    return LoggedTasks.from_records([{"scores": dict(zip(tools, row, strict=True)), "required": []} for row in scores])
