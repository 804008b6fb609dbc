"""Wrong labels in the lab: what a noisy sweep learns from, and what the stored studies say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from camdf.evaluation.replay import Outcomes
from camdf.policies.registry import DEFAULT
from camdf_lab.beyond import noise, noise_estimate
from camdf_lab.beyond.batches import BATCHES, of_batch
from camdf_lab.beyond.frontier import PAPER, TRUSTING, Sweep
from camdf_lab.beyond.noise import MOST_BELOW, NOISE, THRESHOLD, by_noise
from camdf_lab.paper.cells import Cell
from camdf_lab.regimes import Regime
from camdf_lab.stored import stored
from camdf_lab.study import differing, mean_of, of_pair, pairs_of

ROOT = Path(__file__).parents[1]


NOISY = Sweep("airline", "claude", splits=4, noise=0.1, policies=noise.NOISE_COMPARED, texts=False)


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


def test_the_stored_grid_says_that_the_default_keeps_to_what_was_asked_under_noise() -> None:
    """At every noise; trusting its labels it does so on clean ones alone, where doubting costs next to nothing."""
    rows = stored(ROOT / "results", "noise")
    assert len(rows) == 636 * len(NOISE) + 696
    found = by_noise(of_batch(rows, "shipped"))
    assert [round(found[each]["default below"], 3) for each in NOISE] == [0.005, 0.017, 0.009, 0.013]
    assert [round(found[each]["trusting below"], 3) for each in NOISE] == [0.005, 0.041, 0.057, 0.124]
    for each in (*found.values(), *by_noise(of_batch(rows, "later")).values()):
        assert each["default below"] <= MOST_BELOW
        assert each["default"] > 0.09
        assert each["trusting"] > 0.015 > each["camdf"]
        assert each["mended"] > -0.0013
        assert each["trusting below"] < each["camdf below"]


def test_on_clean_labels_doubting_costs_at_most_what_was_asked() -> None:
    clean = [row for row in stored(ROOT / "results", "noise") if not row["noise"]]
    gained = [mean_of(of_pair(clean, pair), "default_minus_trusting") for pair in pairs_of(clean)]
    assert min(gained) >= -noise.MOST_COST


def test_the_stored_check_finds_a_bound_that_nearly_always_holds_and_flips_that_were_put_in() -> None:
    rows = stored(ROOT / "results", "noise_estimate")
    assert len(pairs_of(rows)) == 22 + 21
    for batch in BATCHES:
        for injected, found in noise_estimate.by_injected_share(of_batch(rows, batch)).items():
            assert found["holds"] > 0.88, (batch, injected)
            assert found["believed error"] < 0.056, (batch, injected)


def test_a_changed_estimate_is_noticed() -> None:
    rows = [dict(row) for row in stored(ROOT / "results", "noise_estimate")]
    place = ("domain", "scorer", "injected", "draw")
    assert differing(rows, rows[:40], place, ("rate", "at_most")) == []
    changed = [{**row, "rate": row["rate"] + 0.001} for row in rows[:1]]
    assert "rate: stored" in differing(rows, changed, place, ("rate", "at_most"))[0]
    assert "stored nothing" in differing(rows[1:], rows[:1], place, ("rate",))[0]
