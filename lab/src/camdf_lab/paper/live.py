"""Live: what an agent did with fewer tools, stored as numbers.

469 episodes of the paper's 67 Retail tasks, beside the paper's tab:e2e; 480 answers to everyday requests; 72 episodes
of PlanBench-XL.

Success is a share with Wilson's 95% interval, and two conditions are compared on the same tasks by the exact McNemar
test, both as in the paper. What the episodes said and did is not stored: counts and outcomes alone.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from math import comb
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from camdf.evaluation.drawing import BLUE, COLUMN, GRAY, canvas, styled
from camdf.policies.models.label_noise import upper_end
from camdf.prices import Prices
from camdf_lab import domains
from camdf_lab.page import picture_line, write_page
from camdf_lab.stored import Row, Rows, store, stored
from camdf_lab.study import column, mean_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

SEVEN_TOOLS = "live"
MANY_TOOLS = "live_415"
"""The experiments with the paper's tasks: seven read tools, and 415 tools. Their rows are in results/NAME.csv."""

EVERYDAY = "live_everyday"
PLANBENCH = "live_planbench"
TABLES = {EVERYDAY: "everyday.csv", PLANBENCH: "planbench.csv"}
"""The experiments with other tasks, and the files that hold their numbers alone."""

COMMAND = "camdf-lab live --episodes FOLDER"
EVERY_READ_TOOL = "full"
ANNOTATED_SET = "oracle"
INSUFFICIENT = "insufficient"
WITH_CAMDF = "camdf"
WITH_SEARCH = "camdf-with-door"
ALL_415 = "full-415"
SEARCH_415 = "camdf-with-door-415"
CONDITIONS = {
    EVERY_READ_TOOL: "full: all seven",
    ANNOTATED_SET: "oracle: the annotated set",
    INSUFFICIENT: "insufficient: the annotated set less its lowest-scored tool",
    WITH_CAMDF: "camdf",
    WITH_SEARCH: "camdf with tool search",
}
"""The conditions of the first experiment, as the page calls them."""


class Reported(NamedTuple):
    """A row of tab:e2e: successes of 67, mean read tools, mean tool calls."""

    successes: int
    tools: float
    calls: float


class Compared(NamedTuple):
    """What the paper says of two conditions: tasks that only the one or only the other solved, and p as printed."""

    wins: int | None
    losses: int | None
    p: str


TASKS = 67
PAPER = {
    EVERY_READ_TOOL: Reported(39, 7.00, 6.8),
    ANNOTATED_SET: Reported(45, 3.73, 6.6),
    INSUFFICIENT: Reported(16, 2.73, 5.0),
    WITH_CAMDF: Reported(45, 4.39, 7.0),
}
"""tab:e2e. Its CAM-DF stands beside our default policy, and its CAM-DF-lite (43 of 67, 4.31 tools) was not run here."""

PAPER_TESTS = {
    (ANNOTATED_SET, EVERY_READ_TOOL): Compared(11, 5, "0.21"),
    (ANNOTATED_SET, INSUFFICIENT): Compared(34, 5, "< 0.001"),
    (WITH_CAMDF, INSUFFICIENT): Compared(29, 0, "< 0.001"),
    (WITH_CAMDF, EVERY_READ_TOOL): Compared(None, None, "0.210"),
    (WITH_CAMDF, ANNOTATED_SET): Compared(None, None, "1.000"),
}
PAIRS = (*PAPER_TESTS, (WITH_SEARCH, EVERY_READ_TOOL), (WITH_SEARCH, WITH_CAMDF), (WITH_SEARCH, INSUFFICIENT))
EVERYDAY_WAYS = {
    "all tools": "all 40 or 400 tools",
    "8 by Start, search": "the best eight by `Start`, and a search by `Start`",
    "8 by Start, search with names": "the same, and the search names the tools that are not loaded",
    "8 by examples, search": "the best eight by a first version of `Start` with examples, and a search by it",
}
"""What the agent had for an everyday request, as the page calls it."""

MOST_USED = "the ten most used, and a search"
FITTED = "default fitted on logged examples, and a search"
PLANBENCH_WAYS = {
    "search alone": "nothing but a search by `Start`",
    MOST_USED: "the ten most used tools, and the same search",
    FITTED: "camdf: the default policy, fitted on a ranking by logged examples, and a search by them",
}
"""What the agent had for a task of many steps, as the page calls it."""

