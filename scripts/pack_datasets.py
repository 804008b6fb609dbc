"""Pack the evaluation data into the files that ship: `python scripts/pack_datasets.py FOLDER [TARGET]`.

FOLDER holds one folder a domain with `labels.jsonl`, `tools.json` and `scores/SCORER.jsonl`; TARGET is by default the
package's own folder. The same input gives the same bytes, under one version of zlib. What is written is described in
`camdf.datasets.shipped`; request texts and descriptions are never opened, but for the tool names in `tools.json`.
"""

from __future__ import annotations

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
from camdf.datasets.domains import DOMAINS, Domain
from camdf.datasets.shipped import SCORE_UNITS, SELF_SELECTED

TARGET = Path(__file__).parents[1] / "src" / "camdf" / "datasets" / "packed"
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
    folder, target = Path(arguments[0]), Path(arguments[1]) if len(arguments) > 1 else TARGET
    target.mkdir(parents=True, exist_ok=True)
    total = 0
    for domain in DOMAINS:
        path = target / f"{domain.name}.npz"
        write(path, pack(folder / domain.name, domain))
        total += path.stat().st_size
        print(f"{domain.name:16} {path.stat().st_size:9,} bytes")
    print(f"{'in all':16} {total:9,} bytes")


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
