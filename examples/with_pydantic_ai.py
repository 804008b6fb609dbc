"""A pydantic-ai agent with a dozen tools: a search, and a note of four."""

from offline_model import OfflineModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import Tool
from travel import CATALOGUE

import camdf
from camdf.integrations.pydantic_ai import ToolGate


def run() -> str:
    """What every made-up tool does."""
    return "ran"


described = [camdf.tools.Tool(name, text) for name, text in CATALOGUE.items()]
gate = camdf.Gate.start(described, mean_tools=4)

model = OfflineModel()
agent = Agent(
    OpenAIChatModel(
        "offline", provider=OpenAIProvider(base_url=model.url, api_key="none")
    ),
    tools=[
        Tool(run, name=name, description=text)
        for name, text in CATALOGUE.items()
    ],
    capabilities=[ToolGate(gate)],
)

for task in (
    "Book a flight to Oslo and find a hotel room",
    "What is the weather forecast for a city?",
):
    agent.run_sync(task)
    print(task)
    print("  tools:", ", ".join(model.tools_seen[-1]))
    print("  a note:", ", ".join(model.notes_seen[-1]))
