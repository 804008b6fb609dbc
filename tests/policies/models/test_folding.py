"""Serving without scikit-learn changes no decision: folded coefficients and `predict_proba` on all shipped data."""

from __future__ import annotations

import numpy as np
import pytest

import camdf
from camdf.core.rankings import Bools, Floats
from camdf.core.stopping import first_stop, hindsight_targets
from camdf.policies.models.linear import folded, logistic_pipeline, state_matrix
from camdf.policies.stopping import StoppingPolicy
from camdf_lab import domains
from camdf_lab.policies import AggregateOnlyDF

RANKINGS = [(domain.name, scorer) for domain in domains.DOMAINS for scorer in domain.scorers]


def _training_target(
    policy: StoppingPolicy, logged: camdf.LoggedTasks, payoff: camdf.Payoff
) -> tuple[Bools, Floats | None]:
    if isinstance(policy, camdf.PredictThenThreshold):
        return payoff.worth_by_depth(logged)[:, :-1] == 1.0, None
    targets = hindsight_targets(logged, payoff)
    return (targets.stop if policy.stops_above else ~targets.stop), targets.weight


@pytest.mark.parametrize(("domain", "scorer"), RANKINGS, ids=["-".join(pair) for pair in RANKINGS])
@pytest.mark.parametrize("make", [camdf.CAMDF, camdf.CAMDFLite, AggregateOnlyDF, camdf.PredictThenThreshold])
def test_the_folded_path_decides_as_scikit_learn_on_every_state(
    make: type[StoppingPolicy], domain: str, scorer: str
) -> None:
    logged = domains.load(domain, scorer, dispersion=1.0)
    payoff = camdf.Payoff(0.05 if domain in {"bfcl-multi-turn", "seal-tools", "livemcpbench"} else 0.12)
    train = logged.take(slice(0, None, 2))
    policy = make().fit(train, payoff)  # type: ignore[call-arg]
    model = policy.model_
    labels, weights = _training_target(policy, train, payoff)
    states = train.rankings.listed
    matrix = state_matrix(train.rankings, payoff, model.columns, model.tools, states)
    pipeline = logistic_pipeline(matrix, labels[states], None if weights is None else weights[states])
    assert folded(pipeline, model.columns, model.tools).coefficients == model.coefficients

    everywhere = logged.rankings.listed
    matrix = state_matrix(logged.rankings, payoff, model.columns, model.tools, everywhere)
    probability = np.zeros(everywhere.shape)
    probability[everywhere] = pipeline.predict_proba(matrix)[:, 1]
    threshold = 1.0 / (1.0 + np.exp(-np.clip(policy.cutoff_, -700, 700)))
    above = probability >= threshold if abs(policy.cutoff_) < 700 else np.full(everywhere.shape, policy.cutoff_ < 0)
    stop = above if policy.stops_above else ~above
    evidence = policy.evidence(logged.rankings, payoff)
    assert np.array_equal(above[everywhere], (evidence >= policy.cutoff_)[everywhere])
    decided = policy.decide(logged.rankings, payoff).depth
    assert decided is not None
    assert np.array_equal(decided, first_stop(stop, logged.rankings.lengths))
