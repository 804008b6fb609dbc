"""The command `camdf-lab`: what it lists, checks and writes, here and where nothing of the repository is."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from camdf.datasets import write_jsonl
from camdf_lab import cli, domains, stored
from camdf_lab.beyond import STUDIES
from camdf_lab.cli import main, parser
from camdf_lab.paper import TABLES
from camdf_lab.paper.markup import result_json, result_text
from camdf_lab.paper.protocols import metatool
from camdf_lab.paper.results import stored_results
from camdf_lab.stored import Rows
from camdf_lab.study import Study
from saying import says

(ACTIONS,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))


def test_help_is_a_table_of_contents_that_has_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    contents = shown.partition("options:")[0]
    assert sorted(re.findall(r"^  ([a-z-]+) ", contents, re.M)) == sorted(ACTIONS.choices)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("command", ACTIONS.choices.values(), ids=lambda command: command.prog)
def test_every_command_has_an_example_that_can_be_typed_and_its_exit_codes(command: argparse.ArgumentParser) -> None:
    told = re.fullmatch(r"example:\n  (camdf-lab .+)\n\nexit codes:\n((?:  \d  .+\n?)+)", command.epilog or "")
    assert told, "give add_parser an example"
    assert told[1].startswith(command.prog)
    assert callable(parser().parse_args(shlex.split(told[1])[1:]).run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nonsense"], "no table 'nonsense'"),
        (["check", "--results", "{empty}"], "{empty} … no results … Name the folder"),
        (["report", "--results", "{empty}"], "{empty} … no results … Name the folder"),
        (["past", "nonsense"], "no study 'nonsense' … Known: frontier"),
        (["past", "page", "--into", "{empty}"], "measure them … camdf-lab past frontier"),
    ],
)
def test_what_cannot_run_says_which_file_it_lacks_and_how_to_make_it(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(empty=tmp_path) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("camdf-lab: ")
    assert says(error, message.format(empty=tmp_path))
    assert "[Errno" not in error


def test_list_names_every_table_and_what_is_not_replicated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in TABLES)
    assert "Not replicated:" in printed


def test_list_and_check_have_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"].keys() == TABLES.keys()

    def sampled(options: object) -> list[str]:
        print("a sample was measured again")
        return ["frontier, row 3"]

    monkeypatch.setattr(cli, "_checked_sample", sampled)
    assert main(["check", "--json"]) == 1
    printed, told = capsys.readouterr()
    assert json.loads(printed) == {"disagree": ["frontier, row 3"]}
    assert "a sample was measured again" in told


def test_interrupted_work_is_said_to_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_check", interrupted)
    assert main(["check"]) == 130
    assert says(capsys.readouterr().err, "camdf-lab: interrupted", "finished work is kept")


def test_a_table_of_the_paper_is_plain_text_on_a_terminal_and_numbers_for_machines() -> None:
    results = stored_results(stored.held()).results
    table = TABLES["metatool"]
    lines = result_text(table, results).splitlines()
    assert lines[0] == table.title
    assert not [line for line in lines if "|" in line or line.startswith("#")]
    places = [result for result in results if result.table == "metatool"]
    verdicts = [
        line
        for line in lines
        if re.search(r"  (replicates|same direction|unclear in both|differs|cannot be compared)$", line)
    ]
    assert len(verdicts) == len(places) == len(table.rows) * len(table.columns)
    (first, *_) = (result_json(result) for result in places)
    assert first.keys() == {"table", "row", "column", "ours", "paper", "verdict"}
    json.dumps([result_json(result) for result in results], allow_nan=False)


# A policy and a domain of your own.

HALF = """
import camdf

class Half(camdf.Policy):
    def decide(self, rankings, payoff):
        return camdf.Decisions.prefix(rankings, rankings.lengths // 2)
"""


def test_a_policy_and_tasks_of_your_own_enter_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_half.py").write_text(HALF)
    write_jsonl(domains.load("airline"), "mine.jsonl")
    own = ["run", "metatool", "--policy", "my_half:Half", "--domain", "mine.jsonl", "--workers", "1"]
    assert main([*own, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["policy"] for row in rows} == {*metatool("claude").policies, "my_half:Half"}
    assert {(row["domain"], row["scorer"]) for row in rows} == {("mine.jsonl", domains.OWN)}
    (mine,) = (row["payoff"] for row in rows if row["policy"] == "my_half:Half")
    for row in rows:
        if row["policy"] != "my_half:Half":
            assert row["ahead"] == pytest.approx(mine - row["payoff"])
            assert row["low"] <= row["ahead"] <= row["high"]
    assert main(own) == 0
    assert "how far my_half:Half is ahead." in capsys.readouterr().out


def test_tasks_of_your_own_are_replayed_as_those_of_a_domain_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    write_jsonl(domains.load("airline"), path)
    for dispersion in (0.0, 1.5):
        mine = domains.load(str(path), domains.OWN, dispersion=dispersion)
        theirs = domains.load("airline")
        priced = theirs.with_costs(domains.costs("airline", dispersion=dispersion))
        assert mine.digest() == priced.digest()


# In any folder but a checkout.


def test_the_pages_are_written_in_an_empty_folder_from_what_comes_with_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["past", "page"], ["live"]):
        assert main(arguments) == 0
    assert capsys.readouterr().out == "wrote docs/past-the-paper.md\nwrote docs/live.md\n"
    for name in ("past-the-paper", "live"):
        here = Path(__file__).parents[1] / "docs" / f"{name}.md"
        assert Path("docs", f"{name}.md").read_text("utf-8") == here.read_text("utf-8")


def test_a_study_measured_in_an_empty_folder_is_stored_and_says_what_the_page_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"domain": "retail", "figure": 1.5}]
    monkeypatch.setattr("camdf_lab.beyond.STUDIES", [_measuring(study, rows) for study in STUDIES])
    assert main(["past", "calibration"]) == 0
    assert stored.stored(Path("results"), "calibration") == rows
    printed = capsys.readouterr().out
    assert says(printed, "not written", "results lacks frontier, doubts")
    assert says(printed, "All of them", "camdf-lab past all")


def _measuring(study: Study, rows: Rows) -> Study:
    return replace(study, measure=lambda run: rows)
