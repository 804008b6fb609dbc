"""What other domains say before the first label: where a membership model starts, and how far it may go from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from camdf.core.candidates import CANDIDATE_COLUMNS
from camdf.core.probability import CLIP
from camdf.core.rankings import Floats
from camdf.errors import UsageError
from camdf.policies.models.membership import MembershipModel
from camdf.policies.models.task_text import TextSignal

KINDS = ("similarity", "probability")
"""What scores may be: similarities of texts, or a language model's answers to how likely a tool is to be needed."""

FILE = "prior_{}.json"

FROM_MADE_UP = (0.30, 0.07, 0.10)
"""How far eleven domains lay from what made-up tasks said of them: a `covariance` (benchmarks/made_up_labels.py)."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A membership model learned from other domains, and how far those domains lay from what it said of them.

    `coefficients` and `intercept` give z0, its log odds that a candidate is required. `means` and `spreads` are those
    of the columns over the domains. A domain's own log odds were a + s * z0, more or less: `covariance` is that of
    (a, s) around (0, 1), as (variance of a, covariance, variance of s), over domains that z0 had not seen.
    `missing[k]` is the share of tasks with k required tools outside their list. `lowest_score` is how far scores are
    kept from 0 and 1 before their logits are taken. `model`, where there is one, was learned for these very tools: what
    it says of single tools and of texts is part of z0.
    """

    coefficients: tuple[float, ...]
    intercept: float
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    covariance: tuple[float, ...]
    missing: tuple[float, ...]
    lowest_score: float = CLIP
    model: MembershipModel | None = None

    def __post_init__(self) -> None:
        if any(len(numbers) != len(CANDIDATE_COLUMNS) for numbers in (self.coefficients, self.means, self.spreads)):
            raise UsageError("A prior needs a coefficient, a mean and a spread for every candidate column.")
        a, both, s = self.covariance
        if not (a > 0 and s > 0 and a * s > both**2 and all(spread > 0 for spread in self.spreads)):
            raise UsageError("The spreads and the covariance of a prior must be positive.")

    @property
    def precision(self) -> Floats:
        """(2, 2): the inverse of the covariance of (a, s)."""
        a, both, s = self.covariance
        inverse: Floats = np.linalg.inv(np.array([[a, both], [both, s]]))
        return inverse

    @property
    def text(self) -> TextSignal | None:
        """What its model reads texts by, if it does."""
        return None if self.model is None else self.model.text

    def as_json(self) -> str:
        """The document that ships."""
        parts = {name: np.asarray(part).tolist() for name, part in asdict(self).items() if name != "model"}
        return json.dumps(parts, indent=1) + "\n"


def prior_from(document: Mapping[str, Any]) -> Prior:
    """The inverse of `as_json`, once parsed."""
    tables = {name: tuple(part) for name, part in document.items() if isinstance(part, list)}
    return Prior(**{**document, **tables})


@lru_cache(maxsize=2)
def shipped_prior(kind: str) -> Prior:
    """What the nine domains that this package was developed on say; made by `scripts/fit_priors.py`."""
    from importlib.resources import files  # a quarter of what importing camdf would take

    return prior_from(json.loads((files("camdf.policies.models") / FILE.format(kind)).read_bytes()))


def prior_of(model: MembershipModel, kind: str) -> Prior:
    """What a model says that was learned before for the same tools, from made-up tasks say."""
    model = model.unshifted()
    return replace(
        shipped_prior(kind),
        coefficients=model.coefficients,
        intercept=model.intercept,
        covariance=FROM_MADE_UP,
        missing=model.missing,
        lowest_score=model.lowest_score,
        model=model,
    )
