"""OTLP in protobuf, as collectors store it, gives the spans that the same export gives in JSON."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from camdf_traces.readers import read_spans
from camdf_traces.span_files import span_tables
from camdf_traces.spans import arrow_table
from loading import benchmark_module
from trace_records import AGENT, attributes, otlp, otlp_span

pytest.importorskip("opentelemetry.proto")

NAMES = st.sampled_from(
    [
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "gen_ai.tool.definitions",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.usage.input_tokens",
        "gen_ai.conversation.id",
        "openinference.span.kind",
        "llm.input_messages.0.message.role",
        "llm.input_messages.0.message.content",
        "llm.tools.0.tool.json_schema",
        "mlflow.spanType",
        "mlflow.spanInputs",
        "langfuse.observation.type",
        "camdf.ranking.names",
        "camdf.ranking.scores",
        "camdf.explored",
        "exception.type",
        "error.type",
        "of somebody else",
    ]
)
WORDS = st.sampled_from(
    ["chat", "execute_tool", "invoke_agent", "AGENT", "LLM", "TOOL", "GENERATION", 'é "x" \\ \n', ""]
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool", 'a "role"']), "content": WORDS}), max_size=3
)
PLAIN = (
    WORDS
    | MESSAGES
    | MESSAGES.map(json.dumps)
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=5
)
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=8).map(attributes)
IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
SPANS = st.fixed_dictionaries(
    {name: st.binary(min_size=size, max_size=size).map(bytes.hex) for name, size in IDS.items()},
    optional={
        "name": st.sampled_from(["chat m", "camdf.decision"]),
        "startTimeUnixNano": st.integers(1, 2**64 - 1).map(str),
        "endTimeUnixNano": st.integers(1, 2**64 - 1).map(str),
        "attributes": ATTRIBUTES,
        "events": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["exception", "camdf.decision", "gen_ai.choice"]), "attributes": ATTRIBUTES}
            ),
            max_size=2,
        ),
        "status": st.sampled_from([{}, {"code": 2, "message": "x"}, {"code": 1}]),
        "kind": st.integers(0, 5),
        "flags": st.just(257),
        "droppedAttributesCount": st.integers(0, 1),
        "droppedEventsCount": st.integers(0, 1),
    },
)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    return benchmark_module("reading", monkeypatch)


def read(file: Path, with_text: bool) -> tuple[pa.Table, int]:
    """The table of its spans, and how many could not be read."""
    spans = read_spans(file, with_text=with_text)
    return arrow_table(list(spans)), spans.report.skipped


def stored_as(documents: list[Any], folder: Path, reading: Any) -> Iterator[Path]:
    """The same export in every form in which collectors store it, in files of names that users give them."""
    messages = [reading.as_message(document) for document in documents]
    lines = [json.dumps(document).encode() for document in documents]
    forms = {
        "traces.pb": reading.framed(messages),
        "traces.json": reading.framed(messages),
        "packed.jsonl": reading.framed(messages, packed=True),
        "packed-json": reading.framed(lines, packed=True),
        "traces.binpb.zst": pa.compress(reading.framed(messages), "zstd", asbytes=True),
        "traces.binpb.gz": gzip.compress(b"".join(messages)),
        "one.binpb": b"".join(messages),
    }
    for name, content in forms.items():
        (folder / name).write_bytes(content)
        yield folder / name


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(exports=st.lists(st.lists(SPANS, min_size=1, max_size=3), min_size=1, max_size=2), with_text=st.booleans())
def test_json_and_protobuf_of_one_export_give_the_same_table(
    exports: list[list[Any]], with_text: bool, tmp_path: Path, reading: Any
) -> None:
    documents = [otlp(*spans) for spans in exports]
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(map(json.dumps, documents)))
    expected = read(lines, with_text)
    assert len(expected[0]) + expected[1] == sum(map(len, exports))
    for file in stored_as(documents, tmp_path, reading):
        assert read(file, with_text) == expected, file.name


@pytest.mark.parametrize("convention", ["genai", "openinference"])
@pytest.mark.parametrize("with_text", [True, False])
def test_runs_of_agents_are_the_same_in_json_and_protobuf(
    convention: str, with_text: bool, tmp_path: Path, reading: Any
) -> None:
    rng = random.Random(3)
    spans = [span for _ in range(9) for span in reading.spans_of(reading.RUNS[convention], rng)]
    lines = tmp_path / "lines.jsonl"
    lines.write_text(reading.document(spans))
    expected = read(lines, with_text)
    assert expected[1] == 0
    for file in stored_as([json.loads(lines.read_text())], tmp_path, reading):
        assert read(file, with_text) == expected, file.name


def test_a_file_that_was_cut_short_gives_its_whole_messages(tmp_path: Path, reading: Any) -> None:
    messages = [reading.as_message(otlp(otlp_span(f"{number:016x}", {}))) for number in (1, 2, 3)]
    broken: dict[str, Callable[[bytes], bytes]] = {
        "in-a-message.pb": lambda content: content[:-3],
        "in-a-size.pb": lambda content: content[: -len(messages[2]) - 2],
    }
    for name, cut in broken.items():
        (tmp_path / name).write_bytes(cut(reading.framed(messages)))
        spans = read_spans(tmp_path / name)
        assert [span.span_id for span in spans] == ["0000000000000001", "0000000000000002"]
        assert spans.report.reasons == [f"{name}:3: cut short"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x0a\x05nope", "not OTLP"),
        (b"\x28\xb5\x2f\xfdnope", "not packed as it should be"),
        (pa.compress(b'{"resourceSpans": nope', "zstd", asbytes=True), "not JSON"),
    ],
)
def test_a_broken_message_is_counted_and_the_next_one_read(
    content: bytes, why: str, tmp_path: Path, reading: Any
) -> None:
    whole = reading.as_message(otlp(otlp_span(AGENT, {})))
    (tmp_path / "traces.pb").write_bytes(reading.framed([content, whole]))
    spans = read_spans(tmp_path / "traces.pb")
    assert [span.span_id for span in spans] == [AGENT]
    assert spans.report.reasons == [f"traces.pb:1: {why}"]


def test_metrics_in_protobuf_are_no_spans(tmp_path: Path) -> None:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, ResourceMetrics, ScopeMetrics

    metric = Metric(name="requests", description="how many")
    data = MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[metric])])])
    (tmp_path / "metrics.binpb").write_bytes(data.SerializeToString())
    spans = read_spans(tmp_path / "metrics.binpb")
    assert not list(spans)
    assert spans.report.skipped == 1


def test_a_large_file_of_messages_is_not_cut_at_line_ends(tmp_path: Path, reading: Any) -> None:
    messages = [reading.as_message(otlp(otlp_span(f"{number:016x}", {"x": "\n"}))) for number in range(1, 200)]
    file = tmp_path / "traces.jsonl"
    file.write_bytes(reading.framed(messages))
    with span_tables(file, bytes_a_portion=1000, tell=pytest.fail) as tables:
        assert sum(len(pq.read_table(table)) for table in tables) == 199
