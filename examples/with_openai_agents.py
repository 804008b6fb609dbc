"""An OpenAI agent with a dozen tools: its model gets four, and a search."""

from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    Runner,
    set_trace_processors,
)
from offline_model import OfflineModel
from openai import AsyncOpenAI
from travel import CATALOGUE

import camdf
from camdf.integrations.openai_agents import ToolGate


async def ok(context, arguments):
    return "ok"


tools = [
    FunctionTool(name, text, {"type": "object", "properties": {}}, ok)
    for name, text in CATALOGUE.items()
]
gate = camdf.Gate.start(tools, mean_tools=4)

set_trace_processors([])  # traces stay in this process
model = OfflineModel()
llm = OpenAIChatCompletionsModel(
    "offline", openai_client=AsyncOpenAI(base_url=model.url, api_key="none")
)
agent = ToolGate(Agent(name="Travel", tools=tools, model=llm), gate)

for task in [
    "Book a flight to Oslo and find a hotel room",
    "Play a song by the sea",
]:
    Runner.run_sync(agent, task)
    print(task, ", ".join(model.tools_seen[-1]), sep="\n  ")
