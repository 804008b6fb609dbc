"""docs/peers.md: what every way chose on day one and after some labels, what that cost, and where camdf loses."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf_lab.beyond.batches import BATCHES, IN_TABLES, batch_of
from camdf_lab.page import picture_line, write_page
from camdf_lab.peers import study
from camdf_lab.peers.answers import Case, Daily, Everyday, cases_of, everyday, read_answers
from camdf_lab.peers.methods import (
    CAMDF_COLD,
    CAMDF_EXAMPLES,
    CAMDF_FITTED,
    CAMDF_PAST,
    CAMDF_TEXTS,
    CAMDF_THREE,
    EVERYTHING,
    METHODS,
)
from camdf_lab.peers.study import COMMAND, FINAL, NAME, PLACE, SETTINGS, WITH_TOOL_SEARCH
from camdf_lab.stored import Row, Rows, stored
from camdf_lab.study import mean_of, place_of_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

LABELED = "tuned", "most used"
"""What stands in the names of the peers' ways that learn from labels."""

SHOWN_AS = {FINAL: FINAL, WITH_TOOL_SEARCH: "with tool search"}
EVERYDAY_WAYS = {
    "everything": ("every tool", "the whole list"),
    "minilm": ("the best by MiniLM, 5", "a new list each turn"),
    "litellm": ("LiteLLM's filter, 10", "a new list each turn"),
    "semantic-router-1": ("semantic-router, 1", "a new list each turn"),
    "toolsieve": ("toolsieve, 3", "a search that answers"),
    "graph-tool-call": ("graph-tool-call, 10", "a search that answers"),
    "graph-tool-call-minilm": ("graph-tool-call with MiniLM, 10", "a search that answers"),
    "fastmcp-bm25": ("FastMCP's search, 5", "a search that answers"),
    "toolhunch": ("toolhunch's search, 10", "a search that adds to the list"),
    "haystack": ("Haystack's search, 3", "a search that adds to the list"),
    "camdf": ("**camdf**, `Gate.start`, 8", "one list, and a search that answers"),
    "camdf-minilm": ("**camdf**, the same with MiniLM, 8", "one list, and a search that answers"),
    "camdf-examples": ("**camdf**, the same with examples, 8", "one list, and a search that answers"),
}
"""What the everyday tables call each way with the number of its tools, and how its choice reaches the model."""

SIZES = ("40", "400")
OURS = ("camdf", "camdf-minilm", "camdf-examples")
BEST = 8
"""How many tools of a ranking the table of everyday requests takes: as many as `Gate.start` loads."""


def peers_page(results: Path) -> str:
    """The text of the page."""
    rows = stored(results, NAME, COMMAND)
    arrays = read_answers(results)
    daily = everyday(arrays)
    asked = {key.split("/")[2] for key in arrays if key.count("/") == 3}
    packages = ", ".join(shown for name, shown in PACKAGES.items() if name in asked)
    parts = [
        OPENING.format(packages=_wrapped(INSTALLED.format(packages=packages))),
        _summary(rows, daily),
        picture_line("peers", "Payoff and tokens of every way") + "\n",
        _day_one(rows),
        _labeled(rows),
        _left(rows, cases_of(arrays)),
        _everyday(daily),
        _judged(rows),
        _losses(rows),
        _assumptions(),
    ]
    return "\n".join(parts).rstrip() + "\n"


def write_peers(results: Path, path: Path) -> None:
    """The page, and its picture beside it."""
    write_page(path, peers_page(results), {"peers": peers_picture(stored(results, NAME, COMMAND))})


PACKAGES = {
    "litellm": "LiteLLM's semantic filter (1.106)",
    "semantic-router": "semantic-router (0.3, the one that LiteLLM takes)",
    "semantic-router-1": "semantic-router (1.1)",
    "toolsieve": "toolsieve (0.3.1)",
    "toolhunch": "toolhunch (0.3.0, its search alone)",
    "graph-tool-call": "graph-tool-call (0.47)",
    "haystack": "Haystack's `SearchableToolset` (3.4)",
    "fastmcp-bm25": "FastMCP's search (4.1)",
    "langchain": "LangChain's `LLMToolSelectorMiddleware` (1.4)",
}
"""What the page calls each peer, with the version that was asked."""

