"""What whoever asks needed before: no name changes nothing, and nobody's tasks reach another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camdf import ExpectedPayoffBySet, Gate, LoggedTasks, Payoff, Rankings, Tool
from camdf.cli import main
from camdf.core.rankings import Floats
from camdf.datasets import read_examples, write_jsonl
from camdf.datasets.examples import past_tasks
from camdf.datasets.forgetting import Whose
from camdf.datasets.ids import hashed, id_key
from camdf.errors import UsageError
from camdf.gate import GateDecision, Records
from camdf.gate.request import Question
from camdf.policies.artifact import from_json, load, to_json
from camdf.policies.models.own_past import own_column, own_left_out
from camdf.policies.models.past_tasks import PastTasks
from camdf.service.lessons import Lesson, SeenLog, seen, tasks_of_lessons
from saying import refuses

PAYOFF = Payoff(0.05)
TOOLS = tuple(f"tool {number}" for number in range(12))
USERS = ("ada", "eve", "kim", "leo")


@cache
def log(tasks: int = 80, seed: int = 0) -> LoggedTasks:
    """Each user needs three of the tools, and the scores hardly say which."""
    rng = np.random.default_rng(seed)
    own = [rng.choice(len(TOOLS), 3, replace=False) for _ in USERS]
    records = []
    users = []
    for task in range(tasks):
        user = int(rng.integers(len(USERS)))
        needed = TOOLS[rng.choice(own[user])]
        scores = {name: float(0.4 + 0.1 * (name == needed) + 0.3 * rng.random()) for name in TOOLS}
        records.append({"scores": scores, "required": [needed], "group": f"chat {task // 2}"})
        users.append(USERS[user])
    return asked_by(LoggedTasks.from_records(records), users)


def asked_by(logged: LoggedTasks, users: Sequence[str] | None) -> LoggedTasks:
    """The same tasks of these users."""
    return replace(logged, rankings=by(logged.rankings, users))


def by(rankings: Rankings, users: Sequence[str] | None) -> Rankings:
    """Rankings for these users."""
    return replace(rankings, users=None if users is None else np.array(users, dtype=np.str_))


@cache
def knowing() -> ExpectedPayoffBySet:
    """A policy that learned whose history helps."""
    return ExpectedPayoffBySet(remember=True).fit(log(), PAYOFF)


def evidence(policy: ExpectedPayoffBySet, rankings: Rankings) -> Floats:
    """How likely each candidate is to be needed."""
    told = policy.decide(rankings, PAYOFF).evidence
    assert told is not None
    return told


def test_a_users_own_tools_gain_and_the_others_lose() -> None:
    assert knowing().own_multiple_ > 0
    new = log(400, seed=0).take(np.arange(80, 400))  # the same users, later
    known = PAYOFF.of(new, knowing().decide(new.rankings, PAYOFF).acquired).mean()
    nameless = PAYOFF.of(new, knowing().decide(by(new.rankings, None), PAYOFF).acquired).mean()
    assert known > nameless + 0.1


def test_without_a_name_every_byte_is_as_it_is_without_users() -> None:
    logged = log()
    plain = ExpectedPayoffBySet(remember=True).fit(asked_by(logged, None), PAYOFF)
    rankings = log(30, seed=1).rankings
    before = plain.probabilities(by(rankings, None))[0].tobytes()
    for nobody in (None, [""] * 30, ["stranger"] * 30):
        assert knowing().probabilities(by(rankings, nobody))[0].tobytes() == before
    assert knowing().recalling(None).probabilities(rankings)[0].tobytes() == before
    assert to_json(ExpectedPayoffBySet().fit(logged, PAYOFF)) == to_json(
        ExpectedPayoffBySet().fit(asked_by(logged, None), PAYOFF)
    )


def test_a_user_who_is_forgotten_is_as_one_who_was_never_seen() -> None:
    past = knowing().past_
    assert past is not None
    stays = np.array([row for row, user in enumerate(past.users) if user != "ada"])
    forgetful = knowing().recalling(past.take(stays))
    rankings = log(20, seed=2).rankings
    ada = evidence(forgetful, by(rankings, ["ada"] * 20))
    assert np.array_equal(ada, evidence(forgetful, by(rankings, ["stranger"] * 20)))
    assert not forgetful.knows("ada")
    assert forgetful.knows("eve")


@given(st.randoms(use_true_random=False))
def test_what_others_needed_changes_nothing_for_a_user_but_the_rates_that_all_share(random: Random) -> None:
    """However the others' tasks are shuffled between them, the rates stay, and so does what is said to this user."""
    past = knowing().past_
    assert past is not None
    others = [row for row in range(len(past)) if past.users[row] != "kim"]
    shuffled = random.sample(others, len(others))
    needed = past.needed.copy()
    needed[others] = past.needed[shuffled]  # each task needed one tool
    rankings = by(log(20, seed=2).rankings, ["kim"] * 20)
    assert np.array_equal(own_column(replace(past, needed=needed), rankings), own_column(past, rankings))


