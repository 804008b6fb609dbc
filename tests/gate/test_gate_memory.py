"""Conversations that workers share on a real Redis, which may vanish at any moment, and on stores that are worse."""

from __future__ import annotations

import asyncio
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from time import monotonic, sleep
from typing import Any

import pytest
import redis

import camdf
from camdf.gate import Breaker, Gate, GateDecision, Limits, Records, RedisMemory, Rollout, memory
from camdf.gate.memory import MOST, Identity, Remembered, SharedMemory
from camdf.policies.rules import ScoreAtLeast
from camdf.tools import Tool
from golden import PAYOFF
from saying import refuses

NAMES = [f"tool_{number}" for number in range(10)]
TOOLS = [Tool(name, f"does {name}") for name in NAMES]


class Server:
    """A Redis of one's own, which can be killed, stopped and brought back."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert shutil.which("redis-server"), "Debian's redis-server is needed here: .ci/environments redis"
        alone = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(["redis-server", *alone], stdout=subprocess.DEVNULL)
        eventually(self.answers)

    def answers(self) -> bool:
        with redis.Redis(port=self.port, socket_timeout=5) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stands_still(self, still: bool = True) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP if still else signal.SIGCONT)


@pytest.fixture
def server() -> Iterator[Server]:
    begun = Server()
    yield begun
    begun.kill()


def eventually(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for a condition."""
    ends = monotonic() + seconds
    while not holds():
        assert monotonic() < ends
        sleep(0.01)


def named(task: str, tools: Sequence[Tool]) -> list[float]:
    """The tools whose names the task has."""
    return [1.0 if tool.name in task.split() else 0.0 for tool in tools]


def gate_of(store: Any, **settings: Any) -> Gate:
    return Gate(ScoreAtLeast(0.5), named, PAYOFF, records=Records(store=store), **settings)


def wants(*numbers: int) -> str:
    return f"please use {' '.join(NAMES[number] for number in numbers)}"


def kept(decision: GateDecision) -> list[int]:
    return [NAMES.index(name) for name in decision.kept]


