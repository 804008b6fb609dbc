"""The span table: the one schema that every reader writes and every engine mines.

A span is one step of an agent, as tracers record it. A reader of a trace format turns its records into `Span` values;
from there on nothing knows which tracer they came from. As a table, one row a span, it is Parquet with the columns of
`COLUMNS`, so that one machine and a cluster read the same files.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from camdf.policies.linear import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

Kind: TypeAlias = Literal["agent", "model", "tool", "other"]


@dataclass(frozen=True, slots=True)
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
    """What several runs share: a thread, a session."""

    start: int | None = None
    """Nanoseconds since 1970, as `end`."""

    end: int | None = None
    error: str = ""
    """The type of the error where the step failed."""

    text: str = ""
    """The task, where the tracer records messages: what the user asked last."""

    offered: tuple[str, ...] = ()
    """model: the tools of the request, in their order."""

    requested: tuple[str, ...] = ()
    """model: the tools that its answer calls."""

    call_id: str = ""
    """tool: which call of the model's this executes, so that retries of one call can be told from two calls."""

    ranked: tuple[str, ...] = ()
    """The candidates of a gate's decision, best first, from the `camdf.decision` event; with `scores`."""

    scores: tuple[float, ...] = ()
    explored: bool | None = None
    """Whether the gate let this task see every tool."""

    success: bool | None = None
    """agent: the outcome, where an evaluation or feedback says it."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


COLUMNS: dict[str, str] = {
    "trace_id": "text",
    "span_id": "text",
    "parent_id": "text",
    "kind": "text",
    "name": "text",
    "conversation": "text",
    "start": "whole",
    "end": "whole",
    "error": "text",
    "text": "text",
    "offered": "texts",
    "requested": "texts",
    "call_id": "text",
    "ranked": "texts",
    "scores": "numbers",
    "explored": "truth",
    "success": "truth",
    "input_tokens": "whole",
    "cached_tokens": "whole",
    "output_tokens": "whole",
}
"""The fields of Span as columns: text, texts, whole (64 bits), numbers (64-bit floats), truth."""


def arrow_schema() -> pa.Schema:
    """The table's schema for Parquet."""
    arrow = _pyarrow()
    types = {
        "text": arrow.string(),
        "texts": arrow.list_(arrow.string()),
        "whole": arrow.int64(),
        "numbers": arrow.list_(arrow.float64()),
        "truth": arrow.bool_(),
    }
    return arrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def arrow_table(spans: list[Span]) -> pa.Table:
    """Some spans as an Arrow table."""
    columns = {field.name: [getattr(span, field.name) for span in spans] for field in fields(Span)}
    return _pyarrow().table(columns, schema=arrow_schema())


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("Span tables are Parquet. Install: pip install 'camdf[mining]'") from error
    return pyarrow
