"""The promises of a policy as named checks, for the library's policies and for your own.

>>> from camdf import PlugIn
>>> check_policy(PlugIn)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeAlias

import numpy as np

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import Ints, LoggedTasks, Rankings
from camdf.errors import BrokenPromiseError, NotFittedError
from camdf.policies.artifact import from_json, to_json
from camdf.policies.base import Policy

MakePolicy: TypeAlias = Callable[[], Policy]
"""Makes a new, unfitted policy: usually the class itself."""

PAYOFF = Payoff(cost_pressure=0.12)


def sample_tasks(seed: int, tasks: int = 40, tools: int = 7, ragged: bool = False) -> LoggedTasks:
    """Made-up logged tasks whose scores say something about what is required, priced unevenly.

    `ragged` gives every task a list of its own length and its own tools; otherwise all share one catalogue.
    """
    rng = np.random.default_rng(seed)
    required = rng.random((tasks, tools)) < 0.35
    required[np.arange(tasks), rng.integers(tools, size=tasks)] = True
    scores = np.round(np.clip(0.3 + 0.4 * required + rng.normal(0, 0.2, required.shape), 0, 1), 4)
    if ragged:
        lengths = rng.integers(1, tools + 1, size=tasks)
        names = [f"other-{j}" for j in range(tools)]
    else:
        lengths = np.full(tasks, tools)
        names = [f"tool-{j}" for j in range(tools)]
    price = np.round(rng.uniform(0.5, 1.8, size=tools), 3)
    records = []
    for i, length in enumerate(lengths.tolist()):
        record = {
            "task_id": f"task-{i}",
            "group": f"group-{i % (tasks // 2)}",
            "scores": dict(zip(names, scores[i, :length].tolist(), strict=False)),
            "required": [name for name, needed in zip(names, required[i], strict=True) if needed],
        }
        records.append(record)
    return LoggedTasks.from_records(records, dict(zip(names, price.tolist(), strict=True)))


def check_acquires_listed_candidates_only(make: MakePolicy) -> None:
    """A decision is a boolean mark for every candidate, and padding is never acquired."""
    policy = _fitted(make)
    for rankings in _samples():
        acquired = policy.decide(rankings, PAYOFF).acquired
        _promise(acquired.dtype == np.bool_ and acquired.shape == rankings.scores.shape, "marks have shape (n, m)")
        _promise(not (acquired & ~rankings.listed).any(), "padding is never acquired")


def check_depth_agrees_with_what_is_acquired(make: MakePolicy) -> None:
    """Where a decision names a depth, exactly that many of the first candidates are acquired."""
    policy = _fitted(make)
    for rankings in _samples():
        decisions = policy.decide(rankings, PAYOFF)
        if decisions.depth is not None:
            expected = Decisions.prefix(rankings, decisions.depth).acquired
            _promise(
                np.array_equal(decisions.acquired, expected), "the acquired candidates are the prefix of that depth"
            )


def check_same_input_gives_the_same_answer(make: MakePolicy) -> None:
    """Deciding again, after deciding something else, changes nothing."""
    policy = _fitted(make)
    first, other = _samples()
    before = policy.decide(first, PAYOFF)
    policy.decide(other, PAYOFF)
    _same(before, policy.decide(first, PAYOFF))


def check_padding_changes_nothing(make: MakePolicy) -> None:
    """A wider rectangle around the same lists gives the same decisions, to the bit of the evidence."""
    policy = _fitted(make)
    for rankings in _samples():
        for extra in (1, 2, 9):
            wide = policy.decide(rankings.padded_to(rankings.width + extra), PAYOFF)
            _same(policy.decide(rankings, PAYOFF), _narrowed(wide, rankings.width))


def check_batch_size_changes_nothing(make: MakePolicy) -> None:
    """A task decided alone, as a live decision is, gets the decision that it gets in a batch."""
    policy = _fitted(make)
    for rankings in _samples():
        batch = policy.decide(rankings, PAYOFF)
        for row, length in enumerate(rankings.lengths.tolist()):
            alone = _narrowed_rankings(rankings.take(slice(row, row + 1)), length)
            _same(_narrowed(_taken(batch, slice(row, row + 1)), length), policy.decide(alone, PAYOFF))


def check_task_order_changes_nothing(make: MakePolicy) -> None:
    """Tasks in another order get the same decisions in that order."""
    policy = _fitted(make)
    for rankings in _samples():
        order = np.random.default_rng(5).permutation(len(rankings))
        _same(_taken(policy.decide(rankings, PAYOFF), order), policy.decide(rankings.take(order), PAYOFF))


def check_input_is_left_alone(make: MakePolicy) -> None:
    """Neither fitting nor deciding writes into the arrays that it is given."""
    logged = sample_tasks(1)
    rankings = sample_tasks(3).rankings
    before = (logged.digest(), [_bytes(r) for r in (logged.rankings, rankings)])
    make().fit(logged, PAYOFF).decide(rankings, PAYOFF)
    after = (logged.digest(), [_bytes(r) for r in (logged.rankings, rankings)])
    _promise(before == after, "inputs are never written to")


def check_labels_cannot_reach_a_decision(make: MakePolicy) -> None:
    """Once fitted, nothing of a task's required tools matters: not on a copy, not after the labels are erased."""
    logged = sample_tasks(1)
    policy = make().fit(logged, PAYOFF)
    before = policy.decide(logged.rankings, PAYOFF)
    _same(before, policy.decide(replace(logged.rankings), PAYOFF))
    logged.required[...] = False
    _same(before, policy.decide(logged.rankings, PAYOFF))


