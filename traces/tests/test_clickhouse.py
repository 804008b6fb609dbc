"""URLs of ClickHouse and the statements that they become; the engine is in traces/tests/environments/clickhouse."""

from __future__ import annotations

import pickle
import sys
from datetime import date
from pathlib import Path

import pytest

from camdf.cli import main
from camdf.errors import CamdfError, DataError, MissingExtraError, UsageError
from camdf_traces.readers import read_spans
from camdf_traces.readers.clickhouse import DaysOfSpans, Store, is_clickhouse, on_day, without_password
from camdf_traces.readers.clickhouse_sql import OTEL, SHAPES, Shape, days_of, quoted_name, shape_of, spans_of

SECRET = "zanzibar-4711"


def columns_of(shape: Shape) -> dict[str, str]:
    types = {"Int64 or UInt64": "UInt64", "Array(Map": "Array(Map(LowCardinality(String), String))"}
    return {name: types.get(wanted, wanted) for name, wanted in shape.types.items()}


def test_a_url_says_everything_and_the_environment_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKHOUSE_USER", "reader")
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", SECRET)
    store = Store.of_url("clickhouse://host")
    assert (store.user, store.password, store.database, store.table) == ("reader", SECRET, "default", "")
    assert (store.port, Store.of_url("clickhouse://host?secure=1").port) == (8123, 8443)
    told = Store.of_url("clickhouse://ada:a%2Fb%40c@h:9/db?table=t%60&since=2026-11-01&until=2026-11-03&project=p")
    assert (told.user, told.password, told.port, told.database) == ("ada", "a/b@c", 9, "db")
    assert (told.table, told.since, told.until) == ("t`", date(2026, 11, 1), date(2026, 11, 3))
    assert Store.of_url(on_day("clickhouse://h/db?table=t&since=2026-01-01", date(2026, 11, 1))).since.month == 11


@pytest.mark.parametrize(
    "url",
    [
        f"clickhouse://ada:{SECRET}@host/db?where=1",
        f"clickhouse://ada:{SECRET}@host/db?since=yesterday",
        f"clickhouse://ada:{SECRET}@host/db/table",
        f"clickhouse://ada:{SECRET}@host:port/db",
        f"clickhouse://ada:{SECRET}/x@host/db",
        f"clickhouse://ada:{SECRET}#x@host/db",
        f"clickhouse://ada:{SECRET}@/db",
        f"clickhouse://ada:{SECRET}@[host/db",
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_its_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as refused:
        Store.of_url(url)
    assert SECRET not in str(refused.value)
    assert main(["mine", url, "-o", str(tmp_path / "tasks.parquet")]) != 0
    assert main(["compare", url]) != 0
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err


def test_nothing_that_is_shown_of_a_source_has_its_password() -> None:
    url = f"clickhouse://ada:{SECRET}@host/db"
    store = Store.of_url(url)
    assert SECRET not in f"{store!r} {store.shown} {store.name} {without_password(url)} {DaysOfSpans(url, True)!r}"
    assert without_password("s3://bucket/a@b") == "s3://bucket/a@b"


def test_other_places_are_none_of_clickhouse() -> None:
    assert [is_clickhouse(place) for place in ("clickhouse://h", Path("clickhouse"), "s3://h")] == [True, False, False]


def test_a_source_goes_to_other_processes_before_it_was_asked() -> None:
    source = DaysOfSpans("clickhouse://host/db", with_text=False)
    assert pickle.loads(pickle.dumps(source)).isfile("") is False


def test_every_shape_is_known_by_its_columns_whatever_its_name() -> None:
    for shape in SHAPES:
        found = shape_of("spans_of_ours", columns_of(shape))
        assert found.time == shape.time
        assert shape_of(shape.table, columns_of(shape)) is shape


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.table))
def test_a_column_that_is_missing_or_of_another_type_is_named(shape: Shape) -> None:
    columns = columns_of(shape)
    for name in columns:
        with pytest.raises(DataError, match=name):
            shape_of(shape.table, {**columns, name: "Tuple(Date)"})
        with pytest.raises(DataError, match="table="):
            shape_of(shape.table, {other: kind for other, kind in columns.items() if other != name})


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.table))
def test_no_name_and_no_value_of_a_url_is_part_of_a_statement_but_in_quotes(shape: Shape) -> None:
    hostile = "x`; DROP TABLE spans --\\"
    place = f"{quoted_name(hostile)}.{quoted_name(hostile)}"
    columns = columns_of(shape)
    project = "" if shape is OTEL else "' OR 1=1 --"
    for statement in (
        days_of(shape, place, project),
        spans_of(shape, quoted_name(hostile), place, columns, with_text=True, project=project),
    ):
        assert "x`;" not in statement
        assert statement.count("x\\`; DROP TABLE spans --\\\\`") >= 2
        assert "1=1" not in statement


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.table))
def test_only_with_text_does_a_database_send_what_users_asked(shape: Shape) -> None:
    columns = columns_of(shape)
    bare, full = (spans_of(shape, "db", "db.t", columns, with_text) for with_text in (False, True))
    assert bare != full
    told = "gen_ai.user.message" if shape is OTEL else "if(upper(o.type) IN ('AGENT'"
    assert told in full
    assert told not in bare


def test_a_whole_window_or_a_table_of_days_is_named(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    url = "clickhouse://127.0.0.1:1/db"
    assert main(["mine", url, "--into", table, "--replace"]) != 0
    assert main(["mine", url, "--into", table, "--statistics", str(tmp_path / "s.json")]) != 0
    assert main(["mine", str(tmp_path), "--into", table]) != 0
    assert not (tmp_path / "table").exists()


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
    with pytest.raises(MissingExtraError, match="clickhouse"):
        list(read_spans("clickhouse://127.0.0.1:1/db"))
    assert issubclass(MissingExtraError, CamdfError)