PRICES = Prices()


def store_episodes(folder: Path, results: Path) -> None:
    """Keep the counts and outcomes of FOLDER's two files of episodes and two tables, and no word of them."""
    required = {task["task_id"]: set(task["required"]) for task in domains.labels("retail")}
    seven = [_of_seven(episode, required[episode["task_id"]]) for episode in _episodes(folder / "episodes.jsonl")]
    store(results, SEVEN_TOOLS, seven, COMMAND)
    many = [_of_415(episode) for episode in _episodes(folder / "episodes-415.jsonl")]
    store(results, MANY_TOOLS, many, COMMAND)
    for name, table in TABLES.items():
        with (folder / table).open(newline="", encoding="utf-8") as file:
            store(results, name, list(csv.DictReader(file)), COMMAND)


def episodes(results: Path) -> tuple[Rows, Rows]:
    """What is stored of the paper's tasks, once it is known to be what was stored."""
    return stored(results, SEVEN_TOOLS, COMMAND), stored(results, MANY_TOOLS, COMMAND)


def by_way(results: Path, name: str) -> dict[str, Rows]:
    """What is stored of an experiment with other tasks, by what the agent had."""
    ways: dict[str, list[Row]] = {}
    for row in stored(results, name, COMMAND):
        ways.setdefault(str(row["way"]), []).append(row)
    return dict(ways)


def total(rows: Rows, name: str) -> int:
    """The sum of a column."""
    return int(sum(row[name] for row in rows))


def _episodes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _of_seven(episode: dict[str, Any], required: set[str]) -> Row:
    exposed = set(episode["exposed"])
    return {
        "task_id": episode["task_id"],
        "condition": episode["condition"],
        "tools": len(exposed),
        "missed": len(required - exposed),
        "spare": len(exposed - required),
        **_outcome(episode),
    }


def _of_415(episode: dict[str, Any]) -> Row:
    return {
        "task_id": episode["task_id"],
        "condition": episode["condition"],
        "tools": episode["loaded"],
        "tokens": episode["loaded_tokens"],
        "found_tokens": episode["found_tokens"],
        "other_systems": episode["wrong_system_calls"],
        **_outcome(episode),
    }


def _outcome(episode: dict[str, Any]) -> Row:
    return {
        "found": len(episode["found"]),
        "searches": episode["searches"],
        "calls": len(episode["calls"]),
        "refused": episode["refused"],
        **{name: int(episode[name]) for name in ("state_matches", "outputs_match", "success")},
    }


def wilson(successes: int, count: int) -> tuple[float, float]:
    """The 95% interval of a share.

    >>> [round(end, 2) for end in wilson(39, 67)]
    [0.46, 0.69]
    """
    share = successes / count
    return 1 - upper_end(1 - share, count), upper_end(share, count)


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided p of so many tasks that one of two conditions alone solved: a fair coin's.

    >>> round(mcnemar(11, 5), 2), mcnemar(0, 0)
    (0.21, 1.0)
    """
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1))
    return float(min(1.0, 2 * tail / 2**n))


def of_condition(rows: Rows, condition: str) -> Rows:
    """The episodes of one condition, by task."""
    return sorted((row for row in rows if row["condition"] == condition), key=lambda row: str(row["task_id"]))


def successes(rows: Rows, condition: str) -> int:
    """How many tasks a condition solved."""
    return int(sum(row["success"] for row in of_condition(rows, condition)))


def mean(rows: Rows, condition: str, name: str) -> float:
    """The mean of a column over a condition's tasks."""
    return mean_of(of_condition(rows, condition), name)


def wins_and_losses(rows: Rows, one: str, other: str) -> tuple[int, int]:
    """How many tasks the one alone solved, and how many the other alone."""
    solved = [
        (a["success"], b["success"]) for a, b in zip(of_condition(rows, one), of_condition(rows, other), strict=True)
    ]
    return solved.count((1, 0)), solved.count((0, 1))


