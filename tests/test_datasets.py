"""The shipped data equal their source to the bit; data of one's own are refused with line and field, or round-trip."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from camdf import MissingExtraError, datasets
from camdf.core.costs import RETAIL_BASE_COSTS, dispersed, md5_base_costs
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.datasets.quality import auc

SHARED = Path(__file__).parents[2] / "shared"
PACKAGE = Path(datasets.__file__).parent
ALL = (*datasets.DOMAINS, *datasets.SECOND_LOOK)
NAMES = [domain.name for domain in ALL]
RANKINGS = [(domain.name, scorer) for domain in ALL for scorer in domain.scorers]

AUC = {
    "retail": {"claude": 0.984, "claude-conservative": 0.984, "claude-brief": 0.964, "minilm": 0.736},
    "airline": {"claude": 0.981, "claude-conservative": 0.980, "minilm": 0.734},
    "telecom": {"claude": 0.945, "minilm": 0.669},
    "workbench": {"claude": 0.998, "minilm": 0.798},
    "mcp-atlas": {"claude": 0.967, "minilm": 0.583},
    "metatool": {"claude": 0.989, "minilm": 0.926},
    "bfcl-multi-turn": {"minilm": 0.670, "bm25": 0.760},
    "livemcpbench": {"claude": 0.990, "minilm": 0.828, "bm25": 0.812},
    "seal-tools": {"minilm": 0.810, "bm25": 0.919},
}
"""Pooled AUCs as published with the data."""

SECOND_LOOK = {
    "restbench-tmdb": (100, 54, 50, 2.25, 99, (0.721, 0.754), (5, 2)),
    "nestful-executable": (85, 39, 39, 2.65, 83, (0.864, 0.929), (0, 0)),
    "nestful-glaive": (159, 64, 50, 2.72, 157, (0.967, 0.949), (1, 0)),
    "toolalpaca": (208, 94, 50, 1.17, 207, (0.940, 0.939), (6, 0)),
    "api-bank": (212, 52, 50, 1.76, 89, (0.891, 0.908), (2, 1)),
    "toolsandbox": (101, 33, 33, 3.49, 38, (0.590, 0.758), (0, 0)),
    "tau2-banking": (90, 54, 50, 4.41, 76, (0.815, 0.697), (3, 26)),
    "stabletoolbench-g3": (61, 44, 44, 2.95, 60, (0.900, 0.840), (0, 0)),
}
"""As published: tasks, tools, list, mean required, groups, and for bm25 and minilm AUC and % with a tool missing."""

SECOND_LOOK_CLAUDE = {
    "restbench-tmdb": 0.999,
    "nestful-executable": 1.000,
    "toolsandbox": 0.964,
    "tau2-banking": 0.979,
    "stabletoolbench-g3": 0.973,
}
"""AUCs of the claude rankings, as published."""

DIGESTS = {
    "airline": "b622087759ff",
    "api-bank": "eb80ab805400",
    "bfcl-multi-turn": "bfe2baf46e7d",
    "livemcpbench": "a1fe59141020",
    "mcp-atlas": "59f5564e47d4",
    "metatool": "50bfbc144764",
    "nestful-executable": "0d8742d88635",
    "nestful-glaive": "68366b63247d",
    "restbench-tmdb": "63ae4f0f9a87",
    "retail": "42055cadbdb9",
    "seal-tools": "ce232d78e6d1",
    "stabletoolbench-g3": "cd52219c71cd",
    "task-vectors": "8cb54d1c3d41",
    "tau2-banking": "b489dd1a6acb",
    "telecom": "d1211d8ecfd4",
    "tool-sizes": "c0871815304d",
    "toolalpaca": "034ae6254fd2",
    "toolsandbox": "0826dfb7222b",
    "workbench": "daf1d4006d8a",
}
"""What ships, file by file: the first digits of the SHA-256 over the names and contents of its arrays."""


@pytest.fixture(scope="module")
def source() -> Path:
    """The folder that the packed files were made from: it must be there in CI, and may be missing elsewhere."""
    if not SHARED.is_dir():
        message = f"The source data are not at {SHARED}."
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return SHARED


def at(source: Path, domain: str) -> Path:
    """The folder of one domain in the source."""
    return source / ("second-look" if domain in SECOND_LOOK else "data") / domain


def packing() -> Any:
    """The script that packs, as a module."""
    spec = spec_from_file_location("pack_datasets", Path(__file__).parents[1] / "scripts" / "pack_datasets.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@cache
def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def arrays(logged: LoggedTasks) -> dict[str, np.ndarray[Any, Any]]:
    parts = {name: getattr(logged, name) for name in ("required", "n_required", "task_ids", "groups")}
    return parts | {name: getattr(logged.rankings, name) for name in ("scores", "costs", "lengths", "tool_ids")}


def assert_same(found: LoggedTasks, expected: LoggedTasks) -> None:
    assert found.rankings.catalogue == expected.rankings.catalogue
    for (name, one), other in zip(arrays(found).items(), arrays(expected).values(), strict=True):
        assert (name, one.dtype, one.shape) == (name, other.dtype, other.shape)
        assert one.tobytes() == other.tobytes(), name


# What ships


@pytest.mark.parametrize(("domain", "scorer"), RANKINGS)
def test_packed_rankings_equal_the_source_bit_by_bit(source: Path, domain: str, scorer: str) -> None:
    folder = at(source, domain)
    scored = lines(folder / "scores" / f"{scorer}.jsonl")
    records = [{**label, **score} for label, score in zip(lines(folder / "labels.jsonl"), scored, strict=True)]
    tools = json.loads((folder / "tools.json").read_bytes())
    keep_order = domain in ("seal-tools", "livemcpbench", "bfcl-multi-turn", *SECOND_LOOK)

    uniform = LoggedTasks.from_records(records, keep_order=keep_order)
    assert_same(datasets.load(domain, scorer), uniform)

    vector = 0 if domain == "retail" else 3
    base = RETAIL_BASE_COSTS if domain == "retail" else md5_base_costs(tools, vector)
    priced = datasets.load(domain, scorer, dispersion=1.0, cost_vector=vector)
    assert_same(priced, uniform.with_costs(dispersed(base, 1.0)))


@pytest.mark.parametrize("domain", NAMES)
def test_labels_and_tools_equal_the_source(source: Path, domain: str) -> None:
    assert datasets.labels(domain) == lines(at(source, domain) / "labels.jsonl")
    assert list(datasets.tools(domain)) == list(json.loads((at(source, domain) / "tools.json").read_bytes()))


def test_every_scorer_of_the_source_ships(source: Path) -> None:
    found = {(path.parents[1].name, path.stem) for path in source.glob("*/*/scores/*.jsonl")}
    assert found == set(RANKINGS)


def test_packing_again_gives_the_same_bytes_and_the_shipped_arrays(source: Path, tmp_path: Path) -> None:
    script = packing()
    for target in ("one", "two"):
        script.main([str(source), str(tmp_path / target)])
    for domain in NAMES:
        packed = [(folder / f"{domain}.npz") for folder in (tmp_path / "one", tmp_path / "two", PACKAGE / "packed")]
        assert packed[0].read_bytes() == packed[1].read_bytes()
        # Another zlib may compress otherwise, so what ships is compared member by member.
        with zipfile.ZipFile(packed[0]) as made, zipfile.ZipFile(packed[2]) as ships:
            assert made.namelist() == ships.namelist()
            assert all(made.read(name) == ships.read(name) for name in made.namelist())


def test_no_request_text_and_no_description_ships(source: Path) -> None:
    for domain in NAMES:
        with zipfile.ZipFile(PACKAGE / "packed" / f"{domain}.npz") as ships:
            content = b"\n".join(ships.read(name) for name in ships.namelist())
        described = json.loads((at(source, domain) / "tools.json").read_bytes()).values()
        sentences = [task["text"] for task in lines(at(source, domain) / "tasks.jsonl")] + list(described)
        names = "\n".join(datasets.tools(domain))  # one API of stabletoolbench-g3 is described by its name
        sentences = [sentence for sentence in sentences if len(sentence) > 20 and sentence not in names]
        assert not [sentence for sentence in sentences if sentence.encode() in content]


def test_the_packed_files_stay_small_and_hold_only_what_is_described() -> None:
    packed = sorted((PACKAGE / "packed").iterdir())
    assert sorted(path.stem for path in packed) == sorted([*NAMES, "tool-sizes", "task-vectors"])
    assert sum(path.stat().st_size for path in packed) < 1_500_000
    for domain in ALL:
        rankings = (*domain.scorers, *domain.beside)
        parts = {f"{part}.{scorer}" for part, scorer in product(("catalogue", "lengths", "ids", "scores"), rankings)}
        parts |= {"tools", "task_ids", "groups", "required", "n_required"}
        parts |= {"chosen.uniform", "chosen.dispersed"} if domain.name == "retail" else set()
        with np.load(PACKAGE / "packed" / f"{domain.name}.npz", allow_pickle=False) as pack:
            assert set(pack.files) == parts
    with np.load(PACKAGE / "packed" / "task-vectors.npz", allow_pickle=False) as pack:
        assert set(pack.files) == {*NAMES, "projection"}


def test_what_ships_has_not_changed() -> None:
    found = {}
    for path in sorted((PACKAGE / "packed").iterdir()):
        with zipfile.ZipFile(path) as ships:
            content = b"".join(name.encode() + ships.read(name) for name in sorted(ships.namelist()))
        found[path.stem] = sha256(content).hexdigest()[:12]
    assert found == DIGESTS


def test_the_records_of_the_domains_give_their_sizes() -> None:
    assert sum(domain.tasks for domain in datasets.DOMAINS) == 3145
    assert len(set(NAMES)) == len(NAMES) == 17
    for domain in ALL:
        assert len(datasets.tools(domain.name)) == domain.tools
        for scorer in (*datasets.scorers(domain.name), *domain.beside):
            assert len(datasets.load(domain.name, scorer)) == domain.tasks


def test_the_second_look_is_as_published() -> None:
    assert [domain.name for domain in datasets.SECOND_LOOK] == list(SECOND_LOOK)
    for domain in datasets.SECOND_LOOK:
        tasks, tools, width, required, groups, aucs, missing = SECOND_LOOK[domain.name]
        assert (domain.tasks, domain.tools) == (tasks, tools)
        assert domain.ranked_in_file
        for scorer, auc_, percent in zip(("bm25", "minilm"), aucs, missing, strict=True):
            logged = datasets.load(domain.name, scorer)
            assert set(logged.rankings.lengths.tolist()) == {width}
            assert len(set(logged.groups.tolist())) == groups
            assert round(float(logged.n_required.mean()), 2) == required
            quality = datasets.score_quality(logged)
            assert round(quality.auc, 3) == auc_, (domain.name, scorer)
            assert round(100 * (1 - quality.covered)) == percent, (domain.name, scorer)
        claude = ("claude",) if domain.name in SECOND_LOOK_CLAUDE else ()
        assert domain.scorers == (*claude, "minilm", "bm25")
        if claude:
            logged = datasets.load(domain.name)
            assert set(logged.rankings.lengths.tolist()) == {tools}
            assert round(datasets.score_quality(logged).auc, 3) == SECOND_LOOK_CLAUDE[domain.name]


# Second rankings


def test_every_ranking_has_a_second_one_beside_it_over_the_same_tasks() -> None:
    for domain in ALL:
        assert set(domain.beside) == {"bm25"} - set(domain.scorers)
        for scorer in (None, *domain.scorers):
            first, other = datasets.load(domain.name, scorer), datasets.second(domain.name, scorer)
            assert other in ("bm25", "minilm")
            assert other != (scorer or domain.scorers[0])
            beside = datasets.load(domain.name, other)
            assert beside.task_ids.tolist() == first.task_ids.tolist()
            assert beside.n_required.tolist() == first.n_required.tolist()


def test_rankings_made_beside_hold_the_tools_of_the_first_and_a_best_one_at_1_or_none() -> None:
    for domain in datasets.DOMAINS:
        for scorer in domain.beside:
            first, beside = datasets.load(domain.name).rankings, datasets.load(domain.name, scorer).rankings
            for row in range(len(first)):
                assert set(first.names(row)) == set(beside.names(row))
            assert set(beside.scores[:, 0].tolist()) <= {0.0, 1.0}
            assert (np.diff(beside.scores, axis=1) <= 0).all()


# Vectors of tasks


@pytest.mark.parametrize("domain", ALL, ids=NAMES)
def test_a_task_has_a_vector_of_length_one(domain: datasets.Domain) -> None:
    vectors = datasets.task_vectors(domain.name)
    assert vectors.shape == (domain.tasks, 64)
    assert vectors.dtype == np.float64
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-12)


def test_equal_texts_have_equal_vectors(source: Path) -> None:
    for domain in NAMES:
        vectors, first = datasets.task_vectors(domain), dict[str, int]()
        texts = {task["task_id"]: task["text"] for task in lines(at(source, domain) / "tasks.jsonl")}
        for row, task_id in enumerate(datasets.load(domain).task_ids.tolist()):
            assert (vectors[row] == vectors[first.setdefault(texts[task_id], row)]).all()


@pytest.mark.parametrize(("domain", "distinct"), [("telecom", 5), ("toolsandbox", 89), ("retail", 67)])
def test_requests_that_differ_have_vectors_that_differ(domain: str, distinct: int) -> None:
    assert len(np.unique(datasets.task_vectors(domain), axis=0)) == distinct


def test_telecom_tasks_of_one_group_share_their_vector() -> None:
    vectors, groups = datasets.task_vectors("telecom"), datasets.load("telecom").groups
    for group in set(groups.tolist()):
        assert len(np.unique(vectors[groups == group], axis=0)) == 1


def test_the_projection_keeps_lengths_and_angles_inside_its_64_directions() -> None:
    matrix = datasets.projection()
    assert matrix.shape == (64, 384)
    assert matrix @ matrix.T == pytest.approx(np.eye(64), abs=1e-3)
    vectors = datasets.task_vectors("airline")
    assert datasets.projected(vectors @ matrix) == pytest.approx(vectors, abs=1e-3)


def test_a_projected_request_does_not_depend_on_those_beside_it() -> None:
    embeddings = np.random.default_rng(0).standard_normal((40, 384))
    together = datasets.projected(embeddings)
    assert all((datasets.projected(embeddings[i : i + 1])[0] == together[i]).all() for i in range(40))
    assert (datasets.projected(np.zeros((1, 384))) == 0).all()


def test_vectors_are_packed_as_the_directions_of_the_projected_embeddings() -> None:
    rng = np.random.default_rng(0)
    made = {name: [f"{name} {i // 2}" for i in range(30)] for name in NAMES}
    vectors = {text: rng.standard_normal(384) for texts in made.values() for text in texts}
    script = packing()
    embeddings = script.embedded(made, lambda texts: np.stack([vectors[text] for text in texts]))
    assert all((embeddings[name][-1] == vectors[made[name][-1]]).all() for name in NAMES)
    packed = script.pack_vectors(embeddings)
    matrix = packed["projection"].astype(float)
    assert matrix @ matrix.T == pytest.approx(np.eye(64), abs=2e-3)
    for name in NAMES:
        assert packed[name].dtype == np.int8
        assert (np.abs(packed[name].astype(int)).max(axis=1) == 127).all()
        assert (packed[name][::2] == packed[name][1::2]).all()
        expected = np.stack([vectors[text] for text in made[name]]) @ matrix.T
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        found = packed[name] / np.linalg.norm(packed[name].astype(float), axis=1, keepdims=True)
        assert np.einsum("nd,nd->n", found, expected).min() > 0.999


def test_what_ships_loads_several_times_as_fast_as_the_same_tasks_are_read_from_a_file(tmp_path: Path) -> None:
    def best(read: Callable[[], LoggedTasks]) -> float:
        seconds = []
        for _ in range(3):
            start = time.process_time()
            read()
            seconds.append(time.process_time() - start)
        return min(seconds)

    path = tmp_path / "tasks.jsonl"
    datasets.write_jsonl(datasets.load("seal-tools"), path)
    assert best(lambda: datasets.load("seal-tools")) < best(lambda: datasets.read_jsonl(path)) / 5


def test_the_first_scorer_is_the_default() -> None:
    assert_same(datasets.load("livemcpbench"), datasets.load("livemcpbench", "claude"))


def test_costs_average_over_the_whole_catalogue_and_are_one_at_dispersion_zero() -> None:
    assert set(datasets.costs("livemcpbench").values()) == {1.0}
    costs = datasets.costs("livemcpbench", dispersion=0.5, cost_vector=2)
    assert len(costs) == 527
    assert np.mean(list(costs.values())) == pytest.approx(1.0)
    logged = datasets.load("livemcpbench", "bm25", dispersion=0.5, cost_vector=2)
    assert len(logged.rankings.catalogue) == 515
    assert_same(logged, logged.with_costs(costs))


def test_labels_become_logged_tasks_once_they_have_scores() -> None:
    logged = datasets.load("seal-tools", "minilm")
    scores = {
        str(task_id): dict(zip(logged.rankings.names(row), logged.rankings.scores[row].tolist(), strict=True))
        for row, task_id in enumerate(logged.task_ids)
    }
    again = [{**label, "scores": scores[label["task_id"]]} for label in datasets.labels("seal-tools")]
    assert_same(LoggedTasks.from_records(again, keep_order=True), logged)
    assert logged.missing.any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: datasets.load("retial"), ["'retial'", "retail, airline, telecom"]),
        (lambda: datasets.scorers("x"), ["'x'", "seal-tools"]),
        (lambda: datasets.labels("x"), ["'x'", "seal-tools"]),
        (lambda: datasets.tools("../retail"), ["'../retail'", "seal-tools"]),
        (lambda: datasets.load("telecom", "x"), ["scorer", "telecom", "claude, minilm, bm25", "'x'"]),
        (lambda: datasets.second("x"), ["'x'", "stabletoolbench-g3"]),
        (lambda: datasets.task_vectors("x"), ["'x'", "stabletoolbench-g3"]),
        (lambda: datasets.task_vectors("projection"), ["'projection'", "stabletoolbench-g3"]),
        (lambda: datasets.projected(np.zeros((2, 64))), ["'embeddings'", "(n, 384)", "(2, 64)"]),
        (lambda: datasets.sizes("api-bank"), ["DOMAINS", "api-bank"]),
        (lambda: datasets.load("retail", cost_vector=1), ["cost_vector", "must be 0", "with_costs"]),
        (lambda: datasets.self_selected(datasets.load("retail"), "x"), ["setting", "uniform, dispersed", "'x'"]),
        (lambda: datasets.self_selected(datasets.load("airline")), ["load('retail')", "airline-1"]),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(call: Any, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"must|Only") as caught:
        call()
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("setting", "dispersion", "sufficiency", "payoff"), [("uniform", 0, 0.896, 0.444), ("dispersed", 1, 0.910, 0.387)]
)
def test_self_selected_sets_give_the_published_sufficiency_and_payoff(
    setting: str, dispersion: float, sufficiency: float, payoff: float
) -> None:
    for scorer in datasets.scorers("retail"):
        logged = datasets.load("retail", scorer, dispersion=dispersion)
        chosen = datasets.self_selected(logged, setting)
        assert Payoff(0.0).of(logged, chosen).mean() == pytest.approx(sufficiency, abs=5e-4)
        assert Payoff(0.12).of(logged, chosen).mean() == pytest.approx(payoff, abs=5e-4)


def test_self_selected_sets_follow_rows_and_padding() -> None:
    logged = datasets.load("retail", "minilm")
    rows = [5, 3, 3]
    some = datasets.self_selected(logged.take(rows).padded_to(9))
    assert (some[:, :7] == datasets.self_selected(logged)[rows]).all()
    assert not some[:, 7:].any()


def test_the_sources_are_attributed_inside_the_package() -> None:
    text = (PACKAGE / "SOURCES.md").read_text(encoding="utf-8")
    rows = {row.split(" | ")[0].strip("| "): row for row in text.splitlines() if row.startswith("| ")}
    for domain in ALL:
        version = domain.source.split()[-1] if domain.name != "mcp-atlas" else "Scale AI"
        assert all(part in rows[domain.name] for part in (version, domain.url, domain.licence))
    assert "MCP-Atlas by Scale AI is licensed under the Creative Commons Attribution 4.0" in text


def test_the_public_names_are_sorted_and_exist() -> None:
    assert datasets.__all__ == sorted(datasets.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(datasets, name) for name in datasets.__all__)


def test_importing_datasets_loads_numpy_and_the_standard_library_only() -> None:
    code = "import sys; from camdf import datasets; datasets.load('retail'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pyarrow", "polars", "sklearn", "scipy"}


# Score quality


def test_aucs_are_the_published_ones() -> None:
    table = datasets.quality_table()
    assert set(table) == {(domain, scorer) for domain, row in AUC.items() for scorer in row}
    for (domain, scorer), row in table.items():
        assert round(row.auc, 3) == AUC[domain][scorer], (domain, scorer)


@pytest.mark.parametrize(
    ("domain", "scorer", "missed"),
    [
        ("livemcpbench", "minilm", 44),
        ("livemcpbench", "bm25", 61),
        ("seal-tools", "minilm", 38),
        ("seal-tools", "bm25", 10),
    ],
)
def test_lists_miss_required_tools_as_often_as_published(domain: str, scorer: str, missed: int) -> None:
    quality = datasets.score_quality(datasets.load(domain, scorer))
    assert round(100 * (1 - quality.covered)) == missed


def test_auc_counts_every_pair_and_ties_half() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 6, 40) / 5, rng.integers(0, 5, 70) / 5
    pairs = positive[:, None] - negative[None, :]
    assert auc(positive, negative) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean(), abs=1e-15)
    assert auc(positive, negative) + auc(negative, positive) == pytest.approx(1.0)
    assert np.isnan(auc(positive, negative[:0]))


def test_the_table_is_right_on_a_case_worked_by_hand() -> None:
    logged = LoggedTasks.from_records(
        [
            {"scores": {"a": 0.9, "b": 0.5, "c": 0.1}, "required": ["a", "c"]},
            {"scores": {"a": 0.4, "b": 0.8}, "required": ["b"]},
            {"scores": {"a": 0.3}, "required": ["a", "z"]},
        ]
    )
    quality = datasets.score_quality(logged)
    assert (quality.tasks, quality.fewest_candidates, quality.most_candidates) == (3, 1, 3)
    assert quality.mean_candidates == 2.0
    assert quality.mean_required == pytest.approx(5 / 3)
    assert quality.required_score == pytest.approx((0.9 + 0.1 + 0.8 + 0.3) / 4)
    assert quality.other_score == pytest.approx((0.5 + 0.4) / 2)
    assert quality.auc == 4 / 8
    assert quality.cover_rank == 2.0
    assert quality.covered == pytest.approx(2 / 3)
    assert datasets.score_quality(logged.padded_to(8)) == quality


def test_quality_over_nothing_is_nan() -> None:
    logged = LoggedTasks.from_records([{"scores": {}, "required": ["z"]}])
    quality = datasets.score_quality(logged)
    assert np.isnan([quality.auc, quality.required_score, quality.other_score, quality.cover_rank]).all()
    assert quality.covered == 0.0


def test_the_markdown_table_has_a_row_a_ranking() -> None:
    shown = [("retail", "claude"), ("mcp-atlas", "minilm")]
    rows = datasets.as_markdown({key: datasets.score_quality(datasets.load(*key)) for key in shown}).splitlines()
    assert rows[2:] == [
        "| retail | claude | 67 | 7 | 3.73 | 0.905 | 0.134 | 0.984 | 3.88 | 100% |",
        "| mcp-atlas | minilm | 170 | 14.9 | 3.68 | 0.138 | 0.101 | 0.583 | 11.45 | 100% |",
    ]
    assert len({row.count("|") for row in rows}) == 1


# Data of one's own

GOOD = {"task_id": "a", "scores": {"mail": 0.1, "search": 0.9}, "required": ["search"]}


def written(folder: Path, *records: object) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def round_trip(logged: LoggedTasks, folder: Path, suffix: str) -> LoggedTasks:
    path = folder / f"tasks{suffix}"
    (datasets.write_jsonl if suffix == ".jsonl" else datasets.write_parquet)(logged, path)
    return datasets.read(path, keep_order=True)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("domain", "scorer"), [("retail", "claude"), ("mcp-atlas", "minilm"), ("livemcpbench", "bm25")]
)
def test_writing_and_reading_give_every_bit_back(tmp_path: Path, domain: str, scorer: str, suffix: str) -> None:
    logged = datasets.load(domain, scorer, dispersion=1.0)
    assert_same(round_trip(logged, tmp_path, suffix), logged)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_costs_may_differ_from_task_to_task_and_lists_may_be_empty(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(1)
    logged = LoggedTasks.from_records(
        [
            {"task_id": "ä", "scores": {"x": 1 / 3, "y": 0.25}, "required": ["y", "gone"], "group": "g"},
            {"task_id": "b", "scores": {}, "required": []},
            {"task_id": "c", "scores": {"y": 5, "z": 0}, "required": [], "group": "g"},
        ]
    )
    logged = logged.with_costs(rng.uniform(0.1, 2, (3, 2)) * logged.rankings.listed)
    again = round_trip(logged, tmp_path, suffix)
    assert_same(again, logged)
    assert again.missing.tolist() == [1, 0, 0]


def test_a_plain_file_reads_as_from_records(tmp_path: Path) -> None:
    records = [GOOD, {"task_id": "b", "scores": {"search": 0, "mail": 0}, "required": ["mail", "x"], "group": "g"}]
    path = written(tmp_path, *records)
    expected = LoggedTasks.from_records(records)
    assert_same(datasets.read_jsonl(path), expected)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert_same(datasets.read_jsonl(path), expected)


def test_keep_order_takes_the_files_order_as_the_ranking(tmp_path: Path) -> None:
    path = written(tmp_path, {"task_id": "a", "scores": {"z": 0.5, "b": 0.5}, "required": []})
    assert datasets.read(path).rankings.names(0) == ["b", "z"]
    assert datasets.read(path, keep_order=True).rankings.names(0) == ["z", "b"]


BAD_FIELDS: list[tuple[dict[str, object], str, list[str]]] = [
    ({"task_id": 7}, "task_id", ["string", "7", "quotes"]),
    ({"task_id": ""}, "task_id", ["not empty"]),
    ({"task_id": "a\0"}, "task_id", ["valid characters"]),
    ({"task_id": "a"}, "task_id", ["different for every task", "'a'", "line 1", "rename"]),
    ({"scores": [["mail", 1]]}, "scores", ["map tools to numbers"]),
    ({"scores": {"mail": True}}, "scores", ["'mail'", "finite number of at least 0", "True"]),
    ({"scores": {"mail": "0.5"}}, "scores", ["'mail'", "'0.5'"]),
    ({"scores": {"mail": None}}, "scores", ["'mail'", "None"]),
    ({"scores": {"mail": float("nan")}}, "scores", ["'mail'", "nan", "sigmoid"]),
    ({"scores": {"mail": float("inf")}}, "scores", ["'mail'", "inf"]),
    ({"scores": {"mail": 10**400}}, "scores", ["'mail'", "finite"]),
    ({"scores": {"mail": -0.1}}, "scores", ["'mail'", "-0.1", "Clip"]),
    ({"scores": {"": 0.1}}, "scores", ["not empty"]),
    ({"required": "mail"}, "required", ["list of tool names", "'mail'"]),
    ({"required": ["mail", 3]}, "required", ["string", "3"]),
    ({"required": ["mail", "mail"]}, "required", ["once", "'mail'"]),
    ({"required": {"mail": 1}}, "required", ["list of tool names", "{'mail': 1}"]),
    ({"n_required": 0}, "n_required", ["at least 1", "Got 0"]),
    ({"n_required": 1.0}, "n_required", ["whole number", "1.0"]),
    ({"n_required": True}, "n_required", ["whole number", "True"]),
    ({"costs": {"mail": 1, "search": 0}}, "costs", ["'search'", "above 0", "0.01"]),
    ({"costs": {"mail": 1}}, "costs", ["price every candidate", "'search'"]),
    ({"costs": {"mail": 1, "search": 1}}, "costs", ["every record or in none"]),
    ({"group": 4}, "group", ["string", "4"]),
    ({"groups": "g"}, "groups", ["task_id, scores, required, n_required, costs, group", "Rename"]),
]


@pytest.mark.parametrize(("change", "field", "words"), BAD_FIELDS)
def test_a_bad_field_is_refused_with_file_line_field_value_and_remedy(
    tmp_path: Path, change: dict[str, object], field: str, words: list[str]
) -> None:
    path = written(tmp_path, GOOD, {**GOOD, "task_id": "b", **change})
    with pytest.raises(datasets.DataError) as caught:
        datasets.read_jsonl(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 2, field {field!r}: must ")
    assert all(word in message for word in words), message
    assert message.endswith(".")


@pytest.mark.parametrize("missing", ["task_id", "scores", "required"])
def test_a_missing_field_is_named(tmp_path: Path, missing: str) -> None:
    path = written(tmp_path, GOOD, {name: value for name, value in GOOD.items() if name != missing})
    with pytest.raises(datasets.DataError, match=f"line 2, field '{missing}': must be there, and is missing. Add it."):
        datasets.read_jsonl(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[1, 2]", ["line 2: must be one JSON object", "[1, 2]"]),
        (b'{"task_id": "b", ', ["line 2: must be one JSON object", "at column"]),
        (b'{"task_id": "\xff"}', ["line 2: must be one JSON object in UTF-8", "decode"]),
        (b"[" * 100_000, ["line 2: must be one JSON object"]),
        (b'{"task_id": "b", "task_id": "c"}', ["line 2, field 'task_id'", "occur once", "'c'"]),
        (b'{"task_id": "b", "scores": {"x": 1, "x": 2}, "required": []}', ["line 2, field 'scores'", "once", "'x'"]),
        (b'{"task_id": "\\ud800", "scores": {}, "required": []}', ["line 2, field 'task_id'", "valid characters"]),
    ],
)
def test_a_line_that_is_not_a_record_is_refused_with_its_number(tmp_path: Path, line: bytes, words: list[str]) -> None:
    path = written(tmp_path, GOOD)
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(datasets.DataError) as caught:
        datasets.read_jsonl(path)
    assert all(word in str(caught.value) for word in (str(path), *words)), str(caught.value)


def test_an_empty_file_and_an_unknown_suffix_are_refused(tmp_path: Path) -> None:
    with pytest.raises(datasets.DataError, match="at least one task"):
        datasets.read(written(tmp_path))
    with pytest.raises(datasets.DataError, match=r"\.jsonl, \.parquet or \.csv"):
        datasets.read(tmp_path / "tasks.txt")


def parquet(folder: Path, row: dict[str, Any]) -> Path:
    path = folder / "tasks.parquet"
    table = import_module("pyarrow").Table.from_pylist([row])
    import_module("pyarrow.parquet").write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": {"mail": 0.5}}, ["field 'scores'", "list of structs (tool, score)"]),
        ({"scores": [{"tool": "mail", "score": -1.0}]}, ["field 'scores'", "'mail'", "-1.0"]),
        ({"scores": [{"tool": "mail", "score": None}]}, ["field 'scores'", "'mail'", "None"]),
        ({"scores": [{"tool": "m", "score": 1.0}] * 2}, ["field 'scores'", "once", "'m'"]),
        ({"scores": None}, ["field 'scores'", "list of structs", "None"]),
        ({"costs": [{"tool": "x", "price": 1.0}]}, ["field 'costs'", "list of structs (tool, cost)"]),
        ({"task_id": 3}, ["field 'task_id'", "string", "3"]),
        ({"required": None}, ["field 'required'", "list of tool names", "None"]),
        ({"costs": [{"tool": "mail", "cost": 0.0}]}, ["field 'costs'", "'mail'", "above 0"]),
    ],
)
def test_a_bad_parquet_row_is_refused_with_row_and_field(
    tmp_path: Path, change: dict[str, object], words: list[str]
) -> None:
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 0.5}], "required": ["mail"], **change}
    with pytest.raises(datasets.DataError) as caught:
        datasets.read_parquet(parquet(tmp_path, row))
    assert all(word in str(caught.value) for word in ("tasks.parquet, row 1", *words)), str(caught.value)


def test_null_stands_for_an_optional_field_left_out_of_parquet(tmp_path: Path) -> None:
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 1}], "required": ["mail"], "group": None, "costs": None}
    expected = LoggedTasks.from_records([{"task_id": "a", "scores": {"mail": 1.0}, "required": ["mail"]}])
    assert_same(datasets.read(parquet(tmp_path, row)), expected)


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    path.write_bytes(b"no parquet at all")
    with pytest.raises(datasets.DataError, match="must be a Parquet file"):
        datasets.read(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"camdf\[mining\]"):
        datasets.read(tmp_path / "tasks.parquet")


# Fields that nobody asked for


def test_other_fields_are_left_out_and_counted_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = {"prompt": "Where is my order?", "scorer": "bm25"}
    records = [GOOD, *({**GOOD, **more, "task_id": f"b{number}"} for number in range(200)), {**GOOD, "task_id": "c"}]
    found = datasets.read(written(tmp_path, *records))
    assert_same(found, LoggedTasks.from_records(records))
    assert set(caplog.messages) <= {
        "ignored fields: prompt (in 200 records), scorer (in 200 records)",
        "ignored fields: scorer (in 200 records), prompt (in 200 records)",
    }
    assert len(caplog.messages) == 1
    caplog.clear()
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 1.0}], "required": ["mail"], "prompt": "Hello"}
    assert len(datasets.read(parquet(tmp_path, row))) == 1
    assert caplog.messages == ["ignored fields: prompt (in 1 records)"]


def test_a_program_says_it_on_standard_error(tmp_path: Path) -> None:
    path = written(tmp_path, {**GOOD, "prompt": "Hello"})
    code = f"from camdf import datasets; datasets.read({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "ignored fields: prompt (in 1 records)\n")


@pytest.mark.parametrize("name", ["groups", "Group", "group_id", "grup", "cost", "Costs", "n_require", "nrequired"])
def test_a_field_that_looks_like_a_missing_one_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, GOOD, {**GOOD, "task_id": "b", name: "g"})
    with pytest.raises(datasets.DataError, match=rf"line 2, field '{name}': must be one of .*Rename or remove it"):
        datasets.read(path)
    row = {"task_id": "a", "scores": [{"tool": "mail", "score": 1.0}], "required": ["mail"], name: "g"}
    with pytest.raises(datasets.DataError, match=rf"field '{name}': must be one of .*Rename or remove it"):
        datasets.read(parquet(tmp_path, row))


def test_a_field_is_no_misspelling_of_one_that_is_there(tmp_path: Path) -> None:
    assert datasets.read(written(tmp_path, {**GOOD, "group": "g", "groups": 3})).groups.tolist() == ["g"]


# CSV, and one row a candidate

ROWS = """task_id,tool,score,required,cost,group
a,search,0.9,1,0.5,g
b,mail,0.2,true,1.5,
a,mail,0.4,0,1.5,g
b,search,0.2,FALSE,0.5,
b,gone,,1,,
"""


def as_csv(folder: Path, content: str) -> Path:
    path = folder / "tasks.csv"
    path.write_text(content, encoding="utf-8")
    return path


def as_rows(logged: LoggedTasks) -> list[dict[str, Any]]:
    """One row a candidate, and one without a score for each required tool that a list lacks."""
    found = []
    for row, task_id in enumerate(logged.task_ids.tolist()):
        more = {"task_id": task_id, "group": str(logged.groups[row])}
        for place, tool in enumerate(logged.rankings.names(row)):
            numbers = {name: float(getattr(logged.rankings, name + "s")[row, place]) for name in ("score", "cost")}
            found.append({**more, "tool": tool, "required": bool(logged.required[row, place]), **numbers})
        lacks = range(int(logged.missing[row]))
        found += [{**more, "tool": f"missed {i}", "required": True, "score": None, "cost": None} for i in lacks]
    return found


def test_rows_of_candidates_are_read_as_records(tmp_path: Path) -> None:
    found = datasets.read(as_csv(tmp_path, ROWS))
    expected = LoggedTasks.from_records(
        [
            {"task_id": "a", "scores": {"search": 0.9, "mail": 0.4}, "required": ["search"], "group": "g"},
            {"task_id": "b", "scores": {"mail": 0.2, "search": 0.2}, "required": ["mail", "gone"]},
        ],
        {"search": 0.5, "mail": 1.5},
    )
    assert_same(found, expected)
    plain = "\ufeff" + "".join(line.rsplit(",", 2)[0] + "\r\n\r\n" for line in ROWS.splitlines())
    assert set(datasets.read(as_csv(tmp_path, plain)).rankings.costs.ravel().tolist()) == {1.0}
    assert datasets.read(as_csv(tmp_path, ROWS), keep_order=True).rankings.names(1) == ["mail", "search"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("domain", "scorer"), [("retail", "claude"), ("livemcpbench", "bm25")])
def test_a_table_of_candidates_is_the_same_as_one_of_tasks(
    tmp_path: Path, domain: str, scorer: str, suffix: str
) -> None:
    logged = datasets.load(domain, scorer, dispersion=1.0)
    in_order = as_rows(logged)
    mixed = [in_order[i] for i in np.random.default_rng(0).permutation(len(in_order))]
    for name, rows in (("same", in_order), ("mixed", mixed)):
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        else:
            import_module("pyarrow.parquet").write_table(import_module("pyarrow").Table.from_pylist(rows), path)
        found = datasets.read(path, keep_order=name == "same")
        if name == "same":
            assert_same(found, logged)
        assert sorted(found.task_ids.tolist()) == sorted(logged.task_ids.tolist())
        assert Payoff(0.1).of(found, found.rankings.listed).sum() == pytest.approx(
            Payoff(0.1).of(logged, logged.rankings.listed).sum()
        )


def test_a_csv_of_tasks_holds_json_in_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    records: list[dict[str, Any]] = [{**GOOD, "group": "g", "n_required": 2}, {**GOOD, "task_id": "b"}]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task_id", "scores", "required", "group", "n_required", "prompt"])
        for record in records:
            cells = [json.dumps(record[name]) if name in record else "" for name in ("scores", "required")]
            writer.writerow(
                [record["task_id"], *cells, record.get("group", ""), record.get("n_required", ""), "Hi, you"]
            )
    found = datasets.read(path)
    assert found.n_required.tolist() == [2, 1]
    assert found.groups.tolist() == ["g", "b"]
    assert found.rankings.names(0) == ["search", "mail"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ROWS.replace("0.9", "high"), ["row 1, field 'score'", "at least 0", "'high'"]),
        (ROWS.replace("0.9", "nan"), ["row 1, field 'score'", "'nan'"]),
        (ROWS.replace("0.9", "-1"), ["row 1, field 'score'", "'-1'", "Clip"]),
        (ROWS.replace("0.9,1,0.5", "0.9,1,0"), ["row 1, field 'cost'", "more than 0", "0.01"]),
        (ROWS.replace("0.9,1,0.5", "0.9,1,"), ["row 1, field 'cost'", "''"]),
        (ROWS.replace("0.9,1", "0.9,yes"), ["row 1, field 'required'", "0, 1, true or false", "'yes'"]),
        (ROWS.replace("b,gone,,1", "b,gone,,0"), ["row 5, field 'score'", "unless the tool is required"]),
        (ROWS.replace("b,search", "b,mail"), ["row 4, field 'tool'", "once in a task", "'mail'"]),
        (ROWS.replace("a,mail,0.4,0,1.5,g", "a,mail,0.4,0,1.5,h"), ["row 3, field 'group'", "'h'", "'g'"]),
        (ROWS.replace("a,search", ",search"), ["row 1, field 'task_id'", "not empty"]),
        (ROWS.replace("a,search", "a,"), ["row 1, field 'tool'", "not empty"]),
        (ROWS.replace("0.9,1,0.5,g", "0.9,1,0.5,g,h"), ["row 1: must have 6 cells", "Got 7"]),
        (ROWS.replace(",cost,", ",costs,"), ["field 'costs'", "must be one of task_id, tool, score, required, cost"]),
        (ROWS.replace("tool,", "name,"), ["must have a head with the columns task_id, tool, score, required", "name"]),
        (ROWS.splitlines()[0], ["at least one task, and is empty"]),
        ("", ["must have a head", "Got nothing"]),
        ("task_id,scores,required\na,{},[", ["row 1, field 'required'", "hold JSON"]),
        ("task_id,scores,required\na,7,[]", ["row 1, field 'scores'", "map tools to numbers"]),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, list) else "",
)
def test_a_bad_csv_is_refused_with_row_and_field(tmp_path: Path, content: str, words: list[str]) -> None:
    with pytest.raises(datasets.DataError) as caught:
        datasets.read(as_csv(tmp_path, content))
    assert all(word in str(caught.value) for word in ("tasks.csv", *words)), str(caught.value)
    assert str(caught.value).endswith(".")


def test_csv_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = as_csv(tmp_path, ROWS)
    path.write_bytes(path.read_bytes() + b"a,\xff,0.5,1,1,g\n")
    with pytest.raises(datasets.DataError, match="must be CSV in UTF-8"):
        datasets.read(path)


# Large files


def test_reading_reports_every_megabyte_and_takes_little_more_memory_than_the_table(tmp_path: Path) -> None:
    path, tools = tmp_path / "tasks.jsonl", [f"tool {i}" for i in range(60)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(6000):
            scores = {tools[(number + i) % 60]: (number * 7 + i * 13) % 101 / 100 for i in range(20)}
            costs = dict.fromkeys(scores, 0.5)
            record = {"task_id": str(number), "scores": scores, "required": [tools[number % 60]], "costs": costs}
            file.write(json.dumps(record) + "\n")
    size, reports = path.stat().st_size, list[tuple[int, int, float]]()
    tracemalloc.start()
    try:
        logged = datasets.read(path, progress=lambda *each: reports.append(each))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    megabytes = -(-size // 1_000_000)
    assert [done for done, *_ in reports] == sorted({done for done, *_ in reports})
    assert {total for _, total, _ in reports} == {megabytes}
    assert len(reports) >= megabytes - 1
    assert (reports[-1][0], reports[-1][2]) == (megabytes, 0.0)
    table = sum(array.nbytes for array in arrays(logged).values())
    assert peak < 4 * table


def test_marks_that_a_file_cannot_hold_are_not_dropped_in_silence(tmp_path: Path) -> None:
    logged = datasets.load("retail")
    marked = replace(logged, rankings=replace(logged.rankings, preselected=logged.required))
    with pytest.raises(ValueError, match="preselected"):
        datasets.write_jsonl(marked, tmp_path / "tasks.jsonl")


# Texts, from fixtures made by hand in the layouts of the folder and of the checkouts


def test_texts_of_a_folder_in_the_layout_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tools.json").write_text('{"mail": "Sends mail.", "search": ""}')
    tasks: list[dict[str, Any]] = [
        {"task_id": "1", "text": "Find it."},
        {"task_id": "2", "text": "Send it.", "tools": ["mail"]},
    ]
    written(tmp_path / "shop", *tasks)
    texts = datasets.texts_from_folder(tmp_path, "shop")
    assert texts.descriptions == {"mail": "Sends mail.", "search": ""}
    assert texts.tasks == (
        datasets.TaskText("1", "Find it.", ("mail", "search")),
        datasets.TaskText("2", "Send it.", ("mail",)),
    )

    written(tmp_path / "shop", tasks[0], {**tasks[1], "tools": ["fax"]})
    with pytest.raises(datasets.DataError, match=r"line 2, field 'tools': must name tools of tools\.json. Got 'fax'"):
        datasets.texts_from_folder(tmp_path, "shop")
    (tmp_path / "shop" / "tools.json").write_text('["mail"]')
    with pytest.raises(datasets.DataError, match=r"tools\.json: must be one JSON object from tool name"):
        datasets.texts_from_folder(tmp_path, "shop")


@pytest.mark.parametrize("domain", NAMES)
def test_texts_of_the_source_are_in_the_order_of_load(source: Path, domain: str) -> None:
    texts = datasets.texts_from_folder(at(source, domain).parent, domain)
    for scorer in datasets.scorers(domain):
        logged = datasets.load(domain, scorer)
        assert [task.task_id for task in texts.tasks] == logged.task_ids.tolist()
        assert all(set(logged.rankings.names(row)) <= set(task.tools) for row, task in enumerate(texts.tasks))
    assert tuple(texts.descriptions) == datasets.tools(domain)


TAU_TASK = """
    Task(
        annotator="0",
        user_id="user_{i}",
        instruction="Request "
        "number {i}.",
        actions=[Action(name="calculate", kwargs={{"expression": "1"}})],
        outputs=[],
    ),
