"""Two services in one trace, exported by the real SDK: each task has its own, and so have the calls without a span."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from camdf.cli import main
from camdf_traces.readers import read_spans
from scripted import Call, ScriptedModel

pytestmark = pytest.mark.filterwarnings("default")  # the framework leaves its client's sockets to the collector


@pytest.fixture(scope="module")
def spans() -> list[ReadableSpan]:
    """An agent of the service `desk` asks one of the service `shop`, which traces no tools of its own."""
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Instrumentation
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    exporters = {service: InMemorySpanExporter() for service in ("desk", "shop")}

    def agent(service: str, url: str) -> Any:
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        provider.add_span_processor(SimpleSpanProcessor(exporters[service]))
        settings = InstrumentationSettings(tracer_provider=provider)
        model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none"))
        return Agent(model, name=service, capabilities=[Instrumentation(settings=settings)])

    with ScriptedModel([Call("look_up"), Call("ask_shop")]) as first, ScriptedModel([Call("count_stock")]) as second:
        desk, shop = agent("desk", first.url), agent("shop", second.url)

        def look_up() -> str:
            return "order 17"

        desk.tool_plain(look_up)

        async def ask_shop() -> str:
            return str((await shop.run("How many are left?")).output)

        desk.tool_plain(ask_shop)

        def count_stock() -> str:
            return "4"

        shop.tool_plain(count_stock)

        assert desk.run_sync("Can I have two more?").output == "done"
    every = [span for exporter in exporters.values() for span in exporter.get_finished_spans()]
    assert len({span.context.trace_id for span in every if span.context}) == 1
    return [span for span in every if "count_stock" not in span.name]


def otlp_json(spans: list[ReadableSpan], folder: Path) -> Path:
    """As the collector's file exporter writes them: one document, a part for each resource."""
    (folder / "traces.jsonl").write_text(json.dumps(MessageToDict(encode_spans(spans))))
    return folder / "traces.jsonl"


def other_json(spans: list[ReadableSpan], folder: Path) -> Path:
    """With a field that the schema does not know, so that the document is read as any other JSON."""
    (folder / "traces.jsonl").write_text(json.dumps({**MessageToDict(encode_spans(spans)), "strange": True}))
    return folder / "traces.jsonl"


def otlp_protobuf(spans: list[ReadableSpan], folder: Path) -> Path:
    (folder / "traces.binpb").write_bytes(encode_spans(spans).SerializeToString())
    return folder / "traces.binpb"


def sdk_json(spans: list[ReadableSpan], folder: Path) -> Path:
    (folder / "traces.json").write_text(f"[{','.join(span.to_json() for span in spans)}]")
    return folder / "traces.json"


def clickhouse(spans: list[ReadableSpan], folder: Path) -> Path:
    """The columns of the collector's ClickHouse exporter that say where a span is from."""
    rows = [
        {
            "TraceId": f"{span.context.trace_id:032x}",
            "SpanId": f"{span.context.span_id:016x}",
            "ServiceName": span.resource.attributes["service.name"],
            "SpanAttributes": json.dumps(dict(span.attributes or {}), default=list),
        }
        for span in spans
        if span.context
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "traces.parquet")
    return folder / "traces.parquet"


WAYS = [otlp_json, other_json, otlp_protobuf, sdk_json, clickhouse]


@pytest.mark.parametrize("written", WAYS)
def test_a_span_has_the_service_of_the_resource_that_recorded_it(
    written: Callable[[list[ReadableSpan], Path], Path], spans: list[ReadableSpan], tmp_path: Path
) -> None:
    read = {span.span_id: span.service for span in read_spans(written(spans, tmp_path))}
    assert read == {
        f"{span.context.span_id:016x}": span.resource.attributes["service.name"] for span in spans if span.context
    }
    assert set(read.values()) == {"desk", "shop"}


@pytest.mark.parametrize("written", WAYS[:4])
def test_calls_without_a_span_are_shown_by_the_service_whose_run_made_them(
    written: Callable[[list[ReadableSpan], Path], Path],
    spans: list[ReadableSpan],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tasks = tmp_path / "tasks.parquet"
    assert main(["mine", str(written(spans, tmp_path)), "-o", str(tasks)]) == 0
    rows = {row["service"]: (row["called"], row["inferred"]) for row in pq.read_table(tasks).to_pylist()}
    assert rows == {"desk": (["ask_shop", "look_up"], []), "shop": (["count_stock"], ["count_stock"])}
    capsys.readouterr()
    assert main(["audit", str(tasks), "--json"]) == 0
    untraced = json.loads(capsys.readouterr().out)["untraced"]
    assert (untraced["tools"], untraced["services"]) == ({"count_stock": 1.0}, {"shop": 1.0})
    assert main(["audit", str(tasks)]) == 0
    assert "By service: shop (100%)." in " ".join(capsys.readouterr().out.split())
