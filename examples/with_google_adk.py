"""A Google ADK agent with a dozen tools: a search, and a note of four."""

import asyncio
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = (
    "True"  # or LiteLLM asks the internet for prices
)

from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.function_tool import FunctionTool
from offline_model import OfflineModel
from travel import CATALOGUE

import camdf
from camdf.integrations.google_adk import ToolGate


def made_up(name: str, text: str) -> FunctionTool:
    """A tool that does nothing."""

    def run() -> str:
        return "ran"

    run.__name__ = name
    run.__doc__ = text
    return FunctionTool(run)


described = [camdf.tools.Tool(name, text) for name, text in CATALOGUE.items()]
gate = camdf.Gate.start(described, mean_tools=4)

model = OfflineModel()
agent = LlmAgent(
    name="travel",
    model=LiteLlm(model="openai/offline", api_base=model.url, api_key="none"),
    tools=[made_up(name, text) for name, text in CATALOGUE.items()],
)
runner = InMemoryRunner(
    app=App(name="travel", root_agent=agent, plugins=[ToolGate(gate)])
)

for task in (
    "Book a flight to Oslo and find a hotel room",
    "What is the weather forecast for a city?",
):
    asyncio.run(runner.run_debug(task, session_id=task, quiet=True))
    print(task)
    print("  tools:", ", ".join(model.tools_seen[-1]))
    print("  a note:", ", ".join(model.notes_seen[-1]))
