"""A loop without a framework for the conformance suite: OpenAI's client, and the messages are the history."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextvars import ContextVar
from typing import Any

import httpx
from openai import OpenAI

from camdf.gate import GateDecision
from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup

EXEMPT = {
    "handoffs": "a loop of your own hands over in code",
    "traces have the tools that ran": "a loop of your own writes no spans but those that you write",
}

PERMITTED: ContextVar[Collection[str] | None] = ContextVar("permitted", default=None)
"""What may run in the agent whose tool is running: the loop hands it to another agent that this tool starts."""


def build(setup: Setup) -> Setup:
    return setup


def send(setup: Setup, turn: ChatTurn) -> Reply:
    wire = httpx.Client(verify=False)  # reading the machine's certificates takes longer than the rest
    with OpenAI(base_url=setup.url, api_key="none", max_retries=0, http_client=wire) as client:
        return answered(client, setup, turn)


def answered(client: OpenAI, setup: Setup, turn: ChatTurn) -> Reply:
    """The loop of docs/own-loop.md, with all that a client may ask for."""
    runnable = {f"{tool.server}_{tool.name}" if tool.server else tool.name: tool for tool in setup.tools}
    tools = [function(name, tool) for name, tool in runnable.items()]
    history: list[dict[str, Any]] = json.loads(turn.history or "[]")
    if not turn.approve:
        history.append({"role": "user", "content": turn.said})
    forced = [turn.forced] if turn.forced else []
    permitted = PERMITTED.get()
    system = {"role": "system", "content": setup.system}

    def decided() -> GateDecision:
        told: dict[str, Any] = {"conversation": turn.conversation, "forced": forced, "permitted": permitted}
        return setup.gate.decide([system, *history], tools, tool_search=setup.tool_search, **told)

    while True:
        decision = decided()
        for call in history[-1].get("tool_calls") or ():
            answer = setup.gate.answer(call, tools, decision.may_run)
            text = answer.text
            if answer.run is not None:
                tool = runnable[answer.run.name]
                if tool.needs_approval and turn.approve != answer.id:
                    return Reply(json.dumps(history), waits_for=answer.id)
                token = PERMITTED.set(decision.may_run)
                text = tool.run(answer.run.arguments)
                PERMITTED.reset(token)
            history.append({"role": "tool", "tool_call_id": answer.id, "content": text})
            decision = decided()
        said = asked(client, turn, forced, structured=setup.structured, **decision.openai([system, *history]))
        forced = []
        history.append(said)
        if not said.get("tool_calls"):
            return Reply(json.dumps(history), said["content"])


def asked(client: OpenAI, turn: ChatTurn, forced: list[str], *, structured: bool, **request: Any) -> dict[str, Any]:
    """What the model says to a request."""
    request["model"] = "scripted"
    if structured:
        request["response_format"] = {"type": "json_object"}
    if forced:
        request["tool_choice"] = {"type": "function", "function": {"name": forced[0]}}
    if not turn.stream:
        said = client.chat.completions.create(**request)
    else:
        with client.chat.completions.stream(**request) as events:
            said = events.until_done().get_final_completion()
    kept = said.choices[0].message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
    return {"content": None, **kept}


def function(name: str, tool: RunnableTool) -> dict[str, Any]:
    described = {"name": name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": described}
