"""What similar past tasks needed: the columns, what is kept, how a policy learns from them, and who can spoil them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import camdf
from camdf import ExpectedPayoffBySet, Gate, Payoff, Tool
from camdf.cli import main
from camdf.core.rankings import Floats, LoggedTasks, Rankings
from camdf.datasets import read_examples, write_jsonl
from camdf.datasets.examples import logged_examples, past_tasks, write_examples
from camdf.models.past_tasks import PastTasks
from camdf.policies.artifact import to_json
from camdf.policies.base import Policy
from camdf_lab import domains

PAYOFF = Payoff(0.05)
ROOT = Path(__file__).parents[1]


@cache
def atlas() -> tuple[LoggedTasks, LoggedTasks]:
    """Tasks to learn from, and others, of a catalogue of 190 tools."""
    logged = domains.load("mcp-atlas", "minilm", texts=True)
    order = np.random.default_rng(0).permutation(len(logged))
    return logged.take(order[:120]), logged.take(order[120:])


@cache
def remembering() -> ExpectedPayoffBySet:
    """The default that recalls those tasks."""
    return ExpectedPayoffBySet(remember=True).fit(atlas()[0], PAYOFF)


def evidence(policy: Policy, rankings: Rankings) -> Floats:
    """How likely each candidate is to be needed."""
    told = policy.decide(rankings, PAYOFF).evidence
    assert told is not None
    return told


def four_tasks() -> PastTasks:
    """Two directions: 'mail' was needed in one of them, 'chat' in both."""
    vectors = np.array([[127, 0], [126, 1], [0, 127], [1, 126]], dtype=np.int8)
    counts, needed = np.array([1, 2, 1, 1]), np.array([0, 0, 1, 1, 1])
    return PastTasks(("mail", "chat", "never"), vectors, counts, needed, np.array(["a", "b", "c", "d"]))


def asked(*vectors: list[float]) -> Rankings:
    """Rankings of four tools for requests in these directions."""
    scores = [{"mail": 0.4, "chat": 0.3, "never": 0.2, "new": 0.1}] * len(vectors)
    return replace(Rankings.from_scores(scores), vectors=np.array(vectors))


def test_a_tool_that_similar_tasks_needed_has_higher_columns_and_an_unknown_one_has_0() -> None:
    rankings = asked([1.0, 0.0], [0.0, 1.0])
    vote, near = four_tasks().columns(rankings)
    mail, chat, never, new = range(4)
    assert vote[0, mail] > vote[0, chat] > vote[0, never]
    assert vote[1, chat] > vote[1, mail]
    assert near[0, mail] > 0 > near[1, mail]
    assert vote[:, new].tolist() == near[:, new].tolist() == near[:, never].tolist() == [0.0, 0.0]


def test_a_task_that_is_learned_from_hears_the_other_groups_alone() -> None:
    past, rankings = four_tasks(), asked([1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0])
    left_out = past.left_out(rankings)
    for row in range(4):
        others = past.take(np.delete(np.arange(4), row))
        assert left_out[:, row].tolist() == others.columns(rankings)[:, row].tolist()


def test_columns_do_not_depend_on_what_stands_beside_a_task_or_on_padding() -> None:
    taught, others = atlas()
    past = PastTasks.all_of(taught)
    together = past.columns(others.rankings)
    for row in range(len(others)):
        alone = past.columns(others.rankings.take([row]))
        assert np.array_equal(alone[:, 0], together[:, row])
    wider = past.columns(others.rankings.padded_to(others.rankings.width + 3))
    assert np.array_equal(wider[:, :, :-3], together)


def test_what_is_kept_is_bounded_and_rare_tools_stay() -> None:
    n = 1000
    needed = np.where(np.arange(n) % 100 == 0, np.arange(n) // 100 + 1, 0)  # ten tools once each
    vectors = np.random.default_rng(0).integers(-127, 128, (n, 4)).astype(np.int8)
    groups = np.array([f"user {i}" for i in range(n)])
    past = PastTasks(tuple(f"tool {i}" for i in range(11)), vectors, np.ones(n, dtype=np.int64), needed, groups)
    few = past.bounded(50)
    assert len(few) == 50
    assert set(few.needed.tolist()) == set(range(11))
    flooded = replace(past, groups=np.array(["one user"] * 900 + [f"user {i}" for i in range(100)]))
    assert (flooded.bounded(1000, of_a_group=20).groups == "one user").sum() == 20


def test_a_policy_pays_more_with_past_tasks_on_a_catalogue_of_190_tools() -> None:
    _, others = atlas()
    policy = remembering()
    assert policy.past_ is not None
    assert policy.reads_texts
    without = policy.recalling(None)
    paid = [PAYOFF.of(others, way.decide(others.rankings, PAYOFF).acquired).mean() for way in (policy, without)]
    assert paid[0] > paid[1] + 0.02


def test_a_file_of_examples_gives_a_loaded_policy_its_past_tasks_bit_for_bit(tmp_path: Path) -> None:
    _, others = atlas()
    policy = remembering()
    camdf.save(policy, tmp_path / "policy.json")
    assert policy.past_ is not None
    write_examples(tmp_path / "examples.jsonl", logged_examples(policy.past_))
    examples = read_examples(tmp_path / "examples.jsonl")
    assert not any(example.text for example in examples)
    assert {example.origin for example in examples} == {"logged"}
    loaded = camdf.load(tmp_path / "policy.json")
    recalled = evidence(loaded.recalling(past_tasks(examples)), others.rankings)
    assert np.array_equal(recalled, evidence(policy, others.rankings))
    assert np.array_equal(evidence(loaded, others.rankings), evidence(policy.recalling(None), others.rankings))


def test_a_policy_that_remembers_nothing_is_written_as_it_always_was() -> None:
    text = to_json(ExpectedPayoffBySet().fit(atlas()[0].take(np.arange(20)), PAYOFF))
    assert "past" not in text
    assert "remember" not in text


def test_it_goes_on_learning_without_the_tasks_of_before() -> None:
    taught, others = atlas()
    policy = ExpectedPayoffBySet(remember=True).fit(taught, PAYOFF)
    before = len(policy.past_ or ())
    policy.update(others.take(np.arange(5)))
    assert policy.past_ is not None
    assert len(policy.past_) == before + 5


@pytest.mark.parametrize("tool", ["calculator_calculate", "exa_web_search_exa"])
def test_poisoned_examples_change_at_most_2_percent_of_decisions(tool: str) -> None:
    """1% of the examples name one tool: copies of requests of others, from users of their own."""
    _, others = atlas()
    policy, rankings = remembering(), others.rankings
    past = policy.past_
    assert past is not None
    assert tool in past.tools
    clean = policy.decide(rankings, PAYOFF).acquired
    for seed in range(5):
        rows = np.random.default_rng(seed).integers(0, len(past), max(1, round(len(past) / 100)))
        place = past.tools.index(tool)
        poison = replace(
            past.take(rows),
            counts=np.ones(len(rows), dtype=np.int64),
            needed=np.full(len(rows), place),
            groups=np.array([f"attacker {i}" for i in range(len(rows))]),
        )
        dirty = policy.recalling(past.joined(poison)).decide(rankings, PAYOFF).acquired
        assert (dirty != clean)[rankings.listed].mean() <= 0.02
        assert (dirty != clean).any(axis=1).mean() <= 0.02


class Vectors:
    """A scorer that knows the scores and the vectors of some tasks, by their ids."""

    def __init__(self, logged: LoggedTasks) -> None:
        self.logged = logged

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        row = self.logged.task_ids.tolist().index(task)
        known = dict(zip(self.logged.rankings.names(row), self.logged.rankings.scores[row].tolist(), strict=False))
        return [known[tool.name] for tool in tools]

    def embedding(self, task: str) -> Floats:
        assert self.logged.rankings.vectors is not None
        vector: Floats = self.logged.rankings.vectors[self.logged.task_ids.tolist().index(task)]
        return vector


def test_a_gate_explains_a_tool_by_the_past_requests_that_needed_it() -> None:
    _, others = atlas()
    gate = Gate(remembering(), Vectors(others), PAYOFF)
    explained = [
        gate.decide(others.task_ids[row], [Tool(name) for name in others.rankings.names(row)]).explain()
        for row in range(5)
    ]
    assert any("of the 5 most similar past requests" in text for text in explained)


def test_fit_writes_the_past_tasks_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(atlas()[0], tmp_path / "logged.jsonl")
    command = f"fit {tmp_path}/logged.jsonl -o {tmp_path}/policy.json --cost-pressure 0.05 --splits 1"
    assert main([*command.split(), "--remember", str(tmp_path / "examples.jsonl")]) == 0
    assert f"has {len(atlas()[0])} of them" in capsys.readouterr().out
    assert past_tasks(read_examples(tmp_path / "examples.jsonl")) is not None


def test_a_conversation_is_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "examples.jsonl"
    write_examples(path, logged_examples(four_tasks()))
    assert main(["forget", str(path), "--conversation", "b"]) == 0
    assert capsys.readouterr().out == "Forgot 1 examples.\n"
    assert [example.group for example in read_examples(path)] == ["a", "c", "d"]


def test_the_page_says_what_was_measured() -> None:
    page = " ".join((ROOT / "docs" / "fitting.md").read_text(encoding="utf-8").split())
    with (ROOT / "lab" / "results" / "past_tasks.csv").open(encoding="utf-8") as file:
        rows = [{name: value for name, value in row.items() if name != "domain"} for row in csv.DictReader(file)]
    margin = {
        labels: np.mean([float(r["with past tasks"]) - float(r["with texts"]) for r in rows if r["labels"] == labels])
        for labels in ("0", "38")
    }
    assert f"it adds {margin['0']:.3f} to the payoff" in page
    assert f"and {margin['38']:.3f} with 38 labels" in page
    assert min(float(row["hi"]) for row in rows) >= -0.02
    few, more, most = json.loads((ROOT / "results" / "past_tasks.json").read_text())
    took = [round(size["milliseconds"]) for size in (few, more, most)]
    assert "about {} ms of one processor with 10,000 past requests, {} ms with 100,000, and {} ms".format(*took) in page
