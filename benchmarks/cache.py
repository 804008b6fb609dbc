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

A conversation begins with an empty cache, or ("shared") with one that has the whole list and the system prompt: other
conversations have just sent the same list. What a gate cuts differs from conversation to conversation and is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from conversations import minilm

import camdf
from camdf.gate import Gate, GateDecision, Limits
from camdf.gate.lists import Mode
from camdf.gate.tool_search import FIND, NAME_TOKENS, listing
from camdf.policies.rules import TopShare
from camdf.scorers.base import Scorer
from camdf.tools import Tool, view
from camdf_traces.readers.steps import tool_that_ran

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from everyday import Turn, catalogue, conversations, played

SIZES = (12, 24, 40, 100, 250, 500)
TURNS = (1, 2, 4, 8, 12)
PRICES = {"0.1": (0.1, 1.25), "0.25": (0.25, 1.0)}
"""By what a cached token costs: that, and what a token costs that is written."""

SCORED = 0.02 / 3
START = "Gate.start"
"""The recipe of the pages: the best eight by `Start`, or all where cutting so short a list does not pay."""

MODES = (
    "no gate",
    "drop, with a tool search",
    "the same, without names",
    "append",
    "defer",
    "allow",
    "drop, no tool search",
)
SEARCHING = (START, "drop, with a tool search", "the same, without names", "append", "defer")
RECIPE = ("no gate", START)
WHOLE = ("no gate", "allow")
"""Modes that send the whole list."""

CACHES = ("empty", "shared")
MODEL = "gpt-5.6"
"""One that takes tools among the messages."""

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


def bill(conversation: Played, read: float, write: float, *, shared: bool = False) -> float:
    """What its model calls cost, in bytes at the price of one that is not cached: what a call shares with the one
    before it, from the start, is read from the cache. With `shared`, the cache has the first list already."""
    total = SCORED * conversation.scored
    before: list[str] = []
    if shared:
        before = conversation.prompts[0][: conversation.listed]
    for prompt in conversation.prompts:
        same = zip(prompt, before, strict=False)
        again = next((place for place, (a, b) in enumerate(same) if a != b), min(len(prompt), len(before)))
        total += read * sum(map(size, prompt[:again])) + write * sum(map(size, prompt[again:]))
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
    if gate is None or mode != START:
        gate = gate_of(mode, tools, scorer)
    history: list[dict[str, Any]] = [{"role": "system", "content": system}]
    prompts = []
    scored = 0.0
    lacking = 0
    searches = 0
    listed = 0
    known: set[str] = set()

    def prompt() -> list[str]:
        if decision is None:
            return [*loaded, *map(_line, history)]
        return [*loaded, *map(_line, decision.messages(history))]

    for turn in turns:
        history.append({"role": "user", "content": turn.content})
        decision: GateDecision | None = None
        loaded = list(map(_line, tools))
        names = {view(tool).name for tool in tools}
        if gated:
            decision = gate.decide(history, tools, tool_search=tool_search, model=MODEL)
            scored += size(_line(turn.content))
            loaded = list(map(_line, decision.tools))
            names = {view(tool).name for tool in decision.tools} | set(decision.joined)
            if decision.cut and tool_search:
                loaded += [_line(SEARCH)] if mode == "defer" else map(Tool.definition, decision.search)
        listed = listed or len(loaded) + 1
        hidden: set[str] = set()
        answers = iter(played(turn, names if tool_search else None)[1:])
        for message in answers:
            prompts.append(prompt())
            wanted = set(map(called, message.get("tool_calls", ()))) - names
            hidden |= wanted
            if tool_search and wanted - known:  # searched for side by side
                sees_names = mode in (START, "drop, with a tool search", "append")
                queries = [name if sees_names else name.replace("_", " ") for name in sorted(wanted - known)]
                calls = "; ".join(f"{FIND.name}({query!r})" for query in queries)
                history.append({"role": "assistant", "content": calls})
                history += [{"role": "tool", "content": listing(gate.find(query, tools))} for query in queries]
                prompts.append(prompt())
                known |= wanted
                searches += len(queries)
            history += [message, *(next(answers) for _ in message.get("tool_calls", ()))]
        lacking += bool(hidden and not tool_search)
    return Played(prompts, scored, lacking, searches, listed)


def gate_of(mode: str, tools: list[Any], scorer: Scorer | None) -> Gate:
    """The gate of a mode."""
    names = {"the same, without names": 0}.get(mode, NAME_TOKENS)
    limits = Limits(seconds=None, search_names=names)
    if mode == START:
        return Gate.start(tools, limits=limits)
    share = TopShare(0.375 if mode in SEARCHING else 0.5)
    joining: Mode = "append" if mode == "append" else "drop"
    return Gate(share, scorer, camdf.Payoff(0.0), mode=joining, limits=limits)


def sends_all(conversation: Played, tools: list[Any]) -> bool:
    """Whether its first prompt begins with the whole list, as those of other conversations do."""
    return conversation.prompts[0][: len(tools)] == list(map(_line, tools))


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


