"""Every policy keeps every promise, and every check catches a policy that breaks its promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Self

import numpy as np
import pytest

import camdf
from camdf import checks
from camdf.checks import CHECKS, check_policy
from camdf.core.features import COST_AUGMENTED, COST_FREE, SCORE_AGGREGATES
from camdf.core.stopping import prefix_oracle
from camdf.errors import BrokenPromiseError
from camdf.policies.models.stored import Written, count
from camdf.policies.registry import LIBRARY

VARIANTS: dict[str, Callable[[], camdf.Policy]] = {
    "cam-df without identity": lambda: camdf.CAMDF(identity=False),
    "cam-df with uniform weights": lambda: camdf.CAMDF(weights="uniform"),
    "cam-df with a tuned threshold": lambda: camdf.CAMDF(threshold=None),
    "cam-df blind to costs": lambda: camdf.CAMDF(cost_blind=True),
    "lite, cost-free": lambda: camdf.CAMDFLite(COST_FREE),
    "lite, cost-augmented": lambda: camdf.CAMDFLite(COST_AUGMENTED, grid=[0.05 * i for i in range(1, 20)]),
    "predict-then-threshold on scores": lambda: camdf.PredictThenThreshold(SCORE_AGGREGATES),
    "predict-then-threshold at 0.5": lambda: camdf.PredictThenThreshold(threshold=0.5),
    "score-per-cost on a grid": lambda: camdf.ScorePerCostThreshold([0.05 * i for i in range(1, 31)]),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
@pytest.mark.parametrize("policy", LIBRARY, ids=lambda policy: policy.kind)
def test_every_policy_keeps_every_promise(policy: type[camdf.Policy], check: Callable[[Any], None]) -> None:
    check(policy)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_every_variant_keeps_every_promise(variant: Callable[[], camdf.Policy]) -> None:
    check_policy(variant)


class _Cut(camdf.Policy):
    """Acquires the first half of every list; the broken policies below each spoil one thing."""

    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        return camdf.Decisions.prefix(rankings, rankings.lengths // 2)


class _TakesPadding(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        return camdf.Decisions(np.ones(rankings.scores.shape, dtype=bool))


class _WrongDepth(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        return camdf.Decisions(super().decide(rankings, payoff).acquired, rankings.lengths)


class _Counts(_Cut):
    def __init__(self) -> None:
        self.calls = 0

    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        self.calls += 1
        return camdf.Decisions.prefix(rankings, np.minimum(rankings.lengths, self.calls))


class _CutsByWidth(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        return camdf.Decisions.prefix(rankings, np.minimum(rankings.lengths, rankings.width // 2))


class _ComparesWithTheBatch(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        bar = rankings.scores[rankings.listed].mean() if rankings.listed.any() else 0.0
        return camdf.Decisions((rankings.scores >= bar) & rankings.listed)


class _PrefersEvenRows(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        return camdf.Decisions.prefix(rankings, np.where(np.arange(len(rankings)) % 2, 0, rankings.lengths))


class _Writes(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        rankings.costs[:, :1] += 1.0
        return super().decide(rankings, payoff)


class _RemembersLabels(_Cut):
    def fit(self, logged: camdf.LoggedTasks, payoff: camdf.Payoff, validation: camdf.LoggedTasks | None = None) -> Self:
        self.logged_ = logged
        return self

    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        if rankings is getattr(getattr(self, "logged_", None), "rankings", None):
            return prefix_oracle(self.logged_, payoff)
        return super().decide(rankings, payoff)


class _FitsANewOne(_Cut):
    def fit(self, logged: camdf.LoggedTasks, payoff: camdf.Payoff, validation: camdf.LoggedTasks | None = None) -> Self:
        return type(self)()


class _NeverForgets(_Cut):
    def fit(self, logged: camdf.LoggedTasks, payoff: camdf.Payoff, validation: camdf.LoggedTasks | None = None) -> Self:
        self.k_ = getattr(self, "k_", 0) + 1
        return self

    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        if not hasattr(self, "k_"):
            raise camdf.NotFittedError
        return camdf.Decisions.prefix(rankings, np.minimum(rankings.lengths, self.k_))


class _KnowsItsToolsOnly(_Cut):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        known = [name for name in rankings.catalogue if not name.startswith("new")]
        width = rankings.width if known else 0
        return camdf.Decisions(np.zeros((len(rankings), width), dtype=bool))


class _FailsObscurely(_NeverForgets):
    def decide(self, rankings: camdf.Rankings, payoff: camdf.Payoff) -> camdf.Decisions:
        return camdf.Decisions.prefix(rankings, np.minimum(rankings.lengths, self.k_))


class _SavesTheWrongNumber(_NeverForgets):
    kind = "saves-the-wrong-number"
    k_: Annotated[int, count, Written(lambda k: k + 1)]


class _HoldsAFunction(_Cut):
    def fit(self, logged: camdf.LoggedTasks, payoff: camdf.Payoff, validation: camdf.LoggedTasks | None = None) -> Self:
        self.rule_ = lambda lengths: lengths // 2
        return self


class _KeepsAnotherSetting(_Cut):
    def __init__(self, k: int = 3) -> None:
        self.k = k + 1


class _KeepsNoSetting(_Cut):
    def __init__(self, k: int = 3) -> None:
        pass


BROKEN: dict[str, type[camdf.Policy]] = {
    "check_acquires_listed_candidates_only": _TakesPadding,
    "check_depth_agrees_with_what_is_acquired": _WrongDepth,
    "check_same_input_gives_the_same_answer": _Counts,
    "check_padding_changes_nothing": _CutsByWidth,
    "check_batch_size_changes_nothing": _ComparesWithTheBatch,
    "check_task_order_changes_nothing": _PrefersEvenRows,
    "check_input_is_left_alone": _Writes,
    "check_labels_cannot_reach_a_decision": _RemembersLabels,
    "check_constructor_stores_and_fit_learns": _FitsANewOne,
    "check_fitting_again_forgets": _NeverForgets,
    "check_any_list_can_be_decided": _KnowsItsToolsOnly,
    "check_unfitted_policy_says_so": _FailsObscurely,
    "check_saved_policy_decides_the_same": _SavesTheWrongNumber,
    "check_pickled_policy_decides_the_same": _HoldsAFunction,
    "check_cloned_policy_has_the_settings_and_has_learned_nothing": _KeepsAnotherSetting,
}


def test_there_is_a_broken_policy_for_every_check() -> None:
    assert BROKEN.keys() == CHECKS.keys()


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_catches_a_policy_that_breaks_its_promise(name: str) -> None:
    with pytest.raises(BrokenPromiseError):
        CHECKS[name](BROKEN[name])


def test_a_policy_that_keeps_an_argument_under_no_name_cannot_be_cloned_and_is_told_so() -> None:
    with pytest.raises(BrokenPromiseError, match=r"made anew from its get_params.*'k'"):
        checks.check_cloned_policy_has_the_settings_and_has_learned_nothing(_KeepsNoSetting)


def test_the_unspoilt_policy_passes_so_the_broken_ones_fail_for_their_spoiling() -> None:
    check_policy(_Cut)


def test_check_policy_names_the_check_that_failed() -> None:
    with pytest.raises(BrokenPromiseError, match="check_acquires_listed_candidates_only: padding is never acquired"):
        check_policy(_TakesPadding)


def test_sample_tasks_come_in_one_catalogue_or_ragged() -> None:
    assert checks.sample_tasks(0).rankings.shares_catalogue
    ragged = checks.sample_tasks(0, ragged=True)
    assert not ragged.rankings.shares_catalogue
    assert (ragged.missing > 0).any()
