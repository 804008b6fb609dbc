"""The command line, as a user types it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import camdf
from camdf import datasets
from camdf.cli import SECTIONS, brought, lab, main, parser, scoring, tools
from camdf.cli.brought import BROUGHT
from camdf.cli.logs import scored_by
from camdf.errors import CamdfError
from camdf.evaluation.assess import EVERY_TOOL, SIMPLE_RULES, Assessment, amount, assess, require_choice, unseen_tools
from camdf.evaluation.calibrate import calibrate
from camdf.evaluation.fit import Fit, fit
from camdf.evaluation.replay import MEASURES, ORACLE
from camdf.examples import mined
from camdf.policies.artifact import to_json
from camdf.policies.registry import DEFAULT
from camdf.runtime.progress import shown
from camdf.scorers import BM25, record_of
from camdf_lab import domains
from camdf_traces import cli as traces
from saying import refuses, says


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "logged.jsonl"
    datasets.write_jsonl(domains.load("airline", "claude", dispersion=1.0), path)
    return path


PAYOFF = camdf.Payoff(0.12)


@pytest.fixture(scope="module")
def fitted(data: Path) -> Path:
    """What `camdf fit` writes."""
    output = data.with_name("policy.json")
    assert main(["fit", str(data), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4"]) == 0
    return output


@pytest.fixture(scope="module")
def found(data: Path) -> Fit:
    """The same from Python."""
    return fit(datasets.read_jsonl(data), PAYOFF)


@pytest.fixture(scope="module")
def assessment(data: Path, found: Fit) -> Assessment:
    """And beside the simple rules."""
    return found.assess(datasets.read_jsonl(data), PAYOFF, splits=4)


def test_fit_writes_a_policy_and_says_in_a_sentence_whether_it_pays(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "policy.json"
    code = main(["fit", str(data), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4", "--policy", "cam-df"])
    printed, progress = capsys.readouterr()
    assert code == 0
    assert progress.endswith("\n")
    assert says(progress.splitlines()[-1], "4 of 4 splits … 0 s")
    assert "28 tasks, 18 groups" in printed
    assert re.search(r"^cam-df .*worth it: [+-]0\.\d{3} over .*rule", printed, re.M)
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
    assert says(progress.splitlines()[-1], "4 of 4 splits … 0 s")
    assert "minus 0.125 times cost" in printed
    assert says(printed, "Warning … fitted … these very tasks")
    other = tmp_path / "other.parquet"
    datasets.write_parquet(domains.load("airline", "minilm", dispersion=1.0), other)
    assert main(["evaluate", str(output), str(other), "--splits", "4"]) == 0
    assert "very tasks" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "{data}", "-o", "x.json", "--cost-pressure", "0.1", "--policy", "magic"],
            "policy … acquire-all",
        ),
        (
            ["fit", "{data}", "-o", "x.json", "--cost-pressure", "-1"],
            "'cost_pressure' of Payoff … 0 or more … -1",
        ),
        (["fit", "missing.jsonl", "-o", "x.json", "--cost-pressure", "0.1"], "missing.jsonl"),
        (["evaluate", "{data}", "{data}"], "not a usable policy"),
    ],
)
def test_what_cannot_run_says_why_and_exits_with_2(
    arguments: list[str], message: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(data=data) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("camdf: ")
    assert says(error, message)


def test_a_policy_that_serves_any_payoff_is_evaluated_at_a_named_one(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    camdf.save(camdf.PlugIn(), tmp_path / "plug-in.json")
    assert main(["evaluate", str(tmp_path / "plug-in.json"), str(data)]) == 2
    assert says(capsys.readouterr().err, "--cost-pressure", "--task-worth")
    assert main(["evaluate", str(tmp_path / "plug-in.json"), str(data), "--cost-pressure", "0.1", "--splits", "4"]) == 0


def test_evaluate_needs_no_payoff_after_a_fit(
    data: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert camdf.load(fitted).training_.payoff == camdf.Payoff(0.12)  # type: ignore[union-attr]
    assert main(["evaluate", str(fitted), str(data), "--splits", "4"]) == 0
    assert says(capsys.readouterr().out, "Payoff: exact … 0.12 times cost.\n")
    for policy in ("expected-payoff-by-set", "score-threshold"):
        output = tmp_path / "two words.json"
        asked = ["--cost-pressure", "0.2", "--value", "partial", "--recourse", "0.5", "--splits", "4"]
        assert main(["fit", str(data), "-o", str(output), *asked, "--policy", policy]) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert last.endswith(f": camdf evaluate '{output}' newer.jsonl")
        assert main(["evaluate", str(output), str(data), "--splits", "4"]) == 0
        assert says(capsys.readouterr().out, "Payoff: partial … 0.2 times cost … 0.5 left")
    camdf.save(
        camdf.ExpectedPayoffBySet().fit(datasets.read(data), camdf.Payoff(0)), output, camdf.load(output).training_
    )
    assert main(["evaluate", str(output), str(data), "--splits", "4", "--cost-pressure", "0.3"]) == 0
    assert says(capsys.readouterr().out, "Payoff: partial … 0.3 times cost … 0.5 left")


def test_the_default_policy_is_fitted_once_and_evaluated_at_another_pressure(
    data: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert camdf.load(fitted).kind == "expected-payoff-by-set"
    again = ["evaluate", str(fitted), str(data), "--cost-pressure", "0.3", "--value", "partial", "--splits", "4"]
    assert main([*again, "--recourse", "0.9"]) == 0
    assert says(capsys.readouterr().out, "Payoff: partial … 0.3 times cost … 0.9 left")


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"camdf {camdf.__version__}\n"


def test_calibrate_finds_the_pressure_of_a_promise_or_a_budget_and_refuses_its_own_training_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = domains.load("metatool", "minilm")
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


# The table of contents, examples and errors.


def every_command(found: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands, and of the actions of those that have some."""
    for action in found._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield below
                yield from every_command(below)


