"""What an operator changes while a gate works: its policy, whom it cuts for, whether it works at all."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import numpy as np
import prometheus_client
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openfeature import api
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import camdf
from camdf.evaluation.compare import compare
from camdf.gate import Breaker, Gate, GateDecision, Guards, Limits, Records, Rollout, terms, value_in_file
from camdf.gate.shared import READERS, SCORERS
from camdf.gate.telemetry import OpenTelemetryMetrics, PrometheusMetrics
from camdf.policies.rules import TopK
from camdf.runtime import switch
from camdf.tools import Tool
from camdf_lab import domains
from camdf_traces.readers.values import gate_decision
from golden import PAYOFF, VECTORS, openai_tool
from saying import refuses

TOOLS = [openai_tool(name, text) for name, text in VECTORS[0].tools.items()]
TASK = "Book a flight and a hotel in a city"


def falling(task: str, tools: Sequence[Tool]) -> list[float]:
    """The first tool is the best, whatever is asked."""
    return [1.0 / (place + 1) for place in range(len(tools))]


def gate_of(policy: camdf.Policy | None = None, scorer: Any = falling, **settings: Any) -> Gate:
    return Gate(policy or TopK(1), scorer, PAYOFF, **settings)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def saved(policy: camdf.Policy, path: Path) -> Path:
    camdf.save(policy, path)
    return path


def sha256(path: Path) -> str:
    return str(json.loads(path.read_text(encoding="utf-8"))["sha256"])


# A policy from a file takes the place of another, for conversations that begin.


def test_a_reloaded_policy_decides_on_conversations_that_begin_and_others_keep_theirs(tmp_path: Path) -> None:
    gate, talk = gate_of(), [user(f"{TASK}, please"), user("And then send the whole plan to my team by mail")]
    assert len(gate.decide(talk[:1], TOOLS, conversation="talk").kept) == 1
    assert len(gate.decide(TASK, TOOLS, conversation="c").kept) == 1
    path = saved(TopK(3), tmp_path / "policy.json")
    assert gate.reload(path) == sha256(path)
    later = gate.decide(talk, TOOLS, conversation="talk")
    assert (len(later.kept), later.policy_digest) == (1, gate_of().decide(TASK, TOOLS).policy_digest)
    assert len(gate.decide(f"{TASK} again", TOOLS, conversation="c").kept) == 1
    fresh = gate.decide([user("Find me a quiet hotel in the old town")], TOOLS)
    assert (len(fresh.kept), fresh.policy_digest) == (3, sha256(path))
    assert len(gate.decide(TASK, TOOLS, conversation="d").kept) == 3
    assert repr(gate.policy) == repr(TopK(3))
    assert len(pickle.loads(pickle.dumps(gate)).decide(TASK, TOOLS).kept) == 3


def test_conversations_without_a_name_that_begin_alike_share_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, first = gate_of(TopK(3)), user("What can you do for me this evening?")
    old = gate.decide([first], TOOLS).kept
    gate.reload(saved(TopK(1), tmp_path / "policy.json"))
    assert len(gate.decide([first], TOOLS).kept) == 1, "the same words begin another conversation"
    talk = [first, user("and a taxi home, if you can")]
    assert set(gate.decide(talk, TOOLS).kept) >= set(old), "it may be the first one"
    monkeypatch.setattr(terms, "monotonic", lambda: monotonic() + 3601)
    assert len(gate.decide(talk, TOOLS).kept) == 1, "an hour later nobody is in the middle"


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("ABCD"), st.sampled_from(["say", "reload", "share", "off"])), max_size=25),
    sizes=st.lists(st.integers(1, 5), min_size=25, max_size=25),
    named=st.booleans(),
    tool_search=st.booleans(),
)
def test_no_list_narrows_in_the_middle_of_a_conversation_whatever_others_do(
    steps: list[tuple[str, str]], sizes: list[int], named: bool, tool_search: bool
) -> None:
    """Four conversations that begin with the same words, while policies, shares and the switch change."""
    share, off = [1.0], [False]
    gate = gate_of(TopK(3), rollout=Rollout(lambda: share[0], off=lambda: off[0], every=0) if named else Rollout())
    talks = {who: [user(f"{TASK}, please")] for who in "ABCD"}
    had: dict[str, set[str]] = {}
    with TemporaryDirectory() as folder:
        for (who, does), size in zip(steps, sizes, strict=False):
            if does == "reload":
                gate.reload(saved(TopK(size), Path(folder) / f"{size}.json"))
            elif does == "share":
                share[0] = size / 5
            elif does == "off":
                off[0] = not off[0]
            name = who if named else None
            decision = gate.decide(talks[who], TOOLS, conversation=name, tool_search=tool_search)
            now = {tool["function"]["name"] for tool in decision.tools}
            assert had.get(who, set()) <= now
            had[who] = now
            talks[who] = [*talks[who], {"role": "assistant", "content": "ok"}, user("And then the next thing, please")]


@pytest.mark.parametrize("explore", [0.5, 0.1])
def test_chance_is_dealt_by_the_name_of_a_conversation_and_never_by_its_words(explore: float) -> None:
    gate = gate_of(rollout=Rollout(explore=explore, explore_key="a key of ours"))
    talk, names = [user(f"{TASK}, please")], range(2000 if explore == 0.5 else 10_000)
    share = sum(gate.decide(talk, TOOLS, conversation=str(name)).explored for name in names) / len(names)
    assert abs(share - explore) < 3 * (explore * (1 - explore) / len(names)) ** 0.5
    unnamed = [gate.decide([user(f"{TASK}, number {number}")], TOOLS) for number in range(200)]
    assert not any(decision.explored for decision in unnamed)
    assert all(decision.needs_name and "It has no name" in decision.explain() for decision in unnamed)


def test_a_gate_without_effect_is_not_told_to_stop_however_unequal_the_openings() -> None:
    gate = gate_of(rollout=Rollout(explore=0.5))
    openings = {f"{TASK} number {number}": rate for number, rate in enumerate((0.95, 0.75, 0.7, 0.8, 0.85))}
    for seed in range(3):
        random = np.random.default_rng(seed)
        texts = random.choice(list(openings), 2000)
        explored = [
            gate.decide([user(text)], TOOLS, conversation=f"{seed} {number}").explored
            for number, text in enumerate(texts)
        ]
        solved = random.random(2000) < [openings[text] for text in texts]
        verdict = compare(~np.array(explored), {"success": solved.astype(float)}).verdict
        assert not verdict.startswith("Stop"), verdict


def test_another_key_deals_otherwise_and_all_workers_of_one_key_alike() -> None:
    def explored(key: str, **settings: Any) -> set[int]:
        gate = gate_of(rollout=Rollout(explore=0.5, explore_key=key, **settings))
        return {name for name in range(300) if gate.decide(TASK, TOOLS, conversation=str(name)).explored}

    assert explored("a") == explored("a")
    assert 100 < len(explored("a") & explored("b")) + 75 < 200
    both = explored("a", share=0.5, salt="a")
    assert both == explored("a"), "who is cut for says nothing of who explores"


def test_a_gate_makes_up_a_name_where_one_is_asked_for() -> None:
    gate = gate_of(rollout=Rollout(explore=0.5))
    first = gate.decide([user(f"{TASK}, please")], TOOLS, conversation="")
    assert len(first.conversation) == 32
    assert not first.needs_name
    again = [user(f"{TASK}, please"), user("And then the next thing, please")]
    assert gate.decide(again, TOOLS, conversation=first.conversation).explored == first.explored
    assert gate.decide(TASK, TOOLS, conversation="mine").conversation == "mine"
    assert gate.decide(TASK, TOOLS).conversation == ""


def test_a_conversation_in_which_nothing_was_decided_takes_the_new_policy(tmp_path: Path) -> None:
    gate = gate_of()
    assert gate.decide([user("Hello!")], TOOLS).open
    gate.reload(saved(TopK(3), tmp_path / "policy.json"))
    assert len(gate.decide([user("Hello!"), user(f"{TASK}, please")], TOOLS).kept) == 3


def truncated(path: Path) -> None:
    path.write_bytes(saved(TopK(3), path).read_bytes()[:-40])


def another_number(path: Path) -> None:
    path.write_text(saved(TopK(3), path).read_text().replace('"k": 3', '"k": 4'))


def for_another_payoff(path: Path) -> None:
    camdf.save(camdf.CAMDF().fit(domains.load("retail"), camdf.Payoff(0.2)), path)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "is missing": (lambda path: None, "Cannot read .*No such file"),
    "is a folder": (lambda path: path.mkdir(), "Cannot read .*directory"),
    "is empty": (lambda path: path.touch(), "it is not JSON"),
    "is truncated": (truncated, "it is not JSON"),
    "was changed": (another_number, "its digest does not match"),
    "is too large": (lambda path: path.write_bytes(b" " * 4_000_001), "larger than 4000000 bytes"),
    "is for another payoff": (for_another_payoff, "does not decide here: This CAMDF was fitted for"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_file_that_is_no_policy_for_this_gate_is_refused_and_the_last_good_one_stays(
    how: str, tmp_path: Path
) -> None:
    make, why = BAD[how]
    gate = gate_of()
    good = gate.reload(saved(TopK(2), tmp_path / "good.json"))
    path = tmp_path / "bad.json"
    make(path)
    with pytest.raises(camdf.ArtifactError, match=rf"(?s){why}.* gate goes on "):
        gate.reload(path)
    decision = gate.decide(TASK, TOOLS)
    assert (len(decision.kept), decision.policy_digest) == (2, good)


def test_policies_that_come_and_go_under_load_are_never_mixed(tmp_path: Path) -> None:
    gate, stop, found = gate_of(), threading.Event(), list[GateDecision]()
    paths = [saved(TopK(k), tmp_path / f"{k}.json") for k in (1, 2, 3)]
    sizes = {sha256(path): k for k, path in enumerate(paths, 1)}
    torn = tmp_path / "torn.json"
    torn.write_bytes(paths[0].read_bytes()[:100])

    def asks(worker: int) -> None:
        for number in range(20_000):
            if number >= 150 and len({decision.policy_digest for decision in [*found]}) >= 3:
                break
            talk = [user(f"{TASK}, number {number} of worker {worker}"), user("and another of the same kind, please")]
            name = f"{worker} {number}"
            found.extend(gate.decide(talk[:turns], TOOLS, conversation=name) for turns in (1, 2))

    def pushes() -> None:
        number = 0
        while not stop.is_set():
            gate.reload(paths[number % 3])
            with pytest.raises(camdf.ArtifactError):
                gate.reload(torn)
            number += 1

    threads = [threading.Thread(target=asks, args=(worker,)) for worker in range(2)]
    pushing = threading.Thread(target=pushes)
    for thread in (pushing, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    pushing.join()
    assert len(found) >= 600
    assert {decision.reason for decision in found} <= {"decided", "decided before"}
    assert all(len(decision.kept) == sizes[decision.policy_digest] for decision in found)
    assert {*map(len, {decision.kept for decision in found})} == {1, 2, 3}


def test_both_turns_of_a_conversation_are_one_policys_whatever_was_pushed_between(tmp_path: Path) -> None:
    gate, paths = gate_of(), [saved(TopK(k), tmp_path / f"{k}.json") for k in (1, 2, 3)]
    for number in range(30):
        gate.reload(paths[number % 3])
        talk = [user(f"{TASK}, number {number}"), user("and another of the same kind, please")]
        first = gate.decide(talk[:1], TOOLS, conversation=str(number))
        gate.reload(paths[(number + 1) % 3])
        second = gate.decide(talk, TOOLS, conversation=str(number))
        assert (second.kept, second.policy_digest) == (first.kept, first.policy_digest)


# Decisions that can be told apart.


def test_a_decision_has_an_id_of_its_own_the_policys_digest_its_latency_and_its_reason() -> None:
    gate, seen = gate_of(), list[GateDecision]()
    listening = gate_of(records=Records(on_decision=seen.append))
    found = [gate.decide(TASK, TOOLS) for _ in range(3)] + [listening.decide(TASK, TOOLS)]
    assert listening.sink is not None
    listening.sink.drain()
    assert seen[0].id == found[-1].id
    assert len({decision.id for decision in found}) == 4
    for decision in found:
        assert 0 < decision.latency < 60
        event = decision.event()
        assert [event[f"camdf.{name}"] for name in ("id", "policy_digest", "latency", "reason")] == [
            decision.id, decision.policy_digest, decision.latency, "decided",
        ]  # fmt: skip
    assert found[0] == found[1], "the same answer, whenever it was asked for"
    mined = gate_decision([found[0].event()])
    assert (mined["ranked"], mined["explored"]) == ([each.name for each in found[0].ranking], False)


class Nameless(TopK):
    kind = ""


def test_a_policy_that_cannot_be_saved_has_no_digest() -> None:
    assert gate_of(Nameless(1)).decide(TASK, TOOLS).policy_digest == ""


# Cut for a share of conversations, and a switch that ends all of it.


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that answers is waited for, however busy the machine is."""
    monkeypatch.setattr(switch, "PATIENCE", 30.0)


