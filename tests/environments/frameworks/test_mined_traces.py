"""What a run of a real framework required, mined from the traces of a real tracer, in the situations that mislead.

A scripted model on loopback drives the loops. The traces reach mining as files, as an operator would export them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from camdf_traces.span_files import span_tables
from camdf_traces.tasks import mine
from golden import golden_gate
from scripted import Call, ScriptedModel, Step

TASK = "Weather forecast of Bern?"
CUT = "read_file"
"""The tool that the gate cuts of the task."""

SITUATIONS: dict[str, tuple[list[Step | int], list[list[str]]]] = {
    "plain": ([Call("get_weather"), "sunny"], [["get_weather"]]),
    "side by side": ([(Call("get_weather"), Call("read_file")), "sunny"], [["get_weather", "read_file"]]),
    "a tool fails": ([(Call("get_weather"), Call("send_mail")), "sorry"], [["get_weather"]]),
    "the model fails": ([Call("get_weather"), 500], []),
    "an agent below": (
        [Call("ask_files", {"input": "read it"}), Call("read_file"), "read", Call("get_weather"), "sunny"],
        [["ask_files", "get_weather"], ["read_file"]],
    ),
    "a structured answer": ([Call("get_weather"), Call("Answer", {"text": "sun"})], [["get_weather"]]),
    "through the tool search": (
        [Call("find_tool", {"query": "read a file"}), Call("call_tool", {"name": CUT, "arguments": {}}), "read"],
        [[CUT]],
    ),
    "a handoff": ([Call("transfer_to_files"), Call("read_file"), "read"], [[], ["read_file"]]),
}
"""What the model answers, and what each run required, the first run first."""


@dataclass
class Answer:
    """The answer in a form of its own."""

    text: str


def get_weather() -> str:
    """Weather forecast of a city."""
    return "sun"


def read_file() -> str:
    """Read a file from the disk."""
    return "words"


def langchain(url: str, situation: str) -> None:
    from langchain.agents import create_agent
    from langchain.agents.structured_output import ToolStrategy
    from langchain_core.tools import ToolException, tool
    from langchain_openai import ChatOpenAI

    from camdf.integrations.langchain import ToolGate

    model = ChatOpenAI(model="scripted", base_url=url, api_key="none", max_retries=0)

    def send_mail() -> str:
        """Send a mail."""
        raise ToolException("failed")

    mail = tool(send_mail)
    mail.handle_tool_error = True
    asked = {"messages": [{"role": "user", "content": TASK}]}
    files = create_agent(model, [tool(read_file)], name="files")

    def ask_files(input: str) -> str:
        """Ask the agent for files."""
        answered: str = files.invoke({"messages": [{"role": "user", "content": input}]})["messages"][-1].content
        return answered

    tools = [tool(get_weather), mail, tool(read_file)]
    settings: dict[str, Any] = {}
    if situation == "an agent below":
        tools = [tool(get_weather), tool(ask_files)]
    if situation == "a structured answer":
        settings["response_format"] = ToolStrategy(Answer)
    if situation == "through the tool search":
        settings["middleware"] = [ToolGate(golden_gate())]
    create_agent(model, tools, name="clerk", **settings).invoke(asked)


def openai_agents(url: str, situation: str) -> None:
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool
    from openai import AsyncOpenAI

    from camdf.integrations.openai_agents import ToolGate

    model = OpenAIResponsesModel("scripted", AsyncOpenAI(base_url=url, api_key="none", max_retries=0))

    def send_mail() -> str:
        """Send a mail."""
        raise ValueError("failed")

    weather, mail, file = (function_tool(each) for each in (get_weather, send_mail, read_file))
    files = Agent(name="files", model=model, tools=[file])
    agents = {
        "an agent below": Agent(
            name="clerk", model=model, tools=[weather, files.as_tool("ask_files", "Ask the agent for files.")]
        ),
        "a handoff": Agent(name="clerk", model=model, tools=[weather], handoffs=[files]),
    }
    agent = agents.get(situation) or Agent(name="clerk", model=model, tools=[weather, mail, file])
    if situation == "through the tool search":
        agent = ToolGate(agent, golden_gate())
    Runner.run_sync(agent, TASK)


def pydantic_ai(url: str, situation: str, provider: TracerProvider) -> None:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, ToolOutput
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from camdf.integrations.pydantic_ai import ToolGate

    def send_mail() -> str:
        """Send a mail."""
        raise ModelRetry("failed")

    def an_agent(name: str, tools: list[Any], **more: Any) -> Agent[None, Any]:
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
        traced = Instrumentation(settings=InstrumentationSettings(tracer_provider=provider))
        gate = [ToolGate(golden_gate())] if situation == "through the tool search" else []
        return Agent(model, name=name, tools=tools, capabilities=[*gate, traced], **more)

    files = an_agent("files", [read_file])

    async def ask_files(input: str) -> str:
        """Ask the agent for files."""
        return str((await files.run(input)).output)

    more = {"output_type": ToolOutput(Answer, name="Answer")} if situation == "a structured answer" else {}
    tools = [get_weather, ask_files] if situation == "an agent below" else [get_weather, send_mail, read_file]
    an_agent("clerk", tools, **more).run_sync(TASK)


class Recorded:
    """A tracer provider whose spans stay in memory until they are written."""

    def __init__(self) -> None:
        self.memory, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))

    def written(self, folder: Path) -> Path:
        lines = [json.dumps(MessageToDict(encode_spans([span]))) for span in self.memory.get_finished_spans()]
        (folder / "traces.jsonl").write_text("\n".join(lines))
        return folder / "traces.jsonl"


def under_openinference(framework: Callable[[str, str], None], instrumentor: Any) -> Callable[[str, str, Path], Path]:
    def run(url: str, situation: str, folder: Path) -> Path:
        recorded = Recorded()
        instrumentor.instrument(tracer_provider=recorded.provider)
        try:
            with suppress(Exception):
                framework(url, situation)
        finally:
            instrumentor.uninstrument()
        return recorded.written(folder)

    return run


def pydantic_ai_by_itself(url: str, situation: str, folder: Path) -> Path:
    recorded = Recorded()
    with suppress(Exception):
        pydantic_ai(url, situation, recorded.provider)
    return recorded.written(folder)


def langchain_under_mlflow(url: str, situation: str, folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        import mlflow

        mlflow.set_tracking_uri((folder / "runs").as_uri())
        mlflow.set_experiment("traces")
        mlflow.langchain.autolog()
        with suppress(Exception):
            langchain(url, situation)
        mlflow.flush_trace_async_logging()
        trace: Any = mlflow.get_trace(mlflow.get_last_active_trace_id() or "", flush=True)
        mlflow.langchain.autolog(disable=True)
    (folder / "traces.jsonl").write_text(trace.to_json())
    return folder / "traces.jsonl"


def langchain_under_openinference(url: str, situation: str, folder: Path) -> Path:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    return under_openinference(langchain, LangChainInstrumentor())(url, situation, folder)


def langchain_under_langsmith(url: str, situation: str, folder: Path) -> Path:
    """As OpenTelemetry, with which LangSmith needs no server of its own."""
    from langchain_core.tracers.context import tracing_v2_enabled
    from langsmith import Client

    recorded = Recorded()
    client = Client(tracing_mode="otel", otel_tracer_provider=recorded.provider, api_key="none")
    with suppress(Exception), tracing_v2_enabled(client=client):
        langchain(url, situation)
    client.flush()
    client.cleanup()
    return recorded.written(folder)


def openai_agents_under_openinference(url: str, situation: str, folder: Path) -> Path:
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    return under_openinference(openai_agents, OpenAIAgentsInstrumentor())(url, situation, folder)


CELLS = [
    (run, situation)
    for run, without in (
        (pydantic_ai_by_itself, ["a handoff"]),
        (langchain_under_openinference, ["a handoff"]),
        (langchain_under_mlflow, ["a handoff"]),
        (langchain_under_langsmith, ["a handoff"]),
        (openai_agents_under_openinference, ["a structured answer"]),  # it asks for a format, not for a tool
    )
    for situation in SITUATIONS
    if situation not in without
]


@pytest.mark.parametrize(("how", "situation"), CELLS, ids=[f"{how.__name__}, {situation}" for how, situation in CELLS])
def test_a_run_requires_what_it_called_and_could_have_been_offered(
    how: Callable[[str, str, Path], Path], situation: str, tmp_path: Path
) -> None:
    script, expected = SITUATIONS[situation]
    with ScriptedModel(script) as model:
        traces = how(model.url, situation, tmp_path)
        assert not model.script
    with span_tables(traces) as tables:
        mined = mine(tables)
    assert mined.tasks["called"].to_list() == expected
    assert mined.orphans == 0
    assert mined.failed == (situation == "the model fails")
    assert mined.runs == len(expected) + mined.failed
