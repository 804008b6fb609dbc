"""docs/peers.md: one table for each ranking, one picture, and in which domains camdf loses; from stored rows alone."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from camdf._drawing import BLUE, COLUMN, GRAY, VERMILLION, canvas, styled
from camdf_lab.beyond.batches import BATCHES, IN_TABLES
from camdf_lab.page import picture_line, write_page
from camdf_lab.peers import study
from camdf_lab.peers.answers import cases
from camdf_lab.peers.methods import CAMDF_COLD, CAMDF_FITTED, CAMDF_THREE, EVERYTHING, METHODS
from camdf_lab.peers.study import COMMAND, FINAL, NAME, SETTINGS, WITH_TOOL_SEARCH
from camdf_lab.stored import Row, Rows, stored

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

WITHOUT_LABELS = (
    *(EVERYTHING, "top 5", "top 10", "score > 0.3", "LiteLLM's filter", "semantic-router", "FastMCP's BM25 search"),
    "LangChain's selector",
)
"""Every way but camdf's that takes no label."""

SHOWN_AS = {FINAL: FINAL, WITH_TOOL_SEARCH: "with tool search"}
RANKED = {"minilm": "MiniLM's similarities, or words", "claude": "a language model's judgement"}


def peers_page(results: Path) -> str:
    """The text of the page."""
    rows = stored(results, NAME, COMMAND)
    parts = [OPENING, _headlines(rows), picture_line("peers", "Payoff and tokens of every way") + "\n"]
    for scorer in METHODS:
        parts += [f"## With {RANKED[scorer]}", INTRODUCTION[scorer]]
        for batch in BATCHES:
            parts += [_table(rows, batch, scorer)]
    parts += [_small(results), _losses(rows), _assumptions()]
    return "\n".join(parts).rstrip() + "\n"


def write_peers(results: Path, path: Path) -> None:
    """The page, and its picture beside it."""
    write_page(path, peers_page(results), {"peers": peers_picture(stored(results, NAME, COMMAND))})


OPENING = """# Against the peers

What people run today to cut a list of tools, installed and run on the same tasks and the same candidates as camdf:
LiteLLM's semantic filter (1.106), semantic-router (0.3, the one that LiteLLM takes), FastMCP's search (4.1),
LangChain's `LLMToolSelectorMiddleware` (1.4), a provider's way (a few tools that stay loaded, and a search for the
rest), constants, and giving everything. `python benchmarks/peers.py ask` asked them, `camdf-lab run peers` measures
what they answered and writes this page.

How to read it: a way *pays* 1 for a task that gets every needed tool, less what its tools cost. Where *a miss is final*
the agent cannot search for what was cut. With tool search it can, and a task that lacks a tool still pays a part.
*Shipped* are the nine domains that camdf was developed on, *later* the eight that it was not. All other words are in
the [glossary](../../docs/glossary.md).
"""

INTRODUCTION = {
    "minilm": """
All of these cost no call of a language model. LiteLLM, semantic-router, the constants and camdf go by the same
embedding, all-MiniLM-L6-v2; LiteLLM embeds descriptions without names. The searches go by words.
""",
    "claude": """
Here a language model reads the request and every candidate before the agent begins: a call that all rows but
'everything' pay for. LangChain's selector is handed, as its model's answer, every tool that Claude scored at least
0.5: a ceiling for it, since few selectors judge as well. camdf and the constants get the same scores. Only domains
that have them.
""",
}


def _of(rows: Rows, batch: str, scorer: str, method: str, setting: str, domain: str = "all") -> Row:
    place = (IN_TABLES[batch], domain, scorer, method, setting)
    names = ("look", "domain", "scorer", "method", "setting")
    return next(row for row in rows if tuple(row[name] for name in names) == place)


def _domains(rows: Rows, batch: str, scorer: str) -> list[str]:
    return list(
        dict.fromkeys(
            str(row["domain"])
            for row in rows
            if row["look"] == IN_TABLES[batch] and row["scorer"] == scorer and row["domain"] != "all"
        )
    )


