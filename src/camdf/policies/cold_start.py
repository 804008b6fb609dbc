"""The first day, without any labels of your own: the default policy, learned from the tasks that ship.

It is `ExpectedPayoffBySet` with a membership model that knows no tool. There are two, because scores come in two kinds.
A language model that rates how likely a tool is to be needed gives a probability, up to a shift and a scale of its
logit; anything else that such a list shows misleads in another domain. A similarity (embeddings, BM25) means little by
itself, so it is read together with its rank and the shape of its list.

`camdf.lab.beyond.cold_start` leaves out every domain in turn and sets it beside the constants that people run today.
It cannot know how many tools the tasks of a new domain require. A few labels tell, so fit as soon as you have some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from camdf.core.candidates import CANDIDATE_COLUMNS, candidate_features, history
from camdf.core.probability import logit, unscaled
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.errors import UsageError
from camdf.models.linear import scikit_learn
from camdf.models.membership import LIST_COLUMNS, MembershipModel
from camdf.policies.artifact import from_json
from camdf.policies.by_set import ExpectedPayoffBySet

COLUMNS = {"similarity": tuple(CANDIDATE_COLUMNS), "probability": ("score_logit",)}
"""What is read of a candidate, by what its score is."""

ARTIFACT = "cold_start_{}.json"
STRENGTH = 1e4
"""Inverse regularisation strength of a mean loss: next to none, for there are 26 columns and 200,000 candidates."""


def cold_start(scores: str = "similarity") -> ExpectedPayoffBySet:
    """The policy that ships with the package, for any catalogue, prices and cost pressure.

    `scores` says what they are: "similarity" for cosine similarities, and BM25 divided by the top score of its list;
    "probability" where a language model was asked how likely each tool is to be needed. Both lie between 0 and 1.

    >>> from camdf import Payoff, Rankings
    >>> ranking = Rankings.from_scores({"search": 0.92, "calendar": 0.10, "mail": 0.04})
    >>> cold_start("probability").decide(ranking, Payoff(cost_pressure=0.12)).names(ranking)
    ['search']
    """
    if scores not in COLUMNS:
        raise UsageError(f"The 'scores' of cold_start must be one of {', '.join(COLUMNS)}. Got {scores!r} instead.")
    from importlib.resources import files  # a quarter of what importing camdf would take

    policy = from_json((files("camdf.policies") / ARTIFACT.format(scores)).read_bytes(), (ExpectedPayoffBySet,))
    assert isinstance(policy, ExpectedPayoffBySet)
    return policy


def fit_across(rankings: Sequence[LoggedTasks], scores: str = "similarity") -> ExpectedPayoffBySet:
    """One model for all, in which every ranking counts alike, however many tasks and candidates it has.

    No tool has a history, so the columns that read one are constant and count for nothing. Whether a list holds all
    required tools is taken at its average, and sets are taken at what independence says.
    """
    read = [name in COLUMNS[scores] for name in CANDIDATE_COLUMNS]
    matrix, labels, weights = [], [], []
    for logged in rankings:
        listed, nothing = logged.rankings.listed, np.zeros(logged.required.shape)
        matrix.append(candidate_features(logged.rankings, history(nothing, nothing, 0.5))[:, listed].T * read)
        labels.append(logged.required[listed])
        weights.append(np.full(int(listed.sum()), 1.0 / (listed.sum() * len(rankings))))
    coefficients, intercept = _logistic(np.concatenate(matrix), np.concatenate(labels), np.concatenate(weights))
    width = 1 + max(int(logged.missing.max()) for logged in rankings)
    missing = np.mean([np.bincount(logged.missing, minlength=width) / len(logged) for logged in rankings], axis=0)
    policy = ExpectedPayoffBySet(identity=False, trust_labels=True)
    policy.model_ = MembershipModel(
        coefficients=tuple(coefficients.tolist()),
        intercept=intercept,
        base_rate=0.5,
        tools=(),
        times_listed=(),
        times_required=(),
        levels=(),
        slopes=(),
        holds=(float(logit(missing[0])), *(0.0,) * len(LIST_COLUMNS)),
        calibration=(0.0, 1.0),
        missing=tuple(missing.tolist()),
    )
    return policy


def _logistic(matrix: Floats, labels: Bools, weights: Floats) -> tuple[Floats, float]:
    """Weighted logistic regression by Newton's method, to many digits; columns that do not vary get 0."""
    mean = weights @ matrix
    spread = np.sqrt(weights @ (matrix - mean) ** 2)
    varies = spread > 1e-9
    linear_model: Any = scikit_learn()[0]
    model = linear_model.LogisticRegression(C=STRENGTH, solver="newton-cholesky", tol=1e-9)
    model.fit((matrix[:, varies] - mean[varies]) / spread[varies], labels, sample_weight=weights)
    raw = np.zeros(len(CANDIDATE_COLUMNS))
    raw[varies], intercept = unscaled(model.coef_[0], model.intercept_[0], mean[varies], spread[varies])
    return raw, intercept
