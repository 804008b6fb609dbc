"""The first day, without any labels of your own: the default policy as other domains teach it.

It is `ExpectedPayoffBySet` with a membership model that knows no tool: a prior (`camdf.policies.models.prior`). There
are two, because scores come in two kinds. A language model that rates how likely a tool is to be needed gives a
probability, up to a shift and a scale of its logit; anything else that such a list shows misleads in another domain. A
similarity (embeddings, BM25) means little by itself, so it is read together with its rank and the shape of its list.

`camdf_lab.beyond.cold_start` leaves out every domain in turn and sets it beside the constants that people run today.
It cannot know how many tools the tasks of a new domain require: say so if you do, and `fit` it as soon as you have a
few labels.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from camdf.core.probability import logit
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.sets import SMALLEST, shift_to_expect
from camdf.errors import UsageError
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.models.prior import KINDS, Prior, shipped_prior
from camdf.runtime.settings import checked_setting, number, one_of

WHOLE_LIST = 0.95
"""No list is taken to hold more required tools than this share of its length."""

TOOLS_PER_LIST = 2.8
"""How many required tools a list of similarities is taken to hold without a label. What other domains say tells tools
apart, and not how many of them are required."""

SHARPNESS = 1.3
"""The power to which odds are then taken."""

CALIBRATION = (0.0, 0.8)
"""How sets then calibrate."""


def cold_start(
    scores: str = "similarity", *, tools_per_task: float | None = None, rankings: Rankings | None = None
) -> ExpectedPayoffBySet:
    """The policy that ships with the package, for any catalogue, prices and cost pressure.

    `scores` says what they are: "similarity" for cosine similarities, and BM25 divided by the top score of its list;
    "probability" where a language model was asked how likely each tool is to be needed. Both lie between 0 and 1.

    If you know how many tools a task calls on average, say so in `tools_per_task`, and give some `rankings` of your own
    tasks, without labels: twenty are enough. `fit` goes on from here, from the first label on.

    >>> from camdf import Payoff, Rankings
    >>> ranking = Rankings.from_scores({"search": 0.92, "calendar": 0.10, "mail": 0.04})
    >>> cold_start("probability").decide(ranking, Payoff(cost_pressure=0.12)).names(ranking)
    ['search']
    """
    checked_setting("cold_start", "scores", scores, one_of(*KINDS))
    policy = from_prior(shipped_prior(scores), scores)
    if tools_per_task is None and rankings is None:
        return policy
    if tools_per_task is None or rankings is None or not rankings.listed.any():
        raise UsageError(
            "'tools_per_task' and 'rankings' of cold_start go together: the number is read off rankings of your own "
            "tasks. Give both, or neither."
        )
    return told_tools_per_task(policy, tools_per_task, rankings)


def from_prior(prior: Prior, scores: str) -> ExpectedPayoffBySet:
    """A policy that knows what a prior says and nothing else."""
    policy = ExpectedPayoffBySet(prior=scores)
    from camdf.policies.models.warm_start import fit_warm  # when a policy is made, not when camdf is imported

    policy.model_ = fit_warm(LoggedTasks.from_records([]), (prior,)).model
    if scores == "similarity":
        policy.model_ = replace(
            policy.model_, tools_per_list=TOOLS_PER_LIST, sharpness=SHARPNESS, calibration=CALIBRATION
        )
    return policy


def told_tools_per_task(policy: ExpectedPayoffBySet, tools_per_task: float, rankings: Rankings) -> ExpectedPayoffBySet:
    """The same policy with all log odds shifted alike, until on average so many tools of these lists are required.

    The shift is where the mean over lists of the expected number of required tools is that of
    min(tools_per_task, 0.95 * length).
    """
    checked_setting("cold_start", "tools_per_task", tools_per_task, number(above=0))
    model = policy.model_.unshifted()
    odds = logit(model.probabilities(rankings)[0][rankings.listed], SMALLEST)[None]
    wanted = np.minimum(tools_per_task, WHOLE_LIST * rankings.lengths).sum()
    shift = shift_to_expect(odds, np.ones(odds.shape, dtype=bool), np.array([wanted]))
    told = copy(policy)
    told.model_ = replace(model, intercept=model.intercept + float(shift[0]))
    return told
