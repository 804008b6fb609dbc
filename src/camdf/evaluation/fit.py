"""What `camdf fit` does: measure a policy beside the simple rules, then fit the one that ships on all tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.errors import UsageError
from camdf.evaluation.assess import Assessment, assess
from camdf.evaluation.splits import draw_splits
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.drift import fitted_catalogue
from camdf.policies.models.label_noise import LabelNoise, estimate_label_noise
from camdf.policies.registry import DEFAULT, policy_maker, policy_name
from camdf.policies.training import GIVEN, ScorerRecord, Training
from camdf.runtime.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted policy, how it did beside the simple rules on held-out tasks, and what is known of its labels."""

    policy: Policy
    assessment: Assessment
    label_noise: LabelNoise
    training: Training
    """What `camdf.save` stores with the policy."""


def fit(
    logged: LoggedTasks,
    payoff: Payoff,
    policy: str = DEFAULT,
    *,
    prior: ExpectedPayoffBySet | None = None,
    remember: bool = False,
    made_up: int = 0,
    scorer: ScorerRecord = GIVEN,
    splits: int = 30,
    seed: int = 0,
    first: Callable[[Assessment], None] | None = None,
    progress: Progress = silent,
) -> Fit:
    """Measure the named policy (`camdf.policies.registry.policy_name`) on splits, and fit one that ships.

    The one that ships learns from every task but those that choose its threshold. `prior` is a policy that the default
    starts from, fitted before for the same tools. With `remember` the default recalls what similar tasks needed.
    `made_up` says how many of the tasks a language model made up, and `scorer` what gave their scores
    (`camdf.scorers.record_of`), which the policy's file then tells. `first` is called with what a tenth of the splits
    says (`camdf.evaluation.assess.assess`).

    >>> from camdf import Payoff, datasets
    >>> found = fit(datasets.sample(), Payoff(0.12), "score-threshold", splits=4)
    >>> found.policy, round(found.assessment.outcomes.mean("score-threshold"), 2)
    (ScoreThreshold(), 0.39)
    """
    name = policy_name(policy)
    make: Callable[[], Policy] = policy_maker(name)
    if prior is not None:
        if name != DEFAULT:
            raise UsageError(f"Only {DEFAULT} can start from a 'prior'. Leave out the prior, or the policy {name}.")
        make = partial(ExpectedPayoffBySet, prior=prior)
    if remember:
        if name != DEFAULT:
            raise UsageError(f"Only {DEFAULT} can 'remember'. Leave that out, or the policy {name}.")
        make = partial(ExpectedPayoffBySet, prior=prior or "either", remember=True)
    assessment = assess(make, logged, payoff, splits=splits, seed=seed, subject=name, first=first, progress=progress)
    split = next(iter(draw_splits(logged, 1, seed, grouped=True, shares=(0.6, 0.2))))
    train = logged.take([*split.train, *split.test])
    validation = logged.take(split.validation)
    ships = make().fit(train, payoff, validation)
    noise = estimate_label_noise(logged)
    means = {rival: assessment.outcomes.mean(rival) for rival in assessment.outcomes.values}
    groups = numbered(logged.groups)[1]
    told = payoff if isinstance(payoff.value, str) else None  # code is never stored
    measured = Training(logged.digest(), len(logged), groups, len(validation), noise.rate, means, told, made_up)
    chosen = ships.decide(logged.rankings, payoff).acquired.sum(axis=1)
    catalogue = fitted_catalogue(logged, chosen, payoff.cost_pressure)
    training = replace(measured, scorer=scorer, catalogue=catalogue)
    return Fit(ships, assessment, noise, training)
