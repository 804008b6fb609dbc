"""Commands of the lab: list, run, check, live and report on the paper's tables; past measures what lies beyond."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from camdf._progress import shown
from camdf.cli.parser import Section, add_json, print_json
from camdf.errors import UsageError, expect

J = TypeVar("J", bound="Job")

if TYPE_CHECKING:
    from camdf.evaluation.replay import Outcomes
    from camdf.lab.jobs import Job
    from camdf.lab.paper.table import Table

RESULTS = Path("results")
PEERS = "peers"


def add_commands(commands: Any) -> None:
    """lab, with an action of its own each."""
    lab = commands.add_parser(
        "lab", help="replay every table and figure of the paper on shipped data", example="camdf lab run main"
    )
    actions = Section("lab", lab.add_subparsers(required=True, metavar="ACTION"))
    named = actions.add_parser("list", help="name the tables", example="camdf lab list")
    add_json(named)
    named.set_defaults(run=_list)

    run = actions.add_parser(
        "run",
        help="replay a table of the paper, or all of them; or measure camdf's peers",
        example="camdf lab run main",
    )
    run.add_argument("table", help="a table's name, all, or peers, which writes docs/peers.md")
    run.add_argument("--workers", type=int, default=0, help="of tables: processes (default: one a core)")
    run.add_argument("--into", type=Path, default=RESULTS, help="of all and peers: where results go (default: results)")
    run.add_argument("--fresh", action="store_true", help="of tables: replay cells that were finished before, too")
    add_json(run)
    run.set_defaults(run=_run, resumes=True)

    check = actions.add_parser(
        "check",
        help="measure a sample again, or everything, and compare with what is stored",
        example="camdf lab check --results results --cells 16",
        codes={1: "figures disagree with the stored ones"},
    )
    check.add_argument("--results", type=Path, default=RESULTS, help="stored results (default: results)")
    check.add_argument("--cells", type=int, default=12, help="how many cells of the paper at least (default: 12)")
    check.add_argument("--seed", type=int, default=0, help="which sample (default: 0)")
    check.add_argument("--all", action="store_true", help="measure everything again: two hours on two cores")
    check.add_argument("--workers", type=int, default=0, help="processes (default: one a core)")
    add_json(check)
    check.set_defaults(run=_check, resumes=True)

    past = actions.add_parser(
        "past",
        help="past the paper: measure one study, or all, and write their page",
        example="camdf lab past frontier",
    )
    past.add_argument("study", help="frontier, calibration, promises, ... or all; page writes the page alone")
    past.add_argument("--workers", type=int, default=0, help="processes (default: one a core)")
    past.add_argument("--into", type=Path, default=RESULTS, help="where its rows go (default: results)")
    past.add_argument("--page", type=Path, default=Path("docs/past-the-paper.md"), help="the page to write")
    past.set_defaults(run=_past, resumes=True)

    live = actions.add_parser(
        "live",
        help="write the page on an agent that ran with fewer tools, beside the paper's",
        example="camdf lab live --results results",
    )
    live.add_argument("--episodes", type=Path, help="store the numbers of this folder's episodes first")
    live.add_argument("--results", type=Path, default=RESULTS, help="stored results (default: results)")
    live.add_argument("--page", type=Path, default=Path("docs/live.md"), help="the page to write")
    live.set_defaults(run=_live)

    report = actions.add_parser(
        "report",
        help="write all stored results on the paper as one page, with pictures",
        example="camdf lab report --results results -o report.html",
    )
    report.add_argument("--results", type=Path, default=RESULTS, help="stored results (default: results)")
    report.add_argument("-o", "--output", type=Path, default=Path("report.html"), help=".html or .md")
    report.set_defaults(run=_report)


def _list(options: argparse.Namespace) -> int:
    from camdf.lab.paper import NOT_REPLICATED, TABLES

    if options.json:
        named = {name: {"title": table.title, "in the paper": table.where} for name, table in TABLES.items()}
        print_json({"tables": named, "not_replicated": NOT_REPLICATED})
        return 0
    print("Each table by its name, with what it shows and its label in the paper:\n")
    width = max(map(len, TABLES))
    for name, table in TABLES.items():
        print(f"{name:{width}}  {table.title} ({table.where})")
    print("\nNot replicated:")
    for what, why in NOT_REPLICATED.items():
        told = re.sub(r"\[(.+?)\]\(.+?\)", r"docs/\1", why)  # a page's link, for a terminal
        print(f"{what}: {told}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from camdf.lab.paper import TABLES
    from camdf.lab.paper.markup import result_json, result_text
    from camdf.lab.paper.results import store_results
    from camdf.lab.paper.table import fill

    if options.table == PEERS:
        return _peers(options)
    tables = list(TABLES.values()) if options.table == "all" else [_table(options.table)]
    cells = [cell for table in tables for cell in table.cells]
    outcomes = _replayed(cells, options.workers, options.fresh)
    if options.table == "all":
        results = store_results(options.into, tables, outcomes)
        told = f"{len(tables)} tables, {len(results)} figures, {len(outcomes)} cells: stored in {options.into}"
    else:
        results = fill(tables[0], outcomes)
        told = result_text(tables[0], results)
    if options.json:
        print_json([result_json(result) for result in results])
    else:
        print(told)
    return 0


def _peers(options: argparse.Namespace) -> int:
    from camdf.lab.peers.page import write_peers
    from camdf.lab.peers.study import COMMAND, NAME, measure
    from camdf.lab.stored import store

    expect("matplotlib", "lab")
    rows = measure(options.into, lambda said: print(said, file=sys.stderr, flush=True))
    store(options.into, NAME, rows, COMMAND)
    page = Path("docs/peers.md")
    write_peers(options.into, page)
    table = options.into / f"{NAME}.csv"
    if options.json:
        print_json({"rows": len(rows), "wrote": [str(table), str(page)]})
    else:
        print(f"{len(rows)} rows: stored in {table}\nwrote {page}")
    return 0


def _check(options: argparse.Namespace) -> int:
    with redirect_stdout(sys.stderr if options.json else sys.stdout):
        found = _checked_whole(options) if options.all else _checked_sample(options)
    for line in found:
        print(line, file=sys.stderr)
    if options.json:
        print_json({"disagree": found})
    else:
        print(f"{len(found)} figures disagree with the stored ones")
    return 1 if found else 0


def _checked_sample(options: argparse.Namespace) -> list[str]:
    """Some cells of the paper and a sample of each study past it, where they differ from what is stored."""
    from camdf.lab.beyond import STUDIES
    from camdf.lab.paper import TABLES
    from camdf.lab.paper.results import cell_disagreements, sampled_cells, stored_results
    from camdf.lab.peers.study import recheck
    from camdf.lab.stored import stored

    kept = stored_results(options.results)
    cells = [cell for table in TABLES.values() for cell in table.cells]
    again = _replayed(sampled_cells(cells, options.cells, options.seed), options.workers, fresh=True)
    found = cell_disagreements(kept, again)
    for study in STUDIES:
        rows = stored(options.results, study.name)
        differ = study.recheck(rows, options.seed, lambda jobs: _replayed(jobs, options.workers, fresh=True))
        found += [f"{study.name}, {line}" for line in differ]
    found += [f"{PEERS}, {line}" for line in recheck(stored(options.results, PEERS), options.results, options.seed)]
    domains = len({cell.domain for cell in again})
    print(
        f"{len(again)} cells of {domains} domains and a sample of {len(STUDIES)} studies past the paper measured again"
    )
    return found


def _checked_whole(options: argparse.Namespace) -> list[str]:
    """Every cell and figure of the paper, and every row of every study past it, where they differ."""
    from camdf.lab.beyond import STUDIES
    from camdf.lab.paper import TABLES
    from camdf.lab.paper.results import disagreements, stored_results
    from camdf.lab.peers.study import measure
    from camdf.lab.stored import stored
    from camdf.lab.study import row_disagreements

    outcomes = _replayed([cell for table in TABLES.values() for cell in table.cells], options.workers, fresh=False)
    found = disagreements(stored_results(options.results), TABLES.values(), outcomes)
    print(f"the paper: {len(outcomes)} cells measured again, {len(found)} figures differ", flush=True)
    for study in STUDIES:
        rows = study.measure(lambda jobs: _replayed(jobs, options.workers, fresh=False))
        differ = [f"{study.name}, {line}" for line in row_disagreements(stored(options.results, study.name), rows)]
        print(f"{study.name}: {len(rows)} rows measured again, {len(differ)} figures differ", flush=True)
        found += differ
    differ = row_disagreements(stored(options.results, PEERS), measure(options.results))
    print(f"{PEERS}: measured again, {len(differ)} figures differ", flush=True)
    return found + [f"{PEERS}, {line}" for line in differ]


def _past(options: argparse.Namespace) -> int:
    from camdf.lab.beyond import STUDIES
    from camdf.lab.beyond.past_the_paper import write_past_the_paper
    from camdf.lab.stored import store

    names = [study.name for study in STUDIES]
    if options.study not in (*names, "all", "page"):
        raise UsageError(f"There is no study {options.study!r} past the paper. Known: {', '.join(names)}, all, page")
    for study in STUDIES:
        if options.study in (study.name, "all"):
            rows = study.measure(lambda jobs: _replayed(jobs, options.workers, fresh=False))
            store(options.into, study.name, rows)
            print(f"{len(rows)} rows: stored in {options.into / study.name}.csv")
    write_past_the_paper(options.into, STUDIES, options.page)
    print(f"wrote {options.page}")
    return 0


def _live(options: argparse.Namespace) -> int:
    from camdf.lab.paper.live import store_episodes, write_live

    expect("matplotlib", "lab")
    if options.episodes is not None:
        store_episodes(options.episodes, options.results)
    write_live(options.results, options.page)
    print(f"wrote {options.page}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from camdf.lab.paper.replication import picture_cells, write_html, write_markdown
    from camdf.lab.paper.results import stored_results

    expect("matplotlib", "lab")  # before anything is said of results
    kept, outcomes = stored_results(options.results), _replayed(picture_cells(), 0, fresh=False)
    write = write_markdown if options.output.suffix == ".md" else write_html
    write(kept, outcomes, options.output)
    print(f"wrote {options.output}")
    return 0


def _table(name: str) -> Table:
    from camdf.lab.paper import TABLES

    if name not in TABLES:
        raise UsageError(f"There is no table {name!r}. Known: {', '.join(TABLES)}")
    return TABLES[name]


def _replayed(jobs: Sequence[J], workers: int, fresh: bool) -> dict[J, Outcomes]:
    from camdf.lab.jobs import default_cache, run_jobs

    expect("sklearn", "lab")  # here, for a process of the pool that lacks it says nothing of use
    with shown("cells") as progress:
        return run_jobs(jobs, workers=workers, cache=None if fresh else default_cache(), progress=progress)
