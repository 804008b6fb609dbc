"""Readers on small hand-made records. Real libraries' spans are in tests/environments/frameworks/test_traces.py.

LangSmith and Langfuse export from their services only: their records here are hand-made after the shapes that their
documentation describes (LangSmith's run data format, Langfuse's API and blob storage fields), not captured from them.
"""

from __future__ import annotations

import bz2
import gzip
import json
import random
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.errors import DataError, UsageError
from camdf.examples.labels import NO_TOOL
from camdf_traces.readers import FORMATS, plain, read_spans
from camdf_traces.readers import names as tables
from camdf_traces.readers.formats import guess
from camdf_traces.readers.messages import requested_calls, tool_names
from camdf_traces.readers.otlp_json import typed_document
from camdf_traces.readers.values import Unreadable, decoded
from camdf_traces.span_files import span_tables
from camdf_traces.spans import SPAN_COLUMNS, Span, arrow_schema, arrow_table
from golden import openai_tool
from pages import run_page
from saying import says
from trace_records import (
    AGENT,
    MODEL,
    TOOL,
    TRACE,
    attributes,
    langchain_message,
    observation,
    otlp,
    otlp_span,
    run,
)

PAGE = Path(__file__).parents[1] / "docs" / "traces.md"
TASK = "What is the weather in Bern?"
WEATHER, MAIL = openai_tool("get_weather", "Weather."), openai_tool("send_mail", "Mail.")


def written(folder: Path, *records: Any, name: str = "traces.jsonl") -> Path:
    file = folder / name
    file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return file


def spans(folder: Path, *records: Any, format: str | None = None) -> dict[str, Span]:
    """The spans by kind, where a record has one of each."""
    reading = read_spans(written(folder, *records), format)
    found: dict[str, Span] = {span.kind: span for span in reading}
    assert reading.report.skipped == 0, reading.report
    return found


# OpenTelemetry


def agent_run(native: bool) -> dict[str, Any]:
    """One run under the GenAI conventions: structured values native, or as JSON strings."""

    def kept(value: Any) -> Any:
        return value if native else json.dumps(value)

    asked = [{"role": "user", "parts": [{"type": "text", "content": TASK}]}]
    result = {"type": "tool_call_response", "id": "1", "response": "sun"}
    calls = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "get_weather", "arguments": {}}]}]
    decided = {
        "camdf.ranking.names": ["get_weather", "send_mail"],
        "camdf.ranking.scores": [0.75, 0.5],
        "camdf.explored": False,
    }
    later = {"camdf.ranking.names": ["other"], "camdf.ranking.scores": [0.1], "camdf.explored": True}
    events = [{"name": "camdf.decision", "attributes": attributes(each)} for each in (decided, later)]
    thread = {"gen_ai.conversation.id": "thread-1"}
    return otlp(
        otlp_span(
            AGENT, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk", **thread}, events=events
        ),
        otlp_span(
            MODEL,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "some-model",
                "gen_ai.tool.definitions": kept([{"type": "function", "name": "get_weather"}, MAIL]),
                "gen_ai.input.messages": kept([*asked, *calls, {"role": "user", "parts": [result]}]),
                "gen_ai.output.messages": kept(calls),
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.cache_read.input_tokens": 4,
                "gen_ai.usage.output_tokens": 3,
                **thread,
            },
            parentSpanId=AGENT,
        ),
        otlp_span(
            TOOL,
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather", "gen_ai.tool.call.id": "1"},
            parentSpanId=AGENT,
            status={"code": 2, "message": TASK},
            events=[{"name": "exception", "attributes": attributes({"exception.type": "TimeoutError"})}],
        ),
    )


@pytest.mark.parametrize("native", [True, False])
def test_otlp_json_is_read_whether_values_are_native_or_json_strings(native: bool, tmp_path: Path) -> None:
    found = spans(tmp_path, agent_run(native))
    times: dict[str, Any] = {"start": 1700000000000000001, "end": 1700000001000000001}
    assert found["agent"] == Span(
        TRACE,
        AGENT,
        kind="agent",
        name="clerk",
        conversation="thread-1",
        ranked=("get_weather", "send_mail"),
        scores=(0.75, 0.5),
        explored=True,
        **times,
    )
    assert found["model"] == Span(
        TRACE,
        MODEL,
        AGENT,
        "model",
        "some-model",
        "thread-1",
        text=TASK,
        offered=("get_weather", "send_mail"),
        requested=("get_weather",),
        request_ids=("1",),
        continues=True,
        input_tokens=10,
        cached_tokens=4,
        output_tokens=3,
        **times,
    )
    assert found["tool"] == Span(TRACE, TOOL, AGENT, "tool", "get_weather", error="TimeoutError", call_id="1", **times)
    without = read_spans(written(tmp_path, agent_run(native)), with_text=False)
    assert [span.continues for span in without] == [None, True, None]


