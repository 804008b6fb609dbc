"""usage: what each MCP server, tool and skill cost on this machine, and how often it was used."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from camdf.cli.parser import add_json, check_output, print_json
from camdf.cli.tools import bar_block, read_prices
from camdf.datasets.examples import Example, write_examples
from camdf.integrations.gateway.config import GATEWAY
from camdf.integrations.transcripts.accounts import (
    ENOUGH_SESSIONS,
    KEEP,
    LEAVE,
    TAKE_AWAY,
    TOO_EARLY,
    Account,
    Project,
    projects_of,
)
from camdf.integrations.transcripts.charges import PricesOfModel
from camdf.integrations.transcripts.reading import Transcripts, read_transcripts
from camdf.integrations.transcripts.thread import LONGEST_NAME, TITLES, Thread, server_of
from camdf.prices import Prices
from camdf.runtime.visible import visible

FIRST_PROJECTS = 5
"""How many projects are shown without `--all`."""

NAMED = 6
"""How many names a line has."""

BAR = 24
"""How long the bar is of what costs most."""

SKILLS = "skills"

MEANINGS = {
    KEEP: "having them in every prompt is cheaper than searching for them",
    LEAVE: "used, but too rarely to pay for a place in every prompt",
    TAKE_AWAY: f"not used in {ENOUGH_SESSIONS} or more sessions that had them",
    TOO_EARLY: f"not used yet, in fewer than {ENOUGH_SESSIONS} sessions",
}


def add_commands(commands: Any) -> None:
    """usage."""
    parser = commands.add(_usage)
    parser.add_argument(
        "--prices",
        type=_prices_of_a_model,
        action="append",
        default=[],
        metavar="[MODEL=]UNCACHED,CACHED",
        help="dollars for a million tokens, of models whose names begin so; repeat it (default: examples, 3.00,0.30)",
    )
    parser.add_argument(
        "--all", action="store_true", help=f"show every project, and not only the first {FIRST_PROJECTS}"
    )
    parser.add_argument(
        "--examples",
        type=Path,
        metavar="FILE",
        help="write what you asked and the MCP tools that it took, for camdf mcp and camdf fit: keeps texts (.jsonl)",
    )
    add_json(parser)


def _prices_of_a_model(written: str) -> tuple[str, Prices]:
    model, _, prices = written.rpartition("=")
    return model, read_prices(prices)


def _usage(options: argparse.Namespace) -> int:
    """Say what each MCP server, tool and skill cost you so far.

    camdf usage
    """
    if options.examples is not None:
        check_output(options.examples, (".jsonl",))
    prices_of = _by_model(options.prices)
    read = read_transcripts(with_texts=options.examples is not None)
    examples = list(_examples(read.threads))
    if options.examples is not None:
        write_examples(options.examples, examples)
    projects = projects_of(read.threads, prices_of)
    if options.json:
        print_json(_document(read, projects, prices_of))
        return 0
    for line in _lines(read, projects, prices_of, whole=options.all):
        print(line)
    if options.examples is not None:
        needing = sum(bool(example.needed) for example in examples)
        print(f"wrote {options.examples}: {len(examples):,} requests with their texts; {needing:,} took an MCP tool")
    return 0


def _by_model(given: Iterable[tuple[str, Prices]]) -> PricesOfModel:
    """The prices of a model: those of the longest beginning of its name that has any, else the examples."""
    known = sorted(given, key=lambda pair: -len(pair[0]))
    examples = Prices()

    def prices_of(model: str) -> Prices:
        return next((prices for name, prices in known if model.startswith(name)), examples)

    return prices_of


def _examples(threads: Iterable[Thread]) -> Iterator[Example]:
    """Requests with the tools that they took, as a gateway and a fit call them."""
    for thread in threads:
        for asked in thread.asked:
            if asked.text.strip():
                tools = tuple(name.replace("/", "_", 1) for name in asked.tools)
                yield Example(asked.text, tools, origin="logged", group=thread.session)


def _document(read: Transcripts, projects: Sequence[Project], prices_of: PricesOfModel) -> dict[str, Any]:
    """The whole account for machines."""
    models = sorted({model for project in projects for model in project.model_calls})
    used = {model: prices_of(model) for model in models}
    return {
        "files": read.files,
        "bytes": read.bytes,
        "passed_over": dict(read.problems),
        "prices": {
            _shown(name): {"uncached": prices.uncached, "cached": prices.cached} for name, prices in used.items()
        },
        "dollars": sum(project.dollars for project in projects),
        "with_camdf": sum(project.with_camdf for project in projects),
        "projects": [_project_document(project) for project in projects],
    }


def _project_document(project: Project) -> dict[str, Any]:
    return {
        "client": project.client,
        "folder": _shown(project.folder),
        "sessions": project.sessions,
        "model_calls": _shown_counts(project.model_calls),
        "dollars": project.dollars,
        "with_camdf": project.with_camdf,
        "tools": [_account_document(account) for account in project.tools],
        "skills": [_account_document(account) for account in project.skills],
        "own_tools": _shown_counts(project.own_tools),
        "idle_servers": [_shown(server) for server in project.idle_servers],
    }


def _account_document(account: Account) -> dict[str, Any]:
    return {**account._asdict(), "name": _shown(account.name)}


def _shown_counts(counts: Counter[str]) -> dict[str, int]:
    return {_shown(name): count for name, count in counts.most_common()}


def _shown(name: str) -> str:
    return visible(name, 2 * LONGEST_NAME)


def _lines(read: Transcripts, projects: Sequence[Project], prices_of: PricesOfModel, *, whole: bool) -> Iterator[str]:
    """The whole account for a terminal."""
    yield _what_was_read(read, projects)
    if not projects:
        yield "Nothing was found. Claude Code writes below ~/.claude/projects, Codex below ~/.codex/sessions."
        return
    shown = projects if whole else projects[:FIRST_PROJECTS]
    width = shutil.get_terminal_size().columns
    for project in shown:
        yield ""
        yield from _project_lines(project, width)
    if len(shown) < len(projects):
        rest = projects[len(shown) :]
        yield f"\nMore projects: {len(rest):,}, {_money(sum(project.dollars for project in rest))}: camdf usage --all"
    yield ""
    yield from _closing_lines(projects, prices_of)


def _what_was_read(read: Transcripts, projects: Sequence[Project]) -> str:
    sessions = sum(project.sessions for project in projects)
    calls = sum(project.model_calls.total() for project in projects)
    said = (
        f"Read {read.files:,} transcripts ({read.bytes / 1e6:,.1f} MB) here, and sent nothing anywhere: "
        f"sessions: {sessions:,}, model calls: {calls:,}."
    )
    if read.problems:
        passed = ", ".join(f"{count:,} {why}" for why, count in sorted(read.problems.items()))
        said += f"\nPassed over: {passed}."
    return said


def _project_lines(project: Project, width: int) -> Iterator[str]:
    calls = project.model_calls.total()
    place = visible(_from_home(project.folder), 80)
    yield f"{TITLES[project.client]} in {place}, sessions: {project.sessions:,}, model calls: {calls:,}"
    groups = _groups(project)
    most = max((sum(account.dollars for account in accounts) for accounts in groups.values()), default=0.0)
    name_width = max((len(visible(name, 24)) for name in groups), default=0)
    for name, accounts in groups.items():
        yield from _group_lines(visible(name, 24).ljust(name_width), accounts, most, width)
    for server in project.idle_servers[:NAMED]:
        yield f"  {visible(server, 24)}: never called, and its definitions are not known. Run: camdf try"
    if project.own_tools:
        own = [f"{visible(name, 24)} {count:,}" for name, count in project.own_tools.most_common(NAMED)]
        yield f"  its own tools: {', '.join(own)}"
    if any(server_of(tool.name) == GATEWAY for tool in project.tools):
        yield "  behind camdf mcp already. Its receipt: camdf mcp report"
    elif project.tools:
        yield f"  behind camdf mcp: {_beside(project.with_camdf, project.dollars)}"


def _groups(project: Project) -> dict[str, list[Account]]:
    """The accounts of each server, those first that cost most, and then those of the skills."""
    groups: dict[str, list[Account]] = {}
    for tool in project.tools:
        groups.setdefault(server_of(tool.name), []).append(tool)
    if project.skills:
        groups[SKILLS] = groups.get(SKILLS, []) + project.skills
    return groups


def _group_lines(name: str, accounts: Sequence[Account], most: float, width: int) -> Iterator[str]:
    dollars = sum(account.dollars for account in accounts)
    tokens = sum(account.tokens for account in accounts)
    about = "about " if any(account.is_estimated for account in accounts) else ""
    bar = ""
    if most:
        bar = bar_block() * round(BAR * dollars / most)
    size = f"{about}{tokens:,} tokens"
    uses = sum(account.uses for account in accounts)
    yield f"  {name}  {_money(dollars):>9}  {bar:<{BAR}}  {len(accounts):>3} of {size}, used: {uses:,}"
    for verdict in (KEEP, LEAVE, TAKE_AWAY, TOO_EARLY):
        judged = [account for account in accounts if account.verdict == verdict]
        if judged:
            yield f"    {verdict:<19}  {_names(judged, width - 25)}"


def _names(accounts: Sequence[Account], room: int) -> str:
    """The names of some tools, those first that were used most."""
    first = sorted(accounts, key=lambda account: (-account.uses, account.name))
    named: list[str] = []
    for account in first[:NAMED]:
        name = visible(account.name.partition("/")[2] or account.name, 40)
        if account.uses:
            name = f"{name} ({account.uses:,})"
        named.append(name)
        if len(", ".join(named)) > room:
            break
    more = len(accounts) - len(named)
    if more:
        named.append(f"and {more} more")
    return ", ".join(named)


def _closing_lines(projects: Sequence[Project], prices_of: PricesOfModel) -> Iterator[str]:
    seen = {account.verdict for project in projects for account in (*project.tools, *project.skills)}
    for verdict, meaning in MEANINGS.items():
        if verdict in seen:
            yield f"{verdict:<19}  {meaning}"
    now = sum(project.dollars for project in projects)
    if now:
        yield f"All MCP tools behind camdf mcp: {_beside(sum(project.with_camdf for project in projects), now)}"
    models: Counter[str] = Counter()
    for project in projects:
        models.update(project.model_calls)
    for model, _ in models.most_common(NAMED):
        prices = prices_of(model)
        name = visible(model, 40) or "a model"
        yield f"{name}: ${prices.uncached:g} and, cached, ${prices.cached:g} a million tokens"
    if any(prices_of(model) == Prices() for model in models):
        yield "Prices of $3 and $0.3 are examples. Say yours: camdf usage --prices MODEL=UNCACHED,CACHED"
    if any(account.is_estimated for project in projects for account in project.tools):
        yield "About: no transcript has these definitions, so each counts as much as the others do on average."


def _beside(dollars: float, now: float) -> str:
    """What something else would have cost, beside what it costs now."""
    if dollars < now:
        return f"{_money(dollars)} instead of {_money(now)}, {1 - dollars / now:.0%} less"
    return f"{_money(dollars)} instead of {_money(now)}, so nothing would be saved"


def _money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"


def _from_home(folder: str) -> str:
    """A folder as shells show it."""
    home = str(Path.home())
    if folder == home or folder.startswith(f"{home}/"):
        return f"~{folder[len(home) :]}"
    return folder or "no folder"
