"""Spans of the real instrumented libraries, read back: the tools they offered, called and asked for.

A scripted model on loopback drives the loops. Spans reach the reader as files, as an operator would export them.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.json_format import MessageToDict
from openai import OpenAI
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from camdf_traces.readers import Reading, read_spans
from camdf_traces.spans import Span
from golden import VECTORS, golden_gate, openai_tool
from scripted import Call, ScriptedModel

WEATHER = VECTORS[1]
TASK = "Weather in Bern?"
TOOLS = [openai_tool(name, name) for name in ("get_weather", "send_mail")]


class Recorded:
    """A tracer provider whose spans stay in memory until they are written."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        found: tuple[ReadableSpan, ...] = self.memory.get_finished_spans()
        return found

    def otlp(self, folder: Path) -> Reading:
        """One OTLP document a line, as the collector's file exporter writes it; ids in protobuf's base64."""
        lines = [json.dumps(MessageToDict(encode_spans([span]))) for span in self.spans]
        (folder / "otlp.jsonl").write_text("\n".join(lines))
        return read_spans(folder / "otlp.jsonl")

    def sdk(self, folder: Path) -> Reading:
        """The SDK's own JSON, one span after the other in a list."""
        (folder / "sdk.json").write_text(f"[{','.join(span.to_json() for span in self.spans)}]")
        return read_spans(folder / "sdk.json")

    def clickhouse(self, folder: Path) -> Reading:
        """Parquet with the columns of the collector's ClickHouse exporter: every attribute a string."""
        words = pa.map_(pa.string(), pa.string())
        types = {
            "Timestamp": pa.timestamp("ns"),
            **dict.fromkeys(
                ("TraceId", "SpanId", "ParentSpanId", "SpanName", "ServiceName", "StatusCode"), pa.string()
            ),
            "SpanAttributes": words,
            "Duration": pa.uint64(),
            "Events.Timestamp": pa.list_(pa.timestamp("ns")),
            "Events.Name": pa.list_(pa.string()),
            "Events.Attributes": pa.list_(words),
        }
        pq.write_table(pa.Table.from_pylist(list(map(_row, self.spans)), pa.schema(types)), folder / "spans.parquet")
        return read_spans(folder / "spans.parquet")


def _row(span: Any) -> dict[str, Any]:
    return {
        "Timestamp": span.start_time,
        "TraceId": f"{span.context.trace_id:032x}",
        "SpanId": f"{span.context.span_id:016x}",
        "ParentSpanId": f"{span.parent.span_id:016x}" if span.parent else "",
        "SpanName": span.name,
        "ServiceName": span.resource.attributes["service.name"],
        "StatusCode": span.status.status_code.name.title(),
        "SpanAttributes": _words(span.attributes),
        "Duration": span.end_time - span.start_time,
        "Events.Timestamp": [event.timestamp for event in span.events],
        "Events.Name": [event.name for event in span.events],
        "Events.Attributes": [_words(event.attributes) for event in span.events],
    }


def _words(attributes: Any) -> list[tuple[str, str]]:
    written = {key: list(each) if isinstance(each, tuple) else each for key, each in attributes.items()}
    return [(key, each if isinstance(each, str) else json.dumps(each)) for key, each in written.items()]


def by_kind(spans: list[Span]) -> dict[str, list[Span]]:
    ordered = sorted(spans, key=lambda span: span.start or 0)
    return {kind: [span for span in ordered if span.kind == kind] for kind in ("agent", "model", "tool", "other")}


def everything(found: dict[str, list[Span]]) -> list[Span]:
    return [span for spans in found.values() for span in spans]