def test_the_older_events_of_the_genai_conventions_are_read(tmp_path: Path) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]
    told: list[tuple[str, dict[str, Any]]] = [
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": TASK}),
        ("gen_ai.choice", {"index": 0, "message": json.dumps({"role": "assistant", "tool_calls": calls})}),
    ]
    events = [{"name": name, "attributes": attributes(each)} for name, each in told]
    old = {"gen_ai.operation.name": "chat", "gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 2}
    model = spans(tmp_path, otlp(otlp_span(MODEL, old, events=events)))["model"]
    assert (model.text, model.requested, model.input_tokens, model.output_tokens) == (TASK, ("get_weather",), 7, 2)


@pytest.mark.parametrize(
    ("name", "said", "success"),
    [
        ("correctness", {"gen_ai.evaluation.score.label": "pass"}, True),
        ("Task success", {"gen_ai.evaluation.score.label": "incorrect"}, False),
        ("TaskCompletion", {"gen_ai.evaluation.score.label": "fail"}, False),
        ("correctness", {"gen_ai.evaluation.score.value": 0.9}, True),
        ("correctness", {"gen_ai.evaluation.score.value": 0.2}, False),
        ("correctness", {"gen_ai.evaluation.score.label": "perhaps"}, None),
        ("politeness", {"gen_ai.evaluation.score.value": 0.0}, None),
    ],
)
def test_only_an_evaluation_of_the_outcome_says_whether_a_run_succeeded(
    name: str, said: dict[str, Any], success: bool | None, tmp_path: Path
) -> None:
    event = {"name": "gen_ai.evaluation.result", "attributes": attributes({"gen_ai.evaluation.name": name, **said})}
    agent = otlp_span(AGENT, {"gen_ai.operation.name": "invoke_agent"}, events=[event])
    assert spans(tmp_path, otlp(agent))["agent"].success is success


@pytest.mark.parametrize("convention", ["otel", "openinference"])
def test_a_call_through_the_search_is_a_call_of_the_tool_that_it_names(convention: str, tmp_path: Path) -> None:
    inner = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    told: dict[str, Any] = {
        "otel": {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "call_tool",
            "gen_ai.tool.call.arguments": json.dumps(inner),
        },
        "openinference": {
            "openinference.span.kind": "TOOL",
            "tool.name": "call_tool",
            "input.value": json.dumps(inner),
        },
    }[convention]
    assert spans(tmp_path, otlp(otlp_span(TOOL, told)))["tool"].name == "get_weather"
    call = {"function": {"name": "call_tool", "arguments": json.dumps(inner)}}
    assert requested_calls({"role": "assistant", "tool_calls": [call]}) == [("get_weather", "")]
    assert re.match(NO_TOOL, "find_tool")
    assert requested_calls({"tool_calls": [{"name": "hub_call_tool", "args": inner}]}) == [("get_weather", "")]


def test_the_tool_search_and_an_error_that_a_tool_reports_are_told_apart_by_every_reader(tmp_path: Path) -> None:
    inner = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    failed: Any = {"type": "tool", "content": "no", "tool_call_id": "1", "status": "error"}
    told: dict[str, Any] = {
        "mlflow.spanType": json.dumps("TOOL"),
        "mlflow.spanInputs": json.dumps(inner),
        "mlflow.spanOutputs": json.dumps(failed),
    }
    otel = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "call_tool"}
    records = {
        "otel": otlp(
            otlp_span(
                TOOL,
                {
                    **otel,
                    "gen_ai.tool.call.arguments": json.dumps(inner),
                    "gen_ai.tool.call.result": json.dumps({"isError": True, "content": []}),
                },
            )
        ),
        "openinference": otlp(
            otlp_span(
                TOOL,
                {
                    "openinference.span.kind": "TOOL",
                    "tool.name": "call_tool",
                    "input.value": json.dumps(inner),
                    "output.value": json.dumps({"type": "tool", "data": failed}),
                },
            )
        ),
        "langsmith": run("tool", "call_tool", inputs=inner, outputs={"output": failed}),
        "langfuse": observation("TOOL", "call_tool", input=inner, output=failed),
        "mlflow": {
            "info": {"trace_id": "tr-abc"},
            "data": {"spans": [{"trace_id": "abc", "span_id": "s", "name": "call_tool", "attributes": told}]},
        },
    }
    assert {*records, "plain"} == {*FORMATS}
    for name, record in records.items():
        (span,) = read_spans(written(tmp_path, record))
        assert (span.kind, span.name, span.error) == ("tool", "get_weather", "error"), name


