"""Trace files to spans, one at a time, and the report on what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from camdf.errors import CamdfError, UsageError
from camdf_traces.readers.files import Place, TraceFile, records_of, trace_files
from camdf_traces.readers.formats import FORMATS, Reader, guess
from camdf_traces.readers.values import Unreadable
from camdf_traces.spans import Span

REASONS_KEPT = 5


@dataclass(frozen=True)
class Skipped:
    """A record that gave no span, or a file that could not be read to its end, where there is no line."""

    file: TraceFile
    line: int | None
    why: str

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.file.lines_before() + self.line}"
        return f"{self.file.name}{line}: {self.why}"


@dataclass
class ReadingReport:
    """The counts of a reading. Reasons hold file names and line numbers, never anything of a record."""

    records: int = 0
    """Lines, rows or documents."""

    spans: int = 0
    skipped: int = 0
    """Records, or parts of records, that gave no span."""

    passed_over: list[str] = field(default_factory=list)
    """The names of files that no reader takes."""

    first: list[Skipped] = field(default_factory=list)
    """The first few that were skipped."""

    @property
    def reasons(self) -> list[str]:
        """Why the first few of these were skipped."""
        return list(map(str, self.first))

    def skip(self, skipped: Skipped) -> None:
        """Count one, and keep the reason if it is one of the first few."""
        self.skipped += 1
        self.first = [*self.first, skipped][:REASONS_KEPT]

    def add(self, later: ReadingReport) -> None:
        """Count what was read after this too."""
        self.records += later.records
        self.spans += later.spans
        self.skipped += later.skipped
        self.passed_over += later.passed_over
        self.first = [*self.first, *later.first][:REASONS_KEPT]

    def __str__(self) -> str:
        counts = f"{self.records:,} records gave {self.spans:,} spans; {self.skipped:,} could not be read."
        lines = [counts, *self.reasons]
        if self.passed_over:
            some = ", ".join(self.passed_over[:REASONS_KEPT])
            if len(self.passed_over) > REASONS_KEPT:
                some += ", ..."
            lines.append(f"{len(self.passed_over):,} other files were passed over, by their names: {some}")
        return "\n".join(lines)


class Reading(Iterator[Span]):
    """The spans of some files, one at a time, and the `report` that grows with them."""

    def __init__(
        self, files: Sequence[TraceFile], passed_over: Sequence[str], format: str | None, with_text: bool
    ) -> None:
        self.report = ReadingReport(passed_over=list(passed_over))
        self._with_text = with_text
        self._spans = self._spans_of_files(files, format)

    def __next__(self) -> Span:
        return next(self._spans)

    def _spans_of_files(self, files: Sequence[TraceFile], format: str | None) -> Iterator[Span]:
        for file in files:
            try:
                for number, record in records_of(file):
                    self.report.records += 1
                    yield from self._spans_of_record(record, format, file, number)
            except CamdfError:  # a package is missing, a database broke off
                raise
            except Exception as error:  # a truncated archive, a broken table
                why = f"the rest of the file is not readable ({type(error).__name__})"
                self.report.skip(Skipped(file, None, why))

    def _spans_of_record(self, record: Any, format: str | None, file: TraceFile, number: int) -> Iterator[Span]:
        try:
            reader = _reader_of(record, format)
            parts = list(reader.parts(record))
        except Exception as error:
            self.report.skip(Skipped(file, number, _why_skipped(error)))
            return
        for part in parts:
            try:
                span = reader.span(part, self._with_text)
            except Exception as error:  # whatever a record does to a reader must not end the reading
                self.report.skip(Skipped(file, number, _why_skipped(error)))
            else:
                self.report.spans += 1
                yield span


def read_spans(path: Place, format: str | None = None, *, with_text: bool = True) -> Reading:
    """The spans of a trace file, or of all trace files below a folder, of this machine or behind a URL.

    Files end in .json, .jsonl, .ndjson, .binpb, .pb or .parquet; behind all but the last may stand .gz, .bz2 or .zst. A
    URL is any that fsspec opens, as s3://bucket/traces, with the package that it needs for that.

    `format` is one of `FORMATS`. Without it the format of each record is found from its keys, so a folder may hold
    several. Each record is read by itself, so neither the order of lines nor their split into files matters. Records
    that cannot be read are counted in `.report` and passed over. Without `with_text` what the user asked is not even
    looked at.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(
            f"The 'format' parameter of read_spans must be one of {sorted(FORMATS)}. Got {format!r} instead."
        )
    return Reading(*trace_files(path, with_text), format, with_text)


def _reader_of(record: Any, format: str | None) -> Reader:
    if isinstance(record, Unreadable):
        raise record
    name = format or guess(record)
    if not name:
        raise Unreadable("no known trace format")
    return FORMATS[name]


def _why_skipped(error: Exception) -> str:
    """A reason in our own words, or the type of an error alone: its message may quote the record."""
    return str(error) if isinstance(error, Unreadable) else type(error).__name__