def written(url: str, *names: str) -> bool:
    return all(RedisMemory(url, timeout=5).recall(name) is not None for name in names)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that answers is waited for, however busy the machine is."""
    monkeypatch.setattr(memory, "PATIENCE", 20.0)


def on(server: Server, **settings: Any) -> RedisMemory:
    return RedisMemory(server.url, timeout=20, **settings)


# Workers that share a conversation.


def test_workers_share_what_a_conversation_has_in_one_order(server: Server) -> None:
    one, two, alone = gate_of(on(server)), gate_of(on(server)), gate_of(None)
    assert kept(one.decide(wants(7), TOOLS, conversation="c")) == [7]
    eventually(lambda: written(server.url, "c"))
    assert kept(two.decide(wants(2), TOOLS, conversation="c")) == [7, 2]
    eventually(lambda: len(known(server, "c").kept) == 2)
    assert kept(one.decide(wants(4), TOOLS, conversation="c")) == [7, 2, 4]
    assert kept(two.decide(wants(2), TOOLS, conversation="d")) == [2]
    assert kept(alone.decide(wants(2), TOOLS, conversation="c")) == [2]
    restarted = gate_of(on(server))
    eventually(lambda: len(known(server, "c").kept) == 3)
    assert kept(restarted.decide("", TOOLS, conversation="c")) == [7, 2, 4]


def known(server: Server, conversation: str) -> Remembered:
    return RedisMemory(server.url, timeout=5).recall(conversation) or Remembered((), False)


def test_a_conversation_that_explores_does_so_on_every_worker(server: Server) -> None:
    one, two = gate_of(on(server), rollout=Rollout(explore=1.0)), gate_of(on(server), rollout=Rollout(explore=0.0))
    assert one.decide(wants(1), TOOLS, conversation="c").explored
    eventually(lambda: written(server.url, "c"))
    assert two.decide(wants(1), TOOLS, conversation="c").explored
    assert not two.decide(wants(1), TOOLS, conversation="d").explored


def test_tenants_of_one_redis_do_not_share_conversations(server: Server) -> None:
    one, two = (gate_of(on(server)).for_tenant(name) for name in ("one", "two"))
    one.decide(wants(1), TOOLS, conversation="c")
    eventually(lambda: bool(redis.Redis(port=server.port).keys("camdf:*")))
    assert kept(two.decide(wants(2), TOOLS, conversation="c")) == [2]
    assert kept(gate_of(on(server)).decide(wants(3), TOOLS, conversation="c")) == [3]


def test_additions_at_once_lose_nothing_and_name_nothing_twice(server: Server) -> None:
    stores = [on(server) for _ in range(4)]

    def adds(worker: int) -> None:
        for number in range(50):
            stores[worker].add("c", [("", f"{number}", 1), ("s", f"{worker} {number}", 1)], explored=worker == 3)

    threads = [threading.Thread(target=adds, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = known(server, "c")
    assert len(found.kept) == len({*found.kept}) == 50 + 4 * 50
    assert found.explored


def test_what_is_kept_is_bounded_and_goes_away(server: Server) -> None:
    store = on(server, seconds=100, prefix="mine:")
    store.add("c" * 100_000, [("", str(number), 1) for number in range(MOST + 50)], explored=False)
    with redis.Redis(port=server.port) as client:
        (key,) = client.keys()
        assert key.startswith(b"mine:")
        assert len(key) < 100
        assert client.llen(key) == MOST + 1
        assert 0 < client.ttl(key) <= 100
    memory = SharedMemory(store, size=5)
    found = memory.recall("c" * 100_000)
    assert found is not None
    assert (len(found.kept), found.kept[-1]) == (MOST, ("", str(MOST + 49), 1))
    for number in range(20):
        memory.widen(str(number), [("", "x", 1)], False)
    assert len(memory) == 5


# A Redis that vanishes, stands still, and comes back.


@pytest.mark.parametrize("how", ["is killed", "stands still"])
def test_where_redis_vanishes_a_conversation_goes_on_and_it_is_used_again_when_it_is_back(
    how: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, history = (
        gate_of(RedisMemory(server.url, timeout=0.2), limits=Limits(seconds=30)),
        [{"role": "user", "content": wants(5, 6)}],
    )
    gate.decide(wants(7), TOOLS, conversation="c")
    eventually(lambda: written(server.url, "c"))
    monkeypatch.setattr(memory, "PATIENCE", 0.2)
    server.kill() if how == "is killed" else server.stands_still()
    found = [gate.decide(wants(number), TOOLS, conversation="c") for number in range(5)]
    assert [kept(decision) for decision in found] == [[7, *range(number + 1)] for number in range(5)]
    assert all(decision.latency < 10 for decision in found)
    assert kept(gate.decide(history, TOOLS, conversation="c")) == [5, 6], "a history needs no memory"
    assert kept(asyncio.run(gate.adecide(wants(8), TOOLS, conversation="d"))) == [8]
    assert isinstance(gate.memory, SharedMemory)
    assert gate.memory.failures > 0
    server.start() if how == "is killed" else server.stands_still(False)
    monkeypatch.setattr(memory, "PATIENCE", 20.0)

    def back() -> bool:
        gate.decide(wants(9), TOOLS, conversation="c")
        return ("", NAMES[9], 1) in known(server, "c").kept

    eventually(back)
    other = gate_of(on(server))
    assert kept(other.decide("", TOOLS, conversation="c"))[0] == 7, "as it was, though another Redis is there now"
    assert sorted(kept(other.decide("", TOOLS, conversation="c"))) == [0, 1, 2, 3, 4, 7, 9]


def test_a_redis_that_comes_and_goes_under_load_costs_no_decision_more_than_its_budget(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PATIENCE", 0.05)
    budget, stop = 30.0, threading.Event()
    gates = [gate_of(RedisMemory(server.url, timeout=0.05), limits=Limits(seconds=budget)) for _ in range(2)]
    wrong: list[Any] = []

    def talks(worker: int) -> None:
        rng, gate = random.Random(worker), gates[worker]
        for conversation in count():
            if stop.is_set():
                return
            before: list[int] = []
            for _ in range(5):
                asked = rng.randrange(10)
                decision = gate.decide(wants(asked), TOOLS, conversation=f"{worker} {conversation}")
                now = kept(decision)
                if now[: len(before)] != before or asked not in now or decision.latency > budget or decision.open:
                    wrong.append((before, decision))
                before = now

    threads = [threading.Thread(target=talks, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        eventually(lambda: not any(each.memory.breaker.resting for each in gates))  # type: ignore[attr-defined]
        server.kill()
        eventually(lambda: all(each.memory.breaker.resting for each in gates))  # type: ignore[attr-defined]
        server.start()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


# Stores that are worse than a Redis.


class Worst:
    """A store that does what it is told to."""

    def __init__(self, recalls: Callable[[], Any], adds: Callable[[], Any] = lambda: None) -> None:
        self.recalls, self.adds, self.asked = recalls, adds, 0

    def recall(self, conversation: str) -> Any:
        self.asked += 1
        return self.recalls()

    def add(self, conversation: str, kept: Sequence[Identity], explored: bool) -> None:
        self.adds()


WRONG: dict[str, Callable[[], Any]] = {
    "raises": lambda: 1 / 0,
    "exits": lambda: sys.exit(1),
    "answers a number": lambda: 7,
    "answers names": lambda: (["tool_3"], False),
    "answers numbers": lambda: ([(1, 2, 3)], False),
    "answers a text": lambda: "abc",
}


@pytest.mark.parametrize("how", WRONG)
def test_a_store_that_is_wrong_is_not_believed_and_left_alone_for_a_while(how: str) -> None:
    store = Worst(WRONG[how], WRONG[how])
    gate = gate_of(store)
    gate.memory.breaker = Breaker(3, 1000)  # type: ignore[attr-defined]
    found = [gate.decide(wants(number), TOOLS, conversation="c") for number in range(8)]
    assert [kept(decision) for decision in found] == [list(range(number + 1)) for number in range(8)]
    assert "answers" in how or store.asked <= 3


def test_a_store_that_hangs_neither_holds_up_a_decision_for_long_nor_an_event_loop_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "PATIENCE", 0.05)
    release = threading.Event()
    store = Worst(lambda: release.wait(60) and None, lambda: release.wait(60))
    gate, ticks = gate_of(store, limits=Limits(seconds=30)), [0]

    async def ticking() -> GateDecision:
        deciding = asyncio.create_task(gate.adecide(wants(1), TOOLS, conversation="c"))
        while not deciding.done():
            await asyncio.sleep(0.001)
            ticks[0] += 1
        return deciding.result()

    assert kept(asyncio.run(ticking())) == [1], "while the store still hangs"
    assert ticks[0] > 5
    assert [kept(gate.decide(wants(2), TOOLS, conversation="c")) for _ in range(100)] == [[1, 2]] * 100
    assert store.asked < 20
    release.set()


def test_half_of_a_short_budget_is_left_for_the_decision() -> None:
    release = threading.Event()
    gate = gate_of(Worst(lambda: release.wait(60) and None), limits=Limits(seconds=4))
    assert (decision := gate.decide(wants(1), TOOLS, conversation="c")).reason == "decided"
    assert decision.latency < 4
    release.set()


def test_a_key_that_holds_something_else_is_not_believed(server: Server) -> None:
    store = on(server)
    with redis.Redis(port=server.port) as client:
        for value in (b"no json", b"[1]", b'{"a": 1}', b'["", 3, 1]', b"null"):
            client.delete(store._key("c"))
            client.rpush(store._key("c"), value)
            assert kept(gate_of(store).decide(wants(1), TOOLS, conversation="c")) == [1]
        client.set(store._key("d"), "of another type")
    assert kept(gate_of(store).decide(wants(1), TOOLS, conversation="d")) == [1]


# Settings.


def test_a_copy_of_a_gate_has_the_same_redis(server: Server) -> None:
    gate = gate_of(on(server))
    gate.decide(wants(7), TOOLS, conversation="c")
    eventually(lambda: written(server.url, "c"))
    assert kept(pickle.loads(pickle.dumps(gate)).decide(wants(1), TOOLS, conversation="c")) == [7, 1]


def test_a_client_of_ones_own_will_do(server: Server) -> None:
    with redis.Redis(port=server.port, decode_responses=True) as client:
        one = gate_of(RedisMemory(client), rollout=Rollout(explore=1.0))
        one.decide(wants(7), TOOLS, conversation="c")
        eventually(lambda: written(server.url, "c"))
        assert gate_of(RedisMemory(client)).decide(wants(7), TOOLS, conversation="c").explored


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"redis": "localhost"}, "redis … RedisMemory … URL … redis://localhost"),
        ({"seconds": 0}, "seconds … RedisMemory … whole number … 1"),
        ({"seconds": 1.5}, "seconds … RedisMemory … whole number … 1"),
        ({"timeout": 0}, "timeout … RedisMemory … number above … 0"),
        ({"timeout": float("nan")}, "timeout … RedisMemory … number above … 0"),
    ],
)
def test_a_memory_that_makes_no_sense_is_refused(wrong: dict[str, Any], what: str) -> None:
    with refuses(camdf.UsageError, what):
        RedisMemory(**{"redis": "redis://localhost", **wrong})


def test_a_memory_of_another_kind_is_refused_and_a_missing_package_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses(camdf.UsageError, "store", "Records", "store", "recall"):
        gate_of("redis://localhost")
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(camdf.MissingExtraError, match=r"pip install 'camdf\[redis\]'"):
        RedisMemory("redis://localhost")
