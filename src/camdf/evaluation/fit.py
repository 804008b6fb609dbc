"""What `camdf fit` does: fit a policy that can ship, then measure it beside the simple rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Self

from camdf.core.decisions import Decisions
from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import GatedTasks, LoggedTasks, Rankings, Strings
from camdf.errors import UsageError
from camdf.evaluation.assess import Assessment, assess, require_choice
from camdf.evaluation.splits import draw_splits
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.copies import NO_COPIES, Copies
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

    learned_from_gated: bool = False
    """Whether it also learned from tasks from which a gate had cut tools."""

    def assess(
        self,
        logged: LoggedTasks,
        payoff: Payoff,
        *,
        splits: int = 30,
        seed: int = 0,
        rules: Mapping[str, Callable[[], Policy]] | None = None,
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
            rules=rules,
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
    copies: Copies = NO_COPIES,
    seed: int = 0,
    gated: GatedTasks | None = None,
) -> Fit:
    """Fit the named policy (`camdf.policies.registry.policy_name`) so that it can ship.

    It learns from every task but those that choose its threshold. `prior` is a policy that the default
    starts from, fitted before for the same tools. With `remember` the default recalls what similar tasks needed.
    `made_up` says how many of the tasks a language model made up, `scorer` what gave their scores
    (`camdf.scorers.record_of`), `effects` what tools can do and what that cost, and `copies` which tools the tasks list
    as one (`camdf.datasets.joined_copies`), all of which the policy's file then tells. From `gated` tasks, from which a
    gate had cut tools, the default learns what became of those that they were offered; another policy learns nothing
    from them. The policy is measured on the others alone.

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
    ships = fitted_to(make(), train, payoff, validation, gated)
    learns_from_gated = False
    if gated is not None and isinstance(ships, ExpectedPayoffBySet):
        learns_from_gated = True
        make = partial(LearningFromGated, make, gated, logged.groups)
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
        catalogue=fitted_catalogue(logged, chosen, payoff.cost_pressure, copies),
        effects=effects and effects.bounded(),
        copies=tuple(sorted(copies.items())),
    )
    return Fit(ships, training, noise, name, make, learns_from_gated)


def fitted_to(
    policy: Policy,
    logged: LoggedTasks,
    payoff: Payoff,
    validation: LoggedTasks | None = None,
    gated: GatedTasks | None = None,
) -> Policy:
    """A policy, fitted; to `gated` tasks too, from which a gate had cut tools, if it is one that learns from them."""
    if isinstance(policy, ExpectedPayoffBySet):
        return policy.fit(logged, payoff, validation, gated)
    return policy.fit(logged, payoff, validation)


class LearningFromGated(Policy):
    """A policy that a replay fits, and that then learns from gated tasks, but from none of a group that is held out.

    `groups` are those of all tasks that are replayed.
    """

    def __init__(self, make: Callable[[], Policy], gated: GatedTasks, groups: Strings) -> None:
        self.policy = make()
        self.gated = gated
        self.groups = groups

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        taught = {*logged.groups.tolist()}
        if validation is not None:
            taught |= {*validation.groups.tolist()}
        held_out = [group for group in self.groups.tolist() if group not in taught]
        fitted_to(self.policy, logged, payoff, validation, self.gated.without(held_out))
        return self

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return self.policy.decide(rankings, payoff)
