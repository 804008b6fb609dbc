"""Where a gate has a privilege, adapters run nothing outside of it, whoever serves and however many at a time."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from drivers import FRAMEWORKS, driver

from camdf.gate import Gate, Privilege
from camdf.integrations.conformance import ChatTurn, RunnableTool, Setup
from camdf.integrations.conformance.scripted_model import ScriptedCall, ScriptedModel, Step
from camdf.integrations.conformance.situations import TRAVEL, word_overlap
from camdf.tools import Tool

BIND = ("google_adk", "strands", "agent_framework", "haystack", "llama_index")
INSTALLED = [name for name in BIND if FRAMEWORKS[name].version]
RESUMED = [name for name in INSTALLED if "approvals" not in driver(name).EXEMPT]

READ = "What is the weather forecast"
SEND = "Send an email to Anna, please"
CALLED = ScriptedCall("send_email", {"what": "Hi"})

pytestmark = pytest.mark.filterwarnings("default")


def gate() -> Gate:
    reading = dict.fromkeys(("read_calendar", "get_weather", "stock_price", "find_hotel"), "read")
    listed = [Tool(*told) for told in TRAVEL.items()]
    return Gate.start(listed, mean_tools=2, scorer=word_overlap, mode="drop", privilege=Privilege(reading))


def setup(model: ScriptedModel, ran: list[str], needing: str = "") -> Setup:
    def tool(name: str, description: str) -> RunnableTool:
        def run(arguments: dict[str, Any]) -> str:
            ran.append(name)
            return f"{name} ran"

        return RunnableTool(name, description, run, needs_approval=name == needing)

    return Setup(model.url, tuple(tool(*told) for told in TRAVEL.items()), gate())


@pytest.mark.parametrize("framework", RESUMED)
@pytest.mark.parametrize(("said", "expected"), [(READ, []), (SEND, ["send_email"])])
def test_a_run_that_goes_on_elsewhere_after_an_approval_runs_what_the_user_asked_for(
    framework: str, said: str, expected: list[str]
) -> None:
    ran: list[str] = []
    with ScriptedModel([CALLED]) as model:
        works = driver(framework)
        reply = works.send(works.build(setup(model, ran, "send_email")), ChatTurn(said))
        if reply.waits_for is not None:
            assert ran == []
            elsewhere = works.build(setup(model, ran, "send_email"))
            reply = works.send(elsewhere, ChatTurn(history=reply.history, approve=reply.waits_for))
    assert ran == expected
    assert reply.text == "done"


class _CallingOnce(ScriptedModel):
    """Calls the tool in every conversation, once as many as there are have asked."""

    def __init__(self, conversations: int) -> None:
        super().__init__()
        self.all_there = threading.Barrier(conversations)

    def answer(self, body: dict[str, Any]) -> Step | int:
        super().answer(body)
        if any(message["role"] == "tool" for message in body["messages"]):
            return "done"
        self.all_there.wait(timeout=60)
        return CALLED


@pytest.mark.parametrize("framework", INSTALLED)
def test_two_runs_at_the_same_time_do_not_share_what_may_run(framework: str) -> None:
    ran: list[str] = []
    with _CallingOnce(2) as model:
        works = driver(framework)
        agent = works.build(setup(model, ran))
        with ThreadPoolExecutor(2) as pool:
            replies = list(pool.map(lambda said: works.send(agent, ChatTurn(said)), (READ, SEND)))
    assert [reply.text for reply in replies] == ["done", "done"]
    assert ran == ["send_email"], "one of the two users has asked for it"
    refused = [request for request in model.requests if "did not run" in json.dumps(request)]
    assert len(refused) == 1
