"""Pack the made-up tasks into the file that ships: `python scripts/pack_made_up.py FOLDER MODEL`.

FOLDER is that of `pack_datasets.py`, with `examples/tasks-DOMAIN.jsonl` beside `data` and `second-look`: tasks that a
language model wrote for a domain's tools. MODEL is the folder of all-MiniLM-L6-v2, which ranks them by the tools'
descriptions, as it ranked the real ones. What is written is described in `camdf_lab.domains.made_up`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pack_datasets import TARGET, Array, sources, write

from camdf.core.vectors import in_whole_numbers
from camdf.datasets import read_examples
from camdf.scorers.base import TEXTS
from camdf.scorers.embeddings import Embeddings
from camdf.tools import Tool
from camdf_lab.domains import DOMAINS, projected
from camdf_lab.domains.shipped import SCORE_UNITS


def packed(folder: Path, model: str) -> Mapping[str, Array]:
    """The arrays of every domain that has made-up tasks."""
    arrays: dict[str, Array] = {}
    for domain, source in sources(folder).items():
        path = folder / "examples" / f"tasks-{domain.name}.jsonl"
        if not path.exists():
            continue
        tasks = [example for example in read_examples(path) if not example.alternatives]
        described = json.loads((source / "tools.json").read_bytes())
        tools = [Tool(name, description) for name, description in described.items()]
        scorer = Embeddings(model, text=TEXTS["plain" if domain in DOMAINS else "words"])  # as for the real ones
        scores = np.array([scorer(task.text, tools) for task in tasks])
        vectors = np.array([scorer.embedding(task.text) for task in tasks])
        arrays[f"{domain.name}.scores"] = np.rint(scores * SCORE_UNITS).astype(np.uint16)
        arrays[f"{domain.name}.required"] = np.array([[tool.name in task.needed for tool in tools] for task in tasks])
        arrays[f"{domain.name}.vectors"] = in_whole_numbers(projected(vectors)).astype(np.int8)
    return arrays


if __name__ == "__main__":
    write(TARGET / "made-up.npz", packed(Path(sys.argv[1]), sys.argv[2]))
