"""A LlamaIndex agent with a dozen tools: its model gets four, and a search."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from offline_model import OfflineModel
from travel import CATALOGUE

import camdf
from camdf.integrations.llama_index import ToolGate

tools = [
    FunctionTool.from_defaults(fn=lambda: "ok", name=name, description=text)
    for name, text in CATALOGUE.items()
]
gate = camdf.Gate.start(tools, mean_tools=4)

model = OfflineModel()
llm = OpenAILike(
    api_base=model.url,
    api_key="none",
    model="offline",
    is_chat_model=True,
    is_function_calling_model=True,
)
agent = FunctionAgent(tool_retriever=ToolGate(gate, tools), llm=llm)


async def main():
    for task in [
        "Book a flight to Oslo and find a hotel room",
        "Play a song of the Beatles",
    ]:
        await agent.run(task)
        print(task, ", ".join(model.tools_seen[-1]), sep="\n  ")


asyncio.run(main())
