"""Commands that measure a policy say what is no longer as it was at its fit, and nothing where nothing moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import camdf
from camdf import LoggedTasks, Payoff
from camdf.cli import main
from camdf.datasets import write_jsonl
from camdf.evaluation.assess import moved_since_fit
from camdf.evaluation.fit import fit
from camdf.policies.training import FittedCatalogue, Training
from saying import says

PAYOFF = Payoff(0.12)
TOOLS = tuple(f"tool_{place}" for place in range(10))


def made_up(seed: int, tasks: int = 80, tools: tuple[str, ...] = TOOLS) -> LoggedTasks:
    """Tasks that list every tool and need one or two, which score higher than others."""
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(tasks):
        needed = rng.choice(len(tools), rng.integers(1, 3), replace=False)
        scores = 0.6 * rng.random(len(tools))
        scores[needed] += 0.3
        named = dict(zip(tools, scores.tolist(), strict=True))
        records.append({"scores": named, "required": [tools[place] for place in needed]})
    return LoggedTasks.from_records(records)


def rescaled(logged: LoggedTasks) -> LoggedTasks:
    """The same tasks with 0.5 s + 0.4 for every score s."""
    rankings = logged.rankings
    scores = np.where(rankings.listed, 0.5 * rankings.scores + 0.4, 0.0)
    return LoggedTasks(
        camdf.Rankings(scores, rankings.costs, rankings.lengths, rankings.tool_ids, rankings.catalogue),
        logged.required,
        logged.n_required,
        logged.task_ids,
        logged.groups,
    )


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a rule with a tuned threshold."""
    path = tmp_path_factory.mktemp("fitted") / "policy.json"
    fitted = fit(made_up(1), PAYOFF, "score-threshold")
    camdf.save(fitted.policy, path, fitted.training)
    return path


def document_of(command: str, policy: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a command says as JSON."""
    options = ["--splits", "2"] if command == "evaluate" else []
    assert main([command, str(policy), str(log), *options, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("command", ["evaluate", "shadow-report"])
def test_a_command_names_the_scores_that_moved_and_nothing_where_nothing_did(
    command: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "later.jsonl"
    write_jsonl(made_up(2), log)
    assert document_of(command, policy, log, capsys)["moved"] == []
    assert main([command, str(policy), str(log)]) == 0
    assert "Moved" not in capsys.readouterr().out

    write_jsonl(rescaled(made_up(2)), log)
    moved = document_of(command, policy, log, capsys)["moved"]
    assert "scores" in {each["what"] for each in moved}
    assert main([command, str(policy), str(log)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "Moved" in line] == [f"Moved: {each['sentence']}" for each in moved]
    named = [line for line in printed if says(line, "refit", f"camdf evaluate {policy} {log}")]
    assert len(named) == (command != "evaluate")


@pytest.mark.parametrize("command", ["evaluate", "shadow-report"])
def test_a_command_names_the_tools_that_are_new(
    command: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "later.jsonl"
    write_jsonl(made_up(3, tools=(*TOOLS[:-2], "brand_new", "newer_still")), log)
    (moved,) = document_of(command, policy, log, capsys)["moved"]
    assert moved["what"] == "catalogue"
    assert all(name in moved["sentence"] for name in ("brand_new", "newer_still"))


def test_tools_per_task_are_those_at_the_payoff_of_the_fit_whatever_the_command_asks(policy: Path) -> None:
    loaded = camdf.load(policy)
    assert moved_since_fit(loaded, made_up(2)) == ()
    expensive = made_up(2).with_costs(dict.fromkeys(TOOLS, 100.0))
    by_price = fit(made_up(1), PAYOFF, "expected-payoff-by-set")
    by_price.policy.training_ = by_price.training
    assert [each.what for each in moved_since_fit(by_price.policy, expensive)] == ["tools"]


@pytest.mark.parametrize(
    "training", [None, Training(), Training(catalogue=FittedCatalogue.of(["other"]), payoff=PAYOFF)]
)
def test_a_policy_whose_file_keeps_nothing_of_its_lists_moved_nowhere(training: Training | None) -> None:
    policy = camdf.TopK(2)
    policy.training_ = training
    assert moved_since_fit(policy, rescaled(made_up(2))) == ()


def test_evaluate_says_refit_where_a_fit_to_such_tasks_earns_more(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "later.jsonl"
    write_jsonl(rescaled(made_up(2)), log)
    document = document_of("evaluate", policy, log, capsys)
    assert document["refit"]["low"] > 0
    results = document["results"]
    gain = results["refit"]["payoff"] - results["this policy"]["payoff"]
    assert gain == pytest.approx(document["refit"]["mean"])
    assert main(["evaluate", str(policy), str(log), "--splits", "2"]) == 0
    assert says(capsys.readouterr().out, "Refit: … earns")


def test_evaluate_says_that_a_refit_is_not_shown_to_earn_more_where_names_alone_are_new(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "later.jsonl"
    write_jsonl(made_up(2, tools=tuple(f"v2_{name}" for name in TOOLS)), log)
    assert main(["evaluate", str(policy), str(log), "--splits", "2"]) == 0
    printed = capsys.readouterr().out
    assert says(printed, "Moved: … new")
    assert says(printed, "refit … not shown")
    assert "Refit" not in printed


@pytest.mark.parametrize("learns", [True, False])
def test_nothing_is_fitted_again_where_nothing_moved_or_nothing_is_learned(
    learns: bool, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "later.jsonl"
    write_jsonl(made_up(2) if learns else rescaled(made_up(2)), log)
    used = policy
    if not learns:
        used = tmp_path / "rule.json"
        camdf.save(camdf.AcquireAll(), used, camdf.load(policy).training_)
    document = document_of("evaluate", used, log, capsys)
    assert document["refit"] is None
    assert "refit" not in document["results"]
