"""What a run needed, mined from the spans that the framework itself writes with OpenTelemetry.

Besides `camdf[mining]` this takes `opentelemetry-sdk` and `opentelemetry-exporter-otlp-proto-common`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from camdf.examples.mined import mined_tasks


def mined(run: Callable[[], object]) -> list[list[str]]:
    """The tools that each agent's run needed, in the traces of what is run here."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    memory = _span_memory()
    memory.clear()
    run()
    spans = [json.dumps(MessageToDict(encode_spans([span]))) for span in memory.get_finished_spans()]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "traces.jsonl"
        file.write_text("\n".join(spans), encoding="utf-8")
        return [sorted(called) for called in mined_tasks().called_in_traces(file)]


@cache
def _span_memory() -> Any:
    """Where the spans of this process go: it has one tracer provider, and frameworks ask for it once."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    memory = InMemorySpanExporter()
    provider: Any = trace.get_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return memory
