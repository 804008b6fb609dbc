"""Every table of the paper: its printed numbers, its cells, its verdicts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from camdf.core.rankings import Strings
from camdf.evaluation.replay import MEASURES, ORACLE, Outcomes
from camdf_lab import domains
from camdf_lab.jobs import run_jobs
from camdf_lab.paper import NOT_REPLICATED, TABLES
from camdf_lab.paper.contestants import CONTESTANTS
from camdf_lab.paper.entries import Printed, levels
from camdf_lab.paper.figure import Figure, figures
from camdf_lab.paper.markup import number_text
from camdf_lab.paper.protocols import retail
from camdf_lab.paper.quantities import (
    Difference,
    ExtremeOfCells,
    Mean,
    NotMeasured,
    ShareOfCells,
    StandardError,
    WinRate,
)
from camdf_lab.paper.table import Entry, Table, fill, judge
from camdf_lab.paper.tables import (
    ablations,
    atlas,
    cost_permutations,
    cross_scorer,
    dense_grid,
    grid,
    label_noise,
    lite_coefficients,
    main,
    metatool,
    objective,
    ordering,
    other_domains,
    partial_payoff,
    payoff_by_depth,
    residual_correction,
    retail_absolute,
    score_quality,
    self_selection,
    training_free,
    tuning_controls,
)

BLOCKS: dict[str, Sequence[Printed]] = {
    "main": [main.PAPER],
    "retail-absolute": [retail_absolute.PAPER],
    "payoff-by-depth": [payoff_by_depth.PAPER],
    "grid": [grid.PAPER],
    "dense-grid": [dense_grid.PAPER],
    "score-quality": [score_quality.PAPER],
    "cross-scorer": [cross_scorer.PAPER],
    "cross-scorer-matched": [cross_scorer.PAPER_MATCHED],
    "partial-payoff": [partial_payoff.PAPER],
    "ablations": [ablations.PAPER],
    "objective": [objective.PAPER],
    "ordering": [ordering.PAPER],
    "training-free": [training_free.PAPER],
    "tuning-controls": [tuning_controls.PAPER],
    "label-noise": [label_noise.PAPER],
    "cost-permutations": [cost_permutations.PAPER],
    "lite-coefficients": [lite_coefficients.PAPER],
    "residual-correction": [residual_correction.PAPER],
    "self-selection": [self_selection.PAPER],
    "workbench": [other_domains.WORKBENCH],
    "tau2-airline": [other_domains.AIRLINE],
    "tau2-telecom": [other_domains.TELECOM],
    "atlas-unit": [atlas.UNIT_LEVELS, atlas.UNIT_DIFFERENCES, atlas.UNIT_WINS],
    "atlas-vectors": [atlas.VECTORS, atlas.VECTORS_POSITIVE],
    "atlas-random": [atlas.RANDOM],
    "metatool": [
        {(row, scorer): figure for (row, _), figure in metatool.PAPER.items() for scorer in ("minilm", "claude")}
    ],
}
"""The paper's numbers behind each table; the other tables repeat one of these."""

LABELS = (
    *("main", "retailabs", "scores", "partial", "cross", "costaware", "ablation", "order", "trainfree", "tuning"),
    *("griddense", "noise", "coef", "atlas", "atlashet", "athet", "grid", "workbench", "tau2", "e2e", "e2eusim"),
)
"""Every table of results in the paper, by its label."""