def live_page(results: Path) -> str:
    """docs/live.md, from what is stored alone."""
    seven, many = episodes(results)
    answers = by_way(results, EVERYDAY)
    chains = by_way(results, PLANBENCH)
    retail = [*_conditions(seven), *_tests(seven), *_many_tools(many), *WHAT_LIMITS_IT]
    lines = [*_opening(seven, many, answers, chains), *retail, *_everyday(answers), *_planbench(chains)]
    return "\n\n".join(map(_wrapped, "\n".join(lines).split("\n\n"))) + "\n"


def write_live(results: Path, path: Path) -> None:
    """The page, and its picture beside it."""
    write_page(path, live_page(results), {"live": live_picture(episodes(results)[0])})


def _opening(seven: Rows, many: Rows, answers: dict[str, Rows], chains: dict[str, Rows]) -> list[str]:
    saved = 1 - mean(many, SEARCH_415, "tokens") / mean(many, ALL_415, "tokens")
    solved = {name: successes(seven, name) for name in CONDITIONS}
    solved |= {name: successes(many, name) for name in (ALL_415, SEARCH_415)}
    start = answers["8 by Start, search"]
    searching = sum(row["searches"] > 0 for row in start)
    failed = sorted(
        {str(row["task_id"]) for row in seven if row["condition"] == EVERY_READ_TOOL and not row["success"]}
    )
    return [
        "# Live: does an agent with fewer tools still do the task?\n",
        "Every other figure of this repository is a replay: it counts whether a set holds the required tools. Here an",
        "agent ran. Written by `camdf-lab live` from `results/live*.csv`, which hold the counts and outcomes of every",
        "episode and none of its text; the words are in the [glossary](../../docs/glossary.md).\n",
        f"{len(seven) + len(many)} episodes of tau-bench retail (`59a200c`), the paper's {TASKS} tasks under seven",
        "conditions, on 2026-11-15. The agent was Claude, a frontier language model, in the real environment: its",
        "database, its tools, its check of the final state of the database and of what the customer was told.\n",
        f"- **With camdf's tools it solved as many tasks as with all tools**: {solved[WITH_CAMDF]} and",
        f"{solved[EVERY_READ_TOOL]} of {TASKS} with",
        f"  {mean(seven, WITH_CAMDF, 'tools'):.2f} of seven read tools; {solved[SEARCH_415]} and {solved[ALL_415]} "
        f"with {mean(many, SEARCH_415, 'tools'):.2f} of 415 tools and tool search, at {saved:.0%} fewer",
        "  tokens of definitions at the start. No task was won, none lost.",
        "- **A required tool that is missing costs the task**, where there is no tool search:",
        f"{solved[INSUFFICIENT]} of {TASKS}.",
        f"- It does not show that fewer tools help. The agent fails {' and '.join(failed)} under every condition and",
        "  solves all else with all tools, so there is nothing to gain. And all of it is easier than a",
        "dialogue: see the",
        "  [limits](#what-limits-it).",
        "- **[Everyday requests](#everyday-requests-over-40-and-400-tools)**: with eight loaded tools and a search",
        f"the agent named the right tools for all {len(start)} of them, as with all tools. It searched in {searching}.",
        "- **[1,665 tools, tasks of many steps](#tasks-of-many-steps-among-1665-tools)**: fitted on logged tasks,",
        f"camdf took {mean_of(chains[FITTED], 'searches'):.1f} searches a task; a search alone took",
        f"{mean_of(chains['search alone'], 'searches'):.1f}, the ten most used tools and a search",
        f"{mean_of(chains[MOST_USED], 'searches'):.1f}.\n",
        picture_line("live", "Success by condition, here and in the paper") + "\n",
    ]


