"""--renamed: a command that is told of new names answers as if every file had them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import camdf
from camdf.cli import main
from camdf.datasets import Example, read_jsonl
from camdf.datasets.examples import read_examples, renamed_examples, write_examples
from camdf.scorers.with_examples import ToolExamples
from saying import says

TOOLS = tuple(f"tool_{place}" for place in range(8))
NEW = {name: f"v2_{place}" for name, place in zip(TOOLS, (3, 1, 7, 0, 5, 2, 6, 4), strict=True)}
RENAMED = [word for old, new in NEW.items() for word in ("--renamed", f"{old}={new}")]


def written_log(path: Path, seed: int, names: Mapping[str, str] | None = None) -> Path:
    """Sixty tasks that list every tool, under new names where there are any."""
    rng = np.random.default_rng(seed)
    named = [(names or {}).get(name, name) for name in TOOLS]
    lines = []
    for task in range(60):
        needed = rng.random(len(TOOLS)) < np.linspace(0.6, 0.05, len(TOOLS))
        scores = 0.7 * rng.random(len(TOOLS)) + 0.3 * needed
        required = [name for name, is_needed in zip(named, needed, strict=True) if is_needed]
        line = {"task_id": str(task), "scores": dict(zip(named, scores.tolist(), strict=True)), "required": required}
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def answer(capsys: pytest.CaptureFixture[str], *command: str | Path) -> Any:
    """What a command answers as JSON."""
    assert main([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    log = written_log(folder / "log.jsonl", 1)
    assert main(f"fit {log} -o {folder / 'policy.json'} --cost-pressure 0.12 --splits 2".split()) == 0
    return folder / "policy.json"


@pytest.mark.parametrize("command", ["evaluate --splits 2", "shadow-report", "calibrate --budget 3"])
@pytest.mark.parametrize("log_has", ["new names", "old names", "a file of renames"])
def test_a_policy_is_measured_under_new_names_as_under_the_old(
    command: str, log_has: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command.split()
    old_log = written_log(tmp_path / "old.jsonl", 2)
    new_log = old_log if log_has == "old names" else written_log(tmp_path / "new.jsonl", 2, NEW)
    renamed = RENAMED
    if log_has == "a file of renames":
        (tmp_path / "renames.json").write_text(json.dumps(NEW))
        renamed = ["--renamed", str(tmp_path / "renames.json")]
    written = json.dumps(answer(capsys, name, policy, old_log, *options))
    for old, new in NEW.items():
        written = written.replace(old, new)
    before = json.loads(written)
    after = answer(capsys, name, policy, new_log, *options, *renamed)
    for document in (before, after):
        document.get("cut", []).sort(key=lambda tool: tool["name"])  # equally often cut, they stand by name
    assert after == before


def test_a_fit_under_new_names_is_the_fit_of_a_log_that_has_them(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = []
    for log, options in (
        (written_log(tmp_path / "old.jsonl", 3), ["--prior", str(policy), *RENAMED]),
        (written_log(tmp_path / "new.jsonl", 3, NEW), ["--prior", str(tmp_path / "prior.json")]),
    ):
        prior = camdf.load(policy, renamed=NEW)
        camdf.save(prior, tmp_path / "prior.json", prior.training_)
        output = tmp_path / f"{log.stem}.json"
        answer(capsys, "fit", log, "-o", output, "--cost-pressure", "0.12", "--splits", "1", *options)
        fitted.append(output.read_text())
    assert fitted[0] == fitted[1]


def test_a_log_of_requests_and_its_past_ones_are_read_under_new_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["request;tools used", *(f"Mail {n};send" for n in range(9)), *(f"Find {n};search" for n in range(9))]
    (tmp_path / "log.csv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "tools.json").write_text(json.dumps({"send_mail": "Send mail.", "search": "Search.", "plot": "Plot."}))
    scored = tmp_path / "scored.jsonl"
    command = f"score {tmp_path / 'log.csv'} --tools {tmp_path / 'tools.json'} --scorer bm25 -o {scored}".split()
    assert main([*command, "--renamed", "send=send_mail"]) == 0
    assert read_jsonl(scored).missing.tolist() == [0] * 18
    capsys.readouterr()
    assert main([*command[:1], str(scored), *command[2:], "--renamed", "send=send_mail"]) == 2
    assert says(capsys.readouterr().err, "--renamed", "a log of requests")


def test_past_requests_are_read_under_new_names() -> None:
    example = Example("", ("send", "send_mail", "plot"), (("send", "search"),))
    (read_again,) = renamed_examples([example], {"send": "send_mail"})
    assert read_again == Example("", ("send_mail", "plot"), (("send_mail", "search"),))


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        (["a=b", "a=c"], "'a' two new names"),
        (["a=b", "b=c"], "old or new … 'b'"),
        (["a="], "a=b … 'a='"),
        (["missing.json"], "JSON file … missing.json"),
    ],
)
def test_renames_that_say_two_things_or_nothing_are_refused(
    renamed: list[str], said: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written_log(tmp_path / "log.jsonl", 2)
    words = [word for pair in renamed for word in ("--renamed", pair)]
    try:
        code = main(["evaluate", str(policy), str(log), *words])
    except SystemExit as refusal:
        code = int(refusal.code or 0)
    assert code == 2
    assert says(capsys.readouterr().err, said)


REQUESTS = [Example("Play some jazz in the kitchen", ("play",)), Example("Write to Ada", ("mail/send",))]
HAVE = {"perform": "Runs a thing.", "dispatch": "Runs a thing."}
"""Tools of which only their examples say what they do, under new names."""

MOVED = ("--renamed", "play=perform", "--renamed", "mail/send=dispatch")


def test_a_ranking_reads_the_examples_of_a_tool_under_its_new_name() -> None:
    moved = dict(pair.split("=") for pair in MOVED[1::2])
    tools = [camdf.Tool(name, text) for name, text in HAVE.items()]
    known = ToolExamples(REQUESTS, moved)
    assert known.texts_of(tools) == [("Play some jazz in the kitchen",), ("Write to Ada",)]
    assert known.without_servers().texts_of(tools) == known.texts_of(tools)
    assert ToolExamples(REQUESTS).texts_of(tools) == [(), ()]
    before = ToolExamples(REQUESTS)
    assert (known.digest, known.digest_by_name) == (before.digest, before.digest_by_name)


def test_score_ranks_by_the_examples_of_renamed_tools(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples.jsonl", REQUESTS)
    (tmp_path / "tools.json").write_text(json.dumps(HAVE), encoding="utf-8")
    log = [{"text": "Play some jazz", "needed": ["play"]}, {"text": "Write to Ada now", "needed": ["mail/send"]}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, log)), encoding="utf-8")
    command = ["score", tmp_path / "log.jsonl", "--tools", tmp_path / "tools.json", "--scorer", "bm25"]
    command += ["--examples", tmp_path / "examples.jsonl", "-o", tmp_path / "scored.jsonl", *MOVED]
    assert main([*map(str, command)]) == 0
    ranked = read_jsonl(tmp_path / "scored.jsonl")
    assert [ranked.rankings.names(row)[0] for row in range(2)] == ["perform", "dispatch"]


def test_examples_that_are_written_keep_what_a_tool_had_under_its_old_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "examples.jsonl"
    write_examples(output, REQUESTS)
    (tmp_path / "tools.json").write_text(json.dumps(HAVE), encoding="utf-8")
    (tmp_path / "own.json").write_text(json.dumps({"play": ["some tunes"]}), encoding="utf-8")
    command = ["examples", str(tmp_path / "tools.json"), "-o", str(output), "--own", str(tmp_path / "own.json")]
    assert main([*command, *MOVED]) in (0, 1)
    written = {example.text: example.needed for example in read_examples(output)}
    assert written == {
        "Play some jazz in the kitchen": ("perform",),
        "Write to Ada": ("dispatch",),
        "some tunes": ("perform",),
    }