@given(st.lists(st.tuples(st.sampled_from(["ada", "eve", ""]), st.sampled_from(["a", "b", "c"])), max_size=8))
def test_a_task_that_is_learned_from_hears_the_other_groups_alone(drawn: list[tuple[str, str]]) -> None:
    n = len(drawn)
    users = tuple(user for user, _ in drawn)
    groups = np.array([group for _, group in drawn], dtype=np.str_)
    needed = np.arange(n) % 3
    past = PastTasks(TOOLS[:3], np.zeros((n, 0), dtype=np.int8), np.ones(n, np.int64), needed, groups, users=users)
    rankings = by(Rankings.from_scores([dict.fromkeys(TOOLS[:4], 0.5)] * n), users)
    told = own_left_out(past, rankings)
    for row in range(n):
        others = past.take(np.flatnonzero(groups != groups[row]))
        assert np.array_equal(told[row], own_column(others, rankings)[row])
        assert told[row, 3] == 0  # a tool that none of them could have needed


def test_columns_do_not_depend_on_what_stands_beside_a_task_or_on_padding() -> None:
    past = knowing().past_
    assert past is not None
    rankings = log(20, seed=2).rankings
    together = own_column(past, rankings)
    for row in range(20):
        assert np.array_equal(own_column(past, rankings.take([row]))[0], together[row])
    assert np.array_equal(own_column(past, rankings.padded_to(15))[:, :12], together)
    assert not own_column(past, rankings.padded_to(15))[:, 12:].any()


def test_an_explanation_quotes_nobody_else_and_says_what_the_user_needed() -> None:
    logged = log()
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(logged), 8))
    past = replace(
        PastTasks.all_of(replace(logged, rankings=replace(logged.rankings, vectors=vectors))),
        texts=tuple(f"asked by {user}" for user in logged.rankings.users.tolist()),  # type: ignore[union-attr]
    )
    rankings = replace(logged.rankings, vectors=vectors)
    for row in range(len(logged)):
        for whose in (None, *USERS):
            told = past.needed_nearby(by(rankings, whose and [whose] * len(logged)), row)
            texts = {text for quoted in told.values() for text in quoted if text}
            assert texts <= {f"asked by {whose}"}
    (reasons,) = {str(knowing().reasons(by(logged.rankings, ["ada"] * len(logged)), 0))}
    mine = knowing().past_.tasks_of("ada")  # type: ignore[union-attr]
    assert f"of this user's {len(mine)} past requests" in reasons
    assert knowing().reasons(by(logged.rankings, [""] * len(logged)), 0) == {}


def test_where_the_groups_are_the_users_nothing_is_learned_of_them() -> None:
    logged = log()
    users = logged.rankings.users
    assert users is not None
    fitted = ExpectedPayoffBySet(remember=True).fit(replace(logged, groups=users), PAYOFF)
    assert fitted.own_multiple_ == 0
    assert not fitted.recalls


def test_a_policy_that_is_loaded_decides_by_the_past_tasks_that_it_is_given() -> None:
    loaded = from_json(to_json(knowing()).encode())
    rankings = log(20, seed=2).rankings
    assert loaded.recalls
    assert np.array_equal(evidence(loaded.recalling(knowing().past_), rankings), evidence(knowing(), rankings))  # type: ignore[arg-type]


def test_more_outcomes_of_a_user_join_that_users_past() -> None:
    policy = from_json(to_json(knowing()).encode()).recalling(knowing().past_)
    assert isinstance(policy, ExpectedPayoffBySet)
    more = asked_by(log(10, seed=3), ["new"] * 10)
    assert not policy.knows("new")
    assert policy.update(more).knows("new")


