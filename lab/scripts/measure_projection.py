"""How much of the requests' cosines 64 numbers keep: `python scripts/measure_projection.py FOLDER MODEL`.

FOLDER and MODEL are those of `scripts/pack_datasets.py`. Three ways to go from 384 numbers to 64 are compared: a random
projection, and the main directions of the nine domains' requests, centred or not. A domain of the nine is measured with
the directions of the other eight, so that no request had a part in its own projection; `shipped` is what
`domains.task_vectors` gives. Per way and domain: the correlation of all pairs' cosines before and after, the mean
absolute difference, and what is left of that difference after the best straight line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from pack_datasets import DIMENSIONS, Array, embedded, main_directions, requests

from camdf.core.vectors import at_length_one
from camdf.scorers.embeddings import Embeddings
from camdf_lab import domains

NINE = [domain.name for domain in domains.DOMAINS]


def measures(before: Array, after: Array) -> tuple[float, float, float]:
    """Of the cosines of all pairs of rows: correlation, mean absolute difference, and that after a straight line."""
    pairs = np.triu_indices(len(before), 1)
    old = _cosines(before)[pairs]
    new = _cosines(after)[pairs]
    slope, offset = np.polyfit(new, old, 1)
    differences = np.abs(old - new).mean(), np.abs(old - slope * new - offset).mean()
    return float(np.corrcoef(old, new)[0, 1]), float(differences[0]), float(differences[1])


def ways(embeddings: dict[str, Array]) -> dict[str, Callable[[str], Array]]:
    """Every way by name: a domain's name to its vectors of 64 numbers."""
    random, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((384, DIMENSIONS)))

    def directed(name: str, centred: bool) -> Array:
        others = np.concatenate([embeddings[other] for other in NINE if other != name])
        middle = np.unique(others, axis=0).mean(axis=0) if centred else np.zeros(384)
        return (embeddings[name] - middle) @ main_directions(others - middle).T

    return {
        "random": lambda name: embeddings[name] @ random,
        "main, centred": lambda name: directed(name, centred=True),
        "main": lambda name: directed(name, centred=False),
        "shipped": domains.task_vectors,
    }


def main(arguments: Sequence[str]) -> None:
    """Print a line a way and domain, and the means over the nine domains and over the later domains."""
    texts = requests(Path(arguments[0]), (*domains.DOMAINS, *domains.LATER_DOMAINS))
    embeddings = embedded(texts, Embeddings(arguments[1]).encoded)
    for way, vectors in ways(embeddings).items():
        rows = {name: measures(embeddings[name], vectors(name)) for name in embeddings}
        rows["mean of the nine"] = _mean([rows[name] for name in NINE])
        rows["mean of the eight"] = _mean([rows[domain.name] for domain in domains.LATER_DOMAINS])
        for name, row in rows.items():
            print(f"{way:14} {name:20}", *(f"{value:.3f}" for value in row))


def _cosines(vectors: Array) -> Array:
    unit = at_length_one(vectors)
    cosines: Array = unit @ unit.T
    return cosines


def _mean(rows: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    first, second, third = np.mean(rows, axis=0).tolist()
    return first, second, third


if __name__ == "__main__":
    main(sys.argv[1:])
