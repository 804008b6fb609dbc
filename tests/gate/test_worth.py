"""`camdf worth`: what a conversation costs by mode, before anything is deployed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.cli import main
from camdf.errors import UsageError
from camdf.gate.worth import Conversation, sentence, shared_sentence, worth
from camdf.prices import Prices
from camdf.tools import Tool
from saying import refuses, says

TOOLS = [Tool(f"tool_{place}", "Does one of many useful things for a customer. " * 3) for place in range(40)]
DATA = Path(__file__).parents[1] / "data" / "everyday"
SHAPES = st.builds(
    Conversation,
    turns=st.integers(1, 12),
    requests=st.integers(1, 4),
    spoken=st.integers(0, 500),
    system=st.integers(0, 5000),
    share=st.floats(0.01, 1),
    searches=st.floats(0, 1),
    widened=st.floats(0, 1),
)


def dollars(shape: Conversation, prices: Prices | None = None, count: int = 40) -> dict[str, float]:
    return {cost.mode: cost.dollars for cost in worth(TOOLS[:count], prices or Prices(), shape)}


@given(SHAPES)
@settings(max_examples=200, deadline=None)
def test_allow_costs_what_no_gate_costs_and_every_mode_costs_something(shape: Conversation) -> None:
    found = dollars(shape)
    assert found["allow"] == found["no gate"]
    assert min(found.values()) > 0


@given(SHAPES)
@settings(max_examples=200, deadline=None)
def test_without_a_cache_a_call_is_paid_token_by_token(shape: Conversation) -> None:
    prices = Prices(cache=False)
    for cost in worth(TOOLS, prices, shape):
        assert cost.dollars == pytest.approx(cost.tokens * prices.uncached / 1e6)


@given(SHAPES)
@settings(max_examples=200, deadline=None)
def test_a_list_that_never_changes_is_never_dearer_for_having_fewer_tools(shape: Conversation) -> None:
    fewer, more = dollars(shape, count=10), dollars(shape, count=40)
    assert fewer["no gate"] < more["no gate"]
    assert fewer["defer"] <= more["defer"]


def test_one_call_is_all_that_there_is_to_pay() -> None:
    shape, prices = Conversation(turns=1, requests=1, spoken=100, system=400, searches=0), Prices(uncached=2.0)
    tokens = sum(map(prices.count, TOOLS)) + 500
    assert dollars(shape, prices)["no gate"] == pytest.approx(tokens * 2.0 / 1e6)


def test_the_sentence_says_in_what_gating_pays() -> None:
    prices = Prices()
    assert says(sentence(worth(TOOLS, prices, Conversation())), "Gating saves money", "append")
    few = Conversation(searches=1.0, turns=12)
    assert "saves no money here" in sentence(worth(TOOLS[:12], prices, few))
    neither = Conversation(searches=1.0, turns=12, share=1.0)
    assert says(sentence(worth(TOOLS[:6], prices, neither)), "saves neither", "money nor", "tokens")


def test_a_list_that_is_cached_before_makes_cutting_pay_less() -> None:
    shape = Conversation(turns=1)
    for cold, warm in zip(worth(TOOLS, Prices(), shape), worth(TOOLS, Prices(), shape, shared=True), strict=True):
        assert warm.dollars <= cold.dollars
        assert (warm.dollars < cold.dollars) == (cold.loaded in (0, 40) or cold.mode == "drop, no tool search")
        assert warm.tokens == cold.tokens
    assert "cutting saves no money" in shared_sentence(worth(TOOLS[:10], Prices(), shape, shared=True))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"turns": 0}, "turns … Conversation … number … 1 … 0"),
        ({"share": 1.5}, "share … Conversation … share … 0 … 1 … 1.5"),
        ({"spoken": -1}, "spoken … Conversation … number … 0 … -1"),
        ({"searches": float("nan")}, "searches … Conversation … share … 0 … 1"),
    ],
)
def test_a_conversation_that_cannot_be_is_refused(setting: dict[str, float], said: str) -> None:
    with refuses(UsageError, said):
        Conversation(**setting)  # type: ignore[arg-type]


def test_the_command_reads_any_list_of_tools_and_ends_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worth", str(DATA / "catalogue-40.json"), "--turns", "6"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert says(printed[0], "40 tools", "6 turns and 12 model calls", "37.5%")
    assert says(printed[-3], "Gating saves", "money", "append")
    assert says(printed[-2], "whole list", "cached", "first")
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps({"tools": [{"name": "a", "description": "b", "inputSchema": {}}]}))
    assert main(["worth", str(listed)]) == 0
    for text, said in (
        ("[\n nothing]", "is not JSON (line 2, column 2)"),
        ("{}", "no list of tools"),
        ("[]", "no tool … a name"),
    ):
        listed.write_text(text)
        assert main(["worth", str(listed)]) == 2
        assert says(capsys.readouterr().err, said)


def test_how_often_what_is_loaded_is_enough_is_assumed_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*arguments: str) -> tuple[dict[str, float], str]:
        assert main(["worth", str(DATA / "catalogue-40.json"), "--mean-tools", "8", *arguments, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        return {cost["mode"]: cost["dollars"] for cost in printed["modes"]}, printed["sentence"]

    often, seldom = told("--sufficiency", "0.9"), told("--sufficiency", "0.3")
    assert says(often[1], "enough", "90%", "turns")
    assert all(
        often[0][mode] < seldom[0][mode] for mode in ("drop, with a tool search", "defer", "drop, no tool search")
    )
    assert often[0].keys() - told("--tool-search")[0].keys() == {"drop, no tool search"}
    assert often[0].keys() - told("--no-tool-search")[0].keys() == {"append", "drop, with a tool search"}
    assert told("--prices", "6.00,0.60")[0]["no gate"] == pytest.approx(2 * told("--prices", "3.00,0.30")[0]["no gate"])


def test_a_sufficiency_is_a_share(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worth", str(DATA / "catalogue-40.json"), "--sufficiency", "90"]) == 2
    assert "from 0 to 1" in capsys.readouterr().err
