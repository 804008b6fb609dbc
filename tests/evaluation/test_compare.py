"""Does it pay in production? Two arms of conversations from traces, and what may be said of them at any look."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import camdf
from camdf.cli import main
from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Floats, LoggedTasks
from camdf.datasets.tool_names import of_gated, renamed
from camdf.errors import DataError, UsageError
from camdf.evaluation.compare import _RATE, ERROR, FEWEST_OF_AN_ARM, compare, half_width
from camdf.evaluation.shadow import shadow_report
from camdf.examples.mined import read_uncensored
from camdf.prices import Prices
from camdf_traces.arms import Arms, arms
from camdf_traces.readers.values import gate_decision
from camdf_traces.spans import Span, arrow_table
from loading import benchmark_module
from saying import refuses, says

ROOT = Path(__file__).parents[2]


def dealt(
    gated: int, everything: int, rates: tuple[float, float], tokens: tuple[float, float] = (1.0, 2.0)
) -> tuple[Bools, dict[str, Floats]]:
    """Conversations with exactly these rates of success."""
    arm = np.arange(gated + everything) < gated
    place = np.where(arm, np.arange(len(arm)), np.arange(len(arm)) - gated)
    size, rate = np.where(arm, gated, everything), np.where(arm, *rates)
    noise = np.random.default_rng(0).normal(0, 0.1, len(arm))
    return arm, {"success": (place < rate * size).astype(float), "input_tokens": np.where(arm, *tokens) + noise}


def test_more_conversations_narrow_the_interval_and_a_wider_spread_widens_it() -> None:
    widths = [half_width(n, 1.0) for n in (100, 200, 1000, 5000, 100_000)]
    assert widths == sorted(widths, reverse=True)
    assert half_width(500, 2.0) == pytest.approx(2 * half_width(500, 1.0))
    assert widths[0] > 1.96 / 10, "an interval for every look is wider than one for a single look"


@settings(deadline=None)
@given(st.integers(1, 100_000))
def test_at_the_end_of_an_interval_the_bets_of_all_sizes_have_together_won_twenty_times_their_stake(n: int) -> None:
    """The mean of exp(b S - b^2 n / 2) over normal bets b of variance r^2, for a sum S of n standard terms."""
    total = n * half_width(n, 1.0)
    best, width = total / (n + 1 / _RATE), (n + 1 / _RATE) ** -0.5
    bets = best + width * np.linspace(-9, 9, 4001)
    won = np.exp(bets * total - bets**2 * (n + 1 / _RATE) / 2) / np.sqrt(2 * np.pi * _RATE)
    assert np.trapezoid(won, bets) == pytest.approx(1 / ERROR, rel=1e-6)


@settings(deadline=None)
@given(st.integers(FEWEST_OF_AN_ARM, 2000), st.integers(FEWEST_OF_AN_ARM, 2000), st.floats(0, 1), st.floats(0, 1))
def test_a_verdict_is_never_safe_and_harmful_and_says_one_thing(n: int, m: int, one: float, other: float) -> None:
    found = compare(*dealt(n, m, (one, other)), margin=0.05)
    assert found.harms == found.verdict.startswith("Stop")
    success = found.measures["success"].difference
    assert success.low < success.mean < success.high, "even where all of both arms succeed"
    assert len(found.verdict.splitlines()) == 1
    json.dumps(found.record(), allow_nan=False)


def test_each_verdict_says_what_to_do() -> None:
    early = compare(*dealt(20, 900, (0.9, 0.9)))
    assert early.early
    assert says(early.verdict, "Too early: 20 gated", 900, f"{FEWEST_OF_AN_ARM} of each")
    one_arm = compare(*dealt(900, 0, (0.9, 0.9)))
    assert one_arm.wanted is None
    assert says(one_arm.verdict, "Too early", "explore")
    worse = compare(*dealt(2000, 2000, (0.7, 0.9)))
    assert worse.harms
    assert says(worse.verdict, "Stop: success", "-20.0 points")
    safe = compare(*dealt(20_000, 20_000, (0.9, 0.9)))
    assert (safe.is_safe, safe.saves) == (True, "input_tokens")
    assert says(safe.verdict, "Pays: 50% fewer input tokens", "success", "+0.0 points")
    same = compare(*dealt(20_000, 20_000, (0.9, 0.9), tokens=(1.0, 1.0)))
    assert (same.is_safe, same.saves) == (True, "")
    assert says(same.verdict, "Safe", "not … save", "success")
    open_yet = compare(*dealt(800, 200, (0.9, 0.9)))
    assert (open_yet.is_safe, open_yet.harms, open_yet.early) == (False, False, False)
    assert says(open_yet.verdict, "Not … safe", "success")
    assert compare(*dealt(4000, 4000, (0.87, 0.9)), margin=0.02).wanted is None


def test_so_many_more_conversations_are_wanted_that_the_verdict_then_comes() -> None:
    found = compare(*dealt(800, 200, (0.9, 0.9)), margin=0.03)
    assert found.wanted is not None
    n = 1000 + found.wanted
    after = compare(*dealt(round(0.8 * n), round(0.2 * n), (0.9, 0.9)), margin=0.03)
    assert after.is_safe or (after.wanted or 0) < 0.02 * n, "but for rounding"
    before = compare(*dealt(round(0.76 * n), round(0.19 * n), (0.9, 0.9)), margin=0.03)
    assert not before.is_safe


def test_what_nobody_recorded_is_not_compared() -> None:
    arm, measures = dealt(300, 300, (0.9, 0.9))
    measures["input_tokens"][::2] = np.nan
    found = compare(arm, measures)
    assert found.measures["input_tokens"].gated == pytest.approx(1.0, abs=0.05)
    with pytest.raises(UsageError, match="margin"):
        compare(arm, measures, margin=0.0)


def test_a_measure_that_was_rarely_recorded_has_no_interval_and_shows_no_saving() -> None:
    arm, measures = dealt(20_000, 20_000, (0.9, 0.9))
    for recorded in (0, 1, FEWEST_OF_AN_ARM - 1):
        tokens = measures["input_tokens"].copy()
        tokens[recorded:20_000] = np.nan
        found = compare(arm, {**measures, "input_tokens": tokens})
        assert (found.is_safe, found.saves) == (True, "")
        assert found.verdict.startswith("Safe, and not")
        record = json.loads(json.dumps(found.record(), allow_nan=False))["measures"]["input_tokens"]
        assert "low" not in record
        assert (record["gated"] is None) == (record["difference"] is None) == (not recorded)
        assert ("unknown" in found.table()) == (not recorded)


def test_it_is_too_early_while_success_is_known_of_too_few() -> None:
    arm, measures = dealt(900, 900, (0.9, 0.9))
    measures["success"][20:900] = np.nan
    found = compare(arm, measures)
    assert not found.is_safe
    assert (found.gated, found.everything) == (900, 900)
    assert says(found.verdict, "Too early: 20 gated", 900, "success is known", f"{FEWEST_OF_AN_ARM} of each")
    assert found.wanted == 5 * 920 + 1 - 920


# Conversations from traces.


def spans(run: int, *, explored: bool | None, conversation: str = "", **agent: Any) -> list[Span]:
    trace = f"{run:032x}"
    ranked: dict[str, Any] = (
        {} if explored is None else {"ranked": ("get", "send"), "scores": (0.9, 0.1), "explored": explored}
    )
    return [
        Span(trace, "a", kind="agent", conversation=conversation, start=0, end=4 * 10**9, **ranked, **agent),
        Span(trace, "m", "a", "model", start=2, end=3, input_tokens=1000, cached_tokens=400, output_tokens=100),
        Span(trace, "t", "a", "tool", "get", start=1, end=2),
    ]


def arms_of(*runs: list[Span], **choices: Any) -> Arms:
    return arms(arrow_table([span for run in runs for span in run]), Prices(), 10.0, **choices)


def test_a_conversation_counts_once_with_all_of_its_runs() -> None:
    found = arms_of(
        spans(1, explored=False, conversation="x"),
        spans(2, explored=False, conversation="x", success=False),
        spans(3, explored=True, conversation="y"),
        spans(4, explored=None, conversation="y"),
    )
    assert found.gated.tolist() == [True, False]
    assert found.measures["success"].tolist() == [0.0, 1.0]
    assert found.measures["tool_calls"].tolist() == [2.0, 2.0]
    assert found.measures["input_tokens"].tolist() == [2000.0, 2000.0]
    assert found.measures["seconds"].tolist() == [8.0, 8.0]
    prices = Prices()
    dollars = 2 * (600 * prices.uncached + 400 * prices.cached + 100 * 10.0) / 1e6
    assert found.measures["dollars"] == pytest.approx(dollars)


def test_dollars_are_those_of_the_prices_without_a_cache_too() -> None:
    prices = Prices(cache=False)
    found = arms(arrow_table(spans(1, explored=True)), prices, 10.0)
    assert found.measures["dollars"] == pytest.approx(prices.of_request(new=600, again=400) + 100 * 10.0 / 1e6)
    assert prices.of_request(new=600, again=400) == pytest.approx(1000 * prices.uncached / 1e6)


def test_cached_tokens_that_a_tracer_counts_apart_from_the_input_cost_what_they_cost() -> None:
    """Anthropic's counts: the second call reads 8,000 tokens from the cache, and 20 new ones."""
    first = replace(spans(1, explored=True)[1], input_tokens=8000, cached_tokens=0)
    calls = [first, replace(first, span_id="m2", input_tokens=20, cached_tokens=8000)]
    found = arms_of([spans(1, explored=True)[0], *calls])
    assert found.measures["input_tokens"].tolist() == [8000.0 + 8020.0]
    expected = Prices().of_request(new=8020, again=8000) + 2 * 100 * 10.0 / 1e6
    assert found.measures["dollars"] == pytest.approx(expected)


