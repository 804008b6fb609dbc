"""Everyday conversations through any driver of the conformance suite, and all that a run of it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from camdf import Payoff, cold_start
from camdf.gate import Gate, Limits
from camdf.integrations.checks import CHECKS, ChatTurn, Driver, RunnableTool, Setup
from camdf.scorers import BM25
from everyday import Conversation, Played, check_every_way

CONVERSATIONS = "everyday conversations"


def check_everyday(driver: Driver, conversation: Conversation) -> None:
    """On one worker, on two, and restarted at every turn; without the tool search, and with it."""
    with Played(conversation) as model:
        check_every_way(model, lambda workers, tool_search: _play(driver, model, workers, tool_search))


def _play(driver: Driver, model: Played, workers: int, tool_search: bool) -> None:
    conversation = model.conversation

    def setup() -> Setup:
        gate = Gate(cold_start(), BM25(), Payoff(0.02), limits=Limits(seconds=60))
        tools = tuple(_tool(model, **each["function"]) for each in conversation.tools)
        return Setup(model.url, tools, gate, tool_search, conversation.system)

    agents, history, told = [driver.build(setup()) for _ in range(workers)], None, ""
    for turn in conversation.turns:
        agent = (
            agents[turn.number % workers]
            if workers
            else driver.build(replace(setup(), system=told or conversation.system))
        )
        model.begin(turn)
        history = driver.send(agent, ChatTurn(turn.content, history, forced=turn.tool_choice)).history
        if turn.number == conversation.summary_after:
            history, told = None, f"{conversation.system}\n{conversation.summary}"
            agents = [driver.build(replace(setup(), system=told)) for _ in range(workers)]


def _tool(model: Played, name: str, description: str, parameters: dict[str, Any]) -> RunnableTool:
    return RunnableTool(name, description, lambda arguments: model.result(name), parameters)


def conformance(driver: Any, conversations: Iterable[Conversation]) -> dict[str, str]:
    """By the name of a check, "yes", or why the framework is exempt; what is broken is raised."""
    verdicts = {}
    for name, check in CHECKS.items():
        if name in driver.EXEMPT:
            verdicts[name] = driver.EXEMPT[name]
            continue
        check(driver)
        verdicts[name] = "yes"
    played = [check_everyday(driver, conversation) for conversation in conversations]
    return {**verdicts, CONVERSATIONS: f"all {len(played)}"}
