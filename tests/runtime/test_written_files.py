"""Whatever the package writes is whole and private, whoever is killed while writing it, and blocks no later command."""

from __future__ import annotations

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from arrivals import BEGIN, FIRST, run
from camdf import LoggedTasks, Tool, UsageError
from camdf.checks import sample_tasks
from camdf.cli import main
from camdf.datasets.examples import Example, read_examples, write_examples
from camdf.datasets.files import read_jsonl, write_jsonl, write_parquet
from camdf.datasets.forgetting import forget_examples
from camdf.datasets.ids import id_key
from camdf.datasets.texts import TaskText
from camdf.examples.writing import ExamplesFile
from camdf.integrations.gateway.definitions import Definitions
from camdf.integrations.gateway.folder import STATUS, Folder
from camdf.scorers.folder import score_tasks
from camdf.scorers.necessity import _remember
from camdf.service.config_file import parsed
from camdf.service.learning import contest_of
from camdf.service.lessons import Seen, SeenLog
from camdf_traces.delta import put
from camdf_traces.span_files import clear_scratch, scratch_folder
from camdf_traces.spans import arrow_table
from killed import at_every_step, killed_at_byte

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "src" / "camdf", ROOT / "traces" / "src" / "camdf_traces")


# Every writer, killed.


class Writer(NamedTuple):
    """What writes files in a folder: what is there before, the work, and what is true of the folder at any time."""

    begin: Callable[[Path], object]
    work: Callable[[Path], object]
    holds: Callable[[Path], object]
    """Raises where some file is neither the old one nor the new one."""

    private: Sequence[str] = ()
    """The files that are their owner's alone."""

    folders: Sequence[str] = ()
    """The folders that are."""


def nothing(folder: Path) -> None:
    """There is nothing before."""


MADE_UP = Example("What is the weather?", ("weather",))
LOGGED = [Example(f"Write to {name}", ("mail",), origin="logged", group=name, vector=b"\1\2") for name in "abc"]
CHANGED = Tool("mail", "Send a message, and a copy to me.")
TOOLS = {"mail": Tool("mail", "Send a message."), "weather": Tool("weather", "Say how the weather is.")}
TASKS = [TaskText(str(number), f"Write to {number}", ("mail", "weather")) for number in range(3)]
LEARNS = '[gate]\npolicy = "policy.json"\ncost_pressure = 0.1\n\n[learn]\n'
DECISION = Seen("id", "", "", ["mail"], [1.0], [1.0], [], b"\1\2", "chat")


def is_one_of(path: Path, *contents: bytes | None) -> None:
    assert (path.read_bytes() if path.exists() else None) in contents


def logged_tasks() -> LoggedTasks:
    return sample_tasks(1)


def write_past(folder: Path, examples: Sequence[Example] = LOGGED) -> None:
    write_examples(folder / "past.jsonl", examples)


def examples_of_tools(folder: Path) -> None:
    file = ExamplesFile.open(folder / "examples.jsonl", TOOLS)
    file.examples = [MADE_UP]
    file.save()


def either_examples(folder: Path) -> None:
    path = folder / "past.jsonl"
    assert not path.exists() or read_examples(path) in (LOGGED, LOGGED[1:])


def decisions(folder: Path) -> None:
    """Whole lines, and at most one that was cut short."""
    path = folder / "decisions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    assert sum(line != msgspec.json.encode(DECISION) + b"\n" for line in lines) <= 1


def two_decisions(folder: Path) -> None:
    for _ in range(2):
        SeenLog(folder).write(DECISION)


def begin_learning(folder: Path) -> None:
    camdf.save(camdf.TopK(2), folder / "policy.json")
    (folder / "camdf.toml").write_text(LEARNS, encoding="utf-8")
    with contest_of(folder, "policy.json", parsed(LEARNS, "camdf.toml")) as contest:
        contest._notice_replaced()
        contest._note_in_journal("It began.")
    camdf.save(camdf.TopK(3), folder / "policy.json")


def roll_back(folder: Path) -> None:
    """Put the policy back in the place of which somebody has put another one."""
    with contest_of(folder, "policy.json", parsed(LEARNS, "camdf.toml")) as contest, suppress(UsageError):
        contest.roll_back()
    assert camdf.load(folder / "policy.json").get_params()["k"] == 2


