"""What examples do to a ranking: requests written from the tools alone, tried on everyday requests.

python benchmarks/examples.py                 three tables, and what examples cost
python benchmarks/examples.py --json FILE     the same numbers as JSON
python benchmarks/examples.py --check FILE    exit 1 where they are not what the file has
python benchmarks/examples.py --large         costs at 10,000 tools with 100,000 examples, too: some minutes

Needs the extra start. Of tests/data/examples: ten examples for each of 40 tools, four for each of 400, and some that
need several. Of tests/data/everyday: the requests, searches and conversations of benchmarks/first_day.py and
benchmarks/conversations.py.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from math import sqrt
from mmap import PAGESIZE
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import conversations
from first_day import NOISE, WORKING_SET, Way, decided, differ_in_searches, plain

import camdf
from camdf.datasets import Example
from camdf.gate import Gate
from camdf.policies.base import Policy
from camdf.policies.rules import TopK, TopShare
from camdf.scorers import BM25, Embeddings, Start, WordVectors, full_text, word_parts
from camdf.scorers.base import Scorer
from camdf.tools import Tool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from camdf.gate import Limits
from everyday import examples, requests

SIZES = ("40", "400")
GROUPS = ("en", "others")
SHARE = 0.3
"""Of the list, loaded in a conversation."""

LARGEST_RATIO = 2.0
"""What a decision with ten examples a tool may cost, compared with one without."""

BUDGET = 5.0
"""What it may take, in seconds."""


def rankings(size: str, *, with_examples: bool) -> dict[str, Scorer]:
    """Scorers without torch, with the examples of a list or without."""
    theirs = examples(size) if with_examples else ()
    return {
        "Start": Start(examples=theirs),
        "parts of words alone": BM25(tokens=word_parts, text=full_text, examples=theirs),
        "word vectors alone": Embeddings(WordVectors(), text=full_text, examples=theirs),
    }


def gate_of(scorer: Scorer, policy: Policy) -> Gate:
    return Gate(policy, scorer, camdf.Payoff(0.0), limits=Limits(seconds=None))


def of_requests(name: str, scorer: Scorer, size: str) -> dict[str, Any]:
    """In how many of the requests that need a tool all needed ones are among the best eight."""
    way = Way(name, "", gate_of(scorer, TopK(WORKING_SET)), True)
    needing = [each for each in requests() if each.size == size and each.needed]
    counts = {}
    for group in GROUPS:
        asked = [each for each in needing if (each.language == "en") == (group == "en")]
        loaded = [all(needed & set(decided(way, each).kept) for needed in each.needed) for each in asked]
        counts[group] = {"requests": len(loaded), "loaded": sum(loaded)}
    return counts


def of_conversations(scorers: dict[int, Scorer]) -> dict[str, Any]:
    """All thirty with a tool search, the best of the list loaded; a scorer by the length of the list."""

    def scorer(task: str, tools: Sequence[Tool]) -> Any:
        return scorers[len(tools)](task, tools)

    return conversations.measured(gate_of(scorer, TopShare(SHARE)), tool_search=True)


def rows() -> list[dict[str, Any]]:
    """Every ranking without examples and with."""
    measured = []
    for name in rankings("40", with_examples=False):
        for with_examples in (False, True):
            few, many = (rankings(size, with_examples=with_examples)[name] for size in SIZES)
            searched = plain(Way(name, "", gate_of(many, TopK(WORKING_SET)), True))
            measured.append(
                {
                    "ranking": name,
                    "examples": with_examples,
                    "requests": {"40": of_requests(name, few, "40"), "400": of_requests(name, many, "400")},
                    "searches": {key: searched[key] for key in ("searches", "found", "in full")},
                    "conversations": of_conversations({40: few, 400: many}),
                }
            )
    return measured


def costs(count: int, a_tool: int, decisions: int) -> dict[str, Any]:
    """Seconds of the processor for a decision without examples and with, in turns; what reading the list takes, keeps.

    Texts are drawn from the words of the examples and from made-up ones, two for each tool.
    """
    rng = random.Random(0)
    words = sorted({word for example in examples("400") for word in example.text.split()})
    words += ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(2 * count)]

    def text(length: int) -> str:
        return " ".join(rng.choices(words, k=length))

    tools = [Tool(f"tool_{number}", text(12), server=f"server_{number % 50}") for number in range(count)]
    theirs = [Example(text(9), (tool.full_name,)) for tool in tools for _ in range(a_tool)]
    measured: dict[str, Any] = {"tools": count, "examples": len(theirs)}
    gates = {}
    for name, scorer in (("without", Start()), ("with", Start(examples=theirs))):
        before = resident()
        began = process_time()
        scorer.read(tools)
        measured[name] = {"reading": round(process_time() - began, 1), "megabytes": round((resident() - before) / 1e6)}
        gates[name] = gate_of(scorer, TopK(WORKING_SET))
        gates[name].decide(text(12), tools)
    took: dict[str, list[float]] = {name: [] for name in gates}
    for _ in range(decisions):
        for name, gate in gates.items():
            began = process_time()
            gate.decide(text(12), tools)
            took[name].append(process_time() - began)
    for name, seconds in took.items():
        measured[name]["decision"] = round(median(seconds), 4)
    return measured | {"ratio": round(median(took["with"]) / median(took["without"]), 2)}


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE


def interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's, at 95%."""
    share = count / of
    z = 1.96
    middle = share + z * z / (2 * of)
    half = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def cell(counts: dict[str, dict[str, int]]) -> str:
    """The share of all requests with its interval, and those in English and in other languages."""
    loaded, of = (sum(counts[group][key] for group in GROUPS) for key in ("loaded", "requests"))
    low, high = interval(loaded, of)
    parts = " / ".join(f"{counts[group]['loaded'] / counts[group]['requests']:.2f}" for group in GROUPS)
    return f"{loaded / of:.2f} ({low:.2f} to {high:.2f}); {parts}"


