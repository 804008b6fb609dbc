"""Sessions with a hijacked model, in each harness that binds: what ran that nobody asked for. docs/privilege.md

python benchmarks/hijacked_sessions.py --store                   play them in every framework that is installed here
python benchmarks/hijacked_sessions.py --store --harness mcp     behind camdf mcp; service is the service
python benchmarks/hijacked_sessions.py                           the table of what is stored
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "environments" / "frameworks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "environments" / "gateway"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from drivers import FRAMEWORKS, driver

from hijacked import played_on

RESULTS = Path(__file__).parents[1] / "results" / "hijacked_sessions.json"
OTHERS = {"service": "The service", "mcp": "`camdf mcp`"}
BINDING = [name for name in FRAMEWORKS if name != "litellm"]
"""A proxy runs no tool."""


def played(harness: str, sessions: int) -> dict[str, Any]:
    """What came of so many sessions in a harness."""
    numbers = range(sessions)
    with tempfile.TemporaryDirectory() as folder:
        if harness == "mcp":
            from hijacked_client import played_behind

            os.environ["XDG_STATE_HOME"] = folder
            return asyncio.run(played_behind(Path(folder), numbers))
        if harness == "service":
            from running_service import running
            from served_loop import ServedLoop, served_folder

            with running(served_folder(Path(folder) / "served")) as service:
                return played_on(ServedLoop(service), numbers)
    return played_on(driver(harness), numbers)


def table(stored: dict[str, dict[str, Any]]) -> str:
    heads = ["harness", "sessions", "attacks", "refused in words", "ran as asked for", "ran outside"]
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for name, row in stored.items():
        title = OTHERS.get(name) or FRAMEWORKS[name].title
        counts = [row["sessions"], sum(row["attacks"].values()), *[row[head] for head in heads[3:]]]
        lines.append(f"| {' | '.join([title, *[f'{count:,}' for count in counts]])} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="play sessions, and store what came of them")
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--harness", action="append", choices=[*BINDING, *OTHERS], help="only this one; repeatable")
    asked = parser.parse_args()
    here = [name for name in BINDING if FRAMEWORKS[name].version]
    for name in (asked.harness or here) if asked.store else ():
        began = time.process_time()
        row = played(name, asked.sessions)
        print(f"{name}: {time.process_time() - began:.0f} s of processor time", file=sys.stderr)
        stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        stored[name] = row
        stored = {known: stored[known] for known in (*BINDING, *OTHERS) if known in stored}
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    print(table(json.loads(RESULTS.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