def mlflow_span(kind: str, name: str, told: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A trace of one span below another. Attributes are JSON, each by itself."""
    attributes = {key: json.dumps(each) for key, each in {"mlflow.spanType": kind, **(told or {})}.items()}
    span = {"trace_id": "abc", "span_id": "s", "parent_span_id": "r", "name": name, "attributes": attributes, **more}
    return {"info": {"trace_id": "tr-abc"}, "data": {"spans": [span]}}


@pytest.mark.parametrize(
    "tracer", ["openinference", "langfuse", "langfuse's SDK", "mlflow", "langsmith", "its OTel", "traceloop"]
)
def test_langchain_says_which_of_its_chains_are_agents_whoever_traces_them(tracer: str, tmp_path: Path) -> None:
    """Some tracers take every chain for an agent that has the word in its name, and no other."""

    def record(name: str, node: str) -> Any:
        metadata = {"ls_integration": "langchain_create_agent", "lc_agent_name": "clerk", "langgraph_node": node}
        kind = "AGENT" if "agent" in name else "CHAIN"
        if tracer == "openinference":
            told = {"openinference.span.kind": kind, "metadata": json.dumps(metadata)}
            return otlp(otlp_span(AGENT, told, name=name))
        if tracer == "langfuse":
            return observation(kind, name, metadata=metadata)
        if tracer == "langsmith":
            return run("chain", name, extra={"metadata": metadata})
        if tracer == "langfuse's SDK":  # it writes each piece by itself
            pieces = {f"langfuse.observation.metadata.{key}": json.dumps(each) for key, each in metadata.items()}
            return otlp(otlp_span(AGENT, {"langfuse.observation.type": kind.lower(), **pieces}, name=name))
        if tracer == "its OTel":
            pieces = {f"langsmith.metadata.{key}": each for key, each in metadata.items()}
            told = {"langsmith.span.kind": "chain", "langsmith.trace.name": name, **pieces}
            return otlp(otlp_span(AGENT, told, name=name, parentSpanId=MODEL))
        if tracer == "traceloop":
            pieces = {f"traceloop.association.properties.{key}": each for key, each in metadata.items()}
            return otlp(otlp_span(AGENT, {"traceloop.entity.name": name, **pieces}, name=name))
        return mlflow_span(kind, name, {"metadata": metadata})

    for name, node, kind in (
        ("clerk", "tools", "agent"),
        ("clerk", "clerk", "agent"),
        ("LangGraph", "", "agent"),
        ("ToolGate.before_agent", "ToolGate.before_agent", "other"),
        ("model", "model", "other"),
    ):
        (span,) = read_spans(written(tmp_path, record(name, node)))
        assert (span.kind, span.name) == (kind, name)


def decision_steps() -> dict[str, Any]:
    """A decision as a step of its own, as the adapters write it and as the tracers keep it."""
    decided = {"camdf.ranking.names": ["get_weather"], "camdf.ranking.scores": [0.5], "camdf.explored": True}
    whole = json.dumps(decided)
    pieces = {key: json.dumps(each) for key, each in decided.items()}
    otel: dict[str, dict[str, Any]] = {
        "openinference, LangChain": {"openinference.span.kind": "CHAIN", "metadata": whole},
        "openinference, LlamaIndex": {"openinference.span.kind": "CHAIN", "output.value": whole},
        "langfuse": {
            "langfuse.observation.type": "chain",
            **{f"langfuse.observation.metadata.{key}": each for key, each in pieces.items()},
        },
        "langsmith": {
            "langsmith.trace.name": "camdf.decision",
            **{f"langsmith.metadata.{key}": each for key, each in pieces.items()},
        },
        "attributes": decided,
    }
    return {
        **{name: otlp(otlp_span(AGENT, told, name="camdf.decision")) for name, told in otel.items()},
        "mlflow, LangChain": mlflow_span("CHAIN", "camdf.decision", {"metadata": decided}),
        "mlflow, Agents": mlflow_span("UNKNOWN", "camdf.decision", {"mlflow.spanOutputs": decided}),
        "mlflow, its current span": mlflow_span("AGENT", "clerk", decided),
        "langsmith, a run": run("chain", "camdf.decision", extra={"metadata": decided}),
    }


def test_a_decision_that_is_a_step_of_its_own_is_read_wherever_a_tracer_keeps_it(tmp_path: Path) -> None:
    for way, record in decision_steps().items():
        (span,) = read_spans(written(tmp_path, record))
        assert (span.ranked, span.scores, span.explored) == (("get_weather",), (0.5,), True), way


def test_a_handover_of_langgraph_is_no_error_in_any_format(tmp_path: Path) -> None:
    raised, told = {"exception.type": "langgraph.errors.ParentCommand"}, "ParentCommand(Command(graph='__parent__'))"
    event = {"name": "exception", "attributes": attributes(raised)}
    records = {
        "otel": otlp(otlp_span(AGENT, {"error.type": "ParentCommand"}, status={"code": 2}, events=[event])),
        "mlflow": mlflow_span(
            "AGENT",
            "clerk",
            status={"code": "STATUS_CODE_ERROR"},
            events=[{"name": "exception", "attributes": {"exception.type": "ParentCommand"}}],
        ),
        "langsmith": run("chain", "clerk", error=told, status="error"),
        "langsmith's OpenTelemetry": otlp(
            otlp_span(
                AGENT,
                {"langsmith.trace.name": "clerk"},
                status={"code": 2},
                events=[
                    {
                        "name": "exception",
                        "attributes": attributes({"exception.type": "Exception", "exception.message": told}),
                    }
                ],
            )
        ),
    }
    for name, record in records.items():
        (span,) = read_spans(written(tmp_path, record))
        assert span.error == "", name


def test_the_run_of_a_llama_index_agent_is_one_whoever_traces_it_and_its_steps_are_not(tmp_path: Path) -> None:
    for name, kind in (
        ("FunctionAgent.run", "agent"),
        ("AgentWorkflow.run", "agent"),
        ("BaseWorkflowAgent.run_agent_step", "other"),
    ):
        for record in (
            otlp(otlp_span(AGENT, {"openinference.span.kind": "CHAIN"}, name=name)),
            otlp(otlp_span(AGENT, {"traceloop.entity.name": name.replace(".run", ".workflow")}, name=name)),
            mlflow_span("CHAIN", name),
        ):
            (span,) = read_spans(written(tmp_path, record))
            assert span.kind == kind, name


def test_a_tool_of_llama_index_has_its_own_name_and_not_that_of_its_class(tmp_path: Path) -> None:
    answer = {"tool_name": "get_weather", "raw_input": {}, "raw_output": "sun", "is_error": True}
    step = {"traceloop.entity.name": "FunctionTool.task", "traceloop.entity.output": json.dumps(answer)}
    for record in (
        otlp(otlp_span(TOOL, step, name="FunctionTool.task")),
        mlflow_span("TOOL", "FunctionTool.acall", {"mlflow.spanOutputs": answer, "name": "get_weather"}),
    ):
        (span,) = read_spans(written(tmp_path, record))
        assert (span.kind, span.name, span.error) == ("tool", "get_weather", "error")
    asked = {"traceloop.entity.name": "OpenAILike.task", "traceloop.entity.output": json.dumps({"tools": [WEATHER]})}
    (request,) = read_spans(written(tmp_path, otlp(otlp_span(MODEL, asked))))
    assert (request.kind, request.offered) == ("other", ("get_weather",))


def test_offered_tools_are_found_beside_a_schema_of_their_parameters_and_among_the_parameters(tmp_path: Path) -> None:
    """OpenInference's processor for pydantic-ai, and MLflow's autologging of it."""
    told = {"openinference.span.kind": "LLM", "llm.tools.0.tool.name": "get_weather"}
    told |= {"llm.tools.0.tool.json_schema": json.dumps({"type": "object", "properties": {}})}
    assert spans(tmp_path, otlp(otlp_span(MODEL, told)))["model"].offered == ("get_weather",)
    inputs = {"messages": [], "model_request_parameters": {"function_tools": [{"name": "get_weather"}]}}
    answer = {"parts": [{"part_kind": "tool-call", "tool_name": "get_weather", "args": "{}"}]}
    model = spans(tmp_path, mlflow_span("LLM", "request", {"mlflow.spanInputs": inputs, "mlflow.spanOutputs": answer}))
    assert (model["model"].offered, model["model"].requested) == (("get_weather",), ("get_weather",))


def test_what_an_agent_has_is_read_from_its_own_span_and_structured_answers_are_no_tools(tmp_path: Path) -> None:
    defined = json.dumps([WEATHER, MAIL, openai_tool("final", "The answer.")])
    answers = json.dumps({"function_tools": [WEATHER, MAIL], "output_tools": [openai_tool("final", "The answer.")]})
    told = {"gen_ai.tool.definitions": defined, "model_request_parameters": answers}
    calls = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "final", "arguments": {}}]}]
    found = spans(
        tmp_path,
        otlp(
            otlp_span(AGENT, {"gen_ai.operation.name": "invoke_agent", **told}),
            otlp_span(MODEL, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(calls), **told}),
        ),
    )
    assert found["agent"].offered == found["model"].offered == ("get_weather", "send_mail")
    assert found["model"].requested == ()
    older = {"gen_ai.operation.name": "chat", "model_request_parameters": answers}
    assert spans(tmp_path, otlp(otlp_span(MODEL, older)))["model"].offered == ("get_weather", "send_mail")


def test_a_call_of_an_mcp_server_is_a_tool_also_without_the_name_of_the_operation(tmp_path: Path) -> None:
    told = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_weather", "error.type": "tool_error"}
    tool = spans(tmp_path, otlp(otlp_span(TOOL, told)))["tool"]
    assert (tool.name, tool.error) == ("get_weather", "tool_error")


def test_an_id_in_base64_may_begin_like_one_in_hex(tmp_path: Path) -> None:
    record = otlp(otlp_span("0xiVyUTrB4I=", {}), otlp_span("0xaaaaaaaaaaaaaaaa", {}))
    assert [span.span_id for span in read_spans(written(tmp_path, record))] == ["d31895c944eb0782", AGENT]


def test_an_error_that_was_handled_is_none(tmp_path: Path) -> None:
    event = {"name": "exception", "attributes": attributes({"exception.type": "TimeoutError"})}
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
    assert spans(tmp_path, otlp(otlp_span(TOOL, told, events=[event])))["tool"].error == ""


@pytest.mark.parametrize("kept", ["map", "struct", "json"])
def test_parquet_of_otlp_spans_is_read_with_attributes_as_map_struct_or_json(kept: str, tmp_path: Path) -> None:
    told = {"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": json.dumps([WEATHER, MAIL])}
    decided = {"camdf.ranking.names": '["a","b"]', "camdf.ranking.scores": "[0.5,0.25]", "camdf.explored": "false"}
    pairs: Any = {"map": list(told.items()), "struct": told, "json": json.dumps(told)}[kept]
    words = pa.map_(pa.string(), pa.string())
    kind = {"map": words, "struct": pa.struct([(key, pa.string()) for key in told]), "json": pa.string()}[kept]
    event = pa.struct([("Timestamp", pa.timestamp("us")), ("Name", pa.string()), ("Attributes", words)])
    table = pa.table(
        {
            "Timestamp": pa.array([1_700_000_000_000_000_001], pa.timestamp("ns", tz="UTC")),
            "Duration": pa.array([1_000], pa.uint64()),
            "TraceId": [TRACE],
            "SpanId": [MODEL],
            "ParentSpanId": [""],
            "SpanName": ["chat"],
            "StatusCode": ["Error"],
            "SpanAttributes": pa.array([pairs], kind),
            "Events": pa.array(
                [[{"Timestamp": 1, "Name": "camdf.decision", "Attributes": list(decided.items())}]], pa.list_(event)
            ),
        }
    )
    pq.write_table(table, tmp_path / "spans.parquet")
    (span,) = read_spans(tmp_path)
    assert (span.trace_id, span.span_id, span.kind, span.error) == (TRACE, MODEL, "model", "error")
    assert (span.start, span.end) == (1_700_000_000_000_000_001, 1_700_000_000_000_001_001)
    assert span.offered == ("get_weather", "send_mail")
    assert (span.ranked, span.scores, span.explored) == (("a", "b"), (0.5, 0.25), False)


# OpenInference

FLAT = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "some-model",
    "session.id": "thread-1",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.contents.0.message_content.type": "text",
    "llm.input_messages.0.message.contents.0.message_content.text": TASK,
    "llm.input_messages.1.message.role": "tool",
    "llm.input_messages.1.message.content": "sun",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_weather",
    "llm.output_messages.0.message.tool_calls.1.tool_call.function.name": "send_mail",
    **{
        f"llm.tools.{place}.tool.json_schema": json.dumps(openai_tool(f"tool_{place}", ""))
        for place in reversed(range(12))
    },
    "llm.token_count.prompt": 5,
}


def nested(flat: dict[str, Any]) -> Any:
    """Attributes as Phoenix unpacks them: dots are levels and numbers are places in lists."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        level = tree
        for step in path:
            level = level.setdefault(step, {})
        level[last] = value

    def listed(level: Any) -> Any:
        if not isinstance(level, dict):
            return level
        inner = {key: listed(each) for key, each in level.items()}
        return [inner[key] for key in sorted(inner, key=int)] if all(key.isdigit() for key in inner) else inner

    return listed(tree)


@pytest.mark.parametrize("way", ["otlp", "flat", "nested", "columns", "kind beside"])
def test_openinference_attributes_are_read_flat_nested_and_as_columns(way: str, tmp_path: Path) -> None:
    context = {"trace_id": TRACE, "span_id": MODEL}
    head = {"name": "ChatCompletion", "start_time": "2026-01-01T00:00:00.000001Z", "status_code": "OK"}
    bare = {key: value for key, value in FLAT.items() if key != "openinference.span.kind"}
    record: dict[str, Any] = {
        "otlp": otlp(otlp_span(MODEL, FLAT)),
        "flat": {**head, "context": context, "attributes": FLAT},
        "nested": {"data": [{**head, "context": context, "attributes": nested(FLAT)}]},
        "columns": {
            **head,
            **{f"context.{key}": value for key, value in context.items()},
            **{f"attributes.{key}": value for key, value in FLAT.items()},
        },
        "kind beside": {**head, "context": context, "span_kind": "LLM", "attributes": bare},
    }[way]
    model = spans(tmp_path, record)["model"]
    assert (model.trace_id, model.span_id, model.name, model.conversation) == (TRACE, MODEL, "some-model", "thread-1")
    assert model.text == TASK
    assert model.offered == tuple(f"tool_{place}" for place in range(12))
    assert model.requested == ("get_weather", "send_mail")
    assert model.input_tokens == 5
    if way != "otlp":
        assert model.start == 1767225600000001000


def test_what_openinference_hid_is_no_task(tmp_path: Path) -> None:
    agent = otlp_span(AGENT, {"openinference.span.kind": "AGENT", "input.value": "__REDACTED__"})
    assert spans(tmp_path, otlp(agent))["agent"].text == ""


# LangSmith


def langsmith_runs() -> list[dict[str, Any]]:
    answer = langchain_message("ai", content="", tool_calls=[{"name": "get_weather", "args": {}, "id": "1"}])
    thread = {"metadata": {"thread_id": "thread-1"}}
    decided = {"camdf.ranking.names": ["get_weather"], "camdf.ranking.scores": [0.5], "camdf.explored": False}
    return [
        run(
            "chain",
            "clerk",
            parent_run_id=None,
            inputs={"messages": [{"role": "user", "content": TASK}]},
            extra={"metadata": {**thread["metadata"], **decided}},
            feedback_stats={"correctness": {"n": 1, "avg": 1.0}, "politeness": {"n": 1, "avg": 0.0}},
        ),
        run(
            "llm",
            "ChatOpenAI",
            inputs={
                "messages": [[langchain_message("system", content="Brief."), langchain_message("human", content=TASK)]]
            },
            outputs={"generations": [[{"text": "", "message": answer}]]},
            extra={
                "invocation_params": {"model": "some-model", "tools": [WEATHER, MAIL]},
                "metadata": {**thread["metadata"], "ls_model_name": "some-model"},
            },
            prompt_tokens=8,
            completion_tokens=2,
        ),
        run("tool", "get_weather", error=f"TimeoutError('{TASK}')Traceback ...", extra={"tool_call_id": "1", **thread}),
    ]


@pytest.mark.parametrize("way", ["runs", "page", "children", "strings"])
def test_langsmith_runs_are_read_one_by_one_as_a_page_nested_and_with_json_strings(way: str, tmp_path: Path) -> None:
    runs = langsmith_runs()
    parted = ("inputs", "outputs", "extra", "feedback_stats")
    records: list[Any] = {
        "runs": runs,
        "page": [{"runs": runs}],
        "children": [{**runs[0], "child_runs": runs[1:]}],
        "strings": [{key: json.dumps(each) if key in parted else each for key, each in one.items()} for one in runs],
    }[way]
    found = spans(tmp_path, *records)
    agent, model, tool = found["agent"], found["model"], found["tool"]
    assert (agent.name, agent.conversation, agent.text, agent.success) == ("clerk", "thread-1", TASK, True)
    assert (agent.start, agent.end) == (1767225600000000000, 1767225601500000000)
    assert (agent.ranked, agent.scores, agent.explored) == (("get_weather",), (0.5,), False)
    assert (model.name, model.text, model.parent_id) == ("some-model", TASK, agent.span_id)
    assert (model.offered, model.requested) == (("get_weather", "send_mail"), ("get_weather",))
    assert (model.input_tokens, model.output_tokens) == (8, 2)
    assert (tool.name, tool.call_id, tool.error) == ("get_weather", "1", "TimeoutError")


def test_a_run_succeeded_only_if_all_that_speak_of_it_say_so(tmp_path: Path) -> None:
    told = {"correctness": {"avg": 1.0}, "resolved": {"avg": 0.25}}
    assert spans(tmp_path, run("chain", "clerk", parent_run_id=None, feedback_stats=told))["agent"].success is False


def test_a_langsmith_chain_below_the_top_is_an_agent_only_by_the_name_of_its_agent(tmp_path: Path) -> None:
    inherited = {"metadata": {"lc_agent_name": "helper"}}
    runs = [run("chain", "helper", id="a", extra=inherited), run("chain", "model", id="b", extra=inherited)]
    assert {span.span_id: span.kind for span in read_spans(written(tmp_path, *runs))} == {"a": "agent", "b": "other"}


def test_an_agent_of_openai_agents_is_one_also_below_the_workflow_around_it(tmp_path: Path) -> None:
    told = {"invocation_params": {"tools": ["get_weather"], "handoffs": []}, "metadata": {"ls_agent_type": "root"}}
    failed = {"message": "Error in agent run", "data": {"error": "Error code: 400"}}
    agent = spans(tmp_path, run("chain", "clerk", parent_run_id="workflow", extra=told, error=failed))["agent"]
    assert (agent.name, agent.error) == ("clerk", "error")


def test_a_tool_whose_error_langchain_told_the_model_has_failed(tmp_path: Path) -> None:
    told = run("tool", "get_weather", outputs={"output": {"type": "tool", "content": "no", "status": "error"}})
    assert spans(tmp_path, told)["tool"].error == "error"


def as_span(run: dict[str, Any], content: Callable[[bytes], Any]) -> dict[str, Any]:
    """A run as LangSmith's OpenTelemetry has it."""
    ids, extra = {"chain-1": AGENT, "llm-1": MODEL, "tool-1": TOOL, None: ""}, run["extra"]
    told = {"langsmith.span.kind": run["run_type"], "langsmith.trace.name": run["name"]}
    if run["run_type"] == "llm":
        told["gen_ai.tool.definitions"] = json.dumps(extra["invocation_params"]["tools"])
        told["gen_ai.usage.input_tokens"] = run["prompt_tokens"]
        told["gen_ai.usage.output_tokens"] = run["completion_tokens"]
    if run["run_type"] == "tool":
        told["gen_ai.tool.call.id"] = extra["tool_call_id"]
    for key, value in extra["metadata"].items():
        told[f"langsmith.metadata.{key}"] = json.dumps(value) if isinstance(value, list) else value
    raised = attributes({"exception.type": "Exception", "exception.message": run["error"]}) if run["error"] else []
    events = [{"name": "exception", "attributes": raised}] if raised else []
    span = otlp_span(ids[run["id"]], told, parentSpanId=ids[run["parent_run_id"]], events=events)
    for key, field in (("gen_ai.prompt", "inputs"), ("gen_ai.completion", "outputs")):
        span["attributes"].append({"key": key, "value": content(json.dumps(run[field]).encode())})
    return span


@pytest.mark.parametrize(
    "content",
    [lambda text: {"stringValue": text.decode()}, lambda text: {"bytesValue": b64encode(text).decode()}],
    ids=["text", "bytes, as before 0.14.3"],
)
def test_langsmiths_opentelemetry_says_what_its_runs_say_but_how_they_were_rated(
    content: Callable[[bytes], Any], tmp_path: Path
) -> None:
    apart: Any = {"trace_id": "", "span_id": "", "parent_id": "", "start": None, "end": None, "success": None}
    runs = langsmith_runs()
    read = [
        {span.kind: replace(span, **apart) for span in read_spans(written(tmp_path, *records))}
        for records in (runs, [otlp(*(as_span(each, content) for each in runs))])
    ]
    assert read[0] == read[1]
    assert read[0].keys() == {"agent", "model", "tool"}


def test_an_agent_of_openai_agents_is_told_by_its_tools_in_langsmiths_opentelemetry(tmp_path: Path) -> None:
    told = {"langsmith.span.kind": "chain", "langsmith.trace.name": "clerk"}
    for offered, kind in ((["get_weather"], "agent"), ([], "other")):
        described = {"gen_ai.tool.definitions": json.dumps(offered)} if offered else {}
        (span,) = read_spans(written(tmp_path, otlp(otlp_span(AGENT, told | described, parentSpanId=MODEL))))
        assert (span.kind, span.name) == (kind, "clerk")


def test_a_langsmith_request_that_ends_with_a_result_says_so_as_an_object_and_as_a_string(tmp_path: Path) -> None:
    given = {"messages": [[langchain_message("human", content=TASK), langchain_message("tool", content="sun")]]}
    for inputs in (given, json.dumps(given)):
        assert spans(tmp_path, run("llm", "ChatOpenAI", inputs=inputs))["model"].continues


def test_who_wrote_the_last_message_is_known_without_text_as_with_it(tmp_path: Path) -> None:
    """LlamaIndex writes messages that have no role."""
    told = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.content": TASK}
    file = written(tmp_path, otlp(otlp_span(MODEL, told)))
    found = [span for with_text in (True, False) for span in read_spans(file, with_text=with_text)]
    assert [span.continues for span in found] == [False, False]


# Langfuse


def langfuse_trace(given: Any, **told: Any) -> dict[str, Any]:
    answer = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "get_weather", "arguments": "{}"}}]}
    spent = {"input": 9, "output": 2, "input_cached_tokens": 3}
    return {
        "id": "trace-1",
        "sessionId": "thread-1",
        "scores": [{"name": "success", "value": 1, "dataType": "BOOLEAN", "stringValue": "True"}],
        "observations": [
            observation("AGENT", "clerk", parentObservationId=None, input={"question": TASK}),
            observation(
                "GENERATION", "call", model="some-model", input=given, output=answer, usageDetails=spent, **told
            ),
            observation("TOOL", "get_weather", level="ERROR", statusMessage=TASK),
        ],
    }


