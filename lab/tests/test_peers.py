"""docs/peers.md shows what is stored, what is stored are the peers' answers measured, and their rules are theirs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from camdf.core.payoff import Payoff
from camdf_lab.beyond.batches import BATCHES, IN_TABLES
from camdf_lab.cli import main
from camdf_lab.peers import methods, page, study
from camdf_lab.peers.answers import cases, everyday, read_answers
from camdf_lab.peers.methods import EVERYTHING, METHODS, methods_of
from camdf_lab.peers.study import FINAL, FOUND_SHARE, WITH_TOOL_SEARCH, measured_by
from camdf_lab.stored import stored

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
ROWS = stored(RESULTS, study.NAME, study.COMMAND)
CASES = {(case.domain, case.scorer): case for case in cases(RESULTS)}


def test_the_page_is_what_is_stored_and_its_picture_has_a_point_for_every_payoff() -> None:
    assert (ROOT / "docs" / "peers.md").read_text(encoding="utf-8") == page.peers_page(RESULTS)
    for axes, batch in zip(page.peers_picture(ROWS).axes, BATCHES, strict=True):
        names = page.picture_names(ROWS)[::-1]
        points = [each[0] for line in axes.lines if len(each := np.asarray(line.get_xydata())) == 1]
        of_all = [
            row for row in ROWS if (row["look"], row["domain"], row["scorer"]) == (IN_TABLES[batch], "all", "minilm")
        ]
        paid = {row["method"]: row["payoff"] for row in of_all if row["setting"] == FINAL}
        drawn = {names[round(height)]: payoff for payoff, height in points}
        assert drawn == {name: payoff for name, payoff in paid.items() if name in names and payoff >= page.LEFT}


def test_every_domain_has_every_way_in_both_settings() -> None:
    assert len({domain for domain, _ in CASES}) == 17
    for domain, scorer in CASES:
        found = [(r["method"], r["setting"]) for r in ROWS if (r["domain"], r["scorer"]) == (domain, scorer)]
        ways = methods_of(CASES[domain, scorer])
        assert sorted(found) == sorted((way.name, setting) for way in ways for setting in study.SETTINGS)


AGAIN = [
    method
    for method in methods_of(CASES["telecom", "minilm"])
    if method.name in (EVERYTHING, "top 5", "score > t, tuned", "camdf, examples, no label")
    or (method.name.endswith("tuned") and "'s " in method.name)
]


@pytest.mark.parametrize("method", AGAIN, ids=lambda method: method.name)
def test_ways_measured_again_are_as_stored(method: methods.Method) -> None:
    for setting in study.SETTINGS:
        again = measured_by(CASES["telecom", "minilm"], method, setting).means
        place_of = ("telecom", "minilm", method.name, setting)
        (row,) = (r for r in ROWS if (r["domain"], r["scorer"], r["method"], r["setting"]) == place_of)
        assert again == pytest.approx({name: row[name] for name in again}, abs=1e-6)


@pytest.mark.parametrize(
    ("peer", "limit", "threshold", "all_if_none"),
    [("litellm", 10, 0.3, True), ("semantic-router", 1, 0.5, False), ("semantic-router-1", 1, -1.0, False)],
)
def test_what_the_filters_answered_is_their_limit_and_threshold(
    peer: str, limit: int, threshold: float, all_if_none: bool
) -> None:
    differ = total = 0
    for case in CASES.values():
        if peer in case.peers:
            answer = case.peers[peer]
            listed = case.logged.rankings.listed
            assert answer.scores is not None
            mask = (answer.places < limit) & (answer.scores >= threshold) & listed
            if all_if_none:
                mask = mask | (listed & ~mask.any(axis=1, keepdims=True))
            differ += int((mask != answer.default).any(axis=1).sum())
            total += len(mask)
    assert total > 500
    assert differ <= 0.01 * total  # descriptions that are equal share one vector, and then one of them


SEARCHES = {
    "fastmcp-bm25": 5,
    "fastmcp-regex": 5,
    "graph-tool-call": 10,
    "graph-tool-call-minilm": 10,
    "haystack": 3,
    "toolhunch": 10,
    "toolsieve": 3,
}


def test_the_searches_answer_with_their_first_tools_and_the_selector_with_what_was_judged_likely() -> None:
    for case in CASES.values():
        for peer, answer in case.peers.items():
            assert not (answer.default & ~case.logged.rankings.listed).any()
            if peer in SEARCHES and not (peer == "haystack" and case.logged.rankings.width < 8):  # it hands over all
                first = (answer.places >= 0) & (answer.places < SEARCHES[peer])
                if peer.startswith("graph-tool-call"):  # its order depends on how many it is asked for
                    assert (answer.default.sum(axis=1) <= SEARCHES[peer]).all()
                    assert (answer.default & first).sum() > 0.8 * answer.default.sum()
                else:
                    assert (answer.default == first).all()
            if peer == "langchain":
                assert (answer.default == (case.logged.rankings.scores >= 0.5)).all()


def test_nothing_that_is_decided_on_was_learned_from() -> None:
    case = CASES["retail", "minilm"]
    parts = study.parts_of(case)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(case.rows)))
    groups = [set(case.logged.groups[rows].tolist()) for rows in parts]
    assert sum(map(len, groups)) == len(set.union(*groups))


def test_tuning_takes_what_earns_most_on_the_known_labels() -> None:
    case = CASES["airline", "minilm"]
    known = np.arange(0, 20)
    payoff = Payoff(0.05)
    (chosen,) = methods.tuned(methods.best_of("fastmcp-bm25"))(case, known, known, payoff)
    masks = methods.best_of("fastmcp-bm25")(case, known)
    paid = [float(payoff.of(case.logged.take(known), mask[known]).mean()) for mask in masks]
    assert float(payoff.of(case.logged.take(known), chosen).mean()) == max(paid)


def test_what_a_set_costs_and_earns_is_counted_by_hand() -> None:
    case = CASES["airline", "minilm"]
    rows = np.array([0])
    mask = np.zeros((1, case.logged.rankings.width), bool)
    method = METHODS["minilm"][1]
    final = study.figures_of(case, method, FINAL, rows, mask)
    searched = study.figures_of(case, method, WITH_TOOL_SEARCH, rows, mask)
    needed = case.logged.n_required[0]
    assert not any(final[name].any() for name in ("tools", "tokens", "dollars", "payoff"))
    assert searched["misses"] == needed
    assert searched["repaired"] == pytest.approx(FOUND_SHARE**needed)
    assert searched["payoff"] == pytest.approx(0.8**needed)
    each = study.PRICES.of_search(
        prefix_tokens=2_000, found_tokens=5 * case.tokens[0].sum() / 6, call_tokens=60, output=15.0
    )
    assert searched["dollars"] == pytest.approx(study.PRICES.of_tokens(150) + needed * each)


def test_everything_is_sufficient_where_the_list_holds_all_and_needs_no_searched() -> None:
    case = CASES["retail", "claude"]
    found = measured_by(case, METHODS["claude"][0], WITH_TOOL_SEARCH)
    assert METHODS["claude"][0].name == EVERYTHING
    assert found.means["sufficient"] == found.means["repaired"] == 1.0
    assert found.means["tokens"] == pytest.approx(float(case.tokens.sum(axis=1).mean()))


def test_nothing_earns_more_than_the_needed_tools_alone_and_no_cut_more_than_the_best_in_hindsight() -> None:
    for (domain, scorer), case in CASES.items():
        for setting in study.SETTINGS:
            known, cut = study.ceilings(case, setting)
            here = (domain, scorer, setting)
            paid = {r["method"]: r["payoff"] for r in ROWS if (r["domain"], r["scorer"], r["setting"]) == here}
            assert max(cut, *paid.values()) <= known + 1e-6
            assert max(paid[name] for name in ("top 5", "top 10", "top k, tuned")) <= cut + 1e-6


def test_losses_are_named() -> None:
    text = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8").partition("## Where camdf loses")[2]
    for scorer, method, against in page.contests(ROWS):
        losses = page.lost(ROWS, scorer, FINAL, method, against)
        assert f"| {method}, {scorer} | {FINAL} | {len(losses)} of" in text
        for domain, name, by in losses[:2]:
            assert f"{domain} ({by:.3f} to {name})" in text


def test_everyday_requests_have_what_the_product_says_of_its_own_ranking() -> None:
    stored_rankings = json.loads((ROOT.parent / "results" / "examples.json").read_text())["rankings"]
    daily = everyday(read_answers(RESULTS))
    for name, with_examples in (("camdf", False), ("camdf-examples", True)):
        (row,) = (row for row in stored_rankings if (row["ranking"], row["examples"]) == ("Start", with_examples))
        for size, ways in daily.items():
            groups = row["requests"][size].values()
            loaded = sum(group["loaded"] for group in groups)
            asked = sum(group["requests"] for group in groups)
            assert len(ways[name].worst) == asked
            assert ways[name].within(page.BEST) * asked == pytest.approx(loaded, abs=1)


def test_every_way_of_the_everyday_table_was_asked_about_both_lists() -> None:
    for ways in everyday(read_answers(RESULTS)).values():
        assert {"everything", *page.OURS} <= set(ways) <= set(page.EVERYDAY_WAYS)
        for way in ways.values():
            assert way.at_once <= way.after_one <= 1


def test_without_stored_answers_the_command_says_what_asks_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("camdf_lab.cli.held", lambda: tmp_path / "nothing")
    assert main(["run", "peers", "--into", str(tmp_path)]) == 2
    assert "python benchmarks/peers.py ask" in capsys.readouterr().err
