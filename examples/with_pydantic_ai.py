"""A pydantic-ai agent with a dozen tools, and a gate that hands its model those the task deserves. Runs offline."""

from __future__ import annotations

import re
from collections.abc import Sequence

from offline_model import OfflineModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import Tool

import camdf
from camdf.gate import Gate
from camdf.integrations.pydantic_ai import ToolGate

TOOLS = {
    "get_weather": "Weather forecast for a city",
    "send_email": "Send an email to a person",
    "search_flights": "Search flights between two cities on a date",
    "book_flight": "Book a flight for a passenger",
    "find_hotel": "Find a hotel in a city",
    "book_hotel": "Book a hotel room",
    "convert_currency": "Convert an amount between currencies",
    "create_event": "Create an event in the calendar",
    "translate_text": "Translate a text into another language",
    "stock_price": "Price of a stock today",
    "play_music": "Play a song",
    "run_sql": "Run a query against the database",
}


def shared_words(task: str, tools: Sequence[camdf.tools.Tool]) -> list[float]:
    """The share of a tool's words that the task has."""
    asked = set(re.findall(r"[a-z]{4,}", task.lower()))
    texts = [set(re.findall(r"[a-z]{4,}", tool.text.lower())) for tool in tools]
    return [len(asked & text) / max(len(text), 1) for text in texts]


def run() -> str:
    """What every made-up tool does."""
    return "ran"


gate = Gate(camdf.ScoreAtLeast(0.3), shared_words, camdf.Payoff(0.06))  # a fitted policy goes here: camdf.load(...)
model = OfflineModel()
agent = Agent(
    OpenAIChatModel("offline", provider=OpenAIProvider(base_url=model.url, api_key="none")),
    tools=[Tool(run, name=name, description=text) for name, text in TOOLS.items()],
    capabilities=[ToolGate(gate)],
)

for task in ("Book a flight and a hotel in a city", "What is the weather forecast for a city?"):
    agent.run_sync(task)
    print(f"{task}\n  of {len(TOOLS)} tools: {', '.join(model.tools_seen[-1])}")
