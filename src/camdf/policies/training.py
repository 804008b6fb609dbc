"""What a policy was fitted on, and how it did beside baselines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from camdf.policies.label_noise import estimate_label_noise
from camdf.policies.linear import MissingExtraError

if TYPE_CHECKING:
    from camdf.core.payoff import Payoff
    from camdf.core.rankings import LoggedTasks
    from camdf.policies.base import Policy


@dataclass(frozen=True)
class Training:
    """What a policy was fitted on, and how it did: travels inside the artifact."""

    data_sha256: str = ""
    tasks: int = 0
    groups: int = 0
    validation_tasks: int = 0
    label_noise: float | None = None
    """The `rate` of `estimate_label_noise`, an upper bound on the share of flipped labels; None where not known."""

    validation_payoff: dict[str, float] = field(default_factory=dict)
    """Mean payoff on held-out tasks: this policy's, and that of each baseline it was compared with, by name."""

    @classmethod
    def of(
        cls,
        policy: Policy,
        logged: LoggedTasks,
        payoff: Payoff,
        validation: LoggedTasks,
        baselines: Iterable[Policy] = (),
    ) -> Training:
        """Measure a fitted policy, and fitted baselines of other kinds beside it, on the validation tasks.

        The label noise of `logged` is estimated where scikit-learn is installed.
        """
        measured: dict[str, float] = {}
        for each in (policy, *baselines):
            if each.kind in measured:
                raise ValueError(
                    "The 'baselines' of Training must differ in kind from the policy and from each other. "
                    f"Got {each.kind!r} twice instead; leave one out."
                )
            acquired = each.decide(validation.rankings, payoff).acquired
            measured[each.kind] = float(payoff.of(validation, acquired).mean())
        try:
            noise = estimate_label_noise(logged).rate
        except MissingExtraError:
            noise = None
        return cls(logged.digest(), len(logged), len(set(logged.groups.tolist())), len(validation), noise, measured)