COMMANDS = [each for each in every_command(parser()) if each.prog != "camdf lab"]
"""Without the one that another package runs."""


def test_help_is_a_table_of_contents_that_has_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    contents = shown.partition("options:")[0]
    assert re.findall(r"^(\w.*):$", contents, re.M) == list(SECTIONS)
    top = ["lab", *(each.prog.split()[1] for each in COMMANDS if len(each.prog.split()) == 2)]
    assert sorted(re.findall(r"^  ([a-z-]+) ", contents, re.M)) == sorted(top)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.prog)
def test_every_command_has_an_example_that_can_be_typed_and_its_exit_codes(command: argparse.ArgumentParser) -> None:
    told = re.fullmatch(r"example:\n  (camdf .+)\n\nexit codes:\n((?:  \d  .+\n?)+)", command.epilog or "")
    assert told, "give add_parser an example"
    assert told[1].startswith(command.prog)
    assert callable(parser().parse_args(shlex.split(told[1])[1:]).run)
    assert told[2].startswith("  0  it worked\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ft"], "there is no command 'ft'. Did you mean 'fit'? See: camdf --help"),
        (["tools.json"], "there is no command 'tools.json'. See: camdf --help"),
        (
            ["try", "tools.json", "a", "room", "in", "Lyon"],
            "unrecognized arguments: room in Lyon. A text of several words goes in quotes. See: camdf --help",
        ),
        (
            ["audit", "tasks.parquet", "--since", "yesterday"],
            "argument --since: must be a day, as 2026-01-31. Got 'yesterday' instead. See: camdf audit --help",
        ),
        (["fit", "logged.jsonl"], "the following arguments are required: -o/--output. See: camdf fit --help"),
        (["worth", "tools.json", "--turns", "x"], "argument --turns: invalid int value: 'x'. See: camdf worth --help"),
    ],
)
def test_what_is_typed_wrongly_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr() == ("", f"camdf: {told}\n")


