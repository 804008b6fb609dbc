"""The one interface of every policy: rankings and a payoff in, decisions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.policies.fields import Field
from camdf.policies.training import Training


class NotFittedError(RuntimeError):
    """A policy that learns was asked to decide before `fit`."""


class Policy(ABC):
    """Decides which candidates to acquire.

    A new policy implements `decide`. One that learns also overrides `fit`, stores what it learned under names that end
    in an underscore, and returns itself; constructors only store. `camdf.checks.check_policy` says whether it keeps
    the promises that the rest of the library relies on.

    `kind` and `fields` let `camdf.save` write it: the name of the kind, and how to check each attribute when it is
    read back.
    """

    training_: Training | None = None
    """What a loaded policy was fitted on, where the file says so."""

    kind: ClassVar[str] = ""
    fields: ClassVar[dict[str, Field]] = {}

    @abstractmethod
    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        """One decision for every task, from scores, costs, order and the payoff's cost pressure alone."""

    def fit(self, logged: LoggedTasks, payoff: Payoff, validation: LoggedTasks | None = None) -> Self:
        """Learn from logged tasks. Thresholds are chosen on `validation`, or on `logged` where there is none."""
        return self

    def verify(self) -> None:
        """Raise ValueError where attributes read from a file contradict each other."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.endswith("_"))
        return f"{type(self).__name__}({settings})"


class FittedPolicy(Policy):
    """A policy that must be fitted, and then decides under the payoff it was fitted for and no other."""

    payoff_: Payoff

    def learned(self, name: str, payoff: Payoff) -> Any:
        """A learned attribute, once the policy is known to be fitted, and for this payoff."""
        fitted = self.__dict__.get("payoff_")
        if fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} has not been fitted. Call fit(logged, payoff), or load a saved policy."
            )
        if fitted is not payoff and fitted != payoff:
            raise ValueError(f"This {type(self).__name__} was fitted for {fitted}. Refit it to decide under {payoff}.")
        return self.__dict__[name]