def check_constructor_stores_and_fit_learns(make: MakePolicy) -> None:
    """A new policy has learned nothing; `fit` returns the policy, keeps its settings, and learns under names with _."""
    policy = make()
    settings = dict(vars(policy))
    _promise(not [name for name in settings if name.endswith("_")], "a new policy has learned nothing")
    _promise(policy.fit(sample_tasks(1), PAYOFF, sample_tasks(2)) is policy, "fit returns the policy itself")
    kept = {name: value for name, value in vars(policy).items() if not name.endswith("_")}
    _promise(kept == settings, "fit leaves the settings alone")


def check_fitting_again_forgets(make: MakePolicy) -> None:
    """A policy fitted twice decides as one fitted on the second data alone."""
    rankings = sample_tasks(4).rankings
    twice = make().fit(sample_tasks(1), PAYOFF).fit(sample_tasks(2), PAYOFF)
    _same(make().fit(sample_tasks(2), PAYOFF).decide(rankings, PAYOFF), twice.decide(rankings, PAYOFF))


def check_any_list_can_be_decided(make: MakePolicy) -> None:
    """Lists that are empty, short, longer than any seen, all zero, or full of unknown tools get a decision."""
    policy = _fitted(make)
    for scores in ({}, {"new": 0.9}, {"new": 0.0, "tool-1": 0.0}, {f"new-{i}": i / 99 for i in range(99)}):
        rankings = Rankings.from_scores(scores)
        acquired = policy.decide(rankings, PAYOFF).acquired
        _promise(acquired.shape == rankings.scores.shape, "every list gets a decision")


def check_unfitted_policy_says_so(make: MakePolicy) -> None:
    """A policy that was never fitted either needs no fitting, or raises NotFittedError."""
    rankings = sample_tasks(3).rankings
    try:
        unfitted = make().decide(rankings, PAYOFF)
    except NotFittedError:
        return
    except Exception as error:
        raise BrokenPromiseError(f"an unfitted policy raises NotFittedError, not {type(error).__name__}") from error
    _same(unfitted, _fitted(make).decide(rankings, PAYOFF))


def check_saved_policy_decides_the_same(make: MakePolicy) -> None:
    """Written to JSON and read back, a policy decides bit for bit as before. Only for classes with a `kind`."""
    policy = _fitted(make)
    if policy.kind:
        loaded = from_json(to_json(policy).encode(), (type(policy),))
        for rankings in _samples():
            _same(policy.decide(rankings, PAYOFF), loaded.decide(rankings, PAYOFF))