OPENING = """# Against the peers

{packages}

A way *earns* 1 for a task that gets every needed tool, less what its tools cost. Where *a miss is final* the agent
cannot search for what was cut. With tool search it can, and a task that lacks a tool still earns a part. *Shipped* are
the nine domains that camdf was developed on, *later* the eight that it was not.
"""


INSTALLED = """
What people run today to cut a list of tools, installed and run on the same tasks and the same candidates as camdf:
{packages}, a provider's way (a few tools that stay loaded, and a search for the rest), constants, and giving
everything. `python benchmarks/peers.py ask` asked them; `camdf-lab run peers` measures what they answered and writes
this page.
"""


def _row_of(rows: Rows, batch: str, scorer: str, method: str, setting: str, domain: str = "all") -> Row:
    place = (IN_TABLES[batch], domain, scorer, method, setting)
    return next(row for row in rows if place_of_row(row, PLACE) == place)


def _domains(rows: Rows, batch: str, scorer: str, method: str = EVERYTHING) -> list[str]:
    """The domains of a batch on which a way was measured."""
    wanted = IN_TABLES[batch], scorer, method, FINAL
    measured = [row for row in rows if place_of_row(row, ("look", "scorer", "method", "setting")) == wanted]
    return [str(row["domain"]) for row in measured if row["domain"] != "all"]


def _is_ours(name: str) -> bool:
    return name.startswith("camdf")


def _learns(name: str) -> bool:
    """Whether a peer's way learns from labels."""
    return any(mark in name for mark in LABELED)


def measured_names(rows: Rows, scorer: str) -> list[str]:
    """The ways that were measured under a ranking."""
    stored_names = {row["method"] for row in rows if row["scorer"] == scorer}
    return [method.name for method in METHODS[scorer] if method.name in stored_names]


def _peers(rows: Rows, scorer: str, *, labeled: bool) -> list[str]:
    """The ways of the peers that learn from labels, or those that do not."""
    names = measured_names(rows, scorer)
    return [name for name in names if not _is_ours(name) and _learns(name) is labeled]


def _best(rows: Rows, batch: str, names: list[str], setting: str) -> Row:
    return max((_row_of(rows, batch, "minilm", name, setting) for name in names), key=lambda row: float(row["payoff"]))


def _bold(name: str) -> str:
    return f"**{name}**" if _is_ours(name) else name


def _table_lines(head: str, rows: list[str]) -> list[str]:
    return [head, "|" + " --- |" * (head.count("|") - 1), *rows, ""]


def _summary(rows: Rows, daily: Everyday) -> str:
    lines = []
    for setting in SETTINGS:
        sentences = [_on_day_one(rows, batch, setting) for batch in BATCHES]
        lines.append(f"**Day one, {SHOWN_AS[setting]}.** {' '.join(sentences)}")
    lines += [
        "**Day one with examples** that a language model wrote from the list of tools (eleven domains have them), "
        f"a miss is final: camdf earns {_with_examples(rows, CAMDF_EXAMPLES, FINAL):+.3f}, without them "
        f"{_with_examples(rows, CAMDF_COLD, FINAL):+.3f}, the top 5 {_with_examples(rows, 'top 5', FINAL):+.3f}.",
        "**About 38 labels, a miss is final.** " + " ".join(_with_labels(rows, batch) for batch in BATCHES),
        "**A language model that reads every candidate** chooses better than MiniLM, and costs more. "
        + " ".join(_read_by_a_model(rows, batch) for batch in BATCHES),
        *(_conversations(daily, size) for size in SIZES),
    ]
    return "\n".join(_wrapped(line, "- ") for line in lines) + "\n"


def _on_day_one(rows: Rows, batch: str, setting: str) -> str:
    cold = _row_of(rows, batch, "minilm", CAMDF_COLD, setting)
    best = _best(rows, batch, _peers(rows, "minilm", labeled=False), setting)
    said = "**loses to**" if cold["payoff"] < best["payoff"] else "earns more than"
    return (
        f"On the {batch} domains camdf without a label ({cold['payoff']:+.3f}) {said} the best of the others, "
        f"{best['method']} ({best['payoff']:+.3f})."
    )