def rows(scorer: Scorer | None, sizes: Sequence[int], modes: Sequence[str]) -> list[dict[str, Any]]:
    """Every size, length, price and cache: each mode's bytes as a ratio of those without a gate, and what lacks."""
    rows_so_far = []
    for tools in sizes:
        for length in TURNS:
            cases = [(tools_for(turns, tools), turns, system) for turns, system in beginnings(length)]
            turns = len(cases) * length
            whole: dict[str, list[Played]] = {}
            searched: dict[str, float] = {}
            for mode in modes:
                whole[mode] = [play(mode, *case, scorer) for case in cases]
                if mode in SEARCHING:
                    searched[mode] = round(sum(one.searches for one in whole[mode]) / turns, 4)
            further: dict[str, Any] = {"searches a turn": searched}
            if (cut := whole.get("drop, no tool search")) is not None:
                further = {LACKING: round(sum(one.lacking for one in cut) / turns, 4), **further}
            for (price, (read, write)), cached in product(PRICES.items(), CACHES):
                billed = dict.fromkeys(modes, 0.0)
                for mode in modes:
                    for one, (listed, *_) in zip(whole[mode], cases, strict=True):
                        shared = cached == "shared" and sends_all(one, listed)
                        billed[mode] += bill(one, read, write, shared=shared)
                ratios = {mode: round(billed[mode] / billed["no gate"], 4) for mode in modes[1:]}
                of = {"tools": tools, "turns": length, "cached": price, "cache": cached}
                rows_so_far.append({**of, **ratios, **further})
        print(f"{tools} tools done", file=sys.stderr, flush=True)
    return rows_so_far


def table(stored: Sequence[dict[str, Any]], modes: Sequence[str] = MODES) -> str:
    """Markdown: the best and the worst over conversations of two turns and more and over prices, by size."""
    lacks = LACKING in stored[0]
    heads = ["tools", *modes[1:], *["turns that lack a tool without a tool search"] * lacks]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    several = [row for row in stored if row["cache"] == "empty" and row["turns"] > 1]
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
    modes = (RECOMMENDED, "append")
    heads = [f"{mode}, cached at {price}" for mode in modes for price in PRICES]
    lines = [f"| the whole list is | turns | {' | '.join(heads)} |", "|" + " --- |" * (2 + len(heads))]
    for cached, told in zip(CACHES, ("not cached at first", "cached before the first call"), strict=True):
        for turns in TURNS:
            cells = [
                pays_from(stored, mode, turns=turns, cached=price, cache=cached) for mode in modes for price in PRICES
            ]
            lines.append(f"| {told} | {turns} | {' | '.join(cells)} |")
    return "\n".join(lines)


def pictures(stored: Sequence[dict[str, Any]], folder: Path) -> None:
    """`cache.svg`: cost of each mode by number of tools. `cutting.svg`: of two modes, by turns and cache."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    def drawn(panel: Any, title: str) -> None:
        panel.axhline(1.0, color="0.5", linewidth=0.8)
        panel.set(xscale="log", xlabel="tools", title=title, ylim=(0, None))
        panel.set_xticks(SIZES, map(str, SIZES))
        panel.minorticks_off()

    whole, panels = plt.subplots(1, len(PRICES), figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, price in zip(panels, PRICES, strict=True):
        own = [row for row in stored if (row["cached"], row["cache"]) == (price, "empty") and row["turns"] > 1]
        for mode in MODES[1:]:
            spans = [[row[mode] for row in own if row["tools"] == length] for length in SIZES]
            panel.plot(SIZES, [sum(span) / len(span) for span in spans], marker="o", markersize=3, label=mode)
            panel.fill_between(SIZES, list(map(min, spans)), list(map(max, spans)), alpha=0.15)
        drawn(panel, f"a cached token costs {price}")
    panels[0].set(ylabel="cost of the conversation, of no gate")
    panels[1].legend(frameon=False, fontsize=8)
    whole.savefig(folder / "cache.svg")
    whole, grid = plt.subplots(2, 2, figsize=(9, 6.4), sharey="row", layout="constrained")
    for (panels, cached), (place, price) in product(zip(grid, CACHES, strict=True), enumerate(PRICES)):
        panel = panels[place]
        for turns in TURNS:
            own = [row for row in stored if (row["cached"], row["cache"], row["turns"]) == (price, cached, turns)]
            label = "one turn" if turns == 1 else f"{turns} turns"
            (line,) = panel.plot(SIZES, [row[RECOMMENDED] for row in own], marker="o", markersize=3, label=label)
            panel.plot(SIZES, [row["append"] for row in own], "--", color=line.get_color())
        first = "not cached at first" if cached == "empty" else "cached before the first call"
        drawn(panel, f"the list is {first}; a cached token costs {price}")
        panel.title.set_fontsize(9)
    for panels in grid:
        panels[0].set(ylabel="cost, of no gate")
    grid[0][1].legend(frameon=False, fontsize=8)
    whole.savefig(folder / "cutting.svg")


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
    now = json.loads(chosen.stored.read_text()) if chosen.stored else rows(scorer, chosen.tools, modes)
    print(table(now, modes))
    if not chosen.recipe:
        print(f"\n{pays_table(now)}")
        for line in missed(now):
            print(line, file=sys.stderr)
    if chosen.json:
        chosen.json.write_text(json.dumps(now, indent=1) + "\n")
    if chosen.picture:
        pictures(now, chosen.picture)
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
