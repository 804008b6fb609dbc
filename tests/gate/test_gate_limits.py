"""What one tool, one server or one text may cost: itself, and nobody else's decision."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import camdf
from camdf.gate import Gate, Guards, Limits
from camdf.gate.settings import SERVER_CHARACTERS, SERVER_TOOLS, TOOL_CHARACTERS, UNTRUSTED_CHARACTERS
from camdf.policies.rules import TopK
from camdf.scorers import BM25, Start
from camdf.scorers.base import full_text
from camdf.tools import PARAMETERS, READ, FromServer, Tool

TEXTS = (
    "Search flights between two cities",
    "Book a hotel room for a guest",
    "Send an email to a person",
    "Play a song",
    "Convert an amount from one currency into another",
    "Create an event in the calendar",
)
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
OURS = [
    FromServer("ours", {"name": f"tool_{n}", "description": text, "inputSchema": EMPTY}) for n, text in enumerate(TEXTS)
]
TASK = [{"role": "user", "content": "please search flights and book a hotel room"}]


def evil(description: str = "x", schema: Any = EMPTY, name: str = "evil") -> FromServer:
    return FromServer("new", {"name": name, "description": description, "inputSchema": schema})


FLOODS: dict[str, list[FromServer]] = {
    "a description of 20 MB": [evil("a " * 10_000_001)],
    "a description of 2.4 million words": [evil(" ".join(f"w{number}" for number in range(2_400_000)))],
    "a sign that becomes eighteen letters": [evil("\ufdfa" * 1_000_000)],
    "such signs, as many as are read": [evil("\ufdfa" * (TOOL_CHARACTERS - 1), name=f"evil{n}") for n in range(20)],
    "10,000 tools": [evil(name=f"evil{number}") for number in range(10_000)],
    "3,000 tools with long texts": [evil("word " * READ, name=f"evil{number}") for number in range(3_000)],
    "a schema of 300,000 properties": [evil(schema={"properties": {f"p{n}": {} for n in range(300_000)}})],
    "a schema of 40 MB": [evil(schema={"properties": {"p": {"description": "z" * 40_000_000}}})],
    "a name of 1 MB": [evil(name="e" * 1_000_000)],
}


@pytest.mark.parametrize("trusted", [["ours"], None], ids=["some are trusted", "all are trusted"])
@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_one_server_costs_itself(flood: str, trusted: list[str] | None) -> None:
    for scorer, prices in ((BM25(), None), (Start(), camdf.Prices(turns=6))):
        guards, limits = Guards(trusted=trusted, untrusted_places=0), Limits(seconds=120)
        gate = Gate(TopK(2), scorer, camdf.Payoff(0.05), guards=guards, prices=prices, limits=limits)
        alone = gate.decide(TASK, OURS)
        flooded = gate.decide(TASK, [*OURS, *FLOODS[flood]])
        assert (alone.reason, flooded.reason) == ("decided", "decided")
        assert [tool for tool in flooded.tools if tool["name"].startswith("tool_")] == alone.tools
        assert len(flooded.refused) + len(flooded.kept) + len(flooded.cut) == len(OURS) + len(FLOODS[flood])
        read = {each.name for each in flooded.ranking}
        texts = [native.tool["description"][:READ] for native in FLOODS[flood] if native.tool["name"] in read]
        assert sum(map(len, texts)) <= (UNTRUSTED_CHARACTERS if trusted else SERVER_CHARACTERS)


def test_untrusted_servers_share_the_room_that_the_others_leave() -> None:
    many = [FromServer(f"new{server}", evil(name=f"e{n}").tool) for server in range(10) for n in range(1_500)]
    gate = Gate(
        TopK(2), BM25(), camdf.Payoff(0.05), guards=Guards(trusted=["ours"]), limits=Limits(tools=1_006, seconds=120)
    )
    decision = gate.decide(TASK, [*OURS, *many])
    assert decision.reason == "decided"
    assert len(decision.kept) + len(decision.cut) == 1_006
    assert gate.decide(TASK, [*OURS, *many[:1]]).kept[:2] == decision.kept[:2]


def test_tools_whose_server_is_not_known_are_bounded_by_the_request_alone() -> None:
    many = [Tool(f"t{number}", "x") for number in range(SERVER_TOOLS + 10)]
    gate = Gate(TopK(2), BM25(), camdf.Payoff(0.05), limits=Limits(seconds=120))
    assert not gate.decide(TASK, [*OURS, *many]).refused
    assert gate.decide(TASK, [*OURS, *many * 5]).reason == "request too large"


def test_scorers_read_the_beginning_of_a_description_and_the_names_of_some_parameters() -> None:
    long = Tool("a", "b" * 10 * READ, {"properties": {f"p{number}": {} for number in range(10 * PARAMETERS)}})
    assert len(full_text(long)) < READ + 10 * PARAMETERS
    assert len(long.as_read) == 3 + PARAMETERS
    assert len(long.text) < READ + 10


def longest_pause(gate: Gate, history: list[dict[str, Any]], tools: list[Any], rounds: int = 3) -> tuple[float, float]:
    """How long the event loop stands still during a decision, at best, and how long the decision takes."""

    async def decide() -> tuple[float, float]:
        pauses = [0.0]

        async def beat() -> None:
            while True:
                began = time.monotonic()
                await asyncio.sleep(0.001)
                pauses.append(time.monotonic() - began - 0.001)

        beating = asyncio.create_task(beat())
        await asyncio.sleep(0.01)
        began = time.monotonic()
        await gate.adecide(history, tools)
        took = time.monotonic() - began
        beating.cancel()
        return max(pauses), took

    found = [asyncio.run(decide()) for _ in range(rounds)]
    return min(pause for pause, _ in found), min(took for _, took in found)


@pytest.mark.parametrize("trusted", [["ours"], None], ids=["some are trusted", "all are trusted"])
@pytest.mark.parametrize("where", ["a description", "the request"])
def test_signs_that_become_many_letters_hold_up_neither_the_event_loop_nor_a_decision(
    where: str, trusted: list[str] | None
) -> None:
    gate = Gate(
        camdf.cold_start(), Start(), camdf.Payoff(0.06), guards=Guards(trusted=trusted), limits=Limits(seconds=1.0)
    )
    plain = [{"role": "user", "content": "x " * 10_000 + TASK[0]["content"]}]
    for size in (300_000, 1_000_000, 5_000_000):
        text = "\ufdfa" * size
        history = [{"role": "user", "content": text}] if where == "the request" else plain
        tools = OURS if where == "the request" else [*OURS, evil(text), evil(text[: TOOL_CHARACTERS - 1], name="less")]
        pause, took = longest_pause(gate, history, tools)
        assert took < 10, "letter by letter 5 million signs take a minute"
        assert pause < 1
