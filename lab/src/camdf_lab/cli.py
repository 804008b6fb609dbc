"""The command `camdf-lab`: the paper's tables, the studies past them, and the pages that say what they found."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from camdf.cli.parser import (
    Parser,
    Section,
    add_json,
    add_version_and_completion,
    print_json,
    run_command,
    table_of_contents,
)
from camdf.cli.policy import own_class
from camdf.errors import UsageError
from camdf.runtime.progress import shown
from camdf_lab._version import __version__
from camdf_lab.stored import held

J = TypeVar("J", bound="Job")

if TYPE_CHECKING:
    from camdf.evaluation.replay import Outcomes
    from camdf_lab.jobs import Job
    from camdf_lab.paper.table import Table
    from camdf_lab.stored import Rows

RESULTS = Path("results")
PAGES = Path("docs")
"""Where new results and pages go, below the folder in which a command is run: `lab` in a checkout."""

HELD = "stored results (default: those that come with the lab)"
PEERS = "peers"
CHECKED = "checked"
"""Where a check of everything keeps its jobs: it resumes, and reads nothing that the stored figures came from."""


def main(arguments: Sequence[str] | None = None, program: str = "camdf-lab") -> int:
    """Run one command and return its exit code: 0, 1 where figures disagree, 2 where it could not run."""
    return run_command(parser(program), arguments)


def parser(program: str = "camdf-lab") -> Parser:
    """Every command with its options."""
    root = Parser(
        prog=program,
        usage=f"{program} COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"every command has an example: {program} COMMAND --help",
    )
    add_version_and_completion(root, __version__)
    commands = root.add_subparsers(prog=program, metavar="COMMAND", help=argparse.SUPPRESS)
    paper = Section("The paper", commands)
    past = Section("Past the paper", commands)
    both = Section("Both", commands)
    _add_paper(paper)
    _add_past(past)
    _add_check(both)
    root.description = table_of_contents("The research behind camdf, measured again.", [paper, past, both])
    return root


def _add_paper(commands: Section) -> None:
    """list, run, report."""
    named = commands.add_parser("list", help="name the tables", example="camdf-lab list")
    add_json(named)
    named.set_defaults(run=_list)

    run = commands.add_parser(
        "run", help="replay a table, or all of them; or measure camdf's peers", example="camdf-lab run main"
    )
    run.add_argument("table", help=f"a table's name, all, or peers, which writes {PAGES}/peers.md")
    run.add_argument("--into", type=Path, default=RESULTS, help=f"of all and peers: where results go ({RESULTS})")
    run.add_argument("--policy", metavar="MODULE:CLASS", help="of a table: a policy of your own among the others")
    run.add_argument("--domain", metavar="FILE", help="of a table: logged tasks of your own (.jsonl, .parquet, .csv)")
    run.add_argument("--fresh", action="store_true", help="of tables: replay cells that were finished before, too")
    _add_workers(run)
    add_json(run)
    run.set_defaults(run=_run_tables, resumes=True)

    report = commands.add_parser(
        "report", help="write all stored results as one page, with pictures", example="camdf-lab report"
    )
    report.add_argument("--results", type=Path, default=held(), help=HELD)
    report.add_argument("-o", "--output", type=Path, default=PAGES / "replication.md", help="(default: %(default)s)")
    report.set_defaults(run=_report)


def _add_past(commands: Section) -> None:
    """past, live."""
    past = commands.add_parser(
        "past", help="measure one study, or all, and write their page", example="camdf-lab past frontier"
    )
    past.add_argument("study", help="frontier, calibration, promises, ... or all; page writes the page alone")
    past.add_argument("--into", type=Path, help=f"where its rows go ({RESULTS}); of page: {HELD}")
    past.add_argument("--page", type=Path, default=PAGES / "past-the-paper.md", help="(default: %(default)s)")
    _add_workers(past)
    past.set_defaults(run=_past, resumes=True)

    live = commands.add_parser(
        "live", help="write the page on an agent that ran with fewer tools", example="camdf-lab live"
    )
    live.add_argument("--episodes", type=Path, help="store the numbers of this folder's episodes first")
    live.add_argument("--results", type=Path, help=f"{HELD}; with --episodes: where they go ({RESULTS})")
    live.add_argument("--page", type=Path, default=PAGES / "live.md", help="(default: %(default)s)")
    live.set_defaults(run=_live)


def _add_check(commands: Section) -> None:
    check = commands.add_parser(
        "check",
        help="measure a sample again, or everything, and compare with what is stored",
        example="camdf-lab check --cells 16",
        codes={1: "figures disagree with the stored ones"},
    )
    check.add_argument("--results", type=Path, default=held(), help=HELD)
    check.add_argument("--cells", type=int, default=12, help="how many cells of the paper at least (default: 12)")
    check.add_argument("--seed", type=int, default=0, help="which sample (default: 0)")
    check.add_argument("--all", action="store_true", help="measure everything again: two hours on two cores")
    _add_workers(check)
    add_json(check)
    check.set_defaults(run=_check, resumes=True)


def _add_workers(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=int, default=0, help="processes (default: one a core)")


def _list(options: argparse.Namespace) -> int:
    from camdf_lab.paper import NOT_REPLICATED, TABLES

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
        reason = re.sub(r"\[(.+?)\]\(.+?\)", rf"lab/{PAGES}/\1", why)  # a page's link, for a terminal
        print(f"{what}: {reason}")
    return 0


def _run_tables(options: argparse.Namespace) -> int:
    from camdf_lab.paper import TABLES
    from camdf_lab.paper.markup import result_json, result_text
    from camdf_lab.paper.results import store_results
    from camdf_lab.paper.table import fill

    if options.table == PEERS:
        return _peers(options)
    if options.policy or options.domain:
        return _own(options)
    tables = list(TABLES.values()) if options.table == "all" else [_table(options.table)]
    cells = [cell for table in tables for cell in table.cells]
    outcomes = _Jobs(options.workers, options.fresh)(cells)
    if options.table == "all":
        results = store_results(options.into, tables, outcomes)
        text = f"{len(tables)} tables, {len(results)} figures, {len(outcomes)} cells: stored in {options.into}"
    else:
        results = fill(tables[0], outcomes)
        text = result_text(tables[0], results)
    if options.json:
        print_json([result_json(result) for result in results])
    else:
        print(text)
    return 0


def _own(options: argparse.Namespace) -> int:
    from camdf.datasets import read
    from camdf_lab.paper.own import own_cells, own_rows, own_text

    table = _table(options.table)
    if options.policy:
        own_class(options.policy)
    if options.domain:
        read(options.domain)  # before any process of the pool does
    outcomes = _Jobs(options.workers, fresh=True)(own_cells(table, options.policy, options.domain))
    rows = own_rows(outcomes, options.policy)
    if options.json:
        print_json(rows)
    else:
        print(own_text(table, rows, options.policy))
    return 0


def _peers(options: argparse.Namespace) -> int:
    from camdf_lab.peers.answers import FILE
    from camdf_lab.peers.page import write_peers
    from camdf_lab.peers.study import COMMAND, NAME, measure
    from camdf_lab.stored import store

    if not (options.into / FILE).exists() and (held() / FILE).exists():
        shutil.copy(held() / FILE, options.into / FILE)
    rows = measure(options.into, lambda said: print(said, file=sys.stderr, flush=True))
    store(options.into, NAME, rows, COMMAND)
    page = PAGES / "peers.md"
    write_peers(options.into, page)
    table = options.into / f"{NAME}.csv"
    if options.json:
        print_json({"rows": len(rows), "wrote": [str(table), str(page)]})
    else:
        print(f"{len(rows)} rows: stored in {table}\nwrote {page}")
    return 0


def _check(options: argparse.Namespace) -> int:
    with redirect_stdout(sys.stderr if options.json else sys.stdout):
        disagreements = _checked_whole(options) if options.all else _checked_sample(options)
    for line in disagreements:
        print(line, file=sys.stderr)
    if options.json:
        print_json({"disagree": disagreements})
    else:
        print(f"{len(disagreements)} figures disagree with the stored ones")
    return 1 if disagreements else 0


def _checked_sample(options: argparse.Namespace) -> list[str]:
    """Some cells of the paper and a sample of each study past it, where they differ from what is stored."""
    from camdf_lab.beyond import STUDIES
    from camdf_lab.paper import TABLES
    from camdf_lab.paper.results import cell_disagreements, sampled_cells, stored_results
    from camdf_lab.peers.study import recheck
    from camdf_lab.stored import stored

    kept = stored_results(options.results)
    cells = [cell for table in TABLES.values() for cell in table.cells]
    again = _Jobs(options.workers, fresh=True)(sampled_cells(cells, options.cells, options.seed))
    differences = cell_disagreements(kept, again)
    for study in STUDIES:
        rows = stored(options.results, study.name)
        differ = study.recheck(rows, options.seed, _Jobs(options.workers, fresh=True))
        differences += [f"{study.name}, {line}" for line in differ]
    differ = recheck(stored(options.results, PEERS), options.results, options.seed)
    differences += [f"{PEERS}, {line}" for line in differ]
    domains = len({cell.domain for cell in again})
    print(
        f"{len(again)} cells of {domains} domains and a sample of {len(STUDIES)} studies past the paper measured again"
    )
    return differences


def _checked_whole(options: argparse.Namespace) -> list[str]:
    """Every cell and figure of the paper, and every row of every study past it, where they differ."""
    from camdf_lab.beyond import STUDIES
    from camdf_lab.paper import TABLES
    from camdf_lab.paper.results import disagreements, stored_results
    from camdf_lab.peers.study import measure
    from camdf_lab.stored import stored
    from camdf_lab.study import row_disagreements

    run = _Jobs(options.workers, within=CHECKED)
    outcomes = run([cell for table in TABLES.values() for cell in table.cells])
    differences = disagreements(stored_results(options.results), TABLES.values(), outcomes)
    print(f"the paper: {len(outcomes)} cells measured again, {len(differences)} figures differ", flush=True)
    for study in STUDIES:
        rows = study.measure(run)
        differ = [f"{study.name}, {line}" for line in row_disagreements(stored(options.results, study.name), rows)]
        print(f"{study.name}: {len(rows)} rows measured again, {len(differ)} figures differ", flush=True)
        differences += differ
    differ = row_disagreements(stored(options.results, PEERS), measure(options.results))
    print(f"{PEERS}: measured again, {len(differ)} figures differ", flush=True)
    return differences + [f"{PEERS}, {line}" for line in differ]


def _past(options: argparse.Namespace) -> int:
    from camdf_lab.beyond import STUDIES
    from camdf_lab.beyond.past_the_paper import write_past_the_paper
    from camdf_lab.stored import store

    names = [study.name for study in STUDIES]
    if options.study not in (*names, "all", "page"):
        raise UsageError(f"There is no study {options.study!r} past the paper. Known: {', '.join(names)}, all, page")
    into = options.into
    if into is None:
        into = held() if options.study == "page" else RESULTS
    for study in STUDIES:
        if options.study in (study.name, "all"):
            rows = study.measure(_Jobs(options.workers))
            store(into, study.name, rows)
            print(f"{len(rows)} rows: stored in {into / study.name}.csv")
    if options.study in names and (lacking := [name for name in names if not (into / f"{name}.csv").is_file()]):
        print(f"The page is not written: {into} lacks {', '.join(lacking)}. All of them: camdf-lab past all")
        return 0
    write_past_the_paper(into, STUDIES, options.page)
    print(f"wrote {options.page}")
    return 0


def _live(options: argparse.Namespace) -> int:
    from camdf_lab.paper.live import store_episodes, write_live

    results = options.results
    if results is None:
        results = held() if options.episodes is None else RESULTS
    if options.episodes is not None:
        store_episodes(options.episodes, results)
    write_live(results, options.page)
    print(f"wrote {options.page}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from camdf_lab.paper.replication import picture_cells, write_markdown
    from camdf_lab.paper.results import stored_results

    kept = stored_results(options.results)
    write_markdown(kept, _Jobs()(picture_cells()), options.output)
    print(f"wrote {options.output}")
    return 0


def _table(name: str) -> Table:
    from camdf_lab.paper import TABLES

    if name not in TABLES:
        raise UsageError(f"There is no table {name!r}. Known: {', '.join(TABLES)}")
    return TABLES[name]


@dataclass(frozen=True)
class _Jobs:
    """Jobs worked off with progress; finished ones are kept `within` the cache, and read again unless `fresh`."""

    workers: int = 0
    fresh: bool = False
    within: str = ""

    def __call__(self, jobs: Sequence[J], /) -> dict[J, Outcomes]:
        from camdf_lab.jobs import run_jobs

        with shown("cells") as progress:
            return run_jobs(jobs, workers=self.workers, cache=self._cache(), progress=progress)

    def rows(self, rows_of: Callable[..., Rows], places: Iterable[Sequence[Any]], /) -> Rows:
        from camdf_lab.jobs import measure_rows

        with shown("jobs") as progress:
            return measure_rows(rows_of, places, workers=self.workers, cache=self._cache(), progress=progress)

    def _cache(self) -> Path | None:
        from camdf_lab.jobs import default_cache

        return None if self.fresh else default_cache() / self.within