def pydantic_ai_run(script: list[Any], **settings: Any) -> Recorded:
    """A gated agent of pydantic-ai, with its own OpenTelemetry instrumentation."""
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import Tool

    from camdf.integrations.pydantic_ai import ToolGate

    recorded = Recorded()

    def tool(name: str, description: str) -> Any:
        def run() -> str:
            if name == script[-1]:
                raise ValueError("a secret")
            return "ran"

        return Tool.from_schema(run, name, description, {"type": "object", "properties": {}})

    with ScriptedModel([Call(name) for name in script]) as model:
        agent = Agent(
            OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=model.url, api_key="none")),
            name="clerk",
            tools=[tool(name, description) for name, description in WEATHER.tools.items()],
            capabilities=[
                ToolGate(golden_gate(), tool_search=False),
                Instrumentation(settings=InstrumentationSettings(tracer_provider=recorded.provider, **settings)),
            ],
        )
        with pytest.raises(ValueError, match="a secret"):
            agent.run_sync(WEATHER.task)
    return recorded


@pytest.mark.parametrize("way", ["otlp", "sdk", "clickhouse"])
def test_pydantic_ai_spans_name_what_was_offered_called_ranked_and_asked(way: str, tmp_path: Path) -> None:
    first, second = WEATHER.kept[:2]
    reading = getattr(pydantic_ai_run([first, second]), way)(tmp_path)
    found = by_kind(list(reading))
    assert reading.report.skipped == 0
    (agent,) = found["agent"]
    assert (agent.name, agent.text, agent.error) == ("clerk", WEATHER.task, "ValueError")
    assert agent.start is not None
    assert agent.end is not None
    assert [span.offered for span in found["model"]] == [tuple(WEATHER.kept)] * 2
    assert [span.requested for span in found["model"]] == [(first,), (second,)]
    assert {(span.name, span.text, span.input_tokens) for span in found["model"]} == {("scripted", WEATHER.task, 1)}
    told = [(span.name, span.call_id, span.error) for span in found["tool"]]
    assert told == [(first, f"call_{first}", ""), (second, f"call_{second}", "ValueError")]
    assert {span.conversation for span in everything(found)} == {agent.conversation}
    assert len({span.trace_id for span in everything(found)}) == 1
    assert all(span.parent_id == agent.span_id for span in found["model"])
    ranked = [span for span in everything(found) if span.ranked]
    decided = golden_gate().decide(WEATHER.task, [openai_tool(*each) for each in WEATHER.tools.items()])
    assert ranked
    for span in ranked:
        assert span.ranked == tuple(each.name for each in decided.ranking)
        assert span.scores == pytest.approx([each.score for each in decided.ranking])
        assert span.explored is False


def test_without_content_pydantic_ai_spans_still_name_the_tools_and_lose_only_the_task(tmp_path: Path) -> None:
    first, second = WEATHER.kept[:2]
    found = by_kind(list(pydantic_ai_run([first, second], include_content=False).otlp(tmp_path)))
    assert [span.offered for span in found["model"]] == [tuple(WEATHER.kept)] * 2
    assert [span.requested for span in found["model"]] == [(first,), (second,)]
    assert [span.name for span in found["tool"]] == [first, second]
    assert {span.text for span in everything(found)} == {""}


def openinference_run(**settings: Any) -> Recorded:
    """An agent and a tool under OpenInference's tracer, and OpenAI's client under its instrumentor."""
    from openinference.instrumentation import OITracer, TraceConfig, using_session
    from openinference.instrumentation.openai import OpenAIInstrumentor

    recorded, instrumentor, config = Recorded(), OpenAIInstrumentor(), TraceConfig(**settings)
    tracer = OITracer(recorded.provider.get_tracer("test"), config=config)
    instrumentor.instrument(tracer_provider=recorded.provider, config=config)
    with (
        ScriptedModel([Call("get_weather"), Call("send_mail")]) as model,
        OpenAI(base_url=model.url, api_key="none") as client,
        using_session("thread-1"),
    ):

        @tracer.tool
        def get_weather() -> str:
            return "sun"

        @tracer.agent(name="clerk")
        def agent(task: str) -> Any:
            messages: Any = [{"role": "user", "content": task}]
            client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
            answered = get_weather()
            flat: Any = [{"type": "function", **tool["function"]} for tool in TOOLS]
            client.responses.create(model="scripted", input=task, tools=flat)
            return answered

        agent(TASK)
    instrumentor.uninstrument()
    return recorded