def _table(rows: Rows, batch: str, scorer: str) -> str:
    count = len(_domains(rows, batch, scorer))
    tasks = int(_of(rows, batch, scorer, EVERYTHING, FINAL)["tasks"])
    lines = [
        f"**{batch.capitalize()} domains: {count}, {tasks} tasks.** Left: a miss is final. Right: with tool search.\n",
        "| way | tools | tokens | sufficient | dollars | payoff | camdf fitted pays more by "
        "| tools | misses | sufficient in the end | dollars | payoff | camdf fitted pays more by | time |",
        "|" + " --- |" * 14,
    ]
    for method in METHODS[scorer]:
        one, two = (_of(rows, batch, scorer, method.name, setting) for setting in (FINAL, WITH_TOOL_SEARCH))
        time = "" if isnan(one["latency"]) else f"{one['latency']:.1f}"
        shown = f"**{method.name}**" if method.name.startswith("camdf") else method.name
        lines.append(
            f"| {shown} | {one['tools']:.1f} | {one['tokens']:,.0f} | {one['sufficient']:.2f} | {one['dollars']:.4f} "
            f"| {_paid(one)} | {_behind(one)} | {two['tools']:.1f} | {two['misses']:.2f} | {two['repaired']:.2f} "
            f"| {two['dollars']:.4f} | {_paid(two)} | {_behind(two)} | {'1' if shown[0] == '*' else time} |"
        )
    return "\n".join([*lines, ""])


def _paid(row: Row) -> str:
    return f"{row['payoff']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"


def _behind(row: Row) -> str:
    if row["method"] == CAMDF_FITTED:
        return ""
    return f"{row['behind']:+.3f} [{row['behind_low']:+.3f}, {row['behind_high']:+.3f}]"


def _headlines(rows: Rows) -> str:
    lines = []
    for batch in BATCHES:
        fitted, cold, three = (
            _of(rows, batch, "minilm", name, FINAL) for name in (CAMDF_FITTED, CAMDF_COLD, CAMDF_THREE)
        )
        everything = _of(rows, batch, "minilm", EVERYTHING, FINAL)
        tuned = _best(
            rows, batch, "minilm", [m.name for m in METHODS["minilm"] if not m.name.startswith("camdf")], FINAL
        )
        plain = _best(rows, batch, "minilm", [m.name for m in METHODS["minilm"] if m.name in WITHOUT_LABELS], FINAL)
        lines.append(
            f"**{batch.capitalize()} domains**, embedding, a miss is final: camdf fitted on about 38 labels exposes "
            f"{fitted['tokens']:,.0f} tokens of {everything['tokens']:,.0f} and pays {fitted['payoff']:+.3f}; the best "
            f"of all others, {tuned['method']}, {tuned['payoff']:+.3f}; with three labels camdf pays "
            f"{three['payoff']:+.3f}. Without a label it pays {cold['payoff']:+.3f}, the best that needs none "
            f"({plain['method']}) {plain['payoff']:+.3f}."
        )
        ceiling, judged = (_of(rows, batch, "claude", name, FINAL) for name in ("LangChain's selector", CAMDF_FITTED))
        unlabelled = _of(rows, batch, "claude", CAMDF_COLD, FINAL)
        lines.append(
            f"**{batch.capitalize()} domains**, a language model's scores: LangChain's selector pays "
            f"{ceiling['payoff']:+.3f} at {ceiling['dollars']:.4f} dollars, camdf without a label "
            f"{unlabelled['payoff']:+.3f} at {unlabelled['dollars']:.4f}, fitted {judged['payoff']:+.3f} at "
            f"{judged['dollars']:.4f}."
        )
    return "\n".join(_wrapped(line, "- ") for line in lines) + "\n"


def _best(rows: Rows, batch: str, scorer: str, names: list[str], setting: str) -> Row:
    return max((_of(rows, batch, scorer, name, setting) for name in names), key=lambda row: float(row["payoff"]))


def lost(rows: Rows, scorer: str, setting: str, method: str, against: list[str]) -> list[tuple[str, str, float]]:
    """The domains in which the best of some others pays more: the domain, that other, and by how much."""
    behind = []
    for batch in BATCHES:
        for domain in _domains(rows, batch, scorer):
            own = _of(rows, batch, scorer, method, setting, domain)["payoff"]
            others = {name: _of(rows, batch, scorer, name, setting, domain)["payoff"] for name in against}
            best = max(others, key=lambda name: float(others[name]))
            if others[best] > own + 5e-4:
                behind.append((domain, best, float(others[best] - own)))
    return sorted(behind, key=lambda loss: -loss[2])


