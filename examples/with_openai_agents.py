"""An OpenAI Agents agent with a dozen tools whose model is sent only those that the task deserves."""

from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, Runner, set_trace_processors
from offline_model import OfflineModel
from openai import AsyncOpenAI

import camdf
from camdf.gate import Gate
from camdf.integrations.openai_agents import gated

catalogue = {
    "get_weather": "Weather forecast for a city",
    "send_email": "Send an email to a person",
    "read_email": "Read the latest email in the inbox",
    "search_flights": "Search flights between two cities on a date",
    "book_flight": "Book a flight for a passenger",
    "find_hotel": "Find a hotel in a city",
    "book_hotel": "Book a hotel room",
    "convert_currency": "Convert an amount between currencies",
    "create_event": "Create an event in the calendar",
    "translate_text": "Translate a text into another language",
    "stock_price": "Price of a stock today",
    "play_music": "Play a song",
}


async def ok(context, arguments):
    return "ok"


def words(text):
    return {word for word in text.lower().split() if len(word) > 3}


def shared_words(task, tools):
    """A scorer gives every tool a number of 0 or more: here, the share of its words that the task has."""
    return [len(words(task) & words(tool.text)) / len(words(tool.text)) for tool in tools]


# A fitted policy goes here, as camdf.load("policy.json"). PlugIn needs no training: it keeps score >= priced cost.
gate = Gate(camdf.PlugIn(), shared_words, camdf.Payoff(cost_pressure=0.2))

set_trace_processors([])  # traces stay in this process
model = OfflineModel()
llm = OpenAIChatCompletionsModel("offline", openai_client=AsyncOpenAI(base_url=model.url, api_key="none"))
tools = [FunctionTool(name, text, {"type": "object", "properties": {}}, ok) for name, text in catalogue.items()]
agent = gated(Agent(name="Travel", tools=tools, model=llm), gate)

for task in ["Book a flight to Oslo and find a hotel room", "Play a song by the sea"]:
    Runner.run_sync(agent, task)
    print(f"{task}: of {len(tools)} tools the model got {', '.join(model.tools_seen[-1])}")
