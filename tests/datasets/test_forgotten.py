"""What is forgotten is in no byte: neither in what killed writers left, nor in a copy."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrivals import BEGIN, FIRST, run
from camdf import Tool
from camdf.cli import main
from camdf.datasets.examples import Example, read_examples, write_examples
from camdf.datasets.forgetting import Whose, forget_examples
from camdf.errors import DataError
from camdf.examples import ExamplesFile
from camdf.integrations.gateway.folder import Folder
from camdf.service.forget import forget_served
from camdf.service.lessons import Seen, SeenLog
from camdf_traces.days import mine_day, read_days
from camdf_traces.delta import put
from camdf_traces.forget import forget
from camdf_traces.spans import arrow_table
from killed import at_every_step, killed_at_byte, killed_before

SECRET = "divorce-lawyer-4711"
ADA = "the conversation of ada"
HERS = Example(f"Write to my {SECRET}", ("mail",), origin="logged", group=ADA, user="ada@example.com", vector=b"\1\2")
OTHERS = Example("Say hello", ("mail",), origin="logged", group="of bob", vector=b"\2\1")
OWN = Example("Send a message", ("mail",), origin="own")
CONFIGURATION = '[gate]\npolicy = "start"\ntool_search = true\nexamples = "past.jsonl"\n\n[learn]\n'


def spelling_it(folder: Path) -> list[str]:
    """The files below a folder that hold the secret, or whose it is."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path.name for path in files if any(word in path.read_bytes() for word in (SECRET.encode(), ADA.encode()))]


