"""The same spans from ClickHouse and from Parquet files of the whole rows: seconds, processor seconds and bytes.

python benchmarks/clickhouse.py                     80,000 spans, printed
python benchmarks/clickhouse.py --spans 2000000     so many
python benchmarks/clickhouse.py --store FILE        put what was measured beside what FILE has of other sizes
python benchmarks/clickhouse.py --check FILE        20,000 spans; exit 1 where tasks or a ratio are far from FILE's

The environment `clickhouse` has what is needed (`.ci/environments`). 2,500 runs of an agent under the GenAI
conventions, those of `reading.py`, are put into the table of the Collector's exporter, and copied there to four days
with ids and times of their own. The engine is ClickHouse's own, embedded by chdb, in a process that answers on
loopback. One process reads and mines the table, another the same rows as the engine writes them as Parquet, a file for
each day. The engine's part is told apart. A server would answer without the detour over a disk that chdb takes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "traces" / "tests" / "parts"))
sys.path.insert(0, str(Path(__file__).parents[1] / "traces" / "tests" / "environments" / "clickhouse"))

from reading import PER_RUN, SEED, genai_run, spans_of

from collector import OTEL_TRACES, inserted, rows_of
from trace_records import otlp

RUNS = 2_500
DAYS = 4
FIRST = 1_793_577_600 * 10**9
"""The first day, 2026-11-02, in nanoseconds."""

HALF_A_DAY = 43_200 * 10**9
FEWEST = RUNS * PER_RUN
FAR = 2.5
"""By how many times a ratio of a short run may differ from the stored one: the machine is shared."""

COPIED = """
INSERT INTO bench.otel_traces SELECT * REPLACE (
  lower(hex(sipHash128(TraceId, {copy}))) AS TraceId,
  Timestamp + toIntervalDay({day}) + toIntervalSecond({seconds}) AS Timestamp
) FROM bench.seed
"""


class Engine:
    """A served engine with a table of spans."""

    def __init__(self, folder: Path) -> None:
        import clickhouse_connect
        from served_engine import __file__ as program

        command = [sys.executable, program, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.client = clickhouse_connect.get_client(
            host="127.0.0.1", port=self.port, compress=False, autogenerate_session_id=False, send_receive_timeout=3600
        )

    @property
    def url(self) -> str:
        return f"clickhouse://127.0.0.1:{self.port}/bench?table=otel_traces"

    def fill(self, spans: int) -> int:
        """Put at least so many spans into the table; how many they are."""
        for table in ("seed", "otel_traces"):
            if table == "seed":
                self.client.command("CREATE DATABASE bench")
            self.client.command(OTEL_TRACES.format(database="bench", table=table))
        self.client.command(inserted("bench.seed", seeds()))
        copies = max(1, round(spans / FEWEST))
        draw = random.Random(SEED)
        for copy in range(copies):
            told = {"copy": copy, "day": copy % DAYS, "seconds": draw.randrange(43_000)}
            self.client.command(COPIED.format(**told))
        return copies * FEWEST

    def export(self, folder: Path) -> int:
        """The rows as Parquet, a file a day; bytes."""
        folder.mkdir()
        for day in range(DAYS):
            asked = f"SELECT * FROM bench.otel_traces WHERE toDate(Timestamp, 'UTC') = '2026-11-0{2 + day}'"
            with (folder / f"{day}.parquet").open("wb") as file:
                stream = self.client.raw_stream(asked, fmt="Parquet")
                while some := stream.read(1_000_000):
                    file.write(some)
        return sum(file.stat().st_size for file in folder.iterdir())

    def stored_bytes(self) -> int:
        """What the table takes on its disk."""
        asked = (
            "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'bench' AND table = 'otel_traces'"
        )
        return int(self.client.query(asked).first_row[0])

    def sent(self) -> int:
        """How many bytes it has sent so far."""
        return int(self.client.raw_query("SENT"))

    def processor_seconds(self) -> float:
        """What it has taken so far."""
        user, system = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


def seeds() -> Iterator[dict[str, Any]]:
    """The rows of the runs, over the first half of a day."""
    draw = random.Random(SEED)
    for run in range(RUNS):
        spans = list(spans_of(genai_run, draw))
        later = FIRST + run * HALF_A_DAY // RUNS - int(spans[0]["startTimeUnixNano"])
        for span in spans:
            for name in ("startTimeUnixNano", "endTimeUnixNano"):
                span[name] = str(int(span[name]) + later)
        yield from rows_of(otlp(*spans))


def mined(place: str, output: Path) -> dict[str, float]:
    """What reading and mining a place take in a process of its own, once it has started."""
    command = [sys.executable, __file__, "--one", place, str(output)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    took: dict[str, float] = json.loads(answer)
    return took


def mine_one(place: str, output: str) -> dict[str, float]:
    """The same, here, after all that is needed was imported."""
    import clickhouse_connect  # noqa: F401
    import polars  # noqa: F401
    import pyarrow.ipc
    import pyarrow.parquet  # noqa: F401

    from camdf_traces.readers import otlp_json  # noqa: F401
    from camdf_traces.span_files import span_tables
    from camdf_traces.tasks import mine

    begun, work = time.perf_counter(), time.process_time()
    with span_tables(place) as tables:
        read, read_work = time.perf_counter() - begun, time.process_time() - work
        tasks = mine(tables).tasks
    found = {"seconds": time.perf_counter() - begun, "processor seconds": time.process_time() - work}
    tasks.write_parquet(output)
    found |= {"seconds to read": read, "processor seconds to read": read_work}
    return {name: round(value, 2) for name, value in found.items()}


@contextmanager
def filled(spans: int) -> Iterator[tuple[Engine, Path, int]]:
    with tempfile.TemporaryDirectory(prefix="camdf-clickhouse-") as scratch:
        engine = Engine(Path(scratch) / "engine")
        try:
            yield engine, Path(scratch), engine.fill(spans)
        finally:
            engine.end()


def measure(spans: int) -> dict[str, Any]:
    """Both ways, beside each other, and whether the tasks are the same."""
    import polars

    with filled(spans) as (engine, scratch, count):
        parquet = scratch / "parquet"
        size = engine.export(parquet)
        sent, work = engine.sent(), engine.processor_seconds()
        of_table = mined(engine.url, scratch / "table.parquet")
        found = {
            "spans": count,
            "MB of the table on its disk": round(engine.stored_bytes() / 1e6, 1),
            "ClickHouse": {
                **of_table,
                "processor seconds of the engine": round(engine.processor_seconds() - work, 1),
                "MB": round((engine.sent() - sent) / 1e6, 1),
            },
            "Parquet": {**mined(str(parquet), scratch / "files.parquet"), "MB": round(size / 1e6, 1)},
        }
        tables = [polars.read_parquet(scratch / f"{name}.parquet").sort("task_id") for name in ("table", "files")]
        found["tasks"] = len(tables[0])
        found["the same tasks"] = tables[0].equals(tables[1])
        found["load"] = round(os.getloadavg()[0], 1)
        found["machine"] = {"cores": os.cpu_count(), "processor": platform.machine()}
        found["engine"] = f"ClickHouse {engine.client.server_version}"
    return found


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """What ClickHouse takes beside Parquet."""
    table, files = found["ClickHouse"], found["Parquet"]
    own, other = (each["processor seconds to read"] for each in (table, files))
    return {
        "bytes": round(table["MB"] / files["MB"], 3),
        "processor seconds to read": round(own / other, 3),
        "with the engine's": round((own + table["processor seconds of the engine"]) / other, 3),
    }


def problems(now: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    lines = [] if now["the same tasks"] else ["the tasks of ClickHouse and of Parquet differ"]
    before = ratios(stored)
    for name, ratio in ratios(now).items():
        if ratio > FAR * before[name]:
            lines.append(f"{name}: {ratio} of Parquet's, stored {before[name]}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=80_000, help="how many spans (default: %(default)s)")
    parser.add_argument("--store", type=Path, metavar="FILE")
    parser.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(mine_one(*options.one)))
        return 0
    found = measure(FEWEST if options.check else options.spans)
    print(json.dumps({**found, "ratios": ratios(found)}, indent=1))
    if options.store:
        known = json.loads(options.store.read_text()) if options.store.exists() else {}
        known[str(found["spans"])] = found
        options.store.write_text(
            json.dumps(dict(sorted(known.items(), key=lambda each: int(each[0]))), indent=1) + "\n"
        )
    if options.check:
        stored = json.loads(options.check.read_text())
        wrong = problems(found, min(stored.values(), key=lambda each: int(each["spans"])))
        print("\n".join(wrong), file=sys.stderr)
        return 1 if wrong else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
