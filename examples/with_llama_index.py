"""A LlamaIndex agent with a dozen tools whose model is sent only those that the task deserves."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from offline_model import OfflineModel

import camdf
from camdf.gate import Gate
from camdf.integrations.llama_index import ToolGate

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
tools = [FunctionTool.from_defaults(fn=lambda: "ok", name=name, description=text) for name, text in catalogue.items()]


def words(text):
    return {word for word in text.lower().split() if len(word) > 3}


def shared_words(task, tools):
    """A scorer gives every tool a number of 0 or more: here, the share of its words that the task has."""
    return [len(words(task) & words(tool.text)) / len(words(tool.text)) for tool in tools]


# A fitted policy goes here, as camdf.load("policy.json"). PlugIn needs no training: it keeps score >= priced cost.
gate = Gate(camdf.PlugIn(), shared_words, camdf.Payoff(cost_pressure=0.2))

model = OfflineModel()
llm = OpenAILike(
    api_base=model.url, api_key="none", model="offline", is_chat_model=True, is_function_calling_model=True
)
agent = FunctionAgent(tool_retriever=ToolGate(gate, tools), llm=llm)


async def main():
    for task in ["Book a flight to Oslo and find a hotel room", "Play a song of the Beatles"]:
        await agent.run(task)
        print(f"{task}: of {len(tools)} tools the model got {', '.join(model.tools_seen[-1])}")


asyncio.run(main())
