"""camdf usage on made-up transcripts: what it counts, what it says of it, and what it never tells."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from camdf.cli import main
from camdf.datasets.examples import read_examples
from camdf.examples.text_logs import read_text_log
from camdf.integrations.gateway.folder import DEFINITIONS, Folder, state_home
from camdf.integrations.gateway.working_set import OTHERS, called_shares, cheaper_to_have, connection_weight
from camdf.integrations.transcripts import reading
from camdf.integrations.transcripts.accounts import ENOUGH_SESSIONS, KEEP, LEAVE, TAKE_AWAY, TOO_EARLY, projects_of
from camdf.integrations.transcripts.reading import read_transcripts
from camdf.integrations.transcripts.thread import LONGEST_NAME, Thread
from camdf.prices import Prices
from camdf.tools import Tool

DATA = Path(__file__).parents[1] / "data" / "transcripts"
SECRET = "quokka"
"""Stands in every text of the transcripts, and in no name."""

Report = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without transcripts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / ".codex"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def golden(home: Path) -> Path:
    """The home with the transcripts of every shape."""
    shutil.copytree(DATA / "claude", home / ".claude")
    shutil.copytree(DATA / "codex", home / ".codex")
    return home


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """What the command says to machines."""

    def run(*options: str) -> dict[str, Any]:
        assert main(["usage", "--json", *options]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


def put_sessions(
    home: Path,
    count: int,
    calls: Mapping[int, list[str]],
    *,
    project: str = "/shop",
    tools: tuple[str, ...] = ("mcp__mail__send", "mcp__mail__list"),
    words: int = 60,
) -> None:
    """So many sessions of Claude Code whose prompts hold `tools`; `calls` has those of some sessions, by number."""
    folder = home / ".claude" / "projects" / project.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    described = "word " * words
    definitions = [{"name": name, "description": described, "schema": {"type": "object"}} for name in tools]
    for number in range(count):
        session = f"{project}-{number}"
        whose = {"sessionId": session, "cwd": project, "timestamp": f"2026-11-{1 + number % 10:02}T08:00:00Z"}
        lines: list[dict[str, Any]] = [
            {"type": "attachment", "attachment": {"type": "prompt_snapshot", "tools": definitions}, **whose}
        ]
        for place, name in enumerate([*calls.get(number, []), *["Bash"] * 4]):
            block = {"type": "tool_use", "id": f"t{place}", "name": name, "input": {}}
            usage = {"input_tokens": 1, "cache_read_input_tokens": 1000 * place}
            message = {"id": f"m{place}", "model": "claude-opus-5", "content": [block], "usage": usage}
            lines.append({"type": "assistant", "message": message, **whose})
        (folder / f"{session.strip('/')}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def plain_thread(thread: Thread) -> dict[str, Any]:
    """What was taken of a transcript, as the golden file has it."""
    plain = {name: value for name, value in vars(thread).items() if not name.startswith("_")}
    plain["model_calls"] = sorted([*key, count] for key, count in thread.model_calls.items())
    plain["deferred"] = sorted(thread.deferred)
    return plain


def verdicts(document: Mapping[str, Any], kind: str = "tools") -> dict[str, str]:
    """Of the first project."""
    return {account["name"]: account["verdict"] for account in document["projects"][0][kind]}


# What is read.


def test_every_shape_is_read_as_the_golden_file_has_it(golden: Path) -> None:
    read = read_transcripts(with_texts=True)
    threads = sorted(map(plain_thread, read.threads), key=lambda thread: (thread["session"], thread["is_side"]))
    assert json.loads(json.dumps(threads)) == json.loads((DATA / "read.json").read_text(encoding="utf-8"))
    assert not read.problems


def test_an_answer_in_several_lines_is_one_model_call_and_a_sub_agent_belongs_to_its_session(golden: Path) -> None:
    threads = [thread for thread in read_transcripts().threads if thread.session.startswith("3f0c6f52-1111")]
    assert sorted(thread.is_side for thread in threads) == [False, True]
    assert {thread.is_side: thread.model_calls.total() for thread in threads} == {False: 8, True: 2}


def test_a_definition_costs_its_tokens_in_every_call_at_the_prices_of_the_model(home: Path, report: Report) -> None:
    put_sessions(home, 3, {0: ["mcp__mail__send"]})
    prompts = 3 * 4 + 1
    for options, prices in ((["--prices", "claude-opus=5,0.5"], Prices(uncached=5, cached=0.5)), ([], Prices())):
        (project,) = report(*options)["projects"]
        tool = project["tools"][0]
        expected = 3 * prices.of_request(new=1) + (prompts - 3) * prices.of_request(new=0, again=1)
        assert tool["dollars"] == pytest.approx(tool["tokens"] * expected)
        assert not tool["is_estimated"]


def test_tokens_are_those_that_prices_count(home: Path, report: Report) -> None:
    put_sessions(home, 1, {}, tools=("mcp__mail__send",))
    (tool,) = report()["projects"][0]["tools"]
    assert tool["tokens"] == Prices().count(Tool("mcp__mail__send", "word " * 60, {"type": "object"}))


def test_a_tool_that_is_deferred_costs_its_name_until_a_search_brings_it(golden: Path, report: Report) -> None:
    claude = next(each for each in report()["projects"] if each["client"] == "claude-code")
    costs = {tool["name"]: tool for tool in claude["tools"]}
    assert costs["calendar/delete_event"]["deferred"] == costs["calendar/delete_event"]["sessions"] == 1
    assert 0 < costs["calendar/delete_event"]["dollars"] < costs["calendar/create_event"]["dollars"]
    assert costs["calendar/create_event"]["dollars"] < costs["mail/send_message"]["dollars"]


def test_definitions_that_a_gateway_accepted_are_counted_and_no_server_is_started(golden: Path, report: Report) -> None:
    started = golden / "started"
    server = f'command = "touch"\nargs = ["{started}"]\n'
    (golden / ".codex" / "config.toml").write_text(f"[mcp_servers.mail]\n{server}[mcp_servers.idle]\n{server}")
    definition = {"name": "send_message", "description": "Send. " * 100, "inputSchema": {"type": "object"}}
    record = {"digest": "0", "definition": definition}
    Folder(state_home() / "shop").write(DEFINITIONS, {"accepted": {"mail": {"send_message": record, "other": record}}})
    codex = next(project for project in report()["projects"] if project["client"] == "codex" and project["folder"])
    tools = {tool["name"]: tool for tool in codex["tools"]}
    assert tools["mail/other"]["sessions"] == 2
    assert not tools["mail/other"]["is_estimated"]
    assert codex["idle_servers"] == ["idle"]
    assert not started.exists()


def test_what_a_search_of_codex_brought_was_not_in_every_prompt(golden: Path, report: Report) -> None:
    codex = next(project for project in report()["projects"] if project["client"] == "codex" and project["folder"])
    (event,) = (tool for tool in codex["tools"] if tool["name"] == "calendar/create_event")
    assert (event["sessions"], event["deferred"], event["is_estimated"]) == (1, 1, False)


# The verdicts.


def test_each_verdict_has_its_evidence(home: Path, report: Report) -> None:
    often = {number: ["mcp__mail__send"] for number in range(0, ENOUGH_SESSIONS, 2)}
    rarely = {1: ["mcp__mail__rare"]}
    tools = ("mcp__mail__send", "mcp__mail__rare", "mcp__mail__never")
    put_sessions(home, ENOUGH_SESSIONS, often | rarely, tools=tools, words=8_000)
    assert verdicts(report()) == {"mail/send": KEEP, "mail/rare": LEAVE, "mail/never": TAKE_AWAY}


def test_one_session_less_than_enough_takes_nothing_away(home: Path, report: Report) -> None:
    put_sessions(home, ENOUGH_SESSIONS - 1, {0: ["mcp__mail__send"]})
    assert verdicts(report())["mail/list"] == TOO_EARLY


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_what_a_gateway_would_load_of_what_was_used(home: Path, seed: int) -> None:
    rng = random.Random(seed)
    tools = tuple(f"mcp__mail__tool{number}" for number in range(6))
    calls = {number: rng.sample(tools, rng.randint(0, 2)) for number in range(12)}
    put_sessions(home, 12, calls, tools=tools, words=rng.choice((20, 500, 4_000)))
    (project,) = projects_of(read_transcripts().threads, lambda model: Prices())
    sizes = {tool.name: tool.tokens for tool in project.tools}
    prices = Prices(turns=project.model_calls.total() / 12)
    names = {number: {name.replace("mcp__mail__", "mail/") for name in called} for number, called in calls.items()}
    connections = [(connection_weight(9 - number % 10, is_own=True), called) for number, called in names.items()]
    chance = called_shares(dict.fromkeys(sizes, OTHERS), connections)
    loaded = cheaper_to_have({name: prices.of_tokens(tokens) for name, tokens in sizes.items()}, chance, prices)
    used = {tool.name for tool in project.tools if tool.used_in}
    assert {tool.name for tool in project.tools if tool.verdict == KEEP} == used & set(loaded)


def test_skills_are_judged_as_tools_are(golden: Path, report: Report) -> None:
    claude = next(each for each in report()["projects"] if each["client"] == "claude-code")
    assert {skill["name"]: skill["uses"] for skill in claude["skills"]} == {"pdf": 1, "release-notes": 1}


def test_skills_of_folders_count_where_no_transcript_lists_any(home: Path, report: Report) -> None:
    put_sessions(home, ENOUGH_SESSIONS, {})
    folder = home / ".claude" / "skills" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: pdf\ndescription: >-\n  Reads PDF\n  files.\n---\n{SECRET}\n")
    (skill,) = report()["projects"][0]["skills"]
    assert (skill["name"], skill["verdict"]) == ("pdf", TAKE_AWAY)
    assert skill["tokens"] == round(len("- pdf: Reads PDF files.") / 4)


def test_a_large_list_of_which_little_is_used_is_cheaper_behind_the_gateway(home: Path, report: Report) -> None:
    tools = tuple(f"mcp__mail__tool{number}" for number in range(60))
    put_sessions(home, 20, {number: [tools[0]] for number in range(20)}, tools=tools)
    document = report()
    assert 0 < document["with_camdf"] < document["dollars"] / 2


def test_tools_behind_our_gateway_count_by_their_names_and_nothing_more_is_saved(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_sessions(home, 1, {0: ["mcp__camdf__call_tool"]}, tools=("mcp__camdf__find_tool",))
    (path,) = (home / ".claude" / "projects").rglob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"input": {}', b'"input": {"name": "mail_send"}'))
    (project,) = projects_of(read_transcripts().threads, lambda model: Prices())
    assert {tool.name: tool.uses for tool in project.tools} == {"camdf/find_tool": 0, "camdf/mail_send": 1}
    assert project.with_camdf == project.dollars
    assert main(["usage"]) == 0
    assert "camdf mcp report" in capsys.readouterr().out


# What is never told.


def test_no_text_of_a_transcript_reaches_the_output(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--json"], ["--all"]):
        assert main(["usage", *options]) == 0
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        assert "send_message" in printed.out


def test_texts_are_kept_for_examples_alone_and_for_their_owner(
    golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert all(not thread.asked for thread in read_transcripts().threads)
    path = golden / "examples.jsonl"
    assert main(["usage", "--examples", str(path)]) == 0
    assert SECRET not in capsys.readouterr().out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    examples = read_examples(path)
    assert [example.needed for example in examples if "calendar" in example.text] == [("calendar_create_event",)]
    assert any(not example.needed for example in examples)
    assert all(example.origin == "logged" and example.group for example in examples)


def test_a_fit_reads_the_examples_as_a_log(golden: Path) -> None:
    path = golden / "examples.jsonl"
    assert main(["usage", "--examples", str(path)]) == 0
    tools = {name: Tool(name, name, server="mail") for name in ("send_message", "list_messages")}
    log = read_text_log(path, tools)
    assert {tool for request in log.requests for tool in request.required} >= set(tools)


def test_names_are_bounded_and_their_control_signs_visible(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "mcp__ma\x1b[2Kil__se\u202end" + "d" * 10_000
    put_sessions(home, 1, {0: [hostile]}, tools=(hostile, "mcp__mail__\ud800"), project="/sh\x1b[31mop\x9b")
    for options in ([], ["--json"]):
        assert main(["usage", *options]) == 0
        shown = capsys.readouterr().out
        assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
        assert "d" * (4 * LONGEST_NAME) not in shown


# What cannot be read.


def test_what_cannot_be_read_is_counted_and_said(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = golden / ".claude" / "projects" / "-projects-ada-shop"
    session = next(folder.glob("3f0c6f52-1111*.jsonl"))
    with session.open("ab") as file:
        file.write(b'{"type":"user","message":\n[1]\n\n{"type":"user","x":"\xff\xfe"}\n{"type":"assistant","mess')
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "copy.jsonl").symlink_to(session)
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    (folder / "empty.jsonl").touch()
    os.mkfifo(folder / "pipe.jsonl")
    read = read_transcripts()
    assert read.problems == {
        reading.TORN: 1,
        reading.NO_OBJECT: 1,
        reading.NO_TEXT: 1,
        reading.UNFINISHED: 1,
        reading.LINKS: 2,
        reading.CLOSED: 1,
        reading.EMPTY: 1,
    }
    assert main(["usage"]) == 0
    printed = capsys.readouterr().out
    assert all(problem in printed for problem in read.problems)


def test_a_line_of_fifty_megabytes_is_passed_over_and_the_next_one_is_read(home: Path) -> None:
    put_sessions(home, 1, {})
    (path,) = (home / ".claude" / "projects").rglob("*.jsonl")
    lines = path.read_bytes()
    whole = read_transcripts()
    result = b'{"type":"user","message":{"content":[{"type":"tool_result","content":"' + b"x" * 50_000_000 + b'"}]}}\n'
    path.write_bytes(result + lines)
    assert read_transcripts().threads == whole.threads
    assert not read_transcripts().problems
    path.write_bytes(b'{"type":"assistant","message":{"content":"' + b"x" * 50_000_000 + b'"}}\n' + lines)
    read = read_transcripts()
    assert read.threads == whole.threads
    assert read.problems == {reading.LONG: 1}


def test_no_cut_and_no_changed_byte_raises(golden: Path) -> None:
    rng = random.Random(0)
    paths = sorted(path for path in golden.rglob("*.jsonl"))
    for path in paths:
        whole = path.read_bytes()
        for _ in range(int(os.environ.get("MUTATED", "12"))):
            changed = bytearray(whole[: rng.randrange(len(whole))])
            for _ in range(rng.randrange(4)):
                changed[rng.randrange(len(changed) or 1) : 0] = bytes([rng.randrange(256)])
            path.write_bytes(changed)
            projects_of(read_transcripts(with_texts=True).threads, lambda model: Prices())
        path.write_bytes(whole)


@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, [None], {"a": None}, [[]], 1e400, True])
def test_no_field_of_another_kind_raises(golden: Path, wrong: object) -> None:
    def spoiled(value: object, key: str) -> object:
        if isinstance(value, dict):
            return {name: wrong if name == key else spoiled(part, key) for name, part in value.items()}
        if isinstance(value, list):
            return [spoiled(part, key) for part in value]
        return value

    for path in sorted(golden.rglob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        keys = {key for record in records for key in keys_in(record)}
        lines = [json.dumps(spoiled(record, key)) for key in sorted(keys) for record in records]
        path.write_text("\n".join(lines), encoding="utf-8")
    projects_of(read_transcripts(with_texts=True).threads, lambda model: Prices())


def keys_in(value: object) -> set[str]:
    """Every key of an object and of what it holds."""
    if isinstance(value, dict):
        return set(value) | {key for part in value.values() for key in keys_in(part)}
    if isinstance(value, list):
        return {key for part in value for key in keys_in(part)}
    return set()


def test_a_transcript_that_is_being_written_is_read_as_far_as_it_goes(home: Path) -> None:
    put_sessions(home, 1, {0: ["mcp__mail__send"]})
    (path,) = (home / ".claude" / "projects").rglob("*.jsonl")
    line = path.read_bytes().splitlines(keepends=True)[-1]
    done = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            for number in range(3_000):
                whole = line.replace(b'"m4"', b'"n%d"' % number)
                file.write(whole[:40])
                file.write(whole[40:])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    while not done.is_set():
        read = read_transcripts()
        assert set(read.problems) <= {reading.UNFINISHED}
        counts.append(read.threads[0].model_calls.total())
    writer.join()
    assert counts == sorted(counts)
    assert read_transcripts().threads[0].model_calls.total() == 5 + 3_000


def test_files_of_clients_that_are_broken_cost_nothing(golden: Path, report: Report) -> None:
    before = report()["dollars"]
    (golden / ".codex" / "config.toml").write_bytes(b"\xff[mcp_servers")
    (golden / ".claude" / ".claude.json").write_text("{")
    (golden / ".claude" / "plugins").mkdir()
    (golden / ".claude" / "plugins" / "installed_plugins.json").write_text('{"plugins": [1]}')
    folder = state_home() / "x"
    folder.mkdir(parents=True)
    (folder / DEFINITIONS).write_text('{"accepted": {"mail": {"send": 1}, "x": []}}')
    assert report()["dollars"] == before


def test_where_there_are_no_transcripts_it_says_where_they_would_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage"]) == 0
    assert "~/.claude/projects" in capsys.readouterr().out