ASKED = [{"role": "system", "content": "Brief."}, {"role": "user", "content": TASK}]
RESULT = {"role": "tool", "content": json.dumps({"name": "Bern", "sky": "sun"}), "tool_call_id": "1"}
APPENDED = [{"role": "tool", "content": tool} for tool in (WEATHER, MAIL)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"messages": ASKED, "tools": [WEATHER, MAIL]}, {}),
        ([*ASKED, *APPENDED], {}),
        ([*ASKED, RESULT, *APPENDED], {}),
        (json.dumps([*ASKED, RESULT, *APPENDED]), {}),
        (ASKED, {"toolDefinitions": {"get_weather": "{}", "send_mail": "{}"}}),
    ],
)
def test_langfuse_tools_are_found_beside_and_behind_the_messages(given: Any, told: Any, tmp_path: Path) -> None:
    found = spans(tmp_path, langfuse_trace(given, **told))
    agent, model, tool = found["agent"], found["model"], found["tool"]
    assert (agent.name, agent.conversation, agent.text, agent.success) == ("clerk", "thread-1", TASK, True)
    assert (agent.start, agent.end) == (1767225600000000000, 1767225601500000000)
    assert (model.name, model.text, model.parent_id, model.success) == ("some-model", TASK, agent.span_id, None)
    assert (model.offered, model.requested) == (("get_weather", "send_mail"), ("get_weather",))
    assert (model.input_tokens, model.cached_tokens, model.output_tokens) == (12, 3, 2), "Langfuse counts apart"
    assert (tool.name, tool.error) == ("get_weather", "error")