def _with_labels(rows: Rows, batch: str) -> str:
    fitted = _row_of(rows, batch, "minilm", CAMDF_FITTED, FINAL)
    texts = _row_of(rows, batch, "minilm", CAMDF_TEXTS, FINAL)
    past = _row_of(rows, batch, "minilm", CAMDF_PAST, FINAL)
    best = _best(rows, batch, _peers(rows, "minilm", labeled=True), FINAL)
    return (
        f"On the {batch} domains camdf earns {fitted['payoff']:+.3f} from the ranking alone, {texts['payoff']:+.3f} "
        f"with the texts of the tasks and {past['payoff']:+.3f} where it also remembers them; the best of the others, "
        f"{best['method']}, {best['payoff']:+.3f}."
    )


def _read_by_a_model(rows: Rows, batch: str) -> str:
    selector = _row_of(rows, batch, "claude", "LangChain's selector", FINAL)
    ours = _row_of(rows, batch, "claude", CAMDF_FITTED, FINAL)
    same = _domains(rows, batch, "claude")
    by_minilm = [_row_of(rows, batch, "minilm", CAMDF_PAST, FINAL, domain) for domain in same]
    return (
        f"On {len(same)} {batch} domains LangChain's selector earns {selector['payoff']:+.3f} at "
        f"{selector['dollars']:.4f} dollars; camdf, fitted on such scores, {ours['payoff']:+.3f} at "
        f"{ours['dollars']:.4f}, and by MiniLM, remembering, {mean_of(by_minilm, 'payoff'):+.3f}."
    )


def _conversations(daily: Everyday, size: str) -> str:
    ways = daily[size]
    own, with_minilm, with_examples = (ways[name] for name in OURS)
    whole = ways[EVERYTHING]
    shown = {EVERYDAY_WAYS[name][0].rpartition(",")[0]: way for name, way in ways.items() if name not in OURS}
    others = sorted(((name, way) for name, way in shown.items() if name), key=lambda other: -other[1].after_one)
    losses = []
    for how, mine in (("Alone", own), ("With MiniLM", with_minilm)):
        better = [f"{name} ({_share_found(way)})" for name, way in others if way.after_one > mine.after_one]
        if better:
            losses.append(f"{how} it **loses to** {_listed(better)}.")
    cheaper = [way for _, way in others if way.dollars < own.dollars and way.after_one <= own.after_one]
    sentences = [
        f"**Conversations over {size} tools with a cached prompt, no examples:** {whole.dollars:.4f} dollars with all "
        f"tools. Behind `Gate.start` the share of turns that have all they need at once or after one search is "
        f"{_share_found(own)}; with MiniLM, which most of the others have, {_share_found(with_minilm)}; with examples "
        f"instead {_share_found(with_examples)}.",
        *losses,
        f"{len(cheaper)} others cost less than it does alone and have it less often.",
    ]
    return " ".join(sentences)


def _share_found(way: Daily) -> str:
    return f"{way.after_one:.2f} at {way.dollars:.4f} dollars"


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _day_one(rows: Rows) -> str:
    others = _peers(rows, "minilm", labeled=False)
    columns = " | tools | sufficient | dollars | final | search"
    head = f"| way{columns}{columns} |"
    lines = []
    for name in [*others, CAMDF_COLD]:
        cells = [_day_one_cells(rows, batch, name) for batch in BATCHES]
        lines.append(f"| {_bold(name)} | {' | '.join(cells)} |")
    best = sorted(others, key=lambda name: -_with_examples(rows, name, FINAL))[:3]
    of_made_up = []
    for name in [*best, CAMDF_COLD, CAMDF_EXAMPLES]:
        final = _with_examples(rows, name, FINAL)
        search = _with_examples(rows, name, WITH_TOOL_SEARCH)
        of_made_up.append(f"| {_bold(name)} | {final:+.3f} | {search:+.3f} |")
    count = sum(len(_domains(rows, batch, "minilm", CAMDF_EXAMPLES)) for batch in BATCHES)
    return "\n".join(
        [
            "## Day one: a list of tools and no label\n",
            _wrapped(DAY_ONE),
            "",
            *_table_lines(head, lines),
            _wrapped(EXAMPLES.format(count=count)),
            "",
            *_table_lines("| way | a miss is final | with tool search |", of_made_up),
        ]
    )


def _day_one_cells(rows: Rows, batch: str, name: str) -> str:
    final = _row_of(rows, batch, "minilm", name, FINAL)
    search = _row_of(rows, batch, "minilm", name, WITH_TOOL_SEARCH)
    return (
        f"{final['tools']:.1f} | {final['sufficient']:.2f} | {final['dollars']:.4f} | {final['payoff']:+.3f} "
        f"| {search['payoff']:+.3f}"
    )


