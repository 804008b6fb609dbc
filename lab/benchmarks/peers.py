"""Asks the peers which tools they would choose: eight packages, installed and run on the same tasks as camdf.

python benchmarks/peers.py ask                       every peer, every domain; results/peers.npz; half an hour
python benchmarks/peers.py ask --environments NAME   the peers of these environments anew, the others as they are stored
python benchmarks/peers.py check                     exit 1 where a sample drawn by CAMDF_SAMPLE is not what is stored

The answers are stored as numbers, and `camdf-lab run peers` measures and writes docs/peers.md from there alone. Asking
needs the request texts and tool descriptions, which do not ship (`--data FOLDER`, `--later FOLDER`), and the
environments that `.ci/environments` makes under CAMDF_CACHE: `models` for MiniLM, and those of `ENVIRONMENTS`.
The everyday requests and conversations are those of tests/data.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from peer_calls import ENVIRONMENTS, PEERS, Asked, MiniLM, embeddings
from peer_conversations import EVERYDAY, everyday_answers

from camdf.datasets.texts import Texts, texts_from_folder
from camdf.prices import estimated_tokens
from camdf.tools import Tool
from camdf_lab import domains
from camdf_lab.peers.answers import read_answers, write_answers

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parents[1] / "shared"
CACHE = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf"))
RESULTS = ROOT / "results"
TASKS = 50
SEED = 17
"""How many tasks of a domain are asked about, at most, and by what they are drawn."""

FOLDERS = [SHARED / "data", SHARED / "second-look"]
RANKINGS = {"langchain": "claude"}
"""Whose candidates a peer chooses from: MiniLM's, but for the selector that is handed Claude's scores."""


def asked_domains() -> list[str]:
    return [domain.name for domain in (*domains.DOMAINS, *domains.LATER_DOMAINS)]


@cache
def texts(domain: str) -> Texts:
    """A domain's texts, from whichever folder has them."""
    folder = next(folder for folder in FOLDERS if (folder / domain / "tasks.jsonl").is_file())
    return texts_from_folder(folder, domain)


def sampled(domain: str) -> list[int]:
    """The rows of a domain's tasks that peers are asked about."""
    count = len(domains.labels(domain))
    return sorted(random.Random(f"{SEED} {domain}").sample(range(count), min(TASKS, count)))


def asked(domain: str, scorer: str) -> list[Asked]:
    """Every sampled task."""
    logged = domains.load(domain, scorer)
    of_domain = texts(domain)
    order = {name: number for number, name in enumerate(of_domain.descriptions)}
    requests = {task.task_id: task.text for task in of_domain.tasks}
    ids = logged.task_ids.tolist()
    tasks = []
    for row in sampled(domain):
        names = logged.rankings.names(row)
        tools = tuple(Tool(name, of_domain.descriptions[name]) for name in sorted(names, key=order.__getitem__))
        places = {name: place for place, name in enumerate(names)}
        scores = dict(zip(names, logged.rankings.scores[row].tolist(), strict=False))
        tasks.append(Asked(requests[ids[row]], tools, places, scores))
    return tasks


def of_peer(name: str, domain: str, minilm: MiniLM, numbers: Sequence[int] | None = None) -> dict[str, Any]:
    """The arrays of one peer in one domain, over all sampled tasks or some of them."""
    scorer = RANKINGS.get(name, "minilm")
    tasks = asked(domain, scorer)
    if numbers is not None:
        tasks = [tasks[number] for number in numbers]
    peer = PEERS[name](tasks, minilm)
    width = max(len(task.tools) for task in tasks)
    default = np.zeros((len(tasks), width), bool)
    places = np.full((len(tasks), width), -1, np.int16)
    scores = np.zeros((len(tasks), width), np.float32)
    for row, task in enumerate(tasks):
        answer = peer(task)
        default[row, [task.place[tool] for tool in answer.default]] = True
        for place, tool in enumerate(answer.whole):
            places[row, task.place[tool]] = place
        for listed, score in zip(task.tools, answer.scores or (), strict=False):
            scores[row, task.place[listed.name]] = score
    kept: dict[str, Any] = {"default": default, "places": places}
    if scores.any():
        kept["scores"] = scores
    return {f"{domain}/{scorer}/{name}/{key}": value for key, value in kept.items()}


def has_claude(domain: str) -> bool:
    return "claude" in domains.scorers(domain)


