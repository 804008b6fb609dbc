"""A LangChain agent with a dozen tools: a search, and a note of four."""

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from offline_model import OfflineModel
from travel import CATALOGUE

import camdf
from camdf.integrations.langchain import ToolGate

tools = [
    StructuredTool.from_function(
        lambda: "ok", name=name, description=text, args_schema={}
    )
    for name, text in CATALOGUE.items()
]
gate = camdf.Gate.start(tools, mean_tools=4)

model = OfflineModel()
llm = ChatOpenAI(base_url=model.url, api_key="none", model="offline")
agent = create_agent(llm, tools, middleware=[ToolGate(gate)])

for task in [
    "Book a flight to Oslo and find a hotel room",
    "Play a song of the Beatles",
]:
    agent.invoke({"messages": [{"role": "user", "content": task}]})
    print(task)
    print("  tools:", ", ".join(model.tools_seen[-1]))
    print("  a note:", ", ".join(model.notes_seen[-1]))
