"""An agent with a dozen tools: a search, and a note of four."""

import asyncio

from agent_framework import Agent, FunctionTool
from agent_framework.openai import OpenAIChatCompletionClient
from offline_model import OfflineModel
from travel import CATALOGUE

import camdf
from camdf.integrations.agent_framework import ToolGate


def run() -> str:
    """What every made-up tool does."""
    return "ran"


described = [camdf.tools.Tool(name, text) for name, text in CATALOGUE.items()]
gate = camdf.Gate.start(described, mean_tools=4)

model = OfflineModel()
agent = Agent(
    OpenAIChatCompletionClient(
        model="offline", base_url=model.url, api_key="none"
    ),
    tools=[
        FunctionTool(name=name, description=text, func=run)
        for name, text in CATALOGUE.items()
    ],
    context_providers=[ToolGate(gate)],
)


async def main() -> None:
    for task in (
        "Book a flight to Oslo and find a hotel room",
        "What is the weather forecast for a city?",
    ):
        await agent.run(task)
        print(task)
        print("  tools:", ", ".join(model.tools_seen[-1]))
        print("  a note:", ", ".join(model.notes_seen[-1]))


asyncio.run(main())
