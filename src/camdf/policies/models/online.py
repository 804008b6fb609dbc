"""Learning one outcome at a time: what a fitted model believes, and what was seen since.

The model's numbers and how firmly they stand are all that is needed of the past. A tool that was offered and not called
was not needed; of a tool that was not offered nothing is known, and nothing is learned. How often a tool is needed of
the times it was listed is counted where every tool was offered: of a cut list the likelier ones were. A model whose
tools may not differ has no other place for what it learns of a tool after its fit, and counts what was offered.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from camdf.core.candidates import candidate_features, history
from camdf.core.rankings import Bools, Ints, LoggedTasks
from camdf.errors import NotFittedError
from camdf.policies.models.design import BASE
from camdf.policies.models.membership import SLOPE_COLUMN, Doubt, MembershipModel
from camdf.policies.models.past_tasks import PastTasks
from camdf.policies.models.posterior import Belief, Fitted, Rows, afterwards, most_likely


def updated(
    model: MembershipModel,
    logged: LoggedTasks,
    offered: Bools,
    past: PastTasks | None = None,
    *,
    in_fit: bool = False,
) -> MembershipModel:
    """The model after more outcomes; `offered` (n, m) marks the candidates that the agent could have called.

    `past` are the past tasks that it was fitted with, before these. `in_fit` says that whole lists were counted in the
    fit that this belongs to, so that cut ones need not be.
    """
    if model.doubt is None:
        raise NotFittedError("This policy was saved before policies could be updated. Fit it again.")
    known = (offered | logged.required) & logged.rankings.listed
    if not known.any():
        return model
    model = _with_new_tools(model.unshifted(), logged, known)
    assert model.doubt is not None
    precision, of_tools = model.doubt.matrices()
    count = len(of_tools)
    before = Belief(
        Fitted(
            np.array([model.intercept, *model.coefficients, *model.text_coefficients, *model.past_coefficients]),
            np.array(model.levels[:count]),
            np.array(model.slopes[:count]),
        ),
        precision,
        of_tools,
    )
    rows, place = _rows_of_outcomes(model, logged, known, count, past)
    fitted = most_likely(rows, before, model.flips)
    after = afterwards(rows, fitted, before, model.flips)
    own = 1 + len(model.coefficients)
    texts = own + len(model.text_coefficients)
    whole = np.ones(len(logged), dtype=bool)
    if count or in_fit:
        whole = (known == logged.rankings.listed).all(axis=1)
    counts = np.broadcast_to(whole[:, None], known.shape)[known]
    listed = np.bincount(place, weights=counts, minlength=len(model.tools))
    required = np.bincount(place, weights=counts & logged.required[known], minlength=len(model.tools))
    levels = model.levels
    slopes = model.slopes
    if count:
        levels = tuple(fitted.levels.tolist())
        slopes = tuple(fitted.slopes.tolist())
    return replace(
        model,
        intercept=float(fitted.theta[0]),
        coefficients=tuple(fitted.theta[1:own].tolist()),
        text_coefficients=tuple(fitted.theta[own:texts].tolist()),
        past_coefficients=tuple(fitted.theta[texts:].tolist()),
        levels=levels,
        slopes=slopes,
        times_listed=tuple((listed + model.times_listed).tolist()),
        times_required=tuple((required + model.times_required).tolist()),
        doubt=Doubt.of(after.precision, after.of_tools),
    )


def _with_new_tools(model: MembershipModel, logged: LoggedTasks, known: Bools) -> MembershipModel:
    """The model with the tools that it meets for the first time: never seen, and free to differ where others are."""
    assert model.doubt is not None
    there = set(model.tools)
    listed = [logged.rankings.catalogue[i] for i in np.unique(logged.rankings.tool_ids[known])]
    new = tuple(name for name in listed if name not in there)
    nothing = (0.0,) * len(new)
    of_tools = model.doubt.of_tools
    if of_tools:
        of_tools += (BASE.levels**-2.0, BASE.slopes**-2.0, 0.0) * len(new)
    return replace(
        model,
        tools=model.tools + new,
        times_listed=model.times_listed + nothing,
        times_required=model.times_required + nothing,
        levels=model.levels + nothing,
        slopes=model.slopes + nothing,
        doubt=replace(model.doubt, of_tools=of_tools),
    )


def _rows_of_outcomes(
    model: MembershipModel, logged: LoggedTasks, known: Bools, count: int, past: PastTasks | None
) -> tuple[Rows, Ints]:
    """What is known, one row a candidate in the order of the model's tools, and each row's tool."""
    rankings = logged.rankings
    position = {name: i for i, name in enumerate(model.tools)}
    ids = rankings.places(position)
    seen = np.array([*model.times_listed, 0.0])[ids]
    wanted = np.array([*model.times_required, 0.0])[ids]
    of_lists = candidate_features(rankings, history(seen, wanted, model.base_rate), model.lowest_score)
    features = np.concatenate([of_lists, model.text_columns(rankings, past)])
    place = ids[known]
    order = np.argsort(place, kind="stable")
    flat = features[:, known][:, order]
    tool = place[order] if count else np.full(len(order), -1)
    one = np.ones(len(order))
    columns = np.column_stack([one, flat[SLOPE_COLUMN], one, flat.T])
    labels = logged.required[known][order].astype(np.float64)
    rows = Rows(columns, tool, labels, one)
    return rows, place
