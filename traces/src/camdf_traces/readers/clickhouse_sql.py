"""What is asked of ClickHouse: a statement for each shape of table that holds spans, cut to what a reader looks at.

The rows are those that a reader takes from Parquet of the same table, without what it would pass over: attributes by
keys that no convention names, all but the last message of a request where no text is wanted, answers of tools that say
nothing of an error. So the spans are the same, and the readers alone say what a span means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from camdf.errors import DataError
from camdf.gate.telemetry import EVENT
from camdf_traces.readers.langfuse import KINDS, OBSERVATION_TYPES
from camdf_traces.readers.messages import RESULT
from camdf_traces.readers.names import DECISION, EVENTS, LANGFUSE
from camdf_traces.readers.otlp import ASKED, OTHER_CONVENTIONS, ROLES, TEXT, WITH_TEXT, WITHOUT_TEXT
from camdf_traces.readers.values import Fields

ANSWERS = ("gen_ai.tool.call.result", "tool_response")
"""The attributes with what a tool answered: they matter where they are objects, which may tell of an error."""

OBJECT = r"^\s*\{"

RESULT_LAST = '"role": "tool"'
WORDS_LAST = '"role": "user"'
"""What stands for all messages of a request where no text is wanted: who wrote the last one."""

OF_LANGCHAIN = ("lc_agent_name", "langgraph_node")
METADATA = [name.removeprefix("metadata.") for names in LANGFUSE.values() for name in names if "metadata." in name]
KEPT_METADATA = Fields({**DECISION, **{name: (name,) for name in (*OF_LANGCHAIN, *METADATA)}}).keys
"""What a reader looks at in the metadata of Langfuse's observations."""


@dataclass(frozen=True)
class Shape:
    """A sort of table with spans: its usual name, the column with the time, and what each column must be."""

    table: str
    time: str
    types: Mapping[str, str]
    """The columns that must be there, and how their types begin."""


ANY_TEXT = "String"
TIME = "DateTime64"

OTEL = Shape(
    "otel_traces",
    "Timestamp",
    {
        "Timestamp": TIME,
        "TraceId": ANY_TEXT,
        "SpanId": ANY_TEXT,
        "ParentSpanId": ANY_TEXT,
        "SpanName": ANY_TEXT,
        "ServiceName": ANY_TEXT,
        "SpanAttributes": "Map",
        "Duration": "Int64 or UInt64",
        "StatusCode": ANY_TEXT,
        "Events.Name": "Array",
        "Events.Attributes": "Array(Map",
    },
)
"""The Collector's ClickHouse exporter; with `json: true` its columns are others."""

_OF_LANGFUSE = {
    "project_id": ANY_TEXT,
    "trace_id": ANY_TEXT,
    "start_time": TIME,
    "end_time": TIME,
    "type": ANY_TEXT,
    "name": ANY_TEXT,
    "level": ANY_TEXT,
    "input": ANY_TEXT,
    "output": ANY_TEXT,
    "provided_model_name": ANY_TEXT,
    "usage_details": "Map",
    "is_deleted": "UInt8",
}
_TOOLS = {"tool_definitions": "Map", "tool_call_names": "Array"}
_OF_EVENTS = {
    **_OF_LANGFUSE,
    **_TOOLS,
    "span_id": ANY_TEXT,
    "parent_span_id": ANY_TEXT,
    "session_id": ANY_TEXT,
    "user_id": ANY_TEXT,
    "service_name": ANY_TEXT,
    "metadata_names": "Array",
    "metadata_values": "Array",
}

OBSERVATIONS = Shape(
    "observations",
    "start_time",
    {**_OF_LANGFUSE, "id": ANY_TEXT, "parent_observation_id": ANY_TEXT, "metadata": "Map"},
)
"""Langfuse until version 3; the two columns of its tools came later, and are read where they are there."""

SHAPES = (
    OTEL,
    Shape("events_full", "start_time", _OF_EVENTS),
    Shape("events_core", "start_time", _OF_EVENTS),
    OBSERVATIONS,
)
"""In the order in which they are looked for. Langfuse's `events_core` has 200 characters of each text."""


