"""What was asked, from the scorer that embeds it to the decision: files, `camdf score`, the fit, the gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from camdf import ExpectedPayoffBySet, Gate, Payoff, datasets
from camdf.cli import main
from camdf.core.rankings import LoggedTasks
from camdf.core.vectors import at_length_one, from_bytes, in_whole_numbers
from camdf.errors import DataError
from camdf.examples.mined import read_logged
from camdf.gate.target import Target
from camdf.policies.artifact import to_json
from camdf.scorers import Embeddings, Fusion, Start
from camdf.scorers.base import Scorer, embedding_of, vector_of
from camdf.scorers.shared import Shared
from camdf.scorers.trust_aware import TrustAware
from camdf.tools import Tool
from camdf_traces.runs import TASK_COLUMNS
from camdf_traces.spans import polars_types

PAYOFF = Payoff(0.12)
TOOLS = [Tool(name) for name in ("weather", "mail", "search", "maps")]
SUBJECTS = ("rain", "letter", "question", "road")
NUMBERS = st.floats(-100, 100).filter(lambda value: value == 0 or abs(value) > 1e-3)
VECTORS = arrays(np.float64, (3, 5), elements=NUMBERS)


@settings(deadline=None)
@given(VECTORS)
def test_a_vector_of_length_one_stays_as_it_is_to_the_bit(vectors: Any) -> None:
    once = at_length_one(vectors)
    assert (at_length_one(once) == once).all()


@settings(deadline=None)
@given(VECTORS)
def test_a_byte_a_number_keeps_the_direction(vectors: Any) -> None:
    kept = from_bytes([row.tobytes() for row in in_whole_numbers(vectors)])
    cosine = (kept * at_length_one(vectors)).sum(axis=1)
    assert (cosine[np.abs(vectors).any(axis=1)] > 0.999).all()


# Files.


def tasks_with_vectors(count: int = 6) -> LoggedTasks:
    records = [{"scores": {"a": 0.9, "b": 0.1 * n}, "required": ["b" if n % 2 else "a"]} for n in range(count)]
    logged = LoggedTasks.from_records(records)
    vectors = at_length_one(np.random.default_rng(0).normal(size=(count, 7)))
    return replace(logged, rankings=replace(logged.rankings, vectors=vectors))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_vectors_come_back_from_a_file_to_the_bit(suffix: str, tmp_path: Path) -> None:
    logged, path = tasks_with_vectors(), tmp_path / f"tasks.{suffix}"
    getattr(datasets, f"write_{suffix}")(logged, path)
    assert datasets.read(path, keep_order=True).digest() == logged.digest()


def test_a_csv_file_may_hold_vectors(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text('task_id,scores,required,vector\nx,"{""a"": 1}","[""a""]","[3, 4]"\n', encoding="utf-8")
    vectors = datasets.read(path).rankings.vectors
    assert vectors is not None
    assert vectors.tolist() == [[0.6, 0.8]]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({}, "must be in every record or in none"),
        ({"vector": [1]}, "must have 2 numbers, as those before it"),
        ({"vector": []}, "must be a list of finite numbers"),
        ({"vector": [1, "2"]}, "must be a list of finite numbers"),
        ({"vector": [1, float("nan")]}, "must be"),
        ({"vector": [1, 1e200]}, "must be a list of finite numbers"),
        ({"vector": 3}, "must be a list of finite numbers"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(second: dict[str, Any], message: str, tmp_path: Path) -> None:
    path, task = tmp_path / "tasks.jsonl", {"scores": {"a": 1}, "required": []}
    lines = [{"task_id": "x", **task, "vector": [1, 2]}, {"task_id": "y", **task, **second}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(DataError, match=f"line 2.*{message}"):
        datasets.read(path)


# Scorers.


def embed(texts: list[str]) -> Any:
    """How often each of a few words occurs."""
    return [[1e-3, *(text.count(word) for word in SUBJECTS)] for text in texts]


def plain(task: str, tools: Sequence[Tool]) -> list[float]:
    return [0.5 - 0.1 * place for place in range(len(tools))]


def test_whatever_is_built_of_a_scorer_that_embeds_knows_the_vector() -> None:
    meaning = Embeddings(embed)
    expected = meaning.embedding("rain on the road").tolist()
    built: list[Scorer] = [
        Fusion([plain, meaning]),
        Shared(meaning, {}),
        TrustAware(meaning, [""]),
        TrustAware(Fusion([meaning]), [""]),
    ]
    for scorer in built:
        found = embedding_of(scorer, "rain on the road")
        assert found is not None
        assert found.tolist() == expected
    assert [vector_of(each, "rain") for each in (plain, Fusion([plain]), TrustAware(plain, [""]))] == [b"", b"", b""]


def test_a_task_that_was_just_scored_is_not_embedded_again() -> None:
    asked: list[str] = []

    def counting(texts: list[str]) -> Any:
        asked.extend(texts)
        return embed(texts)

    scorer = Embeddings(counting)
    scorer("rain", TOOLS)
    scorer.embedding("rain")
    assert asked.count("rain") == 1


def test_the_start_scorer_reads_both_ends_of_a_long_text_for_its_vector_too() -> None:
    scorer, first, last = Start(), "Send a mail to my landlord. " * 200, "Which road is short? " * 300
    long = f"{first}{'noise and more noise ' * 500}{last}"
    assert vector_of(scorer, long) == vector_of(scorer, f"{first[:5000]} {last[-5000:]}") != vector_of(scorer, first)


# `camdf score --vectors`.


def mined(path: Path) -> Path:
    types = polars_types()
    empty: dict[str, Any] = {"text": "", "texts": [], "numbers": [], "whole": 0, "truth": True}
    row = {name: empty[kind] for name, kind in TASK_COLUMNS.items()}
    asked = ["Will there be rain?", "Write a letter to Anna.", "Which road is short?"]
    rows = [{**row, "task_id": str(n), "group": str(n), "text": text} for n, text in enumerate(asked)]
    schema = {name: types[kind] for name, kind in TASK_COLUMNS.items()}
    pl.DataFrame(rows, schema=schema).write_parquet(path)
    return path


def tools_file(path: Path) -> Path:
    path.write_text(json.dumps([{"name": tool.name, "description": tool.name} for tool in TOOLS]), encoding="utf-8")
    return path


def test_mined_tasks_get_the_vectors_that_a_gate_would_see(tmp_path: Path) -> None:
    output = tmp_path / "ranked.parquet"
    command = ["score", str(mined(tmp_path / "mined.parquet")), "--tools", str(tools_file(tmp_path / "tools.json"))]
    assert main([*command, "--scorer", "start", "--vectors", "-o", str(output)]) == 0
    vectors = read_logged(output).rankings.vectors
    assert vectors is not None
    assert (vectors[1] == from_bytes([vector_of(Start(), "Write a letter to Anna.")])[0]).all()
    assert main([*command, "--scorer", "start", "-o", str(tmp_path / "plain.parquet")]) == 0
    assert read_logged(tmp_path / "plain.parquet").rankings.vectors is None
    again = ["score", str(output), *command[2:], "--scorer", "start", "-o", str(tmp_path / "again.parquet")]
    assert main(again) == 2  # the text is gone, and stays gone


def test_a_scorer_without_vectors_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["score", str(mined(tmp_path / "mined.parquet")), "--tools", str(tools_file(tmp_path / "tools.json"))]
    assert main([*command, "--scorer", "bm25", "--vectors", "-o", str(tmp_path / "ranked.parquet")]) == 2
    assert "embeds no texts" in capsys.readouterr().err


# The gate.


@cache
def taught() -> ExpectedPayoffBySet:
    """A policy that has learned from 60 tasks: the scores say nothing of which tool is needed, the text says it all."""
    rng = np.random.default_rng(1)
    subject = rng.integers(0, 4, size=60)
    noise = rng.uniform(0.2, 0.8, size=(60, 4))
    records = [
        {"scores": {tool.name: noise[n, k] for k, tool in enumerate(TOOLS)}, "required": [TOOLS[subject[n]].name]}
        for n in range(60)
    ]
    logged = LoggedTasks.from_records(records)
    scorer = Embeddings(embed)
    vectors = from_bytes([vector_of(scorer, SUBJECTS[each]) for each in subject])
    return ExpectedPayoffBySet().fit(replace(logged, rankings=replace(logged.rankings, vectors=vectors)), PAYOFF)


class Noisy(Embeddings):
    """Scores that say nothing, beside vectors that do."""

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        return plain(task, tools)


def test_the_gate_decides_by_what_was_asked_where_the_scorer_embeds_it() -> None:
    assert taught().reads_texts
    gate = Gate(taught(), Noisy(embed), PAYOFF)
    for tool, subject in zip(TOOLS, SUBJECTS, strict=True):
        decision = gate.decide(f"a {subject}, please", TOOLS)
        assert decision.kept == (tool.name,)
        assert decision.vector == vector_of(Noisy(embed), subject)
        assert subject not in repr(decision)
        assert not any("vector" in key for key in decision.event())


def test_without_a_vector_the_gate_decides_by_the_ranking_alone() -> None:
    one, other = (Gate(taught(), plain, PAYOFF).decide(f"a {subject}", TOOLS) for subject in SUBJECTS[:2])
    assert one.kept == other.kept
    assert one.vector == b""


def test_a_policy_that_reads_no_texts_asks_for_none() -> None:
    def broken(texts: list[str]) -> Any:
        raise RuntimeError

    alone = ExpectedPayoffBySet()
    alone.model_ = taught().model_
    decision = Gate(alone, Noisy(broken), PAYOFF).decide("a letter", TOOLS)
    assert (decision.reason, decision.vector) == ("decided", b"")


def test_an_embedding_that_fails_leaves_the_list_open() -> None:
    def broken(texts: list[str]) -> Any:
        raise RuntimeError

    decision = Gate(taught(), Noisy(broken), PAYOFF).decide("a letter", TOOLS)
    assert (decision.reason, decision.open) == ("scorer failed", True)


def test_a_target_is_found_with_the_vectors_that_decide() -> None:
    requests = [f"a {subject}" for subject in SUBJECTS] * 3
    gate = Gate.for_target(taught(), Noisy(embed), mean_tools=1, requests=requests, tools=TOOLS)
    assert {len(gate.decide(each, TOOLS).kept) for each in requests} == {1}
    lists = [(gate.decide(each, TOOLS).ranking, b"") for each in requests]
    assert Target(mean_tools=1).payoff(taught(), lists, gate.payoff).cost_pressure > 0


def test_a_policy_over_100_tools_that_reads_384_numbers_a_text_stays_below_150_kb() -> None:
    rng, count = np.random.default_rng(0), 240
    names = [f"tool_number_{n}_of_a_hundred" for n in range(100)]
    required = [[names[(3 * n + k) % 100] for k in range(3)] for n in range(count)]
    records = [{"scores": dict(zip(names, rng.random(100), strict=True)), "required": each} for each in required]
    direction = np.concatenate([np.eye(100), np.zeros((100, 284))], axis=1)
    vectors = [direction[list(map(names.index, each))].sum(axis=0) + rng.normal(0, 0.02, 384) for each in required]
    logged = LoggedTasks.from_records(records)
    policy = ExpectedPayoffBySet(prior="similarity").fit(
        replace(logged, rankings=replace(logged.rankings, vectors=at_length_one(np.stack(vectors)))), PAYOFF
    )
    assert policy.with_text_ is not None
    assert policy.with_text_.text is not None
    assert len(policy.with_text_.text.tools) == 100
    assert len(to_json(policy, None)) < 150_000
