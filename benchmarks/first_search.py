"""Does the first search find a tool that was not loaded? Ranks of needed tools by what an agent would type, under BM25.

The 120 everyday requests in `tests/data/everyday` name the tools that they need, and for each of them what an agent
that cannot see the tool would type into a search of the catalogue.

python benchmarks/first_search.py    the table in docs/recourse.md
"""

from __future__ import annotations

import json
from pathlib import Path

from camdf.scorers import BM25
from camdf.tools import view

EVERYDAY = Path(__file__).parents[1] / "tests" / "data" / "everyday"
WITHIN = (1, 3, 5, 10)


def ranks(size: int) -> list[int]:
    """The rank of every needed tool by the query for it. Tools that tie with it count as ahead of it."""
    catalogue = json.loads((EVERYDAY / f"catalogue-{size}.json").read_text(encoding="utf-8"))
    tools = [view(entry["tool"]) for entry in catalogue]
    place = {f"{entry['server']}/{tool.name}": i for i, (entry, tool) in enumerate(zip(catalogue, tools, strict=True))}
    requests = map(json.loads, (EVERYDAY / "requests-dev.jsonl").read_text(encoding="utf-8").splitlines())
    search, found = BM25(), []
    for request in requests:
        if request["catalogue"] == str(size):
            for tool, query in request["queries"].items():
                scores = search(query, tools)
                found.append(sum(score >= scores[place[tool]] for score in scores))
    return found


def table() -> str:
    """Shares of needed tools within the top k, by the size of the catalogue."""
    lines = ["tools  searches  " + "  ".join(f"top {k:2}" for k in WITHIN)]
    for size in (40, 400):
        found = ranks(size)
        shares = [sum(rank <= k for rank in found) / len(found) for k in WITHIN]
        lines.append(f"{size:5}  {len(found):8}  " + "  ".join(f"{share:6.2f}" for share in shares))
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
