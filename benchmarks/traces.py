"""What can be learned from the traces of each framework under each tracer, by situation: the matrix.

python benchmarks/traces.py --store FILE             measure every cell of the frameworks that are installed here
python benchmarks/traces.py --check FILE             exit 1 where a cell is not what the file has
python benchmarks/traces.py --check FILE --cells 16 --seed 0     only so many of them, drawn by the seed
python benchmarks/traces.py --keep FOLDER            measure every cell, and keep the traces in OTLP of each
python benchmarks/traces.py --page FILE              write lab/docs/traces-matrix.md from the file

The frameworks need two environments, since they disagree about the version of OpenAI's client: `.ci/environments` makes
`traced` and `traced-too`. Every cell runs the real libraries in a process of its own, against a scripted model.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "environments" / "frameworks"))

from traced.matrix import FRAMEWORKS, SITUATIONS, TRACERS, Row, page, why

PAGE = Path(__file__).parents[1] / "lab" / "docs" / "traces-matrix.md"
Key = tuple[str, str, str]


def here() -> list[str]:
    """The frameworks that are installed in this environment."""
    return [name for name, (_, needed) in FRAMEWORKS.items() if all(map(find_spec, needed))]


def keys(frameworks: Iterable[str], situations: Iterable[str] = SITUATIONS) -> list[Key]:
    return [(framework, tracer, each) for framework in frameworks for tracer in TRACERS for each in situations]


def measured(wanted: list[Key], keep: Path | None = None) -> list[Row]:
    from traced.cells import measured_apart

    for name in dict.fromkeys(framework for framework, _, _ in wanted):
        import_module(f"traced.{FRAMEWORKS[name][0]}")  # once, for all the processes that begin here
    rows = []
    for key in wanted:
        kept = None
        if keep is not None and key[1] not in ("MLflow", "LangSmith"):
            kept = keep / f"{', '.join(key)}.jsonl"
        verdict = measured_apart(*key, kept)
        rows.append(Row(*key, verdict, why(*key, verdict)))
        print(" | ".join(rows[-1]), flush=True)
    return rows


def stored(file: Path) -> dict[Key, Row]:
    if not file.exists():
        return {}
    with file.open(newline="", encoding="utf-8") as opened:
        return {row[:3]: row for row in (Row(**each) for each in csv.DictReader(opened))}


def store(file: Path, rows: list[Row]) -> None:
    known = {**stored(file), **{row[:3]: row for row in rows}}
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(known[key] for key in keys(FRAMEWORKS) if key in known)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, metavar="FILE")
    parser.add_argument("--check", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--framework", action="append", choices=list(FRAMEWORKS), help="only this one; repeatable")
    parser.add_argument("--tracer", action="append", choices=TRACERS, help="only this one; repeatable")
    parser.add_argument("--situation", action="append", choices=list(SITUATIONS), help="only this one; repeatable")
    parser.add_argument("--cells", type=int, help="check so many cells, drawn by --seed; without it, all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.page:
        PAGE.write_text(page(list(stored(asked.page).values())), encoding="utf-8")
        return 0
    wanted = [
        key
        for key in keys(asked.framework or here(), asked.situation or SITUATIONS)
        if key[1] in (asked.tracer or TRACERS)
    ]
    if asked.check:
        known = stored(asked.check)
        wanted = [key for key in wanted if key in known and not known[key].verdict.startswith("none")]
        wanted = (
            wanted if asked.cells is None else random.Random(asked.seed).sample(wanted, min(asked.cells, len(wanted)))
        )
        wrong = [row for row in measured(sorted(wanted)) if row != known[row[:3]]]
        for row in wrong:
            print(f"{', '.join(row[:3])}: measured {row.verdict!r}, stored {known[row[:3]].verdict!r}", file=sys.stderr)
        print(f"{len(wanted)} cells measured again, {len(wrong)} of them otherwise.")
        return 1 if wrong or not wanted else 0
    rows = measured(wanted, asked.keep)
    if asked.store:
        store(asked.store, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