def _small(results: Path) -> str:
    rows = study.small_rows(cases(results))
    if not rows:
        return ""
    lines = [
        "| way | tools | sufficient | payoff, a miss is final |",
        "| --- | --- | --- | --- |",
        *(f"| {row['method']} | {row['tools']:.1f} | {row['sufficient']:.2f} | {row['payoff']:+.3f} |" for row in rows),
    ]
    told = SMALL_TEXT.format(**rows[0])
    return "\n".join(["### A small model as the selector\n", _wrapped(told), "", *lines, ""])


SMALL_TEXT = """
The selector with a real model on this machine, SmolLM2-135M, is a floor: {tasks} tasks, one a domain, so read it as a
smoke test and not as a figure. {failed:.0%} of the answers were no valid list within 64 tokens, which by the selector's
default is an error and here hands over nothing. A task took {seconds:.0f} seconds on a busy machine. The server turns
the schema into a grammar, so that the model sees the request and names tools without having read their descriptions.
"""


def _losses(rows: Rows) -> str:
    lines = [
        "## Where camdf loses\n",
        "Domain by domain, against the best of all other ways there, picked with hindsight, on at most 50 tasks each.",
        "The ways without labels are set against camdf without a label, all others against camdf fitted.\n",
        "| | setting | camdf pays less in | most in |",
        "| --- | --- | --- | --- |",
    ]
    for scorer in METHODS:
        every = [method.name for method in METHODS[scorer] if not method.name.startswith("camdf")]
        plain = [name for name in WITHOUT_LABELS if name in every]
        total = sum(len(_domains(rows, batch, scorer)) for batch in BATCHES)
        for setting in SETTINGS:
            for method, against in ((CAMDF_COLD, plain), (CAMDF_FITTED, every)):
                losses = lost(rows, scorer, setting, method, against)
                most = "; ".join(f"{domain} ({by:.3f} to {name})" for domain, name, by in losses[:3])
                lines.append(
                    f"| {method}, {scorer} | {SHOWN_AS[setting]} | {len(losses)} of {total} domains | {most} |"
                )
    whole, search, read, scored = (
        float(_of(rows, "shipped", scorer, name, FINAL)["dollars"])
        for scorer, name in (
            ("minilm", EVERYTHING),
            ("minilm", "FastMCP's BM25 search"),
            ("claude", "LangChain's selector"),
            ("claude", CAMDF_FITTED),
        )
    )
    given = float(_of(rows, "shipped", "claude", EVERYTHING, FINAL)["dollars"])
    tools = _of(rows, "shipped", "minilm", EVERYTHING, FINAL)["tools"]
    told = DOLLARS.format(tools=tools, whole=whole, search=search, read=read, scored=scored, given=given)
    return "\n".join([*lines, "", _wrapped(told), ""])


DOLLARS = """
And in dollars alone, on the shipped domains: giving whole lists of {tools:.0f} tools costs {whole:.4f} dollars a task,
a search first {search:.4f}. Where a language model reads the list first, LangChain's selector costs {read:.4f} and
camdf, whose scorer writes a number for every tool, {scored:.4f}: more than the {given:.4f} of giving the whole list. So
lists of this length are not worth a language model's call for their tokens alone; they are where a tool costs more
than its tokens (wrong calls, exposure, attention), or where lists are far longer ([415 tools](live.md#415-tools)).
"""


def _assumptions() -> str:
    final, search = (SETTINGS[setting].cost_pressure for setting in (FINAL, WITH_TOOL_SEARCH))
    items = ASSUMPTIONS.format(final=final, search=search, **vars(study))
    return "\n".join(["## How it was measured\n", *(_wrapped(item, "- ") for item in items.strip().split("\n\n"))])


