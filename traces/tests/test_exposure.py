"""`camdf audit --privilege`: which tools with effects tasks exposed and used, counted as a reader would count them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from camdf import LoggedTasks
from camdf.cli import main
from camdf.gate import Privilege
from camdf_traces.audit import TaskLists, exposed_tools, exposure_text
from camdf_traces.audit.exposure import SHOWN
from saying import says

PRIVILEGE = Privilege({"look": "read", "note": "write", "mail/send": "egress", "pay": "egress"})


NAMES = pa.list_(pa.string())
SCHEMA = pa.schema(
    [(name, NAMES) for name in ("ranked", "called", "inferred", "offered")]
    + [("scores", pa.list_(pa.float64())), ("group", pa.string())]
)


def tasks_of(rows: list[dict[str, Any]]) -> TaskLists:
    return TaskLists.from_table(pa.Table.from_pylist(rows, SCHEMA))


def row(offered: list[str] | None, called: list[str], inferred: list[str]) -> dict[str, Any]:
    ranked = ["look", "note", "mail/send"]
    return {
        "ranked": ranked,
        "scores": [0.9, 0.8, 0.7],
        "called": called,
        "inferred": inferred,
        "offered": offered,
        "group": "g",
    }


def counted(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Tasks that exposed each tool with effects, used it, and show its call by a request alone."""
    counts: dict[str, tuple[int, int, int]] = {}
    for tool in ("note", "mail/send", "pay", "unheard_of"):
        exposed = sum(tool in (task["offered"] or task["ranked"]) for task in rows)
        if exposed:
            used = sum(tool in task["called"] for task in rows)
            counts[tool] = (exposed, used, sum(tool in task["inferred"] for task in rows))
    return counts


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("recorded", [0.0, 0.5, 1.0])
def test_tasks_are_counted_once_for_each_tool_with_effects(seed: int, recorded: float) -> None:
    rng = random.Random(seed)
    names = ["look", "note", "mail/send", "pay", "unheard_of"]
    rows = []
    for _ in range(rng.randint(1, 12)):
        offered = [name for name in names if rng.random() < 0.5] if rng.random() < recorded else None
        called = [name for name in names if rng.random() < 0.3]
        rows.append(row(offered, called, [name for name in called if rng.random() < 0.5]))
    found = exposed_tools(tasks_of(rows), PRIVILEGE)
    assert {each.tool: (each.exposed, each.used, each.unconfirmed) for each in found} == counted(rows)
    effects = {"note": "write", "mail/send": "egress", "pay": "egress", "unheard_of": "egress"}
    assert all(each.effect == effects[each.tool] for each in found)


def test_what_nobody_used_comes_first_and_is_what_to_take_away() -> None:
    rows = [row(["look", "note", "pay"], ["note"], []), row(["look", "note", "pay", "unheard_of"], ["look"], [])]
    found = exposed_tools(tasks_of(rows), PRIVILEGE)
    assert [each.tool for each in found] == ["pay", "unheard_of", "note"]
    *table, last = exposure_text(found, len(rows)).splitlines()
    assert len(table) == 5
    assert says(last, "2 of 3", "2 tasks", "pay, unheard_of")


def test_logged_tasks_expose_what_they_list() -> None:
    logged = LoggedTasks.from_records([{"scores": {"look": 0.9, "pay": 0.1}, "required": ["look", "note"]}])
    (pay,) = exposed_tools(TaskLists.from_logged(logged), PRIVILEGE)
    assert (pay.tool, pay.exposed, pay.used) == ("pay", 1, 0)


def test_a_long_table_is_cut_and_counted_and_an_empty_one_says_so() -> None:
    names = [f"tool_{number}" for number in range(SHOWN + 5)]
    logged = LoggedTasks.from_records([{"scores": dict.fromkeys(names, 0.5), "required": [names[0]]}])
    text = exposure_text(exposed_tools(TaskLists.from_logged(logged), PRIVILEGE), 1)
    assert "and 5 more" in text
    assert f"Nobody used {SHOWN + 4} of {SHOWN + 5} tools" in text
    assert says(exposure_text([], 3), "No tool with effects", "3 tasks")


def test_the_command_says_it_in_words_and_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(["look", "note"], ["note"], ["note"]), row(["look", "mail/send"], ["look"], [])] * 3
    tasks = tmp_path / "tasks.parquet"
    pq.write_table(pa.Table.from_pylist(rows), tasks)
    effects = tmp_path / "privilege.json"
    effects.write_text(json.dumps(PRIVILEGE.effects))
    assert main(["audit", str(tasks), "--privilege", str(effects)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("in 6 tasks: take away mail/send.")
    assert main(["audit", str(tasks), "--privilege", str(effects), "--json"]) == 0
    send = {"tool": "mail/send", "effect": "egress", "exposed": 3, "used": 0, "unconfirmed": 0}
    note = {"tool": "note", "effect": "write", "exposed": 3, "used": 3, "unconfirmed": 3}
    assert json.loads(capsys.readouterr().out)["exposed"] == [send, note]
    assert main(["audit", str(tasks)]) == 0
    assert "effects" not in capsys.readouterr().out