@pytest.mark.parametrize("content", ["sun", json.dumps({"name": "Bern"}), {"name": "Bern", "sky": "sun"}])
@pytest.mark.parametrize("answers", [{}, {"tool_call_id": "1"}])
def test_a_tool_result_in_langfuse_is_never_taken_for_an_offered_tool(
    content: Any, answers: dict[str, str], tmp_path: Path
) -> None:
    trace = langfuse_trace([*ASKED, {"role": "tool", "content": content, **answers}])
    assert spans(tmp_path, trace)["model"].offered == ()


def test_a_definition_that_answers_a_call_is_a_result(tmp_path: Path) -> None:
    """A tool that looks up tools returns definitions."""
    trace = langfuse_trace([*ASKED, {"role": "tool", "content": WEATHER, "tool_call_id": "1"}])
    assert spans(tmp_path, trace)["model"].offered == ()


def test_langfuse_observations_of_blob_storage_are_read_and_loose_scores_are_reported(tmp_path: Path) -> None:
    row = {
        "id": "o-1",
        "trace_id": "trace-1",
        "parent_observation_id": "o-0",
        "type": "GENERATION",
        "session_id": "thread-1",
        "start_time": "2026-01-01 00:00:00.000000",
        "provided_model_name": "some-model",
        "input": json.dumps(ASKED),
        "tool_definitions": {"get_weather": "{}"},
        "tool_call_names": ["get_weather"],
        "usage_details": {"input": 4},
    }
    loose = {"id": "s-1", "trace_id": "trace-1", "name": "success", "value": 1}
    reading = read_spans(written(tmp_path, row, loose), "langfuse")
    (model,) = reading
    assert (model.kind, model.name, model.conversation, model.text) == ("model", "some-model", "thread-1", TASK)
    assert (model.offered, model.requested, model.input_tokens) == (("get_weather",), ("get_weather",), 4)
    assert model.start == 1767225600000000000
    assert (reading.report.skipped, len(reading.report.reasons)) == (1, 1)


