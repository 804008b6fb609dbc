"""LangSmith runs, as its API, its SDK and its bulk export give them: a dict a run, or a row of Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from camdf.mining.readers.messages import asked, requested, tool_names
from camdf.mining.readers.names import LANGSMITH
from camdf.mining.readers.values import decision, error_type, listed, lookup, mapping, nanoseconds, outcome, text
from camdf.mining.readers.values import span as checked
from camdf.mining.spans import Span

KINDS = {"llm": "model", "tool": "tool"}
MILLISECOND = 1_000_000


def parts(record: Any) -> Iterator[Any]:
    """Runs: of a list, of a page of the API, and the children that a run may hold."""
    if isinstance(record, list):
        for each in record:
            yield from parts(each)
        return
    found = mapping(record)
    if isinstance(found.get("runs"), list):
        yield from parts(found["runs"])
        return
    yield record
    for child in listed(found.get("child_runs")):
        yield from parts(child)


def span(part: Any) -> Span:
    """One run."""
    record = mapping(part)
    found = {column: lookup(record, LANGSMITH, column) for column in LANGSMITH}
    kind = KINDS.get(text(found["kind"])) or ("agent" if _is_agent(record) else "other")
    model = kind == "model"
    spent = {name: found[name] if model else None for name in ("input_tokens", "cached_tokens", "output_tokens")}
    return checked(
        trace_id=found["trace_id"] or found["span_id"],
        span_id=found["span_id"],
        parent_id=found["parent_id"],
        kind=kind,
        name=(text(found["model"]) if model else "") or found["name"],
        conversation=found["conversation"],
        start=nanoseconds(found["start"], MILLISECOND),
        end=nanoseconds(found["end"], MILLISECOND),
        error=error_type(found["error"]) or _told_error(record, kind),
        text=asked(found["text"]) if kind in ("agent", "model") else "",
        offered=tool_names(found["offered"]) if model else (),
        requested=requested(found["requested"]) if model else (),
        call_id=found["call_id"] if kind == "tool" else "",
        success=outcome((name, mapping(told).get("avg")) for name, told in mapping(found["success"]).items()),
        **decision([mapping(mapping(record.get("extra")).get("metadata"))]),
        **spent,
    )


def _is_agent(record: dict[str, Any]) -> bool:
    """The top of a trace, or a chain below it that LangChain made for an agent: its name is the agent's."""
    metadata = mapping(mapping(record.get("extra")).get("metadata"))
    name = record.get("name")
    return not lookup(record, LANGSMITH, "parent_id") or name in (metadata.get("lc_agent_name"), "AgentExecutor")


def _told_error(record: dict[str, Any], kind: str) -> str:
    """A tool whose error was handed to the model as its message ends without one of its own."""
    told = mapping(mapping(record.get("outputs")).get("output"))
    failed = record.get("status") == "error" or (kind == "tool" and told.get("status") == "error")
    return "error" if failed else ""