def _conditions(rows: Rows) -> list[str]:
    lines = [
        "## Beside the paper's table\n",
        "The first five conditions restrict the seven read tools and leave the eight write tools, as the paper's",
        "`tab:e2e` does. 'camdf' is the default policy (`ExpectedPayoffBySet` at commit `5ea6493`) at cost",
        "pressure 0.12",
        "and dispersion 1, with Claude's scores, in grouped tenfold cross-fitting; the paper's row beside it is its",
        "CAM-DF. 'With tool search' is the same policy at recourse 0.8, and `find_tool`, which answers with two tools.",
        "Intervals are Wilson's, 95%.\n",
        "| condition | read tools at the start | found by searches | success | solved | tool calls "
        "| paper: read tools | success | solved | tool calls |",
        "|" + " --- |" * 10,
    ]
    for name, said in CONDITIONS.items():
        by_search = "-"
        if searches := mean(rows, name, "searches"):
            by_search = f"{mean(rows, name, 'found'):.2f} by {searches:.2f}"
        in_paper: Sequence[str] = ("-", "-", "-", "-")
        if name in PAPER:
            in_paper = _measured(*PAPER[name])
        tools, *ours = _measured(successes(rows, name), mean(rows, name, "tools"), mean(rows, name, "calls"))
        lines.append(f"| {said} | {tools} | {by_search} | {' | '.join([*ours, *in_paper])} |")
    sufficient = [row for row in rows if row["condition"] in (EVERY_READ_TOOL, ANNOTATED_SET)]
    both = int(sum(row["success"] for row in sufficient))
    missing = [row for row in of_condition(rows, WITH_CAMDF) if row["missed"]]
    exact = sum(not row["missed"] and not row["spare"] for row in of_condition(rows, WITH_CAMDF))
    wider = TASKS - exact - len(missing)
    return [
        *lines,
        "",
        "Does a set that holds the required tools tell of success, as replays assume? Sufficient sets (full and oracle",
        f"together) succeed in {_share_text(both, len(sufficient))}, the paper's in {_share_text(84, 134)};",
        f"insufficient ones in {_share_text(successes(rows, INSUFFICIENT), TASKS)}, the paper's in",
        f"{_share_text(16, 67)}. The pattern is the same, and the annotation is not exact in either: camdf gave",
        "exactly the annotated set to",
        f"{exact} tasks, more than it to {wider}, and left a required tool out in {len(missing)}, of which",
        f"{int(sum(row['success'] for row in missing))} succeeded (the paper's CAM-DF: 29, 34 and 4, of which 4).\n",
    ]


def _tests(rows: Rows) -> list[str]:
    lines = [
        "Pairs of conditions on the same tasks, by the exact McNemar test. 'Won' are the tasks that only the first",
        "solved, 'lost' those that only the second did; the paper prints no counts for the last two of its pairs:\n",
        "| first, second | won | lost | p | paper: won | lost | p |",
        "|" + " --- |" * 7,
    ]
    for one, other in PAIRS:
        wins, losses = wins_and_losses(rows, one, other)
        paper = PAPER_TESTS.get((one, other), Compared(None, None, "-"))
        in_paper = " | ".join("-" if figure is None else str(figure) for figure in paper)
        lines.append(f"| {one}, {other} | {wins} | {losses} | {_p_text(mcnemar(wins, losses))} | {in_paper} |")
    return [
        *lines,
        "",
        "No difference between camdf and full access is not a proof that there is none: with no task won and none lost",
        f"among {TASKS}, a loss of up to {upper_end(0.0, TASKS):.0%} of tasks cannot be ruled out (Wilson, 95%).\n",
    ]


def _many_tools(rows: Rows) -> list[str]:
    lines = [
        "## 415 tools\n",
        "The 15 tools of the retail environment, read and write, among 400 of 47 other systems. MiniLM ranks",
        "all 415 by",
        "the ticket's text; the default policy, fitted on the other nine tenths of the customers, loads a",
        "tool where its",
        "probability is at least 0.2 (4.91 tools are annotated for a task). Tool search answers with",
        "the five best",
        "hidden tools by MiniLM and BM25 together. Tokens are characters / 4. Dollars are those of definitions for one",
        f"ticket at {PRICES.uncached:g} dollars for a million tokens and {PRICES.cached:g} for cached ones,",
        "with as many",
        "requests as calls and searches and one more, and tools that were found counted from the start: examples, not",
        "anybody's price list.\n",
        "| condition | tools loaded | tokens of definitions | searches | tools found | their tokens | dollars of "
        "definitions | calls | calls into other systems | success | solved |",
        "|" + " --- |" * 11,
    ]
    for name, said in ((ALL_415, "all 415"), (SEARCH_415, "camdf with tool search")):
        tokens = mean(rows, name, "tokens")
        found_tokens = mean(rows, name, "found_tokens")
        calls = mean(rows, name, "calls")
        searches = mean(rows, name, "searches")
        dollars = Prices(turns=1 + calls + searches).of_tokens(tokens + found_tokens)
        lines.append(
            f"| {said} | {mean(rows, name, 'tools'):.2f} | {tokens:,.0f} | {searches:.2f} "
            f"| {mean(rows, name, 'found'):.2f} | {found_tokens:,.0f} | {dollars:.4f} | {calls:.1f} "
            f"| {mean(rows, name, 'other_systems'):.0f} | {_interval_text(successes(rows, name))} "
            f"| {successes(rows, name)}/{TASKS} |"
        )
    wins, losses = wins_and_losses(rows, SEARCH_415, ALL_415)
    unsearched = sum(row["searches"] == 0 for row in of_condition(rows, SEARCH_415))
    return [
        *lines,
        "",
        f"{wins} tasks won, {losses} lost; {unsearched} of {TASKS} tasks needed no search. One domain's tools among",
        "foreign ones are easier to tell apart than near-duplicates would be. With no labels at all, the",
        "policy of that",
        "commit made no sensible working set of 415 candidates.\n",
    ]


