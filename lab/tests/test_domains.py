"""The domains that come with the lab: the packed files, their sources and their texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from camdf import datasets
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf_lab import domains
from camdf_lab.domains.costs import RETAIL_BASE_COSTS, dispersed, md5_base_costs
from camdf_lab.domains.quality import auc
from worlds import assert_same

SHARED = Path(__file__).parents[3] / "shared"


PACKAGE = Path(domains.__file__).parent


ALL = (*domains.DOMAINS, *domains.LATER_DOMAINS, *domains.MIXED_DOMAINS)
MIXED = [domain.name for domain in domains.MIXED_DOMAINS]


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


LATER_DOMAINS = {
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


LATER_DOMAINS_CLAUDE = {
    "restbench-tmdb": 0.999,
    "nestful-executable": 1.000,
    "toolsandbox": 0.964,
    "tau2-banking": 0.979,
    "stabletoolbench-g3": 0.973,
}
"""AUCs of the claude rankings, as published."""


DIGESTS = {
    "airline": "e8d36ac5c2ed",
    "api-bank": "eb80ab805400",
    "bfcl-multi-turn": "bfe2baf46e7d",
    "livemcpbench": "a1fe59141020",
    "made-up": "74547b292d8e",
    "mcp-atlas": "70a957c16936",
    "metatool": "c577d0891baf",
    "nestful-executable": "0d8742d88635",
    "nestful-glaive": "68366b63247d",
    "restbench-tmdb": "63ae4f0f9a87",
    "retail": "153b2d27ca58",
    "seal-tools": "ce232d78e6d1",
    "stabletoolbench-g3": "cd52219c71cd",
    "task-vectors": "8cb54d1c3d41",
    "tau2-banking": "b489dd1a6acb",
    "telecom": "246b6a879744",
    "tool-sizes": "c0871815304d",
    "toolalpaca": "034ae6254fd2",
    "toolsandbox": "0826dfb7222b",
    "workbench": "f182e55aa380",
    "bfcl-mixed": "2430344ead52",
    "metatool-mixed": "a6611a45531d",
    "sgd-first-message": "bd56b5ca993a",
    "task-vectors-mixed": "f3fd231f36cc",
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
    if domain in MIXED:
        return source / "none" / domain
    return source / ("second-look" if domain in LATER_DOMAINS else "data") / domain


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


@pytest.mark.parametrize(("domain", "scorer"), RANKINGS)
def test_packed_rankings_equal_the_source_bit_by_bit(source: Path, domain: str, scorer: str) -> None:
    folder = at(source, domain)
    scored = lines(folder / "scores" / f"{scorer}.jsonl")
    records = [{**label, **score} for label, score in zip(lines(folder / "labels.jsonl"), scored, strict=True)]
    tools = json.loads((folder / "tools.json").read_bytes())
    keep_order = domain in ("seal-tools", "livemcpbench", "bfcl-multi-turn", *LATER_DOMAINS, *MIXED)

    uniform = LoggedTasks.from_records(records, keep_order=keep_order)
    assert_same(domains.load(domain, scorer), uniform)

    vector = 0 if domain == "retail" else 3
    base = RETAIL_BASE_COSTS if domain == "retail" else md5_base_costs(tools, vector)
    priced = domains.load(domain, scorer, dispersion=1.0, cost_vector=vector)
    assert_same(priced, uniform.with_costs(dispersed(base, 1.0)))


@pytest.mark.parametrize("domain", NAMES)
def test_labels_and_tools_equal_the_source(source: Path, domain: str) -> None:
    assert domains.labels(domain) == lines(at(source, domain) / "labels.jsonl")
    assert list(domains.tools(domain)) == list(json.loads((at(source, domain) / "tools.json").read_bytes()))


def test_every_scorer_of_a_domain_ships(source: Path) -> None:
    found = {(domain, path.stem) for domain in NAMES for path in at(source, domain).glob("scores/*.jsonl")}
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
        names = "\n".join(domains.tools(domain))  # one API of stabletoolbench-g3 is described by its name
        sentences = [sentence for sentence in sentences if len(sentence) > 20 and sentence not in names]
        assert not [sentence for sentence in sentences if sentence.encode() in content]


def test_the_packed_files_stay_small_and_hold_only_what_is_described() -> None:
    packed = sorted((PACKAGE / "packed").iterdir())
    more = ["made-up", "tool-sizes", "task-vectors", "task-vectors-mixed"]
    assert sorted(path.stem for path in packed) == sorted([*NAMES, *more])
    assert sum(path.stat().st_size for path in packed) < 2_300_000
    for domain in ALL:
        kinds = ("catalogue", "lengths", "ids", "scores")
        parts = {f"{part}.{scorer}" for part, scorer in product(kinds, domain.scorers)}
        parts |= {"tools", "task_ids", "groups", "required", "n_required"}
        parts |= {"chosen.uniform", "chosen.dispersed"} if domain.name == "retail" else set()
        with np.load(PACKAGE / "packed" / f"{domain.name}.npz", allow_pickle=False) as pack:
            assert set(pack.files) == parts
    with np.load(PACKAGE / "packed" / "task-vectors.npz", allow_pickle=False) as pack:
        assert set(pack.files) == {*NAMES, "projection"} - set(MIXED)
    with np.load(PACKAGE / "packed" / "task-vectors-mixed.npz", allow_pickle=False) as pack:
        assert set(pack.files) == set(MIXED)
    assert set(domains.made_up_domains()) <= set(NAMES)


def test_what_ships_has_not_changed() -> None:
    found = {}
    for path in sorted((PACKAGE / "packed").iterdir()):
        with zipfile.ZipFile(path) as ships:
            content = b"".join(name.encode() + ships.read(name) for name in sorted(ships.namelist()))
        found[path.stem] = sha256(content).hexdigest()[:12]
    assert found == DIGESTS


def test_the_records_of_the_domains_give_their_sizes() -> None:
    assert sum(domain.tasks for domain in domains.DOMAINS) == 3145
    assert len(set(NAMES)) == len(NAMES) == 20
    for domain in ALL:
        assert len(domains.tools(domain.name)) == domain.tools
        for scorer in domains.scorers(domain.name):
            assert len(domains.load(domain.name, scorer)) == domain.tasks


def test_the_second_look_is_as_published() -> None:
    assert [domain.name for domain in domains.LATER_DOMAINS] == list(LATER_DOMAINS)
    for domain in domains.LATER_DOMAINS:
        tasks, tools, width, required, groups, aucs, missing = LATER_DOMAINS[domain.name]
        assert (domain.tasks, domain.tools) == (tasks, tools)
        assert domain.ranked_in_file
        for scorer, auc_, percent in zip(("bm25", "minilm"), aucs, missing, strict=True):
            logged = domains.load(domain.name, scorer)
            assert set(logged.rankings.lengths.tolist()) == {width}
            assert len(set(logged.groups.tolist())) == groups
            assert round(float(logged.n_required.mean()), 2) == required
            quality = domains.score_quality(logged)
            assert round(quality.auc, 3) == auc_, (domain.name, scorer)
            assert round(100 * (1 - quality.covered)) == percent, (domain.name, scorer)
        claude = ("claude",) if domain.name in LATER_DOMAINS_CLAUDE else ()
        assert domain.scorers == (*claude, "minilm", "bm25")
        if claude:
            logged = domains.load(domain.name)
            assert set(logged.rankings.lengths.tolist()) == {tools}
            assert round(domains.score_quality(logged).auc, 3) == LATER_DOMAINS_CLAUDE[domain.name]


@pytest.mark.parametrize("domain", ALL, ids=NAMES)
def test_a_task_has_a_vector_of_length_one(domain: domains.Domain) -> None:
    vectors = domains.task_vectors(domain.name)
    assert vectors.shape == (domain.tasks, 64)
    assert vectors.dtype == np.float64
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-12)


def test_equal_texts_have_equal_vectors(source: Path) -> None:
    for domain in NAMES:
        vectors = domains.task_vectors(domain)
        first: dict[str, int] = {}
        texts = {task["task_id"]: task["text"] for task in lines(at(source, domain) / "tasks.jsonl")}
        for row, task_id in enumerate(domains.load(domain).task_ids.tolist()):
            assert (vectors[row] == vectors[first.setdefault(texts[task_id], row)]).all()


@pytest.mark.parametrize(("domain", "distinct"), [("telecom", 5), ("toolsandbox", 89), ("retail", 67)])
def test_requests_that_differ_have_vectors_that_differ(domain: str, distinct: int) -> None:
    assert len(np.unique(domains.task_vectors(domain), axis=0)) == distinct


def test_telecom_tasks_of_one_group_share_their_vector() -> None:
    vectors = domains.task_vectors("telecom")
    groups = domains.load("telecom").groups
    for group in set(groups.tolist()):
        assert len(np.unique(vectors[groups == group], axis=0)) == 1


def test_the_projection_keeps_lengths_and_angles_inside_its_64_directions() -> None:
    matrix = domains.projection()
    assert matrix.shape == (64, 384)
    assert matrix @ matrix.T == pytest.approx(np.eye(64), abs=1e-3)
    vectors = domains.task_vectors("airline")
    assert domains.projected(vectors @ matrix) == pytest.approx(vectors, abs=1e-3)


def test_a_projected_request_does_not_depend_on_those_beside_it() -> None:
    embeddings = np.random.default_rng(0).standard_normal((40, 384))
    together = domains.projected(embeddings)
    assert all((domains.projected(embeddings[i : i + 1])[0] == together[i]).all() for i in range(40))
    assert (domains.projected(np.zeros((1, 384))) == 0).all()


def test_vectors_are_packed_as_the_directions_of_the_projected_embeddings() -> None:
    rng = np.random.default_rng(0)
    made = {name: [f"{name} {i // 2}" for i in range(30)] for name in NAMES}
    vectors = {text: rng.standard_normal(384) for texts in made.values() for text in texts}
    script = packing()
    embeddings = script.embedded(made, lambda texts: np.stack([vectors[text] for text in texts]))
    assert all((embeddings[name][-1] == vectors[made[name][-1]]).all() for name in NAMES)
    directions = script.projection_of(embeddings)
    packed = script.pack_vectors(embeddings, directions)
    matrix = directions.astype(float)
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
    datasets.write_jsonl(domains.load("seal-tools"), path)
    assert best(lambda: domains.load("seal-tools")) < best(lambda: datasets.read_jsonl(path)) / 5


def test_the_first_scorer_is_the_default() -> None:
    assert_same(domains.load("livemcpbench"), domains.load("livemcpbench", "claude"))


def test_costs_average_over_the_whole_catalogue_and_are_one_at_dispersion_zero() -> None:
    assert set(domains.costs("livemcpbench").values()) == {1.0}
    costs = domains.costs("livemcpbench", dispersion=0.5, cost_vector=2)
    assert len(costs) == 527
    assert np.mean(list(costs.values())) == pytest.approx(1.0)
    logged = domains.load("livemcpbench", "bm25", dispersion=0.5, cost_vector=2)
    assert len(logged.rankings.catalogue) == 515
    assert_same(logged, logged.with_costs(costs))


def test_labels_become_logged_tasks_once_they_have_scores() -> None:
    logged = domains.load("seal-tools", "minilm")
    scores = {
        str(task_id): dict(zip(logged.rankings.names(row), logged.rankings.scores[row].tolist(), strict=True))
        for row, task_id in enumerate(logged.task_ids)
    }
    again = [{**label, "scores": scores[label["task_id"]]} for label in domains.labels("seal-tools")]
    assert_same(LoggedTasks.from_records(again, keep_order=True), logged)
    assert logged.missing.any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: domains.load("retial"), ["'retial'", "retail, airline, telecom"]),
        (lambda: domains.scorers("x"), ["'x'", "seal-tools"]),
        (lambda: domains.labels("x"), ["'x'", "seal-tools"]),
        (lambda: domains.tools("../retail"), ["'../retail'", "seal-tools"]),
        (lambda: domains.load("telecom", "x"), ["scorer", "telecom", "claude, minilm", "'x'"]),
        (lambda: domains.task_vectors("x"), ["'x'", "stabletoolbench-g3"]),
        (lambda: domains.task_vectors("projection"), ["'projection'", "stabletoolbench-g3"]),
        (lambda: domains.projected(np.zeros((2, 64))), ["'embeddings'", "(n, 384)", "(2, 64)"]),
        (lambda: domains.sizes("api-bank"), ["DOMAINS", "api-bank"]),
        (lambda: domains.load("retail", cost_vector=1), ["cost_vector", "must be 0", "with_costs"]),
        (lambda: domains.self_selected(domains.load("retail"), "x"), ["setting", "uniform, dispersed", "'x'"]),
        (lambda: domains.self_selected(domains.load("airline")), ["load('retail')", "airline-1"]),
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
    for scorer in domains.scorers("retail"):
        logged = domains.load("retail", scorer, dispersion=dispersion)
        chosen = domains.self_selected(logged, setting)
        assert Payoff(0.0).of(logged, chosen).mean() == pytest.approx(sufficiency, abs=5e-4)
        assert Payoff(0.12).of(logged, chosen).mean() == pytest.approx(payoff, abs=5e-4)


def test_self_selected_sets_follow_rows_and_padding() -> None:
    logged = domains.load("retail", "minilm")
    rows = [5, 3, 3]
    some = domains.self_selected(logged.take(rows).padded_to(9))
    assert (some[:, :7] == domains.self_selected(logged)[rows]).all()
    assert not some[:, 7:].any()


def test_the_sources_are_attributed_inside_the_package() -> None:
    text = (PACKAGE / "SOURCES.md").read_text(encoding="utf-8")
    rows = {row.split(" | ")[0].strip("| "): row for row in text.splitlines() if row.startswith("| ")}
    for domain in ALL:
        version = domain.source.split()[-1] if domain.name != "mcp-atlas" else "Scale AI"
        assert all(part in rows[domain.name] for part in (version, domain.url, domain.license))
    assert "MCP-Atlas by Scale AI is licensed under the Creative Commons Attribution 4.0" in text


def test_the_public_names_are_sorted_and_exist() -> None:
    assert domains.__all__ == sorted(domains.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(domains, name) for name in domains.__all__)


def test_loading_a_domain_loads_numpy_and_the_standard_library_only() -> None:
    code = "import sys; from camdf_lab import domains; domains.load('retail'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pyarrow", "polars", "sklearn", "scipy"}


def test_aucs_are_the_published_ones() -> None:
    table = domains.quality_table()
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
    quality = domains.score_quality(domains.load(domain, scorer))
    assert round(100 * (1 - quality.covered)) == missed


def test_auc_counts_every_pair_and_ties_half() -> None:
    rng = np.random.default_rng(0)
    positive = rng.integers(0, 6, 40) / 5
    negative = rng.integers(0, 5, 70) / 5
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
    quality = domains.score_quality(logged)
    assert (quality.tasks, quality.fewest_candidates, quality.most_candidates) == (3, 1, 3)
    assert quality.mean_candidates == 2.0
    assert quality.mean_required == pytest.approx(5 / 3)
    assert quality.required_score == pytest.approx((0.9 + 0.1 + 0.8 + 0.3) / 4)
    assert quality.other_score == pytest.approx((0.5 + 0.4) / 2)
    assert quality.auc == 4 / 8
    assert quality.cover_rank == 2.0
    assert quality.covered == pytest.approx(2 / 3)
    assert domains.score_quality(logged.padded_to(8)) == quality


def test_quality_over_nothing_is_nan() -> None:
    logged = LoggedTasks.from_records([{"scores": {}, "required": ["z"]}])
    quality = domains.score_quality(logged)
    assert np.isnan([quality.auc, quality.required_score, quality.other_score, quality.cover_rank]).all()
    assert quality.covered == 0.0


def test_the_markdown_table_has_a_row_a_ranking() -> None:
    shown = [("retail", "claude"), ("mcp-atlas", "minilm")]
    rows = domains.as_markdown({key: domains.score_quality(domains.load(*key)) for key in shown}).splitlines()
    assert rows[2:] == [
        "| retail | claude | 67 | 7 | 3.73 | 0.905 | 0.134 | 0.984 | 3.88 | 100% |",
        "| mcp-atlas | minilm | 170 | 14.9 | 3.68 | 0.138 | 0.101 | 0.583 | 11.45 | 100% |",
    ]
    assert len({row.count("|") for row in rows}) == 1


@pytest.mark.parametrize("domain", NAMES)
def test_texts_of_the_source_are_in_the_order_of_load(source: Path, domain: str) -> None:
    texts = datasets.texts_from_folder(at(source, domain).parent, domain)
    for scorer in domains.scorers(domain):
        logged = domains.load(domain, scorer)
        assert [task.task_id for task in texts.tasks] == logged.task_ids.tolist()
        assert all(set(logged.rankings.names(row)) <= set(task.tools) for row, task in enumerate(texts.tasks))
    assert tuple(texts.descriptions) == domains.tools(domain)


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
    for name in (*domains.tools("retail"), "think"):
        (retail / "tools" / f"{name}.py").write_text("raise SystemExit\n" + TAU_TOOL.format(name=name))
    return checkout


def test_texts_of_a_tau_bench_checkout(tmp_path: Path) -> None:
    texts = domains.texts_from_tau_bench(tau_bench(tmp_path))
    assert [task.task_id for task in texts.tasks] == domains.load("retail").task_ids.tolist()
    assert texts.tasks[-1] == datasets.TaskText("retail-069", "Request number 69.", domains.tools("retail"))
    assert texts.descriptions == {name: f"What {name} does." for name in domains.tools("retail")}


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
        domains.texts_from_tau_bench(checkout)
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
    tools = [TAU2_TOOL.format(name=name) for name in domains.tools(domain)]
    unmarked = '    def _plain(self) -> None:\n        """Not a tool."""\n'
    half = len(tools) // 2 if domain == "telecom" else len(tools)
    (code / "tools.py").write_text(head + "".join(tools[:half]) + unmarked)
    if domain == "telecom":
        (code / "user_tools.py").write_text(head + "".join(tools[half:]))
    return checkout


def test_texts_of_a_tau2_bench_airline_checkout(tmp_path: Path) -> None:
    texts = domains.texts_from_tau2_bench(tau2_bench(tmp_path, "airline"), "airline")
    by_id = {task.task_id: task.text for task in texts.tasks}
    assert list(by_id) == domains.load("airline").task_ids.tolist()
    assert by_id["airline-6"] == "Reason 6. Known 6. Act 6."
    assert by_id["airline-7"] == "Reason 7. Known 7. Unknown 7. Act 7."
    assert texts.descriptions == {name: f"What {name} does." for name in domains.tools("airline")}


def test_texts_of_a_tau2_bench_telecom_checkout(tmp_path: Path) -> None:
    texts = domains.texts_from_tau2_bench(tau2_bench(tmp_path, "telecom"), "telecom")
    assert [task.task_id for task in texts.tasks] == domains.load("telecom").task_ids.tolist()
    assert texts.tasks[0].text == "Reason 40. Known 40."
    assert texts.tasks[74].text == "Reason 0. Known 0."
    assert set(texts.descriptions) == set(domains.tools("telecom"))
    assert not [task for task in texts.tasks if "fault" in task.task_id + task.text]


def test_a_broken_tau2_bench_checkout_is_refused(tmp_path: Path) -> None:
    checkout = tau2_bench(tmp_path, "airline")
    data = checkout / "data" / "tau2" / "domains" / "airline"
    for content, words in (("[", "must be JSON"), ('[{"id": "0"}]', "user_scenario"), ("[]", "lacks airline-1")):
        (data / "tasks.json").write_text(content)
        with pytest.raises(datasets.DataError, match=words):
            domains.texts_from_tau2_bench(checkout, "airline")
    with pytest.raises(ValueError, match=r"airline, telecom\. Got 'retail'"):
        domains.texts_from_tau2_bench(checkout, "retail")
