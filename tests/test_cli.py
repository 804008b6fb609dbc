"""The command line, as a user types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import camdf
from camdf import datasets
from camdf.cli import lab, main
from camdf.errors import CamdfError
from camdf.evaluation.assess import SIMPLE_RULES
from camdf.evaluation.fit import Fit, fit
from camdf.evaluation.replay import ORACLE
from camdf.policies.artifact import to_json
from camdf.policies.registry import DEFAULT


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "logged.jsonl"
    datasets.write_jsonl(datasets.load("airline", "claude", dispersion=1.0), path)
    return path


@pytest.fixture(scope="module")
def fitted(data: Path) -> Path:
    """What `camdf fit` writes."""
    output = data.with_name("policy.json")
    assert main(["fit", str(data), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4"]) == 0
    return output


@pytest.fixture(scope="module")
def found(data: Path) -> Fit:
    """The same from Python."""
    return fit(datasets.read_jsonl(data), camdf.Payoff(0.12), splits=4)


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
    assert {"cam-df", "fixed-k", "score-per-cost-threshold"} <= recorded["validation_payoff"].keys()


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
        (["lab", "run", "nonsense"], "There is no table 'nonsense'"),
        (["lab", "report", "--results", "{data}"], "no results are stored there. Run: camdf lab run all"),
        (["lab", "past", "page", "--into", "{data}"], "no results are stored there. Run: camdf lab past frontier"),
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
    assert "Name it: --cost-pressure or --task-worth" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "plug-in.json"), str(data), "--cost-pressure", "0.1", "--splits", "4"]) == 0


def test_evaluate_needs_no_payoff_after_a_fit(
    data: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert camdf.load(fitted).training_.payoff == camdf.Payoff(0.12)  # type: ignore[union-attr]
    assert main(["evaluate", str(fitted), str(data), "--splits", "4"]) == 0
    assert "Payoff: exact value minus 0.12 times cost.\n" in capsys.readouterr().out
    for policy in ("expected-payoff-by-set", "score-threshold"):
        output = tmp_path / "two words.json"
        asked = ["--cost-pressure", "0.2", "--value", "partial", "--recourse", "0.5", "--splits", "4"]
        assert main(["fit", str(data), "-o", str(output), *asked, "--policy", policy]) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert last == f"On tasks that came later: camdf evaluate '{output}' LATER.jsonl"
        assert main(["evaluate", str(output), str(data), "--splits", "4"]) == 0
        told = "Payoff: partial value minus {} times cost, with 0.5 left for each tool missed.\n"
        assert told.format("0.2") in capsys.readouterr().out
    camdf.save(
        camdf.ExpectedPayoffBySet().fit(datasets.read(data), camdf.Payoff(0)), output, camdf.load(output).training_
    )
    assert main(["evaluate", str(output), str(data), "--splits", "4", "--cost-pressure", "0.3"]) == 0
    assert told.format("0.3") in capsys.readouterr().out


def test_the_default_policy_is_fitted_once_and_evaluated_at_another_pressure(
    data: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert camdf.load(fitted).kind == "expected-payoff-by-set"
    again = ["evaluate", str(fitted), str(data), "--cost-pressure", "0.3", "--value", "partial", "--splits", "4"]
    assert main([*again, "--recourse", "0.9"]) == 0
    said = "Payoff: partial value minus 0.3 times cost, with 0.9 left for each tool missed."
    assert said in capsys.readouterr().out


def test_lab_list_names_every_table_and_what_is_not_replicated(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert main(["fit", old, "-o", policy, "--cost-pressure", "0.12", "--splits", "1"]) == 0
    capsys.readouterr()
    assert main(["calibrate", policy, new, "--min-sufficiency", "0.9"]) == 0
    promised = float(capsys.readouterr().out.split()[-1])
    assert main(["calibrate", policy, new, "--budget", "3"]) == 0
    assert 0 < promised < float(capsys.readouterr().out.split()[-1])
    assert main(["calibrate", policy, old, "--min-sufficiency", "0.9"]) == 2
    assert "can promise nothing" in capsys.readouterr().err


# What goes wrong.


def every_error(kind: type[CamdfError] = CamdfError) -> list[type[CamdfError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in every_error(below))]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_one_line_and_exit_code_2(
    kind: type[CamdfError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(options: object) -> int:
        raise kind("The thing must be so. Got something else instead.")

    monkeypatch.setattr(lab, "_list", failing)
    assert main(["lab", "list"]) == 2
    assert capsys.readouterr() == ("", "camdf: The thing must be so. Got something else instead.\n")


def test_an_error_that_nobody_raised_on_purpose_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(options: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(lab, "_list", failing)
    with pytest.raises(ZeroDivisionError):
        main(["lab", "list"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "{missing}", "-o", "{output}", "--cost-pressure", "0.1"],
        ["fit", "{missing}.parquet", "-o", "{output}", "--cost-pressure", "0.1"],
        [
            "fit",
            "{data}",
            "-o",
            "{missing}/policy.json",
            "--cost-pressure",
            "0.1",
            "--policy",
            "fixed-k",
            "--splits",
            "2",
        ],
        ["evaluate", "{missing}", "{data}"],
        ["evaluate", "{policy}", "{missing}"],
        ["curve", "{missing}", "--cost-pressure", "0.1"],
        ["calibrate", "{missing}", "{data}", "--budget", "3"],
        ["calibrate", "{policy}", "{missing}", "--budget", "3"],
        ["mine", "{missing}", "-o", "{output}"],
        ["audit", "{missing}"],
        ["audit", "{missing}.parquet"],
        ["score", "{missing}", "-o", "{output}", "--scorer", "bm25"],
        ["lab", "check", "--results", "{missing}"],
        ["lab", "report", "--results", "{missing}", "-o", "{output}"],
        ["lab", "past", "page", "--into", "{missing}", "--page", "{output}"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_a_file_that_is_not_there_is_named_in_one_line(
    arguments: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    camdf.save(camdf.TopK(), tmp_path / "policy.json")
    names = {"data": data, "policy": tmp_path / "policy.json"}
    names |= {"missing": tmp_path / "not-there", "output": tmp_path / "output.json"}
    assert main([argument.format(**names) for argument in arguments]) == 2
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith("camdf: ")
    assert "not-there" in told
    assert "[Errno" not in told


def test_a_missing_file_is_told_in_one_line_and_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "not-there.jsonl"
    assert main(["curve", str(missing), "--cost-pressure", "0.1"]) == 2
    printed, told = capsys.readouterr()
    assert printed == ""
    assert told.count("\n") == 1
    assert told.startswith("camdf: ")
    assert str(missing) in told
    assert "[Errno" not in told


# The same from Python.


def test_fit_from_python_is_what_the_command_writes(found: Fit, fitted: Path) -> None:
    assert to_json(found.policy, found.training) == fitted.read_text(encoding="utf-8")


def test_what_a_fit_tells_of_its_training_is_true(data: Path, found: Fit) -> None:
    logged, told = datasets.read_jsonl(data), found.training
    assert found.assessment.subject == DEFAULT
    assert (told.data_sha256, told.tasks, told.groups) == (logged.digest(), 28, len(set(logged.groups.tolist())))
    assert 0 < told.validation_tasks < 28
    assert told.label_noise == found.label_noise.rate == camdf.estimate_label_noise(logged).rate
    assert told.validation_payoff.keys() == {DEFAULT, *SIMPLE_RULES, ORACLE}
    for name, payoff_told in told.validation_payoff.items():
        assert payoff_told == found.assessment.outcomes.mean(name)


def test_an_earlier_name_of_a_policy_is_fitted_under_its_one_name(data: Path) -> None:
    found = fit(datasets.read_jsonl(data), camdf.Payoff(0.12), "score-per-cost", splits=2)
    assert found.assessment.subject == found.policy.kind == "score-per-cost-threshold"
