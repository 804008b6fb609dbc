"""The span table: the one schema that every reader writes and every engine mines.

A span is one step of an agent, as tracers record it. A reader of a trace format turns its records into `Span` values;
after that nothing depends on the tracer. As a table, one row a span, it is Parquet with the columns of `SPAN_COLUMNS`,
so that one machine and a cluster read the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from camdf.errors import require

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Kind: TypeAlias = Literal["agent", "model", "tool", "other"]

NANOSECONDS_A_DAY = 86_400_000_000_000


@dataclass(slots=True, unsafe_hash=True)  # not to be changed, but freezing each of millions takes as long as reading it
class Span:
    """One step. Text is "" and a list is () where the tracer recorded nothing; a number or truth is then None."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    kind: Kind = "other"
    """agent: a run that owns the steps below it. model: one call of a language model. tool: one tool executed."""

    name: str = ""
    """The tool of a tool span, the agent of an agent span, the model of a model span."""

    conversation: str = ""
    """The thread or session that several runs share."""

    user: str = ""
    """Whom the run was for, where the tracer records it."""

    service: str = ""
    """The program that recorded the step: OpenTelemetry's `service.name`."""

    start: int | None = None
    """Nanoseconds since 1970, as `end`."""

    end: int | None = None
    error: str = ""
    """The type of the error where the step failed."""

    text: str = ""
    """The task, where the tracer records messages: the user's last request."""

    offered: tuple[str, ...] = ()
    """model: the tools of the request, in their order. agent: the tools that it has."""

    requested: tuple[str, ...] = ()
    """model: the tools that its answer calls."""

    request_ids: tuple[str, ...] = ()
    """model: the ids of these calls, in the same order; empty where the tracer records none."""

    continues: bool | None = None
    """model: whether its request ends with the result of a tool, and not with a user's words."""

    call_id: str = ""
    """tool: which of the model's calls it executes. Retries of one call share it; two calls do not."""

    ranked: tuple[str, ...] = ()
    """The candidates of a gate's decision, best first, from the `camdf.decision` event; with `scores`."""

    scores: tuple[float, ...] = ()
    explored: bool | None = None
    """Whether the gate showed every tool to this task."""

    success: bool | None = None
    """The outcome, where an evaluation or feedback names one."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


SPAN_COLUMNS: dict[str, str] = {
    "trace_id": "text",
    "span_id": "text",
    "parent_id": "text",
    "kind": "text",
    "name": "text",
    "conversation": "text",
    "user": "text",
    "service": "text",
    "start": "whole",
    "end": "whole",
    "error": "text",
    "text": "text",
    "offered": "texts",
    "requested": "texts",
    "request_ids": "texts",
    "continues": "truth",
    "call_id": "text",
    "ranked": "texts",
    "scores": "numbers",
    "explored": "truth",
    "success": "truth",
    "input_tokens": "whole",
    "cached_tokens": "whole",
    "output_tokens": "whole",
}
"""The fields of Span as columns. A column holds text, texts, whole (64 bits), numbers (64-bit floats) or truth."""


def arrow_schema(columns: Mapping[str, str] = SPAN_COLUMNS) -> pa.Schema:
    """The schema of such columns in Parquet and Arrow: that of the span table by default."""
    arrow = require("pyarrow", "mining")
    types = {
        "text": arrow.string(),
        "texts": arrow.list_(arrow.string()),
        "whole": arrow.int64(),
        "numbers": arrow.list_(arrow.float64()),
        "truth": arrow.bool_(),
    }
    return arrow.schema([(name, types[kind]) for name, kind in columns.items()])


def arrow_table(spans: list[Span]) -> pa.Table:
    """Some spans as an Arrow table."""
    columns = {field.name: list(map(attrgetter(field.name), spans)) for field in fields(Span)}
    return require("pyarrow", "mining").table(columns, schema=arrow_schema())


def arrow_of(rows: pl.DataFrame, columns: Mapping[str, str]) -> pa.Table:
    """Rows of Polars with such columns as an Arrow table that any writer of Arrow can write.

    They go through Polars' own writer, not its `to_arrow`: before 2.0 that hands over a column of empty lists as a
    piece beyond the end of its memory, and Arrow then writes a length below zero, or the columns after it wrongly.
    """
    written = BytesIO()
    rows.write_ipc_stream(written, compat_level=require("polars", "mining").CompatLevel.oldest())
    table: pa.Table = require("pyarrow.ipc", "mining").open_stream(written.getbuffer()).read_all()
    return table.cast(arrow_schema(columns))


def polars_types() -> dict[str, Any]:
    """The type that Polars has for each sort of column."""
    polars = require("polars", "mining")
    return {
        "text": polars.String,
        "texts": polars.List(polars.String),
        "whole": polars.Int64,
        "numbers": polars.List(polars.Float64),
        "truth": polars.Boolean,
    }


def no_rows(columns: Mapping[str, str]) -> pl.DataFrame:
    """No rows, with these columns."""
    polars = require("polars", "mining")
    types = polars_types()
    none: pl.DataFrame = polars.DataFrame(schema={name: types[kind] for name, kind in columns.items()})
    return none


def without_nulls(rows: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Rows whose texts are "" where they are missing, as those are that a file of an older version lacks."""
    polars = require("polars", "mining")
    return rows.with_columns(polars.col(name).fill_null("") for name, kind in columns.items() if kind == "text")


def day_of(column: str) -> pl.Expr:
    """The day in UTC of nanoseconds since 1970, as 2026-11-14."""
    polars = require("polars", "mining")
    days = polars.col(column).floordiv(NANOSECONDS_A_DAY).cast(polars.Int32).cast(polars.Date)
    day: pl.Expr = days.dt.to_string("%Y-%m-%d")
    return day
