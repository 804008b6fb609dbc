"""Measure every tool's text: `python scripts/measure_tools.py FOLDER FUNCTIONS [TARGET]`, with tiktoken installed.

FOLDER holds one folder a domain with `tools.json`; FUNCTIONS is the folder `data/multi_turn_func_doc` of bfcl-eval
2026.3.23, the one source with parameter schemas. Only counts are written: see `camdf_lab.domains.shipped.sizes`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pack_datasets import TARGET, write

from camdf.tools import Tool
from camdf_lab.domains.catalogue import DOMAINS

Count = Callable[[str], int]


def measure(folder: Path, functions: Path, count: Count) -> dict[str, Any]:
    """Per domain and part of a definition, (tools, 2): characters and tokens, in the order of `tools.json`."""
    arrays = {}
    for domain in DOMAINS:
        described = json.loads((folder / domain.name / "tools.json").read_bytes())
        arrays[f"{domain.name}.description"] = _sizes(described.values(), count)
        bare = (Tool(name, text).definition() for name, text in described.items())
        arrays[f"{domain.name}.definition"] = _sizes(bare, count)
        if domain.name == "bfcl-multi-turn":
            schemas = dict(_schemas(functions))
            full = (Tool(name, text, schemas[name]).definition() for name, text in described.items())
            arrays[f"{domain.name}.schema"] = _sizes(full, count)
    return arrays


def main(arguments: Sequence[str]) -> None:
    """Count with o200k_base, and write one file for all domains."""
    import tiktoken

    encoding = tiktoken.get_encoding("o200k_base")
    target = Path(arguments[2]) if len(arguments) > 2 else TARGET
    arrays = measure(Path(arguments[0]), Path(arguments[1]), lambda text: len(encoding.encode(text)))
    write(target / "tool-sizes.npz", arrays)
    for name, sizes in arrays.items():
        print(f"{name:28} {len(sizes):5} tools {sizes[:, 0].sum():8} characters {sizes[:, 1].sum():7} tokens")


def _sizes(texts: Iterable[str], count: Count) -> Any:
    return np.array([(len(text), count(text)) for text in texts], dtype=np.uint16)


def _schemas(functions: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    for path in sorted(functions.glob("*.json")):
        for line in path.read_text(encoding="utf-8").splitlines():
            function = json.loads(line)
            yield function["name"], function["parameters"]


if __name__ == "__main__":
    main(sys.argv[1:])