def cut_for(rollout: Rollout, conversations: int = 2000) -> set[int]:
    gate = gate_of(rollout=rollout)
    found = {number: gate.decide(TASK, TOOLS, conversation=str(number)) for number in range(conversations)}
    assert all(len(each.tools) == (1 if each.mode == "drop" else len(TOOLS)) for each in found.values())
    assert {each.kept for each in found.values()} == {found[0].kept}, "shadow says what would be kept"
    return {number for number, each in found.items() if each.mode == "drop"}


def test_a_share_of_conversations_is_cut_for_by_name_and_salt_and_a_larger_share_takes_more_in() -> None:
    fifth = cut_for(Rollout(0.2, salt="spring"))
    assert 0.17 < len(fifth) / 2000 < 0.23
    assert cut_for(Rollout(0.2, salt="spring"), 300) == {number for number in fifth if number < 300}
    assert fifth < cut_for(Rollout(0.4, salt="spring"))
    other = cut_for(Rollout(0.2, salt="autumn"))
    assert 0.02 < len(fifth & other) / 2000 < 0.06, "another salt picks others: a fifth of a fifth are in both"
    assert (cut_for(Rollout(0.0), 50), len(cut_for(Rollout(), 50))) == (set(), 50)


def test_a_history_without_a_name_is_left_alone_and_the_decision_says_so() -> None:
    gate = gate_of(rollout=Rollout(0.5))
    for number in range(40):
        talk = [user("Hello!"), user(f"{TASK}, number {number}"), user("and another of the same kind, please")]
        for turns in (1, 2, 3):
            decision = gate.decide(talk[:turns], TOOLS)
            assert (decision.mode, decision.needs_name) == ("shadow", True)
            assert "neither explored nor split" in decision.explain()