SPOT_CHECKS = [
    ("main", "fixed-k", "d=0", 0.277),
    ("main", "predict-then-threshold", "Telecom", -0.173),
    ("main", "cam-df-lite", "MCP-Atlas", 0.226),
    ("main", "cam-df", "Airline", 0.483),
    ("retail-absolute", "cam-df", "SE, d=1", 0.012),
    ("retail-absolute", "fixed-k", "waste", 1.31),
    ("retail-absolute", "prefix-oracle", "sufficiency", 1.0),
    ("payoff-by-depth", "best common depth", "payoff", 0.300),
    ("payoff-by-depth", "cam-df", "tools", 4.34),
    ("grid", "fixed-k at 0.20", "d=1", -0.018),
    ("grid", "score-per-cost-threshold at 0.20", "wins, d=1.5", 0.88),
    ("grid", "aggregate-only-df at 0.12", "d=1.5", 0.047),
    ("dense-grid", "predict-then-threshold, d=2", "lambda 0.20", 0.208),
    ("dense-grid", "score-per-cost-threshold, d=2", "lambda 0.08", -0.025),
    ("score-quality", "paper: retail/qwen-max", "cover rank", 3.97),
    ("cross-scorer", "paper: qwen-turbo", "predict-then-threshold, d=1", 0.063),
    ("cross-scorer-matched", "paper: qwen-plus (conservative)", "predict-then-threshold, d=1", 0.021),
    ("cross-scorer-matched", "paper: deepseek-v3", "score-per-cost-threshold, d=1", 0.122),
    ("partial-payoff", "cam-df-lite", "partial, d=1", 0.421),
    ("ablations", "cam-df, uniform weights at 0.05", "d=1.5", 0.077),
    ("ablations", "cam-df, no identity - predict-then-threshold", "d=1", 0.035),
    ("objective", "cam-df - gap-regression", "d=1.5", -0.006),
    ("ordering", "lambda 0.20", "d=1.5", 0.053),
    ("ordering", "prefix-oracle, ratio order", "d=1.5", 0.385),
    ("training-free", "plug-in at 0.12", "d=1", 0.071),
    ("training-free", "score-mass at 0.20", "d=1.5", 0.212),
    ("tuning-controls", "cam-df - predict-then-threshold, fixed 0.5", "d=1.5", 0.083),
    ("label-noise", "noise 0.1, d=1", "score-per-cost-threshold", 0.261),
    ("cost-permutations", "predict-then-threshold", "share clearly positive", 0.85),
    ("lite-coefficients", "next_high_cost", "d=1", -0.57),
    ("residual-correction", "residual-corrected", "d=1", 0.289),
    ("self-selection", "payoff", "d=1", -0.121),
    ("workbench", "exact: cam-df, cost-blind", "d=1.5", 0.042),
    ("workbench", "partial: cam-df, cost-blind", "d=1", 0.007),
    ("tau2-airline", "exact: score-per-cost-threshold", "d=1", -0.033),
    ("tau2-telecom", "exact: score-per-cost-threshold", "d=1.5", 0.085),
    ("atlas-unit", "cam-df-lite - score-threshold", "lambda 0.12", 0.0056),
    ("atlas-unit", "acquire-all", "lambda 0.20", -2.058),
    ("atlas-vectors", "score-per-cost-threshold", "lambda 0.20", -0.0106),
    ("atlas-vectors", "score-per-cost-threshold", "positive, lambda 0.20", 0.1),
    ("atlas-random", "partial: score-per-cost-threshold at 0.20", "d=1.5", -0.042),
    ("metatool", "predict-then-threshold", "minilm", 0.026),
]


def entry_of(table: Table, row: str, column: str) -> Entry:
    (found,) = (entry for entry in table.entries if (entry.row, entry.column) == (row, column))
    return found


def outcomes(values: dict[str, Sequence[float]], groups: Sequence[str] | None = None) -> Outcomes:
    """Tasks with these payoffs, every other measure zero."""
    count = len(next(iter(values.values())))
    ids: Strings = np.array([str(i) for i in range(count)])
    tables = {
        name: np.column_stack([payoffs, np.zeros((count, len(MEASURES) - 1))]) for name, payoffs in values.items()
    }
    pooled = {name: np.array(payoffs, dtype=np.float64) for name, payoffs in values.items()}
    return Outcomes(ids, ids if groups is None else np.array(groups), tables, pooled)


# Declarations.


def test_every_table_is_listed_under_its_own_name_and_says_what_differs() -> None:
    for name, table in TABLES.items():
        assert table.name == name
        assert table.title
        assert table.where.startswith(("tab:", "fig:", "app:"))
        assert table.differs.endswith(".")


def test_every_table_and_figure_of_results_is_declared_or_has_a_reason() -> None:
    told = " ".join([*(table.where for table in TABLES.values()), *NOT_REPLICATED])
    assert set(re.findall(r"tab:\w+", told)) == {f"tab:{label}" for label in LABELS}


@pytest.mark.parametrize("name", TABLES)
def test_no_two_entries_share_a_place(name: str) -> None:
    places = [(entry.row, entry.column) for entry in TABLES[name].entries]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", BLOCKS)
def test_every_printed_number_stands_beside_an_entry(name: str) -> None:
    standing = {(entry.row, entry.column): entry.paper for entry in TABLES[name].entries}
    for block in BLOCKS[name]:
        for place, figure in block.items():
            found = standing[place]
            assert found is not None
            assert found.value == figure.value


@pytest.mark.parametrize(("table", "row", "column", "value"), SPOT_CHECKS)
def test_printed_numbers_are_the_papers(table: str, row: str, column: str, value: float) -> None:
    paper = entry_of(TABLES[table], row, column).paper
    assert paper is not None
    assert paper.value == value


