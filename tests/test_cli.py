"""The command line, as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import camdf
from camdf import datasets
from camdf.cli import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "logged.jsonl"
    datasets.write_jsonl(datasets.load("airline", "claude", dispersion=1.0), path)
    return path


def test_fit_writes_a_policy_and_says_in_a_sentence_whether_it_pays(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "policy.json"
    code = main(["fit", str(data), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4", "--policy", "cam-df"])
    printed, progress = capsys.readouterr()
    assert code == 0
    assert progress.endswith("4 of 4 splits, about 0 s left\n")
    assert "28 tasks, 18 groups" in printed
    assert re.search(
        r"^cam-df (pays|does not pay|not shown to pay): [+-]0\.\d{3} over the best simple rule", printed, re.M
    )
    policy = camdf.load(output)
    assert policy.kind == "cam-df"
    recorded = json.loads(output.read_text())["training"]
    assert recorded["tasks"] == 28
    assert {"cam-df", "fixed-k", "score-per-cost"} <= recorded["validation_payoff"].keys()


def test_evaluate_measures_a_saved_policy_and_warns_of_its_own_training_tasks(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "policy.json"
    main(["fit", str(data), "-o", str(output), "--task-worth", "8", "--policy", "cam-df-lite", "--splits", "4"])
    capsys.readouterr()
    assert main(["evaluate", str(output), str(data), "--splits", "4"]) == 0
    printed, progress = capsys.readouterr()
    assert progress.endswith("4 of 4 splits, about 0 s left\n")
    assert "minus 0.125 times cost" in printed
    assert "fitted on these very tasks" in printed
    other = tmp_path / "other.parquet"
    datasets.write_parquet(datasets.load("airline", "minilm", dispersion=1.0), other)
    assert main(["evaluate", str(output), str(other), "--splits", "4"]) == 0
    assert "fitted on these very tasks" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "{data}", "-o", "x.json", "--cost-pressure", "0.1", "--policy", "magic"],
            "must be one of: acquire-all",
        ),
        (["fit", "{data}", "-o", "x.json", "--cost-pressure", "-1"], "must be finite and not negative"),
        (["fit", "missing.jsonl", "-o", "x.json", "--cost-pressure", "0.1"], "missing.jsonl"),
        (["evaluate", "{data}", "{data}"], "not a usable policy"),
        (["lab", "run", "nonsense"], "There is no study 'nonsense'"),
    ],
)
def test_what_cannot_run_says_why_and_exits_with_2(
    arguments: list[str], message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(data=data) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("camdf: ")
    assert message in error


def test_a_policy_that_serves_any_payoff_is_evaluated_at_a_named_one(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    camdf.save(camdf.PlugIn(), tmp_path / "plug-in.json")
    assert main(["evaluate", str(tmp_path / "plug-in.json"), str(data)]) == 2
    assert "Name one: --cost-pressure or --task-worth" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "plug-in.json"), str(data), "--cost-pressure", "0.1", "--splits", "4"]) == 0


def test_the_default_policy_is_fitted_once_and_evaluated_at_another_pressure(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "policy.json"
    assert main(["fit", str(data), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4"]) == 0
    assert camdf.load(output).kind == "by-set"
    again = ["evaluate", str(output), str(data), "--cost-pressure", "0.3", "--value", "partial", "--splits", "4"]
    assert main(again) == 0
    assert "Payoff: partial value minus 0.3 times cost" in capsys.readouterr().out


def test_lab_list_names_every_study_and_what_is_not_replicated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list"]) == 0
    printed = capsys.readouterr().out
    assert "main " in printed
    assert "Not replicated:" in printed


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"camdf {camdf.__version__}\n"


def test_calibrate_finds_the_pressure_of_a_promise_or_a_budget_and_refuses_its_own_training_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = datasets.load("metatool", "minilm")
    for name, part in (("old", logged.take(slice(0, 250))), ("new", logged.take(slice(250, None)))):
        datasets.write_jsonl(part, tmp_path / f"{name}.jsonl")
    old, new, policy = (str(tmp_path / name) for name in ("old.jsonl", "new.jsonl", "policy.json"))
    assert main(["fit", old, "-o", policy, "--cost-pressure", "0.12", "--splits", "4"]) == 0
    capsys.readouterr()
    assert main(["calibrate", policy, new, "--min-sufficiency", "0.9"]) == 0
    promised = float(capsys.readouterr().out.split()[-1])
    assert main(["calibrate", policy, new, "--budget", "3"]) == 0
    assert 0 < promised < float(capsys.readouterr().out.split()[-1])
    assert main(["calibrate", policy, old, "--min-sufficiency", "0.9"]) == 2
    assert "can promise nothing" in capsys.readouterr().err