def test_a_conversation_that_began_stays_as_it_began_whatever_becomes_of_the_share() -> None:
    share = [0.0]
    gate = gate_of(rollout=Rollout(lambda: share[0], every=0))
    talk = [user(f"{TASK}, please"), user("And then send the whole plan to my team by mail")]
    assert gate.decide(talk[:1], TOOLS).mode == gate.decide(TASK, TOOLS, conversation="c").mode == "shadow"
    share[0] = 1.0
    assert gate.decide(talk, TOOLS).mode == gate.decide(TASK, TOOLS, conversation="c").mode == "shadow"
    assert gate.decide(TASK, TOOLS, conversation="d").mode == "drop"
    share[0] = 0.0
    assert gate.decide(TASK, TOOLS, conversation="d").mode == "drop"
    assert gate.decide(TASK, TOOLS, conversation="e").mode == "shadow"


def test_a_file_that_says_true_switches_the_gate_off_and_what_may_not_be_offered_is_not(tmp_path: Path) -> None:
    asked: list[str] = []

    def noting(task: str, tools: Sequence[Tool]) -> list[float]:
        asked.append(task)
        return falling(task, tools)

    off = tmp_path / "off"
    off.write_text("false\n")
    gate = gate_of(
        scorer=noting,
        rollout=Rollout(off=value_in_file(off), every=0),
        guards=Guards(allow=set(VECTORS[0].tools) - {"run_sql"}),
    )
    talk = [user(f"{TASK}, please"), user("And then send the whole plan to my team by mail"), user(f"{TASK} again")]
    assert len(gate.decide(talk[:1], TOOLS, conversation="talk").tools) == 1
    assert len(gate.decide(TASK, TOOLS, conversation="c").tools) == 1
    off.write_text("true\n")
    asked.clear()
    for decision in (gate.decide(talk[:2], TOOLS, conversation="talk"), gate.decide(TASK, TOOLS, conversation="c")):
        assert (decision.reason, decision.mode, len(decision.tools)) == ("switched off", "shadow", len(TOOLS) - 1)
        assert (decision.refused, asked) == (("run_sql",), [])
        assert "switched off" in decision.explain()
    off.write_text("false\n")
    saw = gate.decide(talk, TOOLS, conversation="talk")
    assert len(saw.tools) == len(TOOLS) - 1, "it saw them all, so it keeps them"
    assert len(gate.decide(TASK, TOOLS, conversation="c").tools) == len(TOOLS) - 1
    assert len(gate.decide(TASK, TOOLS, conversation="d").tools) == 1


