"""Pack the evaluation data into the files that ship: `python scripts/pack_datasets.py FOLDER [TARGET] [--model MODEL]`.

FOLDER holds `data` with the domains of `DOMAINS`, `second-look` with those of `LATER_DOMAINS` and `none` with those of
`MIXED_DOMAINS`: one folder a domain with `tasks.jsonl`, `labels.jsonl`, `tools.json` and `scores/SCORER.jsonl`. TARGET
is by default the package's own folder. MODEL is the folder of all-MiniLM-L6-v2, or its name for sentence-transformers;
without it the vectors of the tasks are left as they are. Vectors of MIXED_DOMAINS have a file of their own.

The same input gives the same bytes, under one version of zlib and on one machine for the vectors. What is written is
described in `camdf_lab.domains.shipped`: no request text and no description.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from camdf.core.rankings import LoggedTasks
from camdf.scorers.embeddings import Embeddings, Encode
from camdf_lab.domains.catalogue import DOMAINS, LATER_DOMAINS, MIXED_DOMAINS, Domain
from camdf_lab.domains.shipped import SCORE_UNITS, SELF_SELECTED

TARGET = Path(__file__).parents[1] / "src" / "camdf_lab" / "domains" / "packed"
DIMENSIONS = 64
"""How many numbers a task's vector has."""

Array = npt.NDArray[Any]


def pack(source: Path, domain: Domain) -> dict[str, Array]:
    """The arrays of one domain, read from `source`."""
    tools = list(json.loads((source / "tools.json").read_bytes()))
    position = {name: i for i, name in enumerate(tools)}
    labels = _records(source / "labels.jsonl")
    ids = [label["task_id"] for label in labels]
    arrays = {
        "tools": _text(tools),
        "task_ids": _text(ids),
        "groups": _text([label["group"] for label in labels]),
        "required": np.array([position[name] for label in labels for name in label["required"]], dtype=np.uint16),
        "n_required": np.array([len(label["required"]) for label in labels], dtype=np.uint8),
    }
    for scorer in domain.scorers:
        scored = _records(source / "scores" / f"{scorer}.jsonl")
        _same(ids, [record["task_id"] for record in scored], f"{domain.name}/{scorer}")
        records = [{**label, **record} for label, record in zip(labels, scored, strict=True)]
        rankings = LoggedTasks.from_records(records, keep_order=domain.ranked_in_file).rankings
        units = np.rint(rankings.scores[rankings.listed] * SCORE_UNITS).astype(np.uint16)
        _same((units / SCORE_UNITS).tolist(), rankings.scores[rankings.listed].tolist(), f"{domain.name}/{scorer}")
        arrays[f"catalogue.{scorer}"] = np.array([position[name] for name in rankings.catalogue], dtype=np.uint16)
        arrays[f"lengths.{scorer}"] = rankings.lengths.astype(np.uint8)
        arrays[f"ids.{scorer}"] = rankings.tool_ids[rankings.listed].astype(np.uint16)
        arrays[f"scores.{scorer}"] = units
    if (source / "selfselect.jsonl").exists():
        chosen = _records(source / "selfselect.jsonl")
        _same(ids, [record["task_id"] for record in chosen], f"{domain.name}/selfselect")
        for setting in SELF_SELECTED:
            arrays[f"chosen.{setting}"] = np.array([[name in record[setting] for name in tools] for record in chosen])
    return arrays


FOLDERS = {"data": DOMAINS, "second-look": LATER_DOMAINS, "none": MIXED_DOMAINS}
"""Where the files of each batch are."""


def sources(folder: Path) -> dict[Domain, Path]:
    """Where each domain's files are."""
    return {domain: folder / name / domain.name for name, domains in FOLDERS.items() for domain in domains}


def requests(folder: Path, domains: Sequence[Domain]) -> dict[str, list[str]]:
    """The texts of these domains' tasks in the order of their labels."""
    found = {}
    for domain, source in sources(folder).items():
        if domain not in domains:
            continue
        texts = {task["task_id"]: task["text"] for task in _records(source / "tasks.jsonl")}
        found[domain.name] = [texts[label["task_id"]] for label in _records(source / "labels.jsonl")]
    return found


def embedded(texts: Mapping[str, Sequence[str]], encode: Encode) -> dict[str, Array]:
    """Every domain's requests as (n, d). A text is embedded once and alone: its vector depends on nothing else."""
    distinct = dict.fromkeys(text for found in texts.values() for text in found)
    vectors = {text: np.asarray(encode([text]), dtype=np.float64)[0] for text in distinct}
    return {name: np.stack([vectors[text] for text in found]) for name, found in texts.items()}


def main_directions(vectors: Array) -> Array:
    """(64, d): the right singular vectors of the distinct rows, not centred, the largest entry of each positive."""
    _, _, found = np.linalg.svd(np.unique(vectors, axis=0), full_matrices=False)
    found = found[:DIMENSIONS]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    directions: Array = found * np.sign(largest)
    return directions


def projection_of(embeddings: Mapping[str, Array]) -> Array:
    """(64, 384): from the requests of `DOMAINS` alone."""
    pooled = np.concatenate([embeddings[domain.name] for domain in DOMAINS])
    return main_directions(pooled).astype(np.float16)


def pack_vectors(embeddings: Mapping[str, Array], projection: Array) -> dict[str, Array]:
    """Every domain's requests under the projection, 8 bits a number."""
    arrays: dict[str, Array] = {}
    for name, vectors in embeddings.items():
        short = vectors @ projection.astype(np.float64).T
        arrays[name] = np.rint(127 * short / np.abs(short).max(axis=1, keepdims=True)).astype(np.int8)
    return arrays


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """An .npz that `np.load` reads, with nothing of the day or the machine in it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            archive.writestr(entry, content.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main(arguments: Sequence[str]) -> None:
    """Pack every domain, and print what each file takes."""
    parser = argparse.ArgumentParser(description="Pack the evaluation data into the files that ship.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path, nargs="?", default=TARGET)
    parser.add_argument("--model", help="all-MiniLM-L6-v2, to make the vectors of the tasks too")
    options = parser.parse_args(arguments)
    options.target.mkdir(parents=True, exist_ok=True)
    files = {domain.name: pack(source, domain) for domain, source in sources(options.folder).items()}
    if options.model is not None:
        encode = Embeddings(options.model).encoded
        embeddings = embedded(requests(options.folder, (*DOMAINS, *LATER_DOMAINS)), encode)
        directions = projection_of(embeddings)
        files["task-vectors"] = {"projection": directions, **pack_vectors(embeddings, directions)}
        mixed = embedded(requests(options.folder, MIXED_DOMAINS), encode)
        files["task-vectors-mixed"] = pack_vectors(mixed, directions)
    total = 0
    for name, arrays in files.items():
        path = options.target / f"{name}.npz"
        write(path, arrays)
        total += path.stat().st_size
        print(f"{name:18} {path.stat().st_size:9,} bytes")
    print(f"{'in all':18} {total:9,} bytes")


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _text(names: list[str]) -> Array:
    if any("\n" in name for name in names):
        raise ValueError("Names must not hold line breaks: the packed file has one a line.")
    return np.frombuffer("\n".join(names).encode(), dtype=np.uint8)


def _same(expected: list[Any], found: list[Any], name: str) -> None:
    if expected != found:
        raise ValueError(f"{name}: the tasks or the scores are not what the packed format can hold.")


if __name__ == "__main__":
    main(sys.argv[1:])
