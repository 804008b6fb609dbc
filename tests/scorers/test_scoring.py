"""`camdf score`: a folder of tasks in, a ranking a line out, whatever interrupts it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from camdf.cli import main
from camdf.errors import DataError
from camdf.examples.mined import read_logged
from camdf.scorers import BM25, Given, ScorerError, Start
from camdf.scorers.folder import score_folder
from camdf.tools import Tool, view
from camdf_traces.audit import audit, read_tasks
from camdf_traces.audit.findings import Censoring
from camdf_traces.spans import Span, arrow_table
from camdf_traces.tasks import mine
from saying import refuses, says
from scripted_endpoint import answers, body, endpoint

DATA = Path(__file__).parents[3] / "shared" / "data"
"""The texts behind the shipped numbers, which do not ship."""

TOOLS = {"getWeather": "Weather of a city.", "send_mail": "Send a mail.", "search": "Search the web."}
TASKS = [
    {"task_id": "a", "text": "The weather, by mail"},
    {"task_id": "b", "text": "search", "tools": ["search", "send_mail"]},
    {"task_id": "c", "text": "nothing of the kind"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "tasks", TASKS, TOOLS)


def written(folder: Path, tasks: Sequence[Any], tools: Any) -> Path:
    folder.mkdir()
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    return folder


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_task_is_scored_over_its_own_tools_best_first(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    assert main(["score", str(folder), "--scorer", "bm25", "-o", str(output)]) == 0
    first, second, third = records(output)
    assert list(first["scores"]) == ["getWeather", "send_mail", "search"]
    assert list(second["scores"].items()) == [("search", 1.0), ("send_mail", 0.0)]
    assert set(third["scores"].values()) == {0.0}


def test_examples_are_read_with_the_tools_and_named_in_the_settings(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples, output = tmp_path / "examples.jsonl", tmp_path / "scores.jsonl"
    examples.write_text('{"text": "anything of a kind", "needed": ["search"]}\n', encoding="utf-8")
    score = ["score", str(folder), "-o", str(output), "--examples", str(examples)]
    assert main([*score, "--scorer", "bm25"]) == 0
    assert next(iter(records(output)[2]["scores"].items())) == ("search", 1.0)
    assert json.loads(output.with_suffix(".settings.json").read_text())["examples"]
    assert main(["score", str(folder), "-o", str(output), "--scorer", "bm25"]) == 2  # another ranking
    assert main([*score, "--scorer", "llm"]) == 2
    assert says(capsys.readouterr().err, "scorer 'llm'", "no examples")


def test_top_keeps_the_best_by_the_unrounded_score_and_ties_favor_no_name(folder: Path, tmp_path: Path) -> None:
    close = Given({"getWeather": 0.50001, "send_mail": 0.50002, "search": 0.1})
    score_folder(folder, close, tmp_path / "close.jsonl", top=2)
    assert list(records(tmp_path / "close.jsonl")[0]["scores"].items()) == [("send_mail", 0.5), ("getWeather", 0.5)]
    names = {f"tool{i}": "" for i in range(4)}
    many = written(tmp_path / "many", [{"task_id": str(i), "text": "x"} for i in range(40)], names)
    score_folder(many, Given(dict.fromkeys(names, 0.0)), tmp_path / "ties.jsonl", top=1)
    assert {name for record in records(tmp_path / "ties.jsonl") for name in record["scores"]} == set(names)


def test_a_rerun_scores_only_what_is_missing(folder: Path, tmp_path: Path) -> None:
    output, asked = tmp_path / "scores.jsonl", list[str]()

    def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        asked.append(task)
        return [0.5] * len(tools)

    score_folder(folder, scorer, output)
    whole = output.read_bytes()
    assert len(asked) == 3
    for cut in range(len(whole) + 1):  # a kill at any byte
        output.write_bytes(whole[:cut])
        asked.clear()
        done = score_folder(folder, scorer, output)
        assert output.read_bytes() == whole
        assert len(asked) == done.now == 3 - whole[:cut].count(b"\n")
        assert done.before == 3 - done.now


def test_a_refused_task_is_left_out_tried_again_and_put_in_its_place(folder: Path, tmp_path: Path) -> None:
    output, moods = tmp_path / "scores.jsonl", {"search": "not today"}

    def moody(task: str, tools: Sequence[Tool]) -> list[float]:
        if task in moods:
            raise ScorerError(moods.pop(task))
        return [1.0] * len(tools)

    assert score_folder(folder, moody, output).refused == {"b": "not today"}
    assert [record["task_id"] for record in records(output)] == ["a", "c"]
    assert score_folder(folder, moody, output).now == 1
    assert [record["task_id"] for record in records(output)] == ["a", "b", "c"]


def test_a_scorer_that_is_down_ends_the_run(folder: Path, tmp_path: Path) -> None:
    with refuses(ScorerError, "3 tasks in a row", got="given scores"):
        score_folder(folder, Given({}), tmp_path / "scores.jsonl")


def test_a_coroutine_is_a_scorer_too(folder: Path, tmp_path: Path) -> None:
    async def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
        return [0.25] * len(tools)

    assert score_folder(folder, scorer, tmp_path / "scores.jsonl").now == 3


def test_two_rankings_are_never_mixed_in_one_file(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    score_folder(folder, BM25(), output, settings={"scorer": "bm25"})
    with pytest.raises(DataError, match="other settings"):
        score_folder(folder, BM25(), output, settings={"scorer": "other"})
    with pytest.raises(DataError, match="other settings"):
        score_folder(folder, BM25(), output, settings={"scorer": "bm25"}, top=2)
    (tmp_path / "scores.settings.json").unlink()
    with pytest.raises(DataError, match="other settings"):
        score_folder(folder, BM25(), output, settings={"scorer": "bm25"})


def test_a_damaged_line_is_named(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    score_folder(folder, BM25(), output)
    lines = output.read_text().splitlines()
    output.write_text("\n".join([lines[0], "{oops", lines[2]]) + "\n")
    with pytest.raises(DataError, match=r"scores.jsonl, line 2"):
        score_folder(folder, BM25(), output)


def test_the_command_takes_the_scorer_to_start_with(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.jsonl"
    assert main(["score", str(folder), "--scorer", "start", "-o", str(output)]) == 0
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert records
    assert all(list(record["scores"].values()) == sorted(record["scores"].values(), reverse=True) for record in records)


def test_a_language_model_scores_a_folder_and_what_it_refuses_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "scores.jsonl"
    good = answers({"getWeather": 0.9, "send_mail": 0.4, "search": 0.2})
    with endpoint(good, body("", 400), good) as server:
        command = ["score", str(folder), "--scorer", "llm", "--url", server.url, "--model", "m", "-o", str(output)]
        assert main(command) == 1
        printed = capsys.readouterr()
        assert "b: 127.0.0.1" in printed.err
        assert says(printed.out, "3 tasks read: 2 scored, 1")
        assert main(command) == 0
    assert [record["scores"] for record in records(output)][:2] == [
        {"getWeather": 0.9, "send_mail": 0.4, "search": 0.2},
        {"send_mail": 0.4, "search": 0.2},
    ]
    assert main(["score", str(folder), "--scorer", "llm", "-o", str(tmp_path / "x.jsonl")]) == 2
    assert "--url and --model" in capsys.readouterr().err


@pytest.mark.skipif(not DATA.is_dir(), reason="the request texts do not ship")
@pytest.mark.parametrize(("domain", "sample"), [("bfcl-multi-turn", 200), ("livemcpbench", 71), ("seal-tools", 100)])
def test_bm25_gives_the_shipped_rankings_to_the_byte(domain: str, sample: int, tmp_path: Path) -> None:
    source = DATA / domain
    tasks = (source / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    drawn = sorted(random.Random(0).sample(range(len(tasks)), sample))
    tools = json.loads((source / "tools.json").read_bytes())
    folder = written(tmp_path / domain, [json.loads(tasks[at]) for at in drawn], tools)
    top = [] if domain == "bfcl-multi-turn" else ["--top", "50"]
    assert main(["score", str(folder), "--scorer", "bm25", *top, "-o", str(tmp_path / "scores.jsonl")]) == 0
    stored = (source / "scores" / "bm25.jsonl").read_bytes().splitlines()
    assert (tmp_path / "scores.jsonl").read_bytes().splitlines() == [stored[at] for at in drawn]


@pytest.fixture
def mined(tmp_path: Path) -> Path:
    """Three tasks that no gate ranked; one has no text, and one was offered a tool that nobody described."""
    spans = []
    for trace, text, offered, called in (
        ("a", "The weather, by mail", ("send_mail", "getWeather", "find_tool"), ("getWeather", "send_mail")),
        ("b", "search", ("send_mail", "search", "phone"), ("search",)),
        ("c", "", ("search",), ("search",)),
    ):
        spans += [
            Span(trace, "1", kind="agent", text=text, start=1),
            Span(trace, "2", "1", "model", offered=offered, requested=called),
            Span(trace, "3", "1", "model", offered=offered),
        ]
    mine(arrow_table(spans), with_text=True).tasks.write_parquet(tmp_path / "tasks.parquet")
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    return tmp_path / "tasks.parquet"


def test_mined_tasks_are_ranked_over_what_they_were_offered_and_lose_their_texts(
    mined: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, tools = tmp_path / "ranked.parquet", str(tmp_path / "tools.json")
    assert main(["score", str(mined), "--tools", tools, "--scorer", "bm25", "-o", str(output)]) == 0
    printed = capsys.readouterr().out
    assert says(printed, "1 without a text")
    assert says(printed, "1 tools … names alone … phone")
    found = pl.read_parquet(output)
    assert found.schema == pl.read_parquet(mined).schema
    assert sorted(found["ranked"].to_list()[0]) == ["getWeather", "send_mail"]
    assert found["ranked"].to_list()[1][0] == "search"
    assert sorted(found["ranked"].to_list()[1]) == ["phone", "search", "send_mail"]
    assert found["ranked"].to_list()[2] == []
    assert found["text"].to_list() == ["", "", ""]
    logged = read_logged(output)
    assert (len(logged), logged.n_required.tolist(), logged.missing.tolist()) == (2, [2, 1], [0, 0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranked.parquet", "tasks.parquet", "tools.json"]


def test_what_a_gate_had_cut_is_ranked_again_and_still_seen_to_be_cut(tmp_path: Path) -> None:
    spans = []
    for number in range(12):
        spans += [
            Span(f"t{number}", "1", kind="agent", text="The weather, please", start=number),
            Span(f"t{number}", "2", "1", "other", ranked=("getWeather", "search"), scores=(0.9, 0.1), explored=False),
            Span(f"t{number}", "3", "1", "model", offered=("getWeather",), requested=("getWeather",)),
            Span(f"t{number}", "4", "1", "model", offered=("getWeather",)),
        ]
    mine(arrow_table(spans), with_text=True).tasks.write_parquet(tmp_path / "tasks.parquet")
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    command = ["score", str(tmp_path / "tasks.parquet"), "--tools", str(tmp_path / "tools.json"), "--scorer", "bm25"]
    assert main([*command, "-o", str(tmp_path / "ranked.parquet")]) == 0
    for name in ("tasks", "ranked"):
        ranked = pl.read_parquet(tmp_path / f"{name}.parquet")["ranked"].to_list()
        assert {frozenset(each) for each in ranked} == {frozenset(["getWeather", "search"])}
        found = audit(read_tasks(tmp_path / f"{name}.parquet")).censoring
        assert isinstance(found, Censoring)
        assert found.cut_runs.mean == 1.0


def test_the_scorer_to_start_with_says_of_mined_tasks_what_it_says_in_a_gate(mined: Path, tmp_path: Path) -> None:
    """Parameters included: what a tool works on may stand in their names alone."""
    takes = {"getWeather": ["weather", "city"], "send_mail": ["mail"], "search": ["query"]}
    native = [
        {"name": name, "description": "", "inputSchema": {"properties": {key: {} for key in takes[name]}}}
        for name in TOOLS
    ]
    (tmp_path / "tools.json").write_text(json.dumps(native))
    output = tmp_path / "ranked.parquet"
    command = ["score", str(mined), "--tools", str(tmp_path / "tools.json"), "--scorer", "start"]
    assert main([*command, "-o", str(output)]) == 0
    first, asked = pl.read_parquet(output).row(0, named=True), pl.read_parquet(mined)["text"][0]
    tools = [view(each) for each in native if each["name"] in first["ranked"]]
    said = dict(zip((tool.name for tool in tools), Start()(asked, tools), strict=True))
    assert dict(zip(first["ranked"], first["scores"], strict=True)) == pytest.approx(said, abs=5e-5)
    assert main([*command, "--text", "words", "-o", str(tmp_path / "words.parquet")]) == 0
    assert pl.read_parquet(tmp_path / "words.parquet")["scores"][0].to_list() != first["scores"]


def test_a_task_that_a_scorer_refuses_has_no_ranking_until_a_later_run(mined: Path, tmp_path: Path) -> None:
    from camdf_traces.ranked import rank_tasks

    refusing = [True]

    def moody(task: str, tools: Sequence[Tool]) -> list[float]:
        if task == "search" and refusing.pop():
            raise ScorerError("not today")
        return [0.5] * len(tools)

    tools, scores = [Tool(*each) for each in TOOLS.items()], tmp_path / "scores.jsonl"
    first = rank_tasks(mined, tools, moody, scores)
    assert (first.scored.now, first.scored.refused) == (1, {"b/1": "not today"})
    assert [bool(each) for each in first.tasks["ranked"].to_list()] == [True, False, False]
    refusing.append(False)
    second = rank_tasks(mined, tools, moody, scores)
    assert (second.scored.now, second.scored.before, second.scored.refused) == (1, 1, {})
    assert [bool(each) for each in second.tasks["ranked"].to_list()] == [True, True, False]


def test_mined_tasks_without_texts_or_tools_are_refused_with_what_to_do(
    mined: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--scorer", "bm25", "-o", str(tmp_path / "ranked.parquet")]
    assert main(["score", str(mined), *output]) == 2
    assert "--tools tools.json" in capsys.readouterr().err
    pl.read_parquet(mined).with_columns(text=pl.lit("")).write_parquet(mined)
    assert main(["score", str(mined), "--tools", str(tmp_path / "tools.json"), *output]) == 2
    assert "--with-text" in capsys.readouterr().err
