"""OpenAI Agents for the conformance suite: the items are the history, kept as JSON, or the state of a waiting run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    RunState,
    set_trace_processors,
)
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel

from camdf.integrations.conformance import ChatTurn, Reply, RunnableTool, Setup
from camdf.integrations.openai_agents import ToolGate

LISTS_ALONE = "an agent cannot change the messages of a run: only its RunConfig can"
EXEMPT = {
    "what a turn needs joins its end": LISTS_ALONE,
    "a forced tool is listed for its turn": LISTS_ALONE,
    "traces have the tools that ran": "OpenAI Agents has traces of its own and no OpenTelemetry; traces by "
    "OpenInference have the tools that ran",
}

set_trace_processors([])  # else traces leave the machine


class Answer(BaseModel):
    answer: str


def build(setup: Setup) -> Setup:
    return setup


def agent_of(setup: Setup, turn: ChatTurn, client: AsyncOpenAI) -> Agent[None]:
    model = OpenAIChatCompletionsModel("scripted", openai_client=client)
    colleagues = [Agent[None](name=setup.colleague, instructions=f"You are {setup.colleague}.", model=model)]
    agent = Agent[None](
        name="agent",
        instructions=setup.system,
        tools=[native(tool) for tool in setup.tools],
        handoffs=colleagues if setup.colleague else [],
        output_type=Answer if setup.structured else None,
        model=model,
        model_settings=ModelSettings(tool_choice=turn.forced),
    )
    return ToolGate(agent, setup.gate, tool_search=setup.tool_search)


def native(tool: RunnableTool) -> FunctionTool:
    async def run(context: Any, arguments: str) -> str:
        return tool.run(json.loads(arguments))

    return FunctionTool(
        f"{tool.server}_{tool.name}" if tool.server else tool.name,  # as include_server_in_tool_names does
        tool.description,
        dict(tool.parameters),
        run,
        strict_json_schema=False,
        needs_approval=tool.needs_approval,
    )


def send(setup: Setup, turn: ChatTurn) -> Reply:
    return asyncio.run(_send(setup, turn))


async def _send(setup: Setup, turn: ChatTurn) -> Reply:
    wire = DefaultAsyncHttpxClient(verify=False)  # reading the machine's certificates takes longer than the rest
    config = RunConfig(tool_not_found_behavior="return_error_to_model", group_id=turn.conversation)
    async with AsyncOpenAI(base_url=setup.url, api_key="none", max_retries=0, http_client=wire) as client:
        agent = agent_of(setup, turn, client)
        asked: Any = [*json.loads(turn.history or "[]"), said(turn)] if not turn.approve else None
        if turn.approve:
            asked = await RunState.from_json(agent, turn.approve)
            asked.approve(asked.get_interruptions()[0])
        if turn.stream:
            result: Any = Runner.run_streamed(agent, asked, run_config=config, max_turns=30)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, asked, run_config=config, max_turns=30)
    if result.interruptions:
        return Reply("", waits_for=result.to_state().to_json())
    output = result.final_output
    text = output.model_dump_json() if isinstance(output, Answer) else output
    return Reply(json.dumps(result.to_input_list()), text)


def said(turn: ChatTurn) -> dict[str, Any]:
    if isinstance(turn.said, str):
        return {"role": "user", "content": turn.said}
    parts = [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"]}
        for part in turn.said
    ]
    return {"role": "user", "content": parts}
