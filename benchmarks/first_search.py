"""Does the first search find a tool that was not loaded? By its exact name, and by what an agent would type.

The 120 everyday requests in `tests/data/everyday` name the tools that they need, and for each of them what an agent
that cannot see the tool would type into a search of the catalogue. Sixty plain searches more are for tools that none of
the requests needs.

python benchmarks/first_search.py                 the tables in docs/recourse.md
python benchmarks/first_search.py --json FILE     the second of them as JSON; needs the extra start
python benchmarks/first_search.py --check FILE    exit 1 where it is not what the file has
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from camdf import Gate, Payoff
from camdf.gate import Limits
from camdf.gate.tool_search import by_server, names_by_server
from camdf.policies.rules import TopK
from camdf.prices import estimated_tokens
from camdf.scorers import BM25
from camdf.scorers.base import Scorer
from camdf.tools import FromServer, Tool, view

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from everyday import catalogue, examples, plain_searches, requests

EVERYDAY = Path(__file__).parents[1] / "tests" / "data" / "everyday"
WITHIN = (1, 3, 5, 10)
COLUMNS = ("by its exact name", "everyday words, 40 tools", "everyday words, 400 tools", "sixty plain searches")
NOISE = 1
"""By how many searches a figure may differ from the stored one: another processor may round a score otherwise."""


def listed(size: int) -> list[Tool]:
    """A catalogue with its servers."""
    entries = json.loads((EVERYDAY / f"catalogue-{size}.json").read_text(encoding="utf-8"))
    return [view(FromServer(entry["server"], entry["tool"])) for entry in entries]


def ranks(size: int) -> list[int]:
    """The rank of every needed tool by the query for it. Tools that tie with it count as ahead of it."""
    tools = listed(size)
    place = {tool.full_name: number for number, tool in enumerate(tools)}
    lines = map(json.loads, (EVERYDAY / "requests-dev.jsonl").read_text(encoding="utf-8").splitlines())
    search = BM25()
    known = []
    for request in lines:
        if request["catalogue"] == str(size):
            for tool, query in request["queries"].items():
                scores = search(query, tools)
                known.append(sum(score >= scores[place[tool]] for score in scores))
    return known


def table() -> str:
    """Shares of needed tools within the top k, by the size of the catalogue."""
    lines = ["tools  searches  " + "  ".join(f"top {k:2}" for k in WITHIN)]
    for size in (40, 400):
        known = ranks(size)
        shares = [sum(rank <= k for rank in known) / len(known) for k in WITHIN]
        lines.append(f"{size:5}  {len(known):8}  " + "  ".join(f"{share:6.2f}" for share in shares))
    return "\n".join(lines)


def names() -> list[dict[str, int]]:
    """What the names in the description of the search cost, and what all definitions would."""
    return [
        {
            "tools": size,
            "tokens of names": estimated_tokens(names_by_server(by_server(listed(size)))),
            "tokens of definitions": sum(estimated_tokens(tool.definition()) for tool in listed(size)),
        }
        for size in (40, 400)
    ]


def reached(name: str, scorer: Callable[[str], Scorer]) -> dict[str, Any]:
    """How many first searches have the needed tool among the five of their answer; a scorer by the catalogue."""
    gates = {
        size: Gate(TopK(8), scorer(size), Payoff(0.0), limits=Limits(seconds=None), tool_search=True)
        for size in ("40", "400")
    }

    def finds(size: str, query: str, needed: frozenset[str]) -> bool:
        tools, _ = catalogue(size)
        return bool(needed & {view(tool).name for tool in gates[size].find(query, tools)})

    every = [(size, view(tool).name) for size in gates for tool in catalogue(size)[0]]
    exact = [finds(size, tool, frozenset({tool})) for size, tool in every]
    words = {
        size: [
            finds(size, query, needed)
            for request in requests()
            if request.size == size
            for query, needed in zip(request.queries, request.needed, strict=True)
        ]
        for size in gates
    }
    plain = [finds("400", query, frozenset({tool})) for tool, query in plain_searches().items()]
    counted = zip(COLUMNS, (exact, words["40"], words["400"], plain), strict=True)
    return {"ranking": name, **{column: [sum(hits), len(hits)] for column, hits in counted}}


def measured() -> dict[str, Any]:
    """All of it, as it is stored."""
    from camdf.scorers import Start

    return {
        "names": names(),
        "reached": [
            reached("BM25", lambda size: BM25()),
            reached("Start", lambda size: Start()),
            reached("Start with examples", lambda size: Start(examples=examples(size))),
        ],
    }


def reached_table(stored: dict[str, Any]) -> str:
    """Markdown: searches that reach the tool, of all."""
    lines = [f"| ranking | {' | '.join(COLUMNS)} |", "|" + " --- |" * (1 + len(COLUMNS))]
    for row in stored["reached"]:
        cells = (f"{hits} of {searches}" for hits, searches in (row[column] for column in COLUMNS))
        lines.append(f"| {row['ranking']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    now = measured()
    print(f"{table()}\n\n{reached_table(now)}")
    if chosen.json:
        chosen.json.write_text(json.dumps(now, indent=1) + "\n")
    if chosen.check:
        stored = json.loads(chosen.check.read_text())
        differ = stored["names"] != now["names"] or any(
            abs(before[column][0] - after[column][0]) > NOISE
            for before, after in zip(stored["reached"], now["reached"], strict=True)
            for column in COLUMNS
        )
        return int(differ)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