def test_printed_intervals_and_marks_are_the_papers() -> None:
    assert grid.PAPER["keyword-rule at 0.12", "d=0"] == Figure(0.054, -0.009, 0.119, False)
    assert cross_scorer.PAPER["paper: qwen-plus", "predict-then-threshold, d=0"] == Figure(0.046, 0.006, 0.089, True)
    assert atlas.UNIT_DIFFERENCES["cam-df-lite - predict-then-threshold", "lambda 0.06"] == Figure(
        0.0052, 0.0010, 0.0097, True
    )
    assert other_domains.WORKBENCH["exact: score-per-cost-threshold", "d=0"] == Figure(-0.004, clear=False)
    assert sum(bool(figure.clear) for (row, _), figure in dense_grid.PAPER.items() if row.startswith("predict")) == 24
    assert sum(bool(figure.clear) for figure in main.PAPER.values()) == 21


def test_tables_that_repeat_another_hold_the_same_numbers() -> None:
    for first, again in [
        ("main", "main-minilm"),
        ("grid", "grid-minilm"),
        ("ablations", "ablations-brief"),
        ("workbench", "workbench-grouped"),
    ]:
        assert [entry.paper for entry in TABLES[first].entries] == [entry.paper for entry in TABLES[again].entries]


def test_judged_differences_of_the_main_table_follow_its_marks() -> None:
    entry = entry_of(TABLES["main"], "fixed-k", "WorkBench")
    assert entry.contrast == Difference("cam-df", "fixed-k")
    assert entry.paper_contrast is not None
    assert entry.paper_contrast.value == pytest.approx(0.067)
    assert entry.paper_contrast.clear
    assert entry_of(TABLES["main"], "predict-then-threshold", "MCP-Atlas").contrast == Difference(
        "cam-df-lite, cost-augmented", "predict-then-threshold, cost-augmented"
    )


def test_no_number_of_the_paper_is_judged_twice_in_a_table() -> None:
    assert (
        entry_of(TABLES["workbench"], "exact: cam-df, no identity - cam-df, no identity, cost-blind", "d=1").paper
        is None
    )


# Cells.

CELLS = list(dict.fromkeys(cell for table in TABLES.values() for cell in table.cells))


def test_cells_name_what_ships() -> None:
    for cell in CELLS:
        assert cell.scorer in domains.scorers(cell.domain)
        assert set(cell.policies) <= set(CONTESTANTS)


def test_cells_that_differ_in_policies_only_are_shared() -> None:
    costly = [replace(cell, policies=()) for cell in CELLS]
    assert len(costly) == len(set(costly))


def test_entries_measure_policies_of_their_cells() -> None:
    for table in TABLES.values():
        for entry in table.entries:
            named = {
                getattr(quantity, field)
                for quantity in (entry.quantity, entry.contrast)
                for field in ("policy", "baseline")
                if hasattr(quantity, field)
            }
            for cell in entry.cells:
                assert named <= {*cell.policies, ORACLE}, (table.name, entry.row, entry.column)


def test_grouped_tables_split_and_resample_groups() -> None:
    for name in ("workbench-grouped", "telecom-grouped"):
        for entry in TABLES[name].entries:
            assert isinstance(entry.quantity, Difference)
            assert entry.quantity.by_group
            assert all(cell.grouped for cell in entry.cells)


# Figures and verdicts.


def test_figures_reads_stars_intervals_errors_and_dashes() -> None:
    read = figures("a | .5* | - | +.64 (.01)\n\nb | -.1 [-.2, -.000] | .1 [+.000, .2] | 2", ("x", "y", "z"))
    assert read["a", "x"] == Figure(0.5, clear=True)
    assert ("a", "y") not in read
    assert read["a", "z"].low == pytest.approx(0.6204)
    assert read["b", "x"].clear is True
    assert read["b", "y"].clear is False
    assert read["b", "z"] == Figure(2.0)


def test_figures_names_what_it_cannot_read() -> None:
    with pytest.raises(ValueError, match=r"Got '\.5\?' instead"):
        figures("a | .5?", ("x",))
    with pytest.raises(ValueError, match="shorter"):
        figures("a | .5", ("x", "y"))


CLEAR = Figure(0.1, clear=True)
TIE = Figure(0.1, clear=False)
BELOW = Figure(-0.1, clear=True)


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (CLEAR, CLEAR, "replicates"),
        (CLEAR, BELOW, "differs"),
        (TIE, TIE, "unclear in both"),
        (TIE, Figure(-0.1, clear=False), "unclear in both"),
        (TIE, CLEAR, "same direction"),
        (TIE, BELOW, "differs"),
        (CLEAR, TIE, "same direction"),
        (BELOW, TIE, "differs"),
        (CLEAR, Figure(0.2), "same direction"),
        (BELOW, Figure(0.2), "differs"),
        (TIE, Figure(0.2), "cannot be compared"),
        (Figure(0.1), CLEAR, "cannot be compared"),
        (Figure(math.nan), CLEAR, "cannot be compared"),
        (CLEAR, None, "cannot be compared"),
    ],
)
def test_judge(ours: Figure, paper: Figure | None, verdict: str) -> None:
    assert judge(ours, paper)[0] == verdict