DAY_ONE = """
Every way with its defaults. Left the shipped domains, right the later ones: tools handed over, the share of tasks that
have all they need, dollars a task, and what a task earns where a miss is final and with tool search.
"""

EXAMPLES = """
For {count} of the domains a language model wrote about 100 tasks from the list of tools alone. camdf fitted on these
has still seen no label. The mean over these domains, beside the three best of the others there:
"""


def _with_examples(rows: Rows, name: str, setting: str) -> float:
    """What a way earns in a setting over the domains for which examples were written."""
    measured = [
        _row_of(rows, batch, "minilm", name, setting, domain)
        for batch in BATCHES
        for domain in _domains(rows, batch, "minilm", CAMDF_EXAMPLES)
    ]
    return mean_of(measured, "payoff")


def _labeled(rows: Rows) -> str:
    parts = ["## About 38 labels\n", _wrapped(LABELS), ""]
    for batch in BATCHES:
        lines = []
        for name in (*_peers(rows, "minilm", labeled=True), CAMDF_THREE, CAMDF_FITTED, CAMDF_TEXTS, CAMDF_PAST):
            final = _row_of(rows, batch, "minilm", name, FINAL)
            search = _row_of(rows, batch, "minilm", name, WITH_TOOL_SEARCH)
            lines.append(
                f"| {_bold(name)} | {final['tools']:.1f} | {final['sufficient']:.2f} | {final['dollars']:.4f} "
                f"| {final['payoff']:+.3f} | {_behind(final)} | {search['dollars']:.4f} | {search['payoff']:+.3f} "
                f"| {_behind(search)} |"
            )
        head = "| way | tools | sufficient | dollars | final | camdf, fitted: more by | dollars | search | more by |"
        count = len(_domains(rows, batch, "minilm"))
        tasks = int(_row_of(rows, batch, "minilm", EVERYTHING, FINAL)["tasks"])
        parts += [f"**{batch.capitalize()} domains: {count}, {tasks} tasks.**\n", *_table_lines(head, lines)]
    return "\n".join(parts)


LABELS = """
Every number that a way has is tuned on the same labels that camdf is fitted on. 'camdf, fitted' reads the ranking
alone, as the others do. 'With texts' also learns from what the tasks say, and 'remembering' may recall what similar
tasks needed. Left: a miss is final. Right: with tool search. 'More by' is what 'camdf, fitted' earns more, with its
interval.
"""


def _left(rows: Rows, every: list[Case]) -> str:
    of_batches: list[str] = []
    of_domains: list[str] = []
    for batch in BATCHES:
        here = _minilm_cases(every, batch)
        limits = [study.ceilings(case, FINAL) for case in here]
        known, cut = np.mean(limits, axis=0)
        of_batches.append(f"| {batch} domains | {known:+.3f} | {cut:+.3f} | {_fitted_cells(rows, batch, 'all')} |")
        for case, (known, cut) in zip(here, limits, strict=True):
            earned = _fitted_cells(rows, batch, case.domain)
            of_domains.append(f"| {case.domain} | {known:+.3f} | {cut:+.3f} | {earned} |")
    head = f"| where a miss is final | needed tools known | best cut in hindsight | {CAMDF_FITTED} | {CAMDF_PAST} |"
    return "\n".join(
        [
            "### What is left to earn\n",
            _wrapped(_left_on_shipped(rows, _minilm_cases(every, "shipped"))),
            "",
            *_table_lines(head, of_batches + of_domains),
        ]
    )


def _minilm_cases(every: list[Case], batch: str) -> list[Case]:
    return [case for case in every if batch_of(case.domain) == batch and case.scorer == "minilm"]


def _fitted_cells(rows: Rows, batch: str, domain: str) -> str:
    """What camdf earns after labels where a miss is final, from the ranking alone and remembering."""
    fitted = _row_of(rows, batch, "minilm", CAMDF_FITTED, FINAL, domain)
    past = _row_of(rows, batch, "minilm", CAMDF_PAST, FINAL, domain)
    return f"{fitted['payoff']:+.3f} | {past['payoff']:+.3f}"