def shape_of(table: str, columns: Mapping[str, str]) -> Shape:
    """The shape of a table by its columns; raises where it has none, or where a column is of another type."""
    shape = max(SHAPES, key=lambda known: (known.table == table, len(known.types.keys() & columns.keys())))
    missing = [name for name in shape.types if name not in columns]
    if missing:
        raise DataError(
            f"The table {table} must have the columns of {_alternatives(known.table for known in SHAPES)}. Of "
            f"{shape.table} it lacks {', '.join(missing[:3])}. Name another with ?table=NAME."
        )
    for name, wanted in shape.types.items():
        if not bare_type(columns[name]).startswith(tuple(wanted.split(" or "))):
            raise DataError(
                f"The column {name} of {table} must be {wanted.replace('(', ' of ')}, and is {columns[name]}. Name "
                "a view that has it with ?table=NAME; the exporter makes maps with json: false."
            )
    return shape


def bare_type(written: str) -> str:
    """A type without what ClickHouse wraps around it."""
    for wrapping in ("LowCardinality(", "Nullable("):
        written = written.replace(wrapping, "")
    return written.replace("SimpleAggregateFunction(any, ", "")


def days_of(shape: Shape, table: str, project: str) -> str:
    """How many rows each day in UTC has, of those within the window."""
    return (
        f"SELECT toDate(o.{shape.time}, 'UTC') AS day, count() AS rows\nFROM {table} AS o\n"
        f"WHERE {_within(shape, project)}\nGROUP BY day ORDER BY day"
    )


def spans_of(
    shape: Shape, database: str, table: str, columns: Mapping[str, str], with_text: bool, project: str = ""
) -> str:
    """The rows of a window, as far as a reader looks at them."""
    if shape is OTEL:
        return _otel(table, with_text)
    own = _observation if shape is OBSERVATIONS else _event
    return _langfuse(shape, database, table, {**own(), **_shared(columns, with_text)}, project)


def _otel(table: str, with_text: bool) -> str:
    plain = ("TraceId", "SpanId", "ParentSpanId", "Timestamp", "Duration", "StatusCode")
    read = {name: f"o.{name}" for name in plain}
    read |= {name: f"toValidUTF8(o.{name})" for name in ("SpanName", "ServiceName")}
    kept = EVENTS if with_text else [name for name in EVENTS if name != "gen_ai.user.message"]
    is_kept = f"name IN ({_list(kept)})"
    marks = f"hasAny(mapKeys(o.SpanAttributes), [{_list(sorted(OTHER_CONVENTIONS))}])"
    other = f"{marks} OR o.SpanName = {_text(EVENT)}"
    read["SpanAttributes"] = _attributes("o.SpanAttributes", with_text)
    read["Events.Name"] = f"arrayFilter(name -> {is_kept}, o.`Events.Name`)"
    told = f"arrayFilter((told, name) -> {is_kept}, o.`Events.Attributes`, o.`Events.Name`)"
    shown = "k != 'exception.stacktrace' AND (other OR k != 'exception.message')"
    read["Events.Attributes"] = f"arrayMap(told -> {_cut('told', shown, _value(with_text))}, {told})"
    return f"WITH {other} AS other\n{_statement(read, f'{table} AS o', _within(OTEL, ''))}"


def _attributes(column: str, with_text: bool) -> str:
    """The attributes that the conventions name; all of them where another than GenAI's may hold."""
    named = WITH_TEXT if with_text else (*WITHOUT_TEXT, *TEXT)
    return _cut(column, f"other OR k IN ({_list(named)})", _value(with_text))


def _value(with_text: bool) -> str:
    """A value as far as it is read: of an answer that is no object one character, of messages who wrote the last."""
    cuts = ["other, v", f"k IN ({_list(ANSWERS)}) AND NOT match(v, {_text(OBJECT)}), substringUTF8(v, 1, 1)"]
    if not with_text:
        tells_who = " OR ".join(f"endsWith(k, {_text(end)})" for end in ROLES)
        asked = f"k IN ({_list(TEXT)})"
        role = _text('"role"')
        last = f"concat({role}, arrayElement(splitByString({role}, v), -1))"
        cuts = [
            f"other AND startsWith(k, {_text(ASKED)}) AND NOT ({tells_who}), ''",
            *cuts,
            f"{asked} AND position(v, {role}) = 0, if(v = '', '', '-')",
            f"{asked}, if(match({last}, {_text(RESULT.pattern)}), {_text(RESULT_LAST)}, {_text(WORDS_LAST)})",
        ]
    return f"multiIf({', '.join(cuts)}, v)"


def _cut(column: str, key_is_kept: str, value: str) -> str:
    """A map of some of its keys, each value cut to what is read."""
    return f"mapApply((k, v) -> (k, toValidUTF8({value})), mapFilter((k, v) -> {key_is_kept}, {column}))"