class Kept:
    """What a service keeps: past requests, decisions, and the last good version."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.past, self.configuration = folder / "past.jsonl", folder / "camdf.toml"

    def begin(self) -> None:
        for entry in self.folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        self.state.mkdir()
        self.configuration.write_text(CONFIGURATION, encoding="utf-8")
        write_examples(self.past, [HERS, OTHERS, OWN])
        for conversation, text in ((ADA, SECRET), ("of bob", "hello")):
            SeenLog(self.state).write(seen(conversation, text))
        texts = {"policies": {}, "examples": {"past.jsonl": self.past.read_text(encoding="utf-8")}, "behind": {}}
        version = {"name": "camdf.toml", "folder": str(self.folder), "configuration": CONFIGURATION, **texts}
        (self.state / "last-good-0123.json").write_text(json.dumps(version), encoding="utf-8")

    def forget(self) -> None:
        forget_served(self.configuration, [self.state], Whose(ADA))

    def check_forgotten(self) -> None:
        assert spelling_it(self.folder) == []
        assert read_examples(self.past) == [OTHERS, OWN]
        (decision,) = (self.state / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
        assert "of bob" in decision
        (last_good,) = self.state.glob("last-good-*.json")
        assert "Say hello" in last_good.read_text(encoding="utf-8")
        assert [path.name for path in self.folder.rglob("*.part")] == []


def seen(conversation: str, text: str, tenant: str = "") -> Seen:
    return Seen(text, tenant, "", ["mail"], [1.0], [1.0], [], b"\1\2", conversation)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    (tmp_path / "served").mkdir()
    return Kept(tmp_path / "served")


WRITERS: dict[str, Callable[[Kept], object]] = {
    "past requests are written": lambda kept: write_examples(kept.past, read_examples(kept.past)),
    "one of them is forgotten": lambda kept: forget_examples(kept.past, lambda example: example == OWN),
    "decisions are forgotten": lambda kept: SeenLog(kept.state).forget(lambda decision: False),
    "another conversation is forgotten": lambda kept: forget_served(kept.configuration, [kept.state], Whose("nobody")),
    "it is forgotten": Kept.forget,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_writer_left_that_was_killed_at_any_step_is_forgotten_too(writer: str, kept: Kept) -> None:
    def look(step: int) -> None:
        kept.forget()
        if writer == "one of them is forgotten" and read_examples(kept.past) == [OTHERS]:
            write_examples(kept.past, [OTHERS, OWN])
        kept.check_forgotten()
        kept.begin()

    kept.begin()
    assert at_every_step(lambda: WRITERS[writer](kept), look) > 5


@settings(deadline=None)
@given(writer=st.sampled_from([*WRITERS]), byte=st.integers(0, 1500))
def test_what_a_writer_left_that_was_killed_at_any_byte_is_forgotten_too(writer: str, byte: int) -> None:
    with TemporaryDirectory() as folder:
        kept = Kept(Path(folder))
        kept.begin()
        killed_at_byte(byte, lambda: WRITERS[writer](kept))
        kept.forget()
        assert spelling_it(kept.folder) == []


def test_what_is_left_beside_a_file_that_never_came_to_be_is_forgotten_too(
    kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.begin()
    kept.past.unlink()
    for step in range(10):
        killed_before(step, lambda: write_examples(kept.past, [HERS]))
        if kept.past.exists():
            break
        kept.forget()
        assert spelling_it(kept.folder) == []
        killed_before(step, lambda: write_examples(kept.past, [HERS]))
        assert main(["forget", str(kept.past), "--conversation", ADA, "--plain-ids"]) == 2
        assert spelling_it(kept.folder) == []
    assert step > 3


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_forgotten(kept: Kept) -> None:
    kept.begin()
    tenants = "".join(f'[tenants.{name}]\ntoken_sha256 = "{name * 64}"\nexamples = "{name}.jsonl"\n' for name in "ab")
    kept.configuration.write_text(CONFIGURATION + tenants, encoding="utf-8")
    kept.past.unlink()
    for content in (b'{"text": "torn', b"\xff\xfe"):
        (kept.folder / "a.jsonl").write_bytes(content)
        write_examples(kept.folder / "b.jsonl", [HERS])
        with pytest.raises(DataError, match=r"a\.jsonl.*run this again"):
            kept.forget()
        assert spelling_it(kept.folder) == []


def test_a_copy_is_forgotten_by_the_names_that_it_has_itself(kept: Kept) -> None:
    """The configuration has been changed since, and is refused, so the copy is what serves."""
    kept.begin()
    tenants = '[tenants.acme]\ntoken_sha256 = "{}"\nexamples = "past.jsonl"\n'.format("1" * 64)
    (copy,) = kept.state.glob("last-good-*.json")
    version = json.loads(copy.read_text(encoding="utf-8"))
    copy.write_text(json.dumps({**version, "configuration": tenants + "[gate]\n"}), encoding="utf-8")
    kept.past.unlink()
    newer = tenants.replace("past.jsonl", "newer.jsonl") + "[gate]\n"
    kept.configuration.write_text(newer, encoding="utf-8")
    forget_served(kept.configuration, [kept.state], Whose(), "acme")
    assert SECRET not in copy.read_text(encoding="utf-8")
    assert "Send a message" in copy.read_text(encoding="utf-8"), "what was not logged stays"


@pytest.mark.parametrize("deleted", [False, True])
def test_what_is_forgotten_while_examples_are_written_is_not_written_back(kept: Kept, deleted: bool) -> None:
    kept.begin()
    tools = {"mail": Tool("mail", "Send a message.")}
    file = ExamplesFile.open(kept.past, tools)
    more = Example("Write to Bob", ("mail",))
    file.examples.append(more)
    if deleted:
        kept.past.unlink()
    else:
        forget_examples(kept.past, lambda example: example == HERS)
    file.replace_own([OWN, HERS])
    file.save()
    assert {*read_examples(kept.past)} == {more, OWN}, "not even where it is among one's own"
    file.save()
    assert {*read_examples(kept.past)} == {more, OWN}


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"examples": 3}', b"\xff" + SECRET.encode()])
def test_a_copy_that_nobody_can_read_goes(content: bytes, kept: Kept) -> None:
    kept.begin()
    (copy,) = kept.state.glob("last-good-*.json")
    copy.write_bytes(content)
    kept.forget()
    assert not copy.exists()
    assert spelling_it(kept.folder) == []


def test_what_somebody_writes_at_this_moment_is_not_cut_off(kept: Kept) -> None:
    kept.begin()
    part = kept.state / "journal.json.0123456789ab.part"
    with open(part, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        kept.forget()
        assert part.exists()
    kept.forget()
    assert not part.exists()


# The log of a gateway.


def search(folder: Folder) -> None:
    """Enough of them to shorten the log."""
    for number in range(8):
        folder.note("search", query=f"{SECRET} {number}")


def search_and_forget(folder: Folder) -> None:
    search(folder)
    folder.forget()


GATEWAY_WRITERS: dict[str, Callable[[Folder], object]] = {
    "a search is logged": search,
    "the log is forgotten": search_and_forget,
}


@pytest.mark.parametrize("writer", GATEWAY_WRITERS)
@pytest.mark.parametrize("has_log", [True, False])
def test_what_a_gateway_left_that_was_killed_is_forgotten_with_its_log_or_without(
    writer: str, has_log: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("camdf.integrations.gateway.folder.MOST_BYTES", 400)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"mail": {"command": "x"}}}', encoding="utf-8")
    folder = Folder.of_client_file(file)

    def look(step: int) -> None:
        if not has_log:
            folder.log.unlink(missing_ok=True)
        assert main(["forget", str(file)]) == 0
        assert spelling_it(tmp_path) == []

    assert at_every_step(lambda: GATEWAY_WRITERS[writer](folder), look) > 20


@settings(deadline=None)
@given(writer=st.sampled_from([*GATEWAY_WRITERS]), byte=st.integers(0, 500))
def test_what_a_gateway_left_that_was_killed_at_any_byte_is_forgotten_too(writer: str, byte: int) -> None:
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("camdf.integrations.gateway.folder.MOST_BYTES", 400)
        folder = Folder(Path(place, "gateway"))
        killed_at_byte(byte, lambda: GATEWAY_WRITERS[writer](folder))
        folder.forget()
        assert spelling_it(Path(place)) == []


@pytest.mark.parametrize("is_readable", [True, False])
def test_the_log_of_a_gateway_is_forgotten_by_the_file_of_the_client_that_starts_it(
    is_readable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was logged before the gateway was installed there, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    client = tmp_path / ".claude.json"
    client.write_text('{"mcpServers": {"mail": {"command": "x"}}}', encoding="utf-8")
    Folder.of_client_file(client).note("search", query=SECRET)
    assert main(["mcp", "install", "claude-code", "--yes"]) == 0
    if is_readable:
        (copy,) = (tmp_path / "state").rglob("*/clients/*/*.json")
        Folder.of_client_file(copy).note("search", query=SECRET)
    else:
        client.write_text("{", encoding="utf-8")
    assert len(spelling_it(tmp_path)) == 1 + is_readable
    assert main(["forget", str(client)]) == 0
    assert spelling_it(tmp_path) == []


# Tables.


def test_what_killed_writers_left_in_a_table_and_in_temporary_folders_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, temporary = tmp_path / "table", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    spans = [replace(span, user="ada@example.com", text=SECRET) for span in run(1, BEGIN)]
    mine_day(arrow_table([*spans, *run(2, BEGIN)]), table, FIRST, with_text=True)
    left = temporary / "camdf-spans-0123"
    left.mkdir()
    (left / "0.parquet").write_text(SECRET)
    folders = [folder for folder in (table, *table.rglob("*")) if folder.is_dir() and "_delta_log" not in str(folder)]
    assert len(folders) > 4
    for folder in folders:
        assert killed_at_byte(len(SECRET), partial(put, f"{folder}/more.parquet", SECRET.encode() * 2))
    assert len(spelling_it(table)) > len(folders)
    forget(table, user="ada@example.com")
    assert [*table.rglob("*.part")] == []
    assert [*temporary.iterdir()] == []
    assert spelling_it(tmp_path) == []
    assert len(read_days(table)) == 1