ASSUMPTIONS = """
**Tasks.** All 17 domains; at most 50 tasks of each, drawn by seed. Candidates are those of the shipped rankings (at
most 50), so no way here can find a tool that the ranking's first stage missed. The texts do not ship.

**Labels.** Tasks are decided on in four parts by what was learned on the other three, groups kept together: about 38
labels. 'Tuned' is the choice of limits, thresholds and loaded tools that pays most there; 'most used' are the tools
that most of those tasks required. camdf's priors had not seen the domain. Three labels are drawn three times.

**Payoff.** A miss is final: the value is 1 if the set holds all that the task requires, and a tool costs {final:g}.
With tool search: a set that misses k listed tools is worth {RECOURSE:g}^k, and a tool costs {search:g}. Domains count
alike; intervals are 95%, bootstrapped by group within domains.

**Searches.** FastMCP and the provider's way answer a search, and what an agent would type is not known: here it is the
request itself, and for the pattern the request's words, up to 200 characters, joined by 'or'. FastMCP's regex search
runs the pattern and keeps the order of the catalogue. A real agent searches again and in better words; with tool search
that is counted, without it is not. The first search is in the dollars and not in the payoff.

**Tool search** finds a missed tool with probability {FOUND_SHARE:g} ([the first
search](../../docs/recourse.md#how-often-the-first-search-finds-it), {TOOLS_ANSWERED} answers of 40 tools), the same for
all; 'sufficient in the end' is the share of tasks whose every missed tool would be found.

**Dollars.** {PRICES.uncached:g} for a million tokens, {PRICES.cached:g} for cached ones, {OUTPUT:g} for written ones;
{PRICES.turns:g} requests a task, {INSTRUCTIONS:,} tokens of instructions, {SEARCH_TOKENS} for its two tools. Tokens
are characters / 4 of name and description, as the texts have no parameters. A model that judges reads request and
candidates once, uncached, and writes {NAME_TOKENS} tokens for each name that the selector chooses, or {SCORE_TOKENS}
for the score of each candidate. Embedding a request is free. Examples, not a price list.

**Time** is the processor time of a decision over that of camdf's gate in the same process, the median over domains of
medians over ten tasks. Vectors and camdf's scores are looked up, not computed. FastMCP's is a call through its client,
LangChain's is without the language model's answer.

**Not measured**: the selector with a language model between the two, and providers' own hosted searches.
"""


def _wrapped(text: str, mark: str = "") -> str:
    lead = " " * len(mark)
    return fill(" ".join(text.split()), 120, initial_indent=mark, subsequent_indent=lead, break_on_hyphens=False)


@styled
def peers_picture(rows: Rows) -> Picture:
    """What every way pays where a miss is final, with its interval: a panel a batch; what is left of it is written."""
    names = [method.name for method in METHODS["minilm"]][::-1]
    drawn, grid = canvas(2.2 * COLUMN, 0.19 * len(names) + 0.7, 1, len(BATCHES), sharey=True)
    for axes, batch in zip(np.ravel(grid), BATCHES, strict=True):
        for height, name in enumerate(names):
            row = _of(rows, batch, "minilm", name, FINAL)
            marker, colour = _look(name)
            if row["payoff"] < LEFT:
                axes.text(LEFT, height, f"\u2190 {row['payoff']:.2f}", fontsize=7, color=colour, va="center")
            else:
                axes.plot([row["low"], row["high"]], [height] * 2, color=colour, linewidth=1.2)
                axes.plot(row["payoff"], height, marker, color=colour, markersize=4, mew=0)
            said = f"{row['tokens']:,.0f}"
            axes.text(RIGHT, height, said, fontsize=6.5, color=colour, va="center", ha="right")
        axes.axvline(0, color=GRAY, linewidth=0.6)
        axes.set(
            title=f"{batch} domains; right: tokens exposed",
            xlim=(LEFT - 0.02, RIGHT),
            ylim=(-0.6, len(names) - 0.4),
            xlabel="payoff, a miss is final",
        )
        axes.set_yticks(range(len(names)), names)
    return drawn


LEFT, RIGHT = -0.22, 0.52
"""The ends of the picture."""


def _look(name: str) -> tuple[str, str]:
    """Marker and colour: camdf's own, ways that learn from labels, ways as they come."""
    if name.startswith("camdf"):
        return "D", BLUE
    return ("s", VERMILLION) if "tuned" in name or "most used" in name else ("o", GRAY)