def _observation() -> dict[str, str]:
    """The columns that only `observations` has, and those of its trace."""
    return {
        "id": "o.id",
        "parent_observation_id": "o.parent_observation_id",
        "session_id": "t.session_id",
        "user_id": "t.user_id",
        "metadata": _cut("o.metadata", f"k IN ({_list(KEPT_METADATA)})", "v"),
    }


def _event() -> dict[str, str]:
    """The columns that only the tables of events have, by the names that the export gives them."""
    metadata = "mapFromArrays(o.metadata_names, o.metadata_values)"
    return {
        "id": "o.span_id",
        "parent_observation_id": "o.parent_span_id",
        "session_id": "o.session_id",
        "user_id": "o.user_id",
        "service_name": "o.service_name",
        "metadata": _cut(metadata, f"k IN ({_list(KEPT_METADATA)})", "v"),
    }


def _shared(columns: Mapping[str, str], with_text: bool) -> dict[str, str]:
    """The columns that all of Langfuse's tables have; texts only of those steps where a reader looks at them."""
    plain = ("trace_id", "start_time", "end_time", "type", "level", "provided_model_name", "usage_details")
    read = {name: f"o.{name}" for name in plain} | {"name": "toValidUTF8(o.name)"}
    kinds = sorted(kind for kind, sort in KINDS.items() if sort != "agent" or with_text)
    for name, looked_at in (("input", kinds), ("output", ("GENERATION", "TOOL"))):
        read[name] = f"if(upper(o.type) IN ({_list(looked_at)}), toValidUTF8(o.{name}), '')"
    if _TOOLS.keys() <= columns.keys():
        read |= {"tool_definitions": "mapKeys(o.tool_definitions)", "tool_call_names": "o.tool_call_names"}
    return read


def _langfuse(shape: Shape, database: str, table: str, read: Mapping[str, str], project: str) -> str:
    """Observations with the session and the user of their trace, and all scores of it, whenever they were given."""
    of_project = " AND project_id = {project:String}" if project else ""
    begun = "timestamp >= {since:DateTime64(9, 'UTC')} - toIntervalDay(1)"
    joins = []
    if shape is OBSERVATIONS:
        joins.append(
            f"LEFT JOIN (SELECT id, project_id, session_id, user_id FROM {database}.traces FINAL\n"
            f"  WHERE {begun} AND timestamp < {{until:DateTime64(9, 'UTC')}} + toIntervalDay(1){of_project}) AS t\n"
            "  ON t.id = o.trace_id AND t.project_id = o.project_id"
        )
    given = "Tuple(name String, value Float64, string_value Nullable(String), observation_id Nullable(String))"
    joins.append(
        "LEFT JOIN (SELECT assumeNotNull(trace_id) AS trace, project_id,\n"
        f"  groupArray(CAST((name, value, string_value, observation_id), '{given}')) AS scores\n"
        f"  FROM {database}.scores FINAL WHERE {begun} AND trace_id IS NOT NULL{of_project}\n"
        "  GROUP BY trace, project_id) AS s\n"
        "  ON s.trace = o.trace_id AND s.project_id = o.project_id"
    )
    joined = "\n".join([f"{table} AS o FINAL", *joins])
    is_known = f"upper(o.type) IN ({_list(sorted(OBSERVATION_TYPES))})"
    return _statement({**read, "scores": "s.scores"}, joined, f"{_within(shape, project)} AND {is_known}")


def _within(shape: Shape, project: str) -> str:
    """The rows of a window; what Langfuse has deleted stays out."""
    conditions = [
        f"o.{shape.time} >= {{since:DateTime64(9, 'UTC')}}",
        f"o.{shape.time} < {{until:DateTime64(9, 'UTC')}}",
    ]
    if "is_deleted" in shape.types:
        conditions.append("o.is_deleted = 0")
    if project:
        conditions.append("o.project_id = {project:String}")
    return " AND ".join(conditions)


def _statement(read: Mapping[str, str], joined: str, where: str) -> str:
    columns = ",\n  ".join(f"{value} AS {quoted_name(name)}" for name, value in read.items())
    return f"SELECT\n  {columns}\nFROM {joined}\nWHERE {where}"


def quoted_name(name: str) -> str:
    """A name of a table, of a database or of a column, whatever is in it."""
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _list(values: Iterable[str]) -> str:
    return ", ".join(map(_text, values))


def _alternatives(names: Iterable[str]) -> str:
    *some, last = names
    return f"{', '.join(some)} or {last}"
