"""Spans from the table of the Collector's exporter: the labels are those of the files they came in.

The engine is ClickHouse's own, embedded by chdb; its client speaks HTTP to it as to a server (`served_engine`).
"""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from engines import DAY, NOON, Engine, sent, spans, tasks, written
from recorded import recorded

from camdf.errors import DataError
from camdf_traces.readers.clickhouse import DaysOfSpans, on_day
from camdf_traces.readers.clickhouse_sql import quoted_name
from camdf_traces.span_files import span_tables
from camdf_traces.tasks import mine
from secret_traces import SECRET
from secret_traces import records as secret_records
from trace_records import otlp, otlp_span

pytest_plugins = ["engine_fixture"]


def test_what_real_tracers_sent_has_the_same_labels_from_a_table_as_from_files(engine: Engine, tmp_path: Path) -> None:
    """What the libraries of the matrix of traces sent under its tracers that send OTLP (`recorded`)."""
    cells = recorded()
    tracers = {tuple(name.split(", ")[:2]) for name in cells}
    assert len(cells) > 100
    assert {tracer for _, tracer in tracers} == {"OpenTelemetry", "OpenInference", "LangSmith OTel", "Langfuse"}
    documents = [document for found in cells.values() for document in found]
    file, url = written(tmp_path, documents), engine.otel("recorded", documents)
    for with_text in (False, True):
        assert spans(url, with_text) == spans(file, with_text)
    assert tasks(url) == tasks(file)


def test_every_convention_has_the_same_spans_from_a_table_as_from_files(engine: Engine, tmp_path: Path) -> None:
    found = secret_records()
    documents = [*found["otel"], *found["openinference"]]
    file, url = written(tmp_path, documents), engine.otel("conventions", documents)
    for with_text in (False, True):
        assert spans(url, with_text) == spans(file, with_text)


WORDS = (
    "",
    "'",
    "`",
    "\\",
    "\u00df",
    "\n",
    "\x00",
    '"role"',
    '"role": "tool"',
    '"role": "user"',
    "{",
    " {}",
    "[",
    "9" * 30,
)
KEYS = (
    *("gen_ai.operation.name", "gen_ai.input.messages", "pydantic_ai.all_messages", "gen_ai.tool.call.result"),
    *("tool_response", "gen_ai.tool.name", "gen_ai.tool.definitions", "gen_ai.output.messages", "error.type"),
    *("openinference.span.kind", "llm.input_messages.0.message.role", "llm.input_messages.0.message.content"),
    *("mlflow.spanType", "langsmith.trace.name", "gen_ai.prompt", "metadata", "camdf.mode", "gen_ai", "x'`\\ y", ""),
)
SORTS = ("gen_ai.operation.name", "openinference.span.kind", "mlflow.spanType")
KINDS = ("chat", "execute_tool", "invoke_agent", "AGENT", "LLM", "TOOL", '"CHAT_MODEL"', "tool")


def hostile_documents(seed: int) -> list[dict[str, Any]]:
    """Spans whose attributes and events have names and values that mean something, or break something."""
    draw = random.Random(seed)

    def told(count: int) -> dict[str, Any]:
        values = {key: "".join(draw.choices(WORDS, k=draw.randint(0, 4))) for key in draw.choices(KEYS, k=count)}
        return values | {
            key: draw.choice(KINDS) for key in values if "kind" in key or "operation" in key or "Type" in key
        }

    events = [
        {"name": name, "timeUnixNano": NOON, "attributes": otlp_span("1", told(2))["attributes"]}
        for name in ("exception", "gen_ai.choice", "gen_ai.client.inference.operation.details", "'", "camdf.decision")
    ]
    found = []
    for number in range(60):
        times = {"startTimeUnixNano": NOON + number, "endTimeUnixNano": NOON + 2 * number}
        more = {"status": {"code": draw.randint(0, 2)}, "events": draw.sample(events, draw.randint(0, 3))}
        name = draw.choice(("camdf.decision", "chat", *WORDS))
        found.append(otlp_span(f"{number + 1:016x}", told(6), name=name, **times, **more))
    return [otlp(*found)]


@pytest.mark.parametrize("seed", range(4))
def test_what_the_database_cuts_no_reader_looks_at(seed: int, engine: Engine, tmp_path: Path) -> None:
    """The rows as they are cut give the spans of the whole rows, as an operator would export them to Parquet."""
    documents = hostile_documents(seed)
    database, table = "hos`tile\\", "t'able; `"
    engine.otel(database, documents, table)
    asked = f"SELECT * FROM {quoted_name(database)}.{quoted_name(table)}"
    with engine.client.raw_stream(asked, fmt="Parquet") as whole:
        (tmp_path / "whole.parquet").write_bytes(whole.read())
    source = engine.url(quote(database), f"?table={quote(table)}")
    for with_text in (False, True):
        cut, uncut = spans(source, with_text), spans(tmp_path / "whole.parquet", with_text)
        assert cut == uncut
    assert len(cut) == 60


def test_without_text_the_database_sends_no_word_that_a_user_wrote(engine: Engine) -> None:
    url = engine.otel("private", [secret_records()["otel"][0]])
    for with_text in (True, False):
        whole = sent(url, with_text)
        asked = [f"For {SECRET}", f"Cancel {SECRET}", f"no {SECRET}"]
        assert [words in whole for words in asked] == [with_text, with_text, False]


def test_days_are_those_of_utc_and_of_the_window(engine: Engine) -> None:
    night = NOON + 12 * 3600 * 10**9
    times = {1: NOON, 2: night - 1, 3: night}
    found = [
        otlp_span(f"{number}", {"gen_ai.operation.name": "chat"}, startTimeUnixNano=time, endTimeUnixNano=time)
        for number, time in times.items()
    ]
    url = engine.otel("days", [otlp(*found)])
    assert DaysOfSpans(url, with_text=False).days == [DAY, DAY + timedelta(1)]
    assert [span.start for span in spans(url)] == [*times.values()]
    assert [span.span_id for span in spans(on_day(url, DAY))] == ["1", "2"]
    assert [span.span_id for span in spans(f"{url}?since=2026-11-15")] == ["3"]
    with pytest.raises(DataError, match="since="):
        spans(on_day(url, DAY + timedelta(2)))


def test_several_processes_read_what_one_reads(engine: Engine) -> None:
    day = 86_400 * 10**9
    told = {"gen_ai.operation.name": "chat"}
    times = {f"{number:016x}": NOON + number % 5 * day for number in range(1, 400)}
    found = [otlp_span(name, told, startTimeUnixNano=at, endTimeUnixNano=at) for name, at in times.items()]
    url = engine.otel("many", [otlp(*found)])
    read = []
    for workers in (1, 2):
        with span_tables(url, workers=workers, bytes_a_portion=1) as tables:
            read.append((len(tables), mine(tables).spans))
    assert read == [(5, 399), (5, 399)]