def _everyday(answers: dict[str, Rows]) -> list[str]:
    english = [row for row in answers["all tools"] if row["language"] == "en"]
    count = len(answers["all tools"])
    lines = [
        "",
        "## Everyday requests over 40 and 400 tools\n",
        f"{count} everyday requests in five languages, on 2026-11-16 with the code of commit `20ea45a`. The agent,",
        "Claude again, saw a request and the tools of one way, searched where it could, and named the tools that it",
        "would call. Nothing was run.\n",
        "| what the agent had | right tools | searches | of these, in English | requests with a search | most in one |",
        "|" + " --- |" * 6,
    ]
    for way, said in EVERYDAY_WAYS.items():
        rows = answers[way]
        searches = "- | - | - | -"
        if way != "all tools":
            own = total([row for row in rows if row["language"] == "en"], "searches")
            searching = sum(row["searches"] > 0 for row in rows)
            most = max(int(row["searches"]) for row in rows)
            searches = f"{total(rows, 'searches')} | {own} | {searching} | {most}"
        lines.append(f"| {said} | {total(rows, 'right')} of {len(rows)} | {searches} |")
    return [
        *lines,
        "",
        f"{len(english)} of the requests are in English. Limits: one run of the agent for each way; it opened requests",
        "in batches, so tools that it saw for one request may have helped it to search for another; requests, labels",
        "and agent come from one family of models; and all ways are at 100%, so this shows what a cut list costs in",
        "searches, not whether fewer tools help.\n",
    ]


def _planbench(chains: dict[str, Rows]) -> list[str]:
    count = len(chains[FITTED])
    steps = column(chains[FITTED], "steps")
    lines = [
        "## Tasks of many steps among 1,665 tools\n",
        "PlanBench-XL retail, of which only figures are stored, since its repository states no license: 185 working",
        "tools, 925 noisy siblings of theirs and 555 that fail. A request says where to begin and what is wanted,",
        f"never the {min(steps):.0f} to {max(steps):.0f} steps between.",
        f"{count} tasks for each way, on 2026-11-17 with the code of commit `20ea45a`, by Claude in three fresh runs",
        "of eight tasks; the benchmark's own executor and rule of success.\n",
        "| what the agent had | solved | tools loaded | searches | tokens found by them | calls | calls of tools that "
        "fail or are noisy |",
        "|" + " --- |" * 7,
    ]
    for way, said in PLANBENCH_WAYS.items():
        rows = chains[way]
        lines.append(
            f"| {said} | {total(rows, 'success')} of {len(rows)} | {mean_of(rows, 'loaded'):.1f} "
            f"| {mean_of(rows, 'searches'):.1f} | {mean_of(rows, 'tokens_found'):,.0f} "
            f"| {mean_of(rows, 'calls'):.1f} | {mean_of(rows, 'decoy_calls'):.1f} |"
        )
    return [
        *lines,
        "",
        "Limits: camdf was fitted on the other four fifths of the benchmark's tasks, with its own solutions as labels,",
        "which never name a tool that fails: real logs are dirtier. Few tools make most of the steps, which is why the",
        "ten most used do so well. The text of a request says next to nothing about the steps, so a day without logs",
        "is a day of searches. The agent learned routes from task to task within a run, whatever it had.",
    ]


