"""The walks of CONTRIBUTING: every step is a function that is there, and what is walked calls them in that order."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from camdf.cli import main
from camdf.service.app import Service
from camdf.service.outcomes import OutcomeLog
from camdf.service.store import VersionStore
from golden import VECTORS, golden_gate, openai_tool
from running_service import folder_of, ranking
from trace_records import otlp, otlp_span

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src" / "camdf", ROOT / "traces" / "src" / "camdf_traces")
SAMPLE = ROOT / "src" / "camdf" / "datasets" / "sample.jsonl"
MOST = 8


def walks() -> dict[str, list[str]]:
    """The steps of each walk, as `file: function`, by what is walked."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Four walks$(.*?)^## ", page, flags=re.M | re.S)
    found = (item.partition(":") for item in section.split("\n- ")[1:])
    return {name: re.findall(r"`([^`]+\.py: [^`]+)`", steps) for name, _, steps in found}


@contextmanager
def called() -> Iterator[list[str]]:
    """The functions of ours that are called meanwhile, on all threads that begin, in order."""
    calls = list[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(tuple(map(str, SOURCES))):
            source = next(each for each in SOURCES if code.co_filename.startswith(str(each)))
            calls.append(f"{Path(code.co_filename).relative_to(source).as_posix()}: {code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def one_decision(_: Path) -> None:
    """Of a gate that has not decided before, so that its threads begin meanwhile."""
    vector = VECTORS[0]
    tools = [openai_tool(name, description) for name, description in vector.tools.items()]
    assert list(golden_gate().decide(vector.task, tools).kept) == vector.kept


def one_fit(folder: Path) -> None:
    """`camdf fit` of a part of the sample."""
    lines = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(lines[:60]), encoding="utf-8")
    policy = folder / "policy.json"
    assert main(["fit", str(tasks), "--cost-pressure", "0.06", "--output", str(policy), "--splits", "1"]) == 0


def one_mined_span(folder: Path) -> None:
    """`camdf mine` of one run as OTLP has it: an agent, and the tool that it called."""
    agent = otlp_span("a1", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"})
    tool = otlp_span("a2", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "mail"}, parentSpanId="a1")
    (folder / "traces.jsonl").write_text(json.dumps(otlp(agent, tool)) + "\n", encoding="utf-8")
    main(["mine", str(folder / "traces.jsonl"), "--output", str(folder / "mined.parquet"), "--workers", "1"])


def one_service_request(folder: Path) -> None:
    """`POST /v1/decide`, as a server calls the application."""
    served = folder_of(folder / "served")
    state = folder / "state"
    state.mkdir()
    service = Service(VersionStore(served / "camdf.toml", state), OutcomeLog(state))
    body = json.dumps(ranking({"search_flights": 0.9, "play_music": 0.1})).encode()
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/decide",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
    }
    asyncio.run(service(scope, receive, send))
    assert sent[0]["status"] == 200, sent


WALKED: dict[str, Callable[[Path], None]] = {
    "one decision": one_decision,
    "one fit": one_fit,
    "one mined span": one_mined_span,
    "one service request": one_service_request,
}


@pytest.mark.parametrize("name", WALKED)
def test_a_walk_has_few_steps_and_each_is_called_after_the_one_before(name: str, tmp_path: Path) -> None:
    steps = walks()[name]
    assert 3 <= len(steps) <= MOST
    with called() as calls:
        WALKED[name](tmp_path)
    assert [step for step in steps if step not in calls] == []
    assert sorted(steps, key=calls.index) == steps
