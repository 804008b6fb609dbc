"""Logs as people have them: every file of `tests/examples/logs` is read, and says what was left out and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from shutil import copy
from typing import Any, NamedTuple

import numpy as np
import pytest

import camdf
from camdf import Payoff, Rankings, datasets
from camdf.cli import main
from camdf.cli.logs import listed_tools
from camdf.errors import DataError, UsageError
from camdf.examples.text_logs import NAMES, TextLog, is_text_log, rank_log, read_text_log
from camdf.scorers import BM25
from saying import refuses, says

LOGS = Path(__file__).parent / "logs"
EVERYDAY = LOGS.parents[1] / "data" / "everyday"
TOOLS = listed_tools(LOGS / "tools.json")
FLIGHT, HOTEL, MAIL = ["search_flights"], ["book_hotel"], ["get_weather", "send_email"]


class Expected(NamedTuple):
    """What is understood of a file: what it is, the tools by the id of the request, and what is left out."""

    kind: str
    needed: dict[str, list[str]]
    left_out: dict[str, list[int]] = {}


NOT_SAID = "does not say which tools were needed (if that means none, add --empty-means none)"
EXPECTED = {
    "a-row-a-call.csv": Expected("CSV", {"1": FLIGHT, "2": MAIL}, {"has more tools of another, which got them": [4]}),
    "a-tool-too-many.csv": Expected("CSV", {"a1": FLIGHT, "a2": ["book_hotel", "rent_car"], "a3": ["rent_car"]}),
    "anthropic.json": Expected("JSON array", {"chat": MAIL}),
    "array-in-an-object.json": Expected("JSON", {"a1": FLIGHT, "a2": HOTEL}),
    "array.json": Expected("JSON array", {"a1": FLIGHT, "a2": HOTEL}),
    "blank-and-broken-lines.jsonl": Expected("JSON Lines", {"a1": FLIGHT, "a3": MAIL}, {"is no JSON object": [4, 7]}),
    "bom-crlf.csv": Expected("CSV", {"a1": FLIGHT, "a2": HOTEL}),
    "capitals.csv": Expected("CSV", {"a1": FLIGHT, "a2": HOTEL, "a3": MAIL}),
    "conversations.csv": Expected("CSV", {"a1": FLIGHT, "a2": HOTEL, "a3": MAIL}),
    "duplicate-ids.csv": Expected("CSV", {"7": FLIGHT, "7#2": HOTEL, "8": MAIL}, {"repeats another": [3]}),
    "examples.jsonl": Expected(
        "JSON Lines", {"1": FLIGHT, "3": HOTEL}, {"says of some tools that one of them will do ('or')": [2]}
    ),
    "integer-ids.jsonl": Expected("JSON Lines", {"1": FLIGHT, "2": HOTEL, "3": MAIL}),
    "nan.jsonl": Expected("JSON Lines", {"a1": FLIGHT, "2": HOTEL, "a5": []}, {"has no text": [3], NOT_SAID: [4]}),
    "openai-chat.jsonl": Expected(
        "JSON Lines",
        {"t1-1": FLIGHT, "t1-2": HOTEL, "t2": MAIL},
        {"has no call of a tool": [3], "runs tools through call_tool: mine its traces, which name them": [4]},
    ),
    "openai-responses.jsonl": Expected("JSON Lines", {"r1": FLIGHT, "r2": MAIL}, {"has no call of a tool": [3]}),
    "plain.jsonl": Expected("JSON Lines", {"a1": FLIGHT, "a2": HOTEL, "a3": MAIL}),
    "python-lists.csv": Expected("CSV", {"a1": FLIGHT, "a2": MAIL, "a3": []}, {NOT_SAID: [5]}),
    "ragged.csv": Expected(
        "CSV",
        {"a1": FLIGHT, "a4": HOTEL},
        {"has 4 cells instead of the 3 of the head": [3], "has 2 cells instead of the 3 of the head": [5]},
    ),
    "semicolons.csv": Expected(
        "CSV with semicolons",
        {"1": FLIGHT, "2": ["book_hotel", "send_email"]},
        {"did not succeed": [4], "does not say whether it succeeded": [5]},
    ),
    "string-for-a-list.jsonl": Expected("JSON Lines", {"a1": FLIGHT, "a2": MAIL, "a3": MAIL}),
    "tabs.tsv": Expected("TSV", {"a1": FLIGHT, "a2": MAIL}, {"did not succeed": [4]}),
    "utf-16.csv": Expected("TSV in UTF-16", {"a1": HOTEL, "a2": FLIGHT}),
    "windows.csv": Expected("CSV in Windows-1252", {"a1": HOTEL, "a2": FLIGHT}),
}
NEEDS_NAMES = {"other-names.csv"}


def understood(log: TextLog) -> Expected:
    needed = {request.task_id: list(request.required) for request in log.requests}
    return Expected(log.kind, needed, {why: list(places) for why, places in log.left_out.items()})


@pytest.mark.parametrize("name", EXPECTED)
def test_a_messy_log_is_read_and_what_is_left_out_is_said(name: str) -> None:
    log = read_text_log(LOGS / name, TOOLS)
    assert understood(log) == EXPECTED[name]
    said = "\n".join(log.lines())
    assert all(why in said for why in log.left_out)
    assert all(request.task_id in said for request in log.requests[:3])


def written(folder: Path, *cells: str) -> Path:
    """A log whose rows have these cells of needed tools."""
    rows = [f"a{number},Request {number},{cell}" for number, cell in enumerate(cells, start=1)]
    path = folder / "log.csv"
    path.write_text("\n".join(["id,text,required", *rows, ""]), encoding="utf-8")
    return path


def test_a_request_that_needed_no_tool_is_told_from_one_of_which_nobody_knows(tmp_path: Path) -> None:
    path = written(tmp_path, "book_hotel", "[]", "none", "", "nan", "None")
    unknown = read_text_log(path, TOOLS)
    assert {request.task_id: request.required for request in unknown.requests} == {
        "a1": ("book_hotel",),
        "a2": (),
        "a3": (),
    }
    assert unknown.left_out == {NOT_SAID: [5, 6, 7]}
    assert (unknown.without_need, unknown.summary()["needed_no_tool"]) == (2, 2)
    assert says(unknown.lines()[-1], "2 … needed no tool")
    known = read_text_log(path, TOOLS, empty_means_none=True)
    assert (len(known.requests), known.without_need, known.left_out) == (6, 5, {})


def test_the_share_of_tasks_that_need_no_tool_is_printed_by_fit_and_evaluate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(40):
        tool = str(rng.choice(["book_flight", "book_hotel", "none"]))
        asked = {"book_flight": "Book a flight", "book_hotel": "Book a hotel", "none": "Tell a story"}[tool]
        rows.append(f"r{number},{asked} number {number} of {rng.integers(1000)},{tool}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["id,text,required", *rows, ""]), encoding="utf-8")
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([{"name": key, "description": tool.description} for key, tool in TOOLS.items()]))
    given = [str(path), "--tools", str(tools), "--scorer", "bm25", "--cost-pressure", "0.1", "--splits", "2"]
    policy = tmp_path / "policy.json"
    assert main(["fit", *given, "-o", str(policy)]) == 0
    share = sum(row.endswith("none") for row in rows) / len(rows)
    assert f"none in {share:.0%}" in capsys.readouterr().out
    decided = camdf.load(policy).decide(Rankings.from_scores(dict.fromkeys(TOOLS, 0.5)), Payoff(0.1))
    assert decided.none is not None


def test_every_messy_file_is_in_the_table() -> None:
    there = {path.name for path in LOGS.iterdir()}
    assert there - {"tools.json"} == EXPECTED.keys() | NEEDS_NAMES


def test_a_column_that_is_not_guessed_is_named() -> None:
    path = LOGS / "other-names.csv"
    with refuses(UsageError, "'text' and 'required'", "nr, what they said, labels", must="--columns text=NAME"):
        read_text_log(path, TOOLS)
    log = read_text_log(path, TOOLS, {"text": "What they said", "required": "labels", "task_id": "nr"})
    assert understood(log).needed == {"1": FLIGHT, "2": HOTEL}
    with refuses(UsageError, "'asked', 'spoken'", must="text, required"):
        read_text_log(path, TOOLS, {"asked": "labels", "text": "spoken"})


def test_parquet_is_read_too(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"id": 7, "Prompt": "A flight", "calls": FLIGHT, "success": 1.0}, {"id": None, "Prompt": "A room"}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "log.parquet")
    log = read_text_log(tmp_path / "log.parquet", TOOLS)
    assert understood(log) == Expected("Parquet", {"7": FLIGHT}, {"does not say whether it succeeded": [2]})


def test_names_are_read_as_the_list_spells_them_and_unknown_ones_count_as_missing(tmp_path: Path) -> None:
    assert read_text_log(LOGS / "capitals.csv", TOOLS).respelt == {
        "Search_Flights": "search_flights",
        "BOOK-HOTEL": "book_hotel",
        "travel/get_weather": "get_weather",
        "mcp__mail__send_email": "send_email",
    }
    log = read_text_log(copy(LOGS / "a-tool-too-many.csv", tmp_path), TOOLS)
    assert log.unlisted == {"rent_car": 2}
    logged = rank_log(log, TOOLS, lambda task, tools: [0.5] * len(tools), {"scorer": "flat"}).logged
    assert logged.missing.tolist() == [0, 1, 1]


def test_conversations_and_near_copies_stay_together() -> None:
    groups = [request.group for request in read_text_log(LOGS / "conversations.csv", TOOLS).requests]
    assert groups == ["s1", "s1", "s2"]
    again = [request.group for request in read_text_log(LOGS / "duplicate-ids.csv", TOOLS).requests]
    assert again[0] == again[1] != again[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must have at least one row, and is empty"),
        ("id,text,required\n1,,book_hotel\n2,A room,\n", "has no text.*does not say which tools.*No request is left"),
        (
            "id,text,required\n1,A room,hire_yacht\n",
            "none of the tools that requests needed is in the list.*hire_yacht",
        ),
    ],
    ids=str,
)
def test_a_log_without_anything_to_learn_says_all_reasons_at_once(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=f"(?s){message}"):
        read_text_log(path, TOOLS)


def test_no_text_is_scored_twice(tmp_path: Path) -> None:
    path, asked = tmp_path / "log.csv", list[str]()
    path.write_text("id,text,required\n1,A room,book_hotel\n2,A flight,search_flights\n3,A room,book_hotel\n")

    def scorer(task: str, tools: Any) -> list[float]:
        asked.append(task)
        return [float(len(task) + place) for place in range(len(tools))]

    for expected in (["A room", "A flight"], []):
        asked.clear()
        ranked = rank_log(read_text_log(path, TOOLS), TOOLS, scorer, {"scorer": "own"})
        assert asked == expected
    path.write_text(path.read_text() + "4,A song,play_music\n")
    more = rank_log(read_text_log(path, TOOLS), TOOLS, scorer, {"scorer": "own"})
    assert asked == ["A song"]
    assert (len(ranked.logged), len(more.logged)) == (3, 4)
    rank_log(read_text_log(path, TOOLS), dict(list(TOOLS.items())[:4]), scorer, {"scorer": "own"})
    assert asked == ["A song", "A room", "A flight", "A song"], "other tools, other scores"


def test_logged_tasks_are_no_log_of_requests(tmp_path: Path) -> None:
    datasets.write_jsonl(datasets.sample(), tmp_path / "logged.jsonl")
    (tmp_path / "rows.csv").write_text("task_id,tool,score,required\na,x,0.5,1\n")
    assert not is_text_log(tmp_path / "logged.jsonl")
    assert not is_text_log(tmp_path / "rows.csv")
    assert all(is_text_log(LOGS / name) for name in EXPECTED)


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The everyday requests as a spreadsheet exports them, with what goes wrong in one."""
    listed = json.loads((EVERYDAY / "catalogue-40.json").read_text())
    known = {f"{each['server']}/{each['tool']['function']['name']}" for each in listed}
    lines = map(json.loads, (EVERYDAY / "requests-dev.jsonl").read_text(encoding="utf-8").splitlines())
    rows = [line for line in lines if set(line["needed"]) <= known][:40]
    cells = ['"{}";"{}";"{}";yes'.format(r["id"], r["text"].replace('"', '""'), ", ".join(r["needed"])) for r in rows]
    path = tmp_path_factory.mktemp("messy") / "export.csv"
    content = "\r\n".join(["Nr;User Query;Tools Used;Success", *cells, "x1;broken", ";;;", "x2;A room;book_hotel;no"])
    path.write_text(content, encoding="utf-8-sig", newline="")
    return path


