"""Mining many spans on one machine: seconds and peak memory of Polars, which the package uses, and of DuckDB.

python benchmarks/mining.py                        a million spans
python benchmarks/mining.py --spans 20_000_000     what results/mining.json holds
python benchmarks/mining.py --json                 the same numbers as JSON
python benchmarks/mining.py --check                exit 1 where the engines disagree or memory passes its limit

The spans are made with a seed and written as Parquet into a temporary folder. Each engine then mines them in a process
of its own, and the two tables of tasks are compared row by row. DuckDB is no part of the package. It is measured where
the interpreter named by --duckdb has it (and nothing else that is not in the standard library):

python3 -m venv ~/.cache/camdf/mining && ~/.cache/camdf/mining/bin/pip install duckdb

A run is 8 spans: an agent, 3 model calls that offer 12 of 400 tools, 4 tool calls. One run in eleven hangs below a tool
call of the run before it, so that their trace has two agents. One tool call in twenty fails and is tried again. One run
in twenty crashes, and some of the others have an outcome. Every second has a gate's ranking. Conversations are skewed.
One span in a hundred comes twice, one in fifty comes a file later, and within a file they come in any order.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

SEED = 7
PER_RUN = 8
RUNS_A_FILE = 62_500
TOOLS = [f"server_{i % 23}/tool_{i}" for i in range(400)]
OFFERED = 12
LIMIT_GIB = 8.0
"""The most memory that Polars may take, a third of the machine that 20 million spans must fit on."""

LIMIT_GIB_A_MILLION = 2.0
"""The most that it may take for each million spans, where that is less."""

DUCKDB_GIB = 8
"""The limit that is set for DuckDB."""


def generate(folder: Path, spans: int) -> dict[str, Any]:
    """Write span tables of at least `spans` spans, file by file, unless the folder has some."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if any(folder.iterdir()):
        files = sorted(folder.iterdir())
        return summary(sum(pq.read_metadata(file).num_rows for file in files), files)
    rng = np.random.default_rng(SEED)
    written = 0
    number = 0
    late = None
    while written < spans:
        table = file_of_runs(rng, min(RUNS_A_FILE, -(-(spans - written) // PER_RUN)), number)
        if late is not None:
            table = pa.concat_tables([table, late])
        order = rng.permutation(len(table))
        twice = rng.choice(order, len(order) // 100)
        last = written + len(table) >= spans
        held = 0 if last else len(order) // 50
        late = table.take(order[:held])
        table = table.take(np.concatenate([order[held:], twice]))
        pq.write_table(table, folder / f"{number:05}.parquet", compression="zstd")
        written += len(table)
        number += 1
    return summary(written, list(folder.iterdir()))


def summary(spans: int, files: list[Path]) -> dict[str, Any]:
    return {"spans": spans, "files": len(files), "MB": round(sum(file.stat().st_size for file in files) / 1e6)}


def file_of_runs(rng: Any, runs: int, number: int) -> Any:
    """The spans of `runs` runs, run by run."""
    import numpy as np
    import pyarrow as pa

    count = runs * PER_RUN
    slot = np.tile(np.arange(PER_RUN), runs)
    run = np.repeat(np.arange(runs), PER_RUN)
    is_agent = slot == 0
    is_model = (slot >= 1) & (slot <= 3)
    is_tool = slot >= 4

    below = rng.random(runs) < 0.1
    below[0] = False
    below[1:] &= ~below[:-1]
    trace = np.where(below, np.arange(runs) - 1, np.arange(runs))[run]
    parent = run * PER_RUN  # the agent of the run; an agent's own is a tool call of the run before, or none
    parent[is_agent] = np.where(below, (np.arange(runs) - 1) * PER_RUN + 5, -1)

    started = 1_700_000_000_000_000_000 + (number * RUNS_A_FILE + np.arange(runs)) * 40_000_000
    start = started[run] + slot * 900_000_000
    end = start + np.where(is_agent, 9_000_000_000, rng.integers(5_000_000, 800_000_000, count))

    catalogue = rng.permuted(np.tile(np.arange(len(TOOLS)), (64, 1)), axis=1)[:, :OFFERED]
    offers = catalogue[rng.integers(0, len(catalogue), runs)]  # a run's requests offer the same tools
    pick = np.minimum(rng.geometric(0.3, count) - 1, OFFERED - 1)
    fails = is_tool & (rng.random(count) < 0.05) & (slot < 7)
    again = np.roll(fails, 1)
    pick[again] = pick[np.roll(again, -1)]
    name = np.where(is_tool, offers[run, pick], -1)
    broken = is_agent & (rng.random(count) < 0.05)
    error = np.where(fails, 0, np.where(broken, 1, -1))

    gated = is_agent & (rng.random(count) < 0.5)
    outcome = rng.random(count)
    conversations = rng.zipf(1.4, runs).astype(np.int64) % (10 * runs)
    scores = np.sort(rng.random((int(gated.sum()), OFFERED)).round(4), axis=1)[:, ::-1]
    requested = name.reshape(runs, PER_RUN)[:, 4:6].reshape(-1)  # each model call but the last asks for a tool
    tokens = np.where(is_model, 1500 + 700 * slot, 0)

    def texts(values: list[str], index: Any) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(index), pa.array(values)).cast(pa.string())

    def lists(mask: Any, width: int, values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(mask * width)]), pa.int32()), values)

    def hexes(names: int, size: int) -> pa.Array:
        ends = pa.py_buffer(np.arange(names + 1, dtype=np.int32) * 2 * size)
        return pa.StringArray.from_buffers(names, ends, pa.py_buffer(rng.bytes(names * size).hex().encode()))

    trace_ids = hexes(runs, 16)
    span_ids = hexes(count, 8)
    columns = {
        "trace_id": trace_ids.take(pa.array(trace)),
        "span_id": span_ids,
        "parent_id": span_ids.take(pa.array(parent, mask=parent < 0)),
        "kind": texts(["agent", "model", "tool"], np.where(is_agent, 0, np.where(is_model, 1, 2))),
        "name": texts(["", *TOOLS], name + 1),
        "conversation": pa.array(conversations[run], mask=~is_agent).cast(pa.string()),
        "start": pa.array(start),
        "end": pa.array(end),
        "error": texts(["", "timeout", "crash"], error + 1),
        "text": texts([""], np.zeros(count, dtype=np.int64)),
        "offered": lists(is_model, OFFERED, texts(TOOLS, offers[run[is_model]].reshape(-1))),
        "requested": lists(is_model & (slot < 3), 1, texts(TOOLS, requested)),
        "call_id": pa.array(run * PER_RUN + slot - again, mask=~is_tool).cast(pa.string()),
        "ranked": lists(gated, OFFERED, texts(TOOLS, offers[run[gated]].reshape(-1))),
        "scores": lists(gated, OFFERED, pa.array(scores.reshape(-1))),
        "explored": pa.array(rng.random(count) < 0.05, mask=~gated),
        "success": pa.array(outcome < 0.6, mask=~is_agent | (outcome > 0.7)),
        "input_tokens": pa.array(tokens, mask=~is_model),
        "cached_tokens": pa.array(tokens // 2, mask=~is_model),
        "output_tokens": pa.array(tokens // 20, mask=~is_model),
    }
    return pa.table(columns)


def with_polars(folder: Path, output: Path) -> dict[str, Any]:
    from camdf_traces.tasks import mine

    def progress(done: int, total: int, left: float) -> None:
        print(f"{done} of {total} steps, about {left:.0f} s left", file=sys.stderr, flush=True)

    mined = mine(folder, progress=progress)
    mined.tasks.write_parquet(output)
    return {"spans": mined.spans, "runs": mined.runs, "tasks": len(mined.tasks)}


def with_duckdb(folder: Path, output: Path) -> dict[str, Any]:
    """The same steps in SQL over all spans at once; what does not fit in memory goes to files beside the output.

    Rules for what these spans do not hold are left out, which is less work for it: traces without agents, agents that
    call nothing, the tool search of a gate, tools under several names, requests that nothing shows to have run.
    """
    database = import_module("duckdb").connect()
    database.execute(f"SET memory_limit = '{DUCKDB_GIB} GiB'; SET preserve_insertion_order = false")
    database.execute(f"SET temp_directory = '{output.with_suffix('.spilled')}'")
    rules = {"files": folder / "*.parquet", "output": output, "preference": PREFERENCE, "discovery": DISCOVERY}

    def run(script: str) -> None:
        for statement in script.split(";\n"):
            if statement.strip():
                database.execute(statement.format(**rules))

    run(DEDUPE + OWN + GATHER)
    sizes = {"spans": "read", "runs": "runs", "tasks": f"'{output}'"}
    return {name: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for name, table in sizes.items()}


SCALARS = ("parent_id", "kind", "name", "conversation", "start", "error", "call_id", "explored", "success")
TOKENS = ("input_tokens", "cached_tokens", "output_tokens")
LISTS = ("offered", "requested", "ranked", "scores")
PREFERENCE = ", ".join(f'"{name}" DESC NULLS LAST' for name in ("end", *SCALARS, *TOKENS, *LISTS))
DISCOVERY = "(?i)^(.*(/|[.]|:|__))?(tool_?search(_tool)?(_regex|_bm25)?|tools/list|(search|find|list)_?tools?)$"

DEDUPE = """
CREATE TABLE read AS SELECT * EXCLUDE ("text") FROM read_parquet('{files}');
CREATE TABLE repeated AS SELECT trace_id, span_id FROM read GROUP BY ALL HAVING count(*) > 1;
CREATE TABLE spans AS
    SELECT * FROM read ANTI JOIN repeated USING (trace_id, span_id)
    UNION ALL
    SELECT * FROM read SEMI JOIN repeated USING (trace_id, span_id)
    QUALIFY row_number() OVER (PARTITION BY trace_id, span_id ORDER BY {preference}) = 1;
"""
OWN = """
CREATE TABLE incomplete AS
    SELECT DISTINCT trace_id FROM spans
    ANTI JOIN spans AS parent ON parent.trace_id = spans.trace_id AND parent.span_id = spans.parent_id
    WHERE coalesce(parent_id, '') <> '';
CREATE TABLE owners AS
    WITH RECURSIVE walk AS (
        SELECT trace_id, span_id, 'model' AS kind, span_id AS ancestor, parent_id AS next
        FROM spans WHERE kind <> 'agent'
        UNION ALL
        SELECT walk.trace_id, walk.span_id, parent.kind, parent.span_id, parent.parent_id
        FROM walk JOIN spans AS parent ON parent.trace_id = walk.trace_id AND parent.span_id = walk.next
        WHERE walk.kind NOT IN ('agent', 'tool')
    )
    SELECT trace_id, span_id, ancestor AS owner FROM walk WHERE kind = 'agent'
    UNION ALL
    SELECT trace_id, span_id, span_id FROM spans WHERE kind = 'agent';
CREATE TABLE above AS
    WITH RECURSIVE walk AS (
        SELECT trace_id, span_id AS owner, parent_id AS next FROM spans WHERE kind = 'agent' AND parent_id <> ''
        UNION ALL
        SELECT walk.trace_id, owner, parent.parent_id
        FROM walk JOIN spans AS parent ON parent.trace_id = walk.trace_id AND parent.span_id = walk.next
    )
    SELECT walk.trace_id, owner, bool_or(error <> '' AND kind <> 'model') AS above_failed,
        bool_or(NOT success) AS above_refused, bool_or(success) AS above_accepted
    FROM walk JOIN spans AS parent ON parent.trace_id = walk.trace_id AND parent.span_id = walk.next
    GROUP BY ALL;
"""
GATHER = """
CREATE TABLE traces AS
    SELECT trace_id, coalesce(min(conversation) FILTER (conversation <> ''), '') AS thread FROM spans GROUP BY trace_id;
CREATE TABLE owned AS SELECT * FROM spans JOIN owners USING (trace_id, span_id) JOIN traces USING (trace_id);
CREATE TABLE runs AS
    SELECT trace_id, owner,
        coalesce(max(start) FILTER (span_id = owner), min(start)) AS "time",
        coalesce(max(conversation) FILTER (span_id = owner), '') AS conversation,
        any_value(thread) AS thread,
        coalesce(bool_or(error <> '') FILTER (span_id = owner), false)
            OR coalesce(any_value(above_failed), false) AS failed,
        CASE WHEN bool_or(NOT success) OR any_value(above_refused) THEN false
            WHEN bool_or(success) FILTER (span_id = owner) OR any_value(above_accepted) THEN true END AS success,
        bool_or(explored) AS explored,
        bool_or(kind = 'tool' AND name <> '') AS has_tools
    FROM owned LEFT JOIN above USING (trace_id, owner)
    GROUP BY trace_id, owner
    HAVING bool_or(kind = 'model' OR kind = 'tool' AND name <> '');
CREATE TABLE called AS
    SELECT trace_id, owner, list_sort(list(DISTINCT name)) AS called
    FROM (
        SELECT trace_id, owner, name FROM owned WHERE kind = 'tool' AND coalesce(error, '') = ''
        UNION ALL
        SELECT trace_id, owner, unnest(requested)
        FROM owned SEMI JOIN (FROM runs WHERE NOT has_tools) USING (trace_id, owner) WHERE kind = 'model'
    )
    WHERE name <> '' AND NOT regexp_matches(name, '{discovery}')
    GROUP BY trace_id, owner;
CREATE TABLE offered AS
    SELECT trace_id, owner,
        list_filter(names, lambda name, position: name <> '' AND list_position(names, name) = position) AS offered
    FROM (
        SELECT trace_id, owner, flatten(list(offered ORDER BY first)) AS names
        FROM (
            SELECT trace_id, owner, offered, min((start IS NULL, start, span_id)) AS first
            FROM owned WHERE kind = 'model' AND len(offered) > 0
            GROUP BY trace_id, owner, offered
        )
        GROUP BY trace_id, owner
    );
CREATE TABLE ranked AS
    SELECT trace_id, owner, ranked, scores FROM owned
    WHERE len(ranked) > 0 AND len(ranked) = len(scores) AND len(list_distinct(ranked)) = len(ranked)
        AND NOT list_contains(ranked, '') AND list_min(scores) >= 0 AND isfinite(list_max(scores))
    QUALIFY row_number() OVER (PARTITION BY trace_id, owner ORDER BY start NULLS LAST, span_id) = 1;
COPY (
    SELECT trace_id || '/' || owner AS task_id,
        CASE conversation WHEN '' THEN thread ELSE conversation END AS conversation,
        coalesce(nullif(conversation, ''), nullif(thread, ''), task_id) AS "group",
        "time", coalesce(offered, []) AS offered, coalesce(ranked, []) AS ranked, coalesce(scores, []) AS scores,
        CASE WHEN len(offered) > 0
            THEN list_filter(coalesce(called, []), lambda name: list_contains(offered, name)
                OR coalesce(list_contains(ranked, name), false))
            ELSE coalesce(called, []) END AS called, success, explored, '' AS "text"
    FROM runs ANTI JOIN incomplete USING (trace_id)
    LEFT JOIN called USING (trace_id, owner)
    LEFT JOIN offered USING (trace_id, owner)
    LEFT JOIN ranked USING (trace_id, owner)
    WHERE NOT failed AND coalesce(success, true)
    ORDER BY "time" NULLS LAST, task_id
) TO '{output}';
"""
ENGINES = {"polars": with_polars, "duckdb": with_duckdb}


def compare(first: Path, second: Path) -> int:
    """How many rows of two tables of tasks differ."""
    import polars as pl

    tables = [pl.read_parquet(path) for path in (first, second)]
    if len(tables[0]) != len(tables[1]):
        return abs(len(tables[0]) - len(tables[1]))
    unused = ("user", "service", "inferred", "wanted")  # generated spans name neither, and every request has a span
    names = [name for name in tables[0].columns if name not in unused]
    differ = [tables[0][name].ne_missing(tables[1][name]) for name in names]
    return int(pl.DataFrame(differ).select(pl.any_horizontal(pl.all())).to_series().sum())


def step(*arguments: str, python: str = sys.executable) -> dict[str, Any]:
    """One step in a process of its own, so that its peak of memory is its own."""
    run = subprocess.run([python, __file__, "step", *arguments], stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def run_step(name: str, *arguments: str) -> None:
    begun = time.perf_counter()
    if name == "generate":
        found = generate(Path(arguments[0]), int(arguments[1]))
    elif name == "compare":
        found = {"differ": compare(Path(arguments[0]), Path(arguments[1]))}
    else:
        found = ENGINES[name](Path(arguments[0]), Path(arguments[1]))
    used = resource.getrusage(resource.RUSAGE_SELF)
    found["seconds"] = round(time.perf_counter() - begun, 1)
    found["processor seconds"] = round(used.ru_utime + used.ru_stime, 1)
    found["peak GiB"] = round(used.ru_maxrss / 2**20, 2)
    print(json.dumps(found))


def measure(spans: int, folder: Path | None, duckdb: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="camdf-mining-") as scratch:
        folder = folder or Path(scratch) / "spans"
        found = {}
        folder.mkdir(parents=True, exist_ok=True)
        made = step("generate", str(folder), str(spans))
        pythons = {"polars": sys.executable} | ({"duckdb": duckdb} if duckdb else {})
        outputs = {engine: Path(scratch) / f"{engine}.parquet" for engine in pythons}
        for engine, python in pythons.items():
            found[engine] = step(engine, str(folder), str(outputs[engine]), python=python)
        if duckdb:
            found["tasks that differ"] = step("compare", *map(str, outputs.values()))["differ"]
    machine = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    return {"machine": machine, "generated": {key: made[key] for key in ("spans", "files", "MB")}, **found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=1_000_000, help="how many, about (default: a million)")
    parser.add_argument(
        "--duckdb", help="an interpreter that has duckdb (default: the one named above, if it is there)"
    )
    parser.add_argument("--folder", type=Path, help="keep the spans here, and use those that are here already")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is missed")
    options = parser.parse_args()
    usual = Path.home() / ".cache" / "camdf" / "mining" / "bin" / "python"
    results = measure(options.spans, options.folder, options.duckdb or (str(usual) if usual.exists() else None))
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        for name, value in results.items():
            print(f"{name}: {value}")
    missed = []
    if results.get("tasks that differ"):
        missed.append(f"{results['tasks that differ']} tasks differ between Polars and DuckDB")
    limit = min(LIMIT_GIB, LIMIT_GIB_A_MILLION * results["generated"]["spans"] / 1e6)
    if results["polars"]["peak GiB"] > limit:
        missed.append(f"Polars took {results['polars']['peak GiB']} GiB, at most {limit:.1f}")
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["step"]:
        run_step(*sys.argv[2:])
    else:
        sys.exit(main())