"""
TAU_TOOL = """
class Made(Tool):
    @staticmethod
    def get_info() -> Dict[str, Any]:
        return {{
            "type": "function",
            "function": {{
                "name": "{name}",
                "description": (
                    "What {name} "
                    "does."
                ),
                "parameters": {{}},
            }},
        }}
"""
TAU2_TOOL = '''
    @is_tool(ToolType.READ)
    def {name}(self, key: str) -> str:
        """
        What {name}
        does.

        Args:
            key: A key.
        """
        return key
'''


def tau_bench(checkout: Path) -> Path:
    """A made-up checkout: the entries and tools of the published layout, and code that must not run."""
    retail = checkout / "tau_bench" / "envs" / "retail"
    (retail / "tools").mkdir(parents=True)
    entries = "".join(TAU_TASK.format(i=i) for i in range(115))
    (retail / "tasks_test.py").write_text(f"raise SystemExit\n\nTASKS_TEST = [{entries}]\n")
    (retail / "tools" / "__init__.py").write_text("raise SystemExit\n")
    for name in (*datasets.tools("retail"), "think"):
        (retail / "tools" / f"{name}.py").write_text("raise SystemExit\n" + TAU_TOOL.format(name=name))
    return checkout


def test_texts_of_a_tau_bench_checkout(tmp_path: Path) -> None:
    texts = datasets.texts_from_tau_bench(tau_bench(tmp_path))
    assert [task.task_id for task in texts.tasks] == datasets.load("retail").task_ids.tolist()
    assert texts.tasks[-1] == datasets.TaskText("retail-069", "Request number 69.", datasets.tools("retail"))
    assert texts.descriptions == {name: f"What {name} does." for name in datasets.tools("retail")}


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("tasks_test.py", "TASKS = []\n", ["tasks_test.py", "TASKS_TEST"]),
        ("tasks_test.py", "x = 1\nTASKS_TEST = [Task(instruction=x)]\n", ["line 2", "'instruction'", "literal string"]),
        ("tasks_test.py", "TASKS_TEST = [\n", ["tasks_test.py", "Python source"]),
        ("tasks_test.py", "TASKS_TEST = []\n", ["lacks retail-000", "tau-bench 59a200c", "https://"]),
        ("tools/calculate.py", "", ["lacks calculate", "tau-bench 59a200c"]),
        ("tools/calculate.py", "def get_info():\n    return made()\n", ["calculate.py, line 1", "literal"]),
    ],
)
def test_a_broken_tau_bench_checkout_is_refused(tmp_path: Path, file: str, content: str, words: list[str]) -> None:
    checkout = tau_bench(tmp_path)
    (checkout / "tau_bench" / "envs" / "retail" / file).write_text(content)
    with pytest.raises(datasets.DataError) as caught:
        datasets.texts_from_tau_bench(checkout)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def tau2_bench(checkout: Path, domain: str) -> Path:
    """A made-up checkout: tasks, split and marked tools of the published layout, and code that must not run."""
    data, code = (checkout / part / "tau2" / "domains" / domain for part in ("data", "src"))
    data.mkdir(parents=True)
    code.mkdir(parents=True)
    keys = [str(i) for i in range(50)] if domain == "airline" else [f"[fault]{i}[PERSONA:None]" for i in range(130)]
    tasks = [
        {
            "id": key,
            "user_scenario": {
                "persona": None,
                "instructions": {
                    "task_instructions": f"Act {i}.",
                    "domain": domain,
                    "reason_for_call": f"Reason {i}.",
                    "known_info": f"Known {i}.",
                    "unknown_info": f"Unknown {i}." if i == 7 else None,
                },
            },
            "evaluation_criteria": {"actions": []},
        }
        for i, key in enumerate(keys)
    ]
    (data / "tasks.json").write_text(json.dumps(tasks))
    (data / "split_tasks.json").write_text(json.dumps({"train": keys[40:114], "test": keys[:40], "full": keys}))
    head = "raise SystemExit\n\nclass Tools(ToolKitBase):\n"
    tools = [TAU2_TOOL.format(name=name) for name in datasets.tools(domain)]
    unmarked = '    def _plain(self) -> None:\n        """Not a tool."""\n'
    half = len(tools) // 2 if domain == "telecom" else len(tools)
    (code / "tools.py").write_text(head + "".join(tools[:half]) + unmarked)
    if domain == "telecom":
        (code / "user_tools.py").write_text(head + "".join(tools[half:]))
    return checkout


def test_texts_of_a_tau2_bench_airline_checkout(tmp_path: Path) -> None:
    texts = datasets.texts_from_tau2_bench(tau2_bench(tmp_path, "airline"), "airline")
    by_id = {task.task_id: task.text for task in texts.tasks}
    assert list(by_id) == datasets.load("airline").task_ids.tolist()
    assert by_id["airline-6"] == "Reason 6. Known 6. Act 6."
    assert by_id["airline-7"] == "Reason 7. Known 7. Unknown 7. Act 7."
    assert texts.descriptions == {name: f"What {name} does." for name in datasets.tools("airline")}


def test_texts_of_a_tau2_bench_telecom_checkout(tmp_path: Path) -> None:
    texts = datasets.texts_from_tau2_bench(tau2_bench(tmp_path, "telecom"), "telecom")
    assert [task.task_id for task in texts.tasks] == datasets.load("telecom").task_ids.tolist()
    assert texts.tasks[0].text == "Reason 40. Known 40."
    assert texts.tasks[74].text == "Reason 0. Known 0."
    assert set(texts.descriptions) == set(datasets.tools("telecom"))
    assert not [task for task in texts.tasks if "fault" in task.task_id + task.text]


def test_a_broken_tau2_bench_checkout_is_refused(tmp_path: Path) -> None:
    checkout = tau2_bench(tmp_path, "airline")
    data = checkout / "data" / "tau2" / "domains" / "airline"
    for content, words in (("[", "must be JSON"), ('[{"id": "0"}]', "user_scenario"), ("[]", "lacks airline-1")):
        (data / "tasks.json").write_text(content)
        with pytest.raises(datasets.DataError, match=words):
            datasets.texts_from_tau2_bench(checkout, "airline")
    with pytest.raises(ValueError, match=r"airline, telecom\. Got 'retail'"):
        datasets.texts_from_tau2_bench(checkout, "retail")
