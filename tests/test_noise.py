"""Wrong labels: what a noisy sweep learns from, the estimate of label noise, and what the stored studies say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import camdf
from camdf import ExpectedPayoffBySet, LoggedTasks, Payoff, datasets
from camdf.cli import main
from camdf.evaluation.replay import Outcomes, Regime
from camdf.lab.beyond import noise, noise_estimate
from camdf.lab.beyond.frontier import PAPER, TRUSTING, Sweep
from camdf.lab.beyond.looks import LOOKS, of_look
from camdf.lab.beyond.noise import MOST_BELOW, NOISE, THRESHOLD, by_noise
from camdf.lab.flips import flipped
from camdf.lab.paper.cells import Cell
from camdf.lab.stored import stored
from camdf.lab.study import differing, of_pair, pairs_of
from camdf.models.label_noise import FEWEST_LABELS, LabelNoise, estimate_label_noise, upper_end
from camdf.models.warm_start import FEWEST_TASKS
from camdf.policies.artifact import to_json
from camdf.policies.by_set import MOST_NOISE
from camdf.policies.registry import DEFAULT

ROOT = Path(__file__).parents[1]
NOISY = Sweep("airline", "claude", splits=4, noise=0.1, policies=noise.COMPARED, texts=False)


def sure_world(tasks: int, noise: float) -> LoggedTasks:
    """Ten tools a task, required where the score is above 0.5, with some labels flipped."""
    rng = np.random.default_rng(0)
    records = []
    for number in range(tasks):
        scores = {f"t{j}": float(score) for j, score in enumerate(rng.random(10))}
        records.append(
            {"task_id": str(number), "scores": scores, "required": [t for t, s in scores.items() if s > 0.5]}
        )
    return flipped(LoggedTasks.from_records(records), noise, rng)


@pytest.fixture(scope="module")
def swept() -> Outcomes:
    return NOISY.run()


def test_a_noisy_sweep_pays_what_a_noisy_cell_of_the_lab_pays(swept: Outcomes) -> None:
    """But for the default, whose priors have not seen the domain of a sweep."""
    same = (THRESHOLD, PAPER)
    cell = Cell("airline", "claude", same, "exact", 0.12, 1.0, noise=0.1, splits=NOISY.splits).run()
    for name in same:
        assert np.allclose(swept.values[Regime("exact", 0.12, 1.0).name(name)], cell.values[name])


def test_a_row_has_the_margins_of_its_means_and_their_intervals(swept: Outcomes) -> None:
    for row in noise.rows_of(NOISY, swept):
        assert row["noise"] == 0.1
        assert row["default_minus_score_per_cost"] == pytest.approx(row[DEFAULT] - row[THRESHOLD])
        assert row["camdf_minus_score_per_cost"] == pytest.approx(row[PAPER] - row[THRESHOLD])
        assert row["trusting_minus_score_per_cost"] == pytest.approx(row[TRUSTING] - row[THRESHOLD])
        assert row["default_minus_trusting"] == pytest.approx(row[DEFAULT] - row[TRUSTING])
        for end in ("", "_paper", "_trusting", "_mended"):
            assert row[f"lo{end}"] <= row[f"hi{end}"]


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2])
def test_the_estimate_finds_the_flips_of_a_world_without_ambiguity(rate: float) -> None:
    found = estimate_label_noise(sure_world(200, rate))
    assert found.rate == pytest.approx(rate, abs=0.03)
    assert found.rate <= found.at_most < found.rate + 0.08
    assert found.labels >= FEWEST_LABELS


def test_more_flips_are_never_estimated_as_fewer() -> None:
    logged = datasets.load("telecom", "claude")
    rates = [
        estimate_label_noise(flipped(logged, share, np.random.default_rng(1))).rate for share in (0.0, 0.05, 0.1, 0.2)
    ]
    assert rates == sorted(rates)


def test_ambiguity_looks_like_noise_so_the_estimate_is_an_upper_bound() -> None:
    hopeless = sure_world(150, 0.5)
    assert 0.3 < estimate_label_noise(hopeless).rate < 0.6


def test_without_labels_the_estimate_knows_nothing() -> None:
    empty = LoggedTasks.from_records([{"scores": {}, "required": []}, {"scores": {}, "required": []}])
    assert estimate_label_noise(empty) == LabelNoise(0.0, 1.0, 0)


def test_tasks_of_one_group_say_nothing_of_noise() -> None:
    one = replace(sure_world(40, 0.2), groups=np.full(40, "g"))
    assert estimate_label_noise(one) == LabelNoise(0.0, 1.0, 0)
    assert ExpectedPayoffBySet().fit(one, Payoff(0.05)).label_noise_ == 0


def test_too_few_tasks_are_taken_as_they_are_labelled() -> None:
    few, enough = (ExpectedPayoffBySet().fit(sure_world(n, 0.2), Payoff(0.05)) for n in (FEWEST_TASKS - 1, 60))
    assert few.label_noise_ == 0 < enough.label_noise_


def test_a_share_lies_below_its_upper_end_which_falls_with_the_number_of_cases() -> None:
    for share in (0.0, 0.1, 0.5):
        assert 1 > upper_end(share, 10) > upper_end(share, 1000) > share


def test_fit_writes_the_estimate_into_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged = datasets.load("airline", "claude", dispersion=1.0)
    datasets.write_jsonl(logged, tmp_path / "logged.jsonl")
    output = tmp_path / "policy.json"
    fit = ["fit", str(tmp_path / "logged.jsonl"), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4"]
    assert main([*fit, "--policy", "fixed-k"]) == 0
    estimate = estimate_label_noise(logged)
    assert json.loads(output.read_text())["training"]["label_noise"] == estimate.rate
    assert f"at most about {estimate.rate:.1%} of labels look wrong" in capsys.readouterr().out


def test_the_stored_grid_says_that_the_default_keeps_to_what_was_asked_under_noise() -> None:
    """At every noise; trusting its labels it does so on clean ones alone, where doubting costs next to nothing."""
    rows = stored(ROOT / "results", "noise")
    assert len(rows) == 636 * len(NOISE) + 696
    found = by_noise(of_look(rows, "shipped"))
    assert [round(found[each]["default below"], 3) for each in NOISE] == [0.005, 0.019, 0.014, 0.013]
    assert [round(found[each]["trusting below"], 3) for each in NOISE] == [0.005, 0.039, 0.049, 0.127]
    for each in (*found.values(), *by_noise(of_look(rows, "second look")).values()):
        assert each["default below"] <= MOST_BELOW
        assert each["default"] > 0.09
        assert each["trusting"] > 0.015 > each["camdf"]
        assert each["mended"] > -0.0013
        assert each["trusting below"] < each["camdf below"]


def test_on_clean_labels_doubting_costs_at_most_what_was_asked_but_in_one_ranking() -> None:
    clean = [row for row in stored(ROOT / "results", "noise") if not row["noise"]]
    lost = {
        pair: float(np.mean([row["default_minus_trusting"] for row in of_pair(clean, pair)]))
        for pair in pairs_of(clean)
    }
    assert [pair for pair, each in lost.items() if each < -noise.MOST_COST] == [("toolsandbox", "bm25")]


def test_the_stored_check_finds_a_bound_that_nearly_always_holds_and_flips_that_were_put_in() -> None:
    rows = stored(ROOT / "results", "noise_estimate")
    assert len(pairs_of(rows)) == 22 + 21
    for look in LOOKS:
        for injected, found in noise_estimate.by_injected_share(of_look(rows, look)).items():
            assert found["holds"] > 0.88, (look, injected)
            assert found["believed error"] < 0.056, (look, injected)


def test_a_changed_estimate_is_noticed() -> None:
    rows = [dict(row) for row in stored(ROOT / "results", "noise_estimate")]
    place = ("domain", "scorer", "injected", "draw")
    assert differing(rows, rows[:40], place, ("rate", "at_most")) == []
    changed = [{**row, "rate": row["rate"] + 0.001} for row in rows[:1]]
    assert "rate: stored" in differing(rows, changed, place, ("rate", "at_most"))[0]
    assert "stored nothing" in differing(rows[1:], rows[:1], place, ("rate",))[0]


def test_where_no_label_is_contradicted_nothing_is_corrected() -> None:
    logged, payoff = datasets.load("telecom", "claude"), Payoff(0.12)
    policy = ExpectedPayoffBySet().fit(logged, payoff)
    assert policy.label_noise_ == 0
    learned = policy.model_.probabilities(logged.rankings)
    for found, expected in zip(policy.probabilities(logged.rankings), learned, strict=True):
        assert np.array_equal(found, expected)


def test_after_flipped_labels_the_default_pays_more_than_one_that_trusts_them() -> None:
    flips, clean, payoff = sure_world(200, 0.2), sure_world(200, 0.0), Payoff(0.05)
    default, trusting = (
        payoff.of(clean, policy.fit(flips, payoff).decide(clean.rankings, payoff).acquired).mean()
        for policy in (ExpectedPayoffBySet(), ExpectedPayoffBySet(trust_labels=True))
    )
    assert default > trusting + 0.1


@pytest.mark.parametrize("rate", [-0.1, MOST_NOISE + 0.01])
def test_an_impossible_noise_in_a_file_is_refused(rate: float) -> None:
    policy = ExpectedPayoffBySet().fit(sure_world(30, 0.1), Payoff(0.05))
    policy.label_noise_ = rate
    with pytest.raises(camdf.ArtifactError, match=r"must lie between 0 and 0\.4"):
        to_json(policy)
