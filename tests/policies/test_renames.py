"""A tool's history carries over when the tool is renamed: in what a policy learned, and in logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import camdf
from camdf import LoggedTasks, Payoff
from camdf.core.rankings import Floats
from camdf.datasets import read, renamed, write_jsonl
from camdf.errors import DataError, UsageError
from camdf.evaluation.assess import moved_since_fit
from camdf.examples.text_logs import read_text_log
from camdf.policies.artifact import from_json, to_json
from camdf.policies.drift import fitted_catalogue
from camdf.policies.registry import POLICIES
from camdf.policies.renames import renamed_policy
from camdf.policies.training import NAMES_KEPT, FittedCatalogue, Training
from camdf.tools import Tool
from saying import refuses

PAYOFF = Payoff(0.12)
TOOLS = tuple(f"tool_{place}" for place in range(8))


def records(seed: int, tasks: int = 60) -> list[dict[str, Any]]:
    """Tasks that need the first tools most often; each lists all."""
    rng = np.random.default_rng(seed)
    often: Floats = np.linspace(0.6, 0.05, len(TOOLS))
    listed = []
    for task in range(tasks):
        needed = rng.random(len(TOOLS)) < often
        scores: Floats = 0.7 * rng.random(len(TOOLS)) + 0.3 * needed
        required = [name for name, is_needed in zip(TOOLS, needed, strict=True) if is_needed]
        listed.append(
            {"task_id": str(task), "scores": dict(zip(TOOLS, scores.tolist(), strict=True)), "required": required}
        )
    return listed


def with_names(tasks: list[dict[str, Any]], new: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same tasks of tools under other names."""
    return [
        {
            **task,
            "scores": {new.get(name, name): score for name, score in task["scores"].items()},
            "required": [new.get(name, name) for name in task["required"]],
        }
        for task in tasks
    ]


def bijection(seed: int) -> dict[str, str]:
    """New names of all tools, in another order than the old ones."""
    order = np.random.default_rng(seed).permutation(len(TOOLS)).tolist()
    return {name: f"v2_{place}" for name, place in zip(TOOLS, order, strict=True)}


def assert_same(one: LoggedTasks, other: LoggedTasks) -> None:
    assert one.digest() == other.digest()
    assert one.rankings.catalogue == other.rankings.catalogue
    assert np.array_equal(one.task_ids, other.task_ids)


@pytest.mark.parametrize("kind", sorted(POLICIES))
@pytest.mark.parametrize("seed", range(3))
def test_a_policy_decides_on_renamed_tools_as_it_did_before(kind: str, seed: int, tmp_path: Path) -> None:
    logged = LoggedTasks.from_records(records(seed))
    fitted = POLICIES[kind]().fit(logged, PAYOFF)
    chosen = fitted.decide(logged.rankings, PAYOFF).acquired.sum(axis=1)
    kept = fitted_catalogue(logged, chosen, PAYOFF.cost_pressure)
    file = tmp_path / "policy.json"
    camdf.save(fitted, file, Training(payoff=PAYOFF, catalogue=kept))
    new = bijection(seed)
    before = camdf.load(file)
    after = camdf.load(file, renamed=new)
    fresh = records(seed + 100)
    old_log = LoggedTasks.from_records(fresh)
    new_log = LoggedTasks.from_records(with_names(fresh, new))
    decided = before.decide(old_log.rankings, PAYOFF)
    again = after.decide(new_log.rankings, PAYOFF)
    assert np.array_equal(decided.acquired, again.acquired)
    if decided.evidence is not None:
        assert again.evidence is not None
        assert np.array_equal(decided.evidence, again.evidence)
    assert moved_since_fit(after, new_log) == moved_since_fit(before, old_log) == ()
    assert "catalogue" in {change.what for change in moved_since_fit(before, new_log)}
    assert renamed_policy(after, {name: old for old, name in new.items()}) == before


@pytest.mark.parametrize("seed", range(20))
def test_a_log_under_old_names_is_read_as_if_it_had_the_new_ones(seed: int, tmp_path: Path) -> None:
    tasks = records(seed)
    for task in tasks[::3]:  # ties go by name, which the new names order otherwise
        task["scores"] = dict.fromkeys(task["scores"], 0.5)
    new = bijection(seed)
    expected = LoggedTasks.from_records(with_names(tasks, new))
    assert_same(renamed(LoggedTasks.from_records(tasks), new), expected)
    assert_same(renamed(expected, new), expected)
    of_both = [*tasks[:30], *with_names(tasks[30:], new)]
    assert_same(renamed(LoggedTasks.from_records(of_both), new), expected)
    write_jsonl(LoggedTasks.from_records(tasks).with_costs(dict.fromkeys(TOOLS, 2.5)), tmp_path / "old.jsonl")
    assert_same(renamed(read(tmp_path / "old.jsonl"), new), expected.with_costs(dict.fromkeys(new.values(), 2.5)))


def test_a_task_that_lists_a_tool_under_both_names_is_refused() -> None:
    logged = LoggedTasks.from_records([{"task_id": "t7", "scores": {"old": 0.5, "new": 0.4}, "required": []}])
    with refuses(DataError, "t7", "new", "two of its names"):
        renamed(logged, {"old": "new"})


def test_a_name_is_old_or_new_and_not_both() -> None:
    logged = LoggedTasks.from_records(records(0))
    for renames in ({"a": "b", "b": "c"}, {"b": "b"}):
        with refuses(UsageError, must="old or new", got="'b'"):
            renamed(logged, renames)
        with refuses(UsageError, must="old or new", got="'b'"):
            renamed_policy(camdf.TopK(1), renames)


def test_a_policy_that_knows_both_names_as_two_tools_is_refused() -> None:
    policy = camdf.ExpectedPayoffBySet().fit(LoggedTasks.from_records(records(0)), PAYOFF)
    with refuses(UsageError, "'tool_1' and 'tool_2'", "two tools"):
        renamed_policy(policy, {"tool_1": "tool_2"})


def test_a_catalogue_that_does_not_name_all_of_its_tools_stays_one() -> None:
    policy = camdf.TopK(1)
    policy.training_ = Training(catalogue=FittedCatalogue.of(f"tool_{place}" for place in range(NAMES_KEPT + 1)))
    known = renamed_policy(policy, {"tool_0": "zero"})
    assert known.training_ is not None
    catalogue = known.training_.catalogue
    assert catalogue is not None
    assert (catalogue.tools, catalogue.unknown(["anything"])) == (NAMES_KEPT + 1, ())
    assert "zero" in catalogue.names
    assert from_json(to_json(known, known.training_).encode()).training_ == known.training_


def test_a_log_of_requests_is_read_under_the_names_of_its_list(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("request;tools used\nMail Ann;send\nFind Bo;search\n", encoding="utf-8")
    tools = {name: Tool(name, "") for name in ("send_mail", "search")}
    read_log = read_text_log(log, tools, renames={"send": "send_mail"})
    assert [request.required for request in read_log.requests] == [("send_mail",), ("search",)]
    assert not read_log.unlisted