BROKEN: dict[str, Any] = {
    "raises": lambda: 1 / 0,
    "exits": lambda: exec("raise SystemExit"),
    "answers 7": lambda: 7,
    "answers a text": lambda: "0.5",
    "answers true": lambda: True,
    "answers nan": lambda: float("nan"),
    "is a file that is not there": value_in_file("no-such-file"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_source_that_is_broken_leaves_the_last_good_value_and_before_one_nothing_is_cut(how: str) -> None:
    never = Rollout(BROKEN[how], every=0)
    assert gate_of(rollout=never).decide(TASK, TOOLS).mode == "shadow"
    assert never.error
    works = [True]
    rollout = Rollout(lambda: 1.0 if works else BROKEN[how](), every=0)
    gate = gate_of(rollout=rollout)
    assert (gate.decide(TASK, TOOLS).mode, rollout.error) == ("drop", "")
    works.clear()
    for number in range(3):
        assert gate.decide(TASK, TOOLS, conversation=str(number)).mode == "drop"
    assert (rollout.share_now, bool(rollout.error)) == (1.0, True)
    works.append(True)
    gate.decide(TASK, TOOLS)
    assert rollout.error == ""


def test_a_source_that_hangs_is_waited_for_once_and_asked_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, asked = threading.Event(), list[int]()

    def hangs() -> bool:
        asked.append(1)
        if len(asked) > 1:
            release.wait(60)
        return len(asked) > 1

    rollout = Rollout(off=hangs, every=0)
    gate = gate_of(rollout=rollout, limits=Limits(seconds=30))
    assert gate.decide(TASK, TOOLS).mode == "drop"
    monkeypatch.setattr(switch, "PATIENCE", 0.1)
    began = monotonic()
    assert {gate.decide(TASK, TOOLS, conversation=str(number)).mode for number in range(300)} == {"drop"}
    assert (len(asked), rollout.error) == (2, "TimeoutError")
    assert monotonic() - began < 300 * 0.1 / 2, "not once a decision"
    release.set()
    eventually(lambda: gate.decide(TASK, TOOLS).reason == "switched off")


def test_a_source_that_hangs_leaves_a_decision_most_of_its_time() -> None:
    release = threading.Event()
    gate = gate_of(
        rollout=Rollout(lambda: release.wait(60) and 0.5, off=lambda: release.wait(60)), limits=Limits(seconds=4)
    )
    decision = gate.decide(TASK, TOOLS)
    assert (decision.reason, decision.latency < 4) == ("switched off", True)
    release.set()


def test_a_source_that_hangs_from_the_beginning_leaves_every_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "PATIENCE", 0.1)
    release = threading.Event()
    gate = gate_of(rollout=Rollout(off=lambda: release.wait(60) and False, every=0))
    decision = gate.decide(TASK, TOOLS)
    assert (decision.reason, len(decision.tools)) == ("switched off", len(TOOLS))
    release.set()
    eventually(lambda: gate.decide(TASK, TOOLS).mode == "drop")


def eventually(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition."""
    ends = monotonic() + seconds
    while not holds():
        assert monotonic() < ends
        sleep(0.01)


def test_share_and_switch_may_be_flags_of_an_openfeature_client() -> None:
    class Provider(InMemoryProvider):
        def __init__(self, share: float, off: bool, broken: bool = False) -> None:
            super().__init__({"share": InMemoryFlag("x", {"x": share}), "off": InMemoryFlag("x", {"x": off})})
            self.broken = broken

        def resolve_float_details(self, *asked: Any, **more: Any) -> Any:
            if self.broken:
                raise ConnectionError
            return super().resolve_float_details(*asked, **more)

    api.set_provider(Provider(0.2, off=False))
    client = api.get_client()
    rollout = Rollout(
        lambda: client.get_float_value("share", rollout.share_now),
        off=lambda: client.get_boolean_value("off", rollout.is_off),
        every=0,
        salt="spring",
    )
    gate = gate_of(rollout=rollout)
    found = {n for n in range(300) if gate.decide(TASK, TOOLS, conversation=str(n)).mode == "drop"}
    assert found == cut_for(Rollout(0.2, salt="spring"), 300)
    api.set_provider(Provider(1.0, off=False, broken=True))
    gate.decide(TASK, TOOLS)
    assert rollout.share_now == 0.2, "a client that fails answers with the last good value"
    api.set_provider(Provider(1.0, off=False))
    gate.decide(TASK, TOOLS)
    assert rollout.share_now == 1.0
    api.set_provider(Provider(1.0, off=True))
    assert gate.decide(TASK, TOOLS).reason == "switched off"
    api.clear_providers()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"share": 2}, "'share' of Rollout must be a share from 0 to 1"),
        ({"share": float("nan")}, "'share' of Rollout must be a share"),
        ({"share": True}, "'share' of Rollout must be a share"),
        ({"share": None}, "'share' of Rollout must be a share"),
        ({"share": "share.json"}, "'share' of Rollout must be a share"),
        ({"off": Path("gate-off")}, "'off' of Rollout must be true or false"),
        ({"off": 1}, "'off' of Rollout must be true or false"),
        ({"salt": 7}, "'salt' of Rollout must be a string"),
        ({"every": -1}, "'every' of Rollout must be a number of seconds"),
        ({"every": float("nan")}, "'every' of Rollout must be a number of seconds"),
    ],
)
def test_a_rollout_that_makes_no_sense_is_refused(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(camdf.UsageError, match=f"{what}.* Got .* instead"):
        Rollout(**settings)


def test_before_anything_is_said_a_conversation_gets_the_fallback() -> None:
    gate = gate_of(rollout=Rollout(1.0), guards=Guards(fallback=["run_sql"]))
    assert gate.decide([user("Hello!")], TOOLS, conversation="c").kept == ("run_sql",)
    assert len(gate.decide([user("Hello!"), user(f"{TASK}, please")], TOOLS, conversation="c").tools) == 1


def test_a_gate_that_only_watches_has_no_share_to_cut_for() -> None:
    with refuses(camdf.UsageError, "mode", "Gate", "conversations", "cut"):
        gate_of(rollout=Rollout(0.2), mode="shadow")
    with refuses(camdf.UsageError, "rollout", "Gate", "Rollout(", "0.2"):
        gate_of(rollout=0.2)


def test_a_target_is_found_whoever_is_cut_for() -> None:
    asked = [f"{TASK}, number {number}" for number in range(5)]
    settings: dict[str, Any] = {"rollout": Rollout(off=True), "limits": Limits(breaker=Breaker(1))}
    gate = Gate.for_target(camdf.cold_start(), falling, requests=asked, tools=TOOLS, mean_tools=3, **settings)
    assert gate.decide(TASK, TOOLS).reason == "switched off"


def test_a_copy_of_a_gate_is_rolled_out_alike() -> None:
    gate = gate_of(TopK(1), falling, rollout=Rollout(0.5, salt="s"))
    again = pickle.loads(pickle.dumps(gate))
    for number in range(50):
        assert len({each.decide(TASK, TOOLS, conversation=str(number)).mode for each in (gate, again)}) == 1


# A scorer that fails again and again is left alone for a while.


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Patchy:
    """A scorer that answers, raises, answers nonsense or hangs, as it is told."""

    def __init__(self) -> None:
        self.does, self.asked, self.release = "answers", 0, threading.Event()

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        self.asked += 1
        if self.does == "hangs":
            self.release.wait(60)
        if self.does == "raises":
            raise ConnectionError
        return [0.5] if self.does == "answers nonsense" else falling(task, tools)


@pytest.mark.parametrize("does", ["raises", "answers nonsense", "hangs"])
def test_a_scorer_that_fails_so_often_is_not_asked_for_a_while_then_tried_once(does: str) -> None:
    scorer, clock = Patchy(), Clock()
    gate = gate_of(scorer=scorer, limits=Limits(breaker=Breaker(3, 30, clock), seconds=30))
    tasks = (f"{TASK}, number {number}" for number in count())
    gate.decide([user("Book a hotel in the old town")], TOOLS)
    scorer.does, scorer.asked = does, 0
    gate.limits = replace(gate.limits, seconds=0.5 if does == "hangs" else 30)
    reasons = [gate.decide(next(tasks), TOOLS).reason for _ in range(6)]
    assert len({*reasons[:3]}) == 1
    assert (reasons[3:], scorer.asked) == (["scorer resting"] * 3, 3)
    decision = gate.decide([user("Book a hotel in the old town"), user("and send it all to me by mail please")], TOOLS)
    assert (decision.reason, len(decision.kept), decision.open) == ("scorer resting", 1, False)
    assert "find_hotel" in [tool["function"]["name"] for tool in gate.find("hotels", TOOLS)], "by words"
    clock.now = 31
    reasons = [gate.decide(next(tasks), TOOLS).reason for _ in range(3)]
    assert (reasons[1:], scorer.asked) == (["scorer resting"] * 2, 4), "one try a rest"
    assert reasons[0] != "scorer resting"
    scorer.does = "answers"
    scorer.release.set()
    assert gate.decide(next(tasks), TOOLS).reason == "scorer resting"
    clock.now = 62
    gate.limits = replace(gate.limits, seconds=30)
    assert [gate.decide(next(tasks), TOOLS).reason for _ in range(3)] == ["decided"] * 3
    assert gate.limits.breaker is not None
    assert not gate.limits.breaker.resting


def test_failures_that_are_not_in_a_row_are_borne() -> None:
    scorer = Patchy()
    gate = gate_of(scorer=scorer, limits=Limits(breaker=Breaker(2, 30)))
    for number in range(12):
        scorer.does = "raises" if number % 2 else "answers"
        assert gate.decide(f"{TASK}, number {number}", TOOLS).reason == ("scorer failed" if number % 2 else "decided")


def test_an_answer_that_comes_after_the_budget_is_no_success() -> None:
    released = threading.Event()

    def late(task: str, tools: Sequence[Tool]) -> list[float]:
        released.wait(60)
        return falling(task, tools)

    breaker = Breaker(2, 1000)
    gate = gate_of(scorer=late, limits=Limits(breaker=breaker, seconds=0.5))
    assert gate.decide(f"{TASK} one", TOOLS).reason == "scorer too slow"
    released.set()
    eventually(lambda: len(gate._decider.shared.turn_scores._turns) == 1)
    released.clear()
    assert gate.decide(f"{TASK} one", TOOLS).reason == "decided", "what came late is kept"
    assert not breaker.resting
    assert asyncio.run(gate.adecide(f"{TASK} two", TOOLS)).reason == "scorer too slow"
    assert breaker.resting
    assert gate.decide(f"{TASK} three", TOOLS).reason == "scorer resting"
    assert gate.decide(f"{TASK} one", TOOLS).reason == "decided", "what is known needs no scorer"
    released.set()


@pytest.mark.parametrize(
    "wrong", [{"failures": 0}, {"failures": 1.5}, {"failures": True}, {"seconds": 0}, {"seconds": float("nan")}]
)
def test_a_breaker_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with refuses(camdf.UsageError, name, "Breaker"):
        Breaker(**wrong)
    with refuses(camdf.UsageError, "breaker", "Limits", "Breaker("):
        Limits(breaker=5)  # type: ignore[arg-type]


# Metrics.


def busy(gate: Gate) -> Counter[tuple[str, str]]:
    """Many decisions of many kinds, and how often each reason and mode came."""
    decisions = [
        gate.decide(task, [*TOOLS[:6], openai_tool(f"tool_{number}", "one of its own")], conversation=f"c{number}")
        for number in range(100)
        for task in ("", f"{TASK}, number {number}", "nonsense")
    ]
    assert gate.sink is not None
    gate.sink.drain()
    return Counter((decision.reason, decision.mode) for decision in decisions)


def moody(task: str, tools: Sequence[Tool]) -> list[float]:
    if task == "nonsense":
        raise ConnectionError
    return falling(task, tools)


def test_prometheus_counts_decisions_by_reason_and_mode_their_seconds_and_their_tools() -> None:
    registry = prometheus_client.CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    found = busy(gate_of(scorer=moody, records=Records(on_decision=metrics), rollout=Rollout(0.5)))
    found += busy(gate_of(TopK(2), moody, records=Records(on_decision=metrics)))
    assert len(found) == 6, "three reasons in two modes"
    for (reason, mode), times in found.items():
        labels = {"reason": reason, "mode": mode}
        assert registry.get_sample_value("camdf_decisions_total", labels) == times
    assert registry.get_sample_value("camdf_decision_seconds_count") == 600
    kept = [registry.get_sample_value("camdf_tools_kept_count", {"mode": mode}) for mode in ("drop", "shadow")]
    assert kept == [sum(found[each] for each in found if each[1] == mode) for mode in ("drop", "shadow")]
    exposed = prometheus_client.generate_latest(registry).decode()
    assert len(exposed.splitlines()) < 100
    assert not any(word in exposed for word in ("tool_7", "c7", "nonsense", TASK))


def test_opentelemetry_counts_the_same() -> None:
    reader = InMemoryMetricReader()
    metrics = OpenTelemetryMetrics(MeterProvider([reader]).get_meter("test"))
    found = busy(gate_of(scorer=moody, records=Records(on_decision=metrics), rollout=Rollout(0.5)))
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: [*metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    counted: Any = points["camdf.decisions"]
    assert {(each.attributes["reason"], each.attributes["mode"]): each.value for each in counted} == found
    (latency,), kept = points["camdf.decision.duration"], points["camdf.tools.kept"]
    assert getattr(latency, "count") == 300  # noqa: B009 (a point may be of another kind, too)
    assert {each.attributes["mode"] for each in kept if each.attributes} == {"drop", "shadow"}
    OpenTelemetryMetrics()(gate_of().decide(TASK, TOOLS))  # where the host has set up nothing


@pytest.mark.parametrize(
    ("module", "extra", "make"),
    [
        ("prometheus_client", "prometheus", PrometheusMetrics),
        ("opentelemetry.metrics", "opentelemetry", OpenTelemetryMetrics),
    ],
)
def test_metrics_without_their_package_name_the_extra_that_brings_it(
    module: str, extra: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(camdf.MissingExtraError, match=rf"pip install 'camdf\[{extra}\]'"):
        make()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]


# Many tenants.


def test_a_thousand_tenants_share_threads_and_scores_and_no_conversation() -> None:
    asked: list[str] = []

    def noting(task: str, tools: Sequence[Tool]) -> list[float]:
        asked.append(task)
        return falling(task, tools)

    before, seen = set(threading.enumerate()), list[GateDecision]()
    base = gate_of(scorer=noting, records=Records(on_decision=seen.append), limits=Limits(seconds=60))
    names = list(VECTORS[0].tools)
    tenants = [
        base.for_tenant(f"tenant {number}", guards=Guards(pinned=[names[number % 9 + 1]])) for number in range(1000)
    ]

    async def all_at_once() -> list[GateDecision]:
        return await asyncio.gather(*(each.adecide(TASK, TOOLS, conversation="c") for each in tenants))

    found = asyncio.run(all_at_once())
    begun = [each for each in set(threading.enumerate()) - before if each.name == "camdf-worker"]
    assert len(begun) <= READERS + SCORERS + 1
    assert [decision.kept for decision in found] == [(names[0], names[number % 9 + 1]) for number in range(1000)]
    assert len({*asked}) == 1
    assert len(asked) <= SCORERS, "only those that came before the first answer"
    assert base.sink is not None
    base.sink.drain()
    assert len(seen) + base.sink.dropped == 1000
    assert len(base.memory) == 1000
    assert base.decide("another", TOOLS, conversation="c").reason == "decided", "and none of them is the gate's own"


def test_tenants_keep_to_their_own_settings_and_conversations() -> None:
    base = gate_of(TopK(2))
    names = list(VECTORS[0].tools)
    one, two = base.for_tenant("one", guards=Guards(allow=names[3:])), base.for_tenant("two", mode="shadow")
    three = base.for_tenant("three", policy=TopK(4))
    assert [len(each.decide(TASK, TOOLS, conversation="c").kept) for each in (base, one, two, three)] == [2, 2, 2, 4]
    refused = one.decide(TASK, TOOLS)
    assert (refused.kept, refused.refused) == (tuple(names[3:5]), tuple(names[:3]))
    assert len(two.decide(TASK, TOOLS).tools) == len(TOOLS)
    copied = pickle.loads(pickle.dumps(one))
    assert copied.decide(TASK, TOOLS).refused == refused.refused
    base.for_tenant("a").decide(TASK, TOOLS, conversation="1 b c")
    assert base.for_tenant("a1 b").decide(TASK, TOOLS, conversation=" c").reason == "decided", "however they are named"


def test_scores_that_a_tenants_harness_passes_are_that_tenants_alone() -> None:
    base = gate_of()
    one, two = base.for_tenant("one"), base.for_tenant("two")
    names, talk = list(VECTORS[0].tools), [user(f"{TASK}, please"), user("And then the same once more for my friend")]
    last = [0.1] * (len(TOOLS) - 1) + [0.9]
    assert two.decide(talk[:1], TOOLS).kept == (names[0],)
    assert one.decide(talk[:1], TOOLS, scores=last).kept == (names[-1],)
    assert one.decide(talk, TOOLS).kept == (names[-1], names[0]), "a later turn still knows them"
    assert two.decide(talk, TOOLS).kept == base.decide(talk, TOOLS).kept == (names[0],)


def test_tenants_without_a_policy_of_their_own_follow_a_reload(tmp_path: Path) -> None:
    base = gate_of(TopK(1))
    follows, own = base.for_tenant("follows", guards=Guards(pinned=["run_sql"])), base.for_tenant("own", policy=TopK(2))
    talk = [user(f"{TASK}, please"), user("And then send the whole plan to my team by mail")]
    follows.decide(talk[:1], TOOLS, conversation="c")
    path = saved(TopK(5), tmp_path / "policy.json")
    base.reload(path)
    assert follows.decide([user("Find me a quiet hotel in the old town")], TOOLS).policy_digest == sha256(path)
    assert follows.decide(talk, TOOLS, conversation="c").policy_digest != sha256(path), "it began before"
    assert base.decide(talk, TOOLS, conversation="c").policy_digest == sha256(path), (
        "and is the tenant's conversation alone"
    )
    assert len(own.decide(TASK, TOOLS).kept) == 2
    assert len(base.for_tenant("late").decide(TASK, TOOLS).kept) == 5
    with refuses(camdf.UsageError, "Reload", "tenant"):
        follows.reload(path)
    own.reload(saved(TopK(3), path))
    assert len(own.decide(TASK, TOOLS).kept) == 3
    assert len(base.decide(TASK, TOOLS).kept) == 5


def test_what_tenants_share_cannot_differ() -> None:
    own: dict[str, dict[str, Any]] = {
        "scorer": {"scorer": None},
        "records": {"records": Records()},
        "trusted": {"guards": Guards(trusted=["mail"])},
        "breaker": {"limits": Limits(breaker=Breaker())},
    }
    for name, different in own.items():
        with refuses(camdf.UsageError, "Gate", name):
            gate_of().for_tenant("one", **different)
    breaker = Breaker()
    tenant = gate_of(limits=Limits(breaker=breaker)).for_tenant("one", limits=Limits(at_most=2))
    assert tenant.limits == Limits(at_most=2, breaker=breaker)
    for wrong in ("", None, 7):
        with refuses(camdf.UsageError, "tenant", "Gate", must="a name"):
            gate_of().for_tenant(wrong)  # type: ignore[arg-type]