def _left_on_shipped(rows: Rows, here: list[Case]) -> str:
    """What the shipped domains with next to no payoff have in common."""

    def payoff_on(domain: str) -> float:
        return float(_row_of(rows, "shipped", "minilm", CAMDF_PAST, FINAL, domain)["payoff"])

    def best_cut(case: Case) -> float:
        _, cut = study.ceilings(case, FINAL)
        return cut

    low = [case for case in here if payoff_on(case.domain) < LITTLE]
    others = [case for case in here if case not in low]
    return LEFT_TO_EARN.format(
        low=_listed([case.domain for case in low]),
        little=np.mean([payoff_on(case.domain) for case in low]),
        much=np.mean([payoff_on(case.domain) for case in others]),
        needed=np.mean([case.logged.n_required.mean() for case in low]),
        lack=np.mean([(case.logged.missing > 0).mean() for case in low]),
        cut=np.mean([best_cut(case) for case in low]),
        others=np.mean([best_cut(case) for case in others]),
        earned=payoff_on("all"),
        aim=AIM,
    )


LEFT_TO_EARN = """
'Needed tools known' hands over exactly these: no way can earn more. 'Best cut in hindsight' takes MiniLM's order as it
is and picks the best number of tools for every task, knowing what was needed. The aim was {aim:+.3f} on the shipped
domains, and {earned:+.3f} is what was measured. Of these, {low} earn {little:+.3f} on average, and the others
{much:+.3f}. Tasks of the former need {needed:.1f} tools, {lack:.0%} of them one that is not among the candidates, and
even the best cut in hindsight earns {cut:+.3f}, with the latter {others:+.3f}. Most of what is left lies there.
"""

AIM = 0.4
LITTLE = 0.1
"""What camdf should earn on the shipped domains with about 38 labels, and what counts as next to nothing there."""


def _behind(row: Row) -> str:
    if row["method"] == CAMDF_FITTED:
        return ""
    return f"{row['behind']:+.3f} [{row['behind_low']:+.3f}, {row['behind_high']:+.3f}]"


def _everyday(daily: Everyday) -> str:
    lines = []
    for name, (shown, reaches) in EVERYDAY_WAYS.items():
        if name not in daily["40"]:
            continue
        few, many = (daily[size][name] for size in SIZES)
        best = f"{few.within(BEST):.2f} | {many.within(BEST):.2f}"
        if name == "everything":
            best = "1.00 | 1.00"
        lines.append(
            f"| {shown} | {best} | {reaches} | {few.at_once:.2f}, {few.after_one:.2f} | {few.dollars:.4f} "
            f"| {many.at_once:.2f}, {many.after_one:.2f} | {many.dollars:.4f} |"
        )
    head = (
        "| way, and its number of tools | 40 tools | 400 tools | in a conversation | 40 tools | dollars | 400 tools "
        "| dollars |"
    )
    counts = {
        "requests": len(daily["40"]["camdf"].worst),
        "more": len(daily["400"]["camdf"].worst),
        "talks": sum(len(daily[size]["camdf"].talks) for size in SIZES),
        "best": BEST,
    }
    return "\n".join(
        [
            "## Everyday requests and conversations\n",
            _wrapped(EVERYDAY_TEXT.format(**counts)),
            "",
            *_table_lines(head, lines),
        ]
    )


EVERYDAY_TEXT = """
No label, tool definitions with parameters, five languages. First, the share of {requests} requests over 40 tools and of
{more} over 400 whose needed tools are all among the {best} best of the way's ranking. Then {talks} conversations, each
way with its own number of tools: the share of turns whose needed tools were there at once and after one search in the
turn's own words, and dollars a conversation under a prompt cache. A filter that makes a new list for each turn rewrites
the cached prompt; so does a search whose results join the list. An agent that did not find its tool would search again:
that is in camdf's dollars, and not in those of the others, so read them beside the shares.
"""


def _judged(rows: Rows) -> str:
    lines = []
    for name in measured_names(rows, "claude"):
        cells = [_judged_cells(rows, batch, name) for batch in BATCHES]
        lines.append(f"| {_bold(name)} | {' | '.join(cells)} |")
    columns = " | tools | dollars | final | search"
    counts = {batch: len(_domains(rows, batch, "claude")) for batch in BATCHES}
    return "\n".join(
        [
            "## With a language model's judgment\n",
            _wrapped(JUDGED.format(**counts)),
            "",
            *_table_lines(f"| way{columns}{columns} |", lines),
        ]
    )


