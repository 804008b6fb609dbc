"""The audit: each finding against what was put into the data, and the verdict against its thresholds."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import ks_2samp

import camdf
from camdf import Payoff
from camdf.cli import main
from camdf.core.resampling import Interval
from camdf.datasets.files import write_jsonl, write_parquet
from camdf.evaluation.fit import fit
from camdf.examples.mined import read_logged, read_uncensored
from camdf.policies.models.label_noise import estimate_label_noise
from camdf_lab import domains
from camdf_traces.audit import measures
from camdf_traces.audit.findings import (
    Audit,
    Censoring,
    Drift,
    Exploration,
    Noise,
    RepeatedRuns,
    Shift,
    Surfacing,
    Unknown,
)
from camdf_traces.audit.report import audit_json, in_words
from camdf_traces.audit.task_lists import TaskLists, read_tasks
from camdf_traces.audit.verdict import has_drifted, has_moved, verdict_of
from saying import says

MADE_UP = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "made_up_traces.py"))
DAY = 24 * 3600 * 10**9


def row(called: str, ranked: str = "abc", **parts: Any) -> dict[str, Any]:
    """A mined task whose tools are letters, ranked with falling scores."""
    scores = [1 - place / 10 for place in range(len(ranked))]
    task = {"ranked": list(ranked), "scores": scores, "called": list(called), "group": parts.get("task_id", "t")}
    return {**task, **{name: list(value) if name == "offered" else value for name, value in parts.items()}}


def flat(rows: list[dict[str, Any]]) -> TaskLists:
    return TaskLists.from_table(pa.Table.from_pylist(rows))


def repeated(rows: list[dict[str, Any]]) -> RepeatedRuns:
    found = measures.repeated_runs(flat(rows))
    assert isinstance(found, RepeatedRuns)
    return found


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment")
    MADE_UP["write_spans"](folder / "traces", runs=300, seed=1, explore=0.5)
    assert main(["mine", str(folder / "traces"), "-o", str(folder / "tasks.parquet"), "--with-text"]) == 0
    return folder / "tasks.parquet"


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("needed", [0.1, 0.5])
def test_repeated_runs_find_the_share_of_flipped_labels_whatever_is_true(rate: float, needed: float) -> None:
    rng = np.random.default_rng(0)
    tools, rows = list("abcdefghij"), []
    for task in range(300):
        truth = rng.random(10) < needed
        for _ in range(rng.integers(2, 6)):
            labels = truth ^ (rng.random(10) < rate)
            called = "".join(tool for tool, label in zip(tools, labels, strict=True) if label)
            rows.append(row(called, "".join(tools), text=f"task {chr(97 + task // 26)}{chr(97 + task % 26)}"))
    flips = repeated(rows).flips
    assert flips.low <= rate <= flips.high
    assert flips.high - flips.low < 0.03


def test_agreement_is_over_pairs_of_runs_and_tools_that_either_called() -> None:
    rng = np.random.default_rng(1)
    runs = {text: ["".join(t for t in "abcde" if rng.random() < 0.4) for _ in range(3)] for text in ("x", "y", "z")}
    found = repeated([row(called, "abcde", text=text) for text, some in runs.items() for called in some])
    pairs = [pair for some in runs.values() for pair in combinations(map(set, some), 2)]
    expected = sum(len(one & two) for one, two in pairs) / sum(len(one | two) for one, two in pairs)
    assert found.agreement.mean == pytest.approx(expected)
    assert (found.tasks, found.runs) == (3, 9)


def test_a_task_that_ran_often_weighs_by_its_runs_and_not_by_its_pairs() -> None:
    often = [row("a" if run % 2 else "b", text="often") for run in range(40)]
    found = repeated([*often, *(row("a", text=f"pair {chr(97 + n)}") for n in range(20) for _ in range(2))])
    # Of the often one, half of the pairs less a bit agree. It has 40 of the 80 runs.
    same = (19 / 39) / 2
    either = (20 / 39 * 2 + 19 / 39) / 2
    assert found.agreement.mean == pytest.approx((same + 0.5) / (either + 0.5))


def test_a_tool_that_only_one_of_two_runs_was_offered_is_no_disagreement() -> None:
    cut, whole = row("a", offered="a", text="x"), row("ab", offered="abc", text="x")
    assert repeated([cut, whole]).agreement.mean == 1
    assert repeated([cut, whole]).flips.mean == 0
    assert repeated([{**cut, "offered": list("abc")}, whole]).agreement.mean == 0.5


def test_runs_without_a_ranking_are_compared_on_what_they_were_offered() -> None:
    rows = [row(called, "", offered="abcd", text="x") for called in ("ab", "a")]
    assert repeated(rows).agreement.mean == 0.5
    assert repeated(rows).flips.mean == pytest.approx((1 - np.sqrt(1 - 2 / 4)) / 2)


def test_a_conversation_is_no_repetition() -> None:
    rows = [row("a", group="c1", conversation="c1"), row("b", group="c1", conversation="c1")]
    assert isinstance(measures.repeated_runs(flat(rows)), Unknown)


def test_label_noise_is_what_the_learning_side_estimates() -> None:
    logged = domains.load("retail", "claude")
    expected = estimate_label_noise(logged)
    found = measures.label_noise(TaskLists.from_logged(logged), np.random.default_rng(0))
    assert isinstance(found, Noise)
    assert (found.rate, found.at_most, found.labels, found.tasks) == (*vars(expected).values(), len(logged))
    assert "upper bound" in in_words(found)


def test_runs_that_a_gate_cut_do_not_make_labels_look_clean(mined: Path) -> None:
    tasks = read_tasks(mined)
    found = measures.label_noise(tasks, np.random.default_rng(0))
    assert tasks.explored is not None
    assert isinstance(found, Noise)
    assert found.tasks == tasks.explored.sum() < len(tasks)


def test_censoring_counts_ranked_tools_that_runs_without_exploration_were_not_offered() -> None:
    rows = [
        row("a", offered="ab", explored=False),
        row("a", offered="abc", explored=False),
        row("ae", "abcd", offered="a", explored=True),
        row("a", offered="", explored=False),  # nobody recorded what it was offered
    ]
    found = measures.censoring(flat(rows))
    assert isinstance(found, Censoring)
    assert (found.runs, found.cut_runs.mean, found.cut_candidates) == (2, 0.5, 1 / 6)
    assert found.never_offered == ("d", "e")
    assert isinstance(measures.censoring(flat([row("a")])), Unknown)


def test_surfacing_finds_what_the_ranking_lacks_and_the_deepest_positions() -> None:
    rows = [row("b", "abcde", offered="abcd"), row("az", "ab", offered="abz"), row("a", "", offered="a")]
    found = measures.surfacing(flat(rows))
    assert isinstance(found, Surfacing)
    assert (found.tasks, found.missed.mean) == (2, 0.5)
    assert (found.longest, found.deepest_required, found.deepest_offered) == (5, 2, 4)
    assert says(in_words(found), "past 4 … offered")


def test_the_share_that_needs_no_tool_is_that_of_tasks_that_saw_their_whole_ranking() -> None:
    rows = [
        row("", "abcd", offered="abcd"),
        row("a", "abcd", offered="abcd"),
        row("", "abcd", offered="ab"),  # what was cut could not be called
        row("", "", offered="a"),  # nobody ranked it
    ]
    found = measures.no_tool(flat(rows))
    assert found is not None
    assert (found.tasks, found.share.mean, found.of_all) == (2, 0.5, 2 / 3)
    assert says(in_words(found), "50.0%", "2 tasks", "66.7%")
    assert measures.no_tool(flat([row("a", "abcd", offered="abcd")])) is None


def test_the_distance_of_scores_is_that_of_kolmogorov_and_smirnov_with_ties() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        values, later = np.round(rng.random(60), 1), rng.random(60) < 0.4
        found = measures.shift(values, np.arange(60), later, rng)
        assert found.distance == pytest.approx(ks_2samp(values[later], values[~later]).statistic)


def test_chance_is_not_mistaken_for_drift_though_scores_of_a_task_belong_together() -> None:
    rng = np.random.default_rng(3)
    task, later = np.repeat(np.arange(40), 25), np.arange(40) >= 20
    alarms = [
        measures.shift(np.repeat(rng.random(40), 25) + rng.normal(0, 0.01, 1000), task, later, rng).chance <= 0.05
        for _ in range(100)
    ]
    # 5 expected; independent scores would raise an alarm nearly always.
    assert sum(alarms) <= 12


def test_drift_finds_moved_scores_and_a_changed_catalogue() -> None:
    rng = np.random.default_rng(4)
    rows = []
    for day in range(100):
        new = day >= 50
        ranked = "abd" if new else "abc"
        moved = {"scores": (rng.random(3) * (0.5 if new else 1)).tolist()}
        rows.append({**row("ab" if new else "a", ranked, time=day * DAY), **moved})
    found = measures.drift(flat(rows), np.random.default_rng(0))
    assert isinstance(found, Drift)
    assert (found.since, found.earlier, found.later) == ("1970-02-20", 50, 50)
    assert (found.added, found.removed, found.shared) == (("d",), ("c",), 0.5)
    assert has_moved(found.scores)
    assert found.required.mean == 1
    same = measures.drift(flat(rows), np.random.default_rng(0), since=datetime(1970, 2, 20))
    assert same == found
    assert isinstance(measures.drift(flat(rows), np.random.default_rng(0), since=datetime(1990, 1, 1)), Unknown)


def test_no_drift_is_found_where_nothing_changed() -> None:
    rng = np.random.default_rng(5)
    rows = [{**row("a", time=day * DAY), "scores": rng.random(3).tolist()} for day in range(200)]
    found = measures.drift(flat(rows), np.random.default_rng(0))
    assert isinstance(found, Drift)
    assert not has_drifted(found)
    assert says(in_words(found), "no tool came")


def test_exploring_is_priced_by_the_tools_that_it_showed_beyond_what_other_runs_saw() -> None:
    rows = [row("a", offered="abc", explored=True), row("a", offered="a", explored=False), row("a", explored=True)]
    found = measures.exploration(flat(rows))
    assert isinstance(found, Exploration)
    assert found.extra_tools == 2.0
    assert says(in_words(found), "price", "2.0 tools more")


def test_calls_without_a_span_are_shown_by_tool_and_above_a_fifth_the_verdict_says_so() -> None:
    rows = [row("ab", inferred=["b"]), row("b", inferred=[]), row("a", inferred=[])]
    found = measures.untraced(flat(rows))
    assert found is not None
    assert (found.calls, found.share, found.tools, found.services) == (4, 0.25, {"b": 0.5}, {})
    assert says(in_words(found), "25.0% of 4 required tools", "request alone")
    assert says(verdict_of(replace(GOOD, untraced=found)).sentence, "Trace", "without spans")
    assert measures.untraced(flat([row("a")])) is None


def test_calls_without_a_span_are_shown_by_service() -> None:
    rows = [
        row("ab", inferred=["b"], service="desk"),
        row("b", inferred=["b"], service="shop"),
        row("a", inferred=["a"], service=None),
        row("abc", inferred=[], service=None),
        row("a", inferred=[], service="other"),
    ]
    found = measures.untraced(flat(rows))
    assert found is not None
    assert list(found.services.items()) == [("shop", 1.0), ("desk", 0.5), ("", 0.25)]
    assert says(in_words(found), "By service", "shop (100%), desk (50%)", "without a name (25%)")
    assert audit_json(replace(GOOD, untraced=found))["untraced"]["services"] == found.services
    assert "By service" not in in_words(replace(found, services={}))


def test_only_explored_runs_that_saw_every_ranked_tool_give_unbiased_labels() -> None:
    rows = [
        row("a", offered="abc", explored=True),
        row("a", offered="ab", explored=True),
        row("a", "", offered="abc", explored=True),
        row("a", offered="abc", explored=False),
    ]
    found = measures.exploration(flat(rows))
    assert isinstance(found, Exploration)
    assert (found.share.mean, found.unbiased, found.incomplete) == (0.75, 1, 1)


SURE = Interval(0.0, 0.0, 0.1)
GOOD = Audit(
    500,
    500,
    20,
    RepeatedRuns(9, 30, Interval(0.9, 0.8, 1.0), Interval(0.02, 0.01, 0.03), "text"),
    Noise(0.03, 0.04, 100, 500),
    Censoring(400, Interval(0.01, 0.0, 0.02), 0.01, ()),
    Surfacing(500, SURE, 20, 9, 20),
    Unknown("The tasks carry no times."),
    Exploration(Interval(0.1, 0.1, 0.1), 50, 0),
)
CUT = Censoring(400, Interval(0.9, 0.8, 0.95), 0.8, ())
NOISY = RepeatedRuns(9, 30, Interval(0.5, 0.4, 0.6), Interval(0.12, 0.1, 0.2), "text")
EXPLORED = Exploration(Interval(0.1, 0.1, 0.1), 100, 0)
MOVED = Drift("2026-01-01", 9, 9, (), (), 1.0, Shift(0.3, 0.005), Shift(0.0, 1.0), Interval(0, 0, 0))


@pytest.mark.parametrize(
    ("changes", "fit", "words"),
    [
        ({}, "yes", "Fit … 500 tasks"),
        ({"ranked": 0}, "not yet", "no task … ranking"),
        ({"ranked": 99}, "not yet", "99 tasks … too few"),
        ({"censoring": CUT}, "not yet", "50 explored runs … 100 are enough … 50 are missing"),
        ({"censoring": CUT, "exploration": Unknown("")}, "not yet", "0 explored runs … too few"),
        (
            {"censoring": CUT, "exploration": EXPLORED},
            "explored only",
            "100 explored runs … gate cut … camdf fit",
        ),
        ({"censoring": Unknown("")}, "yes", "gate … cut … not known"),
        ({"label_noise": Noise(0.11, 0.2, 100, 500)}, "not yet", "11% of the labels"),
        ({"label_noise": Noise(0.07, 0.2, 100, 500)}, "yes", "Expect little"),
        ({"repeated_runs": NOISY}, "not yet", "12% of the labels"),
        ({"repeated_runs": replace(NOISY, by="group")}, "yes", "Fit to learn"),
        ({"surfacing": Surfacing(500, Interval(0.3, 0.2, 0.4), 20, 9, 20)}, "yes", "Mend the ranking first"),
        ({"drift": MOVED}, "yes", "since 2026-01-01"),
    ],
)
def test_the_verdict_follows_from_its_thresholds(changes: dict[str, Any], fit: str, words: str) -> None:
    verdict = verdict_of(replace(GOOD, **changes))
    assert verdict.fit == fit
    assert says(verdict.sentence, words)


def test_the_audit_finds_what_was_put_into_a_made_up_deployment(mined: Path) -> None:
    half_way = MADE_UP["START"] + 2 * MADE_UP["WEEK"]
    found = measures.audit(read_tasks(mined), since=datetime.fromtimestamp(half_way / 1e9, UTC))
    assert isinstance(found.drift, Drift)
    assert (set(found.drift.added), set(found.drift.removed)) == (set(MADE_UP["ADDED"]), set(MADE_UP["REMOVED"]))
    assert isinstance(found.censoring, Censoring)
    assert found.censoring.cut_runs.mean > 0.9
    assert isinstance(found.exploration, Exploration)
    assert found.exploration.incomplete == 0
    assert isinstance(found.repeated_runs, RepeatedRuns)
    # The assistant skips 2% of what it needs and adds 0.5% of the rest, of few tools where the gate cuts.
    assert 0.005 < found.repeated_runs.flips.mean < 0.02
    assert verdict_of(found).fit == "explored only"


def test_an_audit_does_not_depend_on_the_order_of_the_tasks(mined: Path) -> None:
    table = pq.read_table(mined)
    order = np.random.default_rng(0).permutation(len(table))
    one, other = (TaskLists.from_table(some) for some in (table, table.take(pa.array(order))))
    for finding in (measures.repeated_runs, measures.censoring, measures.surfacing, measures.exploration):
        assert in_words(finding(one)) == in_words(finding(other))


def test_the_same_seed_makes_up_the_same_spans() -> None:
    once, again, other = (list(MADE_UP["spans_of_a_deployment"](20, seed)) for seed in (0, 0, 1))
    assert once == again != other


def test_the_command_prints_at_most_a_screen_and_the_same_for_machines(
    mined: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(mined)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    assert main(["audit", str(mined), "--split", "0.3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"]["fit"] == "explored only"
    assert told["drift"]["earlier"] < told["drift"]["later"]
    assert main(["audit", str(mined.with_name("missing.parquet"))]) == 2


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.parquet"])
def test_logged_tasks_of_ones_own_are_audited_as_far_as_they_tell(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = domains.load("retail", "claude")
    (write_jsonl if name.endswith("jsonl") else write_parquet)(logged, tmp_path / name)
    assert main(["audit", str(tmp_path / name)]) == 0
    printed = capsys.readouterr().out
    printed = " ".join(printed.split())
    assert says(printed, f"{len(logged)} tasks read", f"{len(logged)} with a ranking")
    for words in ("offered is not recorded", "carry no times", "recorded which runs explored"):
        assert words in printed
    assert says(printed, "Not yet", "67 tasks", "too few")


def test_the_command_names_what_moved_since_the_fit_of_a_policy(
    mined: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.json"
    fitted = fit(read_logged(mined), Payoff(0.02), "score-threshold")
    camdf.save(fitted.policy, policy, fitted.training)
    assert main(["audit", str(mined), "--since-fit", str(policy)]) == 0
    assert "Moved" not in capsys.readouterr().out
    table = pq.read_table(mined)
    rescaled = [[0.5 * score + 0.4 for score in scores] for scores in table["scores"].to_pylist()]
    place = table.column_names.index("scores")
    later = tmp_path / "later.parquet"
    pq.write_table(table.set_column(place, "scores", pa.array(rescaled)), later)
    assert main(["audit", str(later), "--since-fit", str(policy)]) == 0
    assert says(capsys.readouterr().out, "Whether to refit", f"camdf evaluate {policy} {later}")
    assert main(["audit", str(later), "--since-fit", str(policy), "--json"]) == 0
    assert "scores" in {change["what"] for change in json.loads(capsys.readouterr().out)["moved"]}


def test_an_audit_of_renamed_tools_is_one_of_the_same_tools(mined: Path) -> None:
    table = pq.read_table(mined)
    lists = ("ranked", "called", "offered")
    names = {name for column in lists for row in table[column].to_pylist() for name in row or ()}
    new = {name: f"v2_{name}" for name in names}
    half = len(table) // 2
    renamed = table
    for column in lists:
        rows = table[column].to_pylist()
        later = [[new[name] for name in row or ()] for row in rows[half:]]
        place = renamed.column_names.index(column)
        renamed = renamed.set_column(place, column, pa.array(rows[:half] + later, table[column].type))
    audits = [measures.audit(TaskLists.from_table(some).renamed(new)) for some in (table, renamed)]
    assert audit_json(audits[0]) == audit_json(audits[1])
    unsaid = measures.audit(TaskLists.from_table(renamed))
    assert unsaid.tools > audits[0].tools == len(names)


def test_runs_that_saw_every_tool_are_read_apart_from_those_that_a_gate_had_cut(mined: Path, tmp_path: Path) -> None:
    table = pq.read_table(mined)
    tasks = {task["task_id"]: task for task in table.to_pylist() if task["ranked"]}
    read = read_uncensored(mined)
    assert read.logged.task_ids.tolist() == [name for name, task in tasks.items() if task["explored"]]
    assert read.gated is not None
    gated, offered = read.gated
    assert gated.task_ids.tolist() == [name for name, task in tasks.items() if not task["explored"]]
    assert 0 < len(gated) == read.left_out < len(tasks)
    for row, name in enumerate(gated.task_ids.tolist()):
        listed = gated.rankings.names(row)
        task = tasks[name]
        assert {listed[i] for i in np.flatnonzero(offered[row])} == set(task["offered"]) & set(listed)
        assert {listed[i] for i in np.flatnonzero(gated.required[row])} == set(task["called"]) & set(task["offered"])
    pq.write_table(table.drop_columns(["explored"]), tmp_path / "unsaid.parquet")
    assert read_uncensored(tmp_path / "unsaid.parquet").gated is None
    pq.write_table(table.drop_columns(["offered"]), tmp_path / "unrecorded.parquet")
    unrecorded = read_uncensored(tmp_path / "unrecorded.parquet")
    assert (unrecorded.gated, unrecorded.left_out) == (None, read.left_out)
