"""A Strands agent with a dozen tools: a search, and a note of four."""

from offline_model import OfflineModel
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from travel import CATALOGUE

import camdf
from camdf.integrations.strands import ToolGate


def run() -> str:
    """What every made-up tool does."""
    return "ran"


described = [camdf.tools.Tool(name, text) for name, text in CATALOGUE.items()]
gate = camdf.Gate.start(described, mean_tools=4)

model = OfflineModel()
for task in (
    "Book a flight to Oslo and find a hotel room",
    "What is the weather forecast for a city?",
):
    agent = Agent(
        OpenAIModel(
            client_args={"base_url": model.url, "api_key": "none"},
            model_id="offline",
        ),
        tools=[
            tool(run, name=name, description=text)
            for name, text in CATALOGUE.items()
        ],
        plugins=[ToolGate(gate)],
        callback_handler=None,
    )
    agent(task)
    print(task)
    print("  tools:", ", ".join(model.tools_seen[-1]))
    print("  a note:", ", ".join(model.notes_seen[-1]))
