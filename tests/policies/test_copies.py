"""Tools that do the same are learned about and decided on as one, in a log, in a fit, on later tasks and in a gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import camdf
from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff
from camdf.cli import main
from camdf.core.rankings import GatedTasks
from camdf.datasets import joined_copies
from camdf.datasets.tool_names import of_gated
from camdf.errors import UsageError
from camdf.evaluation.maybe_copies import copies_among, maybe_copies
from camdf.gate import Gate, GateDecision, Guards
from camdf.policies.rules import PlugIn
from camdf.policies.training import Training
from camdf.tools import Tool
from loading import benchmark_module
from saying import says
from worlds import random_logged

PAYOFF = Payoff(0.05)


@pytest.fixture(scope="module")
def worlds() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield benchmark_module("copies", patch)


# In a log.


@given(seed=st.integers(0, 10_000), of=st.integers(1, 4))
@example(seed=0, of=1)
def test_a_set_suffices_among_joined_tools_where_with_any_copy_it_would(seed: int, of: int) -> None:
    rng = np.random.default_rng(seed)
    logged = random_logged(rng, 12, 6)
    names = logged.rankings.catalogue
    copies = {name: names[place // of * of] for place, name in enumerate(names) if place % of}
    once = joined_copies(logged, copies)
    acquired = rng.random(once.required.shape) < 0.5
    for row in range(len(logged)):
        needed = [logged.rankings.names(row)[rank] for rank in np.flatnonzero(logged.required[row])]
        chosen = [once.rankings.names(row)[rank] for rank in np.flatnonzero(acquired[row] & once.rankings.listed[row])]
        served = all(any(copies.get(name, name) == copies.get(one, one) for one in chosen) for name in needed)
        assert once.sufficient(acquired)[row] == (served and not logged.missing[row])
        listed = [copies.get(name, name) for name in logged.rankings.names(row)]
        assert set(once.rankings.names(row)) == set(listed)
        for place, name in enumerate(once.rankings.names(row)):
            same = [rank for rank, other in enumerate(listed) if other == name]
            assert once.rankings.scores[row, place] == max(logged.rankings.scores[row, rank] for rank in same)
            assert once.rankings.costs[row, place] == min(logged.rankings.costs[row, rank] for rank in same)
    assert (once.missing == logged.missing).all()
    assert joined_copies(once, copies).digest() == once.digest()


def test_nothing_changes_without_copies_and_what_was_offered_is_joined_too() -> None:
    logged = random_logged(np.random.default_rng(1), 5, 4)
    assert joined_copies(logged, {}) is logged
    tasks = [{"scores": {"a": 0.9, "b": 0.8, "c": 0.1}, "required": ["b"]}]
    gated = GatedTasks(LoggedTasks.from_records(tasks), np.array([[False, True, False]]))
    once = of_gated(gated, lambda some: joined_copies(some, {"b": "a"}))
    assert once.offered.tolist() == [[True, False]]
    assert once.logged.required.tolist() == [[True, False]]


def test_a_tool_cannot_stand_for_others_and_be_a_copy() -> None:
    with pytest.raises(UsageError, match="'b'"):
        joined_copies(random_logged(np.random.default_rng(1), 5, 4), {"a": "b", "b": "c"})


# What a log suggests.


@pytest.mark.parametrize("world", ["ten pairs", "two of five", "no copies"])
def test_a_log_suggests_copies_and_nothing_else(world: str, worlds: Any) -> None:
    found = 0
    for seed in range(3):
        made = worlds.CopiedWorld(world, 0.15, seed)
        taught, _ = made.draw(200, np.random.default_rng(seed), "task")
        pairs = maybe_copies(taught.logged)
        assert all(worlds._serves(made, pair.tool) == worlds._serves(made, pair.copy) for pair in pairs)
        found += len(copies_among(pairs))
    assert (found > 3) == (world != "no copies")


def test_tools_that_a_task_needed_together_are_never_taken_for_copies(worlds: Any) -> None:
    made = worlds.CopiedWorld("two of five", 0.15, 0)
    taught, _ = made.draw(200, np.random.default_rng(0), "task")
    logged = taught.logged
    pairs = maybe_copies(logged)
    together = logged.rankings.among({pairs[0].tool, pairs[0].copy})
    required = logged.required.copy()
    required[0] |= together[0]
    once = replace(logged, required=required, n_required=required.sum(axis=1))
    assert pairs[0][:2] not in [pair[:2] for pair in maybe_copies(once)]


def test_groups_are_alike_two_by_two() -> None:
    def pair(tool: str, copy: str) -> Any:
        from camdf.evaluation.maybe_copies import MaybeCopies

        return MaybeCopies(tool, copy, 40, 0.95, (9, 8))

    assert copies_among([pair("a", "b"), pair("b", "c"), pair("a", "c")]) == {"b": "a", "c": "a"}
    assert copies_among([pair("a", "b"), pair("b", "c")]) == {"b": "a"}


def test_a_log_without_labels_or_with_one_tool_suggests_nothing() -> None:
    tasks = [{"scores": {"a": 0.9}, "required": ["a"]}] * 30
    assert maybe_copies(LoggedTasks.from_records(tasks)) == []
    assert maybe_copies(LoggedTasks.from_records([{"scores": {"a": 0.9, "b": 0.9}, "required": []}] * 30)) == []


# On the command line.


def written_tasks(path: Path, logged: LoggedTasks) -> Path:
    camdf.datasets.write_jsonl(logged, path)
    return path


@pytest.mark.parametrize("told", [["--copies", "found"], None])
def test_a_fit_that_is_told_of_copies_decides_on_them_as_one(
    told: list[str] | None, worlds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = worlds.CopiedWorld("two of five", 0.15, 1)
    rng = np.random.default_rng(5)
    log = written_tasks(tmp_path / "log.jsonl", made.draw(120, rng, "task")[0].logged)
    newer = written_tasks(tmp_path / "newer.jsonl", made.draw(60, rng, "newer")[0].logged)
    policy = tmp_path / "policy.json"
    if told is None:
        (tmp_path / "copies.json").write_text(json.dumps(made.copies))
        told = ["--copies", str(tmp_path / "copies.json")]
    fit = ["fit", str(log), "-o", str(policy), "--cost-pressure", "0.05", "--splits", "2"]
    assert main(fit) == 0
    alone = capsys.readouterr().out
    assert says(alone, "may do the same")
    assert main(["evaluate", str(policy), str(newer), "--splits", "2", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert main([*fit, *told, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    copies = document["copies"]
    assert dict(camdf.load(policy).training_.copies) == copies  # type: ignore[union-attr]
    assert all(worlds._serves(made, copy) == worlds._serves(made, tool) for copy, tool in copies.items())
    assert main(["evaluate", str(policy), str(newer), "--splits", "2", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["data"]["most_candidates"] == 40 - len(copies)
    assert before["data"]["most_candidates"] == 40
    assert main(["evaluate", str(policy), str(log), "--splits", "2", "--json"]) == 0
    assert any("these very tasks" in warning for warning in json.loads(capsys.readouterr().out)["warnings"])


@pytest.mark.parametrize(
    ("copies", "said"),
    [
        (["a=b", "a=c"], "'a' two new names"),
        (["a=b", "b=c"], "'b' as both"),
        (["a="], "a=b … 'a='"),
        (["missing.json"], "JSON file … missing.json"),
    ],
)
def test_copies_that_say_two_things_or_nothing_are_refused(
    copies: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written_tasks(tmp_path / "log.jsonl", random_logged(np.random.default_rng(0), 20, 5))
    words = [word for told in copies for word in ("--copies", told)]
    try:
        code = main(["fit", str(log), "-o", str(tmp_path / "policy.json"), "--cost-pressure", "0.1", *words])
    except SystemExit as refusal:
        code = int(refusal.code or 0)
    assert code == 2
    assert says(capsys.readouterr().err, said)


def test_renames_reach_the_copies_of_a_policy(tmp_path: Path) -> None:
    logged = random_logged(np.random.default_rng(0), 40, 5, shared=True)
    copy, tool = logged.rankings.catalogue[:2]
    policy = ExpectedPayoffBySet().fit(joined_copies(logged, {copy: tool}), PAYOFF)
    camdf.save(policy, tmp_path / "policy.json", Training(copies=((copy, tool),)))
    known = camdf.load(tmp_path / "policy.json", renamed={copy: "x", tool: "y"})
    assert known.training_ is not None
    assert known.training_.copies == (("x", "y"),)


# In a gate.

NAMES = ("a/find", "b/find", "c/find", "mail", "song")
TOOLS = [Tool(name.split("/")[-1], f"Does {name}.", server=name.split("/")[0] if "/" in name else "") for name in NAMES]


def decided(scores: Sequence[float], **settings: Any) -> GateDecision:
    policy = PlugIn()
    policy.training_ = Training(copies=(("b/find", "a/find"), ("c/find", "a/find")))
    gate = Gate(policy, payoff=Payoff(0.05), **settings)
    return gate.decide("Find it", TOOLS, scores=scores)


def test_of_tools_that_do_the_same_a_gate_hands_over_one() -> None:
    decision = decided([0.7, 0.9, 0.8, 0.6, 0.01])
    assert decision.kept == ("a/find", "mail")
    assert set(decision.cut) == {"b/find", "c/find", "song"}
    by_name = {each.name: each for each in decision.ranking}
    assert by_name["a/find"].score == 0.9
    assert says(by_name["b/find"].why, "the same", "a/find")
    assert len(decision.ranking) == len(NAMES)


def test_the_cheapest_stands_for_all() -> None:
    prices = {"a/find": 3.0, "b/find": 1.0, "c/find": 2.0, "mail": 1.0, "song": 1.0}
    by_price = {tool.full_name: prices[name] for name, tool in zip(NAMES, TOOLS, strict=True)}
    decision = decided([0.7, 0.7, 0.7, 0.6, 0.01], prices=lambda tool: by_price[tool.full_name])
    assert decision.kept == ("b/find", "mail")


@given(score=st.floats(0, 1))
def test_an_untrusted_copy_changes_nothing_about_a_trusted_tool(score: float) -> None:
    guards = Guards(trusted=["b", "c"])
    decision = decided([score, 0.5, 0.4, 0.6, 0.01], guards=guards)
    assert [decision.servers.get(name, "") for name in decision.kept] == ["b", ""]
    (stands,) = [each for each in decision.ranking if each.name == "b/find"]
    assert stands.score == 0.5


def test_a_called_or_pinned_copy_stays() -> None:
    assert "c/find" in decided([0.7, 0.9, 0.8, 0.6, 0.01], guards=Guards(pinned=["c/find"])).kept