def test_a_figure_that_was_not_measured_prints_as_a_dash() -> None:
    assert number_text(NotMeasured().of([])) == "-"


def test_levels_judge_margins_but_neither_the_leader_nor_the_oracle() -> None:
    paper = figures("a | .1*\nlead | .3\ntop | .5", ("x",), starred=True)
    rows = {"a": "fixed-k", "lead": "cam-df", "top": ORACLE}
    baseline, leader, oracle = levels(rows, {"x": retail()}, paper, "cam-df")
    assert baseline.paper == Figure(0.1)
    assert baseline.contrast == Difference("cam-df", "fixed-k")
    assert baseline.paper_contrast is not None
    assert baseline.paper_contrast.clear
    assert leader.contrast is None
    assert oracle.contrast is None


# Quantities.

ONE = outcomes({"a": [1.0, 1.0, 0.0, math.nan], "b": [0.0, 0.5, 0.0, math.nan]}, groups=["x", "x", "y", "y"])
OTHER = outcomes({"a": [0.0, 0.0, 0.0, 0.0], "b": [0.5, 0.0, 0.0, 0.0]}, groups=["x", "x", "y", "y"])


def test_difference_pools_cells_task_by_task_and_leaves_out_untested_tasks() -> None:
    assert Difference("a", "b").of([ONE]).value == pytest.approx(0.5)
    assert Difference("a", "b").of([ONE, OTHER]).value == pytest.approx((0.25 + 0.25 + 0.0) / 3)


def test_difference_by_group_resamples_groups() -> None:
    payoffs = np.repeat([1.0, -0.2], 50)
    replayed = outcomes({"a": payoffs.tolist(), "b": [0.0] * 100}, groups=["x"] * 50 + ["y"] * 50)
    by_task = Difference("a", "b").of([replayed])
    by_group = Difference("a", "b", by_group=True).of([replayed])
    assert by_task.value == by_group.value == pytest.approx(0.4)
    assert by_task.clear
    assert not by_group.clear
    assert (by_group.low, by_group.high) == pytest.approx((-0.2, 1.0))


def test_shares_extremes_wins_and_errors() -> None:
    cells = [ONE, OTHER]
    assert ShareOfCells("a", "b").of(cells).value == 0.5
    assert ExtremeOfCells("a", "b", "highest").of(cells).value == pytest.approx(0.5)
    assert ExtremeOfCells("a", "b", "lowest").of(cells).value == pytest.approx(-0.125)
    assert WinRate("a", "b").of([ONE]).value == pytest.approx(2 / 3)
    assert StandardError("b").of([OTHER]).value == pytest.approx(0.125)


# Numbers.


def value_of(table: str, row: str, column: str) -> float:
    return entry_of(TABLES[table], row, column).quantity.of([]).value


def test_what_needs_no_replay() -> None:
    assert value_of("score-quality", "retail/claude", "AUC") == pytest.approx(0.984, abs=5e-4)
    assert value_of("payoff-by-depth", "best common depth", "tools") == 5
    assert value_of("payoff-by-depth", "depth 7 for all", "payoff") == pytest.approx(1 - 7 * 0.12)
    assert value_of("self-selection", "payoff", "d=0") == pytest.approx(0.444, abs=5e-4)
    assert value_of("ordering", "prefix-oracle, difference", "d=1.5") > 0


def test_lite_coefficients_of_equal_columns_are_equal_and_of_constant_ones_zero() -> None:
    at_unit_costs = {row: value_of("lite-coefficients", row, "d=0") for row in TABLES["lite-coefficients"].rows}
    assert at_unit_costs["next_score"] == at_unit_costs["next_score_per_cost"] > 0
    assert at_unit_costs["progress"] == pytest.approx(at_unit_costs["selected_cost_share"])
    assert at_unit_costs["priced_next_cost"] == at_unit_costs["next_high_cost"] == 0


def test_a_small_table_runs_end_to_end() -> None:
    declared = TABLES["tau2-airline"]
    entries = [
        replace(entry, cells=tuple(replace(cell, splits=2) for cell in entry.cells)) for entry in declared.entries
    ]
    entries.append(Entry("level", "d=0", entries[0].cells, Mean(ORACLE)))
    table = replace(declared, entries=tuple(entries))
    results = fill(table, run_jobs(table.cells, workers=1))
    assert [(result.row, result.column) for result in results] == [(entry.row, entry.column) for entry in entries]
    assert all(result.ours.measured for result in results)
    assert results[0].verdict == "replicates"  # acquire-all is far below everything, whatever the split