tokens = st.none() | st.integers(0, 10_000)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(tokens, tokens, tokens), min_size=1, max_size=4))
def test_dollars_are_never_negative(calls: list[tuple[int | None, ...]]) -> None:
    agent, call, _ = spans(1, explored=True)
    counted = [
        replace(call, span_id=f"m{n}", input_tokens=read, cached_tokens=cached, output_tokens=written)
        for n, (read, cached, written) in enumerate(calls)
    ]
    found = arms_of([agent, *counted])
    (dollars,) = found.measures["dollars"]
    assert not dollars < 0


def test_conversations_that_say_nothing_are_left_out_and_counted() -> None:
    mixed = [spans(1, explored=False, conversation="x"), spans(2, explored=True, conversation="x")]
    orphan = [replace(span, parent_id="nobody") if span.kind == "agent" else span for span in spans(4, explored=True)]
    found = arms_of(*mixed, spans(3, explored=None), orphan, spans(5, explored=True), spans(6, explored=False))
    assert (found.mixed, found.ungated, found.unplaced, len(found.gated)) == (1, 1, 0, 3)
    counts = "1 gated, 2 that saw every tool, 1 on which no gate decided, 1 with runs of both kinds."
    assert str(found).endswith(f"5 conversations begun: {counts}")
    assert found.lost.sum() == 1, "what has no end is no success, and is not left out"
    known = arms_of(spans(1, explored=True), spans(2, explored=True, success=True), require_outcome=True)
    assert known.lost.tolist() == [True, False]
    with refuses(DataError, must="run of an agent"):
        arms_of([Span("1", "x")])


