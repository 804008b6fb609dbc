"""The one interface of every policy: rankings and a payoff in, decisions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.errors import NotFittedError, UsageError
from camdf.policies.copies import NO_COPIES, Copies
from camdf.policies.models.past_tasks import PastTasks
from camdf.policies.models.stored import json_value, written_part
from camdf.policies.training import Training
from camdf.runtime.settings import checked_setting, checks_of

Serves: TypeAlias = Literal["anything", "a value", "a payoff"]


class Policy(ABC):
    """Decides which candidates to acquire.

    A new policy implements `decide`. One that learns also overrides `fit`, stores what it learned under names that end
    in an underscore, and returns itself; constructors only store. `camdf.checks.check_policy` says whether it keeps
    the promises that the rest of the library relies on.

    A `kind`, which is the policy's name, lets `camdf.save` write it: those attributes whose annotation says by a check
    what they may be (`camdf.policies.models.stored`). A constructor that stores its arguments by `store` refuses there
    what `load` would refuse later.
    """

    training_: Training | None = None
    """What a loaded policy was fitted on, where the file says so."""

    fitted_for: ClassVar[Serves] = "anything"
    """What one fit serves: any payoff and prices, one value and recourse at any prices, or one payoff at its prices."""

    kind: ClassVar[str] = ""

    has_reasons: ClassVar[bool] = False
    """Whether `reasons` may say anything."""

    @property
    def reads_texts(self) -> bool:
        """Whether a decision differs where the rankings hold the tasks' vectors."""
        return False

    @property
    def recalls(self) -> bool:
        """Whether it was fitted to read past tasks, which `recalling` gives to it."""
        return False

    def knows(self, user: str) -> bool:
        """Whether it decides otherwise for this user than for one without a name, or explains more."""
        return False

    @property
    def only_ranks(self) -> bool:
        """Whether it learns nothing from labels, so that it says no more of a tool than where it ranks."""
        return type(self).fit is Policy.fit

    @property
    def needed(self) -> Mapping[str, float]:
        """By tool, the part of the logged tasks that needed it; empty where a policy does not know."""
        return {}

    @property
    def by_turn(self) -> Policy:
        """What decides where every turn of a conversation gets tools of its own (mode "append")."""
        return self

    def recalling(self, past: PastTasks | None) -> Self:
        """The policy with the past tasks that a request is compared with, and a user's own, if it reads them."""
        return self

    def reasons(self, rankings: Rankings, row: int) -> Mapping[str, str]:
        """What else speaks for some tools of a task, in words; `GateDecision.explain` shows it."""
        return {}

    @abstractmethod
    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        """One decision for every task, from scores, costs, order and the payoff's cost pressure alone."""

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        """Learn from logged tasks. Thresholds are chosen on `validation`, or on `logged` where there is none."""
        return self

    def verify(self) -> None:
        """Raise ValueError where attributes read from a file contradict each other."""

    def store(self, **settings: Any) -> None:
        """Keep the arguments of a constructor, each checked as annotated; UsageError where one makes no sense."""
        kind = type(self)
        checks = checks_of(kind)
        for name, value in settings.items():
            given = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            checked = checked_setting(kind.__name__, name, given, checks[name])
            # A tuple or a number stays the very object that it is: scikit-learn's clone asks for that.
            self.__dict__[name] = checked if isinstance(value, list | np.ndarray) else value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as scikit-learn's `clone` reads them; `deep` is part of its protocol."""
        return {name: getattr(self, name) for name in _constructor_arguments(type(self))}

    def __sklearn_clone__(self) -> Self:
        """An unfitted one with the same settings; scikit-learn would also forget what a policy among them learned."""
        return type(self)(**self.get_params())

    def set_params(self, **settings: Any) -> Self:
        """Change settings by name and return the policy. What it had learned, under other settings, is forgotten."""
        known = _constructor_arguments(type(self))
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise UsageError(
                f"The settings of {type(self).__name__} must be among: {', '.join(known)}. Got {unknown[0]!r} instead."
            )
        changed = type(self)(**{**self.get_params(), **settings})
        self.__dict__.clear()
        self.__dict__.update(vars(changed))
        return self

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class, with equal settings, and have learned the same."""
        return (
            type(self) is type(other)
            and isinstance(other, Policy)
            and _comparable_content(self) == _comparable_content(other)
        )

    def __hash__(self) -> int:
        return hash(type(self))  # settings and what is learned may change, and a hash may not

    def __repr__(self) -> str:
        held = vars(self)  # a policy of your own that keeps an argument under another name prints without it
        known = {name: setting.default for name, setting in _constructor_arguments(type(self)).items() if name in held}
        told = (f"{name}={held[name]!r}" for name, default in known.items() if held[name] != default)
        return f"{type(self).__name__}({', '.join(told)})"


def fitted_payoff(policy: Policy) -> Payoff | None:
    """What a policy was fitted for, where it or its file says so."""
    fitted: Payoff | None = getattr(policy, "payoff_", None)
    if fitted is None and policy.training_ is not None:
        return policy.training_.payoff
    return fitted


def copies_of(policy: object) -> Copies:
    """The tools that a policy knows as one with another, by its file; none for one that has no such file."""
    training: Training | None = getattr(policy, "training_", None)
    return NO_COPIES if training is None else dict(training.copies)


def _constructor_arguments(kind: type[Policy]) -> dict[str, Parameter]:
    """The arguments of a policy's constructor."""
    parameters = signature(kind).parameters.items()
    return {name: setting for name, setting in parameters if setting.kind is not Parameter.VAR_KEYWORD}


def _comparable_content(policy: Policy) -> dict[str, Any]:
    """What a policy holds, in values that compare. `training_` says where that comes from, and not what it is."""
    annotated = [name for name in checks_of(type(policy)) if hasattr(policy, name)]
    written = {name: written_part(policy, name) for name in annotated}
    others = {name: json_value(value) for name, value in vars(policy).items() if name not in written}
    return {**written, **others, "training_": None}


class FittedPolicy(Policy):
    """A policy that must be fitted, and then decides under the payoff it was fitted for and no other."""

    fitted_for: ClassVar[Serves] = "a payoff"
    payoff_: Payoff

    def learned(self, name: str, payoff: Payoff) -> Any:
        """A learned attribute, once the policy is known to be fitted, and for this payoff."""
        fitted = self.__dict__.get("payoff_")
        if fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} has not been fitted. Call fit(logged, payoff), or load a saved policy."
            )
        if fitted is not payoff and fitted != payoff:
            raise UsageError(f"This {type(self).__name__} was fitted for {fitted}. Refit it to decide under {payoff}.")
        return self.__dict__[name]
