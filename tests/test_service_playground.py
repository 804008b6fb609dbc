"""What the playground draws is what the program that it prints decides: every setting that was chosen, and no other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import camdf
from camdf.gate import Gate
from camdf.scorers import BM25
from camdf.service.config import GateSettings
from camdf.service.playground.look import Looked, LookRequest, looked
from golden import openai_tool

TOOLS = [
    openai_tool("get_weather", "Weather forecast of a city"),
    openai_tool("send_mail", "Send a mail"),
    openai_tool("book_flight", "Book a flight for a passenger"),
]
MESSAGES = [{"role": "user", "content": "What will the weather be like in Oslo?"}]
PLAIN = GateSettings(policy="cold-start")


def drawn(settings: GateSettings = PLAIN, **asked: Any) -> Looked:
    """What the page draws for a request."""
    serving = Gate(camdf.cold_start("similarity"), BM25(), camdf.Payoff(0.1))
    request = msgspec.convert({"messages": MESSAGES, "tools": TOOLS, "amount": 0.02, **asked}, LookRequest)
    return looked(request, serving, settings)


def printed(found: Looked) -> Any:
    """The decision of the printed program, when it is run."""
    names: dict[str, Any] = {"messages": found.wire.get("messages"), "tools": TOOLS}
    exec(compile(found.code, "the page", "exec"), names)
    return names["decision"]


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ({}, "prices=camdf.Prices()"),
        ({"cached": 0.0}, "prices=camdf.Prices(cached=0.0)"),
        ({"uncached": 300, "misuse": 0}, "prices=camdf.Prices(uncached=300.0, misuse=0.0)"),
        (
            {"misuse": 0, "dollars_per_second": 2, "privacy": {"send_mail": 0}},
            "prices=camdf.Prices(misuse=0.0, dollars_per_second=2.0, privacy={'send_mail': 0.0})",
        ),
    ],
)
def test_the_printed_program_has_the_prices_that_were_chosen(prices: dict[str, Any], said: str) -> None:
    found = drawn(prices=prices)
    assert f"camdf.Payoff(0.02, 'exact'), {said})\n" in found.code
    decision = printed(found)
    assert list(decision.kept) == found.kept
    assert {each.name: each.cost for each in decision.ranking} == pytest.approx(found.costs)


def test_the_printed_program_explores_no_more_than_the_page_does() -> None:
    found = drawn(GateSettings(policy="cold-start", explore=1.0, at_most=1))
    assert "camdf.Payoff(0.02, 'exact'), at_most=1)\n" in found.code
    decision = printed(found)
    assert not decision.explored
    assert list(decision.kept) == found.kept
    assert found.cut


@pytest.mark.parametrize("costs", [{}, {"send_mail": 0.0001}])
def test_a_later_turn_is_drawn_as_the_printed_program_decides_it(costs: dict[str, float]) -> None:
    """Where tools have prices, widening a list that the provider has cached has one too."""
    history = [*MESSAGES, {"role": "assistant", "content": "Sunny. " * 1000}]
    later = [*history, {"role": "user", "content": "Then book a flight to Oslo for a passenger"}]
    sizes = set()
    for amount in (1, 100, 200, 400, 800):
        found = drawn(messages=later, prices={}, costs=costs, amount=amount)
        assert list(printed(found).kept) == found.kept, amount
        sizes.add(len(found.kept))
    assert len(sizes) > 1
