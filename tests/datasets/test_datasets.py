"""Data of one's own are refused with line and field, or round-trip to the bit."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from camdf import MissingExtraError, datasets
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf_lab import domains
from saying import refuses, says
from worlds import arrays, assert_same

# Data of one's own

GOOD = {"task_id": "a", "scores": {"mail": 0.1, "search": 0.9}, "required": ["search"]}


def written(folder: Path, *records: object) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def round_trip(logged: LoggedTasks, folder: Path, suffix: str) -> LoggedTasks:
    path = folder / f"tasks{suffix}"
    (datasets.write_jsonl if suffix == ".jsonl" else datasets.write_parquet)(logged, path)
    return datasets.read(path, keep_order=True)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("domain", "scorer"), [("retail", "claude"), ("mcp-atlas", "minilm"), ("livemcpbench", "bm25")]
)
def test_writing_and_reading_give_every_bit_back(tmp_path: Path, domain: str, scorer: str, suffix: str) -> None:
    logged = domains.load(domain, scorer, dispersion=1.0)
    assert_same(round_trip(logged, tmp_path, suffix), logged)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_costs_may_differ_from_task_to_task_and_lists_may_be_empty(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(1)
    logged = LoggedTasks.from_records(
        [
            {"task_id": "ä", "scores": {"x": 1 / 3, "y": 0.25}, "required": ["y", "gone"], "group": "g"},
            {"task_id": "b", "scores": {}, "required": []},
            {"task_id": "c", "scores": {"y": 5, "z": 0}, "required": [], "group": "g"},
        ]
    )
    logged = logged.with_costs(rng.uniform(0.1, 2, (3, 2)) * logged.rankings.listed)
    again = round_trip(logged, tmp_path, suffix)
    assert_same(again, logged)
    assert again.missing.tolist() == [1, 0, 0]


def test_a_plain_file_reads_as_from_records(tmp_path: Path) -> None:
    records = [GOOD, {"task_id": "b", "scores": {"search": 0, "mail": 0}, "required": ["mail", "x"], "group": "g"}]
    path = written(tmp_path, *records)
    expected = LoggedTasks.from_records(records)
    assert_same(datasets.read_jsonl(path), expected)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert_same(datasets.read_jsonl(path), expected)


def test_keep_order_takes_the_files_order_as_the_ranking(tmp_path: Path) -> None:
    path = written(tmp_path, {"task_id": "a", "scores": {"z": 0.5, "b": 0.5}, "required": []})
    assert datasets.read(path).rankings.names(0) == ["b", "z"]
    assert datasets.read(path, keep_order=True).rankings.names(0) == ["z", "b"]


BAD_FIELDS: list[tuple[dict[str, object], str, list[str]]] = [
    ({"task_id": 7}, "task_id", ["string", "7", "quotes"]),
    ({"task_id": ""}, "task_id", ["not empty"]),
    ({"task_id": "a\0"}, "task_id", ["valid characters"]),
    ({"task_id": "a"}, "task_id", ["different for every task", "'a'", "line 1", "rename"]),
    ({"scores": [["mail", 1]]}, "scores", ["map tools to numbers"]),
    ({"scores": {"mail": True}}, "scores", ["'mail'", "finite number of at least 0", "True"]),
    ({"scores": {"mail": "0.5"}}, "scores", ["'mail'", "'0.5'"]),
    ({"scores": {"mail": None}}, "scores", ["'mail'", "None"]),
    ({"scores": {"mail": float("nan")}}, "scores", ["'mail'", "nan", "sigmoid"]),
    ({"scores": {"mail": float("inf")}}, "scores", ["'mail'", "inf"]),
    ({"scores": {"mail": 10**400}}, "scores", ["'mail'", "finite"]),
    ({"scores": {"mail": -0.1}}, "scores", ["'mail'", "-0.1", "Clip"]),
    ({"scores": {"": 0.1}}, "scores", ["not empty"]),
    ({"required": "mail"}, "required", ["list of tool names", "'mail'"]),
    ({"required": ["mail", 3]}, "required", ["string", "3"]),
    ({"required": ["mail", "mail"]}, "required", ["once", "'mail'"]),
    ({"required": {"mail": 1}}, "required", ["list of tool names", "{'mail': 1}"]),
    ({"n_required": 0}, "n_required", ["at least 1", "Got 0"]),
    ({"n_required": 1.0}, "n_required", ["whole number", "1.0"]),
    ({"n_required": True}, "n_required", ["whole number", "True"]),
    ({"costs": {"mail": 1, "search": 0}}, "costs", ["'search'", "above 0", "0.01"]),
    ({"costs": {"mail": 1}}, "costs", ["price every candidate", "'search'"]),
    ({"costs": {"mail": 1, "search": 1}}, "costs", ["every record or in none"]),
    ({"group": 4}, "group", ["string", "4"]),
    ({"groups": "g"}, "groups", ["task_id, scores, required, n_required, costs, group", "Rename"]),
]


@pytest.mark.parametrize(("change", "field", "words"), BAD_FIELDS)
def test_a_bad_field_is_refused_with_file_line_field_value_and_remedy(
    tmp_path: Path, change: dict[str, object], field: str, words: list[str]
) -> None:
    path = written(tmp_path, GOOD, {**GOOD, "task_id": "b", **change})
    with pytest.raises(datasets.DataError) as caught:
        datasets.read_jsonl(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 2, field {field!r}: must ")
    assert all(word in message for word in words), message
    assert message.endswith(".")


@pytest.mark.parametrize("missing", ["task_id", "scores", "required"])
def test_a_missing_field_is_named(tmp_path: Path, missing: str) -> None:
    path = written(tmp_path, GOOD, {name: value for name, value in GOOD.items() if name != missing})
    with refuses(datasets.DataError, "2", missing, "missing"):
        datasets.read_jsonl(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[1, 2]", ["line 2", "one JSON object", "[1, 2]"]),
        (b'{"task_id": "b", ', ["line 2", "one JSON object", "at column"]),
        (b'{"task_id": "\xff"}', ["line 2", "one JSON object", "UTF-8", "decode"]),
        (b"[" * 100_000, ["line 2", "one JSON object"]),
        (b'{"task_id": "b", "task_id": "c"}', ["line 2, field 'task_id'", "occur once", "'c'"]),
        (
            b'{"task_id": "b", "note": 1, "note": 2, "scores": {}, "required": []}',
            ["line 2, field 'note'", "occur once"],
        ),
        (b'{"task_id": "b", "scores": {"x": 1, "x": 2}, "required": []}', ["line 2, field 'scores'", "once", "'x'"]),
        (b'{"task_id": "\\ud800", "scores": {}, "required": []}', ["line 2, field 'task_id'", "valid characters"]),
    ],
)
def test_a_line_that_is_not_a_record_is_refused_with_its_number(tmp_path: Path, line: bytes, words: list[str]) -> None:
    path = written(tmp_path, GOOD)
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(datasets.DataError) as caught:
        datasets.read_jsonl(path)
    assert all(word in str(caught.value) for word in (str(path), *words)), str(caught.value)


def test_an_empty_file_and_an_unknown_suffix_are_refused(tmp_path: Path) -> None:
    with pytest.raises(datasets.DataError, match="at least one task"):
        datasets.read(written(tmp_path))
    with pytest.raises(datasets.DataError, match=r"\.jsonl, \.parquet or \.csv"):
        datasets.read(tmp_path / "tasks.txt")


def parquet(folder: Path, row: dict[str, Any]) -> Path:
    path = folder / "tasks.parquet"
    table = import_module("pyarrow").Table.from_pylist([row])
    import_module("pyarrow.parquet").write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": {"mail": 0.5}}, ["field 'scores'", "structs (tool, score)"]),
        ({"scores": [{"tool": "mail", "score": -1.0}]}, ["field 'scores'", "'mail'", "-1.0"]),
        ({"scores": [{"tool": "mail", "score": None}]}, ["field 'scores'", "'mail'", "None"]),
        ({"scores": [{"tool": "m", "score": 1.0}] * 2}, ["field 'scores'", "once", "'m'"]),
        ({"scores": None}, ["field 'scores'", "list of structs", "None"]),
        ({"costs": [{"tool": "x", "price": 1.0}]}, ["field 'costs'", "structs (tool, cost)"]),
        ({"task_id": 3}, ["field 'task_id'", "string", "3"]),
        ({"required": None}, ["field 'required'", "list of tool names", "None"]),
        ({"costs": [{"tool": "mail", "cost": 0.0}]}, ["field 'costs'", "'mail'", "above 0"]),
    ],
)
def test_a_bad_parquet_row_is_refused_with_row_and_field(
    tmp_path: Path, change: dict[str, object], words: list[str]
) -> None:
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 0.5}], "required": ["mail"], **change}
    with pytest.raises(datasets.DataError) as caught:
        datasets.read_parquet(parquet(tmp_path, row))
    assert all(word in str(caught.value) for word in ("tasks.parquet, row 1", *words)), str(caught.value)


def test_null_stands_for_an_optional_field_left_out_of_parquet(tmp_path: Path) -> None:
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 1}], "required": ["mail"], "group": None, "costs": None}
    expected = LoggedTasks.from_records([{"task_id": "a", "scores": {"mail": 1.0}, "required": ["mail"]}])
    assert_same(datasets.read(parquet(tmp_path, row)), expected)


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    path.write_bytes(b"no parquet at all")
    with refuses(datasets.DataError, "Parquet", "file"):
        datasets.read(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"camdf\[mining\]"):
        datasets.read(tmp_path / "tasks.parquet")


# Fields that nobody asked for


def test_other_fields_are_left_out_and_counted_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = {"prompt": "Where is my order?", "scorer": "bm25"}
    records = [GOOD, *({**GOOD, **more, "task_id": f"b{number}"} for number in range(200)), {**GOOD, "task_id": "c"}]
    found = datasets.read(written(tmp_path, *records))
    assert_same(found, LoggedTasks.from_records(records))
    assert set(caplog.messages) <= {
        "ignored fields: prompt (in 200 records), scorer (in 200 records)",
        "ignored fields: scorer (in 200 records), prompt (in 200 records)",
    }
    assert len(caplog.messages) == 1
    caplog.clear()
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 1.0}], "required": ["mail"], "prompt": "Hello"}
    assert len(datasets.read(parquet(tmp_path, row))) == 1
    assert [says(message, "ignored", "prompt", "1") for message in caplog.messages] == [True]


def test_a_program_says_it_on_standard_error(tmp_path: Path) -> None:
    path = written(tmp_path, {**GOOD, "prompt": "Hello"})
    code = f"from camdf import datasets; datasets.read({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert says(done.stderr, "ignored", "prompt", "1")


@pytest.mark.parametrize("name", ["groups", "Group", "group_id", "grup", "cost", "Costs", "n_require", "nrequired"])
def test_a_field_that_looks_like_a_missing_one_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, GOOD, {**GOOD, "task_id": "b", name: "g"})
    with refuses(datasets.DataError, "2", name, "Rename", "remove"):
        datasets.read(path)
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 1.0}], "required": ["mail"], name: "g"}
    with refuses(datasets.DataError, name, "Rename", "remove"):
        datasets.read(parquet(tmp_path, row))


def test_a_field_is_no_misspelling_of_one_that_is_there(tmp_path: Path) -> None:
    assert datasets.read(written(tmp_path, {**GOOD, "group": "g", "groups": 3})).groups.tolist() == ["g"]


# CSV, and one row a candidate

ROWS = """task_id,tool,score,required,cost,group
a,search,0.9,1,0.5,g
b,mail,0.2,true,1.5,
a,mail,0.4,0,1.5,g
b,search,0.2,FALSE,0.5,
b,gone,,1,,
"""


def as_csv(folder: Path, content: str) -> Path:
    path = folder / "tasks.csv"
    path.write_text(content, encoding="utf-8")
    return path


def as_rows(logged: LoggedTasks) -> list[dict[str, Any]]:
    """One row a candidate, and one without a score for each required tool that a list lacks."""
    found = []
    for row, task_id in enumerate(logged.task_ids.tolist()):
        more = {"task_id": task_id, "group": str(logged.groups[row])}
        for place, tool in enumerate(logged.rankings.names(row)):
            numbers = {name: float(getattr(logged.rankings, name + "s")[row, place]) for name in ("score", "cost")}
            found.append({**more, "tool": tool, "required": bool(logged.required[row, place]), **numbers})
        lacks = range(int(logged.missing[row]))
        found += [{**more, "tool": f"missed {i}", "required": True, "score": None, "cost": None} for i in lacks]
    return found


def test_rows_of_candidates_are_read_as_records(tmp_path: Path) -> None:
    found = datasets.read(as_csv(tmp_path, ROWS))
    expected = LoggedTasks.from_records(
        [
            {"task_id": "a", "scores": {"search": 0.9, "mail": 0.4}, "required": ["search"], "group": "g"},
            {"task_id": "b", "scores": {"mail": 0.2, "search": 0.2}, "required": ["mail", "gone"]},
        ],
        {"search": 0.5, "mail": 1.5},
    )
    assert_same(found, expected)
    plain = "\ufeff" + "".join(line.rsplit(",", 2)[0] + "\r\n\r\n" for line in ROWS.splitlines())
    assert set(datasets.read(as_csv(tmp_path, plain)).rankings.costs.ravel().tolist()) == {1.0}
    assert datasets.read(as_csv(tmp_path, ROWS), keep_order=True).rankings.names(1) == ["mail", "search"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("domain", "scorer"), [("retail", "claude"), ("livemcpbench", "bm25")])
def test_a_table_of_candidates_is_the_same_as_one_of_tasks(
    tmp_path: Path, domain: str, scorer: str, suffix: str
) -> None:
    logged = domains.load(domain, scorer, dispersion=1.0)
    in_order = as_rows(logged)
    mixed = [in_order[i] for i in np.random.default_rng(0).permutation(len(in_order))]
    for name, rows in (("same", in_order), ("mixed", mixed)):
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        else:
            import_module("pyarrow.parquet").write_table(import_module("pyarrow").Table.from_pylist(rows), path)
        found = datasets.read(path, keep_order=name == "same")
        if name == "same":
            assert_same(found, logged)
        assert sorted(found.task_ids.tolist()) == sorted(logged.task_ids.tolist())
        assert Payoff(0.1).of(found, found.rankings.listed).sum() == pytest.approx(
            Payoff(0.1).of(logged, logged.rankings.listed).sum()
        )


def test_a_csv_of_tasks_holds_json_in_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    records: list[dict[str, Any]] = [{**GOOD, "group": "g", "n_required": 2}, {**GOOD, "task_id": "b"}]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task_id", "scores", "required", "group", "n_required", "prompt"])
        for record in records:
            cells = [json.dumps(record[name]) if name in record else "" for name in ("scores", "required")]
            writer.writerow(
                [record["task_id"], *cells, record.get("group", ""), record.get("n_required", ""), "Hi, you"]
            )
    found = datasets.read(path)
    assert found.n_required.tolist() == [2, 1]
    assert found.groups.tolist() == ["g", "b"]
    assert found.rankings.names(0) == ["search", "mail"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ROWS.replace("0.9", "high"), ["row 1, field 'score'", "at least 0", "'high'"]),
        (ROWS.replace("0.9", "nan"), ["row 1, field 'score'", "'nan'"]),
        (ROWS.replace("0.9", "-1"), ["row 1, field 'score'", "'-1'", "Clip"]),
        (ROWS.replace("0.9,1,0.5", "0.9,1,0"), ["row 1, field 'cost'", "more than 0", "0.01"]),
        (ROWS.replace("0.9,1,0.5", "0.9,1,"), ["row 1, field 'cost'", "''"]),
        (ROWS.replace("0.9,1", "0.9,yes"), ["row 1, field 'required'", "0, 1, true or false", "'yes'"]),
        (ROWS.replace("b,gone,,1", "b,gone,,0"), ["row 5, field 'score'", "unless", "required"]),
        (ROWS.replace("b,search", "b,mail"), ["row 4, field 'tool'", "once in a task", "'mail'"]),
        (ROWS.replace("a,mail,0.4,0,1.5,g", "a,mail,0.4,0,1.5,h"), ["row 3, field 'group'", "'h'", "'g'"]),
        (ROWS.replace("a,search", ",search"), ["row 1, field 'task_id'", "not empty"]),
        (ROWS.replace("a,search", "a,"), ["row 1, field 'tool'", "not empty"]),
        (ROWS.replace("0.9,1,0.5,g", "0.9,1,0.5,g,h"), ["row 1: must have 6 cells", "Got 7"]),
        (ROWS.replace(",cost,", ",costs,"), ["field 'costs'", "task_id, tool, score, required", "cost"]),
        (ROWS.replace("tool,", "name,"), ["head", "task_id, tool, score, required", "name"]),
        (ROWS.splitlines()[0], ["at least one task", "empty"]),
        ("", ["must have a head", "Got nothing"]),
        ("task_id,scores,required\na,{},[", ["row 1, field 'required'", "hold JSON"]),
        ("task_id,scores,required\na,7,[]", ["row 1, field 'scores'", "map tools to numbers"]),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, list) else "",
)
def test_a_bad_csv_is_refused_with_row_and_field(tmp_path: Path, content: str, words: list[str]) -> None:
    with pytest.raises(datasets.DataError) as caught:
        datasets.read(as_csv(tmp_path, content))
    assert all(word in str(caught.value) for word in ("tasks.csv", *words)), str(caught.value)
    assert str(caught.value).endswith(".")


def test_csv_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = as_csv(tmp_path, ROWS)
    path.write_bytes(path.read_bytes() + b"a,\xff,0.5,1,1,g\n")
    with pytest.raises(datasets.DataError, match="must be CSV in UTF-8"):
        datasets.read(path)


# Large files


def test_reading_reports_every_megabyte_and_takes_little_more_memory_than_the_table(tmp_path: Path) -> None:
    path, tools = tmp_path / "tasks.jsonl", [f"tool {i}" for i in range(60)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(6000):
            scores = {tools[(number + i) % 60]: (number * 7 + i * 13) % 101 / 100 for i in range(20)}
            costs = dict.fromkeys(scores, 0.5)
            record = {"task_id": str(number), "scores": scores, "required": [tools[number % 60]], "costs": costs}
            file.write(json.dumps(record) + "\n")
    size, reports = path.stat().st_size, list[tuple[int, int, float]]()
    tracemalloc.start()
    try:
        logged = datasets.read(path, progress=lambda *each: reports.append(each))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    megabytes = -(-size // 1_000_000)
    assert [done for done, *_ in reports] == sorted({done for done, *_ in reports})
    assert {total for _, total, _ in reports} == {megabytes}
    assert len(reports) >= megabytes - 1
    assert (reports[-1][0], reports[-1][2]) == (megabytes, 0.0)
    table = sum(array.nbytes for array in arrays(logged).values())
    assert peak < 4 * table


# Texts, from fixtures made by hand in the layouts of the folder and of the checkouts


def test_texts_of_a_folder_in_the_layout_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tools.json").write_text('{"mail": "Sends mail.", "search": ""}')
    tasks: list[dict[str, Any]] = [
        {"task_id": "1", "text": "Find it."},
        {"task_id": "2", "text": "Send it.", "tools": ["mail"]},
    ]
    written(tmp_path / "shop", *tasks)
    texts = datasets.texts_from_folder(tmp_path, "shop")
    assert texts.descriptions == {"mail": "Sends mail.", "search": ""}
    assert texts.tasks == (
        datasets.TaskText("1", "Find it.", ("mail", "search")),
        datasets.TaskText("2", "Send it.", ("mail",)),
    )

    written(tmp_path / "shop", tasks[0], {**tasks[1], "tools": ["fax"]})
    with refuses(datasets.DataError, "2", "tools", "tools", "tools.json", "fax"):
        datasets.texts_from_folder(tmp_path, "shop")
    (tmp_path / "shop" / "tools.json").write_text('["mail"]')
    with refuses(datasets.DataError, "tools.json", "JSON", "object", "tool"):
        datasets.texts_from_folder(tmp_path, "shop")
