"""What a saved policy tells of its training."""

from __future__ import annotations

from dataclasses import dataclass, field

from camdf.core.payoff import Payoff


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

    payoff: Payoff | None = None
    """What it was fitted and measured under, also where the policy itself serves any payoff; None where not known."""

    made_up: int = 0
    """How many of the tasks a language model made up: such labels promise nothing about real tasks."""
