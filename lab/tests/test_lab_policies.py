"""Policies of the paper's tables: they keep every promise, and are known to the product where the lab is installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import camdf
from camdf import ArtifactError, LoggedTasks, Payoff, Policy, Rankings, UsageError
from camdf.checks import CHECKS, check_policy, sample_tasks
from camdf.core.stopping import prefix_oracle
from camdf.evaluation.fit import fit
from camdf.policies import registry
from camdf.policies.artifact import from_json, to_json
from camdf.policies.models.tuning import LARGEST, between_quantiles
from camdf.policies.registry import GROUP, IN_THE_LAB, policy_maker, policy_name
from camdf_lab.policies import (
    LIBRARY,
    AggregateOnlyDF,
    GapRegression,
    KeywordRule,
    MarkedRankings,
    ResidualCorrected,
    preselect_keywords,
)
from golden_policies import Golden, golden, kept, lists
from saying import refuses

EXACT = Payoff(0.12)
PARTIAL = Payoff(0.12, "partial")
TRAIN, VALIDATION, TEST = (sample_tasks(seed) for seed in (1, 2, 3))
VARIANTS: dict[str, Callable[[], Policy]] = {
    **{policy.kind: policy for policy in LIBRARY},
    "gap regression, tuned": lambda: GapRegression(threshold=None),
    "whole numbers": lambda: GapRegression(threshold=0, grid=(-1, 0, 1)),
    "on-policy": lambda: AggregateOnlyDF(target="on-policy"),
    "a keyword rule on a grid": lambda: KeywordRule((0.25, 0.5, 0.75)),
}
both_values = pytest.mark.parametrize("payoff", [EXACT, PARTIAL], ids=["exact", "partial"])
every_kind = pytest.mark.parametrize("policy", LIBRARY, ids=lambda policy: policy.kind)


def mean_payoff(policy: Policy, logged: LoggedTasks, payoff: Payoff) -> float:
    return float(payoff.of(logged, policy.decide(logged.rankings, payoff).acquired).mean())


# Promises.


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
@every_kind
def test_every_policy_keeps_every_promise(policy: type[Policy], check: Callable[[Any], None]) -> None:
    check(policy)


@pytest.mark.parametrize("make", VARIANTS.values(), ids=list(VARIANTS))
def test_every_variant_keeps_every_promise_and_can_be_cloned(make: Callable[[], Policy]) -> None:
    check_policy(make)
    policy = make().fit(TRAIN, EXACT, VALIDATION)
    assert clone(policy).get_params() == policy.get_params()
    assert repr(clone(policy)) == repr(policy)


@both_values
def test_no_policy_that_stops_beats_the_prefix_oracle_on_any_task(payoff: Payoff) -> None:
    best = payoff.of(TEST, prefix_oracle(TEST, payoff).acquired)
    for policy in (AggregateOnlyDF(), GapRegression(), ResidualCorrected()):
        acquired = policy.fit(TRAIN, payoff, VALIDATION).decide(TEST.rankings, payoff).acquired
        assert (payoff.of(TEST, acquired) <= best).all()


def test_a_gap_is_stopped_at_where_it_is_not_negative() -> None:
    assert GapRegression().fit(TRAIN, EXACT).cutoff_ == 0.0
    assert GapRegression(threshold=-2.5).fit(TRAIN, EXACT).cutoff_ == -2.5


@both_values
def test_no_fixed_cutoff_pays_more_on_validation_than_the_tuned_one(payoff: Payoff) -> None:
    fitted = ResidualCorrected().fit(TRAIN, payoff, VALIDATION)
    tuned = mean_payoff(fitted, VALIDATION, payoff)
    for cut in [*between_quantiles(fitted.evidence(TRAIN.rankings, payoff)[TRAIN.rankings.listed]), -LARGEST, LARGEST]:
        fitted.cutoff_ = cut
        assert mean_payoff(fitted, VALIDATION, payoff) <= tuned


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: GapRegression(threshold="high"), "'threshold' of GapRegression … finite number … 'high'"),  # type: ignore[arg-type]
        (lambda: GapRegression(grid=[float("nan")]), "'grid' of GapRegression … at most 16384 numbers … [nan]"),
        (lambda: AggregateOnlyDF(threshold=2.0), "'threshold' of AggregateOnlyDF … from 0 to 1 … 2.0"),
        (lambda: KeywordRule(grid="ab"), "'grid' of KeywordRule … list … 'ab'"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused_by_name_where_it_is_given(make: Callable[[], Policy], told: str) -> None:
    with refuses(UsageError, told):
        make()


# What a rule outside of a ranking chose.


def test_keyword_rule_adds_what_the_rule_chose_to_what_scores_high() -> None:
    rankings = Rankings.from_scores([{"mail": 0.1, "maps": 0.9}, {"mail": 0.1, "maps": 0.2}])
    marked = preselect_keywords(rankings, ["Write a LETTER", "hello"], {"mail": ["letter", "e-mail"]})
    needed = marked.preselected
    logged = LoggedTasks(marked, needed, needed.sum(axis=1), *2 * [np.array(["1", "2"])])
    policy = KeywordRule([0.5]).fit(logged, EXACT)
    policy.threshold_ = 0.5
    assert [policy.decide(logged.rankings, EXACT).names(rankings, row) for row in (0, 1)] == [["maps", "mail"], []]
    assert [policy.decide(rankings, EXACT).names(rankings, row) for row in (0, 1)] == [["maps"], []]


def test_marks_follow_rows_order_padding_and_prices() -> None:
    plain = TRAIN.rankings
    marked = MarkedRankings.of(plain, TRAIN.required)
    assert marked.preselected.tolist() == TRAIN.required.tolist()
    order = plain.order_by(-plain.scores)
    for found, expected in (
        (marked.take([4, 2]), TRAIN.required[[4, 2]]),
        (marked.reordered(order), np.take_along_axis(TRAIN.required, order, axis=1)),
        (marked.padded_to(9), np.pad(TRAIN.required, ((0, 0), (0, 2)))),
        (marked.with_costs(plain.costs * 2), TRAIN.required),
    ):
        assert isinstance(found, MarkedRankings)
        assert np.array_equal(found.preselected, expected)


# Files, and names.


@pytest.mark.parametrize(
    "each",
    [each for each in golden() if each.document["kind"] in IN_THE_LAB],
    ids=lambda each: each.name,
)
def test_a_stored_policy_decides_as_it_did_when_it_was_saved(each: Golden, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(each.content)
    policy = camdf.load(path)
    rankings = lists()
    marked = MarkedRankings.of(rankings, (rankings.tool_ids % 3 == 1) & rankings.listed)
    assert type(policy) in LIBRARY
    assert kept(policy, marked) == each.kept
    again = from_json(to_json(policy, policy.training_).encode())
    assert (kept(again, marked), again.training_) == (each.kept, policy.training_)


def test_the_lab_brings_what_the_product_says_that_it_brings() -> None:
    assert tuple(sorted(policy.kind for policy in LIBRARY)) == IN_THE_LAB
    named = {each.name: each.load() for each in entry_points(group=GROUP)}
    assert named == {policy.kind: policy for policy in LIBRARY}


@every_kind
def test_a_policys_name_is_its_class_in_lower_case_with_hyphens_and_its_page_names_it(policy: type[Policy]) -> None:
    assert policy.kind.replace("-", "") == policy.__name__.lower()
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", policy.kind)
    assert policy_maker(policy_name(policy.kind)) is policy
    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
    assert f"`camdf_lab.policies.{policy.__name__}`" in page


def test_the_commands_of_the_product_fit_it_under_its_name_of_today() -> None:
    found = fit(TRAIN, EXACT, "gap-regression")
    assert isinstance(found.policy, GapRegression)


@pytest.mark.parametrize("kind", ["gap-regression", "keyword-rule"])
def test_where_the_lab_is_missing_a_file_and_a_name_say_what_to_install(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (each,) = (each for each in golden() if each.name == "keyword-rule, exact")
    monkeypatch.setattr(registry, "_added", dict)
    with pytest.raises(ArtifactError, match=r"unknown kind 'keyword-rule'.*pip install camdf-lab\.$"):
        from_json(each.content)
    with refuses(UsageError, kind, must="pip install camdf-lab"):
        policy_name(kind)
