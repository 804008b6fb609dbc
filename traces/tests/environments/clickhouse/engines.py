"""A served engine, the databases that tests put there, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from camdf_traces.readers import read_spans
from camdf_traces.readers.clickhouse import DaysOfSpans
from camdf_traces.readers.clickhouse_sql import quoted_name
from camdf_traces.span_files import span_tables
from camdf_traces.spans import Span
from camdf_traces.tasks import mine
from collector import OTEL_TRACES, inserted, rows_of

PASSWORD = "zanzibar-4711"
DAY = date(2026, 11, 14)
NOON = 1794657600 * 10**9
"""Of that day, in nanoseconds."""


@dataclass
class Engine:
    """A served engine, and a client of it for what tests put there."""

    port: int
    client: Any

    def url(self, database: str, more: str = "") -> str:
        return f"clickhouse://reader@127.0.0.1:{self.port}/{database}{more}"

    def database(self, name: str, *tables: str) -> None:
        self.client.command(f"DROP DATABASE IF EXISTS {quoted_name(name)}")
        self.client.command(f"CREATE DATABASE {quoted_name(name)}")
        for table in tables:
            self.client.command(table.replace("{database}", quoted_name(name)))

    def otel(self, name: str, documents: Iterable[dict[str, Any]], table: str = "otel_traces") -> str:
        """A new database with the spans of some documents of OTLP; its URL."""
        self.database(name, OTEL_TRACES.replace("{table}", quoted_name(table)))
        rows = [row for document in documents for row in rows_of(document)]
        self.client.command(inserted(f"{quoted_name(name)}.{quoted_name(table)}", rows))
        return self.url(name)


def written(folder: Path, documents: Iterable[Any]) -> Path:
    file = folder / "traces.jsonl"
    file.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    return file


def spans(place: str | Path, with_text: bool = True) -> list[Span]:
    reading = read_spans(place, with_text=with_text)
    found = sorted(reading, key=lambda span: (span.trace_id, span.span_id, span.start or 0))
    assert not reading.report.skipped, reading.report
    return found


def tasks(place: str | Path, with_text: bool = False) -> list[dict[str, Any]]:
    with span_tables(place, with_text=with_text) as tables:
        return mine(tables, with_text=with_text).tasks.to_dicts()


def sent(url: str, with_text: bool) -> str:
    """All that the database sends, as text."""
    source = DaysOfSpans(url, with_text)
    batches = []
    for name in source.find(""):
        with source.open(name) as stream:
            batches += [batch.to_pylist() for batch in pa.ipc.open_stream(stream)]
    return str(batches)
