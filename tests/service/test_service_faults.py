"""What breaks around the service costs at most its budget, loses nothing that was accepted, and is told."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from camdf.errors import UsageError
from camdf.service.events import Lines
from camdf.service.outcomes import FILE, OutcomeLog, marked
from golden import openai_tool
from running_service import PLAIN, SECONDS, Answer, Running, asked, eventually, folder_of, ranking, running
from saying import refuses, says
from scripted_endpoint import Act, answers, body, endpoint, hang, reset

TOOLS = [openai_tool("get_weather", "Weather forecast"), openai_tool("send_mail", "Send a mail")]
NAMES = ["get_weather", "send_mail"]
ASKED = {"messages": [{"role": "user", "content": "What will the weather be like in Oslo?"}], "tools": TOOLS}
BUDGET = 1.0


def by_model(url: str, more: str = "", budget: float = BUDGET) -> str:
    """A configuration whose scorer is a language model."""
    scorer = f'[gate.scorer]\nkind = "llm"\nurl = "{url}"\nmodel = "any"\n'
    return f"{PLAIN}limits.seconds = {budget}\n{more}\n{scorer}[limits]\nwaiting = 4\nretry_seconds = 3\n"


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (hang, "scorer too slow"),
        (reset, "scorer failed"),
        (body("garbage"), "scorer failed"),
        (answers({"get_weather": 85, "send_mail": "high"}), "scorer failed"),
    ],
    ids=["hangs", "resets", "garbage", "nonsense"],
)
def test_a_scorer_that_breaks_costs_its_budget_and_the_list_stays_open(tmp_path: Path, act: Act, reason: str) -> None:
    with endpoint(act) as model, running(folder_of(tmp_path / "served", by_model(model.url))) as service:
        began = time.monotonic()
        answer = service.decide(ASKED)
        took = time.monotonic() - began
        assert (answer["reason"], answer["open"], answer["kept"]) == (reason, True, NAMES)
        assert answer["tools"] == TOOLS
        assert took < BUDGET + 20
        assert service.decide(ranking({"a": 0.9, "b": 0.1}))["reason"] == "decided"


def test_a_fallback_is_what_an_open_list_holds_where_one_is_named(tmp_path: Path) -> None:
    configuration = by_model("http://127.0.0.1:9/v1", 'guards.fallback = ["send_mail"]')
    with running(folder_of(tmp_path / "served", configuration)) as service:
        answer = service.decide(ASKED)
        assert (answer["reason"], answer["kept"]) == ("scorer failed", ["send_mail"])


def test_beyond_its_capacity_the_service_says_so_at_once(tmp_path: Path) -> None:
    slow = 3.0  # twelve requests have come by then
    with endpoint(hang) as model, running(folder_of(tmp_path / "served", by_model(model.url, budget=slow))) as service:
        with ThreadPoolExecutor(12) as pool:
            waiting = [pool.submit(service.ask, "/v1/decide", ASKED) for _ in range(12)]
            found = [each.result(SECONDS) for each in waiting]
        admitted = [each for each in found if each.status == 200]
        refused = [each for each in found if each.status == 503]
        assert len(admitted) >= 4
        assert len(refused) == 12 - len(admitted) > 0
        assert all(each.headers["retry-after"] == "3" for each in refused)
        assert all(each.body["reason"] == "scorer too slow" for each in admitted)
        assert service.number("camdf_requests_under_way") == 0
        assert service.decide(ranking({"a": 0.9, "b": 0.1}))["reason"] == "decided"


class Clients:
    """Several that send outcomes one after another until the service is gone, and what they were told."""

    def __init__(self, service: Running, name: str) -> None:
        self.told: dict[int, str] = {}
        self.refused: list[Answer] = []
        self._service, self._name = service, name
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(SECONDS)

    def _send(self, number: int) -> None:
        connection = HTTPConnection("127.0.0.1", self._service.port, timeout=SECONDS)
        for turn in range(100_000):
            names = [marked(f"{self._name}-{number}-{turn}-{part}", "") for part in range(3)]
            told = [{"decision": name, "called": ["a"], "success": True} for name in names]
            try:
                answer = asked(connection, "/v1/outcomes", told)
            except Exception:  # it is gone
                break
            if answer.status == 200:
                self.told |= dict(zip(range(answer.body["first"], answer.body["last"] + 1), names, strict=True))
            else:
                self.refused.append(answer)
        connection.close()


def written(folder: Path) -> dict[int, dict[str, Any]]:
    lines = (folder / "state" / FILE).read_text(encoding="utf-8").splitlines()
    return {each["seq"]: each for each in map(json.loads, lines)}


OUTCOMES = max(60, int(os.environ.get("CASES", "0")) // 2)
"""How many are accepted before each of two kills; CASES=2000 is the long form."""


def test_no_accepted_outcome_is_lost_when_the_process_is_killed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder, told = folder_of(tmp_path / "served"), dict[int, str]()
    for round_ in range(2):
        with running(folder) as service:
            clients = Clients(service, f"round-{round_}")
            while len(clients.told) < OUTCOMES:
                time.sleep(0.01)
            service.kill()
            clients.end()
        assert not told.keys() & clients.told.keys()
        told |= clients.told
        with open(folder / "state" / FILE, "ab") as file:
            file.write(b'{"seq":999999,"at":1')  # as a write that was torn
    with running(folder) as service:
        accepted = service.ask(
            "/v1/outcomes", {"decision": marked("the last", ""), "called": [], "success": False}
        ).body
    record_property("cases", len(told))
    found = written(folder)
    assert {number: found[number]["decision"] for number in told} == told
    assert sorted(found) == list(range(1, len(found) + 1))
    assert accepted["last"] == len(found)


def test_a_full_disk_accepts_no_outcome_that_it_cannot_keep_and_decisions_go_on(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    outcome = {"decision": marked("x" * 44, ""), "called": ["a" * 200] * 100, "success": True}
    with running(folder, file_bytes=100_000) as service:
        accepted = 0
        while (answer := service.ask("/v1/outcomes", outcome)).status == 200:
            accepted = answer.body["last"]
            assert accepted < 100
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert service.decide(ranking({"a": 0.9, "b": 0.1}))["reason"] == "decided"
        small = service.ask("/v1/outcomes", {"decision": marked("small", ""), "called": [], "success": True})
        assert small.body == {"first": accepted + 1, "last": accepted + 1}
        assert says(service.errors(), "Outcomes … not be written")
    assert sorted(written(folder)) == list(range(1, accepted + 2))


def test_an_end_by_signal_breaks_no_request(tmp_path: Path) -> None:
    with running(folder_of(tmp_path / "served")) as service:
        lost, done, over = list[Exception](), [0] * 4, threading.Event()

        def ask(number: int) -> None:
            connection = HTTPConnection("127.0.0.1", service.port, timeout=SECONDS)
            while not over.is_set():
                try:
                    answer = asked(connection, "/v1/decide", ranking({"a": 0.9, "b": 0.1}))
                    assert answer.status == 200
                except ConnectionRefusedError:  # a new connection, after the end
                    return
                except Exception as error:
                    lost.append(error)
                    return
                done[number] += 1

        clients = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for client in clients:
            client.start()
        while min(done) < 10:
            time.sleep(0.01)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        ready = service.ask("/readyz")
        over.set()
        for client in clients:
            client.join(SECONDS)
        assert (ready.status, ready.headers["connection"]) == (503, "close")
        assert service.process.wait(SECONDS) == 0
        assert lost == []


def test_two_copies_do_not_share_a_log(tmp_path: Path) -> None:
    log = OutcomeLog(tmp_path)
    with refuses(UsageError, tmp_path, must="state folder of its own"):
        OutcomeLog(tmp_path)
    log.close()
    OutcomeLog(tmp_path).close()


@pytest.mark.parametrize(
    "torn", [b"", b"{", b'{"seq":3}', b'{"seq":3,\n', b"\0" * 4096, b"\n\n", b"[1]\n", b'{"seq":"\xff"}\n']
)
def test_what_a_killed_process_left_unfinished_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    whole = b'{"seq":1,"at":0}\n{"seq":2,"at":0}\n'
    (tmp_path / FILE).write_bytes(whole + torn)
    log = OutcomeLog(tmp_path)
    numbers = log.append([{"decision": "a"}]).result(SECONDS)
    log.close()
    assert numbers == (3, 3)
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3]


def test_an_outcome_of_any_length_is_there_after_a_restart(tmp_path: Path) -> None:
    log, called = OutcomeLog(tmp_path), ["x" * 200] * 10_000
    log.append([{"decision": "short"}, {"decision": "long", "called": called}]).result(SECONDS)
    log.close()
    whole = (tmp_path / FILE).read_bytes()
    for torn in (b"", b'{"seq":3,"called":"' + b"x" * 2_000_000):
        (tmp_path / FILE).write_bytes(whole + torn)
        again = OutcomeLog(tmp_path)
        again.close()
        assert again.last == 2
        assert (tmp_path / FILE).read_bytes() == whole


def test_a_request_that_is_cancelled_leaves_those_after_it_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, fsync = OutcomeLog(tmp_path), os.fsync
    begun, may_end = threading.Event(), threading.Event()

    def slow(file: int) -> None:
        begun.set()
        may_end.wait(SECONDS)
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow)
    written = log.append([{"decision": "is written just then"}])
    assert begun.wait(SECONDS)
    waits, after = log.append([{"decision": "waits"}]), log.append([{"decision": "after"}])
    cancelled = (written.cancel(), waits.cancel())
    may_end.set()
    assert after.result(SECONDS) == (2, 2)
    assert written.result() == (1, 1)
    assert cancelled == (False, True)
    log.close()
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert [json.loads(line)["decision"] for line in lines] == ["is written just then", "after"]


def test_a_line_that_cannot_be_written_is_counted_and_the_next_is_written() -> None:
    written = list[str]()

    def write(line: str) -> None:
        if line == "lost":
            raise BrokenPipeError
        written.append(line)

    lines = Lines(write)
    for line in ("first", "lost", "last"):
        lines.put(line)
    eventually(lambda: written == ["first", "last"])
    assert lines.dropped == 1
