"""The best set when labels are wrong: what flipped labels taught, corrected by the estimated share of flips."""

from __future__ import annotations

import numpy as np

from camdf.core.rankings import Floats, LoggedTasks, Rankings
from camdf.policies import fields
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.label_noise import contradicted
from camdf.policies.membership import HeldOut

MOST_NOISE = 0.4
"""A larger estimate is taken as this one: at a half, labels say nothing and nothing can be corrected."""

LEAST = 1e-4
"""Corrected probabilities stay so far from 0 and 1."""


class DenoisedBySet(ExpectedPayoffBySet):
    """`ExpectedPayoffBySet` for logs of which some labels are flipped at random.

    Flips at rate e turn the probability p that a tool is required into e + (1 - 2e) p, for every tool, so that no set
    seems to suffice. This policy estimates e with its fit (`estimate_label_noise`) and decides on
    (learned - e) / (1 - 2e). Hard tasks look like wrong labels, so on clean labels it corrects a little too much.
    """

    kind = "by-set-denoised"
    fields = {**ExpectedPayoffBySet.fields, "label_noise_": fields.number}
    label_noise_: float

    def learn(self, logged: LoggedTasks) -> HeldOut:
        held = super().learn(logged)
        listed = logged.rankings.listed
        self.label_noise_ = min(contradicted(held.probability[listed], logged.required[listed]).rate, MOST_NOISE)
        return held

    def probabilities(self, rankings: Rankings) -> tuple[Floats, Floats]:
        learned, holds = super().probabilities(rankings)
        rate = self.label_noise_
        if rate == 0:
            return learned, holds
        corrected = np.clip((learned - rate) / (1 - 2 * rate), LEAST, 1 - LEAST)
        return np.where(rankings.listed, corrected, 0.0), holds

    def verify(self) -> None:
        if not 0 <= self.label_noise_ <= MOST_NOISE:
            raise ValueError(f"label_noise_: must lie between 0 and {MOST_NOISE}. Got {self.label_noise_!r} instead")