def journal(folder: Path) -> None:
    lines = (folder / "policy.json.learned" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert all("words" in json.loads(line) for line in lines)
    assert camdf.load(folder / "policy.json").get_params()["k"] in (2, 3)


def score(folder: Path) -> None:
    score_tasks(TASKS, TOOLS, lambda task, tools: [float(len(task)), 0.0], folder / "scores.jsonl")


def scores(folder: Path) -> None:
    path = folder / "scores.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    whole = [json.loads(line)["task_id"] for line in lines if line.endswith(b"\n")]
    assert whole == ["0", "1", "2"][: len(whole)]


def a_key(folder: Path) -> None:
    path = folder / "keys" / "id.key"
    assert not path.exists() or len(path.read_bytes()) == 65


def first_definitions(folder: Path) -> None:
    Definitions(Folder(folder / "gateway")).standings("mail", [TOOLS["mail"]])


def review(folder: Path) -> None:
    """A changed definition waits, and is accepted."""
    definitions = Definitions(Folder(folder / "gateway"))
    definitions.standings("mail", [CHANGED])
    definitions.accept([waiting.seal for waiting in definitions.pending()])


def known_definitions(folder: Path) -> None:
    """What is accepted is the old definition or the new one, and a third one never is."""
    with TemporaryDirectory() as place:
        copy = Path(place, "gateway")
        shutil.copytree(folder / "gateway", copy)
        definitions = Definitions(Folder(copy))
        accepted = [definitions.standings("mail", [tool])["mail"] for tool in (TOOLS["mail"], CHANGED)]
        assert accepted.count("accepted") == 1
        assert definitions.copy == ""


def gateway_log(folder: Path) -> None:
    """Many searches, so that the log is shortened; half of it is forgotten; and how the servers are."""
    gateway = Folder(folder / "gateway")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("camdf.integrations.gateway.folder.MOST_BYTES", 300)
        for number in range(6):
            gateway.note("search", query=f"write to {number}")
    gateway.forget(date(2026, 1, 1))
    gateway.write(STATUS, {"servers": {}})


def whole_lines(folder: Path) -> None:
    """Lines of the log, and at most one that was cut short; and a status that can be read."""
    gateway = Folder(folder / "gateway")
    lines = gateway.log.read_bytes().splitlines() if gateway.log.exists() else []
    assert sum(1 for _ in gateway.records()) >= len(lines) - 1
    assert not (gateway.path / STATUS).exists() or gateway.read(STATUS) == {"servers": {}}


WRITERS = {
    "policy": Writer(
        lambda folder: camdf.save(camdf.TopK(2), folder / "policy.json"),
        lambda folder: camdf.save(camdf.TopK(3), folder / "policy.json"),
        lambda folder: camdf.load(folder / "policy.json"),
    ),
    "past requests": Writer(nothing, write_past, either_examples, ["past.jsonl"]),
    "examples and their digests": Writer(
        nothing, examples_of_tools, lambda folder: ExamplesFile.open(folder / "examples.jsonl", TOOLS)
    ),
    "past requests without one": Writer(
        write_past,
        lambda folder: forget_examples(folder / "past.jsonl", lambda example: example.group == "a"),
        either_examples,
        ["past.jsonl"],
    ),
    "logged tasks as JSON": Writer(
        nothing,
        lambda folder: write_jsonl(logged_tasks(), folder / "tasks.jsonl"),
        lambda folder: not (folder / "tasks.jsonl").exists() or read_jsonl(folder / "tasks.jsonl"),
        ["tasks.jsonl"],
    ),
    "a key": Writer(nothing, lambda folder: id_key(folder / "keys" / "id.key"), a_key, ["keys/id.key"], ["keys"]),
    "scores of tasks": Writer(nothing, score, scores, ["scores.jsonl", "scores.settings.json"]),
    "answers of a model": Writer(
        nothing,
        lambda folder: _remember(folder / "cache" / "answer.json", {"mail": 1.0}),
        lambda folder: is_one_of(folder / "cache" / "answer.json", None, b'{"scores": {"mail": 1.0}}'),
        ["cache/answer.json"],
        ["cache"],
    ),
    "decisions": Writer(nothing, two_decisions, decisions, ["decisions.jsonl"]),
    "decisions without one": Writer(
        two_decisions,
        lambda folder: SeenLog(folder).forget(lambda decision: decision.group == "chat"),
        decisions,
        ["decisions.jsonl"],
    ),
    "what was learned": Writer(
        begin_learning, roll_back, journal, ["policy.json.learned/journal.jsonl"], ["policy.json.learned"]
    ),
    "definitions of a gateway": Writer(
        first_definitions, review, known_definitions, ["gateway/definitions.json"], ["gateway"]
    ),
    "the log of a gateway": Writer(
        nothing,
        gateway_log,
        whole_lines,
        ["gateway/log.jsonl", "gateway/forgotten", "gateway/status.json"],
        ["gateway"],
    ),
    "a part of a table": Writer(
        nothing,
        lambda folder: put(str(folder / "table" / "part"), b"of a table"),
        lambda folder: is_one_of(folder / "table" / "part", None, b"of a table"),
    ),
}


@pytest.fixture(autouse=True)
def everybody_may_read() -> Iterator[None]:
    """What does not say who may read it may be read by everybody."""
    mask = os.umask(0)
    yield
    os.umask(mask)


def check_left(writer: Writer, folder: Path) -> None:
    """What a killed writer left is whole and private, and the next one does its work and clears it."""
    writer.holds(folder)
    check_private(writer, folder)
    writer.work(folder)
    writer.holds(folder)
    check_private(writer, folder)
    assert [path.name for path in folder.rglob("*.part")] == []
    for name in writer.private:
        assert (folder / name).exists(), name


def check_private(writer: Writer, folder: Path) -> None:
    private = {folder / name for name in writer.private}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        whole = path.with_name(path.name.rpartition(".part")[0].rpartition(".")[0]) if path.suffix == ".part" else path
        if whole in private:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for name in writer.folders:
        assert not (folder / name).exists() or stat.S_IMODE((folder / name).stat().st_mode) == 0o700, name


@pytest.mark.parametrize("name", WRITERS)
def test_a_kill_at_any_step_leaves_whole_and_private_files_and_blocks_no_writer(name: str, tmp_path: Path) -> None:
    writer, folder = WRITERS[name], tmp_path / "folder"

    def begin() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        writer.begin(folder)

    def look(step: int) -> None:
        check_left(writer, folder)
        begin()

    begin()
    assert at_every_step(lambda: writer.work(folder), look) >= 3


@settings(deadline=None)
@given(name=st.sampled_from([*WRITERS]), byte=st.integers(0, 400))
def test_a_kill_at_any_byte_leaves_whole_and_private_files_and_blocks_no_writer(name: str, byte: int) -> None:
    writer = WRITERS[name]
    with TemporaryDirectory() as place:
        folder = Path(place, "folder")
        folder.mkdir()
        writer.begin(folder)
        killed_at_byte(byte, lambda: writer.work(folder))
        check_left(writer, folder)


# Who may read what commands write.


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "spans.parquet"
    pq.write_table(arrow_table([span for number in range(3) for span in run(number + 1, BEGIN)]), path)
    return path


def test_what_commands_keep_of_requests_is_their_owners_alone(traces: Path, tmp_path: Path) -> None:
    key = ["--id-key", str(tmp_path / "keys" / "id.key")]
    assert main(["mine", str(traces), "--with-text", "-o", str(tmp_path / "tasks.parquet"), *key]) == 0
    assert main(["mine", str(traces), "--into", str(tmp_path / "table"), "--day", str(FIRST), *key]) == 0
    write_parquet(logged_tasks(), tmp_path / "logged.parquet")
    assert modes_in(tmp_path) == {"keys": 0o700, "tasks.parquet": 0o600, "table": 0o700, "logged.parquet": 0o600}


def test_a_folder_that_was_there_keeps_its_mode_and_so_does_a_file(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir(mode=0o750)
    (tmp_path / "tasks.parquet").touch(mode=0o640)
    key = ["--plain-ids"]
    assert main(["mine", str(traces), "-o", str(tmp_path / "tasks.parquet"), *key]) == 0
    assert main(["mine", str(traces), "--into", str(tmp_path / "table"), "--day", str(FIRST), *key]) == 0
    assert modes_in(tmp_path) == {"tasks.parquet": 0o640, "table": 0o750}


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_examples_that_nobody_asked_are_for_everybody(tmp_path: Path) -> None:
    write_examples(tmp_path / "made-up.jsonl", [MADE_UP])
    write_examples(tmp_path / "both.jsonl", [MADE_UP, LOGGED[0]])
    assert modes_in(tmp_path) == {"made-up.jsonl": 0o666, "both.jsonl": 0o600}


KEY_OF_ITS_OWN = """
import sys
from pathlib import Path
from camdf.datasets.ids import id_key
sys.stdin.readline()
print(id_key(Path(sys.argv[1])).decode())
"""


def test_processes_that_make_one_key_at_once_have_one_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KEY_OF_ITS_OWN, str(tmp_path / "id.key")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    many = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for process in many:
        assert process.stdin is not None
        process.stdin.write(b"\n")
    assert len({process.communicate(timeout=60)[0] for process in many}) == 1


# Temporary folders.


WRITES_AND_WAITS = """
import sys
from camdf_traces.span_files import clear_scratch, scratch_folder
from camdf_traces.spans import arrow_table
with scratch_folder("camdf-spans-") as folder:
    (folder / "spans.parquet").write_text("what somebody asked")
    print(folder, flush=True)
    sys.stdin.readline()
"""


def test_the_temporary_folders_of_killed_processes_go_with_the_next_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", WRITES_AND_WAITS], env=variables, **pipes) for _ in range(2)]
    killed, alive = (Path(process.stdout.readline().strip()) for process in both if process.stdout is not None)
    both[0].kill()
    both[0].communicate()
    assert {killed, alive} <= {*tmp_path.iterdir()}
    with scratch_folder("camdf-parts-") as own:
        assert {*tmp_path.iterdir()} == {alive, own}
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        clear_scratch()
        assert {*tmp_path.iterdir()} == {alive, own}
    both[1].communicate("\n", timeout=60)
    assert [*tmp_path.iterdir()] == []


# No other way to write.


IN_THEIR_OWN_WAY = {
    "camdf/runtime/files.py": "the one way to write",
    "camdf/evaluation/drawing.py": "a picture in memory",
    "camdf_traces/delta.py": "a table in memory",
    "camdf/integrations/gateway/definitions.py": "an empty file that is locked",
    "camdf/integrations/gateway/folder.py": "adds lines to a log under a lock",
    "camdf/gate/journal.py": "adds lines under a lock, each with the hash of the one before",
    "camdf/service/outcomes.py": "adds lines to a log that is locked, and cuts off what is torn",
    "camdf/service/lessons.py": "adds lines under a lock, and passes over what is torn",
    "camdf/service/server.py": "the time of an empty file",
    "camdf/service/store.py": "an empty file that is locked",
    "camdf/scorers/folder.py": "adds lines, and cuts off what is torn",
    "camdf_traces/span_files.py": "a temporary folder",
    "camdf_traces/portions.py": "a temporary folder",
    "camdf_traces/spark/mining.py": "a folder that Spark writes, and that is then moved",
    "camdf/integrations/conformance/traces.py": "a temporary folder of a test",
    "camdf/cli/mcp_file.py": "a temporary folder for what servers say on standard error",
    "camdf/cli/parser.py": "standard output, once nobody reads it",
    "camdf/integrations/gateway/prompt_socket.py": "a temporary folder with a link, so that a socket's path is short",
    "camdf/integrations/skills/folders.py": "a file that is opened to be read, and that may be a pipe",
}
"""Files of the package that write otherwise than by `whole_file` and `write_whole`, and why they may."""

WRITES = {
    *("write_text", "write_bytes", "touch", "savefig", "write_parquet", "write_csv", "write_table", "ParquetWriter"),
    *("mkstemp", "mkdtemp", "TemporaryDirectory", "NamedTemporaryFile", "copyfile", "copy2", "copytree"),
}


def test_every_file_is_written_by_one_function_but_for_those_that_say_why() -> None:
    calls = others_that_write()
    assert {"camdf/runtime/files.py", "camdf/scorers/folder.py", "camdf_traces/spark/mining.py"} < {
        path for path, _ in calls
    }
    assert {(path, call) for path, call in calls if path not in IN_THEIR_OWN_WAY} == set()


def others_that_write() -> set[tuple[str, str]]:
    """Calls that may write a file, outside of a `with whole_file(...)` that gave them its name."""
    calls = set()
    for path in (file for package in PACKAGES for file in package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        safe = {
            id(inner)
            for block in ast.walk(tree)
            if isinstance(block, ast.With) and any("whole_file(" in ast.unparse(item) for item in block.items)
            for inner in ast.walk(block)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in safe):
            if writes(call):
                name = path.as_posix().rpartition("/src/")[2]
                calls.add((name, ast.unparse(call)))
    return calls


def writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if ast.unparse(call.func).endswith(("os.open", ".write.parquet")):
        return True
    if name != "open":
        return name in WRITES
    arguments = [*call.args, *(word.value for word in call.keywords)]
    texts = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
    return any(isinstance(text, str) and len(text) < 4 and set(text) & {*"wax+"} for text in texts)
