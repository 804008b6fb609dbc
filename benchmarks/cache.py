"""What whole conversations cost under a prompt cache, in every mode of the gate, in bytes as a provider renders them.

python benchmarks/cache.py                  a table
python benchmarks/cache.py --json FILE      the same numbers as JSON
python benchmarks/cache.py --check FILE     exit 1 where they are not what the file has, or a limit is missed
python benchmarks/cache.py --tools 12 40    only for lists as long as these
python benchmarks/cache.py --recipe         only what `Gate.start` does, which takes no embedding model
python benchmarks/cache.py --stored FILE --picture FOLDER    nothing is measured: tables and pictures of a stored run

A prompt is its tools, then its system prompt, then its messages. What it shares from the start with the prompt of the
model call before it is read from the cache, the rest is written: at 0.1 and 1.25 of the price of a token (Anthropic's
ratios), and at 0.25 and 1 (OpenAI's). The scorer, an embedding model, is charged at 0.02 dollars a million tokens where
the language model takes 3. The conversations are those of tests/data/everyday, up to the turn in question; each has the
tools that it needs, and others of the catalogue. A tool that a search has found once is not searched for again. An
agent that sees the names of hidden tools searches for a name, and one that does not for the name in words.

A conversation begins with an empty cache, or ("shared") with one that has the list and the system prompt, where other
conversations send the same: the whole list, and the head of `Gate.start`. A list that is cut differs from conversation
to conversation and is written. Providers cache a prompt from a smallest size on; the recipe is billed at three of them,
in tokens of four bytes: what is shorter is read at the full price, and not written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from conversations import minilm

import camdf
from camdf.gate import Gate, GateDecision, Limits
from camdf.gate.lists import openai
from camdf.gate.tool_search import FIND, NAME_TOKENS, listing
from camdf.policies.rules import TopShare
from camdf.scorers.base import Scorer
from camdf.tools import view
from camdf_traces.readers.steps import tool_that_ran

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from everyday import Turn, catalogue, conversations, played

SIZES = (12, 24, 40, 100, 250, 500)
TURNS = (1, 2, 4, 8, 12)
PRICES = {"0.1": (0.1, 1.25), "0.25": (0.25, 1.0)}
"""By what a cached token costs: that, and what a token costs that is written."""

SCORED = 0.02 / 3
START = "Gate.start"
"""The recipe of the pages: every turn brings its own in a note, or the list is whole where cutting it does not pay."""

LISTS = "Gate.start, tools alone"
"""The same where a harness sends no messages of the decision: the best eight for the whole conversation."""

MODES = (
    "no gate",
    "drop, with a tool search",
    "the same, without names",
    "defer",
    "allow",
    "drop, no tool search",
)
SEARCHING = (START, LISTS, "drop, with a tool search", "the same, without names", "defer")
NAMING = (START, LISTS, "drop, with a tool search")
"""Modes in which an agent sees the names of what it can search for."""

RECIPE = ("no gate", START, LISTS)
WHOLE = ("no gate", "allow")
"""Modes that send the whole list."""

CACHES = ("empty", "shared")
USUAL = 1_024
SMALLEST = (0, USUAL, 4_096)
"""From how many tokens on a provider caches a prompt, for the recipe."""

SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
RECOMMENDED = "drop, with a tool search"
"""The mode that the pages recommend."""

FROM = 40
"""From this length of list on they do; shorter lists are left alone."""

BELOW = 0.80
NOISE = 0.02
PAYS = 0.98
LACKING = "turns that lack a tool"


class Played(NamedTuple):
    """A conversation in one mode."""

    prompts: list[list[str]]
    """Of its model calls, in pieces: tools first, then messages."""

    scored: float
    """Bytes that the scorer read."""

    lacking: int
    """Turns that needed a tool which was out of reach."""

    searches: int
    listed: int
    """Pieces of the first prompt that other conversations could have sent, too: its tools and its system prompt."""

    stands: bool = False
    """Whether all other conversations begin with these pieces."""


def bill(conversation: Played, read: float, write: float, *, shared: bool = False, smallest: int = 0) -> float:
    """What its model calls cost, in bytes at the price of one that is not cached: what a call shares with the one
    before it, from the start, is read from the cache. With `shared`, the cache has the first list already. A prompt of
    fewer than `smallest` tokens is not cached."""
    least = 4 * smallest
    total = SCORED * conversation.scored
    before: list[str] = []
    if shared:
        before = conversation.prompts[0][: conversation.listed]
    for prompt in conversation.prompts:
        same = zip(prompt, before, strict=False)
        again = next((place for place, (a, b) in enumerate(same) if a != b), min(len(prompt), len(before)))
        cached = sum(map(size, prompt[:again]))
        if cached < least:
            cached = 0
        whole = sum(map(size, prompt))
        total += read * cached + (write if whole >= least else 1.0) * (whole - cached)
        before = prompt
    return total


@cache
def size(piece: str) -> int:
    """Bytes on the wire."""
    return len(piece.encode())


def play(
    mode: str, tools: list[Any], turns: Sequence[Turn], system: str, scorer: Scorer | None, gate: Gate | None = None
) -> Played:
    """A whole conversation: the model calls what the script calls, after a search where a tool was cut."""
    tool_search = mode in SEARCHING
    gated = mode not in WHOLE
    if gate is None or mode not in (START, LISTS):
        gate = gate_of(mode, tools, scorer)
    history: list[dict[str, Any]] = [{"role": "system", "content": system}]
    prompts = []
    scored = 0.0
    lacking = 0
    searches = 0
    listed = 0
    stands = False
    known: set[str] = set()

    def prompt() -> list[str]:
        if decision is None:
            return [*loaded, *map(_line, history)]
        return [*loaded, *map(_line, decision.openai(history)["messages"])]

    for turn in turns:
        history.append({"role": "user", "content": turn.content})
        decision: GateDecision | None = None
        loaded = list(map(_line, tools))
        names = {view(tool).name for tool in tools}
        if gated:
            decision = gate.decide(history, tools, tool_search=tool_search, takes_messages=mode == START)
            scored += size(_line(turn.content))
            loaded = list(map(_line, decision.head))
            names = set(decision.kept)
            if mode == "defer" and decision.cut:
                loaded.append(_line(SEARCH))
            elif tool_search:
                loaded += map(_line, map(openai, decision.search))
            stands = decision.mode == "append"
        listed = listed or len(loaded) + 1
        hidden: set[str] = set()
        answers = iter(played(turn, names - set(decision.joined if decision else ()) if tool_search else None)[1:])
        for message in answers:
            prompts.append(prompt())
            wanted = set(map(called, message.get("tool_calls", ()))) - names
            hidden |= wanted
            if tool_search and wanted - known:  # searched for side by side
                queries = [name if mode in NAMING else name.replace("_", " ") for name in sorted(wanted - known)]
                calls = "; ".join(f"{FIND.name}({query!r})" for query in queries)
                history.append({"role": "assistant", "content": calls})
                history += [{"role": "tool", "content": listing(gate.find(query, tools))} for query in queries]
                prompts.append(prompt())
                known |= wanted
                searches += len(queries)
            history += [message, *(next(answers) for _ in message.get("tool_calls", ()))]
        lacking += bool(hidden and not tool_search)
    stands = stands or prompts[0][: len(tools)] == list(map(_line, tools))
    return Played(prompts, scored, lacking, searches, listed, stands)


def gate_of(mode: str, tools: list[Any], scorer: Scorer | None, smallest: int = 0) -> Gate:
    """The gate of a mode."""
    names = {"the same, without names": 0}.get(mode, NAME_TOKENS)
    limits = Limits(seconds=None, search_names=names, cached_prefix=smallest)
    if mode in (START, LISTS):
        return Gate.start(tools, limits=limits)
    share = TopShare(0.375 if mode in SEARCHING else 0.5)
    return Gate(share, scorer, camdf.Payoff(0.0), limits=limits)


def called(call: dict[str, Any]) -> str:
    """The tool that a call runs."""
    return tool_that_ran(call["function"]["name"], call["function"]["arguments"])


def _line(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False)


def beginnings(length: int) -> list[tuple[Sequence[Turn], str]]:
    """The first so many turns of every conversation that has them."""
    return [(talk.turns[:length], talk.system) for talk in conversations() if len(talk.turns) >= length]


def tools_for(turns: Sequence[Turn], size: int) -> list[Any]:
    """Those that the turns need, and as many others as the list should have, in the order of the catalogue."""
    made = (call for turn in turns for message in played(turn) for call in message.get("tool_calls", ()))
    needed = set(map(called, made))
    every = catalogue("400")[0]
    short = catalogue("40")[0]
    known = {tool["function"]["name"] for tool in every}
    every += tuple(tool for tool in short if tool["function"]["name"] in needed - known)
    more = [
        {**tool, "function": {**tool["function"], "name": f"{tool['function']['name']}_too"}} for tool in every[:100]
    ]
    listed = [*every, *more]
    others = [tool for tool in listed if tool["function"]["name"] not in needed][: max(0, size - len(needed))]
    wanted = needed | {tool["function"]["name"] for tool in others}
    return [tool for tool in listed if tool["function"]["name"] in wanted]


def rows(scorer: Scorer | None, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Every size, length, price and cache: each mode's bytes as a ratio of those without a gate, and what lacks."""
    rows_so_far = []
    for tools in sizes:
        for length in TURNS:
            cases = cases_of(tools, length)
            whole = {mode: [play(mode, *case, scorer) for case in cases] for mode in MODES}
            lacking = sum(one.lacking for one in whole["drop, no tool search"])
            further = {LACKING: round(lacking / (len(cases) * length), 4), **searches_a_turn(whole, length)}
            for price, cached in product(PRICES, CACHES):
                of = {"tools": tools, "turns": length, "cached": price, "cache": cached}
                rows_so_far.append({**of, **ratios(whole, price, cached), **further})
        print(f"{tools} tools done", file=sys.stderr, flush=True)
    return rows_so_far


