"""What `camdf fit` does: fit a policy that can ship, then measure it beside the simple rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.errors import UsageError
from camdf.evaluation.assess import Assessment, assess, require_choice
from camdf.evaluation.splits import draw_splits
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.drift import fitted_catalogue
from camdf.policies.models.label_noise import LabelNoise, estimate_label_noise
from camdf.policies.registry import DEFAULT, policy_maker, policy_name
from camdf.policies.training import GIVEN, FittedEffects, ScorerRecord, Training
from camdf.runtime.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted policy that can ship, and what is known of its labels."""

    policy: Policy
    training: Training
    """What `camdf.save` stores with the policy."""

    label_noise: LabelNoise
    name: str
    make: Callable[[], Policy]
    """Makes the policy as it was before the fit."""

    def assess(
        self,
        logged: LoggedTasks,
        payoff: Payoff,
        *,
        splits: int = 30,
        seed: int = 0,
        with_effects: Collection[str] = (),
        seconds: float = inf,
        progress: Progress = silent,
    ) -> Assessment:
        """Such a policy, fitted anew on each split of the tasks, beside the simple rules: `assess` has the settings."""
        return assess(
            self.make,
            logged,
            payoff,
            splits=splits,
            seed=seed,
            subject=self.name,
            with_effects=with_effects,
            seconds=seconds,
            progress=progress,
        )

    def training_with(self, assessment: Assessment) -> Training:
        """What `camdf.save` stores once it is known how the policy did."""
        return replace(self.training, validation_payoff=assessment.payoffs)


def fit(
    logged: LoggedTasks,
    payoff: Payoff,
    policy: str = DEFAULT,
    *,
    prior: ExpectedPayoffBySet | None = None,
    remember: bool = False,
    made_up: int = 0,
    scorer: ScorerRecord = GIVEN,
    effects: FittedEffects | None = None,
    seed: int = 0,
) -> Fit:
    """Fit the named policy (`camdf.policies.registry.policy_name`) so that it can ship.

    It learns from every task but those that choose its threshold. `prior` is a policy that the default
    starts from, fitted before for the same tools. With `remember` the default recalls what similar tasks needed.
    `made_up` says how many of the tasks a language model made up, `scorer` what gave their scores
    (`camdf.scorers.record_of`), and `effects` what tools can do and what that cost, all of which the policy's file then
    tells.

    >>> from camdf import Payoff, datasets
    >>> logged, payoff = datasets.sample(), Payoff(0.12)
    >>> found = fit(logged, payoff, "score-threshold")
    >>> found.policy, round(found.assess(logged, payoff, splits=4).payoffs["score-threshold"], 2)
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
    require_choice(logged)
    split = next(iter(draw_splits(logged, 1, seed, grouped=True, shares=(0.6, 0.2))))
    train = logged.take([*split.train, *split.test])
    validation = logged.take(split.validation)
    ships = make().fit(train, payoff, validation)
    noise = estimate_label_noise(logged)
    groups = numbered(logged.groups)[1]
    told = payoff if isinstance(payoff.value, str) else None  # code is never stored
    chosen = ships.decide(logged.rankings, payoff).acquired.sum(axis=1)
    training = Training(
        data_sha256=logged.digest(),
        tasks=len(logged),
        groups=groups,
        validation_tasks=len(validation),
        label_noise=noise.rate,
        payoff=told,
        made_up=made_up,
        scorer=scorer,
        catalogue=fitted_catalogue(logged, chosen, payoff.cost_pressure),
        effects=effects and effects.bounded(),
    )
    return Fit(ships, training, noise, name, make)