def offers(run: int, *, explored: bool, killed: bool = False, unseen: bool = False) -> list[Span]:
    """A run that is offered three tools, or one; killed, its agent span never comes."""
    agent, call, _ = spans(run, explored=explored)
    call = replace(call, offered=() if unseen else ("get", "send", "list") if explored else ("get",))
    return [call] if killed else [agent, call]


def test_a_lost_run_is_in_the_arm_that_its_offer_tells() -> None:
    killed = [offers(n, explored=n % 2 == 0, killed=True) for n in range(3)]
    found = arms_of(*killed, offers(8, explored=True), offers(9, explored=False), offers(10, explored=False))
    assert (int(found.lost.sum()), int((found.lost & found.gated).sum()), found.unplaced) == (3, 1, 0)
    lost = arms_of(offers(1, explored=False, killed=True, unseen=True), offers(2, explored=True))
    assert (lost.unplaced, lost.lost.tolist(), len(lost.gated)) == (1, [False], 1)
    endless = [replace(span, end=None) if span.kind == "agent" else span for span in offers(1, explored=False)]
    assert arms_of(endless, offers(2, explored=True)).lost.tolist() == [True, False]


def attrition(seed: int, harm: float, at_random: float = 0.0) -> Any:
    """Conversations whose gated arm fails more often by `harm`; nine of ten that do are killed and never end."""
    draw = np.random.default_rng(seed)
    n, share = 3000, 0.5
    gated = draw.random(n) >= share
    bad = draw.random(n) < np.where(gated, 0.02 + harm, 0.02)
    lost = (bad & gated & (draw.random(n) < (0.9 if harm else 0.0))) | (draw.random(n) < at_random)
    tokens = np.where(gated, 1000.0, 3000.0) + draw.normal(0, 10, n)
    return compare(gated, {"success": (~bad).astype(float), "input_tokens": tokens}, 0.05, lost=lost, share=share)


