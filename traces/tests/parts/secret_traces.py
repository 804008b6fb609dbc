"""Traces that hold a secret in all of their texts, and whether a folder holds it too."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from camdf_traces import span_files
from camdf_traces.readers import read_spans
from camdf_traces.spans import Span, arrow_table
from golden import openai_tool
from trace_records import AGENT, MODEL, TOOL, attributes, langchain_message, observation, otlp, otlp_span, run

SECRET = "zanzibar-4711"
ASKED = [{"role": "system", "content": f"For {SECRET}."}, {"role": "user", "content": f"Cancel {SECRET}, please"}]
ORDER = json.dumps({"order": SECRET})
CALL = {"id": "1", "type": "function", "function": {"name": "cancel", "arguments": ORDER}}
ANSWER = {"role": "assistant", "content": f"Done: {SECRET}", "tool_calls": [CALL]}
TOOLS = [openai_tool("cancel", f"Cancels, for instance {SECRET}."), openai_tool("send_mail", "Mail.")]
FAILED = {"status": {"code": 2, "message": SECRET}}
RAISED = {
    "name": "exception",
    "attributes": attributes({"exception.type": "TimeoutError", "exception.message": f"no {SECRET}"}),
}


def records() -> dict[str, list[Any]]:
    """A run of an agent in every format, with the secret wherever a person's words can stand."""
    words = {"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps([ANSWER])}
    spoken = {"input.value": json.dumps(ASKED), "output.value": json.dumps(ANSWER)}
    flat = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": SECRET,
        "llm.output_messages.0.message.content": SECRET,
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "cancel",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": ORDER,
        "llm.tools.0.tool.json_schema": json.dumps(TOOLS[0]),
    }
    given = langchain_message("human", content=SECRET)
    mlflow = {"mlflow.spanInputs": json.dumps({"messages": ASKED}), "mlflow.spanOutputs": json.dumps(ANSWER)}

    def mlflow_span(name: str, kind: str, parent: str | None, **more: Any) -> dict[str, Any]:
        told = {"mlflow.spanType": json.dumps(kind), **mlflow, "mlflow.chat.tools": json.dumps(TOOLS)}
        return {
            "trace_id": "abc",
            "span_id": name,
            "parent_span_id": parent,
            "name": name,
            "attributes": told,
            **more,
        }

    def langsmith_span(kind: str, name: str, span_id: str, **more: Any) -> dict[str, Any]:
        told = {"langsmith.span.kind": kind, "langsmith.trace.name": name, "gen_ai.tool.definitions": json.dumps(TOOLS)}
        told |= {"gen_ai.prompt": json.dumps({"messages": ASKED}), "gen_ai.completion": json.dumps({"output": ANSWER})}
        return otlp_span(span_id, told, traceId="1a2b3c", **more)

    return {
        "otel": [
            otlp(
                otlp_span(
                    AGENT, {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": json.dumps(ASKED)}
                ),
                otlp_span(
                    MODEL,
                    {"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": json.dumps(TOOLS), **words},
                    parentSpanId=AGENT,
                    events=[{"name": "gen_ai.user.message", "attributes": attributes({"content": SECRET})}],
                ),
                otlp_span(
                    TOOL,
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": "cancel",
                        "gen_ai.tool.call.arguments": ORDER,
                        "gen_ai.tool.call.result": SECRET,
                    },
                    parentSpanId=AGENT,
                    events=[RAISED],
                    **FAILED,
                ),
            ),
            otlp(
                langsmith_span("chain", "clerk", AGENT),
                langsmith_span("llm", "ChatOpenAI", MODEL, parentSpanId=AGENT),
                langsmith_span("tool", "cancel", TOOL, parentSpanId=AGENT, events=[RAISED]),
            ),
        ],
        "openinference": [
            otlp(
                otlp_span(AGENT, {"openinference.span.kind": "AGENT", **spoken}),
                otlp_span(MODEL, {"openinference.span.kind": "LLM", **spoken, **flat}, parentSpanId=AGENT),
                otlp_span(
                    TOOL,
                    {"openinference.span.kind": "TOOL", "tool.name": "cancel", **spoken},
                    parentSpanId=AGENT,
                    events=[RAISED],
                    **FAILED,
                ),
            )
        ],
        "langsmith": [
            run("chain", "clerk", parent_run_id=None, inputs={"messages": ASKED}, outputs={"messages": [ANSWER]}),
            run(
                "llm",
                "ChatOpenAI",
                inputs={"messages": [[given]]},
                outputs={"generations": [[{"text": SECRET, "message": langchain_message("ai", **ANSWER)}]]},
                extra={"invocation_params": {"tools": TOOLS}},
            ),
            run("tool", "cancel", inputs={"order": SECRET}, outputs={"output": SECRET}, error=f"KeyError('{SECRET}')"),
        ],
        "langfuse": [
            {
                "id": "trace-1",
                "input": SECRET,
                "output": SECRET,
                "observations": [
                    observation("AGENT", "clerk", parentObservationId=None, input={"question": SECRET}, output=SECRET),
                    observation("GENERATION", "call", input={"messages": ASKED, "tools": TOOLS}, output=ANSWER),
                    observation("TOOL", "cancel", input={"order": SECRET}, level="ERROR", statusMessage=SECRET),
                ],
            }
        ],
        "mlflow": [
            {
                "info": {"trace_id": "tr-abc", "request_preview": SECRET, "response_preview": SECRET},
                "data": {
                    "spans": [
                        mlflow_span("clerk", "AGENT", None),
                        mlflow_span("model", "CHAT_MODEL", "clerk"),
                        mlflow_span("cancel", "TOOL", "clerk", events=[RAISED]),
                    ]
                },
            }
        ],
        "plain": [
            {"trace_id": "p", "span_id": "1", "kind": "agent", "text": SECRET},
            {"trace_id": "p", "span_id": "2", "parent_id": "1", "kind": "model", "offered": ["cancel"], "text": SECRET},
        ],
    }


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """One file a format, something broken, and a span table with the text in a column and the end of each run."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for name, found in records().items():
        (folder / f"{name}.jsonl").write_text("\n".join([*map(json.dumps, found), f'{{"broken": "{SECRET}']))
    table = [Span("s", "1", kind="agent", text=SECRET), Span("s", "2", "1", "model", text=SECRET)]
    agents = [span for span in read_spans(folder) if span.kind == "agent"]
    table += [Span(span.trace_id, "~", span.span_id, "model", text=SECRET) for span in agents]
    pq.write_table(arrow_table(table), folder / "table.parquet")
    return folder


def holds_the_secret(folder: Path) -> bool:
    """Whether any file below a folder does, as it is or in a column of a table."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    tables = [pq.read_table(file).to_pylist() for file in files if file.suffix == ".parquet"]
    return SECRET in str(tables) or any(SECRET.encode() in file.read_bytes() for file in files)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, and left as they are."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(TemporaryDirectory, "cleanup", lambda folder: folder._finalizer.detach())
    monkeypatch.setattr(span_files, "rmtree", lambda folder, **_: None)
    return folder