def test_an_engineer_with_a_messy_export_has_a_verdict(
    messy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, tools = tmp_path / "policy.json", ["--tools", str(EVERYDAY / "catalogue-40.json")]
    fit = ["fit", str(messy), *tools, "-o", str(policy), "--cost-pressure", "0.02", "--splits", "2"]
    assert main([*fit, "--scorer", "bm25"]) == 0
    printed = capsys.readouterr().out
    columns = "text from 'User Query', required from 'Tools Used', success from 'Success'."
    assert says(printed, "CSV with semicolons", *columns.split(", "))
    assert says(printed, "1 row left out: … 2 cells … 4")
    assert says(printed, "1 row left out: … not succeed")
    assert "pay" in printed
    assert camdf.load(policy).training_ is not None
    assert main(["evaluate", str(policy), str(messy), *tools, "--scorer", "bm25", "--splits", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("fitted on these very tasks" in warning for warning in told["warnings"])
    assert main(["audit", str(messy), *tools, "--scorer", "bm25"]) == 0
    assert "requests to learn from" in capsys.readouterr().out


def test_score_writes_the_tasks_of_a_log_for_any_other_command(
    messy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools, output = EVERYDAY / "catalogue-40.json", tmp_path / "ranked.jsonl"
    assert main(["score", str(messy), "--tools", str(tools), "--scorer", "bm25", "-o", str(output)]) == 0
    assert "requests to learn from" in capsys.readouterr().out
    log = read_text_log(messy, listed_tools(tools))
    assert datasets.read(output).digest() == rank_log(log, listed_tools(tools), BM25(), {"scorer": "b"}).logged.digest()


def test_a_log_without_its_tools_is_told_what_to_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("plain.jsonl", "semicolons.csv"):
        assert main(["fit", str(LOGS / name), "-o", str(tmp_path / "p.json"), "--cost-pressure", "0.1"]) == 2
        assert says(capsys.readouterr().err, "log of requests", "--tools")


def test_the_names_of_columns_are_documented() -> None:
    page = (LOGS.parents[2] / "docs" / "fitting.md").read_text(encoding="utf-8")
    for what, names in NAMES.items():
        assert f"| `{what}` | {', '.join(f'`{name}`' for name in names)} |" in page


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["--prices", "--task-worth", "0.50"], r"A task gets \d.* tools, which cost \$0\.0\d+ instead of \$0\.0"),
        (["--prices", "3,0.3", "--task-worth", "0.5", "--tool-search"], r"with 0\.89\d* left.*has to search"),
        (["--mean-tools", "8", "--tool-search"], r"with 0\.9 left for each tool missed"),
        (["--sufficiency", "0.5"], r"They are all that it needs in \d+% of tasks; in \d+% the agent lacks one"),
        (
            ["--cost-pressure", "2", "--recourse", "0.9"],
            r"Beware: At a cost pressure of 2, .*times what.*Beware: .*no tool at all.*\d+ tasks,",
        ),
    ],
    ids=str,
)
def test_what_tools_may_cost_is_said_in_words_that_people_have(
    asked: list[str], expected: str, messy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = [str(messy), "--tools", str(EVERYDAY / "catalogue-40.json"), "--scorer", "bm25"]
    assert (
        main(["fit", *log, "-o", str(tmp_path / "p.json"), "--policy", "score-threshold", "--splits", "2", *asked]) == 0
    )
    assert re.search(f"(?s){expected}", capsys.readouterr().out)


def test_a_target_is_met_on_the_tasks(messy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = [str(messy), "--tools", str(EVERYDAY / "catalogue-40.json"), "--scorer", "bm25", "--json"]
    camdf.save(camdf.cold_start(), tmp_path / "p.json")
    main(["calibrate", str(tmp_path / "p.json"), *log, "--mean-tools", "6"])
    told = json.loads(capsys.readouterr().out)
    assert 3 < told["measured"]["tools"] <= 6.0, "tools that BM25 scores alike leave together"
    main(["evaluate", str(tmp_path / "p.json"), *log, "--mean-tools", "6", "--splits", "2"])
    written = capsys.readouterr()
    (tools,) = [row["tools"] for row in json.loads(written.out)["results"].values() if row["margin"] is None]
    assert tools == pytest.approx(6, rel=0.2) or says(written.err, "6 tools", "nearest", "search")


def test_prices_need_definitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    datasets.write_jsonl(datasets.sample(), tmp_path / "logged.jsonl")
    fit = ["fit", str(tmp_path / "logged.jsonl"), "-o", str(tmp_path / "p.json"), "--task-worth", "0.5", "--prices"]
    assert main(fit) == 2
    assert says(capsys.readouterr().err, "--prices needs … definitions")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_tools_are_priced_wherever_the_fit_runs(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets.write_jsonl(datasets.sample(), tmp_path / "logged.jsonl")
    fit = ["fit", str(tmp_path / "logged.jsonl"), "-o", str(tmp_path / "p.json"), "--task-worth", "0.5", "--prices"]
    assert main([*fit, "--tools", str(LOGS / "tools.json"), "--engine", engine]) == 2
    assert says(capsys.readouterr().err, "lacks 7", "tools … priced")