def test_no_good_is_said_of_a_gate_whose_lost_runs_hide_what_it_costs() -> None:
    verdicts = [attrition(seed, harm=0.095) for seed in range(100)]
    assert not any(each.is_safe for each in verdicts)
    assert all(each.harms or each.unequal for each in verdicts)
    assert all(each.verdict.startswith(("Stop", f"The arms cannot be compared: {each.unequal}")) for each in verdicts)


def test_runs_that_are_killed_before_their_agent_span_comes_are_counted_from_traces() -> None:
    draw = np.random.default_rng(1).random((1500, 2))
    runs = [offers(n, explored=bool(a < 0.5), killed=bool(a >= 0.5 and b < 0.1)) for n, (a, b) in enumerate(draw)]
    found = arms_of(*runs)
    assert len(found.gated) == 1500
    assert int(found.lost.sum()) == int(((draw[:, 0] >= 0.5) & (draw[:, 1] < 0.1)).sum())
    said = compare(found.gated, found.measures, 0.05, lost=found.lost, unplaced=found.unplaced)
    assert said.harms
    assert said.unequal


def test_runs_lost_at_random_in_both_arms_withhold_at_most_five_verdicts_of_a_hundred() -> None:
    assert sum(bool(attrition(seed, harm=0.0, at_random=0.02).unequal) for seed in range(100)) <= 5


def test_arms_that_were_not_dealt_as_they_were_to_be_are_not_compared() -> None:
    found = compare(*dealt(20_000, 20_000, (0.9, 0.9)), share=0.6)
    assert not found.is_safe
    assert says(found.unequal, "50.0% of the conversations", "60.0%")
    assert found.unequal in found.verdict
    assert compare(*dealt(20_000, 20_000, (0.9, 0.9)), share=0.5).is_safe
    with pytest.raises(UsageError, match="share"):
        compare(*dealt(200, 200, (0.9, 0.9)), share=1.0)


def test_lost_conversations_of_an_unknown_arm_are_taken_for_gated_ones_in_the_worst_case() -> None:
    few, many = (compare(*dealt(20_000, 20_000, (0.9, 0.9)), unplaced=n) for n in (3, 400))
    assert few.is_safe
    assert not many.is_safe
    assert says(many.unequal, "arm of 400 conversations")
    assert many.unequal in many.verdict
    assert many.bounds[0] == pytest.approx((18_000 - 18_400) / 20_400)
    assert says(many.table(), "arm of 400 more")
    assert many.record()["lost"]["unknown_arm"] == 400


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 50))
def test_the_worst_and_the_best_case_hold_what_is_shown(lost_gated: int, lost_other: int, unplaced: int) -> None:
    arm, measures = dealt(300, 300, (0.9, 0.9))
    place = np.concatenate([np.arange(300), np.arange(300)])
    found = compare(arm, measures, lost=place < np.where(arm, lost_gated, lost_other), unplaced=unplaced)
    low, high = found.bounds
    assert low <= found.measures["success"].difference.mean <= high
    assert found.lost == (lost_gated, lost_other)


def test_a_gate_that_only_watches_lets_its_runs_see_every_tool() -> None:
    decision = {"camdf.ranking.names": ["a"], "camdf.ranking.scores": [0.5], "camdf.explored": False}
    assert gate_decision([{**decision, "camdf.mode": "shadow"}])["explored"] is True
    assert gate_decision([{**decision, "camdf.mode": "drop"}])["explored"] is False


