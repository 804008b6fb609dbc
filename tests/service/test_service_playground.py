"""What the playground draws is what the program that it prints decides: every setting that was chosen, and no other."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import camdf
from camdf.gate import Limits
from camdf.service.config import GateSettings
from camdf.service.gates import gate_of
from camdf.service.playground.look import Looked, LookRequest, looked
from golden import openai_tool
from running_service import PLAIN as CONFIGURATION
from running_service import SECONDS, Running, folder_of, running
from scripted_endpoint import endpoint, hang

TOOLS = [
    openai_tool("get_weather", "Weather forecast of a city"),
    openai_tool("send_mail", "Send a mail"),
    openai_tool("book_flight", "Book a flight for a passenger"),
]
MESSAGES = [{"role": "user", "content": "What will the weather be like in Oslo?"}]
PLAIN = GateSettings(policy="cold-start")


def drawn(settings: GateSettings = PLAIN, **asked: Any) -> Looked:
    """What the page draws for a request."""
    serving = gate_of(replace(settings, cost_pressure=0.1), camdf.cold_start("similarity"), ".")
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
        ({"uncached": 300, "misuse": 0}, "prices=camdf.Prices(uncached=300, misuse=0)"),
        (
            {"misuse": 0, "dollars_per_second": 2, "privacy": {"send_mail": 0}},
            "prices=camdf.Prices(misuse=0, dollars_per_second=2, privacy={'send_mail': 0})",
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
    found = drawn(GateSettings(policy="cold-start", rollout={"explore": 1.0}, limits=Limits(at_most=1)))
    assert "camdf.Payoff(0.02, 'exact'), limits=Limits(at_most=1))\n" in found.code
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
    for amount in (1, 100, 800, 3000):
        found = drawn(messages=later, prices={}, costs=costs, amount=amount)
        assert list(printed(found).kept) == found.kept, amount
        sizes.add(len(found.kept))
    assert len(sizes) > 1


@pytest.mark.parametrize("target", ["pressure", "tools", "sufficiency", "dollars"])
def test_looks_leave_no_threads(target: str) -> None:
    serving = gate_of(GateSettings(policy="cold-start", cost_pressure=0.1), camdf.cold_start("similarity"), ".")
    ranked = [{"name": f"tool-{i}", "score": i / 10} for i in range(10)]
    before = threading.active_count()
    for _ in range(20):
        looked(msgspec.convert({"ranking": ranked, "target": target, "amount": 0.9}, LookRequest), serving, PLAIN)
    assert threading.active_count() <= before
    for _ in range(20):
        talk = {"messages": MESSAGES, "tools": TOOLS, "target": target, "amount": 0.9}
        looked(msgspec.convert(talk, LookRequest), serving, PLAIN)
    assert threading.active_count() <= before + 2, "one that reads and one that scores, of the gate that serves"


def threads_of(service: Running) -> int:
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="utf-8")
    return int(re.findall(r"^Threads:\s+(\d+)$", status, flags=re.M)[0])


def test_looks_are_admitted_as_decisions_are_and_their_threads_are_bounded(tmp_path: Path) -> None:
    scorer = '[gate.scorer]\nkind = "llm"\nurl = "{}"\nmodel = "any"\n'
    limits = "[limits]\nwaiting = 4\nretry_seconds = 3\n"
    asked = {"messages": MESSAGES, "tools": TOOLS}
    with endpoint(hang) as model:
        configuration = f"{CONFIGURATION}limits.seconds = 1\n{scorer.format(model.url)}{limits}"
        with running(folder_of(tmp_path / "served", configuration)) as service:
            before = threads_of(service)
            with ThreadPoolExecutor(16) as pool:
                begun = [pool.submit(service.ask, "/playground/look", asked) for _ in range(16)]
                found = [each.result(SECONDS) for each in begun]
            told = {(each.status, each.headers.get("retry-after")) for each in found}
            assert told == {(200, None), (503, "3")}
            assert threads_of(service) <= before + 16
            assert service.number("camdf_requests_under_way") == 0
