"""One conversation by four clients over HTTP: two that are generated from the document, and our own two.

`.ci/environments` installs the generators: openapi-python-client, and openapi-typescript with what clients/typescript
locks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from camdf_client import Client

from running_service import SECONDS, Running, folder_of, running
from saying import says
from scripted_endpoint import drip, drip_headers, endpoint, hang

ROOT = Path(__file__).parents[3]
OURS = ROOT / "clients"
HERE = Path(__file__).parent / "clients"
GENERATOR = Path(os.environ.get("CAMDF_CACHE", "~/.cache/camdf")).expanduser() / "clients" / "bin"
TOKEN = "a token for the tests alone"
REFUSED = "a token of a tenant without a policy"
CONFIGURATION = """
[server]
port = 0

[gate]
mode = "append"
limits.cached_prefix = 0

[tenants.good]
token_variable = "GOOD"

[tenants.refused]
token_variable = "REFUSED"
policy = "there-is-none.json"
cost_pressure = 0.1
"""
SCHEMA = {"type": "object", "properties": {"seat": {"type": "string"}}}
TOOLS = [
    {"name": name, "description": text, "input_schema": SCHEMA}
    for name, text in {
        "search_flights": "Search flights between two cities.",
        "book_flight": "Book a flight for a passenger.",
        "play_music": "Play a song or a playlist.",
        "create_ticket": "Open a ticket.",
    }.items()
]
TASK = "Search flights from Oslo to Rome and book a flight"
MESSAGES = [{"role": "user", "content": TASK}]
RUN = {"name": "book_flight", "arguments": {"seat": "12A"}}
CALLS = [
    {"type": "tool_use", "id": "1", "name": "find_tool", "input": {"query": "play a song"}},
    {"type": "tool_use", "id": "2", "name": "call_tool", "input": RUN},
]

Played = Callable[[str], dict[str, Any]]
"""A conversation with the service at a URL, and what it came to."""


def run(command: list[str], *, cwd: Path, given: str = "") -> str:
    done = subprocess.run(
        command, cwd=cwd, input=given, capture_output=True, text=True, timeout=5 * SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = folder_of(tmp_path_factory.mktemp("clients") / "served", CONFIGURATION)
    with running(folder, settings={"GOOD": TOKEN, "REFUSED": REFUSED}) as found:
        yield found


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory, service: Running) -> Path:
    """The document of the service, in a folder for what is generated from it."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(service.ask("/openapi.json").body), "utf-8")
    return folder / "openapi.json"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, document: Path) -> Path:
    """A folder for programs in TypeScript, with the types that are generated from the document."""
    assert (OURS / "typescript" / "node_modules").is_dir(), "Packages are missing. Install them: .ci/environments node"
    folder = tmp_path_factory.mktemp("node")
    (folder / "node_modules").symlink_to(OURS / "typescript" / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}', "utf-8")
    generate = ["node", "node_modules/openapi-typescript/bin/cli.js", str(document), "-o", "api.d.ts"]
    run(generate, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def generated_python(document: Path) -> Played:
    options = ["--path", document.name, "--output-path", "generated_client", "--meta", "none", "--fail-on-warning"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where ruff is, by which the generator formats
    command = ["env", f"PATH={path}", str(GENERATOR / "openapi-python-client"), "generate", *options]
    run(command, cwd=document.parent)
    program = [str(GENERATOR / "python"), str(HERE / "generated.py"), str(document.parent)]
    return lambda url: played(program, url, document.parent)


@pytest.fixture(scope="module")
def generated_typescript(node: Path) -> Played:
    shutil.copy(HERE / "generated.ts", node)
    strict = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    run(["node", "node_modules/typescript/bin/tsc", *strict, "generated.ts"], cwd=node)
    return lambda url: played(["node", "generated.js"], url, node)


@pytest.fixture(scope="module")
def own_typescript() -> Played:
    program = ["node", str(HERE / "own.js")]
    return lambda url: played(program, url, OURS / "typescript")


def played(program: list[str], url: str, folder: Path) -> dict[str, Any]:
    asked = {"url": url, "token": TOKEN, "refused": REFUSED, "messages": MESSAGES, "tools": TOOLS, "calls": CALLS}
    found: dict[str, Any] = json.loads(run(program, cwd=folder, given=json.dumps(asked)))
    return found


def own_python(url: str) -> dict[str, Any]:
    client = Client(url, token=TOKEN, seconds=30)
    request = client.decide(MESSAGES, TOOLS)
    answers = [client.answer(call, TOOLS, request) for call in CALLS]
    other = Client(url, token=REFUSED, seconds=30)
    failed = other.decide(MESSAGES, TOOLS)
    return {
        "messages": request.messages,
        "tools": request.tools,
        "failure": request.failure,
        "answers": [
            {"run": {"name": each.name, "arguments": each.arguments} if each.name else None, "text": each.text}
            for each in answers
        ],
        "reported": client.report(request, ["book_flight"], success=True),
        "refused": {"same": (failed.messages, failed.tools) == (MESSAGES, TOOLS), "why": failed.failure},
        "rests": other.decide(MESSAGES, TOOLS).failure,
    }


def test_four_clients_have_a_conversation_with_a_note_a_search_a_503_and_a_kill(
    service: Running, generated_python: Played, generated_typescript: Played, own_typescript: Played
) -> None:
    generated = [generated_python, generated_typescript]
    ours: list[Played] = [own_python, own_typescript]
    for client in (*generated, *ours):
        found = client(service.url)
        assert found["failure"] == ""
        (noted,) = found["messages"]
        assert noted["content"].startswith(TASK)
        assert says(noted["content"], "book_flight")
        assert [tool["name"] for tool in found["tools"]] == ["find_tool", "call_tool"]
        searched, called = found["answers"]
        assert searched["run"] is None
        assert says(searched["text"], "play_music")
        assert called["run"] == RUN
        assert found["reported"] is True
        assert found["refused"]["why"]
        if client in generated:
            assert found["refused"]["status"] == 503
            assert found["refused"]["after"] == "1"
            assert found["found"] == "play_music"
        else:
            assert found["refused"]["same"]
            assert says(found["refused"]["why"], 503)
            assert found["rests"]
            assert not says(found["rests"], 503), "nobody asks before the time that Retry-After names"
    service.kill()
    for client in generated:
        assert client(service.url)["failure"]
    for client in ours:
        found = client(service.url)
        assert found["failure"]
        assert (found["messages"], found["tools"]) == (MESSAGES, TOOLS)
        searched, called = found["answers"]
        assert (searched["run"], called["run"]) == (None, RUN)
        assert searched["text"]
        assert found["reported"] is False


@pytest.mark.parametrize("act", [hang, drip, drip_headers])
def test_our_client_waits_no_longer_than_it_was_told_whatever_the_other_side_does(act: Any) -> None:
    with endpoint(act) as server:
        client = Client(server.url.removesuffix("/v1"), seconds=0.5)
        begun = time.monotonic()
        request = client.decide(MESSAGES, TOOLS)
        assert time.monotonic() - begun < 5
    assert request.failure
    assert (request.messages, request.tools) == (MESSAGES, TOOLS)


def test_everything_that_the_document_describes_has_types_words_and_a_server(document: Path) -> None:
    found = json.loads(document.read_text("utf-8"))
    assert found["servers"]
    for name, schema in found["components"]["schemas"].items():
        for field, part in schema["properties"].items():
            assert part.get("description"), f"{name}.{field}"
    for operations in found["paths"].values():
        for operation in operations.values():
            for answer in operation["responses"].values():
                (content,) = answer["content"].values()
                assert content["schema"]
                assert answer["description"]


def test_the_types_of_our_client_are_those_of_the_document_and_of_its_source(node: Path, tmp_path: Path) -> None:
    ours = OURS / "typescript"
    assert (node / "api.d.ts").read_text("utf-8") == (ours / "api.d.ts").read_text("utf-8")
    for name in ("client.js", "api.d.ts", "package.json", "tsconfig.json"):
        shutil.copy(ours / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(ours / "node_modules")
    run(["node", "node_modules/typescript/bin/tsc"], cwd=tmp_path)
    assert (tmp_path / "client.d.ts").read_text("utf-8") == (ours / "client.d.ts").read_text("utf-8")


def test_our_clients_need_no_package() -> None:
    package = json.loads((OURS / "typescript" / "package.json").read_text("utf-8"))
    assert "dependencies" not in package
    run([sys.executable, "-I", "-S", str(OURS / "python" / "camdf_client.py")], cwd=ROOT)