@pytest.mark.parametrize("way", ["otlp", "sdk", "clickhouse"])
def test_openinference_spans_name_what_was_offered_called_and_asked(way: str, tmp_path: Path) -> None:
    reading = getattr(openinference_run(), way)(tmp_path)
    found = by_kind(list(reading))
    assert reading.report.skipped == 0
    (run,) = found["agent"]
    assert (run.name, run.text, run.conversation) == ("clerk", TASK, "thread-1")
    assert [span.offered for span in found["model"]] == [("get_weather", "send_mail")] * 2
    assert [span.requested for span in found["model"]] == [("get_weather",), ("send_mail",)]
    assert {span.text for span in found["model"]} == {TASK}
    assert [span.input_tokens for span in found["model"]] == [1, 1]
    assert [(span.name, span.parent_id, span.error) for span in found["tool"]] == [("get_weather", run.span_id, "")]


def test_hidden_openinference_inputs_cost_the_task_and_the_offered_tools_but_not_the_calls(tmp_path: Path) -> None:
    found = by_kind(list(openinference_run(hide_inputs=True).otlp(tmp_path)))
    assert {span.text for span in everything(found)} == {""}
    assert [span.offered for span in found["model"]] == [(), ()]
    assert [span.requested for span in found["model"]] == [("get_weather",), ("send_mail",)]
    assert [span.name for span in found["tool"]] == ["get_weather"]


def langsmith_run() -> Recorded:
    """An agent and two tools under LangSmith's decorator, and OpenAI's client in its wrapper, as OpenTelemetry."""
    from langsmith import Client, traceable, tracing_context
    from langsmith.wrappers import wrap_openai

    recorded = Recorded()
    langsmith = Client(tracing_mode="otel", otel_tracer_provider=recorded.provider, api_key="none")
    with (
        ScriptedModel([Call("get_weather"), Call("send_mail"), "sunny"]) as model,
        OpenAI(base_url=model.url, api_key="none") as unwrapped,
        tracing_context(enabled=True, client=langsmith),
    ):
        client = wrap_openai(unwrapped)

        @traceable(run_type="tool")
        def get_weather() -> str:
            return "sun"

        @traceable(run_type="tool")
        def send_mail() -> None:
            langsmith.flush()  # so that it fails after its span began
            raise ValueError("a secret")

        @traceable(run_type="prompt")
        def prompt(task: str) -> Any:
            return [{"role": "user", "content": task}]

        @traceable(name="clerk", metadata={"thread_id": "thread-1", "user_id": "eve"})
        def agent(task: str) -> Any:
            messages = prompt(task)
            asked = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
            (call,) = asked.choices[0].message.tool_calls
            messages += [{"role": "assistant", "tool_calls": [call.model_dump()]}]
            messages += [{"role": "tool", "tool_call_id": call.id, "content": get_weather()}]
            flat: Any = [{"type": "function", **tool["function"]} for tool in TOOLS]
            client.responses.create(model="scripted", input=task, tools=flat)
            with pytest.raises(ValueError, match="a secret"):
                send_mail()
            return client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)

        agent(TASK)
        langsmith.flush()
    langsmith.cleanup()
    return recorded