def _judged_cells(rows: Rows, batch: str, name: str) -> str:
    final = _row_of(rows, batch, "claude", name, FINAL)
    search = _row_of(rows, batch, "claude", name, WITH_TOOL_SEARCH)
    return f"{final['tools']:.1f} | {final['dollars']:.4f} | {final['payoff']:+.3f} | {search['payoff']:+.3f}"


JUDGED = """
Here a language model reads the request and every candidate before the agent begins: a call that all rows but
'everything' pay for. LangChain's selector is handed, as its model's answer, every tool that Claude scored at least 0.5:
a ceiling for it, since few selectors judge as well. camdf and the constants get the same scores. Left the {shipped}
shipped domains that have them, right the {later} later ones.
"""


def lost(rows: Rows, scorer: str, setting: str, method: str, against: list[str]) -> list[tuple[str, str, float]]:
    """The domains in which the best of some others earns more: the domain, that other, and by how much."""
    behind = []
    for batch in BATCHES:
        for domain in _domains(rows, batch, scorer, method):
            own = _row_of(rows, batch, scorer, method, setting, domain)["payoff"]
            others = {name: _row_of(rows, batch, scorer, name, setting, domain)["payoff"] for name in against}
            best = max(others, key=lambda name: float(others[name]))
            if others[best] > own + 5e-4:
                behind.append((domain, best, float(others[best] - own)))
    return sorted(behind, key=lambda loss: -loss[2])


def contests(rows: Rows) -> list[tuple[str, str, list[str]]]:
    """Which of camdf's ways is set against which others, by ranking."""
    plain = {scorer: _peers(rows, scorer, labeled=False) for scorer in METHODS}
    every = {scorer: names + _peers(rows, scorer, labeled=True) for scorer, names in plain.items()}
    return [
        ("minilm", CAMDF_COLD, plain["minilm"]),
        ("minilm", CAMDF_EXAMPLES, plain["minilm"]),
        ("minilm", CAMDF_FITTED, every["minilm"]),
        ("minilm", CAMDF_PAST, every["minilm"]),
        ("claude", CAMDF_COLD, plain["claude"]),
        ("claude", CAMDF_FITTED, every["claude"]),
    ]


def _losses(rows: Rows) -> str:
    lines = []
    for scorer, method, against in contests(rows):
        total = sum(len(_domains(rows, batch, scorer, method)) for batch in BATCHES)
        for setting in SETTINGS:
            losses = lost(rows, scorer, setting, method, against)
            most = "; ".join(f"{domain} ({by:.3f} to {name})" for domain, name, by in losses[:2])
            lines.append(f"| {method}, {scorer} | {SHOWN_AS[setting]} | {len(losses)} of {total} | {most} |")
    dollars = {
        name: float(_row_of(rows, "shipped", scorer, way, FINAL)["dollars"])
        for name, scorer, way in (
            ("whole", "minilm", EVERYTHING),
            ("search", "minilm", "FastMCP's search"),
            ("read", "claude", "LangChain's selector"),
            ("scored", "claude", CAMDF_FITTED),
            ("given", "claude", EVERYTHING),
        )
    }
    in_dollars = DOLLARS.format(tools=_row_of(rows, "shipped", "minilm", EVERYTHING, FINAL)["tools"], **dollars)
    return "\n".join(
        [
            "## Where camdf loses\n",
            _wrapped(LOSSES),
            "",
            *_table_lines("| | setting | camdf earns less in | most in |", lines),
            _wrapped(in_dollars),
            "",
        ]
    )


LOSSES = """
Domain by domain, against the best of the other ways there, picked with hindsight, on at most 50 tasks each. camdf
without a label is set against the ways without labels, camdf with labels against all.
"""

DOLLARS = """
In dollars alone, on the shipped domains: giving whole lists of {tools:.0f} tools costs {whole:.4f} dollars a task, a
search first {search:.4f}. Where a language model reads the list first, LangChain's selector costs {read:.4f} and camdf,
whose scorer writes a number for every tool, {scored:.4f}: more than the {given:.4f} of giving the whole list. So lists
of this length are not worth a language model's call for their tokens alone.
"""


def _assumptions() -> str:
    final = SETTINGS[FINAL].cost_pressure
    search = SETTINGS[WITH_TOOL_SEARCH].cost_pressure
    items = ASSUMPTIONS.format(final=final, search=search, **vars(study))
    return "\n".join(["## How it was measured\n", *(_wrapped(item, "- ") for item in items.strip().split("\n\n"))])


