"""A Haystack agent with a dozen tools: a search, and a note of four."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from offline_model import OfflineModel
from travel import CATALOGUE

import camdf
from camdf.integrations.haystack import ToolGate


def run() -> str:
    """What every made-up tool does."""
    return "ran"


described = [camdf.tools.Tool(name, text) for name, text in CATALOGUE.items()]
gate = camdf.Gate.start(described, mean_tools=4)

model = OfflineModel()
generator = OpenAIChatGenerator(
    Secret.from_token("none"), "offline", api_base_url=model.url
)
nothing = {"type": "object", "properties": {}}
agent = Agent(
    chat_generator=ToolGate(generator, gate),
    tools=[Tool(name, text, nothing, run) for name, text in CATALOGUE.items()],
)

for task in (
    "Book a flight to Oslo and find a hotel room",
    "What is the weather forecast for a city?",
):
    agent.run([ChatMessage.from_user(task)])
    print(task)
    print("  tools:", ", ".join(model.tools_seen[-1]))
    print("  a note:", ", ".join(model.notes_seen[-1]))
