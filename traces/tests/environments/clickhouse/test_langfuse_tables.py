"""Spans from Langfuse's tables: those of its API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from engines import Engine, sent, spans, tasks, written

from camdf_traces.readers.clickhouse import DaysOfSpans
from collector import LANGFUSE_TABLES, inserted
from secret_traces import SECRET
from trace_records import observation

pytest_plugins = ["engine_fixture"]

PROJECT = "p'1"
ASKED = [{"role": "user", "content": "What is the weather in Bern?"}]
CALL = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
DECIDED = {"camdf.ranking.names": '["get_weather", "send_mail"]', "camdf.ranking.scores": "[0.9, 0.1]"}


def langfuse_trace(score: float = 1.0) -> dict[str, Any]:
    """A trace as Langfuse's API gives it."""
    agent = {"parentObservationId": None, "metadata": {**DECIDED, "attributes": "large", "thread_id": "no"}}
    model = {
        "input": ASKED,
        "output": {"role": "assistant", "tool_calls": [CALL]},
        "model": "some-model",
        "toolDefinitions": {"get_weather": '{"description": "w"}', "send_mail": "{}"},
        "toolCallNames": ["get_weather"],
        "usageDetails": {"input": 10, "input_cached_tokens": 3, "output": 2},
    }
    answered = {"status": "success", "type": "tool", "tool_call_id": "1"}
    steps = [
        observation("AGENT", "clerk", **agent),
        observation("GENERATION", "call", **model),
        observation("TOOL", "get_weather", input={"city": "Bern"}, output=answered, metadata={"tool_call_id": "1"}),
        observation("SPAN", "a step", input=SECRET, output=SECRET),
    ]
    scores = [
        {"name": "success", "value": score, "observationId": None},
        {"name": "outcome", "value": 1.0, "stringValue": "pass", "observationId": "AGENT-1"},
    ]
    return {"id": "trace-1", "sessionId": "thread-1", "userId": "ada", "observations": steps, "scores": scores}


def in_a_table(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


Rows: TypeAlias = dict[str, list[dict[str, Any]]]
"""Those of each table."""


def rows_of_langfuse(trace: dict[str, Any], project: str = PROJECT, version: int = 1) -> Rows:
    """The rows of Langfuse's tables for a trace of its API."""
    own = {"project_id": project, "event_ts": f"2026-11-14 00:00:0{version}", "is_deleted": 0}
    tables: Rows = {"observations": [], "traces": [], "scores": [], "events_full": []}
    for step in trace["observations"]:
        metadata = {key: in_a_table(value) for key, value in (step.get("metadata") or {}).items()}
        shared = {
            **own,
            **{name: step[name] for name in ("type", "name", "level")},
            **{name: in_a_table(step.get(name)) for name in ("input", "output")},
            "trace_id": trace["id"],
            "start_time": step["startTime"].replace("T", " ").rstrip("Z"),
            "end_time": step["endTime"].replace("T", " ").rstrip("Z"),
            "provided_model_name": step.get("model"),
            "usage_details": step.get("usageDetails", {}),
            "tool_definitions": step.get("toolDefinitions", {}),
            "tool_call_names": step.get("toolCallNames", []),
        }
        parent = step["parentObservationId"]
        tables["observations"].append(
            {**shared, "id": step["id"], "parent_observation_id": parent, "metadata": metadata}
        )
        tables["events_full"].append(
            {
                **{name: "" if value is None else value for name, value in shared.items()},
                "span_id": step["id"],
                "parent_span_id": parent or "",
                "session_id": trace["sessionId"],
                "user_id": trace["userId"],
                "metadata_names": list(metadata),
                "metadata_values": list(metadata.values()),
            }
        )
    begun = {**own, "timestamp": "2026-01-01 00:00:00"}
    tables["traces"].append({**begun, "id": trace["id"], "session_id": trace["sessionId"], "user_id": trace["userId"]})
    for number, score in enumerate(trace["scores"]):
        told = {"name": score["name"], "value": score["value"], "string_value": score.get("stringValue")}
        tables["scores"].append(
            {**begun, **told, "id": f"s{number}", "trace_id": trace["id"], "observation_id": score["observationId"]}
        )
    return tables


def put_into(engine: Engine, name: str, *found: Rows) -> None:
    for tables in found:
        for table, rows in tables.items():
            if rows:
                engine.client.command(inserted(f"`{name}`.{table}", rows))


@pytest.mark.parametrize("table", ["observations", "events_full"])
def test_langfuse_tables_give_the_spans_of_its_api(table: str, engine: Engine, tmp_path: Path) -> None:
    """The last version of what was written twice, and nothing that was deleted or is of another project."""
    engine.database("langfuse", *LANGFUSE_TABLES.values())
    trace, before = langfuse_trace(), langfuse_trace(score=0.0)
    put_into(engine, "langfuse", rows_of_langfuse(before), rows_of_langfuse(trace, version=2))
    put_into(engine, "langfuse", rows_of_langfuse(before, project="another"))
    gone = {**before, "observations": [observation("TOOL", "gone", id="gone")], "scores": []}
    for version in (1, 2):
        rows = rows_of_langfuse(gone, version=version)
        steps = {name: rows[name] for name in ("observations", "events_full")}
        put_into(
            engine,
            "langfuse",
            {name: [{**row, "is_deleted": version - 1} for row in some] for name, some in steps.items()},
        )
    url = engine.url("langfuse", f"?table={table}&project=p%271")
    file = written(tmp_path, [trace])
    for with_text in (False, True):
        assert spans(url, with_text) == spans(file, with_text)
    (task,) = tasks(url)
    assert (task["called"], task["ranked"], task["success"]) == (["get_weather"], ["get_weather", "send_mail"], True)
    assert SECRET not in sent(url, with_text=True)


def test_the_table_with_whole_texts_is_read_where_none_is_named(engine: Engine) -> None:
    engine.database("both", *LANGFUSE_TABLES.values())
    put_into(engine, "both", rows_of_langfuse(langfuse_trace()))
    assert DaysOfSpans(engine.url("both"), with_text=False).store.table == "events_full"