def counted(domain: str) -> dict[str, Any]:
    """How long requests and definitions are, in tokens."""
    tokens: dict[str, Any] = {f"{domain}/rows": np.array(sampled(domain), np.int32)}
    for scorer in ("minilm", "claude") if has_claude(domain) else ("minilm",):
        tasks = asked(domain, scorer)
        width = max(len(task.tools) for task in tasks)
        sizes = np.zeros((len(tasks), width), np.int32)
        for row, task in enumerate(tasks):
            for tool in task.tools:
                sizes[row, task.place[tool.name]] = estimated_tokens(tool.definition())
        tokens[f"{domain}/{scorer}/tokens"] = sizes
        tokens[f"{domain}/request"] = np.array([estimated_tokens(task.text) for task in tasks], np.int32)
    return tokens


def part(environment: str, target: Path, url: str, only: Sequence[str], numbers: Sequence[int] | None) -> None:
    """Ask the peers of this environment, from within it, and write their arrays."""
    arrays: dict[str, Any] = {}
    minilm = MiniLM(url)
    for domain in only:
        for name in ENVIRONMENTS[environment]:
            begun = time.perf_counter()
            if domain == EVERYDAY:
                arrays |= everyday_answers(name, minilm)
            elif environment != "models" and (RANKINGS.get(name) != "claude" or has_claude(domain)):
                arrays |= of_peer(name, domain, minilm, numbers)
            print(f"{domain}, {name}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)
            np.savez(target, **arrays)


def ask(
    environments: Sequence[str], only: Sequence[str], numbers: Sequence[int] | None = None, minilm: str | None = None
) -> dict[str, Any]:
    """Their peers' arrays over these domains, each peer asked in its own environment."""
    arrays: dict[str, Any] = {}
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT.parent / "src"), str(ROOT / "src")])}
    folders = ["--data", str(FOLDERS[0]), "--later", str(FOLDERS[1])]
    tasks = [] if numbers is None else ["--tasks", *map(str, numbers)]
    model = nullcontext(minilm) if minilm else embeddings(CACHE / "models" / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder, model as url:
        for environment in environments:
            target = Path(folder) / f"{environment}.npz"
            python = str(CACHE / environment / "bin" / "python")
            what = ["part", "--environments", environment, *tasks, "--domains", *only]
            where = ["--into", str(target), "--minilm", url, *folders]
            subprocess.run([python, __file__, *what, *where], check=True, env=own)
            with np.load(target) as pack:
                arrays |= dict(pack)
    return arrays


def differing(stored: dict[str, Any], seed: int) -> list[str]:
    """Where the peers of one environment answer a few tasks of one domain otherwise than is stored."""
    rng = random.Random(seed)
    environment = rng.choice([name for name in ENVIRONMENTS if name != "models"])
    domain = rng.choice([domain for domain in asked_domains() if len(sampled(domain)) >= 20])
    numbers = sorted(rng.sample(range(len(sampled(domain))), 8))
    lines = []
    for key, again in ask([environment], [domain], numbers).items():
        if not key.endswith("/default"):
            continue
        before = stored[key][numbers]
        width = min(before.shape[1], again.shape[1])
        changed = (before[:, :width] != again[:, :width]).any(axis=1)
        if changed.sum() > 1:  # a similarity at the threshold may round to the other side
            lines.append(f"{key}: {int(changed.sum())} of {len(numbers)} tasks are answered otherwise than stored")
    return lines


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("action", choices=("ask", "check", "part"))
    options.add_argument("--data", type=Path, default=FOLDERS[0], help="texts of the shipped domains")
    options.add_argument("--later", type=Path, default=FOLDERS[1], help="texts of the later domains")
    options.add_argument("--domains", nargs="+", default=[*asked_domains(), EVERYDAY])
    options.add_argument("--environments", nargs="+", choices=ENVIRONMENTS)
    options.add_argument("--tasks", nargs="+", type=int)
    options.add_argument("--into", type=Path, default=RESULTS)
    options.add_argument(
        "--minilm", help="where MiniLM answers (`python benchmarks/peer_calls.py`); else it is started"
    )
    chosen = options.parse_args()
    FOLDERS[:] = [chosen.data, chosen.later]
    if chosen.action == "part":
        part(chosen.environments[0], chosen.into, chosen.minilm, chosen.domains, chosen.tasks)
    elif chosen.action == "ask":
        arrays = read_answers(chosen.into) if chosen.environments else {}
        arrays |= ask(chosen.environments or list(ENVIRONMENTS), chosen.domains, minilm=chosen.minilm)
        for domain in chosen.domains:
            if domain != EVERYDAY:
                arrays |= counted(domain)
        write_answers(chosen.into, arrays)
    elif not all(folder.is_dir() for folder in FOLDERS):
        print("the texts are not here: nothing was asked again")
    else:
        changed = differing(read_answers(chosen.into), int(os.environ.get("CAMDF_SAMPLE", "0")))
        print("\n".join(changed) or "a sample is as stored", file=sys.stderr if changed else sys.stdout)
        return 1 if changed else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
