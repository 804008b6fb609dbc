"""What an operator changes while a gate works: its policy, whom it cuts for, whether it works at all."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import camdf
from camdf import datasets
from camdf.gate import Gate, GateDecision
from camdf.mining.readers.values import gate_decision
from camdf.policies.rules import TopK
from camdf.tools import Tool
from golden import PAYOFF, VECTORS, openai_tool

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
    assert len(gate.decide(talk[:1], TOOLS).kept) == 1
    assert len(gate.decide(TASK, TOOLS, conversation="c").kept) == 1
    path = saved(TopK(3), tmp_path / "policy.json")
    assert gate.reload(path) == sha256(path)
    later = gate.decide(talk, TOOLS)
    assert (len(later.kept), later.policy_digest) == (1, gate_of().decide(TASK, TOOLS).policy_digest)
    assert len(gate.decide(f"{TASK} again", TOOLS, conversation="c").kept) == 1
    fresh = gate.decide([user("Find me a quiet hotel in the old town")], TOOLS)
    assert (len(fresh.kept), fresh.policy_digest) == (3, sha256(path))
    assert len(gate.decide(TASK, TOOLS, conversation="d").kept) == 3
    assert repr(gate.policy) == repr(TopK(3))
    assert len(pickle.loads(pickle.dumps(gate)).decide(TASK, TOOLS).kept) == 3


def test_conversations_without_a_name_that_begin_alike_are_told_apart_once_they_differ(tmp_path: Path) -> None:
    gate, first = gate_of(), user("What can you do for me this evening?")
    old = [first, user("Then book a table for two in the old town")]
    gate.decide(old[:1], TOOLS)
    gate.decide(old, TOOLS)
    gate.reload(saved(TopK(3), tmp_path / "policy.json"))
    assert len(gate.decide([first], TOOLS).kept) == 3, "the same words begin another conversation"
    assert len(gate.decide([*old, user("and a taxi home, if you can")], TOOLS).kept) == 1
    assert len(gate.decide([first, user("Play some quiet jazz in the living room")], TOOLS).kept) == 3


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
    camdf.save(camdf.CAMDF().fit(datasets.load("retail"), camdf.Payoff(0.2)), path)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "is missing": (lambda path: None, "Cannot read .*No such file"),
    "is a folder": (lambda path: path.mkdir(), "Cannot read .*directory"),
    "is empty": (lambda path: path.touch(), "it is not JSON"),
    "is truncated": (truncated, "it is not JSON"),
    "was changed": (another_number, "its digest does not match"),
    "is too large": (lambda path: path.write_bytes(b" " * 1_000_001), "larger than 1000000 bytes"),
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
    with pytest.raises(camdf.ArtifactError, match=rf"(?s){why}.* The gate goes on with the policy that it has\.$"):
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
            found.extend(gate.decide(talk[:turns], TOOLS) for turns in (1, 2))

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
        first = gate.decide(talk[:1], TOOLS)
        gate.reload(paths[(number + 1) % 3])
        second = gate.decide(talk, TOOLS)
        assert (second.kept, second.policy_digest) == (first.kept, first.policy_digest)


# Decisions that can be told apart.


def test_a_decision_has_an_id_of_its_own_the_policys_digest_its_latency_and_its_reason() -> None:
    gate, seen = gate_of(), list[GateDecision]()
    listening = gate_of(on_decision=seen.append)
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
