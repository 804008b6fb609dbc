"""Readers: traces of any tracer become spans of one table. `read_spans` is all that is needed from here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from camdf.datasets.records import DataError
from camdf.mining.readers import langfuse, langsmith, mlflow, otel, plain
from camdf.mining.readers.files import records, trace_files
from camdf.mining.readers.values import Unreadable, mapping, text
from camdf.mining.spans import COLUMNS, Span
from camdf.policies.linear import MissingExtraError


class Reader(Protocol):
    """A trace format: the records inside of a record, and one of these as a span."""

    def parts(self, record: Any) -> Iterator[Any]:
        """What the record holds, each to be read by itself."""

    def span(self, part: Any) -> Span:
        """One part as a span; raises where it is none."""


FORMATS: dict[str, Reader] = {
    "otel": otel,
    "openinference": otel,
    "langsmith": langsmith,
    "langfuse": langfuse,
    "mlflow": mlflow,
    "plain": plain,
}
"""OpenInference spans are OpenTelemetry spans with attributes of their own, so one reader sees to both."""


@dataclass
class Report:
    """What was read and what was not. Reasons hold file names and line numbers, never anything of a record."""

    records: int = 0
    """Lines, rows or documents."""

    spans: int = 0
    skipped: int = 0
    """Records, or parts of records, that gave no span."""

    reasons: list[str] = field(default_factory=list)
    """Why, of the first few."""

    def skip(self, where: str, why: str) -> None:
        """Count one and keep the reason of the first few."""
        self.skipped += 1
        if len(self.reasons) < 5:
            self.reasons.append(f"{where}: {why}")

    def __str__(self) -> str:
        told = f"{self.records:,} records gave {self.spans:,} spans; {self.skipped:,} could not be read."
        return "\n".join([told, *self.reasons])


class Reading(Iterator[Span]):
    """The spans of a file or folder, one at a time, and the `report` that grows with them."""

    def __init__(self, path: Path, format: str | None) -> None:
        self.report = Report()
        self._spans = self._read(trace_files(path), format)

    def __next__(self) -> Span:
        return next(self._spans)

    def _read(self, files: list[Path], format: str | None) -> Iterator[Span]:
        for file in files:
            try:
                for number, record in records(file):
                    self.report.records += 1
                    yield from self._spans_of(record, format, f"{file.name}:{number}")
            except MissingExtraError:
                raise
            except Exception as error:  # a truncated archive, a broken table
                self.report.skip(file.name, f"the rest of the file is not readable ({type(error).__name__})")

    def _spans_of(self, record: Any, format: str | None, where: str) -> Iterator[Span]:
        try:
            reader = _reader(record, format)
            found = list(reader.parts(record))
        except Exception as error:
            self.report.skip(where, _why(error))
            return
        for part in found:
            try:
                span = reader.span(part)
            except Exception as error:  # whatever a record does to a reader must not end the reading
                self.report.skip(where, _why(error))
            else:
                self.report.spans += 1
                yield span


def _reader(record: Any, format: str | None) -> Reader:
    if isinstance(record, Unreadable):
        raise record
    name = format or guess(record)
    if not name:
        raise Unreadable("no known trace format")
    return FORMATS[name]


def _why(error: Exception) -> str:
    """In our own words, or the type of an error alone: its message may hold the record's."""
    return str(error) if isinstance(error, Unreadable) else type(error).__name__


def read_spans(path: str | Path, format: str | None = None) -> Reading:
    """The spans of a trace file, or of all trace files below a folder: .json, .jsonl, .ndjson, .parquet, also gzipped.

    `format` is one of `FORMATS`; without it every record is looked at, so a folder may hold several. Each record is
    read by itself, so neither the order of lines nor their split into files matters. What cannot be read is counted in
    `.report` and passed over.
    """
    if format is not None and format not in FORMATS:
        raise DataError(
            f"The 'format' parameter of read_spans must be one of {sorted(FORMATS)}. Got {format!r} instead."
        )
    return Reading(Path(path), format)


def guess(record: Any) -> str:
    """The format of a record by the keys that only it has; "" where none is known."""
    if isinstance(record, list):
        return next(filter(None, map(guess, record[:10])), "")
    found = mapping(record)
    if found.keys() & {"resourceSpans", "resource_spans", "scopeSpans", "scope_spans"}:
        return "otel"
    if "run_type" in found or isinstance(found.get("runs"), list):
        return "langsmith"
    if "observations" in found or (
        found.keys() & {"traceId", "trace_id"} and text(found.get("type")).upper() in langfuse.TYPES
    ):
        return "langfuse"
    if "info" in found and found.keys() & {"data", "spans"}:
        return "mlflow"
    if found.keys() >= {"trace_id", "span_id", "kind"} and found.keys() <= COLUMNS.keys():
        return "plain"
    if found.keys() & {"spanId", "span_id", "SpanId", "context", "context.span_id"}:
        return "otel"
    inner = found.get("data") or found.get("spans")
    return guess(inner) if isinstance(inner, list) else ""
