"""What a table is told to forget is gone from the disk, and does not come back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from arrivals import BEGIN, DAY, FIRST, at_once, run
from camdf.cli import main
from camdf.datasets.ids import hashed, id_key
from camdf.errors import DataError, UsageError
from camdf_traces.buckets import SPANS
from camdf_traces.days import SPANS_A_BUCKET, MinedDay, mine_day, read_days
from camdf_traces.forget import forget
from camdf_traces.spans import Span, arrow_table
from mined_spans import PIECES
from saying import says

KEY = b"a key that the operator holds"


def of(number: int, who: str, start: int = BEGIN) -> list[Span]:
    """A run whose agent alone says whose it is; every text names the person."""
    spans = run(number, start)
    spans[0] = replace(spans[0], conversation=f"session-of-{who}", user=f"{who}@example.com")
    return [replace(span, text=f"I am {who}", name=span.name or f"model-of-{who}") for span in spans]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def bring(table: Path, day: date, spans: list[Span], **choices: Any) -> MinedDay:
    return mine_day(arrow_table(spans), table, day, **{"with_text": True, **choices})


def on_disk(table: Path, *words: str) -> set[str]:
    """The words that some byte below a table still spells: in any file as it is stored, and as a reader unpacks it."""
    found = set()
    for file in (each for each in table.rglob("*") if each.is_file()):
        told = file.read_bytes().decode("latin-1")
        if file.suffix == ".parquet":
            told += str(pq.read_table(file, partitioning=None).to_pylist())
        found |= {word for word in words if word in told}
    return found


def people(table: Path) -> list[str]:
    return sorted(text.removeprefix("I am ") for text in read_days(table)["text"].to_pylist())


WORDS = ("zeno", f"{1:032x}", "I am zeno", "zeno@example.com")


def test_the_pieces_of_a_task_that_is_forgotten_are_gone_from_every_byte(table: Path) -> None:
    spans = [
        replace(
            span,
            trace_id=f"zeno-{span.trace_id}",
            conversation="zeno",
            text="I am zeno",
            start=BEGIN + (span.start or 0),
        )
        for span in PIECES["approved"][0]
    ]
    choices: dict[str, Any] = {"spans_a_day": 2 * SPANS_A_BUCKET}
    bring(table, FIRST, [*spans, *of(2, "ada")], **choices)
    assert people(table) == ["ada", "zeno"]
    done = forget(table, conversation="zeno")
    assert (done.tasks, done.spans) == (1, len(spans))
    assert on_disk(table, "zeno") == set()
    assert bring(table, FIRST, spans, **choices).forgotten == len(spans)
    assert people(table) == ["ada"]


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("whom", [{"conversation": "session-of-zeno"}, {"user": "zeno@example.com"}])
def test_a_session_or_a_user_that_is_forgotten_is_gone_from_every_byte(
    whom: dict[str, Any], key: bytes | None, table: Path
) -> None:
    choices: dict[str, Any] = {"id_key": key, "spans_a_day": 2 * SPANS_A_BUCKET}
    bring(table, FIRST, [*of(1, "zeno"), *of(2, "ada")], **choices)
    bring(table, FIRST + timedelta(1), [*of(3, "zeno", BEGIN + DAY), *of(4, "eve", BEGIN + DAY)], **choices)
    bring(table, FIRST + timedelta(1), [replace(span, start=BEGIN + 99 * DAY) for span in of(5, "zeno")], **choices)
    assert people(table) == ["ada", "eve", "zeno", "zeno"]
    assert on_disk(table, "zeno")
    done = forget(table, **whom, id_key=key)
    assert (done.tasks, done.spans) == (2, 15), "what is held back is forgotten too"
    assert people(table) == ["ada", "eve"]
    assert on_disk(table, *WORDS, f"{3:032x}", f"{5:032x}") == set()
    assert on_disk(table, "ada", "eve") == {"ada", "eve"}


def test_what_was_forgotten_does_not_come_back_with_late_spans(table: Path) -> None:
    bring(table, FIRST, [*of(1, "zeno"), *of(2, "ada")])
    forget(table, user="zeno@example.com")
    late = of(1, "zeno")
    done = bring(table, FIRST + timedelta(1), [late[-1], *of(3, "zeno", BEGIN + DAY), *of(4, "eve", BEGIN + DAY)])
    assert (done.forgotten, done.added) == (6, 1), "neither by a span that does not say whose it is, nor by a new run"
    assert people(table) == ["ada", "eve"]
    assert on_disk(table, *WORDS, f"{3:032x}") == set()
    later = of(5, "zeno", BEGIN + DAY)
    bring(table, FIRST + timedelta(1), later[1:])
    assert f"{5:032x}" in on_disk(table, f"{5:032x}"), "nothing says yet whose these are"
    bring(table, FIRST + timedelta(1), later[:1], grace_hours=0)
    assert on_disk(table, f"{5:032x}", "zeno") == set(), "until the span comes that does"


def test_the_list_of_what_was_forgotten_names_nobody(table: Path) -> None:
    bring(table, FIRST, of(1, "zeno"))
    forget(table, conversation="session-of-zeno")
    (told,) = {tuple(sorted(json.loads(file.read_text()))) for file in (table / "_forgotten").iterdir()}
    assert told == ("before", "marks")
    assert on_disk(table / "_forgotten", "zeno", f"{1:032x}") == set()


def test_what_began_before_a_day_is_forgotten_and_stays_so(table: Path) -> None:
    for number in range(3):
        bring(table, FIRST + timedelta(number), of(number, f"person-{number}", BEGIN + number * DAY))
    assert forget(table, before=FIRST + timedelta(2)).tasks == 2
    assert people(table) == ["person-2"]
    assert on_disk(table, "person-0", "person-1") == set()
    assert bring(table, FIRST + timedelta(2), of(1, "person-1", BEGIN + DAY)).forgotten == 5


def test_days_that_are_not_kept_are_gone_from_the_disk(table: Path) -> None:
    for number in range(8):
        bring(table, FIRST + timedelta(number), of(number, f"person-{number}", BEGIN + number * DAY), keep_days=2)
    assert people(table) == ["person-5", "person-6", "person-7"]
    assert on_disk(table, "person-0") == {"person-0"}, "files that left the table stay for an hour"
    bring(table, FIRST + timedelta(8), of(8, "person-8", BEGIN + 8 * DAY), keep_days=2, grace_hours=0)
    assert people(table) == ["person-6", "person-7", "person-8"]
    names = [f"person-{number}" for number in range(9)]
    assert on_disk(table, *names) == {*names[6:]}


def test_what_a_killed_writer_left_behind_goes_where_nobody_else_writes(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(table, FIRST, of(2, "ada"))
    with monkeypatch.context() as patch:
        patch.setattr("camdf_traces.days.Days._put_down", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            bring(table, FIRST, of(1, "zeno"))
    assert on_disk(table, "zeno") == {"zeno"}
    assert "at once with --alone" in str(forget(table, user="zeno@example.com"))
    assert on_disk(table, "zeno") == {"zeno"}, "it might be a writer at work"
    forget(table, user="zeno@example.com", alone=True)
    assert on_disk(table, "zeno") == set()
    assert people(table) == ["ada"]


def test_whoever_reads_while_a_session_is_forgotten_reads_on(table: Path) -> None:
    bring(table, FIRST, [*of(1, "zeno"), *of(2, "ada")])
    old = DeltaTable(table)
    forget(table, user="zeno@example.com", hours=2)
    assert people(table) == ["ada"]
    assert old.to_pyarrow_table().num_rows == 2, "the files stay for as long as was asked"
    assert says(str(forget(table, user="zeno@example.com", hours=2)), "files", "after 2 hours")


def test_a_table_goes_on_growing_after_it_was_told_to_forget(table: Path) -> None:
    bring(table, FIRST, [*of(1, "zeno"), *of(2, "ada")[:-1]])
    forget(table, user="zeno@example.com")
    bring(table, FIRST + timedelta(1), [of(2, "ada")[-1], *of(3, "eve", BEGIN + DAY)])
    expected = at_once([*of(2, "ada"), *of(3, "eve", BEGIN + DAY)])
    assert [task["called"] for task in read_days(table).to_pylist()] == [task["called"] for task in expected]


def test_ids_are_hashed_with_the_operators_key_unless_asked_otherwise(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces, key = tmp_path / "traces.parquet", tmp_path / "keys" / "id.key"
    pq.write_table(arrow_table(of(1, "zeno")), traces)
    command = ["mine", str(traces), "--into", str(table), "--day", str(FIRST), "--id-key", str(key)]
    assert main(command) == 0
    assert says(capsys.readouterr().err, "key for the ids", key)
    assert key.stat().st_mode & 0o777 == 0o600
    (task,) = read_days(table).to_pylist()
    assert task["conversation"] == task["group"] == hashed("session-of-zeno", id_key(key))
    assert task["user"] == hashed("zeno@example.com", id_key(key))
    assert on_disk(table, "session-of-zeno", "zeno@example.com") == set()
    assert main([*command[:-1], str(tmp_path / "other.key")]) == 2
    assert "was made with ids=" in capsys.readouterr().err
    tasks = tmp_path / "tasks.parquet"
    assert main(["mine", str(traces), "-o", str(tasks), "--id-key", str(key)]) == 0
    assert pq.read_table(tasks)["conversation"].to_pylist() == [task["conversation"]]
    assert main(["mine", str(traces), "-o", str(tasks), "--plain-ids"]) == 0
    assert pq.read_table(tasks)["conversation"].to_pylist() == ["session-of-zeno"]


def test_camdf_forget_deletes_and_says_what(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces, key = tmp_path / "traces.parquet", str(tmp_path / "id.key")
    pq.write_table(arrow_table([*of(1, "zeno"), *of(2, "ada")]), traces)
    assert main(["mine", str(traces), "--into", str(table), "--day", str(FIRST), "--id-key", key]) == 0
    capsys.readouterr()
    assert main(["forget", "--user", "zeno@example.com", str(table), "--id-key", key, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["spans"]) == (1, 5)
    assert len(read_days(table)) == 1
    assert main(["forget", str(table), "--id-key", key]) == 2
    assert says(capsys.readouterr().err, "Nothing to forget", "--user")
    assert main(["forget", "--user", "x", str(tmp_path), "--id-key", key]) == 2
    assert says(capsys.readouterr().err, tmp_path, "must be a table", "camdf mine --into")


def test_what_makes_no_sense_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be a table"):
        forget(table, user="x")
    bring(table, FIRST, of(1, "zeno"), id_key=KEY)
    with pytest.raises(UsageError, match="was made with ids="):
        forget(table, user="x")
    (tmp_path / "short.key").write_text("abc")
    with pytest.raises(UsageError, match="must have 16 to 64 bytes"):
        id_key(tmp_path / "short.key")
    assert (table / SPANS).is_dir()