def table(measured: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| ranking | examples | 75 requests, 40 tools | 33 requests, 400 tools | searches | turns of conversations |",
        "|" + " --- |" * 6,
    ]
    for row in measured:
        searched = row["searches"]
        turns = row["conversations"]
        lines.append(
            f"| {row['ranking']} | {'with' if row['examples'] else 'without'} "
            f"| {cell(row['requests']['40'])} | {cell(row['requests']['400'])} "
            f"| {searched['found']} / {searched['in full']} of {searched['searches']} "
            f"| {turns['needed tools loaded'] / turns['turns']:.0%} at {turns['mean share']:.0%} of the list |"
        )
    return "\n".join(lines)


def cost_table(measured: Sequence[dict[str, Any]]) -> str:
    """Markdown: without examples, then with."""
    lines = ["| tools | examples | a decision | ratio | reading the list | memory |", "|" + " --- |" * 6]
    for row in measured:
        pairs = [
            f"{row['without'][key] * scale:.{digits}f} {unit}, {row['with'][key] * scale:.{digits}f} {unit}"
            for key, scale, digits, unit in (
                ("decision", 1000, 0, "ms"),
                ("reading", 1, 1, "s"),
                ("megabytes", 1, 0, "MB"),
            )
        ]
        lines.append(
            f"| {row['tools']:,} | {row['examples']:,} | {pairs[0]} | {row['ratio']:.1f} | {pairs[1]} | {pairs[2]} |"
        )
    return "\n".join(lines)


def differ(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a row is another than the stored one, by more than rounding explains."""
    counts = [
        abs(before["requests"][size][group]["loaded"] - now["requests"][size][group]["loaded"])
        for size in SIZES
        for group in GROUPS
    ]
    turns = abs(before["conversations"]["needed tools loaded"] - now["conversations"]["needed tools loaded"])
    return max(counts) > NOISE or turns > conversations.NOISE or differ_in_searches(before["searches"], now["searches"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--large", action="store_true", help="measure the costs of 10,000 tools, too")
    chosen = options.parse_args()
    measured = {
        "rankings": rows(),
        "costs": [costs(400, 10, 40), *([costs(10_000, 10, 10)] if chosen.large else [])],
    }
    print(table(measured["rankings"]), cost_table(measured["costs"]), sep="\n\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(measured, indent=1) + "\n")
    stored = json.loads(chosen.check.read_text()) if chosen.check else measured
    changed = [pair for pair in zip(stored["rankings"], measured["rankings"], strict=True) if differ(*pair)]
    for before, now in changed:
        print(f"stored {before}\nnow    {now}", file=sys.stderr)
    dear = [row for row in measured["costs"] if row["ratio"] > LARGEST_RATIO or row["with"]["decision"] > BUDGET]
    for row in dear:
        print(f"too expensive: {row}", file=sys.stderr)
    return 1 if changed or dear else 0


if __name__ == "__main__":
    raise SystemExit(main())