ASSUMPTIONS = """
**Tasks.** All 17 domains; at most 50 tasks of each, drawn by seed. Candidates are those of the shipped rankings (at
most 50). The texts do not ship, and have no parameters, so that graph-tool-call's graph has little to go by.

**Models.** Whatever embeds has all-MiniLM-L6-v2, by its own setting: toolsieve comes with bge-small-en, the others
leave the model to their users. toolhunch's decider, which needs a model of its own, is not measured.

**Labels.** Tasks are decided on in four parts by what was learned on the other three, groups kept together: about 38
labels. 'Tuned' is the choice of limits, thresholds and loaded tools that earns most there; 'most used' are the tools
that most of those tasks required. camdf's priors had not seen the domain. Three labels are drawn three times.

**Payoff.** A miss is final: the value is 1 if the set holds all that the task requires, and a tool costs {final:g}.
With tool search: a set that misses k listed tools is worth {RECOURSE:g}^k, and a tool costs {search:g}. Domains count
alike; intervals are 95%, bootstrapped by group within domains.

**Searches.** What an agent would type is not known: here it is the request itself, and for the pattern of a regex
search its words joined by 'or'. Haystack asks for keywords instead, and toolsieve also names 25 tools, which an agent
could use. graph-tool-call answers in another order where more tools are asked for, so that its tuned rows, the first of
its whole answer, are not always what it would answer with that limit. The first search is in the dollars and not in the
payoff.

**Dollars.** {PRICES.uncached:g} for a million tokens, {PRICES.cached:g} for cached ones, {OUTPUT:g} for written ones;
{PRICES.turns:g} requests a task, {INSTRUCTIONS:,} tokens of instructions, {SEARCH_TOKENS} for the two tools of a
search, which finds a missed tool with probability {FOUND_SHARE:g}
([measured](../../docs/recourse.md#how-often-the-first-search-finds-it)). Tokens are characters / 4. A model that judges
reads the candidates once, uncached, and writes {NAME_TOKENS} tokens for a name or {SCORE_TOKENS} for a score. In
conversations, tokens that are written to the cache cost 1.25 of the price. Embedding is free. Examples, not a price
list.

**Not measured**: providers' own hosted searches, deciders and selectors with a hosted model.
"""


def _wrapped(text: str, mark: str = "") -> str:
    lead = " " * len(mark)
    return fill(" ".join(text.split()), 120, initial_indent=mark, subsequent_indent=lead, break_on_hyphens=False)


@styled
def peers_picture(rows: Rows) -> Picture:
    """What every way earns where a miss is final, with its interval: a panel a batch; what is left of it is written."""
    names = picture_names(rows)[::-1]
    drawn, grid = canvas(2.2 * COLUMN, 0.17 * len(names) + 0.7, 1, len(BATCHES), sharey=True)
    for axes, batch in zip(np.ravel(grid), BATCHES, strict=True):
        for height, name in enumerate(names):
            row = _row_of(rows, batch, "minilm", name, FINAL)
            marker, color = _look(name)
            if row["payoff"] < LEFT:
                axes.text(LEFT, height, f"\u2190 {row['payoff']:.2f}", fontsize=7, color=color, va="center")
            else:
                axes.plot([row["low"], row["high"]], [height] * 2, color=color, linewidth=1.2)
                axes.plot(row["payoff"], height, marker, color=color, markersize=4, mew=0)
            said = f"{row['tokens']:,.0f}"
            axes.text(RIGHT, height, said, fontsize=6.5, color=color, va="center", ha="right")
        axes.axvline(0, color=GRAY, linewidth=0.6)
        axes.set(
            title=f"{batch} domains; right: tokens exposed",
            xlim=(LEFT - 0.02, RIGHT),
            ylim=(-0.6, len(names) - 0.4),
            xlabel="payoff, a miss is final",
        )
        axes.set_yticks(range(len(names)), names)
    return drawn


def picture_names(rows: Rows) -> list[str]:
    """The ways that every domain has."""
    return [name for name in measured_names(rows, "minilm") if name != CAMDF_EXAMPLES]


LEFT = -0.22
RIGHT = 0.58
"""The ends of the picture."""


def _look(name: str) -> tuple[str, str]:
    """Marker and color: camdf's own, ways that learn from labels, ways as they come."""
    if _is_ours(name):
        return "D", BLUE
    return ("s", VERMILLION) if _learns(name) else ("o", GRAY)
