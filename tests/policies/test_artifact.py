"""Saved policies: what is written decides bit for bit as before, and nothing else is ever read."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import camdf
from camdf import CAMDF, Decisions, FixedK, LoggedTasks, Payoff, Policy, Rankings
from camdf.core.candidates import CANDIDATE_COLUMNS
from camdf.core.features import FULL
from camdf.errors import ArtifactError, NotFittedError, UsageError
from camdf.policies import artifact
from camdf.policies.artifact import LARGEST_FILE, MOST_BRACKETS, SCHEMA, digest, from_json, load, save, to_json
from camdf.policies.base import FittedPolicy
from camdf.policies.models import stored
from camdf.policies.models.linear import LinearModel
from camdf.policies.models.membership import TEXT_COLUMNS, Doubt, MembershipModel
from camdf.policies.models.task_text import TextSignal
from camdf.policies.models.tuning import LARGEST
from camdf.policies.registry import IN_THE_LAB, LIBRARY
from camdf.policies.rules import NearBest, ScoreMass
from camdf.policies.training import NAMES_KEPT, FittedCatalogue, ScorerRecord, Training, UsualLists, UsualShares
from camdf.runtime.settings import checks_of
from camdf_lab.domains.costs import RETAIL_BASE_COSTS
from golden_policies import Golden, golden, kept
from saying import refuses, says

Document: TypeAlias = dict[str, Any]

TOOLS = tuple(RETAIL_BASE_COSTS)
MOST_MEMORY = 256_000_000
VALUES = ("exact", "partial")
OURS = [each for each in golden() if each.document["kind"] not in IN_THE_LAB]
"""Saved policies, but for those of the lab, which reads its own."""

TRAINING = Training(
    "0" * 64,
    60,
    60,
    60,
    0.01,
    {"cam-df": 0.4, "acquire-all": -0.1},
    Payoff(0.12, recourse=0.5),
    scorer=ScorerRecord("bm25", (("b", "0.75"), ("k1", "1.5")), "", "0" * 64),
    catalogue=FittedCatalogue.of(["mail", "maps"]),
)


@cache
def logged_tasks(seed: int = 0) -> LoggedTasks:
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(60):
        scores = {tool: float(rng.random()) for tool in TOOLS}
        records.append({"scores": scores, "required": [tool for tool in TOOLS if rng.random() < scores[tool] ** 2]})
    return LoggedTasks.from_records(records, RETAIL_BASE_COSTS)


@cache
def unseen() -> Rankings:
    """Lists of other lengths, with tools that no training task listed, with ties and with zeros."""
    rng = np.random.default_rng(1)
    tools = (*TOOLS, "new", "newer")
    lists = [
        {tool: float(np.round(rng.random(), 1)) for tool in rng.permutation(tools)[:length]} for length in range(10)
    ]
    prices = {tool: float(rng.uniform(0.1, 3.0)) for tool in tools}
    return Rankings.from_scores(lists, prices)


def fitted(kind: type[Policy], value: str = "exact", **settings: Any) -> Policy:
    return kind(**settings).fit(logged_tasks(), Payoff(0.12, value), logged_tasks(1))


def decide(policy: Policy, rankings: Rankings) -> Decisions:
    return policy.decide(rankings, getattr(policy, "payoff_", Payoff(0.12)))


def assert_same_decisions(policy: Policy, other: Policy) -> None:
    for rankings in (unseen(), logged_tasks(2).rankings):
        one, two = decide(policy, rankings), decide(other, rankings)
        assert np.array_equal(one.acquired, two.acquired)
        for mine, theirs in ((one.depth, two.depth), (one.evidence, two.evidence)):
            assert (mine is None) == (theirs is None)
            assert mine is None or theirs is None or mine.tobytes() == theirs.tobytes()


def assert_sound(decisions: Decisions, rankings: Rankings) -> None:
    assert decisions.acquired.dtype == bool
    assert decisions.acquired.shape == rankings.scores.shape
    assert not (decisions.acquired & ~rankings.listed).any()
    assert decisions.evidence is None or bool(np.isfinite(decisions.evidence).all())


def document_of(policy: Policy, training: Training | None = None) -> Document:
    document: Document = json.loads(to_json(policy, training))
    return document


def sealed(document: Document) -> bytes:
    """The document as a file, with a digest that fits its content."""
    return json.dumps({**document, "sha256": digest(document)}).encode()


def refusal(content: bytes) -> str:
    with pytest.raises(ArtifactError) as caught:
        from_json(content)
    return str(caught.value)


def remedy_of(refused: object) -> str:
    """The last sentence of an error, which says what to do."""
    return str(refused).rpartition(". ")[-1]


# What is saved.


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kind", LIBRARY, ids=lambda kind: kind.kind)
def test_a_loaded_policy_decides_bit_for_bit_as_the_fitted_one(kind: type[Policy], value: str, tmp_path: Path) -> None:
    policy = fitted(kind, value)
    save(policy, tmp_path / "policy.json")
    loaded = load(tmp_path / "policy.json")
    assert type(loaded) is kind
    assert_same_decisions(policy, loaded)
    assert to_json(loaded) == to_json(policy)


@pytest.mark.parametrize(
    "settings",
    [
        {"identity": True},
        {"identity": False},
        {"cost_blind": True},
        {"threshold": None},
        {"threshold": None, "grid": np.linspace(0.1, 0.9, 5, dtype=np.float32)},
    ],
    ids=str,
)
def test_every_setting_of_a_learned_policy_survives(settings: dict[str, Any]) -> None:
    policy = fitted(CAMDF, **settings)
    loaded = from_json(to_json(policy).encode())
    saved, read = dict(vars(policy)), dict(vars(loaded))
    assert asdict(saved.pop("model_")) == asdict(read.pop("model_"))
    assert read == {**saved, "training_": None}
    assert bool(policy.__dict__["model_"].tools) is settings.get("identity", True)
    assert_same_decisions(policy, loaded)


@pytest.mark.parametrize("pressure", [0.0, 1e6])
@pytest.mark.parametrize("kind", LIBRARY, ids=lambda kind: kind.kind)
def test_thresholds_of_acquire_all_and_acquire_nothing_survive(kind: type[Policy], pressure: float) -> None:
    policy = kind().fit(logged_tasks(), Payoff(pressure))
    assert_same_decisions(policy, from_json(to_json(policy).encode()))


def test_what_training_says_survives(tmp_path: Path) -> None:
    save(fitted(CAMDF), tmp_path / "policy.json", TRAINING)
    assert vars(load(tmp_path / "policy.json"))["training_"] == TRAINING


def test_training_without_a_word_survives() -> None:
    assert vars(from_json(to_json(camdf.AcquireAll(), Training()).encode()))["training_"] == Training()
    assert vars(from_json(to_json(camdf.AcquireAll()).encode()))["training_"] is None


def test_a_catalogue_of_thousands_is_a_count_a_digest_and_some_of_its_names() -> None:
    few, many = (FittedCatalogue.of(f"tool {number}" for number in range(count)) for count in (60, 5_000))
    assert (few.tools, len(few.names), many.tools, len(many.names)) == (60, 60, 5_000, NAMES_KEPT)
    assert few.unknown(["tool 3", "v2 tool 3"]) == ("v2 tool 3",)
    assert many.unknown(["tool 3", "v2 tool 3"]) == (), "nobody can tell"
    training = Training(catalogue=many)
    assert vars(from_json(to_json(camdf.AcquireAll(), training).encode()))["training_"] == training
    assert FittedCatalogue.of(few.names[::-1]) == few


def test_a_name_that_no_file_may_have_costs_a_catalogue_that_name_alone() -> None:
    training = Training(catalogue=FittedCatalogue.of(["mail", "x" * 600]))
    loaded = from_json(to_json(camdf.AcquireAll(), training).encode()).training_
    assert loaded is not None
    assert loaded.catalogue is not None
    assert (loaded.catalogue.tools, loaded.catalogue.names) == (2, ("mail",))
    assert loaded.catalogue.unknown(["maps"]) == ()


def test_the_document_is_indented_and_a_few_kilobytes() -> None:
    text = to_json(fitted(CAMDF), TRAINING)
    assert len(text.encode()) < 8_000
    assert text.startswith('{\n "schema": 3,\n "kind": "cam-df",\n')
    assert max(map(len, text.splitlines())) < 120


def test_the_document_holds_what_the_design_says() -> None:
    document = document_of(fitted(CAMDF, "partial"))
    assert list(document) == ["schema", "kind", "package", "payoff", "policy", "training", "sha256"]
    assert (document["schema"], document["package"]) == (SCHEMA, camdf.__version__)
    assert document["payoff"] == {"cost_pressure": 0.12, "value": "partial"}
    model = document["policy"]["model_"]
    assert (model["columns"], len(model["coefficients"])) == (list(FULL), len(FULL))
    assert (set(model["tools"]), len(model["tool_coefficients"])) == (set(TOOLS), len(TOOLS))


def test_the_digest_covers_sorted_compact_json_without_the_digest() -> None:
    document = document_of(fitted(CAMDF))
    stated = document.pop("sha256")
    compact = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert stated == hashlib.sha256(compact.encode()).hexdigest() == digest(document)
    assert digest({**document, "sha256": stated}) == stated


def test_the_order_of_keys_and_the_layout_are_irrelevant() -> None:
    def turned(node: Any) -> Any:
        return {key: turned(node[key]) for key in reversed(node)} if isinstance(node, dict) else node

    policy = fitted(CAMDF)
    document = turned(document_of(policy))
    assert list(document)[-1] == "schema"
    for layout in ({"indent": 4}, {"separators": (",", ":")}, {"ensure_ascii": False}):
        assert_same_decisions(policy, from_json(json.dumps(document, **layout).encode()))


@pytest.mark.parametrize("name", ["ordinary", "naïve", "検索", "🔎", 'quo"te', "new\nline", "\ud800", "", "[{x}]"])
def test_any_tool_name_survives(name: str) -> None:
    policy = fitted(camdf.ConstantSet)
    policy.__dict__["tools_"] = (name, "another")
    assert vars(from_json(to_json(policy).encode()))["tools_"] == (name, "another")


def test_numbers_of_numpy_are_saved_as_numbers() -> None:
    policy = fitted(FixedK)
    policy.__dict__.update(k_=np.int64(3), payoff_=Payoff(np.float32(0.5)))  # type: ignore[arg-type]
    loaded = from_json(to_json(policy).encode())
    assert vars(loaded) == {"k_": 3, "payoff_": Payoff(0.5), "training_": None}


# What is on disk.


@pytest.mark.parametrize("each", OURS, ids=lambda each: each.name)
def test_a_stored_policy_decides_as_it_did_when_it_was_saved(each: Golden) -> None:
    policy = from_json(each.content)
    assert kept(policy) == each.kept
    again = from_json(to_json(policy, policy.training_).encode())
    assert (kept(again), again.training_) == (each.kept, policy.training_)


def test_every_kind_is_stored() -> None:
    assert {each.document["schema"] for each in golden()} == {SCHEMA}
    assert {each.document["kind"] for each in golden()} == {*(kind.kind for kind in LIBRARY), *IN_THE_LAB}


@pytest.mark.parametrize(
    "columns", [["score", "scroe"], list(CANDIDATE_COLUMNS)[::-1], list(CANDIDATE_COLUMNS)[1:], 5], ids=str
)
def test_columns_of_a_membership_model_that_are_not_those_of_its_coefficients_are_refused(columns: Any) -> None:
    document = document_of(fitted(camdf.ExpectedPayoffBySet))
    document["policy"]["model_"]["columns"] = columns
    assert "policy: model_: " in refusal(sealed(document))


def test_a_membership_model_of_fewer_columns_decides_as_if_the_others_had_no_weight() -> None:
    policy = fitted(camdf.ExpectedPayoffBySet)
    model: MembershipModel = replace(vars(policy)["model_"], doubt=None, none=())
    left_out = ("score_squared", "list_mean", "never_listed")
    places = [i for i, name in enumerate(model.columns) if name not in left_out]
    lists = [name for name in model.columns if name.startswith("list_")]
    fewer = replace(
        model,
        columns=tuple(model.columns[i] for i in places),
        coefficients=tuple(model.coefficients[i] for i in places),
        holds=(model.holds[0], *(w for name, w in zip(lists, model.holds[1:], strict=True) if name not in left_out)),
    )
    weightless = replace(
        model,
        coefficients=tuple(
            0.0 if name in left_out else w for name, w in zip(model.columns, model.coefficients, strict=True)
        ),
        holds=(
            model.holds[0],
            *(0.0 if name in left_out else w for name, w in zip(lists, model.holds[1:], strict=True)),
        ),
    )
    for one, other in zip(fewer.probabilities(unseen()), weightless.probabilities(unseen()), strict=True):
        assert one.tobytes() == other.tobytes()


# What is not saved.


def test_an_unfitted_policy_is_not_saved(tmp_path: Path) -> None:
    for kind in LIBRARY:
        if issubclass(kind, FittedPolicy):
            with pytest.raises(NotFittedError, match="Call fit before save"):
                save(kind(), tmp_path / "policy.json")
    assert list(tmp_path.iterdir()) == []


def test_code_is_not_saved() -> None:
    policy = FixedK().fit(
        logged_tasks(), Payoff(0.1, lambda covered, n_required: np.ones(np.shape(covered + n_required)))
    )
    with refuses(ArtifactError, "value function", must=list(VALUES)):
        to_json(policy)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 2 * LARGEST])
def test_a_policy_that_could_not_be_loaded_is_not_saved(number: float, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    save(fitted(CAMDF), path)
    before = path.read_bytes()
    policy = fitted(CAMDF)
    model: LinearModel = policy.__dict__["model_"]
    policy.__dict__["model_"] = replace(model, coefficients=(number, *model.coefficients[1:]))
    with refuses(ArtifactError, "CAMDF", "policy: model_: coefficients", must="numbers", got="list of length"):
        save(policy, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"k_": 2.5}, "policy: k_ … whole number … 0 to 9007199254740992 … 2.5"),
        ({"k_": -1}, "policy: k_ … 0 to 9007199254740992 … -1"),
        ({"k_": None}, "policy: k_ … 0 to 9007199254740992 … null"),
        ({"payoff_": Payoff(2 * LARGEST)}, f"payoff: cost_pressure … {-LARGEST:g} to {LARGEST:g}"),
    ],
    ids=str,
)
def test_an_attribute_of_the_wrong_type_is_not_saved(attributes: dict[str, Any], what: str) -> None:
    policy = fitted(FixedK)
    policy.__dict__.update(attributes)
    with refuses(ArtifactError, "FixedK", what):
        to_json(policy)


def test_a_policy_too_large_to_load_is_not_saved() -> None:
    policy = fitted(camdf.ConstantSet)
    policy.__dict__["tools_"] = tuple(f"{i:0500d}" for i in range(9000))
    with refuses(ArtifactError, "ConstantSet", must=LARGEST_FILE):
        to_json(policy)


class Careful(FixedK):
    """One fewer than the best number; without a kind of its own it would come back as the policy it inherits from."""

    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions.prefix(rankings, np.minimum(rankings.lengths, max(0, self.learned("k_", payoff) - 1)))


class Named(Careful):
    kind = "careful"


def test_a_policy_without_a_kind_of_its_own_is_not_saved() -> None:
    with refuses(ArtifactError, "Careful", must="'kind'"):
        to_json(fitted(Careful))


def test_a_policy_of_ones_own_is_loaded_where_it_is_named(tmp_path: Path) -> None:
    policy = fitted(Named)
    save(policy, tmp_path / "policy.json")
    loaded = load(tmp_path / "policy.json", (*LIBRARY, Named))
    assert type(loaded) is Named
    assert_same_decisions(policy, loaded)
    with refuses(ArtifactError, "kind", got="'careful'") as refused:
        load(tmp_path / "policy.json")
    assert says(remedy_of(refused.value), "own class", "load")


class Nameless(Policy):
    def decide(self, rankings: Rankings, payoff: Payoff) -> Decisions:
        return Decisions.prefix(rankings, rankings.lengths)


def test_no_file_makes_a_policy_without_a_kind() -> None:
    with pytest.raises(ArtifactError, match="unknown kind ''"):
        from_json(sealed({**document_of(camdf.AcquireAll()), "kind": ""}), (*LIBRARY, Nameless))


# What is refused, and what to do by the error's last sentence.

CHECK_THE_PATH = "check the path"
COPY_AGAIN = "Copy"
SAVE_AGAIN = "Save"
NAME_A_FILE = "camdf.save"
UPGRADE = "Upgrade"
FIT_AGAIN = "Fit"
REMEDIES = (CHECK_THE_PATH, COPY_AGAIN, SAVE_AGAIN, NAME_A_FILE, UPGRADE, FIT_AGAIN, "changed or damaged")


@pytest.mark.parametrize(
    ("content", "what", "remedy"),
    [
        (b"", "JSON … line 1 column 1", COPY_AGAIN),
        (to_json(camdf.AcquireAll()).encode()[:-40], "JSON … column", COPY_AGAIN),
        (b"\x80\x04K\x01.", "JSON … utf-8 … 0x80 … position 0", COPY_AGAIN),
        (b'\xef\xbb\xbf{"schema": 1}', "JSON … UTF-8 BOM", COPY_AGAIN),
        (b'{"schema": NaN}', "NaN … JSON number", COPY_AGAIN),
        (b'{"schema": -Infinity}', "-Infinity … JSON number", COPY_AGAIN),
        (b'{"schema": 1, "schema": 1}', "field … twice", COPY_AGAIN),
        (b"9" * 900_000, "JSON … limit … digits", COPY_AGAIN),
        (b" " * (LARGEST_FILE + 1), f"{LARGEST_FILE} bytes", CHECK_THE_PATH),
        (b"[" * 500_000, f"{MOST_BRACKETS} lists and objects", CHECK_THE_PATH),
        (b'{"":' * 100_000, f"{MOST_BRACKETS} lists and objects", CHECK_THE_PATH),
        (b"[]", "JSON object", NAME_A_FILE),
        (b"null", "JSON object", NAME_A_FILE),
        (b'{"schema": 4}', f"schema 4 … schema {SCHEMA}", UPGRADE),
        (b'{"schema": ' + b"9" * 4000 + b"}", f"schema {'9' * 24} … schema {SCHEMA}", UPGRADE),
        (b"{}", "fields schema, kind, package, payoff, policy, training, sha256", NAME_A_FILE),
    ],
    ids=lambda value: str(value[:24]),
)
def test_a_file_that_is_no_artifact_is_refused(content: bytes, what: str, remedy: str) -> None:
    message = refusal(content)
    assert says(message, what)
    assert says(remedy_of(message), remedy)


def test_a_deeply_nested_list_is_refused_as_such_or_as_no_object() -> None:
    """Whichever of the two, as the stack of the thread allows."""
    message = refusal(b"[" * 999 + b"]" * 999)
    assert says(message, "nested … check the path") or says(message, "JSON object … camdf.save")


DROPPED = object()


def changed(document: Document, path: str, value: Any) -> Document:
    """Put a value where a path with dots points, or drop what is there."""
    *names, last = path.split(".")
    node = document
    for name in names:
        node = node[name]
    if value is DROPPED:
        del node[last]
    else:
        node[last] = value
    return document


NUMBER = f"{-LARGEST:g} to {LARGEST:g}"
COUNT = f"whole number … 0 to {2**53}"
UNFITTED = "payoff … fitted policy"
"""A payoff is there for a policy that was fitted, and for no other."""


@pytest.mark.parametrize(
    ("path", "value", "what", "remedy"),
    [
        ("schema", 4, f"schema 4 … schema {SCHEMA}", UPGRADE),
        ("schema", True, f"schema {SCHEMA} … fields", NAME_A_FILE),
        ("schema", 3.0, f"schema {SCHEMA} … fields", NAME_A_FILE),
        ("schema", 0, f"schema 0 … schema {SCHEMA}", FIT_AGAIN),
        ("extra", 0, "fields schema, kind, package", NAME_A_FILE),
        ("training", DROPPED, "fields schema, kind, package", NAME_A_FILE),
        ("kind", ["cam-df"], "kind … string", SAVE_AGAIN),
        ("kind", "cam-df-2", "unknown kind 'cam-df-2' … Known kinds … ['acquire-all'", UPGRADE),
        ("kind", "x" * 5000, f"unknown kind '{'x' * 80}'", UPGRADE),
        ("package", None, "package … string … 512 characters … null", SAVE_AGAIN),
        ("policy", [], "policy … object … list of length 0", SAVE_AGAIN),
        ("policy.extra", 0, "policy … unknown: ['extra'], missing: []", SAVE_AGAIN),
        ("policy." + "x" * 5000, 0, f"policy … unknown: ['{'x' * 40}'], missing: []", SAVE_AGAIN),
        ("policy.cutoff_", DROPPED, "policy … unknown: [], missing: ['cutoff_']", SAVE_AGAIN),
        ("policy.model_.tools", DROPPED, "policy: model_ … unknown: [], missing: ['tools']", SAVE_AGAIN),
        ("policy.cutoff_", "0.5", f"policy: cutoff_ … {NUMBER} … string of length 3", SAVE_AGAIN),
        ("policy.cutoff_", True, f"policy: cutoff_ … {NUMBER} … true", SAVE_AGAIN),
        ("policy.cutoff_", None, f"policy: cutoff_ … {NUMBER} … null", SAVE_AGAIN),
        ("policy.cutoff_", 1e101, f"policy: cutoff_ … {NUMBER} … 1e+101", SAVE_AGAIN),
        ("policy.cutoff_", 10**4000, f"policy: cutoff_ … {NUMBER} … 1{'0' * 23}.", SAVE_AGAIN),
        ("policy.threshold", [0.5], "policy: threshold … 0 to 1 … None … list of length 1", SAVE_AGAIN),
        ("policy.identity", 1, "policy: identity … true or false … 1", SAVE_AGAIN),
        ("policy.weights", "other", "policy: weights … regret, uniform … string of length 5", SAVE_AGAIN),
        ("policy.grid", [0.1] * 16385, "policy: grid … 16384 numbers … list of length 16385", SAVE_AGAIN),
        ("policy.grid", {"0": 0.1}, "policy: grid … list … object of length 1", SAVE_AGAIN),
        ("policy.columns", "progress", "policy: columns … camdf.core.features.COLUMNS", SAVE_AGAIN),
        ("policy.columns", ["x" * 513], "policy: columns … camdf.core.features.COLUMNS", SAVE_AGAIN),
        ("policy.columns", list(FULL[:5]), "model_ … columns … the policy's", SAVE_AGAIN),
        ("policy.model_.tools", ["a", "a"], "policy: model_: tools … 16384 strings … twice", SAVE_AGAIN),
        ("policy.model_.coefficients", [0.0], "coefficient … column", SAVE_AGAIN),
        ("policy.identity", False, "tools … identity", SAVE_AGAIN),
        ("payoff", None, UNFITTED, SAVE_AGAIN),
        ("payoff.cost_pressure", -0.1, "payoff: cost_pressure … 0 or more … -0.1", SAVE_AGAIN),
        ("payoff.value", "exactly", "payoff: value … exact, partial … string of length 7", SAVE_AGAIN),
        ("training", [], "training … object … list of length 0", SAVE_AGAIN),
        ("training.tasks", -1, f"training: tasks … {COUNT} … -1", SAVE_AGAIN),
        ("training.tasks", True, f"training: tasks … {COUNT} … true", SAVE_AGAIN),
        ("training.tasks", 2**53 + 1, f"training: tasks … {COUNT} … {2**53 + 1}", SAVE_AGAIN),
        ("training.groups", 1.0, f"training: groups … {COUNT} … 1.0", SAVE_AGAIN),
        ("training.payoff", DROPPED, "training … unknown: [], missing: ['payoff']", SAVE_AGAIN),
        ("training.payoff", {}, "training: payoff … unknown: [], missing: ['cost_pressure', 'value']", SAVE_AGAIN),
        ("training.payoff", 0.12, "training: payoff … object … 0.12", SAVE_AGAIN),
        ("training.scorer", "start", "training: scorer … object … string", SAVE_AGAIN),
        (
            "training.scorer.settings",
            {str(i): "" for i in range(101)},
            "training: scorer: settings … 100 strings … object of length 101",
            SAVE_AGAIN,
        ),
        ("training.scorer.settings", {"k1": 1.5}, "training: scorer: settings … 100 strings", SAVE_AGAIN),
        (
            "training.catalogue.names",
            [str(i) for i in range(1001)],
            "training: catalogue: names … 1000 … list of length 1001",
            SAVE_AGAIN,
        ),
        ("training.catalogue.tools", None, f"training: catalogue: tools … {COUNT} … null", SAVE_AGAIN),
        ("training.validation_payoff", {"x": "1"}, "training: validation_payoff … 100 numbers", SAVE_AGAIN),
        (
            "training.validation_payoff",
            {str(i): 0 for i in range(101)},
            "training: validation_payoff … 100 numbers … object of length 101",
            SAVE_AGAIN,
        ),
    ],
    ids=lambda value: str(value)[:16],
)
def test_a_document_with_a_good_digest_and_a_bad_part_is_refused(path: str, value: Any, what: str, remedy: str) -> None:
    message = refusal(sealed(changed(document_of(fitted(CAMDF), TRAINING), path, value)))
    assert says(message, what)
    assert says(remedy_of(message), remedy)
    assert len(message) < 700


def test_a_number_too_large_for_a_float_is_refused() -> None:
    document = changed(document_of(fitted(CAMDF)), "policy.cutoff_", float("inf"))
    content = sealed(document).replace(b"Infinity", b"1e400")
    assert b'"cutoff_": 1e400' in content
    assert says(refusal(content), "policy: cutoff_", NUMBER, "inf")


def test_a_payoff_that_nothing_was_fitted_for_is_refused() -> None:
    document = changed(document_of(camdf.AcquireAll()), "payoff", {"cost_pressure": 0.1, "value": "exact"})
    assert says(refusal(sealed(document)), UNFITTED)


def test_a_reordered_feature_list_is_refused() -> None:
    document = document_of(fitted(CAMDF))
    policy = document["policy"]
    order = [1, 0, *range(2, len(FULL))]
    for owner in (policy, policy["model_"]):
        owner["columns"] = [owner["columns"][i] for i in order]
    policy["model_"]["coefficients"] = [policy["model_"]["coefficients"][i] for i in order]
    assert says(refusal(sealed(document)), "policy: columns … camdf.core.features.COLUMNS … order")
    policy["columns"] = list(FULL)
    assert says(refusal(sealed(document)), "'columns' of a model … feature map")


def test_a_changed_number_with_the_old_digest_is_refused() -> None:
    text = to_json(fitted(CAMDF)).replace('"cost_pressure": 0.12,', '"cost_pressure": 0.13,')
    message = refusal(text.encode())
    assert says(message, "digest", "content")
    assert says(remedy_of(message), "copy", "save")


@pytest.mark.parametrize("stated", ["", None, 0, [], "0" * 64])
def test_no_other_digest_is_accepted(stated: Any) -> None:
    document = document_of(fitted(FixedK))
    assert says(refusal(json.dumps({**document, "sha256": stated}).encode()), "digest", "content")
    other_case = {**document, "sha256": digest(document).upper()}
    assert says(refusal(json.dumps(other_case).encode()), "digest", "content")


def test_every_truncation_is_refused() -> None:
    content = to_json(fitted(camdf.ScoreThreshold)).encode()
    for length in range(len(content)):
        assert "it is not JSON" in refusal(content[:length])


@pytest.mark.parametrize("name", ["missing.json", ".", "missing\0.json"])
def test_a_path_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    with refuses(ArtifactError, got=repr(str(tmp_path / name))) as refused:
        load(tmp_path / name)
    assert says(remedy_of(refused.value), NAME_A_FILE)


def test_the_largest_file_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(to_json(fitted(FixedK)).encode().ljust(LARGEST_FILE))
    assert_same_decisions(fitted(FixedK), load(path))
    path.write_bytes(to_json(fitted(FixedK)).encode().ljust(LARGEST_FILE + 1))
    with refuses(ArtifactError, must=f"{LARGEST_FILE} bytes"):
        load(path)


def test_deep_nesting_is_refused_even_where_the_recursion_limit_is_raised() -> None:
    code = (
        "import sys; sys.setrecursionlimit(10**6)\n"
        "from camdf.policies.artifact import ArtifactError, from_json\n"
        "for content in (b'[' * 900_000, b'[' * 1000, b'[' * 999 + b']' * 999):\n"
        "    try: from_json(content)\n"
        "    except ArtifactError: pass\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", LIBRARY, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("size", [LARGEST, -LARGEST, 5e-324])
def test_no_number_that_is_read_makes_a_decision_overflow(kind: type[Policy], size: float) -> None:
    def enlarged(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: enlarged(value) for key, value in node.items()}
        if isinstance(node, list):
            return [size if isinstance(value, float) else value for value in node]
        return size if isinstance(node, float) else node

    document = document_of(fitted(kind, "partial"))
    document["policy"] = enlarged(document["policy"])
    if document["payoff"] is not None:
        document["payoff"]["cost_pressure"] = abs(size)
    fixed_threshold = issubclass(kind, CAMDF) and document["policy"]["threshold"] is not None
    if (fixed_threshold or kind in {ScoreMass, NearBest, camdf.TopShare, camdf.ExpectedPayoffBySet}) and abs(size) > 1:
        assert says(refusal(sealed(document)), "share … 0 to")
        if not fixed_threshold:
            return
        document["policy"]["threshold"] = 0.5
    if kind is camdf.ExpectedPayoffBySet:
        document["policy"]["model_"]["lowest_score"] = 0.02  # which has bounds of its own
    policy = from_json(sealed(document))
    for rankings in (unseen(), unseen().with_costs(unseen().costs * 1e-6), unseen().with_costs(unseen().costs * 1e6)):
        assert_sound(decide(policy, rankings), rankings)


def test_a_model_without_columns_is_refused_or_decides() -> None:
    document = document_of(fitted(CAMDF))
    document["policy"]["model_"].update(columns=[], coefficients=[])
    document["policy"]["columns"] = []
    with suppress(ArtifactError):
        assert_sound(decide(from_json(sealed(document)), unseen()), unseen())


# Nothing is executed.

EXECUTES = frozenset(
    {
        *(
            "import",
            "exec",
            "compile",
            "open",
            "pickle.find_class",
            "marshal.loads",
            "code.__new__",
            "function.__new__",
        ),
        *("ctypes.dlopen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect"),
    }
)
_heard: list[str] = []
_listening = [False]


def _listen(event: str, _: tuple[Any, ...]) -> None:
    if _listening[0] and event in EXECUTES:
        _heard.append(event)


PARTS = (
    *(Doubt, FittedCatalogue, LinearModel, MembershipModel, Payoff, ScorerRecord, TextSignal, Training),
    *(UsualLists, UsualShares),
)
"""What the file of a policy is made of, besides the policy."""


@pytest.fixture(scope="module")
def read() -> Iterator[Callable[[bytes], Policy | str]]:
    """Reads content to a policy or a refusal. Python reports what it executes meanwhile, which must be nothing."""
    with pytest.raises(ArtifactError):  # of an unknown kind: that looks once for what other packages register
        from_json(sealed({**document_of(fitted(CAMDF)), "kind": "unknown"}))
    for kind in (*LIBRARY, *PARTS):  # Python evaluates the annotations of a class of ours once
        checks_of(kind)
    sys.addaudithook(_listen)  # hooks cannot be removed: between the calls this one is deaf

    def attempt(content: bytes) -> Policy | str:
        _listening[0] = True
        try:
            return from_json(content)
        except ArtifactError as error:
            return str(error)
        finally:
            _listening[0] = False
            assert _heard == []

    attempt(sealed(document_of(fitted(CAMDF))))
    yield attempt
    _listening[0] = False


def test_the_ear_for_execution_is_not_deaf(read: Callable[[bytes], Policy | str]) -> None:
    _listening[0] = True
    compile("1", "<test>", "eval")
    _listening[0] = False
    assert _heard == ["compile"]
    _heard.clear()


@pytest.mark.parametrize("module", [artifact, stored])
def test_the_modules_that_read_cannot_execute(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec", "compile", "__import__", "globals", "pickle", "importlib"}
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    standard = {name for name in imported if not name.startswith("camdf")}
    assert standard <= {
        *("__future__", "collections.abc", "contextlib", "dataclasses", "hashlib", "json", "operator", "os", "pathlib"),
        "typing",
    }


# Memory.


def _distinct(count: int) -> Iterator[str]:
    """Short names, no two the same, of characters that take two bytes in a file and more in memory."""
    wide = [chr(code) for code in range(0x100, 0x800)]
    narrow = string.ascii_letters + string.digits + "!#$%&'()*+,-./:;<=>?@^_`|~ "
    for i in range(count):
        yield wide[i % len(wide)] + narrow[i // len(wide)]


def _filled(unit: str) -> str:
    return f"[{unit}" + f",{unit}" * ((LARGEST_FILE - 400) // (len(unit.encode()) + 1) - 1) + "]"


HOSTILE_FILES = {
    "empty lists": _filled("[]"),
    "empty objects": _filled("{}"),
    "objects of one": _filled('{"":0}'),
    "chains of lists": _filled("[" * 400 + "]" * 400),
    "chains of objects": _filled('{"":' * 400 + "0" + "}" * 400),
    "never closed": "[" * (LARGEST_FILE - 400),
    "as deep as it may be": "[" * 990 + "]" * 990,
    "short strings": _filled('"ab"'),
    "short wide strings": _filled('"\u0101"'),
    "short strings outside the plane": _filled('"\U0001f50e"'),
    "wide names": "{" + ",".join(f'"{name}":0' for name in _distinct(124_900)) + "}",
    "narrow names": "{" + ",".join(f'"{i:x}":0' for i in range(92_000)) + "}",
    "whole numbers": _filled("999"),
    "short numbers": _filled("1e9"),
    "zeros": _filled("0"),
    "huge whole numbers": _filled("9" * 4300),
    "one huge whole number": "9" * (LARGEST_FILE - 400),
    "one long fraction": "0." + "3" * (LARGEST_FILE - 400),
    "one long wide string": '"' + "\u0101" * ((LARGEST_FILE - 400) // 2) + '"',
    "one long string outside the plane": '"' + "\U0001f50e" * ((LARGEST_FILE - 400) // 4) + '"',
}


READING = """
import resource, sys
from pathlib import Path
from camdf.errors import ArtifactError
from camdf.policies.artifact import load

pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    load(sys.argv[1])
except ArtifactError as error:
    print(error)
"""
"""Prints why a file is refused, and fails where reading it takes more memory than is said."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_reading_never_takes_more_than_256_megabytes(name: str, tmp_path: Path) -> None:
    document = {**document_of(camdf.AcquireAll()), "policy": None}
    with suppress(ValueError, RecursionError):
        document["sha256"] = digest({**document, "policy": json.loads(HOSTILE_FILES[name])})
    content = json.dumps(document).replace('"policy": null', f'"policy":{HOSTILE_FILES[name]}').encode()
    assert len(content) <= LARGEST_FILE
    path = tmp_path / "policy.json"
    path.write_bytes(content)
    run = subprocess.run([sys.executable, "-c", READING, str(path), str(MOST_MEMORY)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert 0 < len(run.stdout) < 700


# Mutations.

HOSTILE_VALUES = (
    *("null", "true", "false", "[]", "{}", '""', '"0.5"', '"true"', '"exact"', '"cam-df"', '"progress"', '"\\ud800"'),
    *("0", "1", "-1", "2", "-0.0", "0.5", "-0.5", "1e-320", "5e-324", "1e100", "-1e100", "1.1e100", "1e300", "-1e308"),
    *(
        "9007199254740992",
        "9007199254740993",
        "-9223372036854775809",
        "1" + "0" * 99,
        "1" + "0" * 400,
        "-" + "9" * 4300,
    ),
    *("NaN", "Infinity", "-Infinity"),
    *("[[]]", "[null]", '[""]', "[0.0]", "[[0.5]]", '{"": 0}', '{"a": {"a": {"a": []}}}', '["progress"]', "[NaN]"),
    *("[" * 200 + "]" * 200, json.dumps({"__class__": "os.system", "__reduce__": ["os.system", ["true"]]})),
)
LONG_VALUES = (
    *(json.dumps("x" * 600), json.dumps("x" * 20_000), json.dumps("é" * 600)),
    *(json.dumps([0.5] * 20_000), json.dumps(["x"] * 20_000), json.dumps([f"t{i}" for i in range(16384)])),
    *(json.dumps([0.5] * 16384), json.dumps([[]] * 1100), json.dumps({f"k{i}": 0 for i in range(200)})),
)
NAMES = (
    *("schema", "kind", "package", "payoff", "policy", "training", "sha256", "model_", "cutoff_", "columns"),
    "x",
    "",
)


@cache
def originals() -> tuple[str, ...]:
    """Every kind under both payoffs, those that are stored, and some with identity off, tuned, or with a training."""
    policies = [fitted(kind, value) for kind in LIBRARY for value in VALUES]
    policies += [fitted(CAMDF, identity=False), fitted(camdf.CAMDFLite, grid=(0.25, 0.5, 0.75)), fitted(FixedK)]
    written = [to_json(policy, TRAINING if i % 3 else None) for i, policy in enumerate(policies)]
    return (*written, *(each.content.decode() for each in OURS))


def hostile(rng: random.Random) -> Any:
    return json.loads(rng.choice(HOSTILE_VALUES if rng.random() < 0.98 else LONG_VALUES))


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or position) below a node."""
    found: list[tuple[Any, Any]] = []
    waiting = [node]
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


def mutate_document(document: Document, rng: random.Random) -> None:
    """One change somewhere in the parsed document, the shallow parts as often as the many numbers."""
    every = places(document)
    shallow = [place for place in every if isinstance(place[0], dict)]
    container, key = rng.choice(shallow if rng.random() < 0.6 else every)
    containers = [document] + [parent[name] for parent, name in every if isinstance(parent[name], dict | list)]
    match rng.randrange(10):
        case 0 | 1 | 2:
            container[key] = hostile(rng)
        case 3:
            del container[key]
        case 4:
            target = rng.choice(containers)
            if isinstance(target, dict):
                target[rng.choice(NAMES)] = hostile(rng)
            else:
                target.insert(rng.randint(0, len(target)), hostile(rng))
        case 5:
            value = container[key]
            del container[key]
            if isinstance(container, dict):
                container[rng.choice((*NAMES, str(key).upper(), f"{key}_", f"{key} "))] = value
        case 6:
            other, name = rng.choice(every)
            container[key], other[name] = json.loads(json.dumps([other[name], container[key]]))
        case 7:
            lists = [each for each in containers if isinstance(each, list) and each]
            if lists:
                chosen = rng.choice(lists)
                rng.shuffle(chosen) if rng.random() < 0.5 else chosen.append(rng.choice(chosen))
        case 8:
            document["kind"] = rng.choice([kind.kind for kind in LIBRARY])
            if rng.random() < 0.5:
                part = rng.choice(["policy", "payoff", "training"])
                document[part] = json.loads(rng.choice(originals()))[part]
        case _:
            numbers = [(parent, name) for parent, name in every if type(parent[name]) is float]
            for parent, name in rng.sample(numbers, min(len(numbers), rng.choice((1, 4, 64)))):
                parent[name] *= rng.choice((-1.0, 0.0, 1e10, 1e98, -1e99, 1e-300, 1e250))


def mutated_document(rng: random.Random) -> bytes:
    document = json.loads(rng.choice(originals()))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if document:
            mutate_document(document, rng)
    if rng.random() < 0.95:
        document["sha256"] = digest(document)
    text = json.dumps(document)
    if rng.random() < 0.5:
        text = text.replace("Infinity", "1e400")
    return text.encode()


def mutate_bytes(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    end = min(len(content), start + rng.choice((1, 1, 2, 8, 64, 512)))
    match rng.randrange(8):
        case 0 | 1:
            if start < len(content):
                content[start] ^= 1 << rng.randrange(8)
        case 2:
            del content[start:end]
        case 3:
            content[start:start] = rng.randbytes(rng.choice((1, 1, 4, 64)))
        case 4:
            content[start:start] = content[start:end] * rng.choice((1, 2, 50))
        case 5:
            del content[start:]
        case 6:
            other = rng.choice(originals()).encode()
            cut = rng.randrange(len(other))
            content[start:end] = other[cut : cut + rng.choice((1, 16, 256, 4096))]
        case _:
            content[start:end] = rng.choice((*HOSTILE_VALUES, " ", "\n", ",", "[", "}", "\x00", "1e400")).encode()


def mutated_bytes(rng: random.Random) -> bytes:
    content = bytearray(rng.choice(originals()).encode())
    for _ in range(rng.choice((1, 1, 2, 4))):
        mutate_bytes(content, rng)
    return bytes(content)


def assert_readable(message: str) -> None:
    assert message.endswith(".")
    assert any(says(remedy_of(message), remedy) for remedy in REMEDIES)
    assert len(message.encode()) < 700


MUTATED = int(os.environ.get("MUTATED", "8000"))


def test_documents_mutated_under_a_good_digest_are_refused_or_decide(
    read: Callable[[bytes], Policy | str], record_property: Callable[[str, object], None]
) -> None:
    record_property("cases", MUTATED)
    rng = random.Random(20240501)
    loaded, wrong = 0, 0
    for _ in range(MUTATED):
        result = read(mutated_document(rng))
        if isinstance(result, str):
            assert_readable(result)
            wrong += "its content is wrong" in result
        else:
            assert_sound(decide(result, unseen()), unseen())
            loaded += 1
    assert loaded > MUTATED / 10
    assert wrong > MUTATED / 3


def test_files_with_mutated_bytes_are_refused_or_mean_the_same(
    read: Callable[[bytes], Policy | str], record_property: Callable[[str, object], None]
) -> None:
    record_property("cases", MUTATED)
    rng = random.Random(20240502)
    known = {json.loads(text)["sha256"] for text in originals()}
    refused = 0
    for _ in range(MUTATED):
        content = mutated_bytes(rng)
        result = read(content)
        if isinstance(result, str):
            assert_readable(result)
            refused += 1
        else:
            assert digest(json.loads(content)) in known
            assert_sound(decide(result, unseen()), unseen())
    assert refused > MUTATED * 3 / 4


def test_a_policy_of_thousands_of_tools_and_of_what_texts_say_of_each_is_saved_and_loaded(tmp_path: Path) -> None:
    """Both bounds once lay below what a fit may learn: 4,096 tools, or texts of 780."""
    listed = [{f"t{(number * 7 + place) % 5000}": 0.5 - place / 100 for place in range(20)} for number in range(700)]
    logged = LoggedTasks.from_records([{"scores": scores, "required": [next(iter(scores))]} for scores in listed])
    policy = camdf.ExpectedPayoffBySet().fit(logged, Payoff(0.1))
    assert len(policy.model_.tools) > 4096
    rates = (0.1,) * 2000
    text = TextSignal(tuple(f"t{i}" for i in range(2000)), rates, rates, ((1,) * 384,) * 2000)
    policy.with_text_ = replace(policy.model_, text=text, text_coefficients=(0.0,) * TEXT_COLUMNS, doubt=None)
    save(policy, tmp_path / "policy.json")
    again = load(tmp_path / "policy.json")
    kept, expected = (known.decide(logged.rankings, Payoff(0.1)).acquired for known in (again, policy))
    assert np.array_equal(kept, expected)
    assert again == policy


def test_a_calibration_that_falls_is_refused() -> None:
    document = to_json(camdf.ExpectedPayoffBySet().fit(logged_tasks(), Payoff(0.1)))
    model = from_json(document.encode()).model_  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="must rise"):
        replace(model, calibration=(0.0, -0.3))
