"""How to read examples was chosen on the examples alone: some are left out and ranked by the others.

python benchmarks/examples_left_out.py                 a table
python benchmarks/examples_left_out.py --json FILE     the same numbers as JSON
python benchmarks/examples_left_out.py --check FILE    exit 1 where a sample is not what the file has

Needs the extra start. Of tests/data/examples: a fifth of the examples that need one tool is left out at a time; those
that need several are ranked by those that need one. No everyday request is read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from camdf.core.rankings import Floats
from camdf.datasets import Example
from camdf.scorers import BM25, Embeddings, WordVectors, full_text, word_parts
from camdf.scorers.base import over_maximum
from camdf.tools import Tool, view

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "parts"))

from everyday import catalogue, examples

FOLDS = 5
BEST = {"40": 2, "400": 5}
"""Among so many of a list should the tool of an example stand that needs one; those of several, among `TOGETHER`."""

TOGETHER = 8
NEAREST = 3
"""How many of a tool's examples are near."""

WIDTH = 0.05
"""How fast the vote of an example falls with its distance."""

WAYS: dict[str, dict[str, float]] = {
    "text alone": {"text, parts": 1, "text, vectors": 2},
    "text with examples, parts": {"all, parts": 1},
    "text with examples, vectors": {"all, vectors": 1},
    "text with examples, 1 : 2": {"all, parts": 1, "all, vectors": 2},
    "text with examples, 1 : 1": {"all, parts": 1, "all, vectors": 1},
    "text with examples, 2 : 1": {"all, parts": 2, "all, vectors": 1},
    "the three nearest examples": {"nearest, parts": 1, "nearest, vectors": 1},
    "a vote of all examples": {"vote, parts": 1, "vote, vectors": 1},
    "1 : 1, and the nearest": {"all, parts": 2, "all, vectors": 2, "nearest, vectors": 1},
    "1 : 1, and the vote": {"all, parts": 2, "all, vectors": 2, "vote, vectors": 1},
}
"""Ways to combine: what each part counts. Weights are those of parts of words and of word vectors, in this order."""

CHOSEN = "text with examples, 1 : 1"


def parts_of(known: Sequence[Example], tools: Sequence[Tool]) -> Callable[[str], dict[str, Floats]]:
    """A task's scores by every part of the ways, each over its largest."""
    right = np.array([[tool.name in example.right for example in known] for tool in tools])
    texts = [Tool("", example.text) for example in known]
    scorers: dict[str, list[Callable[[str, Sequence[Tool]], list[float]]]] = {
        "parts": [BM25(tokens=word_parts, text=text, examples=theirs) for text, theirs in readings(known)],
        "vectors": [Embeddings(WordVectors(), text=text, examples=theirs) for text, theirs in readings(known)],
    }

    def said(task: str) -> dict[str, Floats]:
        scores = {}
        for kind, (alone, with_examples, single) in scorers.items():
            near = over_maximum(np.array(single(task, texts)))
            own = np.where(right, near, 0.0)
            scores[f"text, {kind}"] = np.array(alone(task, tools))
            scores[f"all, {kind}"] = np.array(with_examples(task, tools))
            scores[f"nearest, {kind}"] = np.partition(own, -NEAREST, axis=1)[:, -NEAREST:].mean(axis=1)
            scores[f"vote, {kind}"] = right @ np.exp((near - 1) / WIDTH)
        return {name: over_maximum(each) for name, each in scores.items()}

    return said


def readings(known: Sequence[Example]) -> Iterator[tuple[Callable[[Tool], str], Sequence[Example]]]:
    """What is compared with a task: the tools' texts, these with the examples, and single examples."""
    yield full_text, ()
    yield full_text, known
    yield lambda tool: tool.description, ()


def measured(size: str, folds: Sequence[int]) -> dict[str, Any]:
    """For every way, how many examples that were left out have all tools that they need among the best."""
    tools = [view(tool) for tool in catalogue(size)[0]]
    single = [example for example in examples(size) if len(example.right) == 1]
    several = [example for example in examples(size) if len(example.needed) > 1]
    cases = [
        (f"one tool, fold {fold}", BEST[size], [e for i, e in enumerate(single) if fold_of(i) != fold] + several, asked)
        for fold in folds
        for asked in [[e for i, e in enumerate(single) if fold_of(i) == fold]]
    ]
    cases.append(("several", TOGETHER, single, several))
    counts: dict[str, Any] = {}
    for name, best, known, asked in cases:
        said = parts_of(known, tools)
        hits = Counter[str]()
        for example in asked:
            scores = said(example.text)
            for way, weights in WAYS.items():
                order = np.argsort(-sum(weight * scores[part] for part, weight in weights.items()), kind="stable")
                hits[way] += set(example.right) <= {tools[place].name for place in order[:best]}
        counts[name] = {"asked": len(asked), **{way: hits[way] for way in WAYS}}
    return counts


def fold_of(place: int) -> int:
    """Another fold for the examples of one tool, and not always the same for one kind of example."""
    return (place * 7 + place // 10) % FOLDS


def share(counts: dict[str, Any], way: str, kind: str) -> float:
    rows = [row for name, row in counts.items() if name.startswith(kind)]
    hits, asked = (sum(row[key] for row in rows) for key in (way, "asked"))
    return float(hits / asked)


def table(found: dict[str, Any]) -> str:
    """Markdown."""
    lines = ["| way | one of 40 | several of 40 | one of 400 | several of 400 |", "|" + " --- |" * 5]
    for way in WAYS:
        cells = [f"{share(found[size], way, kind):.3f}" for size in BEST for kind in ("one", "several")]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path)
    options.add_argument("--check", type=Path)
    chosen = options.parse_args()
    if chosen.check:
        stored = json.loads(chosen.check.read_text())["40"]
        now = measured("40", [0])
        changed = [name for name, row in now.items() if any(abs(row[way] - stored[name][way]) > 1 for way in WAYS)]
        print(*(f"{name}: stored {stored[name]}, now {now[name]}" for name in changed), sep="\n", file=sys.stderr)
        return 1 if changed else 0
    found = {size: measured(size, range(FOLDS)) for size in BEST}
    print(table(found))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
