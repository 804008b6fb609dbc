"""Random worlds for tests: logged tasks with every awkward shape, seeded and fast, or small and shrinking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from camdf import LoggedTasks, Payoff, Rankings


def random_logged(
    rng: np.random.Generator,
    n: int,
    m: int,
    *,
    spreads: Sequence[float] = (0.0, 1.0, 1.5),
    shared: bool = False,
    missing: float = 0.15,
) -> LoggedTasks:
    """n tasks of at most m candidates, in score order, ties by name.

    Lengths run from 0 to m over a catalogue of 3 m tools, or every task lists the same m tools (`shared`). In a third
    of the tasks the scores fall on a coarse grid with zeros and ties, and in one of twelve all are zero. Tool j costs
    max(0.10, 1 + d (base_j - 1)) with one d of `spreads` a task. Well-scored candidates are required more often; a
    share of the tasks, `missing`, also requires one or two tools that its list lacks. Groups hold about three.
    """
    tools = m if shared else 3 * m
    lengths = np.full(n, m) if shared else rng.integers(0, m + 1, n)
    listed = np.arange(m) < lengths[:, None]
    tool_ids = rng.random((n, tools)).argsort(axis=1)[:, :m]
    scores = rng.random((n, m)) ** rng.uniform(0.3, 3.0, (n, 1))
    kind = rng.integers(0, 12, n)[:, None]
    scores = np.where(kind < 4, np.round(scores * 4) / 4, scores) * (kind > 0) * listed
    order = np.lexsort((tool_ids, -scores, ~listed), axis=1)
    scores = np.take_along_axis(scores, order, axis=1)
    tool_ids = np.take_along_axis(tool_ids, order, axis=1)
    base = rng.uniform(0.2, 1.8, tools)[tool_ids]
    costs = np.maximum(0.1, 1.0 + rng.choice(np.array(spreads), (n, 1)) * (base - 1.0)) * listed
    required = (rng.random((n, m)) < 0.1 + 0.6 * scores) & listed
    lacking = (rng.random(n) < missing) * rng.integers(1, 3, n)
    rankings = Rankings(
        scores,
        costs,
        lengths.astype(np.int64),
        np.where(listed, tool_ids, -1),
        tuple(f"tool-{j:04d}" for j in range(tools)),
    )
    names = np.array([f"task-{i:06d}" for i in range(n)], dtype=np.str_)
    groups = np.array([f"group-{i:06d}" for i in rng.integers(0, max(1, n // 3), n)], dtype=np.str_)
    return LoggedTasks(rankings, required, required.sum(axis=1) + lacking, names, groups)


@st.composite
def small_logged(draw: st.DrawFn, *, most_tasks: int = 4, most_tools: int = 5) -> LoggedTasks:
    """A few tasks over a few tools, in any order, which hypothesis can shrink."""
    tools = [f"t{j}" for j in range(most_tools)]
    task = st.fixed_dictionaries(
        {
            "scores": st.dictionaries(st.sampled_from(tools), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])),
            "required": st.sets(st.sampled_from([*tools, "unlisted"])),
            "group": st.sampled_from(["g", "h"]),
        }
    )
    costs = {tool: draw(st.sampled_from([1.0, 0.1, 0.7, 2.5])) for tool in tools}
    return LoggedTasks.from_records(draw(st.lists(task, max_size=most_tasks)), costs, keep_order=draw(st.booleans()))


RECOURSES = (0.0, 0.3, 0.95, 1.0)


def small_payoffs(recourses: Sequence[float] = (0.0,)) -> st.SearchStrategy[Payoff]:
    """Payoffs at any pressure, both values."""
    return st.builds(Payoff, st.floats(0.0, 0.5), st.sampled_from(["exact", "partial"]), st.sampled_from(recourses))


def arrays(logged: LoggedTasks) -> dict[str, np.ndarray[Any, Any]]:
    """Every array of logged tasks by its name."""
    parts = {name: getattr(logged, name) for name in ("required", "n_required", "task_ids", "groups")}
    return parts | {name: getattr(logged.rankings, name) for name in ("scores", "costs", "lengths", "tool_ids")}


def assert_same(now: LoggedTasks, expected: LoggedTasks) -> None:
    """Both hold the same, bit by bit."""
    assert now.rankings.catalogue == expected.rankings.catalogue
    for (name, one), other in zip(arrays(now).items(), arrays(expected).values(), strict=True):
        assert (name, one.dtype, one.shape) == (name, other.dtype, other.shape)
        assert one.tobytes() == other.tobytes(), name