def test_langfuse_parquet_is_read_as_its_json_is(tmp_path: Path) -> None:
    """Parquet is the default of Langfuse's export; its columns have types where JSON has texts and objects."""
    ids = {"id": "o-1", "trace_id": "trace-1", "parent_observation_id": "o-0"}
    plain_columns = {"type": "GENERATION", "level": "DEFAULT", "session_id": "thread-1", "service_name": "desk"}
    objects: dict[str, dict[str, Any]] = {
        "tool_definitions": {"get_weather": "{}", "send_mail": "{}"},
        "usage_details": {"input": 4, "input_cached_tokens": 3},
        "metadata": {
            "thread_id": "thread-2",
            "camdf.ranking.names": '["get_weather"]',
            "camdf.ranking.scores": "[0.5]",
        },
    }
    told = {**ids, **plain_columns, "input": json.dumps(ASKED), "tool_call_names": ["get_weather"]}
    begun = {"start_time": "2026-01-01 00:00:00.250000", "end_time": "2026-01-01 00:00:01.500000"}
    table = pa.table({name: [value] for name, value in told.items()})
    for name, words in objects.items():
        values = pa.int64() if name == "usage_details" else pa.string()
        table = table.append_column(name, pa.array([list(words.items())], pa.map_(pa.string(), values)))
    for name, time in begun.items():
        table = table.append_column(name, pa.array([time]).cast(pa.timestamp("us")))
    pq.write_table(table, tmp_path / "observations.parquet")
    (typed,) = read_spans(tmp_path / "observations.parquet")
    (in_words,) = read_spans(written(tmp_path, {**told, **objects, **begun}))
    assert typed == in_words
    assert typed.start == 1767225600250000000
    assert (typed.offered, typed.service, typed.ranked) == (("get_weather", "send_mail"), "desk", ("get_weather",))


def test_langfuse_spans_on_their_way_through_opentelemetry_are_read(tmp_path: Path) -> None:
    told = {"langfuse.observation.type": "tool", "session.id": "thread-1"}
    tool = spans(tmp_path, otlp(otlp_span(TOOL, told, name="get_weather")))["tool"]
    assert (tool.name, tool.conversation) == ("get_weather", "thread-1")


# MLflow


def test_an_mlflow_trace_that_failed_its_assessment_says_so_on_its_agents_and_its_top(tmp_path: Path) -> None:
    def span(span_id: str, kind: str, parent: str | None) -> dict[str, Any]:
        told = {"mlflow.spanType": json.dumps(kind), "mlflow.spanInputs": json.dumps({"task": TASK})}
        return {"trace_id": "abc", "span_id": span_id, "parent_span_id": parent, "name": span_id, "attributes": told}

    info = {"trace_id": "tr-abc", "assessments": [{"assessment_name": "correctness", "feedback": {"value": "no"}}]}
    trace = {
        "info": info,
        "data": {"spans": [span("a", "CHAIN", None), span("b", "AGENT", "a"), span("c", "TOOL", "b")]},
    }
    found = {span.span_id: (span.kind, span.success, span.text) for span in read_spans(written(tmp_path, trace))}
    assert found == {"a": ("other", False, ""), "b": ("agent", False, TASK), "c": ("tool", None, "")}


# Plain rows

