"""Days of ClickHouse into a table of tasks, none of them twice, and what goes wrong on the way."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from engines import DAY, NOON, PASSWORD, Engine, spans, tasks

from camdf.cli import main
from camdf.errors import DataError
from camdf_traces.days import read_days
from camdf_traces.each_day import mine_each_day
from camdf_traces.span_files import span_tables
from secret_traces import records as secret_records
from trace_records import otlp, otlp_span

pytest_plugins = ["engine_fixture"]


def three_days(engine: Engine, name: str) -> str:
    """Runs over three days, one of them across midnight, and one of today."""
    day = 86_400 * 10**9
    today = (datetime.now(UTC).date() - date(1970, 1, 1)).days * day
    found = []
    for number, begun in enumerate([NOON, NOON + day, NOON + day // 2 - 10**9, NOON + 2 * day, today], start=1):
        agent, tool = f"{number:016x}", f"{number + 100:016x}"
        ids = {"traceId": f"{number:032x}"}
        times = {"startTimeUnixNano": begun, "endTimeUnixNano": begun + 10**10}
        called = {"startTimeUnixNano": begun + 2 * 10**9, "endTimeUnixNano": begun + 3 * 10**9}
        found.append(otlp_span(agent, {"gen_ai.operation.name": "invoke_agent"}, **ids, **times))
        told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool_{number}"}
        found.append(otlp_span(tool, told, parentSpanId=agent, **ids, **called))
    return engine.otel(name, [otlp(*found)])


def test_each_day_is_mined_once_and_a_stopped_command_goes_on(engine: Engine, tmp_path: Path) -> None:
    url, table = three_days(engine, "each"), tmp_path / "table"
    read: list[str] = []

    @contextmanager
    def reading(place: str) -> Iterator[list[Path]]:
        read.append(place)
        with span_tables(place) as tables:
            yield tables

    first = mine_each_day(url, table, reading, {})
    assert next(first).day == DAY
    first.close()  # stopped
    days = [mined.day for mined in mine_each_day(url, table, reading, {})]
    assert days == [DAY + timedelta(1), DAY + timedelta(2)]
    (nothing,) = mine_each_day(url, table, reading, {})
    assert (nothing.read, len(read)) == (0, 3)
    until_today = f"{url}?until={datetime.now(UTC).date()}"
    assert read_days(table).to_pylist() == tasks(until_today)
    assert [task["called"] for task in tasks(until_today)] == [[f"tool_{number}"] for number in (1, 3, 2, 4)]


def test_the_commands_read_clickhouse(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, table = three_days(engine, "commands"), str(tmp_path / "table")
    assert main(["mine", url, "--into", table, "--plain-ids", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [day["added"] for day in told["days"]] == [1, 2, 1]
    assert main(["mine", url, "--into", table, "--plain-ids", "--day", "2026-11-15", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["new"], again["repeated"]) == (0, 3)
    assert main(["mine", url, "-o", str(tmp_path / "tasks.parquet")]) == 0
    assert main(["compare", url, "--json"]) in (0, 3)
    assert PASSWORD not in str(capsys.readouterr())


def refusal(url: str) -> str:
    with pytest.raises(DataError) as refused:
        spans(url)
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


def test_every_refusal_says_what_to_do(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.otel("refused", [secret_records()["otel"][0]])
    engine.client.command("CREATE TABLE refused.others (a String) ENGINE = Memory")
    engine.client.command("CREATE VIEW refused.numbers AS SELECT * REPLACE (0 AS TraceId) FROM refused.otel_traces")
    engine.database("empty")
    assert "?table=NAME" in refusal(engine.url("refused", "?table=nowhere"))
    assert "DATABASE" in refusal(engine.url("nowhere"))
    assert "otel_traces" in refusal(engine.url("empty"))
    assert "otel_traces" in refusal(engine.url("refused", "?table=others"))
    assert "TraceId" in refusal(engine.url("refused", "?table=numbers"))
    assert "until=" in refusal(engine.url("refused", "?since=2030-01-01"))
    assert "CLICKHOUSE_PASSWORD" in refusal(f"clickhouse://reader:wrong@127.0.0.1:{engine.port}/refused")
    assert "does not answer" in refusal("clickhouse://reader@127.0.0.1:1/refused")
    monkeypatch.setenv("CLICKHOUSE_USER", "nobody")
    assert "CLICKHOUSE_USER" in refusal(f"clickhouse://127.0.0.1:{engine.port}/refused")


def test_a_day_that_breaks_off_is_no_day(engine: Engine, tmp_path: Path) -> None:
    """The connection ends within the rows: nothing is mined of what came."""
    draw = random.Random(1)
    times = {"startTimeUnixNano": NOON, "endTimeUnixNano": NOON}
    found = []
    for number in range(1, 300):
        told = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": draw.randbytes(4000).hex()}
        found.append(otlp_span(f"{number:016x}", told, **times))
    engine.otel("broken", [otlp(*found)])
    output = tmp_path / "tasks.parquet"
    with cut_short(engine.port, 700_000) as port:
        url = f"clickhouse://reader@127.0.0.1:{port}/broken"
        assert "broke off" in refusal(url)
        assert main(["mine", url, "-o", str(output)]) != 0
    assert not output.exists()


@contextmanager
def cut_short(port: int, most: int) -> Iterator[int]:
    """A port that passes everything on to another, and ends a connection after so many bytes of an answer."""

    def pass_on(of_client: socket.socket, of_server: socket.socket) -> None:
        with of_client, of_server:
            threading.Thread(target=forward, args=(of_client, of_server), daemon=True).start()
            forward(of_server, of_client, most)
            for each in (of_client, of_server):  # closing alone would wait for the thread that reads
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def forward(source: socket.socket, target: socket.socket, left: float = float("inf")) -> None:
        with suppress(OSError):
            while left > 0 and (some := source.recv(4096)):
                target.sendall(some)
                left -= len(some)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=pass_on, args=(client, server), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