def test_the_bare_command_shows_the_table_of_contents_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed, told = capsys.readouterr()
    assert printed == ""
    assert "On day one" in told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError(2, "No such file", "a.json"), "There is no file or folder a.json. Check its name"),
        (
            FileNotFoundError(2, "No such file", "/nowhere/a.svg"),
            "There is no folder /nowhere. Check its name, or",
        ),
        (IsADirectoryError(21, "Is a directory", "a"), "a is a folder. Name a file in it."),
        (PermissionError(13, "Permission denied", "a.json"), "a.json may not be read or written by you. Change"),
        (OSError(28, "No space left on device", "a.json"), "a.json: No space left on device. Check it, or name"),
        (OSError(98, "Address already in use"), "Address already in use"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_system_refuses_is_told_with_what_to_do(
    error: OSError, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(options: object) -> int:
        raise error

    monkeypatch.setattr(tools, "tools_in_file", failing)
    assert main(["worth", "tools.json"]) == 2
    assert capsys.readouterr().err.startswith(f"camdf: {told}")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "camdf", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def completed(words: str) -> set[str]:
    """What bash offers for the last of these words, with the script that `--completion bash` prints."""
    script = subprocess.run(
        [sys.executable, "-m", "camdf", "--completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    asked = f'COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_camdf; echo "${{COMPREPLY[@]}}"'
    told = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True).stdout
    return set(told.split())


def test_a_shell_completes_commands_and_options() -> None:
    assert completed("camdf c") == {"curve", "calibrate", "compare"}
    assert "--sufficiency" in completed("camdf try --s")


def test_completion_without_its_extra_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--completion", "bash"]) == 2
    printed, error = capsys.readouterr()
    assert printed == ""
    assert says(error, "camdf", "shtab", "pip install 'camdf[completion]'\n")


def test_score_has_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools.json").write_text(json.dumps({"mail": "Send a mail", "maps": "Show a map"}))
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"task_id": "a", "text": "Send a mail to Ada"}) + "\n")
    output = str(tmp_path / "scores.jsonl")
    assert main(["score", str(tmp_path), "--scorer", "bm25", "-o", output, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    sums = written.pop("sums")["tasks"]
    assert written == {"scored": 1, "before": 0, "refused": {}, "wrote": output}
    assert sums.pop("read") == sum(sums.values()) == sums["scored"]


def test_mine_and_worth_have_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces, tools, output = tmp_path / "traces.jsonl", tmp_path / "tools.json", str(tmp_path / "tasks.parquet")
    agent = {"trace_id": "t", "span_id": "a", "kind": "agent", "name": "assistant", "success": True, "start": 1}
    call = {"trace_id": "t", "span_id": "c", "parent_id": "a", "kind": "tool", "name": "mail"}
    traces.write_text(json.dumps(agent) + "\n" + json.dumps(call) + "\n")
    assert main(["mine", str(traces), "-o", output, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["spans"], found["runs"], found["wrote"]) == (2, 1, [output])
    tools.write_text(json.dumps({"mail": "Send a mail", "maps": "Show a map"}))
    assert main(["worth", str(tools), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["modes"][0]["mode"] == "no gate"
    assert says(told["sentence"], "neither money nor tokens", "'allow'")


@pytest.mark.parametrize("fails", ["os.fsync", "polars.DataFrame.write_parquet"])
@pytest.mark.parametrize("command", ["mine", "score"])
def test_mine_and_score_leave_the_old_file_and_nothing_beside_it_where_they_cannot_write(
    command: str, fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, tools, mined = tmp_path / "traces.jsonl", tmp_path / "tools.json", tmp_path / "mined.parquet"
    agent = {"trace_id": "t", "span_id": "a", "kind": "agent", "name": "assistant", "text": "Send a mail to Ada"}
    call = {"trace_id": "t", "span_id": "c", "parent_id": "a", "kind": "tool", "name": "mail"}
    source.write_text(json.dumps(agent) + "\n" + json.dumps(call) + "\n")
    tools.write_text(json.dumps({"mail": "Send a mail", "maps": "Show a map"}))
    assert main(["mine", str(source), "-o", str(mined), "--with-text"]) == 0
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "tasks.parquet").write_bytes(b"old")
    arguments = {
        "mine": ["mine", str(source)],
        "score": ["score", str(mined), "--tools", str(tools), "--scorer", "bm25"],
    }[command]

    def full(_: object, *places: Path, **settings: object) -> None:
        for place in places:
            Path(place).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(fails, full)
        assert main([*arguments, "-o", str(folder / "tasks.parquet")]) != 0
    assert (folder / "tasks.parquet").read_bytes() == b"old"
    assert [each.name for each in folder.iterdir() if "scores" not in each.name] == ["tasks.parquet"]
    assert main([*arguments, "-o", str(folder / "tasks.parquet")]) == 0
    assert pl.read_parquet(folder / "tasks.parquet").height == 1
    assert scored_by(folder / "tasks.parquet") == (record_of(BM25()) if command == "score" else None)


# The verdict.


def test_the_table_has_a_row_for_giving_every_tool_in_its_place_and_the_margin_over_it(
    assessment: Assessment,
) -> None:
    head, *rows, oracle = assessment.table().splitlines()
    assert head.split()[:4] == ["payoff", "sufficient", "cost", "tools"]
    payoffs = [float(row.split()[1]) for row in rows]
    assert payoffs == sorted(payoffs, reverse=True)
    (status_quo,) = (row for row in rows if row.startswith("acquire-all "))
    assert str(assessment.over_every_tool) in status_quo
    assert oracle.startswith(ORACLE)
    assert assessment.outcomes.mean(EVERY_TOOL, "tools") == 6.0


def test_what_is_saved_against_giving_every_tool_is_told_in_the_unit_of_the_costs(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = datasets.read(data)
    dollars = tmp_path / "dollars.jsonl"
    datasets.write_jsonl(logged.with_costs(logged.rankings.costs * 0.002), dollars)
    asked = ["-o", str(tmp_path / "policy.json"), "--splits", "4", "--policy", "score-threshold"]
    assert main(["fit", str(dollars), *asked, "--task-worth", "0.05", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["fit", str(dollars), *asked, "--task-worth", "0.05"]) == 0
    printed = capsys.readouterr().out
    mine, every = (told["results"][name] for name in ("score-threshold", EVERY_TOOL))
    assert told["cost_saved"] == pytest.approx(every["cost"] - mine["cost"])
    gain = told["margin_over_every_tool"]["mean"]
    assert gain == pytest.approx(mine["payoff"] - every["payoff"])
    assert says(
        printed,
        f"{mine['cost']:.4f} a task",
        f"{every['cost']:.4f} ({told['cost_saved']:.4f} saved, {told['cost_saved'] / every['cost']:.0%})",
        f"{mine['sufficiency']:.0%} of tasks … {every['sufficiency']:.0%}",
        f"{gain:+.3f} in payoff ({gain * 0.05:+.3g} a task",
        "95% CI",
    )
    assert main(["fit", str(dollars), *asked, "--cost-pressure", "20"]) == 0
    assert "in payoff, 95% CI" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cost", "beside", "told"),
    [(4.584, 7.0, "4.58"), (0.0, 0.0, "0.00"), (0.0107, 0.0315, "0.0107"), (1234.5, 0.9, "1234.500")],
)
def test_an_amount_has_the_digits_that_it_takes_to_tell_it(cost: float, beside: float, told: str) -> None:
    assert amount(cost, beside) == told


def test_a_simple_rule_is_judged_by_its_margin_over_giving_every_tool(data: Path) -> None:
    logged = datasets.read_jsonl(data)
    rule = fit(logged, PAYOFF, "fixed-k").assess(logged, PAYOFF, splits=4)
    assert rule.best_rule == EVERY_TOOL
    assert rule.margin == rule.over_every_tool
    assert says(rule.verdict, rule.answer, f"{rule.margin.mean:+.3f} over … every tool … 95% CI")


def test_a_policy_that_often_lacks_a_required_tool_is_warned_of(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, lacking = tmp_path / "top-1.json", tmp_path / "lacking.jsonl"
    camdf.save(camdf.TopK(1), short)
    asked = ["--cost-pressure", "0.1", "--splits", "4"]
    assert main(["evaluate", str(short), str(data), *asked]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^Warning: this policy .* \d+% of tasks\. .*camdf calibrate", printed, re.M)
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    lacking.write_text("".join(json.dumps({**line, "n_required": 9}) + "\n" for line in lines))
    assert main(["evaluate", str(short), str(lacking), *asked]) == 0
    assert says(capsys.readouterr().out, "0% of tasks … lists … 0%: rank more candidates")
    camdf.save(camdf.AcquireAll(), short)
    assert main(["evaluate", str(short), str(data), *asked]) == 0
    assert "Warning" not in capsys.readouterr().out


@pytest.mark.parametrize("policy", ["expected-payoff-by-set", "cam-df", "expected-payoff-by-depth"])
def test_tools_that_were_not_in_training_are_named(
    policy: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, renamed = tmp_path / "policy.json", tmp_path / "renamed.jsonl"
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    new = {tool: f"new {number}" for number, tool in enumerate(list(lines[0]["scores"])[:6])}

    def told(line: dict[str, Any]) -> dict[str, Any]:
        tables = {name: {new.get(tool, tool): x for tool, x in line[name].items()} for name in ("scores", "costs")}
        return {**line, **tables, "required": [new.get(tool, tool) for tool in line["required"]]}

    renamed.write_text("".join(json.dumps(told(line) if i < 10 else line) + "\n" for i, line in enumerate(lines)))
    assert (
        main(["fit", str(data), "-o", str(output), "--cost-pressure", "0.12", "--splits", "1", "--policy", policy]) == 0
    )
    assert unseen_tools(camdf.load(output), datasets.read(data)) == {}
    capsys.readouterr()
    assert main(["evaluate", str(output), str(renamed), "--splits", "2"]) == 0
    printed = capsys.readouterr().out
    assert says(printed, "Warning: 6 … training: new 0, new 1, new 2, new 3, new 4 and 1 more … 10 of 28 tasks")


@pytest.mark.parametrize("policy", [camdf.PlugIn(), camdf.cold_start()], ids=["plug-in", "cold start"])
def test_a_policy_that_knows_no_tools_says_nothing_of_new_ones(policy: camdf.Policy, data: Path) -> None:
    assert unseen_tools(policy, datasets.read(data)) == {}


def test_a_policy_that_must_pay_decides_the_exit_code(data: Path, tmp_path: Path) -> None:
    dear, output = ["--cost-pressure", "0.3", "--splits", "4"], tmp_path / "policy.json"
    every = ["fit", str(data), "-o", str(output), *dear, "--policy", EVERY_TOOL]
    assert [main(every), main([*every, "--must-pay"])] == [0, 3]
    assert camdf.load(output).kind == EVERY_TOOL
    judged = ["evaluate", str(output), str(data), *dear]
    assert [main(judged), main([*judged, "--must-pay"])] == [0, 3]
    assert main(["fit", str(data), "-o", str(output), *dear, "--policy", "score-threshold", "--must-pay"]) == 0


def test_calibrate_says_what_one_gets_and_what_is_promised(
    data: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.jsonl"
    logged = domains.load("airline", "claude-conservative", dispersion=1.0)
    datasets.write_jsonl(logged, other)
    assert main(["calibrate", str(fitted), str(other), "--min-sufficiency", "0.7"]) == 0
    printed = capsys.readouterr().out
    policy = camdf.load(fitted)
    found = calibrate(policy, datasets.read(other), min_sufficiency=0.7)
    assert found.sentences() in printed
    assert printed.endswith(f"\n--cost-pressure {found.payoff.cost_pressure!r}\n")
    acquired = policy.decide(logged.rankings, found.payoff).acquired
    sufficient = ((logged.required & acquired).sum(axis=1) == logged.n_required).mean()
    assert found.sufficiency.mean == sufficient >= 0.7
    assert (found.tools, found.tools_of_all) == (acquired.sum(axis=1).mean(), 6.0)
    assert says(printed, f"28 tasks … required tool … {sufficient:.1%} … 95% CI")
    assert says(printed, "Promised: … new group … 18 groups … 0.7")
    assert "Not promised: " in printed
    assert main(["calibrate", str(fitted), str(other), "--budget", "5", "--per-task"]) == 0
    printed = capsys.readouterr().out
    found = calibrate(policy, datasets.read(other), budget=5.0, per_task=True)
    assert found.dearest <= 5.0
    assert says(printed, f"Measured, not promised: … {found.dearest:.2f} … budget of 5")
    with pytest.raises(camdf.UsageError, match="Name one of them"):
        calibrate(policy, logged)


# For machines.

ABOUT = {"data", "payoff"}
JUDGED = {
    "policy",
    "pays",
    "verdict",
    "splits",
    "best_rule",
    "margin",
    "margin_over_every_tool",
    "meaning",
    "need_no_tool_estimated",
    "cost_saved",
    "results",
    "warnings",
}
DOCUMENTS = {
    "fit {data} -o {output} --cost-pressure 0.12 --splits 2": ABOUT
    | JUDGED
    | {"label_noise", "made_up", "reads_texts", "wrote"},
    "evaluate {policy} {data} --splits 2": ABOUT | JUDGED | {"moved", "refit"},
    "calibrate {policy} {data} --budget 3": ABOUT | {"asked", "measured", "sentences", "warnings"},
    "curve {data} --cost-pressure 0.12 --splits 2": ABOUT | {"points", "verdict"},
}
"""The top-level fields by command."""


@pytest.mark.parametrize("command", DOCUMENTS)
def test_json_is_one_document_and_nothing_else(
    command: str, data: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"data": data, "policy": fitted, "output": tmp_path / "policy.json"}
    assert main([word.format(**names) for word in [*command.split(), "--json"]]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.keys() == DOCUMENTS[command]
    assert document["data"]["tasks"] == 28
    assert document["payoff"].keys() == {"cost_pressure", "value", "recourse"}
    if "results" in document:
        assert document["results"].keys() >= {*SIMPLE_RULES, EVERY_TOOL, ORACLE}
        assert all({*MEASURES, "margin"} == row.keys() for row in document["results"].values())
        assert {"mean", "low", "high"} == document["margin"].keys() == document["margin_over_every_tool"].keys()


def test_every_field_of_the_json_documents_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fitting.md").read_text(encoding="utf-8")
    for command, names in DOCUMENTS.items():
        assert f"camdf {command.split()[0]}" in page
        assert not [name for name in names if f"`{name}`" not in page]


# Reading.


def test_a_table_of_candidates_is_fitted_and_what_it_holds_besides_is_left_out(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    table, output = tmp_path / "candidates.csv", tmp_path / "policy.json"
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    cells = [
        (line["task_id"], tool, score, int(tool in line["required"]), line["costs"][tool], line["group"], "Hello")
        for line in lines
        for tool, score in line["scores"].items()
    ]
    head = "task_id,tool,score,required,cost,group,prompt\n"
    table.write_text(head + "".join(",".join(map(str, row)) + "\n" for row in cells))
    asked = ["-o", str(output), "--cost-pressure", "0.12", "--splits", "2", "--policy", "score-threshold"]
    assert main(["fit", str(table), *asked]) == 0
    printed = capsys.readouterr().out
    assert "28 tasks, 18 groups" in printed
    assert printed.endswith("newer.csv\n")
    assert caplog.messages == ["ignored fields: prompt (in 28 tasks)"]
    assert camdf.load(output).training_.data_sha256 == datasets.read(data).digest()  # type: ignore[union-attr]


def test_long_work_is_told_of_from_the_first_second_and_short_work_not_at_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("camdf.runtime.progress.time.monotonic", lambda: now[0])
    for seconds, expected in ((0.9, []), (60.0, [1.2, 21.6, 42.0, 60.0])):
        told, now[0] = list[float](), 0.0
        with shown("MB read", after=1.0) as progress:
            for step in range(1, 101):
                now[0] = round(seconds * step / 100, 2)
                progress(step, 100, 0.0)
                if capsys.readouterr().err:
                    told.append(now[0])
        assert told == expected


def test_the_policy_is_written_before_it_is_compared_and_an_interrupted_comparison_leaves_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Fit, "assess", interrupted)
    policy = tmp_path / "policy.json"
    fitted = ["fit", str(data), "-o", str(policy), "--cost-pressure", "0.12", "--policy", "score-threshold"]
    assert main(fitted) == 130
    told = capsys.readouterr().err.splitlines()
    assert says(told[0], f"wrote {policy} … Ctrl-C … keeps it")
    training = camdf.load(policy).training_
    assert training is not None
    assert (training.tasks, training.validation_payoff) == (28, {})


def test_a_comparison_that_has_no_more_time_says_after_how_many_splits_it_ended(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = ["fit", str(data), "-o", str(tmp_path / "policy.json"), "--cost-pressure", "0.12", "--seconds", "0"]
    assert main([*fitted, "--policy", "score-threshold", "--splits", "20"]) == 0
    output = capsys.readouterr()
    assert "0 of 20 splits" in output.err
    assert says(output.out, "after 1 of 20 splits … --seconds")
    logged = datasets.read(data)
    of_one = assess(camdf.ScoreThreshold, logged, PAYOFF, splits=1, subject="score-threshold")
    assert of_one.verdict in output.out


def test_a_fit_multiplies_on_one_thread_unless_a_variable_says_how_many() -> None:
    code = "from camdf.cli.blas_threads import one_blas_thread; print(one_blas_thread())"
    usual = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    for variables, expected in (({}, "True"), ({"OPENBLAS_NUM_THREADS": "2"}, "False")):
        run = subprocess.run([sys.executable, "-c", code], env=usual | variables, capture_output=True, text=True)
        assert run.stdout.strip() == expected or sys.platform == "darwin", run.stderr


# What goes wrong.


def logged_with(**changes: Any) -> camdf.LoggedTasks:
    record = {"scores": {"a": 0.9, "b": 0.4}, "required": ["a"], **changes}
    return camdf.LoggedTasks.from_records([record] * 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": {"a": 0.9}}, "list … at most one tool … all candidates"),
        ({"required": []}, "No task … tool … 'required'"),
        ({"required": ["A"]}, "No list … 'required' … 'scores'"),
        ({"required": ["a", "b"]}, "Every task … every tool … all candidates"),
    ],
    ids=str,
)
def test_tasks_that_teach_nothing_are_refused_with_what_to_do(changes: dict[str, Any], message: str) -> None:
    for refused in (require_choice, lambda logged: fit(logged, camdf.Payoff(0.1))):
        with refuses(camdf.DataError, message):
            refused(logged_with(**changes))
    with refuses(camdf.DataError, message):
        assess(camdf.AcquireAll, logged_with(**changes), camdf.Payoff(0.1))


def test_fewer_than_three_tasks_are_refused_with_what_to_do() -> None:
    with refuses(camdf.UsageError, "tasks", got=2) as refused:
        fit(logged_with().take(slice(0, 2)), camdf.Payoff(0.1))
    assert says(str(refused.value), "three", "camdf.cold_start()")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--splits", "0"], "--splits … at least 1"),
        (["--splits", "-3"], "--splits … at least 1"),
        (["--seed", "-1"], "--seed … at least 0"),
        (["--recourse", "-0.5"], "'recourse' of Payoff … 0 to 1 … -0.5"),
        (["--recourse", "nan"], "'recourse' of Payoff … 0 to 1 … nan"),
        (["--policy", "magic"], "policy … acquire-all"),
        (["-o", "policy.txt"], "output … .json … 'policy.txt'"),
        (["-o", "{folder}/there.json"], "{folder}/there.json is a folder"),
        (["-o", "{folder}/nowhere/policy.json"], "no folder {folder}/nowhere … policy.json"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_the_data_are_read(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.json").mkdir()
    told = [word.format(folder=tmp_path) for word in arguments]
    assert main(["fit", "not-there.jsonl", "-o", str(tmp_path / "x.json"), "--cost-pressure", "0.1", *told]) == 2
    assert says(capsys.readouterr().err, message.format(folder=tmp_path))


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert main(["fit", "not-there.jsonl", "-o", str(tmp_path / "x.json"), "--task-worth", "1"]) == 2
    assert says(capsys.readouterr().err, f"folder {tmp_path} … not be written")
    assert main(["curve", "not-there.jsonl", "-o", str(tmp_path / "x.png"), "--task-worth", "1"]) == 2
    assert says(capsys.readouterr().err, f"folder {tmp_path} … not be written")


@pytest.mark.parametrize(
    "arguments",
    [
        ["mine", "not-there", "-o"],
        ["mine", "not-there", "-o", "tasks.parquet", "--statistics"],
        ["score", "not-there", "--scorer", "bm25", "-o"],
        ["score", "not-there.parquet", "--tools", "not-there.json", "--scorer", "bm25", "-o"],
        ["try", "not-there.json", "a request of some words", "-o"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_an_output_of_another_kind_is_refused_before_the_work(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for output, told in (("tasks.csv", "must end in ."), (".", "is a folder")):
        assert main([*arguments, str(tmp_path / output)]) == 2
        assert told in capsys.readouterr().err


def test_only_a_command_that_can_go_on_is_said_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    score = ["score", "tasks", "--scorer", "bm25", "-o", "scores.jsonl"]
    for module, run, arguments, told in (
        (scoring, "_score", score, "camdf: interrupted … the same command again"),
        (traces, "chosen_prices", ["compare", "traces"], "camdf: interrupted\n"),
    ):
        monkeypatch.setattr(module, run, interrupted)
        assert main(arguments) == 130
        assert says(capsys.readouterr().err, told)


def test_a_terminal_without_a_letter_shows_another(tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps({"búsqueda": "Search the house for the keys.", "play": "Play a song."}))
    tried = [sys.executable, "-m", "camdf", "try", str(listed), "Where in the house are my keys?", "--scorer", "bm25"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(tried, env=environment, capture_output=True, check=True, timeout=60)
    assert b"b?squeda" in found.stdout


def test_per_task_without_a_budget_is_refused(fitted: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(fitted), str(data), "--min-sufficiency", "0.9", "--per-task"]) == 2
    assert "it goes with --budget" in capsys.readouterr().err


def every_error(kind: type[CamdfError] = CamdfError) -> list[type[CamdfError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in every_error(below))]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_one_line_and_exit_code_2(
    kind: type[CamdfError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "The 'thing' must be so. Got 0."

    def failing(options: object) -> int:
        raise kind(message)

    monkeypatch.setattr(tools, "tools_in_file", failing)
    assert main(["worth", "tools.json"]) == 2
    assert capsys.readouterr() == ("", f"camdf: {message}\n")


def test_an_error_that_nobody_raised_on_purpose_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(options: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(tools, "tools_in_file", failing)
    with pytest.raises(ZeroDivisionError):
        main(["worth", "tools.json"])


# A policy of your own.

OWN = """
import camdf

class Half(camdf.Policy):
    kind = "half"

    def decide(self, rankings, payoff):
        return camdf.Decisions.prefix(rankings, rankings.lengths // 2)

class Nameless(Half):
    pass
"""


def test_a_policy_of_your_own_is_fitted_and_evaluated_by_its_class(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policies.py").write_text(OWN)
    fit_it = ["fit", str(data), "--cost-pressure", "0.12", "--splits", "2", "-o", "half.json", "--policy"]
    evaluated = ["evaluate", "half.json", str(data), "--cost-pressure", "0.12", "--splits", "2"]
    assert main([*fit_it, "my_policies:Half"]) == 0
    assert "\nmy_policies:Half " in capsys.readouterr().out
    assert main(evaluated) == 2
    assert "unknown kind 'half'" in capsys.readouterr().err
    assert main([*evaluated, "--policy", "my_policies:Half"]) == 0
    assert "half.json " in capsys.readouterr().out
    for named, told in (
        ("my_policies:Nameless", "must have a 'kind'"),
        ("my_policies:Whole", "must be importable as module:Class"),
        ("no_such_module:Half", "must be importable as module:Class"),
        ("math:pi", "class … camdf.Policy … 3.141592653589793"),
    ):
        assert main([*fit_it, named]) == 2
        assert says(capsys.readouterr().err, told)


# Commands of other distributions.


@pytest.mark.parametrize("command", BROUGHT)
def test_a_command_whose_distribution_is_missing_names_the_extra_whatever_follows(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(brought, "GROUP", "no.such.group")
    for following in ([], ["--help"], ["traces.jsonl", "-o", "tasks.parquet"]):
        assert main([command, *following]) == 2
        printed, error = capsys.readouterr()
        assert printed == ""
        assert says(error, "camdf: … camdf_traces … pip install 'camdf[mining]'\n")
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert f"\n  {command} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "tasks.parquet", "-o", "policy.json", "--cost-pressure", "0.1"],
        ["evaluate", "{policy}", "tasks.parquet"],
        ["score", "tasks.parquet", "--tools", "tools.json", "--scorer", "bm25", "-o", "ranked.parquet"],
        ["forget", "table", "--user", "ada"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_reads_a_table_of_tasks_names_the_extra_where_its_distribution_is_missing(
    arguments: list[str],
    fitted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mined, "GROUP", "no.such.group")
    (tmp_path / "tools.json").write_text('[{"name": "search", "description": "Search"}]')
    mined.mined_tasks.cache_clear()
    try:
        assert main([argument.format(policy=fitted) for argument in arguments]) == 2
    finally:
        mined.mined_tasks.cache_clear()
    assert says(capsys.readouterr().err, "camdf: … camdf_traces … pip install 'camdf[mining]'\n")


def test_a_file_of_ones_own_is_fitted_where_what_reads_traces_is_missing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mined, "GROUP", "no.such.group")
    mined.mined_tasks.cache_clear()
    try:
        quick = ["--cost-pressure", "0.1", "--splits", "2", "--policy", "fixed-k"]
        assert main(["fit", str(data), "-o", str(tmp_path / "policy.json"), *quick]) == 0
    finally:
        mined.mined_tasks.cache_clear()


# The lab, which is a package of its own.


def test_the_lab_gets_whatever_follows_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["lab", "run", "--help"])
    assert capsys.readouterr().out.startswith("usage: camdf lab run ")
    with pytest.raises(SystemExit, match="2"):
        main(["lab", "plot"])
    assert says(capsys.readouterr().err, "camdf: … 'plot' … camdf lab --help\n")


@pytest.mark.parametrize("arguments", [["lab"], ["lab", "--help"], ["lab", "run", "main", "--json"]])
def test_where_the_lab_is_missing_the_command_says_what_to_install(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "PACKAGE", "no_such_package")
    assert main(arguments) == 2
    printed, error = capsys.readouterr()
    assert printed == ""
    assert says(error, "camdf: … pip install camdf-lab\n")


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
        ["evaluate", "{policy}", "{missing}", "--cost-pressure", "0.1"],
        ["curve", "{missing}", "--cost-pressure", "0.1"],
        ["calibrate", "{missing}", "{data}", "--budget", "3"],
        ["calibrate", "{policy}", "{missing}", "--budget", "3"],
        ["mine", "{missing}", "-o", "{data}.parquet"],
        ["audit", "{missing}"],
        ["audit", "{missing}.parquet"],
        ["score", "{missing}", "-o", "{data}.jsonl", "--scorer", "bm25"],
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


def test_fit_from_python_is_what_the_command_writes(found: Fit, assessment: Assessment, fitted: Path) -> None:
    assert to_json(found.policy, found.training_with(assessment)) == fitted.read_text(encoding="utf-8")


def test_what_a_fit_tells_of_its_training_is_true(data: Path, found: Fit, assessment: Assessment) -> None:
    logged, told = datasets.read_jsonl(data), found.training_with(assessment)
    assert assessment.subject == DEFAULT
    assert (told.data_sha256, told.tasks, told.groups) == (logged.digest(), 28, len(set(logged.groups.tolist())))
    assert 0 < told.validation_tasks < 28
    assert told.label_noise == found.label_noise.rate == camdf.estimate_label_noise(logged).rate
    assert told.validation_payoff.keys() == {DEFAULT, *SIMPLE_RULES, EVERY_TOOL, ORACLE}
    for name, payoff_told in told.validation_payoff.items():
        assert payoff_told == assessment.outcomes.mean(name)


def test_the_policy_that_is_named_is_fitted_under_its_one_name(data: Path) -> None:
    logged = datasets.read_jsonl(data)
    found = fit(logged, PAYOFF, "score-per-cost-threshold")
    assert found.assess(logged, PAYOFF, splits=2).subject == found.policy.kind == "score-per-cost-threshold"


def test_only_policies_that_scikit_learn_fits_ask_for_its_extra(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    fitted = ["fit", str(data), "-o", str(tmp_path / "p.json"), "--cost-pressure", "0.1", "--splits", "2"]
    assert main(fitted) == 0
    assert main([*fitted, "--policy", "cam-df"]) == 2
    assert "pip install 'camdf[train]'" in capsys.readouterr().err


def test_the_table_of_contents_loads_nothing_that_reads_tables() -> None:
    program = (
        "import sys; from camdf.cli import parser; parser(); "
        "assert not {'polars', 'pyarrow', 'deltalake', 'fsspec', 'msgspec'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_fit_of_a_file_imports_nothing_that_reads_traces(tmp_path: Path) -> None:
    datasets.write_jsonl(datasets.sample(), tmp_path / "logged.jsonl")
    fit = ["fit", "logged.jsonl", "-o", "p.json", "--cost-pressure", "0.1", "--splits", "2", "--policy", "fixed-k"]
    program = (
        f"import sys; from camdf.cli import main; main({fit}); "
        "assert not [name for name in sys.modules if name.startswith('camdf_traces')]"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True)