ROW = Span(
    "t",
    "s",
    "p",
    "model",
    "m",
    "c",
    "u",
    "desk",
    1,
    2,
    "E",
    "x",
    ("a",),
    ("b",),
    ("i",),
    True,
    "i",
    ("a",),
    (0.5,),
    True,
    False,
    1,
    2,
    3,
)


def test_plain_rows_and_the_span_table_itself_come_back_as_they_were(tmp_path: Path) -> None:
    bare = Span("t", "s2")
    row = {name: getattr(ROW, name) for name in SPAN_COLUMNS}
    assert list(read_spans(written(tmp_path, row, {"trace_id": "t", "span_id": "s2", "kind": "other"}))) == [ROW, bare]
    pq.write_table(arrow_table([ROW, bare]), tmp_path / "table.parquet")
    assert list(read_spans(tmp_path / "table.parquet")) == [ROW, bare]


@pytest.mark.parametrize(
    "dropped", [{"droppedAttributesCount": 3}, {"droppedEventsCount": "1", "strange": True}, {"droppedLinksCount": 1}]
)
def test_an_offer_that_the_exporter_cut_is_unknown(tmp_path: Path, dropped: dict[str, Any]) -> None:
    """150 tools take more attributes than the 128 that an SDK keeps; a part of the list would delete true labels."""
    whole, cut = (spans(tmp_path, otlp(otlp_span("1", FLAT, **more)))["model"] for more in ({}, dropped))
    assert (bool(whole.offered), cut.offered) == (True, ())
    assert cut.requested == whole.requested


def test_a_ranking_without_a_score_for_each_tool_is_none(tmp_path: Path) -> None:
    row = {"trace_id": "t", "span_id": "s", "kind": "agent", "ranked": ["a", "b"], "scores": [0.5]}
    (span,) = read_spans(written(tmp_path, row))
    assert (span.ranked, span.scores) == ((), ())


# Files


def everything() -> list[Any]:
    row = {name: getattr(ROW, name) for name in SPAN_COLUMNS}
    return [agent_run(True), otlp(otlp_span("1", FLAT)), *langsmith_runs(), langfuse_trace(ASKED), row]


def test_order_split_compression_and_mixing_of_formats_change_nothing(tmp_path: Path) -> None:
    records = everything()
    expected = sorted(read_spans(written(tmp_path, *records)), key=repr)
    random.Random(0).shuffle(records)
    folder = tmp_path / "folder" / "deeper"
    folder.mkdir(parents=True)
    written(folder, *records[:2])
    (folder / "list.json").write_text(json.dumps(records[2:4], indent=1))
    written(folder, *records[4:5], name="collector.json")
    with gzip.open(folder / "more.jsonl.gz", "wt") as stream:
        stream.write("\n".join(map(json.dumps, records[5:])))
    (folder / "notes.txt").write_text("not a trace")
    assert sorted(read_spans(tmp_path / "folder"), key=repr) == expected
    assert len(expected) == 11


@pytest.mark.parametrize("packed", ["gz", "bz2", "zst"])
def test_a_packed_file_is_read_and_one_that_is_cut_off_is_counted(packed: str, tmp_path: Path) -> None:
    line = json.dumps(agent_run(True)).encode() + b"\n"

    def pack(text: bytes) -> bytes:
        if packed == "zst":
            found: bytes = pa.compress(text, "zstd", asbytes=True)
            return found
        return gzip.compress(text) if packed == "gz" else bz2.compress(text)

    for ending in ("jsonl", "json", "ndjson"):
        file = tmp_path / f"traces.{ending}.{packed}"
        file.write_bytes(pack(line * 2) + pack(line))  # files that were joined
        assert len(list(read_spans(file))) == 9
        file.write_bytes(pack(random.Random(0).randbytes(2_000_000).hex().encode())[:1_000_000])
        reading = read_spans(file)
        assert list(reading) == []
        assert reading.report.skipped >= 1


def test_files_that_no_reader_takes_are_said(tmp_path: Path) -> None:
    written(tmp_path, agent_run(True))
    for name in ("a.log", "b.avro", "c.jsonl.xz", "d.txt", "e.csv", "f.parquet.crc"):
        (tmp_path / name).touch()
    report = read_spans(tmp_path).report
    assert report.passed_over == ["a.log", "b.avro", "c.jsonl.xz", "d.txt", "e.csv", "f.parquet.crc"]
    assert says(str(report), "6 other files", "a.log, b.avro, c.jsonl.xz, d.txt, e.csv, ...")


def test_many_small_files_become_few_span_tables_and_their_size_in_memory_is_bounded(tmp_path: Path) -> None:
    for number in range(300):
        row = {"trace_id": str(number), "span_id": "s", "kind": "agent", "text": "x" * 10_000}
        written(tmp_path, row, name=f"{number}.jsonl")
    with span_tables(tmp_path) as tables:
        assert len(tables) == 1
        assert pq.read_metadata(tables[0]).num_rows == 300
    with span_tables(tmp_path, with_text=True, bytes_a_file=1_000_000) as tables:
        sizes = [pq.read_metadata(table).num_rows for table in tables]
    assert sum(sizes) == 300
    assert max(sizes) <= 100