@pytest.mark.parametrize("way", ["otlp", "sdk", "clickhouse"])
def test_langsmiths_own_spans_name_what_was_offered_called_and_asked(way: str, tmp_path: Path) -> None:
    reading = getattr(langsmith_run(), way)(tmp_path)
    found = by_kind(list(reading))
    assert reading.report.skipped == 0
    (run,) = found["agent"]
    assert (run.name, run.text, run.conversation, run.user) == ("clerk", TASK, "thread-1", "eve")
    assert [span.offered for span in found["model"]] == [("get_weather", "send_mail")] * 3
    assert [span.requested for span in found["model"]] == [("get_weather",), ("send_mail",), ()]
    assert [span.continues for span in found["model"]] == [False, None, True]
    assert [span.cached_tokens for span in found["model"]] == [None, 0, None]
    assert {(span.name, span.text, span.input_tokens) for span in found["model"]} == {("scripted", TASK, 1)}
    assert [(span.name, span.error) for span in found["tool"]] == [("get_weather", ""), ("send_mail", "ValueError")]
    assert {span.parent_id for span in [*found["model"], *found["tool"]]} == {run.span_id}
    assert [span.name for span in found["other"]] == ["prompt"]


@pytest.fixture(scope="module")
def mlflow_trace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trace of MLflow's own autologging of the OpenAI client, an agent and two tools, one of which fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        import mlflow

        mlflow.set_tracking_uri((tmp_path_factory.mktemp("mlflow") / "runs").as_uri())
        mlflow.set_experiment("traces")
        mlflow.openai.autolog()

        @mlflow.trace(span_type="TOOL")
        def get_weather() -> str:
            return "sun"

        @mlflow.trace(span_type="TOOL")
        def send_mail() -> str:
            raise ValueError("a secret")

        @mlflow.trace(span_type="AGENT", name="clerk")
        def agent(task: str) -> None:
            mlflow.update_current_trace(metadata={"mlflow.trace.session": "thread-1"})
            messages: Any = [{"role": "user", "content": task}]
            for run in (get_weather, send_mail):
                client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
                with pytest.raises(ValueError, match="a secret") if run is send_mail else nullcontext():
                    run()

        with (
            ScriptedModel([Call("get_weather"), Call("send_mail")]) as model,
            OpenAI(base_url=model.url, api_key="none") as client,
        ):
            agent(TASK)
        mlflow.flush_trace_async_logging()
        trace_id = mlflow.get_last_active_trace_id()
        mlflow.log_feedback(trace_id=trace_id, name="correctness", value=True)
        yield mlflow.get_trace(trace_id, flush=True)
        mlflow.openai.autolog(disable=True)


@pytest.mark.parametrize("lines", [False, True])
def test_mlflow_traces_name_what_was_offered_called_asked_and_how_it_ended(
    lines: bool, mlflow_trace: Any, tmp_path: Path
) -> None:
    written = mlflow_trace.to_json() if lines else json.dumps([json.loads(mlflow_trace.to_json())], indent=1)
    file = tmp_path / ("traces.jsonl" if lines else "traces.json")
    file.write_text(written)
    reading = read_spans(file)
    found = by_kind(list(reading))
    assert reading.report.skipped == 0
    (agent,) = found["agent"]
    assert (agent.name, agent.text, agent.conversation, agent.success) == ("clerk", TASK, "thread-1", True)
    assert [span.offered for span in found["model"]] == [("get_weather", "send_mail")] * 2
    assert [span.requested for span in found["model"]] == [("get_weather",), ("send_mail",)]
    assert {(span.name, span.text, span.input_tokens) for span in found["model"]} == {("scripted", TASK, 1)}
    assert [(span.name, span.error) for span in found["tool"]] == [("get_weather", ""), ("send_mail", "ValueError")]
    assert {span.parent_id for span in [*found["model"], *found["tool"]]} == {agent.span_id}


def test_one_span_is_the_same_whichever_way_it_was_exported(tmp_path: Path) -> None:
    recorded = pydantic_ai_run(WEATHER.kept[:2])
    otlp, clickhouse = (
        sorted(way(tmp_path), key=lambda span: span.span_id) for way in (recorded.otlp, recorded.clickhouse)
    )
    assert list(otlp) == list(clickhouse)
