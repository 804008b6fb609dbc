"""The tracers of the matrix, each as an operator sets it up, with its export caught on loopback or on the disk."""

from __future__ import annotations

import gzip
import json
import os
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

BATCHES = {
    "use_multipart_endpoint": False,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_nthreads_limit": 1,
    "scale_up_qsize_trigger": 1000,
    "scale_down_nempty_trigger": 4,
}
"""How a server of LangSmith wants its runs: here in plain JSON."""


class Spans:
    """A tracer provider whose spans stay in memory until they are written as OTLP, one document a line."""

    def __init__(self, *before: Any) -> None:
        self.memory, self.provider = InMemorySpanExporter(), TracerProvider()
        for processor in before:
            self.provider.add_span_processor(processor)
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))

    def write(self, file: Path) -> None:
        spans = self.memory.get_finished_spans()
        file.write_text("\n".join(json.dumps(MessageToDict(encode_spans([span]))) for span in spans))


class Received:
    """A server on loopback that keeps what tracers post: OTLP, and the runs of LangSmith."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _receiver(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def write_otlp(self, file: Path) -> None:
        documents = [ExportTraceServiceRequest.FromString(body) for path, body in self.posts if path.endswith("traces")]
        file.write_text("\n".join(json.dumps(MessageToDict(document)) for document in documents))

    def write_runs(self, file: Path) -> None:
        """The runs as LangSmith has them in the end: what was posted, with what was patched later."""
        runs: dict[str, dict[str, Any]] = {}
        for path, body in self.posts:
            sent = json.loads(body) if "/runs" in path else {}
            batch = [*sent.get("post", ()), *sent.get("patch", ())] if "post" in sent or "patch" in sent else [sent]
            for run in batch:
                if run.get("id"):
                    known = runs.setdefault(run["id"], {})
                    known |= {key: value for key, value in run.items() if value is not None or key not in known}
        file.write_text("\n".join(map(json.dumps, runs.values())))


def _receiver(received: Received) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            packed = self.headers.get("Content-Encoding", "")
            body = gzip.decompress(body) if packed == "gzip" else zlib.decompress(body) if packed == "deflate" else body
            received.posts.append((self.path, body))
            self._answer({})

        do_PATCH = do_POST  # noqa: N815

        def do_GET(self) -> None:  # LangSmith asks what the server can do: plain batches of JSON
            self._answer({"batch_ingest_config": BATCHES})

        def _answer(self, found: dict[str, Any]) -> None:
            data = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def instrumented(instrumentor: Any, file: Path) -> Iterator[None]:
    """Under an instrumentor of OpenTelemetry or OpenInference."""
    spans = Spans()
    instrumentor.instrument(tracer_provider=spans.provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        spans.write(file)


@contextmanager
def mlflow_autolog(flavour: str, file: Path) -> Iterator[None]:
    """Under MLflow's autologging, into a store on the disk, read back by MLflow's own search."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri((file.parent / "mlruns").as_uri())
    experiment = mlflow.set_experiment(uuid.uuid4().hex)
    autolog = getattr(mlflow, flavour).autolog
    autolog()
    try:
        yield
    finally:
        mlflow.flush_trace_async_logging()
        autolog(disable=True)
        found = mlflow.search_traces(locations=[experiment.experiment_id], return_type="list")
        file.write_text("\n".join(trace.to_json() for trace in found))


@contextmanager
def langsmith_client(file: Path) -> Iterator[Any]:
    """A client of LangSmith whose runs go to loopback."""
    from langsmith import Client

    with Received() as received:
        client = Client(api_url=received.url, api_key="none")
        try:
            yield client
        finally:
            client.flush()
            client.cleanup()
            received.write_runs(file)


@contextmanager
def langsmith_otel_client(file: Path) -> Iterator[Any]:
    """A client of LangSmith that records runs as OpenTelemetry spans and sends nothing to LangSmith."""
    from langsmith import Client

    spans = Spans()
    client = Client(tracing_mode="otel", otel_tracer_provider=spans.provider, api_key="none")
    try:
        yield client
    finally:
        client.flush()
        client.cleanup()
        spans.write(file)


LANGSMITH_CLIENTS = {"LangSmith": langsmith_client, "LangSmith OTel": langsmith_otel_client}


@contextmanager
def langsmith_spans(file: Path) -> Iterator[TracerProvider]:
    """A tracer provider whose spans LangSmith's own processor sends to loopback: its way for all but LangChain."""
    from langsmith.integrations.otel import OtelSpanProcessor

    with Received() as received:
        provider = TracerProvider()
        provider.add_span_processor(OtelSpanProcessor(api_key="none", url=received.url))
        try:
            yield provider
        finally:
            provider.shutdown()
            received.write_otlp(file)


@contextmanager
def langfuse_client(file: Path) -> Iterator[Any]:
    """A client of Langfuse whose spans go to loopback, with a tracer provider of its own."""
    from langfuse import Langfuse
    from langfuse._client.resource_manager import LangfuseResourceManager

    with Received() as received:
        provider, key = TracerProvider(), f"pk-{uuid.uuid4().hex}"
        client = Langfuse(public_key=key, secret_key="none", base_url=received.url, tracer_provider=provider)
        client.provider, client.key = provider, key
        try:
            yield client
        finally:
            client.flush()
            LangfuseResourceManager._instances.pop(key, None)
            client.shutdown()
            received.write_otlp(file)