WHAT_LIMITS_IT = [
    "## What limits it\n",
    "- **No user simulator.** The agent saw the whole instruction of the simulated customer as a ticket, and took",
    "  confirmations as given. That is easier than a dialogue, and one reason why success is far above the paper's.",
    "- **Another agent.** The paper's agent and user are qwen-plus; ours is a stronger model. Levels cannot",
    "be compared,",
    "  differences between conditions can.",
    "- **A ceiling.** At 0.97 the experiment can show that a cut hurts, not that fewer tools help.",
    "- **A public benchmark.** The agent recognized it, and reported half-remembered outcomes for 13 tasks.",
    "Read it as: a",
    "  strong agent does as well with the cut list as with the whole; not as a measure of the agent.",
    "- **Not the paper's policies.** 'camdf' is this package's default, not CAM-DF, and CAM-DF-lite was not run.",
    "- **Tools at the start, and tools found.** With tool search the agent gets more than it starts with: over seven",
    "  read tools, those at the start and those found are together more than camdf gives without it.",
    "- **Tool search in the experiment.** A tool that was found could be called by its own name. A real provider needs",
    "  declared names, hence `call_tool` in [our tool search](../../docs/gate.md#a-tool-search). `find_tool` matched",
    "  words over seven tools.",
    "- **Rules of the desk.** At most 40 actions; write actions with ids that the episode had not shown were",
    "refused, so",
    "  that nothing could leak from one episode to another. One run of the agent worked through 16 to 18",
    "tickets of one",
    "  condition, four runs a condition; conditions were coded, and hidden tools never shown.",
    "- **One run of one agent in one domain**, at one cost pressure and one dispersion.\n",
    "`tab:e2eusim`, the paper's run with a second user simulator, is **not replicated**: there is no simulator here.",
]


@styled
def live_picture(rows: Rows) -> Picture:
    """Success with its interval by condition: here filled, in the paper hollow."""
    drawn, axes = canvas(2 * COLUMN, 2.4)
    names = list(CONDITIONS)[::-1]
    for height, name in enumerate(names):
        _draw_success(axes, height + 0.14, successes(rows, name), mean(rows, name, "tools"), BLUE, BLUE)
        if name in PAPER:
            _draw_success(axes, height - 0.14, PAPER[name].successes, PAPER[name].tools, GRAY, "white")
    axes.set(
        xlim=(0, 1.12),
        ylim=(-0.5, None),
        xticks=np.arange(0, 1.01, 0.2),
        xlabel="share of 67 tasks that succeed, Wilson 95%",
    )
    axes.set_yticks(range(len(names)), [CONDITIONS[name].replace(" less", "\nless") for name in names])
    axes.plot([], [], "o-", color=BLUE, markersize=5, label="here: Claude, tickets")
    axes.plot([], [], "o-", color=GRAY, markerfacecolor="white", markersize=5, label="the paper: qwen-plus, dialogues")
    axes.legend(loc="lower left")
    return drawn


def _draw_success(axes: Axes, height: float, solved: int, tools: float, color: str, face: str) -> None:
    axes.plot(wilson(solved, TASKS), [height, height], color=color, linewidth=1.2)
    axes.plot(solved / TASKS, height, "o", color=color, markerfacecolor=face, markersize=5)
    axes.annotate(f"{tools:.2f} tools", (1.01, height), fontsize=6.5, color=color, va="center")


def _wrapped(paragraph: str) -> str:
    """At most 120 columns, whatever the figures in it; tables as they are."""
    if paragraph.startswith(("#", "|", "!")):
        return paragraph
    if paragraph.startswith("- "):
        return "\n".join(_wrapped_item(item) for item in paragraph[2:].split("\n- "))
    return fill(paragraph, 120, break_on_hyphens=False)


def _wrapped_item(text: str) -> str:
    return fill(" ".join(text.split()), 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def _measured(solved: int, tools: float, calls: float) -> Sequence[str]:
    return f"{tools:.2f}", _interval_text(solved), f"{solved}/{TASKS}", f"{calls:.1f}"


def _interval_text(solved: int) -> str:
    low, high = wilson(solved, TASKS)
    return f"{solved / TASKS:.3f} [{low:.3f}, {high:.3f}]"


def _share_text(solved: int, count: int) -> str:
    low, high = wilson(solved, count)
    return f"{solved / count:.2f} [{low:.2f}, {high:.2f}]"


def _p_text(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
