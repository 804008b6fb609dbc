"""The cold start: the shipped policy, how it is learned, and the stored table of left-out domains."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from camdf import LoggedTasks, Payoff, Rankings, cold_start, datasets
from camdf.checks import sample_tasks
from camdf.errors import UsageError
from camdf.lab.beyond.cold_start import (
    COLD,
    CONSTANTS,
    INFORMED,
    PLACE,
    SIMILAR,
    STUDY,
    TOLD,
    margins_over_constants,
    shares_won,
)
from camdf.lab.beyond.frontier import Sweep
from camdf.lab.beyond.looks import DOMAINS, LOOKS, of_look
from camdf.lab.stored import Rows, stored
from camdf.models.prior import FILE, KINDS, prior_from, shipped_prior
from camdf.models.prior_fit import CandidateRows, missing_shares, pooled
from camdf.policies.artifact import from_json, to_json
from camdf.policies.cold_start import from_prior

ROOT = Path(__file__).parents[1]
PAYOFFS = [Payoff(0.05), Payoff(0.12), Payoff(0.2, "partial")]


kinds = pytest.mark.parametrize("scores", KINDS)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return stored(ROOT / "results", STUDY.name)


@kinds
def test_the_shipped_prior_is_small_and_decides_with_numpy_alone(scores: str) -> None:
    assert len((files("camdf.models") / FILE.format(scores)).read_bytes()) < 5_000
    code = (
        "import sys, camdf; ranking = camdf.Rankings.from_scores({'a': 0.9, 'b': 0.1});"
        f"assert camdf.cold_start({scores!r}).decide(ranking, camdf.Payoff(0.2)).names(ranking) == ['a'];"
        "assert not {'sklearn', 'scipy', 'camdf.datasets', 'camdf.lab'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_shipped_priors_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "fit_priors.py", tmp_path], check=True)
    for scores in KINDS:
        again = prior_from(json.loads((tmp_path / FILE.format(scores)).read_bytes()))
        for name, part in vars(shipped_prior(scores)).items():
            np.testing.assert_allclose(vars(again)[name], part, rtol=1e-7, atol=1e-9, err_msg=name)


@kinds
def test_saving_and_loading_changes_nothing(scores: str) -> None:
    text = to_json(cold_start(scores))
    assert to_json(from_json(text.encode())) == text


def test_scores_are_similarities_unless_they_are_said_to_be_probabilities() -> None:
    assert to_json(cold_start()) == to_json(cold_start("similarity")) != to_json(cold_start("probability"))
    with pytest.raises(ValueError, match=r"must be one of similarity, probability\. Got 'bm25' instead"):
        cold_start("bm25")


def test_a_probability_is_read_by_itself_and_a_similarity_with_its_list() -> None:
    alone, among = ([{"a": 0.6, "b": 0.5, **more}] for more in ({}, {"c": 0.5, "d": 0.4}))
    for scores, same in (("probability", True), ("similarity", False)):
        chances = [
            cold_start(scores).model_.probabilities(Rankings.from_scores(lists))[0][0, 0] for lists in (alone, among)
        ]
        assert (chances[0] == chances[1]) == same


@pytest.mark.parametrize("payoff", PAYOFFS, ids=str)
def test_the_names_of_tools_do_not_matter(payoff: Payoff) -> None:
    rankings = datasets.load("mcp-atlas", "minilm").rankings
    renamed = replace(rankings, catalogue=tuple(f"tool {i}" for i in range(len(rankings.catalogue))))
    decided = [cold_start().decide(each, payoff).acquired for each in (rankings, renamed)]
    assert decided[0].any()
    assert np.array_equal(decided[0], decided[1])


def test_dearer_tools_are_never_taken_in_greater_number() -> None:
    rankings = datasets.load("retail").rankings
    for value in ("exact", "partial"):
        taken = [cold_start().decide(rankings, Payoff(p, value)).acquired.sum(axis=1) for p in (0.0, 0.02, 0.12, 0.5)]
        assert all((cheap >= dear).all() for cheap, dear in pairwise(taken))
        assert (taken[0] > taken[-1]).any()


def test_a_ranking_counts_as_much_as_another_however_many_tasks_it_has() -> None:
    few, many = sample_tasks(1, tasks=40), sample_tasks(2, tasks=400)
    twice = many.take(np.repeat(np.arange(400), 2))
    one, other = (pooled([CandidateRows.of(few), CandidateRows.of(each)], "similarity")[0] for each in (many, twice))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    assert not np.allclose(one, pooled([CandidateRows.of(many)], "similarity")[0], rtol=0, atol=1e-3)


def test_what_lists_lack_is_averaged_over_rankings() -> None:
    records = [{"scores": {"a": 0.9, "b": 0.2}, "required": ["a"]}, {"scores": {"a": 0.3, "b": 0.2}, "required": ["b"]}]
    lacking = [{**record, "required": [*record["required"], "x"]} for record in records[:1]] + records[1:]
    both = [CandidateRows.of(LoggedTasks.from_records(each)) for each in (records, lacking)]
    assert missing_shares(both) == pytest.approx([0.75, 0.25])
    model = from_prior(replace(shipped_prior("similarity"), missing=(0.75, 0.25)), "similarity").model_
    assert 1 / (1 + np.exp(-model.holds[0])) == pytest.approx(0.75)


@pytest.mark.parametrize("domain", ["retail", "mcp-atlas", "bfcl-multi-turn"])
@pytest.mark.parametrize("tools", [0.5, 2.0, 1000.0])
def test_told_how_many_tools_a_task_calls_it_expects_so_many(domain: str, tools: float) -> None:
    rankings = datasets.load(domain, "minilm").rankings
    policy = cold_start(tools_per_task=tools, rankings=rankings)
    expected = policy.probabilities(rankings)[0].sum()
    assert expected == pytest.approx(np.minimum(tools, 0.95 * rankings.lengths).sum(), rel=1e-5)


def test_the_number_of_tools_and_the_rankings_go_together() -> None:
    rankings = datasets.load("retail").rankings
    for wrong in ({"tools_per_task": 2.0}, {"rankings": rankings}):
        with pytest.raises(UsageError, match="Give both, or neither"):
            cold_start(**wrong)
    for number in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="must be positive"):
            cold_start(tools_per_task=number, rankings=rankings)


def test_the_stored_table_has_every_cell(rows: Rows) -> None:
    expected = [
        (domain.name, scorer, *regime)
        for domain in DOMAINS
        for scorer in domain.scorers
        for regime in Sweep(domain.name, scorer).regimes
    ]
    assert [tuple(row[name] for name in PLACE) for row in rows] == expected
    assert len(rows) == 438 + 504


def test_the_stored_shares_are_the_ones_that_the_documents_name(rows: Rows) -> None:
    found = {
        (look, policy): [round(share, 3) for share in shares_won(of_look(rows, look), policy)]
        for look in LOOKS
        for policy in (COLD, TOLD)
    }
    assert found == {
        ("shipped", COLD): [0.84, 0.518],
        ("shipped", TOLD): [0.903, 0.637],
        ("second look", COLD): [0.862, 0.571],
        ("second look", TOLD): [0.915, 0.675],
    }
    page = " ".join((ROOT / "docs" / "policies.md").read_text(encoding="utf-8").split())
    assert "84% of comparisons and all six at once in 52% of settings" in page
    assert "86% and 57% on eight domains" in page
    assert "90% and 64%, and 92% and 68%" in page
    assert shares_won(rows, SIMILAR) < shares_won(rows) < shares_won(rows, INFORMED)


def test_it_pays_more_on_average_than_every_constant(rows: Rows) -> None:
    assert (margins_over_constants(rows).mean(axis=0) > 0.15).all()


def test_a_tie_is_not_won() -> None:
    row = {COLD: 0.5, **dict.fromkeys(CONSTANTS, 0.4)}
    assert shares_won([row]) == (1.0, 1.0)
    assert shares_won([{**row, "top-k, 5": 0.5}]) == (5 / 6, 0.0)


def test_a_left_out_domain_gives_the_stored_payoffs_again_and_a_changed_table_is_noticed(rows: Rows) -> None:
    def never(jobs: object, /) -> dict[object, object]:
        raise AssertionError("no job is replayed")

    assert STUDY.recheck(rows, 0, never) == []  # type: ignore[arg-type]
    wrong = [{**row, COLD: row[COLD] + 1e-4} for row in rows]
    found = STUDY.recheck(wrong, 0, never)  # type: ignore[arg-type]
    assert found
    assert all("cold start" in line for line in found)


def test_an_empty_list_gets_nothing_beside_one_that_gets_something() -> None:
    decided = cold_start().decide(Rankings.from_scores([{"a": 0.9, "b": 0.3}, {}]), Payoff(0.05)).acquired
    assert decided.any(axis=1).tolist() == [True, False]