def recipe_rows(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """The same of what `Gate.start` does, at every smallest size of a cached prompt."""
    rows_so_far = []
    for tools in sizes:
        for length in TURNS:
            cases = cases_of(tools, length)
            whole = {mode: [play(mode, *case, None) for case in cases] for mode in RECIPE}
            for smallest in SMALLEST:
                filled = [play(START, *case, None, gate_of(START, case[0], None, smallest)) for case in cases]
                played_so = {**whole, START: filled}
                for price, cached in product(PRICES, CACHES):
                    of = {"tools": tools, "turns": length, "smallest": smallest, "cached": price, "cache": cached}
                    costs = ratios(played_so, price, cached, smallest)
                    rows_so_far.append({**of, **costs, **searches_a_turn(played_so, length)})
        print(f"{tools} tools done", file=sys.stderr, flush=True)
    return rows_so_far


def cases_of(tools: int, length: int) -> list[tuple[list[Any], Sequence[Turn], str]]:
    """Conversations of a length, each with its list of so many tools."""
    return [(tools_for(turns, tools), turns, system) for turns, system in beginnings(length)]


def searches_a_turn(whole: Mapping[str, Sequence[Played]], length: int) -> dict[str, Any]:
    """By mode in which an agent searches."""
    turns = length * len(whole["no gate"])
    counts = {mode: sum(one.searches for one in talks) for mode, talks in whole.items() if mode in SEARCHING}
    return {"searches a turn": {mode: round(count / turns, 4) for mode, count in counts.items()}}


def ratios(whole: Mapping[str, Sequence[Played]], price: str, cached: str, smallest: int = 0) -> dict[str, float]:
    """What each mode costs, as a part of what no gate costs."""
    read, write = PRICES[price]
    billed: dict[str, float] = {}
    for mode, talks in whole.items():
        costs = [bill(one, read, write, shared=cached == "shared" and one.stands, smallest=smallest) for one in talks]
        billed[mode] = sum(costs)
    return {mode: round(cost / billed["no gate"], 4) for mode, cost in billed.items() if mode != "no gate"}


def table(stored: Sequence[dict[str, Any]], modes: Sequence[str] = MODES) -> str:
    """Markdown: the best and the worst over conversations of two turns and more and over prices, by size."""
    lacks = LACKING in stored[0]
    heads = ["tools", *modes[1:], *["turns that lack a tool without a tool search"] * lacks]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    several = [
        row for row in stored if row["cache"] == "empty" and row["turns"] > 1 and row.get("smallest", USUAL) == USUAL
    ]
    for length in dict.fromkeys(row["tools"] for row in several):
        of_length = [row for row in several if row["tools"] == length]
        cells = [lowest_to_highest([row[mode] for row in of_length]) for mode in modes[1:]]
        if lacks:
            cells.append(f"up to {max(row[LACKING] for row in of_length):.0%}")
        lines.append(f"| {length} | {' | '.join(cells)} |")
    return "\n".join(lines)


def lowest_to_highest(ratios: Sequence[float]) -> str:
    """A range, as a table has it."""
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def pays_from(stored: Sequence[dict[str, Any]], mode: str, **situation: Any) -> str:
    """The shortest measured list from which on a mode costs less than no gate."""
    ratios = {row["tools"]: row[mode] for row in stored if situation.items() <= row.items()}
    too_short = [length for length, ratio in ratios.items() if ratio > PAYS]
    longer = [length for length in ratios if length > max(too_short, default=0)]
    return f"{min(longer)} tools" if longer else "never here"


def pays_table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown: from which list on cutting saves money, by turns, price and what the cache has at first."""
    heads = [f"{RECOMMENDED}, cached at {price}" for price in PRICES]
    lines = [f"| the whole list is | turns | {' | '.join(heads)} |", "|" + " --- |" * (2 + len(heads))]
    for cached, told in zip(CACHES, ("not cached at first", "cached before the first call"), strict=True):
        for turns in TURNS:
            cells = [pays_from(stored, RECOMMENDED, turns=turns, cached=price, cache=cached) for price in PRICES]
            lines.append(f"| {told} | {turns} | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture_of_modes(stored: Sequence[dict[str, Any]], folder: Path) -> None:
    """`cache.svg`: what each mode costs by the number of tools."""
    plt = _plots()
    whole, panels = plt.subplots(1, len(PRICES), figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, price in zip(panels, PRICES, strict=True):
        own = [row for row in stored if (row["cached"], row["cache"]) == (price, "empty") and row["turns"] > 1]
        for mode in MODES[1:]:
            spans = [[row[mode] for row in own if row["tools"] == length] for length in SIZES]
            panel.plot(SIZES, [sum(span) / len(span) for span in spans], marker="o", markersize=3, label=mode)
            panel.fill_between(SIZES, list(map(min, spans)), list(map(max, spans)), alpha=0.15)
        _drawn(panel, SIZES, f"a cached token costs {price}")
    panels[0].set(ylabel="cost of the conversation, of no gate")
    panels[1].legend(frameon=False, fontsize=8)
    whole.savefig(folder / "cache.svg")


def picture_of_the_recipe(stored: Sequence[dict[str, Any]], folder: Path) -> None:
    """`cutting.svg`: what the recipe costs by the number of tools, by turns, price and what the cache has at first."""
    plt = _plots()
    sizes = sorted({row["tools"] for row in stored})
    whole, grid = plt.subplots(2, 2, figsize=(9, 6.4), sharey="row", layout="constrained")
    for (panels, cached), (place, price) in product(zip(grid, CACHES, strict=True), enumerate(PRICES)):
        panel = panels[place]
        for turns in TURNS:
            of = {"cached": price, "cache": cached, "turns": turns, "smallest": USUAL}
            own = [row for row in stored if of.items() <= row.items()]
            label = "one turn" if turns == 1 else f"{turns} turns"
            (line,) = panel.plot(sizes, [row[START] for row in own], marker="o", markersize=3, label=label)
            panel.plot(sizes, [row[LISTS] for row in own], "--", color=line.get_color())
        first = "nothing is cached at first" if cached == "empty" else "what others sent is cached"
        _drawn(panel, sizes, f"{first}; a cached token costs {price}")
        panel.title.set_fontsize(9)
    for panels in grid:
        panels[0].set(ylabel="cost, of no gate")
    grid[0][1].legend(frameon=False, fontsize=8)
    whole.savefig(folder / "cutting.svg")


def _plots() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _drawn(panel: Any, sizes: Sequence[int], title: str) -> None:
    panel.axhline(1.0, color="0.5", linewidth=0.8)
    panel.set(xscale="log", xlabel="tools", title=title, ylim=(0, None))
    panel.set_xticks(sizes, map(str, sizes))
    panel.minorticks_off()


def cached_table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown: what the recipe costs where its head, and the whole list, are cached before, a cached token at 0.1."""
    lengths = (1, 4, 8)
    heads = [f"{turns} turn{'s' * (turns > 1)}" for turns in lengths]
    lines = [f"| tools | smallest cached prompt | {' | '.join(heads)} | searches a turn, 8 turns |", "|" + " --- |" * 6]
    own = {(row["tools"], row["smallest"], row["turns"]): row for row in stored if is_of_a_cached_head(row)}
    for tools, smallest in dict.fromkeys((tools, smallest) for tools, smallest, _ in own):
        cells: list[str] = []
        for turns in lengths:
            row = own[tools, smallest, turns]
            cells.append(f"{row[START]:.2f} ({row[LISTS]:.2f})")
        searches = own[tools, smallest, 8]["searches a turn"]
        lines.append(
            f"| {tools} | {smallest:,} tokens | {' | '.join(cells)} | {searches[START]:.2f} ({searches[LISTS]:.2f}) |"
        )
    return "\n".join(lines)


def is_of_a_cached_head(row: Mapping[str, Any]) -> bool:
    return bool(row["cache"] == "shared" and row["cached"] == "0.1")


def missed(stored: Sequence[dict[str, Any]]) -> list[str]:
    """Where the recommended mode costs more than it may."""
    return [
        f"{row['tools']} tools, {row['turns']} turns, cached at {row['cached']}: {row[RECOMMENDED]} of no gate"
        for row in stored
        if row["tools"] >= FROM and row["turns"] > 1 and row["cache"] == "empty" and row[RECOMMENDED] > BELOW
    ]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--stored", type=Path)
    options.add_argument("--picture", type=Path)
    options.add_argument("--tools", type=int, nargs="+", default=SIZES, help="how many, to measure only some")
    options.add_argument("--recipe", action="store_true", help="only Gate.start")
    options.add_argument("--model", help="the folder of a MiniLM model")
    chosen = options.parse_args()
    modes = RECIPE if chosen.recipe else MODES
    scorer = None if chosen.recipe or chosen.stored else minilm(chosen.model)
    if chosen.stored:
        now = json.loads(chosen.stored.read_text())
    else:
        now = recipe_rows(chosen.tools) if chosen.recipe else rows(scorer, chosen.tools)
    print(table(now, modes))
    if not chosen.recipe:
        print(f"\n{pays_table(now)}")
        for line in missed(now):
            print(line, file=sys.stderr)
    if chosen.json:
        chosen.json.write_text(json.dumps(now, indent=1) + "\n")
    if chosen.picture:
        draw = picture_of_the_recipe if chosen.recipe else picture_of_modes
        draw(now, chosen.picture)
    if chosen.check:
        stored = [row for row in json.loads(chosen.check.read_text()) if row["tools"] in chosen.tools]
        differ = [
            (before, after)
            for before, after in zip(stored, now, strict=True)
            if any(abs(before[mode] - after[mode]) > NOISE for mode in modes[1:])
        ]
        for before, after in differ:
            print(f"stored {before}\nnow    {after}", file=sys.stderr)
        return 1 if differ else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
