"""`--mean-tools N`: what a gate hands over on tasks that the policy has not seen, and what is said if that is not N."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff
from camdf.cli import main
from camdf.datasets import write_jsonl
from camdf.evaluation.calibrate import pressure_for_handed_over
from camdf.evaluation.replay import all_handed_over
from saying import says
from worlds import random_logged

Parts = tuple[tuple[ExpectedPayoffBySet, LoggedTasks], ...]


@cache
def parts() -> Parts:
    """A policy with tasks that it was not fitted on, twice."""
    logged = random_logged(np.random.default_rng(3), 160, 12, shared=True)
    halves = (logged.take(np.arange(80)), logged.take(np.arange(80, 160)))
    fits = [ExpectedPayoffBySet().fit(half, Payoff(0.1)) for half in halves]
    return ((fits[0], halves[1]), (fits[1], halves[0]))


def handed(payoff: Payoff) -> float:
    given = [
        all_handed_over(tasks.rankings, policy.decide(tasks.rankings, payoff), searches=payoff.recourse > 0)
        for policy, tasks in parts()
    ]
    return float(np.concatenate(given).sum(axis=1).mean())


@pytest.mark.parametrize("recourse", [0.0, 0.9])
@pytest.mark.parametrize("tools", [1.0, 2.5, 4.0, 8.0, 11.0])
def test_what_is_said_of_the_tools_is_what_a_gate_hands_over(tools: float, recourse: float) -> None:
    payoff, given = pressure_for_handed_over(parts(), "exact", recourse, tools=tools)
    assert given == pytest.approx(handed(payoff))


@pytest.mark.parametrize("tools", [1.0, 2.5, 4.0, 8.0])
def test_an_agent_with_a_search_gets_so_many_tools_on_tasks_that_were_not_fitted(tools: float) -> None:
    _, given = pressure_for_handed_over(parts(), "exact", 0.9, tools=tools)
    assert given == pytest.approx(tools, rel=0.05)


def test_more_tools_than_the_lists_have_are_all_that_are_worth_anything() -> None:
    payoff, given = pressure_for_handed_over(parts(), "exact", 0.9, tools=100.0)
    assert payoff.cost_pressure == 0
    assert given == handed(payoff)


def test_the_fit_and_its_verdict_are_about_that_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    write_jsonl(random_logged(np.random.default_rng(5), 120, 12, shared=True), log)
    policy = str(tmp_path / "policy.json")
    command = ["fit", str(log), "-o", policy, "--mean-tools", "4", "--tool-search", "--splits", "2", "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["results"]["best-4"]["tools"] <= 4
    assert document["results"]["expected-payoff-by-set"]["tools"] == pytest.approx(4, rel=0.25)


def test_a_number_that_no_pressure_gives_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a search, a task of which nothing is worth loading gets its whole list."""
    log = tmp_path / "log.jsonl"
    write_jsonl(random_logged(np.random.default_rng(5), 120, 12, shared=True), log)
    policy = str(tmp_path / "policy.json")
    assert main(["fit", str(log), "-o", policy, "--mean-tools", "0.2", "--splits", "1"]) == 0
    assert says(capsys.readouterr().out, "0.2", "nearest", "search")
