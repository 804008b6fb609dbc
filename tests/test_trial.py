"""`camdf try`: one request on a list of tools, without labels, explained in a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import camdf
from camdf.cli import main
from camdf.gate import Gate, Guards
from camdf.gate.target import Target
from camdf.prices import Prices
from camdf.scorers import Start
from camdf.tools import Tool, view
from camdf.trial import Tried, trial
from everyday import catalogue
from saying import refuses, says

FILE = Path(__file__).parent / "data" / "everyday" / "catalogue-40.json"
TOOLS: Sequence[Any] = catalogue("40")[0]
REQUEST = "I need a bed in Lyon for Friday"


def tried(target: Target | None = None, *, tool_search: bool = True) -> Tried:
    return trial(REQUEST, TOOLS, Start(), target, tool_search=tool_search)


def shown(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["try", str(FILE), REQUEST, *arguments]) == 0
    return capsys.readouterr().out


def test_it_decides_as_the_gate_to_start_with() -> None:
    for target, mean_tools in ((None, None), (Target(mean_tools=5), 5)):
        decided = Gate.start(TOOLS, mean_tools=mean_tools).decide(
            [{"role": "user", "content": REQUEST}], TOOLS, takes_messages=False
        )
        assert tried(target).decision.kept == decided.kept


def test_another_target_is_met_by_the_cold_start() -> None:
    given: dict[str, Any] = {"requests": [REQUEST], "tools": TOOLS, "prices": Prices(), "sufficiency": 0.5}
    gate = Gate.for_target(camdf.cold_start(), Start(), **given)
    decision = tried(Target(sufficiency=0.5)).decision
    assert decision.kept == gate.decide(REQUEST, TOOLS).kept
    assert 0 < len(decision.kept) < 40


def test_tokens_are_those_of_what_is_kept_and_of_the_tool_search() -> None:
    count = Prices().count
    for tool_search in (False, True):
        found = tried(Target(mean_tools=5), tool_search=tool_search)
        kept = [view(tool) for tool in found.decision.tools]
        assert len(kept) == 5
        assert found.loaded == sum(map(count, [*kept, *found.decision.search]))
        assert found.every == sum(count(view(tool)) for tool in TOOLS)


def test_dollars_buy_as_much_as_they_are_worth() -> None:
    prices = Prices()
    few, many = (tried(Target(dollars_per_task=dollars)) for dollars in (0.001, 0.005))
    assert len(few.decision.kept) < len(many.decision.kept)
    for found, dollars in ((few, 0.001), (many, 0.005)):
        assert sum(prices.of(view(tool)) for tool in found.decision.tools) <= dollars


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_terminal_shows_each_tool_and_why_within_its_width(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = shown(capsys=capsys)
    lines = text.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert says(lines[0], "8 of 40 tools … the best")
    rows = re.findall(r"^ +(\d+)  (\S+) +█* +\d\.\d\d +(\d+) +([\d,]*) +(kept|cut)$", text, re.M)
    assert [row[4] for row in rows] == ["kept"] * 8 + ["cut"] * 5
    kept = [row for row in rows if row[4] == "kept"]
    assert int(kept[-1][3].replace(",", "")) == sum(int(row[2]) for row in kept)
    assert "and 27 more, cut" in text
    assert re.search(r"^Tokens    1,\d{3} of 5,\d{3} .* tool search included: \d\d% less$", text, re.M)
    assert re.search(r"^Dollars   \$0\.\d{4} instead of \$0\.\d{4} .* 4 model calls$", text, re.M)
    assert says(text, "Enough?   no label")
    assert says(text, "Missed?   … one search away")
    whole = shown("--all", "--no-tool-search", capsys=capsys)
    assert len(re.findall(r"(?:kept|cut)$", whole, re.M)) == 40
    assert "out of reach" in whole


def test_json_is_one_document_with_every_tool(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown("--tools", "6", "--tool-search", "--json", capsys=capsys))
    assert found["target"] == {"mean_tools": 6}
    assert (len(found["kept"]), len(found["cut"]), len(found["ranking"])) == (6, 34, 40)
    assert found["tokens"] < found["tokens_of_all"]
    assert found["dollars"] < found["dollars_of_all"]
    assert found["scorer"] == "start"


def test_words_alone_do_where_the_better_scorer_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("camdf.cli.tools.find_spec", lambda name: None if name == "wordllama" else name)
    found = json.loads(shown("--json", capsys=capsys))
    assert found["scorer"] == "bm25"


def test_the_decision_is_drawn_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "decision.svg"
    assert shown("-o", str(picture), capsys=capsys).endswith(f"wrote {picture}\n")
    assert picture.read_text(encoding="utf-8").startswith("<svg ")
    assert main(["try", str(FILE), REQUEST, "-o", "decision.png"]) == 2
    assert says(capsys.readouterr().err, ".svg", "'decision.png'")


def test_a_request_that_prefers_no_tool_is_told_what_the_agent_gets(capsys: pytest.CaptureFixture[str]) -> None:
    for tool_search, got in ((["--no-tool-search"], "all 40 tools"), ([], "the tool search alone")):
        assert main(["try", str(FILE), "", *tool_search]) == 0
        assert says(capsys.readouterr().out.splitlines()[0], f"request is empty … the agent gets {got}.")
    weather = [Tool("get_weather", "Weather forecast for a city.")]
    (only,) = trial("I need a room in Lyon", weather, Start(), tool_search=False).lines()
    assert says(only, "No tool … (no signal) … its one tool.")


def test_a_greeting_gets_what_a_gate_gives_it() -> None:
    for tool_search, got in ((False, "all 40 tools"), (True, "the tool search alone")):
        found = trial("Hello there!", TOOLS, Start(), Target(mean_tools=8), tool_search=tool_search)
        gate = Gate(
            camdf.cold_start(),
            Start(),
            camdf.Payoff(0.0, "partial"),
            guards=Guards(fallback=() if tool_search else None),
        )
        asked = gate.decide([{"role": "user", "content": "Hello there!"}], TOOLS, tool_search=tool_search)
        assert (found.decision.kept, found.decision.reason) == (asked.kept, asked.reason)
        (told,) = found.lines()
        assert says(told, f"greeting (no signal) … the agent gets {got}.")


def test_a_tool_search_that_costs_more_than_it_saves_is_told() -> None:
    found = trial(REQUEST, TOOLS[:4], Start(), Target(mean_tools=3), tool_search=True)
    assert found.loaded > found.every
    assert any(says(line, f"{found.loaded / found.every:.1f} times … tool search") for line in found.lines())


def test_what_is_not_cut_is_enough_and_what_was_aimed_for_is_told() -> None:
    short = trial(REQUEST, TOOLS[:4], Start()).lines()
    assert says(short[0], "4 of 4 tools kept: … short … list")
    assert says(short[-1], "Enough?   … nothing is cut")
    aimed = tried(Target(sufficiency=0.5)).lines()[0]
    assert says(aimed, "fewest", "cold start expects", "50% of such requests", "no label")


def test_tools_that_the_provider_runs_are_named_apart() -> None:
    lines = trial(REQUEST, [*TOOLS, {"type": "code_interpreter"}], Start(), Target(mean_tools=8)).lines()
    assert any(says(line, "Besides   code_interpreter: … never cut") for line in lines)
    assert says(lines[0], "of 41 tools … the best")


def test_no_tools_at_all_cannot_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(FILE), REQUEST, "--tools", "0"]) == 2
    assert says(capsys.readouterr().err, "--mean-tools", "at least 1", 0)


def test_a_negative_budget_is_refused_by_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", str(FILE), REQUEST, "--dollars", "-1"]) == 2
    assert says(capsys.readouterr().err, "--dollars", "not be negative", -1)


def test_every_shape_of_a_list_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described = {"book_hotel": "Book a hotel room.", "play_song": "Play a song.", "send_mail": "Send a mail."}
    schema = {"type": "object", "properties": {}}
    anthropic = [{"name": name, "description": text, "input_schema": schema} for name, text in described.items()]
    openai = [{"type": "function", "function": {"name": name, "description": text}} for name, text in described.items()]
    listed = [{"name": name, "description": text, "inputSchema": schema} for name, text in described.items()]
    answered = {"jsonrpc": "2.0", "id": 1, "result": {"tools": listed}}
    for shape in (described, anthropic, {"tools": openai}, answered):
        path = tmp_path / "tools.json"
        path.write_text(json.dumps(shape), encoding="utf-8")
        assert main(["try", str(path), "Book a room in a hotel", "--tools", "1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kept"] == ["book_hotel"]
    refused = {
        "[]": "Give definitions as a request to a model has them",
        '["book_hotel"]': "or an object from name to description",
        '{"mcpServers": {"git": {"command": "uvx"}}}': "Install it with: pip install 'camdf[fastmcp]'",
    }
    for text, told in refused.items():
        path.write_text(text, encoding="utf-8")
        assert main(["try", str(path), "Book a room"]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert told in error


def test_a_scorer_that_fails_is_an_error_and_not_an_open_list() -> None:
    def broken(task: str, tools: Sequence[Tool]) -> list[float]:
        raise ZeroDivisionError

    with refuses(camdf.ScorerError, "request", got="scorer failed, ZeroDivisionError"):
        trial(REQUEST, TOOLS, broken, Target(mean_tools=8))


ODD = [
    {"name": "send", "description": "Send a mail.", "input_schema": {"type": "object", "properties": {}}},
    {"name": "send", "description": "Send a parcel.", "input_schema": {"type": "object", "properties": {}}},
    {"name": "play\x1b[2K", "input_schema": {"type": "object", "properties": {}}},
    {"name": "stop"},
    {"type": "web_search_20250305", "name": "web_search"},
]


def test_every_command_that_reads_a_list_of_tools_says_what_is_odd_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools, log = tmp_path / "tools.json", tmp_path / "log.csv"
    tools.write_text(json.dumps(ODD))
    log.write_text("request,tools\nSend a mail,send\n")
    commands = (["try", str(tools), "Send a mail"], ["worth", str(tools)], ["examples", str(tools), "--print-prompt"])
    fit = ["fit", str(log), "--tools", str(tools), "--mean-tools", "2", "-o", str(tmp_path / "policy.json")]
    for command in (*commands, fit):
        main(command)
        said = capsys.readouterr().err.splitlines()
        assert any("one name" in line and line.endswith(": send.") for line in said), command
        assert any(says(line, "without a description … names alone: play\\x1b[2K.") for line in said)
        assert any("never cut and not counted: stop." in line for line in said)
        assert not any("web_search" in line for line in said)
    tools.write_text(json.dumps(ODD[1:2]))
    main(commands[1])
    assert capsys.readouterr().err == ""


def test_a_tool_that_has_the_name_of_the_search_is_said_and_leaves_the_list_whole() -> None:
    found = trial(REQUEST, [*TOOLS, Tool("find_tool", "Find a tool in the shed.")], Start())
    (said,) = found.lines()
    assert says(said, "'find_tool'", "all 41 tools.")
    assert found.loaded == found.every
