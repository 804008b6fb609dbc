"""What real libraries sent in the cells of the traces' matrix, in OTLP: recorded, without what names a machine.

python benchmarks/traces.py --keep FOLDER     in the environments `traced` and `traced-too`
python recorded.py FOLDER                     writes recorded.jsonl.xz beside this file: a line for each cell
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("recorded.jsonl.xz")
OF_A_MACHINE = ("code.", "exception.stacktrace")
PLACES = re.compile(r"/(root|home|work|tmp)/[^\s\"'\\]*")


def recorded() -> dict[str, list[dict[str, Any]]]:
    """Documents of OTLP by the framework, the tracer and the situation."""
    with lzma.open(FILE, "rt", encoding="utf-8") as file:
        return dict(map(json.loads, file))


def without_machine(value: Any) -> Any:
    """Documents without places of files and attributes that hold them."""
    if isinstance(value, list):
        return [without_machine(each) for each in value if not _is_of_a_machine(each)]
    if isinstance(value, dict):
        return {key: without_machine(each) for key, each in value.items()}
    return PLACES.sub("/elsewhere", value) if isinstance(value, str) else value


def _is_of_a_machine(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("key", "")).startswith(OF_A_MACHINE)


def packed(folder: Path) -> None:
    with lzma.open(FILE, "wt", encoding="utf-8") as file:
        for kept in sorted(folder.glob("*.jsonl")):
            documents = without_machine([json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()])
            for document in documents:
                for resource in document["resourceSpans"]:
                    named = resource["resource"].get("attributes", [])
                    resource["resource"]["attributes"] = [each for each in named if each["key"] == "service.name"]
            file.write(json.dumps([kept.stem, documents], separators=(",", ":")) + "\n")


if __name__ == "__main__":
    packed(Path(sys.argv[1]))
