"""What every adapter is checked for, framework by framework: docs/integrations/conformance.md.

python benchmarks/conformance.py --store    check the frameworks that are installed here, with all thirty conversations
python benchmarks/conformance.py --store --conversations 0      the same without conversations, whose count stays
python benchmarks/conformance.py --page     write the page from what is stored
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "environments" / "frameworks"))

from conforming import CONVERSATIONS, NOTED, conformance, page
from drivers import FRAMEWORKS, driver

from everyday import conversations

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "conformance.json"


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help="check what is installed here, and store what is found")
    parser.add_argument("--conversations", type=int, default=30, help="how many conversations are played")
    parser.add_argument("--framework", action="append", choices=list(FRAMEWORKS), help="only this one; repeatable")
    parser.add_argument("--page", action="store_true", help="write the page from what is stored")
    asked = parser.parse_args()
    if asked.store:
        for name, framework in FRAMEWORKS.items():
            if framework.version and name in (asked.framework or FRAMEWORKS):
                verdicts = conformance(driver(name), conversations()[: asked.conversations])
                stored = json.loads(RESULTS.read_text(encoding="utf-8"))
                versions = stored.get(name, {})
                if not asked.conversations:
                    before = versions.get(framework.version, {})
                    verdicts |= {counted: before[counted] for counted in (CONVERSATIONS, NOTED) if counted in before}
                versions[framework.version] = verdicts
                stored[name] = {key: versions[key] for key in sorted(versions, key=numbers)}
                stored = {known: stored[known] for known in FRAMEWORKS if known in stored}
                RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    if asked.page:
        (ROOT / "docs" / "integrations" / "conformance.md").write_text(page(stored), encoding="utf-8")


if __name__ == "__main__":
    main()
