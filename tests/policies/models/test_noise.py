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
from camdf.policies.artifact import to_json
from camdf.policies.by_set import MOST_NOISE
from camdf.policies.models.label_noise import FEWEST_LABELS, LabelNoise, estimate_label_noise, upper_end
from camdf.policies.models.warm_start import FEWEST_TASKS
from camdf_lab import domains
from camdf_lab.flips import flipped
from saying import refuses


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


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2])
def test_the_estimate_finds_the_flips_of_a_world_without_ambiguity(rate: float) -> None:
    found = estimate_label_noise(sure_world(200, rate))
    assert found.rate == pytest.approx(rate, abs=0.03)
    assert found.rate <= found.at_most < found.rate + 0.08
    assert found.labels >= FEWEST_LABELS


def test_more_flips_are_never_estimated_as_fewer() -> None:
    logged = domains.load("telecom", "claude")
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


def test_too_few_tasks_are_taken_as_they_are_labeled() -> None:
    few, enough = (ExpectedPayoffBySet().fit(sure_world(n, 0.2), Payoff(0.05)) for n in (FEWEST_TASKS - 1, 60))
    assert few.label_noise_ == 0 < enough.label_noise_


def test_a_share_lies_below_its_upper_end_which_falls_with_the_number_of_cases() -> None:
    for share in (0.0, 0.1, 0.5):
        assert 1 > upper_end(share, 10) > upper_end(share, 1000) > share


def test_fit_writes_the_estimate_into_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged = domains.load("airline", "claude", dispersion=1.0)
    datasets.write_jsonl(logged, tmp_path / "logged.jsonl")
    output = tmp_path / "policy.json"
    fit = ["fit", str(tmp_path / "logged.jsonl"), "-o", str(output), "--cost-pressure", "0.12", "--splits", "4"]
    assert main([*fit, "--policy", "fixed-k"]) == 0
    estimate = estimate_label_noise(logged)
    assert json.loads(output.read_text())["training"]["label_noise"] == estimate.rate
    assert f"at most about {estimate.rate:.1%} of labels look wrong" in capsys.readouterr().out


def test_where_no_label_is_contradicted_nothing_is_corrected() -> None:
    logged, payoff = domains.load("telecom", "claude"), Payoff(0.12)
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
    with refuses(camdf.ArtifactError, "label_noise_", must=f"0 to {MOST_NOISE}", got=rate):
        to_json(policy)