def test_camdf_compare_prints_a_table_and_a_sentence_and_tells_scripts_of_harm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [spans(n, explored=n % 2 == 0, success=n % 2 == 0 or n % 4 == 1) for n in range(400)]
    pq.write_table(arrow_table([span for run in runs for span in run]), tmp_path / "spans.parquet")
    assert main(["compare", str(tmp_path)]) == 3
    printed = capsys.readouterr().out
    assert says(printed, "400 conversations begun: 200 gated, 200 … every tool")
    assert says(printed, "Stop: success … -50.0 points")
    assert main(["compare", str(tmp_path), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["measures"]["success"]["gated"] == 0.5


def test_camdf_compare_answers_where_nobody_recorded_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    untold: dict[str, Any] = {"input_tokens": None, "cached_tokens": None, "output_tokens": None}
    runs = [[replace(span, **untold) for span in spans(n, explored=n % 2 == 0)] for n in range(400)]
    pq.write_table(arrow_table([span for run in runs for span in run]), tmp_path / "spans.parquet")
    assert main(["compare", str(tmp_path), "--json"]) == 0
    measures = json.loads(capsys.readouterr().out)["measures"]
    assert measures["dollars"] == measures["input_tokens"] == {"gated": None, "everything": None, "difference": None}
    assert main(["compare", str(tmp_path)]) == 0
    assert "dollars               unknown      unknown      unknown\n" in capsys.readouterr().out


# Before the first cut.


def test_the_shadow_report_counts_what_was_called_and_would_have_been_cut() -> None:
    records = [
        {"scores": {"a": 0.9, "b": 0.5, "c": 0.1}, "required": ["a"]},
        {"scores": {"a": 0.9, "b": 0.5, "c": 0.1}, "required": ["a", "c"]},
        {"scores": {"b": 0.9, "c": 0.5}, "required": ["c"]},
        {"scores": {"b": 0.9, "c": 0.5}, "required": []},
    ]
    found = shadow_report(camdf.TopK(1), LoggedTasks.from_records(records), Payoff(0.1), {"a": 10.0, "b": 20.0})
    assert (found.tasks, found.offered, found.kept, found.missed.mean) == (4, 2.5, 1.0, 0.5)
    assert (found.tokens_offered, found.tokens_kept) == (25.0, 15.0)
    assert [vars(each) for each in found.cut] == [{"name": "c", "called": 2, "cut": 2}]
    assert says(found.verdict, "cut 1.5 of 2.5 tools", "10 of 25 tokens")
    nothing = shadow_report(camdf.AcquireAll(), LoggedTasks.from_records(records), Payoff(0.1))
    assert nothing.cut == ()
    assert says(nothing.table(), "No tool")


def test_the_shadow_report_opens_the_list_where_the_gate_would() -> None:
    records = [
        {"scores": {"a": 0.9, "b": 0.1}, "required": ["b"]},  # nothing is chosen
        {"scores": {"a": 0.5, "b": 0.5}, "required": ["b"]},  # nothing is preferred
    ]
    for policy, row in ((camdf.TopK(0), 0), (camdf.TopK(1), 1)):
        found = shadow_report(policy, LoggedTasks.from_records(records).take([row]), Payoff(0.1))
        assert (found.kept, found.missed.mean, found.cut) == (2.0, 0.0, ())


def test_camdf_shadow_report_reads_runs_that_saw_every_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [spans(n, explored=n % 2 == 0) for n in range(40)]
    pq.write_table(arrow_table([span for run in runs for span in run]), tmp_path / "spans.parquet")
    tasks, policy = tmp_path / "tasks.parquet", tmp_path / "policy.json"
    assert main(["mine", str(tmp_path / "spans.parquet"), "-o", str(tasks)]) == 0
    camdf.save(camdf.TopK(1), policy)
    capsys.readouterr()
    assert main(["shadow-report", str(policy), str(tasks), "--cost-pressure", "0.1"]) == 0
    printed = capsys.readouterr().out
    assert says(printed, "20 tasks", "cut 1.0 of 2.0 tools")
    assert says(printed.splitlines()[-1], "20 tasks were left out", "gate had cut")
    cut = pq.read_table(tasks)
    pq.write_table(cut.filter([not each for each in cut["explored"].to_pylist()]), tmp_path / "cut.parquet")
    assert main(["shadow-report", str(policy), str(tmp_path / "cut.parquet"), "--cost-pressure", "0.1"]) == 0
    assert says(capsys.readouterr().out, "gate had cut", "all of these tasks")
    lines = [{"task_id": str(n), "scores": {"a": 0.9, "b": 0.1}, "required": ["b"]} for n in range(5)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ["shadow-report", str(policy), str(tmp_path / "own.jsonl"), "--cost-pressure", "0.1"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["missed"], document["saw_every_tool"], document["left_out"]) == (1.0, False, 0)
    assert main(command) == 0
    assert says(capsys.readouterr().out, "Nothing says … saw every tool")


def test_tasks_that_a_gate_had_cut_are_not_measured_or_promised_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [spans(n, explored=n % 2 == 0) for n in range(40)]
    pq.write_table(arrow_table([span for run in runs for span in run]), tmp_path / "spans.parquet")
    tasks, cut, policy = (tmp_path / name for name in ("tasks.parquet", "cut.parquet", "policy.json"))
    assert main(["mine", str(tmp_path / "spans.parquet"), "-o", str(tasks)]) == 0
    mined = pq.read_table(tasks)
    pq.write_table(mined.filter([not each for each in mined["explored"].to_pylist()]), cut)
    camdf.save(camdf.cold_start(), policy)
    evaluate = ["evaluate", str(policy), "--cost-pressure", "0.1", "--splits", "2", "--json"]
    calibrate = ["calibrate", str(policy), "--min-sufficiency", "0.8", "--json"]
    capsys.readouterr()
    for command in (evaluate, calibrate):
        assert main([*command, str(tasks)]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["data"]["tasks"] == 20
        assert says(document["warnings"][0], "20 tasks were left out", "gate had cut")
    assert main([*calibrate[:-1], str(tasks)]) == 0
    assert says(capsys.readouterr().out, "Warning: 20 tasks", "left out")
    assert main([*evaluate, str(cut)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["data"]["tasks"] == 20
    assert says(document["warnings"][0], "gate had cut", "all of these tasks")
    assert main([*calibrate, str(cut)]) == 2
    assert says(capsys.readouterr().err, "promise nothing", "gate had cut", "all of these tasks")
    assert main(["calibrate", str(policy), "--budget", "1", str(cut)]) == 0


def test_a_policy_is_known_to_be_fitted_on_tasks_of_which_some_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [spans(n, explored=n % 2 == 0) for n in range(40)]
    pq.write_table(arrow_table([span for run in runs for span in run]), tmp_path / "spans.parquet")
    tasks, policy = str(tmp_path / "tasks.parquet"), str(tmp_path / "policy.json")
    assert main(["mine", str(tmp_path / "spans.parquet"), "-o", tasks]) == 0
    fit = ["fit", tasks, "-o", policy, "--cost-pressure", "0.1", "--splits", "2"]
    assert main(fit) == 0
    assert main(["calibrate", policy, tasks, "--min-sufficiency", "0.8"]) == 2
    assert says(capsys.readouterr().err, "fitted … these very tasks", "promise")


@pytest.mark.parametrize(
    ("policy", "offers", "learned"), [(None, True, True), ("score-threshold", True, False), (None, False, False)]
)
def test_a_fit_says_what_it_learned_from_tasks_that_a_gate_had_cut(
    policy: str | None, offers: bool, learned: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [spans(n, explored=n % 2 == 0) for n in range(40)]
    pq.write_table(arrow_table([span for run in runs for span in run]), tmp_path / "spans.parquet")
    tasks = tmp_path / "tasks.parquet"
    assert main(["mine", str(tmp_path / "spans.parquet"), "-o", str(tasks)]) == 0
    table = pq.read_table(tasks)
    offered = [["get"] if offers else None] * len(table)
    place = table.column_names.index("offered")
    pq.write_table(table.set_column(place, "offered", pa.array(offered, pa.list_(pa.string()))), tasks)
    named = [] if policy is None else ["--policy", policy]
    fit = ["fit", str(tasks), "-o", str(tmp_path / "policy.json"), "--cost-pressure", "0.1", "--splits", "2", *named]
    capsys.readouterr()
    assert main(fit) == 0
    assert says(capsys.readouterr().out, "20 tasks", "gate had cut")
    assert main([*fit, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["data"]["tasks"] == 20
    assert document["gated"] == {"tasks": 20, "learned_from": learned}
    gated = read_uncensored(tasks).gated
    assert (gated is not None) == offers
    if gated is not None:
        sent = of_gated(gated, lambda logged: renamed(logged, {"get": "zzz"}))
        assert [sent.logged.rankings.names(0)[i] for i in np.flatnonzero(sent.offered[0])] == ["zzz"]


def test_the_page_has_the_stored_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "traces" / "docs" / "compare.md").read_text()
    stored = json.loads((ROOT / "results" / "compare.json").read_text())
    module = benchmark_module("compare", monkeypatch)
    for share in module.errors(stored["all"]).values():
        assert share <= module.WRONG
        assert f"{share:.1%}" in page
    for effect, figures in stored["all"].items():
        shown = [f"{figures[name]['share']:.1%}" for name in ("safe", "harms", "saves")]
        (row,) = [
            line
            for line in page.splitlines()
            if line.startswith(f"| {100 * float(effect):+.0f} points".replace("+0 points", "none"))
        ]
        assert all(each in row for each in shown)
