"""What whole conversations cost under a prompt cache, in every mode of the gate, in bytes as a provider renders them.

python benchmarks/cache.py                  a table
python benchmarks/cache.py --json FILE      the same numbers as JSON
python benchmarks/cache.py --check FILE     exit 1 where they are not what the file has, or a limit is missed
python benchmarks/cache.py --picture FILE   drawn
python benchmarks/cache.py --tools 12 40    only for lists as long as these

A prompt is its tools, then its system prompt, then its messages. What it shares from the start with the prompt of the
model call before it is read from the cache, the rest is written: at 0.1 and 1.25 of the price of a token (Anthropic's
ratios), and at 0.25 and 1 (OpenAI's). The scorer, an embedding model, is charged at 0.02 dollars a million tokens where
the language model takes 3. The conversations are those of tests/data/everyday, up to the turn in question; each has the
tools that it needs, and others of the catalogue. A tool that a search has found once is not searched for again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from conversations import minilm

import camdf
from camdf.gate import Gate
from camdf.gate.tool_search import FIND, listing
from camdf.mining.readers.steps import tool_that_ran
from camdf.policies.rules import TopShare
from camdf.scorers.base import Scorer
from camdf.tools import Tool, view

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from camdf.gate import Limits
from everyday import Turn, catalogue, conversations, played

SIZES = (12, 24, 40, 100, 250, 500)
TURNS = (2, 4, 8, 12)
PRICES = {"0.1": (0.1, 1.25), "0.25": (0.25, 1.0)}
"""By what a cached token costs: that, and what a token costs that is written."""

SCORED = 0.02 / 3
MODES = ("no gate", "drop, with a tool search", "defer", "allow", "drop, no tool search")
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
RECOMMENDED, FROM = "drop, with a tool search", 40
"""The mode that the pages recommend, and the length of list from which on they do; shorter lists are left alone."""

BELOW, NOISE = 0.80, 0.02
LACKING = "turns that lack a tool"


class Played(NamedTuple):
    """A conversation in one mode."""

    prompts: list[list[str]]
    """Of its model calls, in pieces: tools first, then messages."""

    scored: float
    """Bytes that the scorer read."""

    lacking: int
    """Turns that needed a tool which was out of reach."""


def bill(conversation: Played, read: float, write: float) -> float:
    """What its model calls cost, in bytes at the price of one that is not cached: what a call shares with the one
    before it, from the start, is read from the cache."""
    total = SCORED * conversation.scored
    before: list[str] = []
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


def play(mode: str, tools: list[Any], turns: Sequence[Turn], system: str, scorer: Scorer) -> Played:
    """A whole conversation: the model calls what the script calls, after a search where a tool was cut."""
    tool_search, gated = mode in ("drop, with a tool search", "defer"), mode not in ("no gate", "allow")
    gate = Gate(TopShare(0.375 if tool_search else 0.5), scorer, camdf.Payoff(0.0), limits=Limits(seconds=None))
    history: list[dict[str, Any]] = [{"role": "system", "content": system}]
    said = [_line(history[0])]
    prompts, scored, lacking = [], 0.0, 0
    found: set[str] = set()

    def say(*messages: dict[str, Any]) -> None:
        history.extend(messages)
        said.extend(map(_line, messages))

    for turn in turns:
        say({"role": "user", "content": turn.content})
        decision = gate.decide(history, tools, tool_search=tool_search) if gated else None
        sent = tools if decision is None else decision.tools
        loaded, names = list(map(_line, sent)), {view(tool).name for tool in sent}
        if decision is not None and decision.cut and tool_search:
            loaded += [_line(SEARCH)] if mode == "defer" else map(Tool.definition, decision.search)
        scored += size(_line(turn.content)) if gated else 0
        hidden: set[str] = set()
        answers = iter(played(turn, names if tool_search else None)[1:])
        for message in answers:
            prompts.append([*loaded, *said])
            wanted = set(map(called, message.get("tool_calls", ()))) - names
            hidden |= wanted
            if tool_search and wanted - found:  # searched for side by side
                queries = [name.replace("_", " ") for name in sorted(wanted - found)]
                say({"role": "assistant", "content": "; ".join(f"{FIND.name}({query!r})" for query in queries)})
                say(*({"role": "tool", "content": listing(gate.find(query, tools))} for query in queries))
                prompts.append([*loaded, *said])
                found |= wanted
            say(message, *(next(answers) for _ in message.get("tool_calls", ())))
        lacking += bool(hidden and not tool_search)
    return Played(prompts, scored, lacking)


def called(call: dict[str, Any]) -> str:
    """The tool that a call runs."""
    return tool_that_ran(call["function"]["name"], call["function"]["arguments"])


def _line(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False)


def beginnings(length: int) -> list[tuple[Sequence[Turn], str]]:
    """The first so many turns of every conversation that has them."""
    return [(each.turns[:length], each.system) for each in conversations() if len(each.turns) >= length]


def tools_for(turns: Sequence[Turn], size: int) -> list[Any]:
    """Those that the turns need, and as many others as the list should have, in the order of the catalogue."""
    made = (call for turn in turns for message in played(turn) for call in message.get("tool_calls", ()))
    needed = set(map(called, made))
    every, _ = catalogue("400")
    more = [
        {**tool, "function": {**tool["function"], "name": f"{tool['function']['name']}_too"}} for tool in every[:100]
    ]
    listed = [*every, *more]
    others = [tool for tool in listed if tool["function"]["name"] not in needed][: max(0, size - len(needed))]
    wanted = needed | {tool["function"]["name"] for tool in others}
    return [tool for tool in listed if tool["function"]["name"] in wanted]


def rows(scorer: Scorer, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Every size, length and price: each mode's bytes as a ratio of those without a gate, and what lacks."""
    found = []
    for tools in sizes:
        for length in TURNS:
            cases = [(tools_for(turns, tools), turns, system) for turns, system in beginnings(length)]
            whole = {mode: [play(mode, *case, scorer) for case in cases] for mode in MODES}
            lacking = sum(each.lacking for each in whole["drop, no tool search"]) / (len(cases) * length)
            for price, (read, write) in PRICES.items():
                billed = {mode: sum(bill(each, read, write) for each in whole[mode]) for mode in MODES}
                ratios = {mode: round(billed[mode] / billed["no gate"], 4) for mode in MODES[1:]}
                found.append({"tools": tools, "turns": length, "cached": price, **ratios, LACKING: round(lacking, 4)})
        print(f"{tools} tools done", file=sys.stderr, flush=True)
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: the worst and the best over conversation lengths and prices, by size."""
    lines = [
        f"| tools | {' | '.join(MODES[1:])} | turns that lack a tool without a tool search |",
        "|" + " --- |" * (len(MODES) + 1),
    ]
    for size in dict.fromkeys(each["tools"] for each in found):
        of = [each for each in found if each["tools"] == size]
        spans = [f"{min(each[mode] for each in of):.2f} to {max(each[mode] for each in of):.2f}" for mode in MODES[1:]]
        lacking = max(each[LACKING] for each in of)
        lines.append(f"| {size} | {' | '.join(spans)} | up to {lacking:.0%} |")
    return "\n".join(lines)


def picture(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Cost of each mode by number of tools, a panel a price; the band spans conversations of 2 to 12 turns."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    whole, panels = plt.subplots(1, len(PRICES), figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, price in zip(panels, PRICES, strict=True):
        for mode in MODES[1:]:
            of = [[each[mode] for each in found if (each["tools"], each["cached"]) == (size, price)] for size in SIZES]
            panel.plot(SIZES, [sum(each) / len(each) for each in of], marker="o", markersize=3, label=mode)
            panel.fill_between(SIZES, list(map(min, of)), list(map(max, of)), alpha=0.15)
        panel.axhline(1.0, color="0.5", linewidth=0.8)
        panel.set(xscale="log", xticks=SIZES, xlabel="tools", title=f"a cached token costs {price}")
        panel.set_xticks(SIZES, map(str, SIZES))
        panel.minorticks_off()
    panels[0].set(ylabel="cost of the conversation, of no gate", ylim=(0, None))
    panels[1].legend(frameon=False, fontsize=8)
    whole.savefig(path)


def missed(found: Sequence[dict[str, Any]]) -> list[str]:
    """Where the recommended mode costs more than it may."""
    return [
        f"{each['tools']} tools, {each['turns']} turns, cached at {each['cached']}: {each[RECOMMENDED]} of no gate"
        for each in found
        if each["tools"] >= FROM and each[RECOMMENDED] > BELOW
    ]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--picture", type=Path)
    options.add_argument("--tools", type=int, nargs="+", default=SIZES, help="how many, to measure only some")
    options.add_argument("--model", help="the folder of a MiniLM model")
    chosen = options.parse_args()
    found = rows(minilm(chosen.model), chosen.tools)
    print(table(found))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    if chosen.picture:
        picture(found, chosen.picture)
    for line in missed(found):
        print(line, file=sys.stderr)
    if chosen.check:
        stored = [each for each in json.loads(chosen.check.read_text()) if each["tools"] in chosen.tools]
        differ = [
            (a, b)
            for a, b in zip(stored, found, strict=True)
            if any(abs(a[mode] - b[mode]) > NOISE for mode in MODES[1:])
        ]
        for before, now in differ:
            print(f"stored {before}\nnow    {now}", file=sys.stderr)
        return 1 if differ else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
