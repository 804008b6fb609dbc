"""`camdf privilege`: the classes of a list for a human to correct, what stays open, and whether a journal is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from camdf.cli import main
from camdf.gate import Journal, Privilege
from saying import says

TOOLS = [
    {"server": "mail", "tool": {"name": "search_mail", "inputSchema": {}}},
    {"server": "mail", "tool": {"name": "send_mail", "inputSchema": {}}},
    {"server": "files", "tool": {"name": "frob", "inputSchema": {}, "annotations": {"readOnlyHint": True}}},
    {"name": "delete_event", "description": "Delete an event."},
]
KEY = b"k" * 32


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return path


def test_the_classes_of_a_list_are_printed_and_written_for_a_privilege(
    tools: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tools.with_name("privilege.json")
    assert main(["privilege", str(tools), "-o", str(written)]) == 0
    told = capsys.readouterr().out
    assert says(told, "2 read, 1 write, 1 egress")
    assert says(told, "Still open … 2 that read freely … 1 that can send")
    assert Privilege.from_file(written).effects == {
        "mail/search_mail": "read",
        "files/frob": "read",
        "delete_event": "write",
        "mail/send_mail": "egress",
    }


def test_as_a_document_it_has_every_pair(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["privilege", str(tools), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["open"] == [
        {"reads": "mail/search_mail", "sends": "mail/send_mail"},
        {"reads": "files/frob", "sends": "mail/send_mail"},
    ]
    assert {tool["because"] for tool in document["tools"]} == {"its name", "its hints"}


def test_of_two_tools_with_one_name_the_worse_is_written(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([{"name": "get", "inputSchema": {"properties": {"url": {}}}}, {"name": "get", "x": 1}]))
    assert main(["privilege", str(path), "-o", str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == {"get": "egress"}


def test_a_journal_that_is_whole_says_how_long_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(tmp_path / "journal.jsonl", KEY)
    for tool in ("a", "b", "c"):
        journal.write({"event": "ran", "tool": tool})
    key = tmp_path / "key"
    key.write_bytes(KEY)
    verify = ["privilege", "verify", str(journal.path), "--key-file", str(key)]
    assert main(verify) == 0
    assert says(capsys.readouterr().out, f"Lines: 3 … {journal.verify().last}")
    assert main([*verify, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"whole": True, "lines": 3, "last": journal.verify().last}
    lines = journal.path.read_text().splitlines(keepends=True)
    journal.path.write_text("".join([lines[0], lines[2]]))
    assert main(verify) == 1
    assert says(capsys.readouterr().out, "line 2")
    key.write_bytes(b"another key of some length")
    assert main([*verify, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["whole"] is False


@pytest.mark.parametrize("words", [["verify"], ["verify", "journal.jsonl"], ["a.json", "b.json"], ["none.json"]])
def test_what_is_not_named_is_asked_for(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["privilege", *words]) == 2
    assert capsys.readouterr().err.startswith("camdf: ")
