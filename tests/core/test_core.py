"""Tables, payoffs, the scan, decisions, cost rules and the bootstrap: what each promises, and how each refuses."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from camdf import Decisions, LoggedTasks, Payoff, Rankings
from camdf.core import resampling
from camdf.core.payoff import cost_of
from camdf.core.rankings import MAX_SHARED_CATALOGUE, Bools, Floats, Ints
from camdf.core.resampling import CONFIDENCE, Interval, paired_bootstrap
from camdf.core.stopping import first_stop
from camdf.errors import UsageError
from saying import refuses
from worlds import RECOURSES, random_logged, small_logged, small_payoffs

examples = settings(max_examples=300, deadline=None)
scored_tasks = st.lists(
    st.dictionaries(st.text("abz_", max_size=2), st.sampled_from([0.0, 0.3, 0.3000001, 0.9, 7.0])), max_size=4
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def logged(rng: np.random.Generator) -> LoggedTasks:
    return random_logged(rng, 300, 8)


def as_records(logged: LoggedTasks) -> list[dict[str, Any]]:
    """What the tables say, task by task, with nothing of padding or of positions in the catalogue."""
    r = logged.rankings
    return [
        {
            "id": logged.task_ids[i],
            "group": logged.groups[i],
            "n_required": logged.n_required[i],
            "candidates": list(
                zip(
                    r.names(i),
                    r.scores[i, :length],
                    r.costs[i, :length],
                    logged.required[i, :length],
                    strict=True,
                )
            ),
        }
        for i, length in enumerate(r.lengths.tolist())
    ]


# Rankings.


def test_candidates_are_ranked_by_score_and_ties_by_name() -> None:
    ranking = Rankings.from_scores({"mail": 0.2, "zip": 0.7, "ask": 0.7, "calendar": 0.0})
    assert ranking.names(0) == ["ask", "zip", "mail", "calendar"]
    assert ranking.scores.tolist() == [[0.7, 0.7, 0.2, 0.0]]
    assert ranking.costs.tolist() == [[1.0, 1.0, 1.0, 1.0]]


def test_keep_order_takes_the_mappings_own_order() -> None:
    ranking = Rankings.from_scores({"mail": 0.2, "zip": 0.7, "ask": 0.7}, keep_order=True)
    assert ranking.names(0) == ["mail", "zip", "ask"]
    assert ranking.scores.tolist() == [[0.2, 0.7, 0.7]]


def test_short_lists_are_padded_with_zeros_and_tool_id_minus_one() -> None:
    rankings = Rankings.from_scores([{"a": 0.5}, {}, {"b": 0.9, "a": 0.1}], costs={"a": 2.0, "b": 3.0, "unused": 9.0})
    assert len(rankings) == 3
    assert rankings.width == 2
    assert rankings.lengths.tolist() == [1, 0, 2]
    assert rankings.listed.tolist() == [[True, False], [False, False], [True, True]]
    assert rankings.scores.tolist() == [[0.5, 0.0], [0.0, 0.0], [0.9, 0.1]]
    assert rankings.costs.tolist() == [[2.0, 0.0], [0.0, 0.0], [3.0, 2.0]]
    assert rankings.tool_ids.tolist() == [[0, -1], [-1, -1], [1, 0]]
    assert rankings.catalogue == ("a", "b")


def test_a_record_without_a_field_that_it_needs_is_refused_by_the_name_of_the_field() -> None:
    for record, lacks in (({"required": ["a"]}, "scores"), ({"scores": {"a": 0.5}}, "required")):
        with pytest.raises(UsageError, match=f"one lacks '{lacks}'. Add it."):
            LoggedTasks.from_records([record])


def test_no_tasks_make_empty_rankings() -> None:
    rankings = Rankings.from_scores([], costs={})
    assert len(rankings) == 0
    assert rankings.scores.shape == (0, 0)
    assert not rankings.shares_catalogue


@examples
@given(scored_tasks, st.randoms(use_true_random=False))
def test_the_ranking_is_a_sort_and_the_order_of_the_input_does_not_matter(
    tasks: list[dict[str, float]], random: Any
) -> None:
    rankings = Rankings.from_scores(tasks)
    for row, task in enumerate(tasks):
        expected = sorted(task, key=lambda name: (-task[name], name))
        assert rankings.names(row) == expected
        assert rankings.scores[row, : len(task)].tolist() == [task[name] for name in expected]
    shuffled = [dict(random.sample(list(task.items()), len(task))) for task in tasks]
    assert [Rankings.from_scores(shuffled).names(i) for i in range(len(tasks))] == [
        rankings.names(i) for i in range(len(tasks))
    ]


GOOD: dict[str, Any] = {
    "scores": np.array([[0.9, 0.4], [0.7, 0.0]]),
    "costs": np.array([[1.0, 2.0], [2.0, 0.0]]),
    "lengths": np.array([2, 1]),
    "tool_ids": np.array([[0, 1], [1, -1]]),
    "catalogue": ("a", "b"),
}


def test_the_constructor_accepts_what_from_scores_builds() -> None:
    made = Rankings.from_scores([{"a": 0.9, "b": 0.4}, {"b": 0.7}], costs={"a": 1.0, "b": 2.0})
    by_hand = Rankings(**GOOD)
    for name in ("scores", "costs", "lengths", "tool_ids"):
        assert np.array_equal(getattr(made, name), getattr(by_hand, name))
    assert made.catalogue == by_hand.catalogue


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.array([0.9, 0.4])}, "scores … Rankings … shape … tasks … candidates … 2"),
        ({"costs": np.ones((2, 3))}, "costs … Rankings … shape … (2, 2), … scores demand … 2 … 3"),
        ({"lengths": np.array([2])}, "lengths … Rankings … shape … 2"),
        ({"tool_ids": np.zeros((1, 2), int)}, "tool_ids … Rankings … shape … (2, 2)"),
        ({"lengths": np.array([3, 1])}, "lengths … Rankings … lie … 0 … 2 … [3 1]"),
        ({"lengths": np.array([2, -1])}, "lengths … Rankings … lie … 0 … 2"),
        ({"scores": np.array([[0.9, -0.4], [0.7, 0]])}, "'scores' … not negative. Got … -0.4 … Clip cosine … sigmoid"),
        ({"scores": np.array([[np.nan, 0.4], [0.7, 0]])}, "scores … Rankings … finite … nan"),
        ({"scores": np.array([[np.inf, 0.4], [0.7, 0]])}, "scores … Rankings … finite … inf"),
        (
            {"costs": np.array([[1, 0.0], [2, 0]])},
            "costs … Rankings … finite … positive … small price … 0.01",
        ),
        ({"costs": np.array([[1, -2.0], [2, 0]])}, "costs … Rankings … finite … positive"),
        ({"costs": np.array([[1, np.inf], [2, 0]])}, "costs … Rankings … finite … positive"),
        ({"tool_ids": np.array([[0, 2], [1, -1]])}, "tool_ids … Rankings … point … catalogue"),
        ({"tool_ids": np.array([[0, -1], [1, -1]])}, "tool_ids … Rankings … point … catalogue"),
        ({"scores": np.array([[0.9, 0.4], [0.7, 0.1]])}, "Padding in Rankings … Use Rankings.from_scores"),
        ({"costs": np.array([[1, 2], [2.0, 1.0]])}, "Rankings … cost … 0"),
        ({"tool_ids": np.array([[0, 1], [1, 0]])}, "Rankings … tool id … -1"),
    ],
)
def test_bad_rankings_are_refused_by_name_with_the_value_or_the_remedy(change: dict[str, Any], message: str) -> None:
    with refuses(ValueError, message):
        Rankings(**{**GOOD, **change})


def test_a_tool_without_a_price_is_named() -> None:
    with refuses(ValueError, "costs", "price", "tool", "Without", "price"):
        Rankings.from_scores({"a": 0.9, "b": 0.4}, costs={"a": 1.0})


def test_long_values_are_shortened_in_messages() -> None:
    scores = {f"tool-{i}": -1.0 - i for i in range(1000)}
    with pytest.raises(ValueError, match="not negative") as refusal:
        Rankings.from_scores(scores)
    assert len(str(refusal.value)) < 250


def test_identity_may_be_learned_only_on_one_shared_catalogue_of_at_most_64_tools() -> None:
    tools = {f"tool-{i}": 0.5 for i in range(MAX_SHARED_CATALOGUE)}
    assert MAX_SHARED_CATALOGUE == 64
    assert Rankings.from_scores([tools, tools]).shares_catalogue
    assert not Rankings.from_scores([{**tools, "one more": 0.5}]).shares_catalogue
    assert not Rankings.from_scores([tools, {"tool-0": 0.5}]).shares_catalogue


# Logged tasks.


def test_a_required_tool_that_is_not_listed_counts_as_missing() -> None:
    logged = LoggedTasks.from_records(
        [
            {"scores": {"a": 0.1, "b": 0.9}, "required": ["a", "x", "y"], "task_id": "first", "group": "g"},
            {"scores": {"b": 0.3}, "required": []},
        ]
    )
    assert len(logged) == 2
    assert logged.required.tolist() == [[False, True], [False, False]]
    assert logged.n_required.tolist() == [3, 0]
    assert logged.missing.tolist() == [2, 0]
    assert logged.task_ids.tolist() == ["first", "1"]
    assert logged.groups.tolist() == ["g", "1"]


def test_records_may_be_priced_and_keep_their_order() -> None:
    record = {"scores": {"a": 0.1, "b": 0.9}, "required": ["b", "b"]}
    logged = LoggedTasks.from_records([record], costs={"a": 3.0, "b": 5.0}, keep_order=True)
    assert logged.rankings.names(0) == ["a", "b"]
    assert logged.rankings.costs.tolist() == [[3.0, 5.0]]
    assert logged.required.tolist() == [[False, True]]
    assert logged.n_required.tolist() == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"required": np.zeros((2, 3), bool)}, "required … LoggedTasks … shape … (2, 2), … rankings"),
        ({"n_required": np.array([1])}, "'n_required' of LoggedTasks must have shape (2,)"),
        ({"task_ids": np.array(["a"])}, "'task_ids' of LoggedTasks must have shape (2,)"),
        ({"groups": np.array([["a", "b"]])}, "groups … LoggedTasks … shape … 2 … (1, 2)"),
        ({"required": np.ones((2, 2), bool)}, "required … LoggedTasks … not fall … padding"),
        ({"n_required": np.array([0, 1])}, "n_required … [0 1]"),
    ],
)
def test_bad_logged_tasks_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    names = np.array(["s", "t"])
    good = LoggedTasks(Rankings(**GOOD), np.array([[True, False], [True, False]]), np.array([1, 1]), names, names)
    with refuses(ValueError, message):
        replace(good, **change)


@pytest.mark.parametrize(
    "pick",
    [
        lambda n: slice(3, 50, 7),
        lambda n: [5, 2, 2],
        lambda n: np.arange(n)[::-1],
        lambda n: np.arange(n) % 3 == 1,
        lambda n: [],
    ],
    ids=["slice", "list", "indices", "mask", "nothing"],
)
def test_take_picks_whole_tasks(logged: LoggedTasks, pick: Callable[[int], Any]) -> None:
    rows = pick(len(logged))
    kept = np.arange(len(logged))[rows].tolist()
    everything = as_records(logged)
    taken = logged.take(rows)
    assert len(taken) == len(kept)
    assert as_records(taken) == [everything[i] for i in kept]


def test_padding_changes_no_task_and_not_the_digest(logged: LoggedTasks) -> None:
    wider = logged.padded_to(13)
    assert wider.rankings.width == 13
    assert as_records(wider) == as_records(logged)
    assert wider.digest() == logged.digest()
    assert logged.padded_to(8).rankings.width == 8


def test_order_by_sorts_each_list_keeps_ties_in_rank_and_padding_last(logged: LoggedTasks) -> None:
    keys = np.round(logged.rankings.costs * 3)
    moved = logged.reordered(logged.rankings.order_by(keys))
    for before, after, key in zip(as_records(logged), as_records(moved), keys, strict=True):
        ranked = sorted(enumerate(before.pop("candidates")), key=lambda pair: (-key[pair[0]], pair[0]))
        assert after.pop("candidates") == [candidate for _, candidate in ranked]
        assert after == before


def test_reordering_back_by_score_restores_the_ranking(logged: LoggedTasks, rng: np.random.Generator) -> None:
    distinct = logged.take(np.array([len(set(row[:k])) == k for row, k in scored_rows(logged)]))
    shuffled = distinct.reordered(distinct.rankings.order_by(rng.random(distinct.required.shape)))
    assert as_records(shuffled) != as_records(distinct)
    restored = shuffled.reordered(shuffled.rankings.order_by(shuffled.rankings.scores))
    assert as_records(restored) == as_records(distinct)


def scored_rows(logged: LoggedTasks) -> list[tuple[list[float], int]]:
    return list(zip(logged.rankings.scores.tolist(), logged.rankings.lengths.tolist(), strict=True))


def test_with_costs_changes_prices_alone_by_name_or_by_array(logged: LoggedTasks) -> None:
    prices = {tool: 0.1 + i for i, tool in enumerate(logged.rankings.catalogue)}
    by_name = logged.with_costs(prices)
    by_array = logged.with_costs(by_name.rankings.costs)
    for before, named, arrayed in zip(as_records(logged), as_records(by_name), as_records(by_array), strict=True):
        candidates = before.pop("candidates")
        expected = [(tool, score, prices[tool], *rest) for tool, score, _, *rest in candidates]
        assert named.pop("candidates") == expected
        assert arrayed.pop("candidates") == expected
        assert named == arrayed == before


def test_with_costs_checks_the_new_prices(logged: LoggedTasks) -> None:
    with refuses(ValueError, "costs", "Rankings", must="finite and positive"):
        logged.with_costs(logged.rankings.costs * 0)
    with refuses(ValueError, "costs", "price", "tool", "tool-0001", "tool-0002"):
        logged.with_costs({"tool-0000": 1.0})


def test_the_digest_follows_all_that_a_fit_reads_and_nothing_else(logged: LoggedTasks) -> None:
    r = logged.rankings
    at = np.zeros(logged.required.shape, dtype=bool)
    at[tuple(np.argwhere(logged.required)[0])] = True
    changed = [
        logged.with_costs(r.costs + at),
        replace(logged, rankings=replace(r, scores=r.scores + at)),
        replace(logged, rankings=replace(r, catalogue=("renamed", *r.catalogue[1:]))),
        replace(logged, rankings=replace(r, tool_ids=np.where(r.listed, r.tool_ids.max() - r.tool_ids, -1))),
        replace(logged, required=logged.required & ~at),
        replace(logged, n_required=logged.n_required + 1),
        replace(logged, groups=np.roll(logged.groups, 1)),
        logged.take(slice(0, len(logged) - 1)),
        logged.take(np.arange(len(logged))[::-1]),
        logged.reordered(r.order_by(-r.scores - np.arange(8) * 1e-9)),
    ]
    digests = {logged.digest(), *(other.digest() for other in changed)}
    assert len(digests) == 1 + len(changed)
    assert replace(logged, task_ids=np.roll(logged.task_ids, 1)).digest() == logged.digest()


@examples
@given(small_logged())
def test_tables_survive_padding_taking_and_pricing_whatever_their_shape(logged: LoggedTasks) -> None:
    rows = list(range(len(logged)))
    same = (
        logged.padded_to(logged.rankings.width + 2).take(rows).with_costs(dict.fromkeys(logged.rankings.catalogue, 2.0))
    )
    flat = np.where(logged.rankings.listed, 2.0, 0.0)
    assert as_records(same) == as_records(logged.with_costs(flat))
    assert same.digest() == logged.with_costs(flat).digest()


# Payoff.


def test_exact_pays_for_the_whole_required_set_and_partial_for_its_share() -> None:
    record = {"scores": {"a": 0.9, "b": 0.5, "c": 0.1}, "required": ["a", "c"]}
    logged = LoggedTasks.from_records([record], costs={"a": 1.0, "b": 2.0, "c": 4.0})
    assert Payoff(0.1).by_depth(logged)[0].tolist() == pytest.approx([0.0, -0.1, -0.3, 0.3])
    assert Payoff(0.1, "partial").by_depth(logged)[0].tolist() == pytest.approx([0.0, 0.4, 0.2, 0.3])
    skipping = np.array([[True, False, True]])
    assert Payoff(0.1).of(logged, skipping)[0] == pytest.approx(0.5)
    assert cost_of(logged.rankings, skipping).tolist() == [5.0]


@pytest.mark.parametrize(("value", "worth"), [("exact", [0.0, 0.0, 0.0]), ("partial", [0.0, 0.5, 0.5])])
def test_a_list_that_misses_a_required_tool_is_never_sufficient(value: str, worth: list[float]) -> None:
    logged = LoggedTasks.from_records([{"scores": {"a": 0.9, "b": 0.5}, "required": ["a", "unlisted"]}])
    assert Payoff(0.1, value).worth_by_depth(logged)[0].tolist() == worth


@pytest.mark.parametrize("value", ["exact", "partial"])
def test_a_task_that_requires_nothing_is_worth_one_from_the_start(value: str) -> None:
    logged = LoggedTasks.from_records([{"scores": {"a": 0.9}, "required": []}, {"scores": {}, "required": []}])
    assert Payoff(0.25, value).by_depth(logged).tolist() == [[1.0, 0.75], [1.0, 1.0]]


def test_without_candidates_only_depth_zero_exists() -> None:
    logged = LoggedTasks.from_records([{"scores": {}, "required": ["x"]}, {"scores": {}, "required": []}])
    nothing = np.zeros((2, 0), dtype=bool)
    assert Payoff(0.25).by_depth(logged).tolist() == [[0.0], [1.0]]
    assert Payoff(0.25).of(logged, nothing).tolist() == [0.0, 1.0]


def assert_prefixes_agree_to_the_bit(logged: LoggedTasks, payoff: Payoff) -> None:
    by_depth = payoff.by_depth(logged)
    for t in range(logged.rankings.width + 1):
        depth = np.minimum(t, logged.rankings.lengths)
        assert np.array_equal(payoff.of(logged, Decisions.prefix(logged.rankings, depth).acquired), by_depth[:, t])
    wider = payoff.by_depth(logged.padded_to(logged.rankings.width + 3))
    assert np.array_equal(wider[:, : by_depth.shape[1]], by_depth)
    assert (wider[:, by_depth.shape[1] :] == by_depth[:, -1:]).all()


@pytest.mark.parametrize("value", ["exact", "partial"])
def test_the_payoff_of_a_prefix_is_the_payoff_by_depth_to_the_bit(rng: np.random.Generator, value: str) -> None:
    assert_prefixes_agree_to_the_bit(random_logged(rng, 10_000, 9), Payoff(0.137, value))


@examples
@given(small_logged(), small_payoffs(RECOURSES))
def test_the_payoff_of_a_prefix_is_the_payoff_by_depth_at_any_pressure(logged: LoggedTasks, payoff: Payoff) -> None:
    assert_prefixes_agree_to_the_bit(logged, payoff)


@examples
@given(small_logged(), small_payoffs(RECOURSES), st.data())
def test_the_payoff_of_any_set_follows_its_definition(logged: LoggedTasks, payoff: Payoff, data: st.DataObject) -> None:
    acquired = np.zeros(logged.required.shape, dtype=bool)
    for row, length in enumerate(logged.rankings.lengths.tolist()):
        acquired[row, :length] = data.draw(st.lists(st.booleans(), min_size=length, max_size=length))
    found = payoff.of(logged, acquired)
    for row, record in enumerate(as_records(logged)):
        chosen = [c for c, taken in zip(record["candidates"], acquired[row].tolist(), strict=False) if taken]
        covered, needed = sum(required for _, _, _, required in chosen), record["n_required"]
        within = sum(required for _, _, _, required in record["candidates"])
        if payoff.value == "exact":
            value = payoff.recourse ** (needed - covered) if within == needed else 0.0
        else:
            value = 1.0 if needed == 0 else (covered + payoff.recourse * (within - covered)) / needed
        expected = value - payoff.cost_pressure * sum(cost for _, _, cost, _ in chosen)
        assert found[row] == pytest.approx(expected, rel=0, abs=1e-12)


def test_money_turns_into_pressure_through_the_worth_of_a_task() -> None:
    payoff = Payoff.from_money(task_worth=0.8, value="partial")
    assert payoff == Payoff(1.25, "partial")


@pytest.mark.parametrize("pressure", [-0.1, np.nan, np.inf, "high", None, [0.1]])
def test_a_pressure_that_makes_no_sense_is_refused(pressure: Any) -> None:
    with refuses(ValueError, "cost_pressure", "Payoff", must="a number, 0 or more"):
        Payoff(pressure)


@pytest.mark.parametrize("worth", [0.0, -1.0, np.nan, np.inf, "much", None])
def test_a_task_worth_that_makes_no_sense_is_refused(worth: Any) -> None:
    with refuses(ValueError, "task_worth", "Payoff", must="a number above 0"):
        Payoff.from_money(worth)


def test_an_unknown_value_is_refused_with_the_known_ones() -> None:
    with refuses(ValueError, "value", "Payoff", "exact", "partial", "function", "x"):
        Payoff(0.1, "x")


def at_least_half(covered: Ints, n_required: Ints) -> Floats:
    half: Bools = 2 * covered >= n_required
    return half.astype(np.float64)


def test_a_value_function_of_ones_own_is_used() -> None:
    logged = LoggedTasks.from_records([{"scores": {"a": 0.9, "b": 0.5}, "required": ["b", "unlisted"]}])
    assert Payoff(0.25, at_least_half).by_depth(logged).tolist() == [[0.0, -0.25, 0.5]]


@pytest.mark.parametrize(
    "value",
    [
        lambda covered, n_required: 1.5 * (covered == n_required),
        lambda covered, n_required: -0.5 * (covered < n_required),
        lambda covered, n_required: 1.0 - covered / np.maximum(n_required, 1),
        lambda covered, n_required: np.where(covered == 0, 0.5, covered / np.maximum(n_required, 1)),
        lambda covered, n_required: np.where((covered == 2) & (n_required == 4), 0.0, 1.0 * (covered > 0)),
        lambda covered, n_required: np.full(covered.shape, np.nan),
        lambda covered, n_required: 1.0,
        lambda covered, n_required: np.ones(3),
    ],
    ids=["above 1", "below 0", "falls", "falls at first", "falls once", "not a number", "one for all", "wrong shape"],
)
def test_a_value_function_that_breaks_its_promise_is_refused(value: Any) -> None:
    with refuses(ValueError, "value", "Payoff", "function", "works elementwise", "stays", "[0, 1]", "never"):
        Payoff(0.1, value)


# The scan and its decisions.


def first_stop_by_hand(stop: Bools, lengths: Ints) -> list[int]:
    return [next((t for t in range(m) if row[t]), m) for row, m in zip(stop, lengths.tolist(), strict=True)]


def test_the_scan_stops_at_the_first_yes_and_never_past_the_list(rng: np.random.Generator) -> None:
    stop = rng.random((10_000, 7)) < rng.random((10_000, 1))
    lengths = rng.integers(0, 8, 10_000)
    assert first_stop(stop, lengths).tolist() == first_stop_by_hand(stop, lengths)


@examples
@given(
    st.integers(0, 5).flatmap(
        lambda m: st.lists(st.tuples(st.lists(st.booleans(), min_size=m, max_size=m), st.integers(0, m)))
    )
)
def test_the_scan_matches_a_loop(rows: list[tuple[list[bool], int]]) -> None:
    width = len(rows[0][0]) if rows else 0
    stop = np.array([answers for answers, _ in rows], dtype=bool).reshape(len(rows), width)
    lengths = np.array([length for _, length in rows], dtype=np.int64)
    assert first_stop(stop, lengths).tolist() == first_stop_by_hand(stop, lengths)


def test_a_prefix_decision_acquires_the_first_candidates_and_names_them_in_rank_order() -> None:
    rankings = Rankings.from_scores([{"a": 0.2, "b": 0.9, "c": 0.5}, {"a": 0.8, "b": 0.1}])
    decisions = Decisions.prefix(rankings, np.array([2, 0]))
    assert len(decisions) == 2
    assert decisions.acquired.tolist() == [[True, True, False], [False, False, False]]
    assert decisions.names(rankings) == ["b", "c"]
    assert decisions.names(rankings, 1) == []
    assert decisions.depth is not None
    assert decisions.depth.tolist() == [2, 0]
    assert decisions.evidence is None


def test_a_decision_that_skips_names_what_it_keeps_in_rank_order() -> None:
    rankings = Rankings.from_scores([{"a": 0.2, "b": 0.9, "c": 0.5}, {"a": 0.8, "b": 0.1}])
    decisions = Decisions(np.array([[True, False, True], [True, True, False]]))
    assert [decisions.names(rankings, row) for row in range(2)] == [["b", "a"], ["a", "b"]]
    assert decisions.depth is None


# The paired bootstrap.


def test_the_interval_matches_scipys_percentile_bootstrap(rng: np.random.Generator) -> None:
    differences = rng.gamma(0.5, 0.2, 150) - 0.05
    resamples = 20_000
    ours = paired_bootstrap(differences, resamples=resamples)
    theirs = stats.bootstrap(
        (differences,), np.mean, n_resamples=resamples, method="percentile", rng=np.random.default_rng(1), batch=1000
    )
    # A quantile q of B normal draws has standard error sqrt(q (1 - q) / B) / density: 2.67 sd / sqrt(B) at q = 0.025.
    # Both sides have it, so the ends differ by more than 5 such errors once in millions of seeds.
    error = np.sqrt(2) * 2.67 * differences.std() / np.sqrt(len(differences)) / np.sqrt(resamples)
    assert ours.mean == differences.mean()
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=5 * error)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=5 * error)
    assert 5 * error < 0.1 * (ours.high - ours.low)


@pytest.mark.parametrize("at_a_time", [1, 600, 2**22])
def test_draws_in_blocks_are_the_draws_of_one_block_to_the_last_bit(
    at_a_time: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    differences, resamples = rng.normal(0.1, 1.0, 130), 70
    drawn = np.random.default_rng(3).multinomial(130, np.full(130, 1 / 130), size=resamples).astype(np.float64)
    means = np.einsum("bg,g->b", drawn, differences) / np.einsum("bg,g->b", drawn, np.ones(130))
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    monkeypatch.setattr(resampling, "AT_A_TIME", at_a_time)
    for kept in (0, 2**24):
        monkeypatch.setattr(resampling, "DRAWS_KEPT", kept)
        assert paired_bootstrap(differences, 3, resamples=resamples) == Interval(differences.mean(), low, high)


def test_the_memory_of_the_bootstrap_does_not_grow_with_its_draws(rng: np.random.Generator) -> None:
    differences, peaks = rng.normal(0.1, 1.0, 100_000), []
    for resamples in (90, 270):
        tracemalloc.start()
        paired_bootstrap(differences, resamples=resamples)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0] < 150e6


def test_one_group_a_task_is_the_bootstrap_by_task(rng: np.random.Generator) -> None:
    differences = rng.normal(0.1, 1.0, 200)
    by_task = paired_bootstrap(differences, 3)
    names = np.array([f"task-{i:03d}" for i in range(200)])
    assert paired_bootstrap(differences, 3, groups=names) == by_task
    assert paired_bootstrap(differences, 3, groups=np.arange(200) * 7 - 100) == by_task


def test_copies_of_a_task_are_no_new_evidence_once_grouped(rng: np.random.Generator) -> None:
    differences = rng.normal(0.1, 1.0, 60)
    copied, groups = np.repeat(differences, 9), np.repeat(np.arange(60), 9)
    once = paired_bootstrap(differences, 3)
    grouped = paired_bootstrap(copied, 3, groups=groups)
    naive = paired_bootstrap(copied, 3)
    ends = [grouped.mean, grouped.low, grouped.high]
    assert ends == pytest.approx([once.mean, once.low, once.high], rel=1e-12)
    # Nine copies taken for nine tasks shrink the interval to a third; resampling noise is a few percent.
    assert (grouped.high - grouped.low) / (naive.high - naive.low) == pytest.approx(3.0, rel=0.15)


def test_the_names_of_groups_change_nothing(rng: np.random.Generator) -> None:
    differences, groups = rng.normal(size=90), rng.integers(0, 20, 90)
    one = paired_bootstrap(differences, 3, groups=groups)
    names = np.array([f"{97 * g % 20}" for g in groups])
    assert paired_bootstrap(differences, 3, groups=names) == one


def test_a_group_counts_with_all_its_tasks() -> None:
    # Groups of 9 and 1: a resample has mean 1, 0.9 or 0, and the interval reaches both ends.
    differences, groups = np.array([1.0] * 9 + [0.0]), np.array(["big"] * 9 + ["small"])
    assert paired_bootstrap(differences, groups=groups) == Interval(0.9, 0.0, 1.0)


def test_the_interval_is_a_function_of_its_seed_alone(rng: np.random.Generator) -> None:
    differences = rng.normal(size=50)
    untouched = differences.copy()
    first, second, other = (paired_bootstrap(differences, seed) for seed in (5, 5, 6))
    assert first == second
    assert first != other
    assert np.array_equal(differences, untouched)


def test_equal_differences_have_a_point_for_an_interval() -> None:
    assert paired_bootstrap(np.full(5, 0.25)) == Interval(0.25, 0.25, 0.25)


@pytest.mark.parametrize("differences", [np.array([]), np.zeros((2, 2)), np.array([0.1, np.nan])])
def test_differences_must_be_one_finite_number_a_task(differences: Floats) -> None:
    with refuses(ValueError, "differences", "finite number", "task", "least"):
        paired_bootstrap(differences)


def test_groups_must_name_one_group_a_task() -> None:
    with refuses(ValueError, "2", "3 tasks"):
        paired_bootstrap(np.zeros(3), groups=np.array(["a", "b"]))


def test_an_interval_prints_as_in_the_papers_tables() -> None:
    assert str(Interval(0.03449, -0.0161, 0.0624)) == "+0.034 [-0.016, +0.062]"
