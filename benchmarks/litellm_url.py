"""Thirty everyday conversations through a LiteLLM proxy that has the URL of a service, by the providers' own clients.

python benchmarks/litellm_url.py                 a table; in the environment litellm of .ci/environments, minutes
python benchmarks/litellm_url.py --json FILE     the same numbers as JSON
python benchmarks/litellm_url.py --check FILE    exit 1 where they are not what the file has

Each conversation is played three times on each of the proxy's endpoints: by a client that says nothing of a search,
whole and streamed, and by one that says it answers `call_tool`, streamed. Behind the proxy stands a scripted model.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "environments" / "frameworks"))

from stored import measure_and_compare

from everyday import Played, conversations, promises_broken_by, tally

COLUMNS = {
    "endpoint": "endpoint",
    "client": "client",
    "requests": "requests",
    "broken": "promises broken",
    "turns": "turns with a task",
    "loaded": "tools loaded, of {all:.0f}",
    "at once": "all that is needed is loaded",
    "out of reach": "calls out of reach",
    "forced": "forced, and not on the list",
    "one list": "conversations of one list",
}


CLIENTS_IN_WORDS = {
    "plain": "says nothing, not streamed",
    "streamed": "says nothing, streamed",
    "search": "answers `call_tool`, streamed",
}


def counted(path: str, client: str, played: Sequence[Played]) -> dict[str, Any]:
    """What reached the model in all conversations of one client."""
    first = [tally(model.served) for model in played]
    turns = sum(each["turns"] for each in first)
    every = sum(len(model.conversation.tools) * each["turns"] for model, each in zip(played, first, strict=True))
    forced = [
        each
        for model in played
        for each in model.served
        if each.turn.tool_choice and each.turn.tool_choice not in each.tools
    ]
    return {
        "endpoint": path,
        "client": client,
        "requests": sum(len(model.served) for model in played),
        "broken": sum(len(promises_broken_by(model)) for model in played),
        "turns": turns,
        "loaded": round(sum(each["loaded"] for each in first) / turns, 1),
        "all": round(every / turns, 1),
        "at once": sum(each["loaded at once"] for each in first),
        "out of reach": sum(len(model.out_of_reach) for model in played),
        "forced": len(set(forced)),
        "one list": sum(len({each.bytes for each in model.served}) == 1 for model in played),
    }


def rows() -> list[dict[str, Any]]:
    """Every endpoint, with each client."""
    from proxied import CLIENTS, play, proxied

    found = []
    with TemporaryDirectory() as folder, proxied(Path(folder)) as there:
        for path in CLIENTS:
            for client, searches, stream in (
                ("plain", False, False),
                ("streamed", False, True),
                ("search", True, True),
            ):
                played = [play(there, path, each, stream=stream, searches=searches) for each in conversations()]
                found.append(counted(path, client, played))
                print(found[-1], file=sys.stderr, flush=True)
    return found


def table(stored: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    heads = [head.format(all=stored[0]["all"]) for head in COLUMNS.values()]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for row in stored:
        cells = {**row, "endpoint": f"`{row['endpoint']}`", "client": CLIENTS_IN_WORDS[row["client"]]}
        lines.append(f"| {' | '.join(str(cells[key]) for key in COLUMNS)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(measure_and_compare(__doc__, rows, table))