def gate_that_knows(id_key: bytes | None = None) -> Gate:
    """A gate whose past tasks have the ids of users hashed by a key, or without one."""
    past = knowing().past_
    assert past is not None
    spelled = tuple(hashed(user, id_key or b"") for user in past.users)
    return Gate(knowing().recalling(replace(past, users=spelled)), payoff=PAYOFF, records=Records(id_key=id_key))


def decided(gate: Gate, user: str, row: int = 0) -> GateDecision:
    """What one task gets where this user asks."""
    rankings = log(20, seed=2).rankings
    scores = dict(zip(rankings.names(row), rankings.scores[row].tolist(), strict=True))
    return gate.decide("the same text", list(map(Tool, scores)), scores=scores, user=user)


def test_a_gate_tells_users_apart_by_ids_as_they_are_or_hashed_and_keeps_nobody_s_for_another() -> None:
    key = b"a key of 16 bytes"
    for gate in (gate_that_knows(), gate_that_knows(key)):
        nameless = decided(gate, "")
        assert decided(gate, "stranger").ranking == nameless.ranking
        own = {user: decided(gate, user).ranking for user in USERS}
        assert all(ranking != nameless.ranking for ranking in own.values())
        assert len({tuple(tool.evidence for tool in ranking) for ranking in own.values()}) == len(USERS)
        for user in reversed(USERS):  # the same text again, whoever asked in between
            assert decided(gate, user).ranking == own[user]
        assert decided(gate, "\ud800").ranking == nameless.ranking
    assert decided(gate_that_knows(key), hashed("ada", key)).ranking == decided(gate_that_knows(key), "ada").ranking
    assert "of this user's" in decided(gate_that_knows(), "ada").explain()
    assert "of this user's" not in decided(gate_that_knows(), "").explain()


def test_what_is_decided_together_is_decided_as_alone() -> None:
    gate = gate_that_knows()
    rankings = log(20, seed=2).rankings
    questions = []
    for row, user in enumerate(("ada", "eve", "", "ada")):
        scores = dict(zip(rankings.names(row), rankings.scores[row].tolist(), strict=True))
        questions.append(Question("text", list(map(Tool, scores)), 0.0, scores=scores, user=user))
    together = gate.decide_together(questions)
    for row, (question, decision) in enumerate(zip(questions, together, strict=True)):
        assert decided(gate_that_knows(), question.user, row).ranking == decision.ranking


def test_tenants_share_no_users() -> None:
    with refuses(UsageError, "one tenant's own"):
        gate_that_knows().for_tenant("north")


def test_the_file_of_past_requests_keeps_users_and_no_text_and_a_log_of_requests_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    log_file = tmp_path / "log.jsonl"
    write_jsonl(log(), log_file)
    options = ["fit", str(log_file), "-o", str(tmp_path / "policy.json"), "--cost-pressure", ".05", "--splits", "1"]
    past_file = tmp_path / "past.jsonl"
    assert main([*options, "--remember", str(past_file), "--seed", "0"]) == 0
    content = past_file.read_text()
    assert not any(user in content for user in USERS)
    policy = load(tmp_path / "policy.json")
    past = past_tasks(read_examples(past_file))
    assert past is not None
    assert policy.recalling(past).knows(hashed("ada", id_key()))
    evaluate = ["evaluate", str(tmp_path / "policy.json"), str(log_file), "--examples", str(past_file)]
    assert main([*evaluate, "--splits", "1"]) == 0
    assert main(["forget", str(past_file), "--user", "ada"]) == 0
    left = past_tasks(read_examples(past_file))
    assert left is not None
    assert not policy.recalling(left).knows(hashed("ada", id_key()))
    assert len(left) < len(past)


def test_the_service_keeps_who_asked_hashed_and_forgets_them(tmp_path: Path) -> None:
    gate = gate_that_knows()
    decision = replace(decided(gate, "ada"), mode="shadow")
    kept = seen("", "", decision, hashed("ada", b""), recalls=True)
    assert kept is not None
    assert kept.user == hashed("ada", b"")
    tasks = tasks_of_lessons([Lesson(kept, [kept.tools[0]], "log", 1, 0.0)])
    assert tasks.rankings.users is not None
    assert tasks.rankings.users.tolist() == [hashed("ada", b"")]
    written = SeenLog(tmp_path)
    written.write(kept)
    assert written.forget(lambda one: Whose(user="ada").asked(one.group, one.user)) == 1