def check_pickled_policy_decides_the_same(make: MakePolicy) -> None:
    """A policy goes through `pickle`, as to the workers of a cluster, and decides bit for bit as before."""
    policy = _fitted(make)
    try:
        copied = pickle.loads(pickle.dumps(policy))
    except Exception as error:
        raise BrokenPromiseError(f"a fitted policy can be pickled. {error}") from error
    for rankings in _samples():
        _same(policy.decide(rankings, PAYOFF), copied.decide(rankings, PAYOFF))


def check_cloned_policy_has_the_settings_and_has_learned_nothing(make: MakePolicy) -> None:
    """A new policy made from `get_params`, as scikit-learn's `clone` makes it, equals the one that was never fitted."""
    policy = _fitted(make)
    try:
        cloned = type(policy)(**policy.get_params())
    except Exception as error:
        raise BrokenPromiseError(f"a policy can be made anew from its get_params. {error}") from error
    _promise(cloned == make(), "a clone has the settings of its original, and has learned nothing")


CHECKS: dict[str, Callable[[MakePolicy], None]] = {
    name: check for name, check in list(globals().items()) if name.startswith("check_")
}
"""Every check by name."""


def try_policy(policy: Policy, payoff: Payoff) -> None:
    """Decide on a few made-up tasks, as a policy from a file should before it decides on anybody's.

    Raises what the policy raises, or BrokenPromiseError where it acquires padding or its evidence is no number.
    """
    rankings = sample_tasks(seed=0, tasks=8, ragged=True).rankings
    decisions = policy.decide(rankings, payoff)
    _promise(decisions.acquired.shape == rankings.scores.shape, "marks have shape (n, m)")
    _promise(not (decisions.acquired & ~rankings.listed).any(), "padding is never acquired")
    if decisions.evidence is not None:
        _promise(not np.isnan(decisions.evidence[rankings.listed]).any(), "evidence is a number")


def check_policy(make: MakePolicy) -> None:
    """Run every check on a policy; raise BrokenPromiseError with the name of the first that fails."""
    for name, check in CHECKS.items():
        try:
            check(make)
        except BrokenPromiseError as error:
            raise BrokenPromiseError(f"{name}: {error}") from error


def _fitted(make: MakePolicy) -> Policy:
    return make().fit(sample_tasks(1), PAYOFF, sample_tasks(2))


def _samples() -> tuple[Rankings, Rankings]:
    return sample_tasks(3).rankings, sample_tasks(4, ragged=True).rankings


def _promise(kept: bool, promise: str) -> None:
    if not kept:
        raise BrokenPromiseError(promise)


def _same(expected: Decisions, actual: Decisions) -> None:
    for part in fields(Decisions):
        same = _is_same(getattr(expected, part.name), getattr(actual, part.name))
        _promise(same, f"the same tasks get the same {part.name}")


def _is_same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b)


def _bytes(rankings: Rankings) -> list[bytes]:
    return [np.asarray(getattr(rankings, part.name)).tobytes() for part in fields(Rankings)]


def _taken(decisions: Decisions, rows: Ints | slice) -> Decisions:
    depth = decisions.depth
    evidence = decisions.evidence
    return Decisions(
        decisions.acquired[rows],
        None if depth is None else depth[rows],
        None if evidence is None else evidence[rows],
    )


def _narrowed(decisions: Decisions, width: int) -> Decisions:
    narrow = replace(decisions, acquired=decisions.acquired[:, :width])
    if decisions.evidence is None:
        return narrow
    return replace(narrow, evidence=decisions.evidence[:, :width])


def _narrowed_rankings(rankings: Rankings, width: int) -> Rankings:
    return replace(
        rankings,
        scores=rankings.scores[:, :width],
        costs=rankings.costs[:, :width],
        tool_ids=rankings.tool_ids[:, :width],
    )