def test_what_is_broken_is_counted_and_never_shown(tmp_path: Path) -> None:
    good = json.dumps(agent_run(False))
    lines = [good, f'{{"broken": "{TASK}', "", json.dumps({"text": TASK}), json.dumps(otlp({"name": TASK})), good[:-9]]
    (tmp_path / "a.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"\xff": 1}')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(good.encode() * 50)[:-20])
    (tmp_path / "c.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "d.json").write_text("[1, 2")
    reading = read_spans(tmp_path)
    assert len(list(reading)) == 3
    report = reading.report
    assert (report.records, report.spans, report.skipped) == (7, 3, 8)
    assert report.reasons == [
        "a.jsonl:2: not JSON",
        "a.jsonl:4: no known trace format",
        "a.jsonl:5: a span without a trace id or a span id",
        "a.jsonl:6: not JSON",
        "a.jsonl:7: not JSON",
    ]
    assert TASK not in str(report)
    assert says(str(report), "7 records", "3 spans", "8 could not be read")


def test_a_reader_that_fails_on_a_record_is_reported_by_the_type_of_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(part: Any, with_text: bool) -> Span:
        raise KeyError(TASK)

    monkeypatch.setattr(plain, "span", fail)
    reading = read_spans(written(tmp_path, {}, {"text": TASK}), "plain")
    assert list(reading) == []
    assert reading.report.reasons == ["traces.jsonl:1: KeyError", "traces.jsonl:2: KeyError"]


def test_a_path_or_format_that_is_wrong_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no traces below"):
        read_spans(tmp_path)
    with pytest.raises(DataError, match="There is no file"):
        read_spans(tmp_path / "missing.json")
    with pytest.raises(UsageError, match=r"one of \['langfuse', .*Got 'jaeger'"):
        read_spans(written(tmp_path, {}), "jaeger")


TABLES = (
    tables.OTEL,
    tables.OPENINFERENCE,
    tables.LANGSMITH,
    tables.LANGSMITH_SPAN,
    tables.LANGFUSE,
    tables.MLFLOW,
    tables.DECISION,
    tables.OTEL_SPAN,
)
NAMES = sorted(
    {key for table in TABLES for names in table.values() for key in names}
    | {
        "resourceSpans",
        "scopeSpans",
        "spans",
        "runs",
        "child_runs",
        "data",
        "info",
        "scores",
        "trace",
        "messages",
        "key",
    }
    | {
        "value",
        "stringValue",
        "arrayValue",
        "kvlistValue",
        "values",
        "role",
        "content",
        "parts",
        "tool_calls",
        *SPAN_COLUMNS,
    }
    | {
        "observations",
        "context",
        "extra",
        "metadata",
        "inputs",
        "outputs",
        "input",
        "output",
        "function",
        "Events.Name",
    }
)
WORDS = st.sampled_from(
    [*NAMES, "user", "tool", "AGENT", "GENERATION", "chat", "invoke_agent", "text", "[]", "{", '["a"]']
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(value=VALUES, ids=st.booleans())
def test_no_json_value_breaks_a_reader_and_what_it_gives_fits_the_table(value: Any, ids: bool) -> None:
    """Straight into the readers, around the guard of `read_spans`: what they raise would be counted there."""
    if ids and isinstance(value, dict):
        value |= {"trace_id": "t", "span_id": "s", "id": "s"}
    guess(value)
    found = []
    for reader in FORMATS.values():
        for part in reader.parts(value):
            with suppress(Unreadable):
                found.append(reader.span(part))
    assert arrow_table(found).schema == arrow_schema()


def values_of_attributes() -> st.SearchStrategy[Any]:
    texts = WORDS | VALUES.map(json.dumps)
    plain = st.fixed_dictionaries({"stringValue": texts}) | st.fixed_dictionaries({"intValue": st.integers().map(str)})
    arrays = st.lists(plain, max_size=3).map(lambda values: {"arrayValue": {"values": values}})
    return plain | arrays | VALUES


ATTRIBUTES = st.lists(
    st.fixed_dictionaries({"key": WORDS | st.just("gen_ai.operation.name"), "value": values_of_attributes()}),
    max_size=6,
)
OTLP_SPANS = st.fixed_dictionaries(
    {"traceId": st.sampled_from(["a1", "0xb2"]), "spanId": st.sampled_from(["c3", "AAAAAAAAAAE="])},
    optional={
        "parentSpanId": WORDS,
        "name": st.text(max_size=3),
        "startTimeUnixNano": st.integers() | st.integers().map(str),
        "endTimeUnixNano": VALUES,
        "attributes": ATTRIBUTES,
        "events": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["exception", "camdf.decision", "gen_ai.choice"]), "attributes": ATTRIBUTES}
            ),
            max_size=2,
        ),
        "status": st.sampled_from([{}, {"code": 2}, {"code": "STATUS_CODE_ERROR"}, {"status_code": "ERROR"}, None]),
        "kind": VALUES,
        "span_kind": st.just("AGENT"),
    },
)


@settings(max_examples=300, deadline=None)
@given(spans=st.lists(OTLP_SPANS, min_size=1, max_size=3), with_text=st.booleans(), extra=st.booleans())
def test_a_document_read_by_its_schema_gives_what_it_gives_as_any_json(
    spans: list[Any], with_text: bool, extra: bool
) -> None:
    document = otlp(*spans) | ({"more": 1} if extra else {})
    text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    typed = typed_document(text)
    assert not (extra and typed)
    if typed is not None:
        found = [
            [FORMATS["otel"].span(part, with_text) for part in FORMATS["otel"].parts(each)]
            for each in (typed, document)
        ]
        assert found[0] == found[1]


def test_the_schema_of_otlp_covers_what_a_collector_writes() -> None:
    """Else every document would be read the slow way, and no other test would tell."""
    span = otlp_span(AGENT, {"a": 1}, parentSpanId="", flags=256, kind=3, traceState="", links=[], droppedLinksCount=0)
    span |= {"status": {"code": 1, "message": ""}, "droppedAttributesCount": 0, "droppedEventsCount": 1}
    span["events"] = [{"timeUnixNano": "1", "name": "x", "attributes": [], "droppedAttributesCount": 0}]
    document = otlp(span)
    document["resourceSpans"][0]["schemaUrl"] = document["resourceSpans"][0]["scopeSpans"][0]["schemaUrl"] = "https://x"
    assert typed_document(json.dumps(document, indent=1).encode()) is not None
    assert typed_document(json.dumps(agent_run(False)).encode()) is not None


@settings(max_examples=200, deadline=None)
@given(
    text=VALUES.map(json.dumps) | st.text(max_size=20) | st.sampled_from(["[NaN]", '"\\ud800"', "1e999", "[" * 5000])
)
def test_json_is_what_the_standard_library_says_it_is(text: str) -> None:
    def told(read: Any) -> str:
        try:
            return repr(read(text))
        except (ValueError, RecursionError):
            return "none"

    assert told(decoded) == told(json.loads)


@settings(max_examples=200, deadline=None)
@given(definitions=VALUES | st.lists(VALUES, max_size=3))
def test_the_names_of_tools_are_the_same_in_a_text_and_in_a_list(definitions: Any) -> None:
    text = json.dumps(definitions)
    if text.startswith(("[", "{")):
        assert tool_names(text) == tool_names(json.loads(text))


@settings(max_examples=50, deadline=None)
@given(lines=st.lists(st.binary(max_size=30) | VALUES.map(lambda value: json.dumps(value).encode()), max_size=5))
def test_no_line_ends_the_reading(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "lines.jsonl"
    good = json.dumps({"trace_id": "the-last", "span_id": "s", "kind": "other"}).encode()
    file.write_bytes(b"\n".join([*lines, good]))
    for format in (None, *FORMATS):
        reading = read_spans(file, format)
        found = list(reading)
        assert reading.report.spans == len(found)
        if format in (None, "plain"):
            assert found[-1].trace_id == "the-last"


# The page


def test_the_page_has_every_column_of_the_span_table() -> None:
    columns = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), flags=re.M)
    assert columns == list(SPAN_COLUMNS.items())


def test_the_page_prints_what_it_says() -> None:
    assert run_page(PAGE) == 1
