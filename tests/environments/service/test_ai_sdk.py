"""An agent of the Vercel AI SDK on real node, whose model gets the tools that the running service keeps."""

from __future__ import annotations

import json
import queue
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from running_service import SECONDS, Running, folder_of, running

ROOT = Path(__file__).parents[3]
EXAMPLE, PAGE = ROOT / "examples" / "with_vercel_ai", ROOT / "docs" / "integrations" / "vercel_ai.md"
TOKEN = "a token for the tests alone"
CATALOGUE = {
    "search_flights": "Search flights between two cities on a date",
    "book_flight": "Book a flight for a passenger",
    "find_hotel": "Find a hotel in a city",
    "convert_currency": "Convert an amount between currencies",
    "play_music": "Play a song",
    "run_sql": "Run a query against the database",
}
SEARCH = ("find_tool", "call_tool")
TRIP = [{"role": "user", "content": "Search flights to Rome and book a flight for a passenger"}]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's function and with what its lock file says."""
    assert (EXAMPLE / "node_modules" / "ai").is_dir(), "The AI SDK is missing. Install it with: .ci/environments node"
    folder = tmp_path_factory.mktemp("node")
    (folder / "node_modules").symlink_to(EXAMPLE / "node_modules")
    for file in (EXAMPLE / "tool_gate.js", EXAMPLE / "package.json", Path(__file__).with_name("ai_sdk.js")):
        shutil.copy(file, folder)
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service of the example, which also says what it decides."""
    server = (
        '[server]\nport = 0\nlog_decisions = true\ntoken_variable = "TOKEN"\n\n[routes.short]\nlimits.at_most = 1\n\n'
        '[routes.notes]\nmode = "append"\nlimits.cached_prefix = 0\n\n'
    )
    folder = folder_of(tmp_path_factory.mktemp("served"), server + (EXAMPLE / "camdf.toml").read_text("utf-8"))
    with running(folder, settings={"TOKEN": TOKEN}) as service:
        yield service


def converse(node: Path, url: str, says: list[Any], **more: Any) -> Any:
    asked = {
        "url": url,
        "catalogue": CATALOGUE,
        "messages": TRIP,
        "says": says,
        "settings": {"token": TOKEN, "seconds": 30},
    }
    run = subprocess.run(
        ["node", "ai_sdk.js"],
        cwd=node,
        input=json.dumps({**asked, **more}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def decided(service: Running, count: int) -> list[list[str]]:
    """What the service says that it kept, decision by decision."""
    lines = [service.lines.get(timeout=SECONDS) for _ in range(count)]
    with pytest.raises(queue.Empty):
        service.lines.get_nowait()
    return [json.loads(line)["attributes"]["camdf.kept"] for line in lines]


@pytest.mark.parametrize("streams", [False, True])
def test_the_tools_that_reach_the_model_are_those_that_the_service_decided(
    node: Path, service: Running, streams: bool
) -> None:
    found = converse(node, service.url, ["search_flights", "book_flight", None], streams=streams)
    kept = decided(service, 3)
    assert [sorted(each) for each in found["seen"]] == [sorted([*each, *SEARCH]) for each in kept]
    assert kept[0] == kept[1] == kept[2], "the steps of one turn get the same tools"
    assert {"search_flights", "book_flight"} <= set(kept[0]) < set(CATALOGUE)
    later = [*TRIP, *found["messages"], {"role": "user", "content": "Now please play a quiet song on the speaker"}]
    again = converse(node, service.url, [None], messages=later, streams=streams)
    assert set(again["seen"][0]) == {*decided(service, 1)[0], *SEARCH} == {*kept[0], *SEARCH}, "the list stands"


def results(found: Any) -> list[str]:
    """What the model was told of its calls."""
    tools = [message for message in found["messages"] if message["role"] == "tool"]
    return [json.dumps(part["output"]) for message in tools for part in message["content"]]


@pytest.mark.parametrize("streams", [False, True])
def test_in_mode_append_what_a_turn_needs_stands_in_a_note_and_runs(
    node: Path, service: Running, streams: bool
) -> None:
    settings = {"token": TOKEN, "seconds": 30, "route": "notes"}
    calls = [["call_tool", {"name": "book_flight", "arguments": {}}], None]
    found = converse(node, service.url, calls, streams=streams, settings=settings)
    later = [*TRIP, *found["messages"], {"role": "user", "content": "Now please play a song"}]
    again = converse(node, service.url, [None], streams=streams, settings=settings, messages=later)
    assert [*found["seen"], *again["seen"]] == [[*SEARCH]] * 3, "the list never changes"
    (first,), (second,) = found["told"]
    assert first == second == again["told"][0][0], "a note stays as it was written"
    assert first.startswith(TRIP[0]["content"])
    assert "- book_flight(" in first
    assert "- play_music(" in again["told"][0][1]
    (ran,) = results(found)
    assert "book_flight ran" in ran
    decided(service, 3)


def test_a_tool_that_was_cut_is_found_and_runs(node: Path, service: Running) -> None:
    calls = [["find_tool", {"query": "play a song"}], ["call_tool", {"name": "play_music", "arguments": {}}], None]
    found = converse(node, service.url, calls)
    assert "play_music" not in decided(service, 3)[0]
    assert found["seen"][0] == found["seen"][1] == found["seen"][2]
    searched, ran = results(found)
    assert "Play a song" in searched
    assert "play_music ran" in ran


def test_a_tool_that_was_cut_and_is_called_is_refused_by_the_sdk(node: Path, service: Running) -> None:
    found = converse(node, service.url, ["convert_currency", None])
    assert [sorted(each) for each in found["seen"]] == [sorted([*each, *SEARCH]) for each in decided(service, 2)]
    assert "convert_currency" not in found["seen"][0]
    (told,) = results(found)
    assert "unavailable tool 'convert_currency'" in told


def test_settings_of_a_request_go_along(node: Path, service: Running) -> None:
    settings = {"token": TOKEN, "seconds": 30, "route": "short", "keep": ["run_sql"]}
    found = converse(node, service.url, [None], settings=settings)
    assert sorted(found["seen"][0]) == sorted([*decided(service, 1)[0], *SEARCH])
    assert "run_sql" in found["seen"][0]
    assert len(found["seen"][0]) < 5


def test_a_service_that_is_gone_or_refuses_leaves_the_list_as_it_is(node: Path, service: Running) -> None:
    refused = converse(node, service.url, [None], settings={"token": "a wrong token, long enough"})
    gone = converse(node, "http://127.0.0.1:9", [None])  # where nobody listens
    assert refused["seen"] == gone["seen"] == [list(CATALOGUE)]


def test_the_example_runs_and_the_page_links_the_function_and_shows_what_it_prints(tmp_path: Path, node: Path) -> None:
    text, page = (EXAMPLE / "camdf.toml").read_text("utf-8"), PAGE.read_text("utf-8")
    with running(folder_of(tmp_path / "served", "[server]\nport = 0\n\n" + text)) as service:
        run = subprocess.run(
            ["node", "run.js", service.url], cwd=EXAMPLE, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    assert run.returncode == 0, run.stderr
    assert "](../../examples/with_vercel_ai/tool_gate.js)" in page
    assert len((EXAMPLE / "tool_gate.js").read_text("utf-8").splitlines()) <= 60
    assert f"```text\n{run.stdout}```" in page


def test_the_types_of_the_example_hold_and_a_wrong_use_is_refused(node: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(EXAMPLE / "node_modules")
    for name in ("tool_gate.js", "package.json", "tsconfig.json"):
        shutil.copy(EXAMPLE / name, tmp_path)

    def complaints(agent: str) -> str:
        (tmp_path / "run.js").write_text(agent, "utf-8")
        command = ["node", "node_modules/typescript/bin/tsc"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=5 * SECONDS).stdout

    agent, call = (EXAMPLE / "run.js").read_text("utf-8"), "toolGate(process.argv[2], tools)"
    assert complaints(agent) == ""
    wrong = complaints(agent.replace(call, f"{{ ...toolGate(1, tools), ...{call[:-1]}, {{ wait: 1 }}) }}"))
    assert "'number' is not assignable to parameter of type 'string'" in wrong
    assert "'wait' does not exist in type" in wrong


@pytest.mark.parametrize(("folder", "package"), [(EXAMPLE, "ai"), (ROOT / "clients" / "typescript", "typescript")])
def test_a_lock_file_names_every_package_by_its_content_and_no_other_registry(folder: Path, package: str) -> None:
    lock = (folder / "package-lock.json").read_text("utf-8")
    packages = {name: each for name, each in json.loads(lock)["packages"].items() if name}
    assert f"node_modules/{package}" in packages
    ours = {"../../clients/typescript", "node_modules/@camdf/client"}
    assert all(each["integrity"].startswith("sha512-") for name, each in packages.items() if name not in ours)
    assert set(re.findall(r'"resolved": "(https?://[^/]+)', lock)) <= {"https://registry.npmjs.org"}
