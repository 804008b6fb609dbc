"""Settings: nonsense is refused where it is given, copies are faithful, and a file is saved whole or not at all."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import camdf
from camdf import Gate, Payoff, Policy, Prices, Rankings, UsageError
from camdf.checks import sample_tasks
from camdf.core.features import COST_AUGMENTED, COST_FREE, FULL, LITE
from camdf.evaluation.replay import Fixed
from camdf.gate import Guards, Limits, Records, Rollout
from camdf.policies.artifact import load, save, to_json
from camdf.policies.pressure import (
    pressure_for_budget,
    pressure_for_estimate,
    pressure_for_sufficiency,
    pressure_for_tools,
)
from camdf.policies.registry import LIBRARY, POLICIES
from camdf.policies.rules import ScoreMass
from camdf.scorers import BM25, Embeddings, Fusion, Given, Necessity
from camdf.scorers import embeddings as embeddings_module
from camdf.tools import Tool
from golden import PAYOFF, VECTORS, golden_gate, overlap
from saying import refuses

NAN, INFINITY = float("nan"), float("inf")

NONSENSE: dict[str, list[Any]] = {
    "columns": [["x"], "progress", [], ["next_score", "progress"], ["progress", "progress"], None, 3],
    "cost_blind": ["yes", 1, None],
    "grid": ["ab", 0.5, ["x"], [NAN], [0.1, None], {0.5}],
    "identity": ["yes", 0, None],
    "k": [-1, 2.5, "5", True, None],
    "prior": ["none", "", 1, True, ["similarity"]],
    "score": [NAN, INFINITY, "0.5", None],
    "share": [1.5, -0.1, NAN, "all", None],
    "target": ["x", "", None, ["hindsight"]],
    "threshold": ["high", NAN, INFINITY, True, [0.5]],
    "trust_labels": ["no", 1, None],
    "remember": ["no", 1, None],
    "weights": ["x", None, 1.0],
}
"""What no policy takes for a setting of this name."""

OUT_OF_RANGE: dict[str, list[Any]] = {"threshold": [2.0, -0.1], "grid": [[0.5, 2.0]]}
"""What no policy takes whose threshold is a probability: all that stop along a list."""


def settings_of(kind: type[Policy]) -> list[str]:
    return list(signature(kind).parameters)


def is_share(kind: type[Policy], name: str) -> bool:
    return name in OUT_OF_RANGE and "threshold" in settings_of(kind)


REFUSED = [
    pytest.param(kind, name, value, id=f"{kind.__name__}({name}={value!r})")
    for kind in LIBRARY
    for name in settings_of(kind)
    for value in [*NONSENSE[name], *(OUT_OF_RANGE[name] if is_share(kind, name) else [])]
]

GRID = (0.25, 0.5, 0.75)
VARIANTS: dict[str, Callable[[], Policy]] = {
    **POLICIES,
    "columns in a list": lambda: camdf.CAMDF(list(LITE), identity=False),
    "a grid in a list": lambda: camdf.CAMDFLite(grid=list(GRID)),
    "a grid in an array": lambda: camdf.CAMDF(threshold=None, grid=np.array(GRID)),  # type: ignore[arg-type]
    "whole numbers": lambda: camdf.CAMDF(threshold=None, grid=(0, 1)),
    "everything set": lambda: camdf.CAMDF(
        COST_AUGMENTED, identity=True, cost_blind=True, weights="uniform", target="on-policy", threshold=None, grid=GRID
    ),
    "by depth without identity": lambda: camdf.ExpectedPayoffByDepth(COST_FREE[:5], identity=False),
    "by set without identity": lambda: camdf.ExpectedPayoffBySet(False, trust_labels=True),
    "numbers of numpy": lambda: camdf.TopK(np.int64(3)),  # type: ignore[arg-type]
    "another score": lambda: camdf.ScoreAtLeast(0.3),
    "another share": lambda: ScoreMass(np.float64(0.9)),
    "a threshold on a grid": lambda: camdf.ScoreThreshold(GRID),
}
variants = pytest.mark.parametrize("make", VARIANTS.values(), ids=list(VARIANTS))


@cache
def fitted(name: str) -> Policy:
    return VARIANTS[name]().fit(sample_tasks(1), PAYOFF, sample_tasks(2))


def tables() -> Iterator[Rankings]:
    yield sample_tasks(3).rankings
    yield sample_tasks(4, ragged=True).rankings


def assert_decide_alike(one: Policy, other: Policy) -> None:
    for rankings in tables():
        first, second = (policy.decide(rankings, PAYOFF) for policy in (one, other))
        assert first.acquired.tobytes() == second.acquired.tobytes()
        for mine, theirs in ((first.depth, second.depth), (first.evidence, second.evidence)):
            assert (mine is None) == (theirs is None)
            assert mine is None or theirs is None or mine.tobytes() == theirs.tobytes()


# Refused where they are given.


def test_every_setting_of_every_policy_has_nonsense_to_refuse() -> None:
    assert {name for kind in LIBRARY for name in settings_of(kind)} == NONSENSE.keys()


@pytest.mark.parametrize(("kind", "name", "value"), REFUSED)
def test_nonsense_is_refused_by_name_where_it_is_given(kind: type[Policy], name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^The '{name}' of {kind.__name__} must .*Got .* instead\.$"):
        kind(**{name: value})


def test_a_refusal_says_what_was_given_and_is_a_value_error_too() -> None:
    with refuses(ValueError, "threshold", "CAMDF", "share", "0", "1", "2.0"):
        camdf.CAMDF(threshold=2.0)
    with refuses(ValueError, "weights", "CAMDF", must="one of regret, uniform", got="x"):
        camdf.CAMDF(weights="x")  # type: ignore[arg-type]


def test_a_gap_is_no_probability_so_its_threshold_may_be_any_number() -> None:
    assert camdf.ScoreThreshold(grid=[-3.0, 4.0]).get_params()["grid"] == (-3.0, 4.0)


def test_columns_that_see_a_price_are_refused_where_one_fit_serves_every_price() -> None:
    with refuses(UsageError, "columns", "ExpectedPayoffByDepth", must="among COST_FREE"):
        camdf.ExpectedPayoffByDepth(FULL)


# Given back, printed, copied.


@variants
def test_get_params_gives_back_every_setting_under_its_name(make: Callable[[], Policy]) -> None:
    policy = make()
    given = policy.get_params()
    assert list(given) == settings_of(type(policy))
    assert given == {name: value for name, value in vars(policy).items() if name in given}
    assert type(policy)(**given).get_params() == given


def test_get_params_gives_back_what_was_passed() -> None:
    passed: dict[str, Any] = {
        "columns": COST_FREE,
        "identity": False,
        "cost_blind": True,
        "weights": "uniform",
        "target": "on-policy",
        "threshold": 0.25,
        "grid": GRID,
    }
    assert camdf.CAMDF(**passed).get_params() == passed
    assert camdf.TopK(7).get_params() == {"k": 7}
    assert camdf.AcquireAll().get_params() == {}


@variants
def test_fitting_leaves_the_settings_as_they_are(make: Callable[[], Policy]) -> None:
    before = make()
    assert make().fit(sample_tasks(1), PAYOFF).get_params() == before.get_params()


@variants
def test_scikit_learns_clone_is_an_unfitted_policy_with_the_same_settings(make: Callable[[], Policy]) -> None:
    policy = make().fit(sample_tasks(1), PAYOFF, sample_tasks(2))
    copied = clone(policy)
    assert type(copied) is type(policy)
    assert copied.get_params() == policy.get_params()
    assert not [name for name in vars(copied) if name.endswith("_")]
    assert_decide_alike(policy, copied.fit(sample_tasks(1), PAYOFF, sample_tasks(2)))


def test_a_clone_of_a_policy_that_starts_from_another_starts_from_it_as_it_was_fitted() -> None:
    prior = camdf.ExpectedPayoffBySet().fit(sample_tasks(1), PAYOFF)
    policy = camdf.ExpectedPayoffBySet(prior=prior)
    copied = clone(policy)
    assert copied == policy
    assert copied.prior == prior
    assert_decide_alike(copied.fit(sample_tasks(2), PAYOFF), policy.fit(sample_tasks(2), PAYOFF))


@variants
def test_policies_are_equal_where_class_settings_and_what_was_learned_are(make: Callable[[], Policy]) -> None:
    fresh, learned = make(), make().fit(sample_tasks(1), PAYOFF, sample_tasks(2))
    assert fresh == make()
    assert hash(fresh) == hash(make()) == hash(learned)
    assert learned == make().fit(sample_tasks(1), PAYOFF, sample_tasks(2)) == copy.deepcopy(learned)
    assert (fresh == learned) == (vars(fresh).keys() == vars(learned).keys())
    assert fresh == clone(learned)


def test_a_setting_a_class_or_a_fit_that_differs_makes_policies_unequal() -> None:
    assert camdf.TopK(3) == camdf.TopK(3) != camdf.TopK(4)
    assert len({camdf.TopK(3), camdf.TopK(3), camdf.FixedK()}) == 2
    assert camdf.CAMDF(columns=LITE) != camdf.CAMDFLite(columns=LITE)
    assert camdf.TopK(3) != 3
    one, other = (camdf.CAMDF().fit(sample_tasks(seed), PAYOFF) for seed in (1, 2))
    assert one != other

    class Own(camdf.AcquireAll):
        def __init__(self, weights: Any) -> None:
            self.weights = weights

    assert Own(np.arange(3)) == Own(np.arange(3)) != Own(np.arange(4))


def test_a_loaded_policy_equals_the_one_that_was_saved(tmp_path: Path) -> None:
    for policy in (camdf.TopK(3), camdf.CAMDF().fit(sample_tasks(1), PAYOFF), camdf.cold_start()):
        save(policy, tmp_path / "policy.json")
        assert load(tmp_path / "policy.json") == policy


@variants
def test_set_params_makes_the_policy_that_the_constructor_would(make: Callable[[], Policy]) -> None:
    policy = make()
    other = type(policy)().fit(sample_tasks(1), PAYOFF)
    assert other.set_params(**policy.get_params()) is other
    assert other == policy


def test_set_params_changes_what_is_named_and_refuses_what_the_constructor_would() -> None:
    policy = camdf.CAMDF(weights="uniform").fit(sample_tasks(1), PAYOFF)
    with refuses(UsageError, "regret", "uniform"):
        policy.set_params(weights="x")
    with refuses(UsageError, "TopK", "among", "depth"):
        camdf.TopK(3).set_params(depth=4)
    assert policy.decide(sample_tasks(3).rankings, PAYOFF).depth is not None  # a refusal leaves it as it is
    assert policy.set_params(identity=False) == camdf.CAMDF(weights="uniform", identity=False)
    with pytest.raises(camdf.NotFittedError):
        policy.decide(sample_tasks(3).rankings, PAYOFF)


@variants
def test_a_policy_is_printed_on_one_line_that_makes_an_equal_one(make: Callable[[], Policy]) -> None:
    policy = make()
    printed = repr(policy)
    assert "\n" not in printed
    again = eval(printed, {**{kind.__name__: kind for kind in LIBRARY}, "np": np})
    assert type(again) is type(policy)
    assert again.get_params() == policy.get_params()
    assert repr(again) == repr(make().fit(sample_tasks(1), PAYOFF)) == printed


@variants
def test_a_policy_prints_only_what_differs_from_the_defaults(make: Callable[[], Policy]) -> None:
    policy = make()
    defaults = {name: each.default for name, each in signature(type(policy)).parameters.items()}
    differ = [name for name, value in policy.get_params().items() if value != defaults[name]]
    told = ", ".join(f"{name}={policy.get_params()[name]!r}" for name in differ)
    assert repr(policy) == f"{type(policy).__name__}({told})"


def test_an_untouched_policy_is_printed_as_its_name() -> None:
    assert repr(camdf.CAMDF()) == "CAMDF()"
    assert repr(camdf.CAMDF(threshold=0.5)) == "CAMDF()"
    assert repr(camdf.CAMDF(threshold=None, weights="uniform")) == "CAMDF(weights='uniform', threshold=None)"
    assert repr(camdf.TopK(3)) == "TopK(k=3)"


def test_a_policy_of_your_own_prints_what_it_keeps_under_its_own_name() -> None:
    class Own(camdf.AcquireAll):
        def __init__(self, kept: int = 1, hidden: int = 2, **others: int) -> None:
            self.kept, self._hidden = kept, hidden

    assert repr(Own(5, 6)) == "Own(kept=5)"
    assert repr(Fixed(camdf.TopK(3))) == "Fixed(policy=TopK(k=3))"
    assert signature(Own).parameters["others"].kind is Parameter.VAR_KEYWORD


@pytest.mark.parametrize("name", VARIANTS)
def test_pickled_and_deep_copied_policies_decide_to_the_bit_as_the_original(name: str) -> None:
    policy = fitted(name)
    for copied in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy), copy.copy(policy)):
        assert type(copied) is type(policy)
        assert repr(copied) == repr(policy)
        assert_decide_alike(policy, copied)


def test_a_deep_copy_is_apart_from_its_original() -> None:
    policy = camdf.CAMDF().fit(sample_tasks(1), PAYOFF)
    copied = copy.deepcopy(policy)
    assert copied.model_ is not policy.model_
    before = to_json(copied)
    policy.fit(sample_tasks(2), PAYOFF)
    assert to_json(copied) == before != to_json(policy)


def test_a_loaded_policy_keeps_its_settings_and_its_training_when_it_is_copied() -> None:
    policy = camdf.cold_start()
    for copied in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)):
        assert copied.training_ == policy.training_
        assert to_json(copied, copied.training_) == to_json(policy, policy.training_)


# Gates.


def priced(tool: Tool) -> float:
    return 1.0 + len(tool.name) / 100


def noted(decision: object) -> None:
    """What an operator does with decisions."""


def letters(texts: list[str]) -> list[list[float]]:
    return [[text.lower().count(letter) + 1.0 for letter in "aeiou"] for text in texts]


GATES: dict[str, Callable[[], Gate]] = {
    "the golden gate": golden_gate,
    "every setting": lambda: golden_gate(
        prices=priced,
        guards=Guards(
            pinned=["web_search"],
            allow=frozenset(name for vector in VECTORS for name in vector.tools),
            fallback=["web_search"],
        ),
        mode="shadow",
        rollout=Rollout(explore=0.3),
        limits=Limits(seconds=None, at_least=1, at_most=3),
        records=Records(conversations=5, on_decision=noted),
    ),
    "prices of the library": lambda: golden_gate(prices=Prices(uncached=5000.0, cached=500.0)),
    "bm25": lambda: Gate(camdf.cold_start(), BM25(), PAYOFF),
    "embeddings": lambda: Gate(camdf.cold_start(), Embeddings(letters), PAYOFF),
    "a fusion": lambda: Gate(camdf.PlugIn(), Fusion([BM25(), overlap]), PAYOFF),
    "given scores": lambda: Gate(camdf.TopK(2), Given.ranked(list(VECTORS[0].tools)), PAYOFF),
    "an endpoint": lambda: Gate(camdf.TopK(2), Necessity("http://127.0.0.1:9/v1", "m", retries=0), PAYOFF),
    "no scorer": lambda: Gate(camdf.FixedK().fit(sample_tasks(1), PAYOFF)),
}


def decisions(gate: Gate) -> list[Any]:
    return [
        (found.kept, found.cut, found.refused, found.reason, found.mode, found.explored, found.ranking)
        for vector in VECTORS
        for found in [gate.decide(vector.task, [Tool(*each) for each in vector.tools.items()])]
    ]


@pytest.mark.parametrize("name", GATES)
def test_pickled_and_deep_copied_gates_decide_as_the_original(name: str) -> None:
    gate = GATES[name]()
    expected = decisions(gate)  # used before it is copied, as a gate at work is
    for copied in (pickle.loads(pickle.dumps(gate)), copy.deepcopy(gate), copy.copy(gate)):
        assert type(copied) is Gate
        for setting in ("payoff", "guards", "mode", "limits", "records"):
            assert getattr(copied, setting) == getattr(gate, setting)
        assert copied.rollout.explore == gate.rollout.explore
        assert copied.memory.size == gate.memory.size
        assert repr(copied.policy) == repr(gate.policy)
        assert decisions(copied) == expected


def test_a_copied_gate_has_no_conversations_and_no_counts_of_its_original() -> None:
    gate, vector = golden_gate(), VECTORS[0]
    tools = [Tool(*each) for each in vector.tools.items()]
    gate.decide(vector.task, tools, conversation="c")
    copied = copy.deepcopy(gate)
    assert (len(gate.memory), len(copied.memory)) == (1, 0)
    assert not copied.counts
    assert copied.decide(vector.task, tools, conversation="c").reason == "decided"
    assert gate.decide(vector.task, tools, conversation="c").reason == "decided before"


def test_a_gate_with_a_lambda_is_deep_copied_and_python_says_why_it_is_not_pickled() -> None:
    gate = Gate(camdf.TopK(1), lambda task, tools: [1.0 / (1 + i) for i in range(len(tools))], PAYOFF)
    tools = [Tool(name) for name in ("a", "b")]
    assert copy.deepcopy(gate).decide("task", tools).kept == ("a",)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(gate)


def test_an_opened_embedding_model_stays_behind_and_the_copy_opens_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_model(model: str) -> Callable[[list[str]], Any]:
        opened.append(model)
        return lambda texts: letters(texts)

    monkeypatch.setattr(embeddings_module, "expect", lambda module, extra: None)
    monkeypatch.setattr(embeddings_module, "_sentence_transformer", open_model)
    scorer, tools = Embeddings("a-model"), [Tool("abc"), Tool("ooo")]
    before = scorer("a task", tools)
    copied = pickle.loads(pickle.dumps(scorer))
    assert copied("a task", tools) == before
    assert opened == ["a-model", "a-model"]


# Scorers, prices and promises.

A_SCORER = [overlap]

ELSEWHERE: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "'k' of Fusion": (lambda k: Fusion(A_SCORER, k=k), [-1, NAN, INFINITY, "60", None]),
    "'weights' of Fusion": (lambda weight: Fusion(A_SCORER, weights=[weight]), [0, -1.0, NAN, INFINITY, "1", None]),
    "'k1' of BM25": (lambda k1: BM25(k1=k1), [-1, NAN, INFINITY, "1.5", None]),
    "'b' of BM25": (lambda b: BM25(b=b), [-0.1, 7, NAN, "0.75", None]),
    "'timeout' of Necessity": (lambda x: Necessity("http://h/v1", "m", timeout=x), [-3, 0, NAN, INFINITY, "30", None]),
    "'deadline' of Necessity": (lambda x: Necessity("http://h/v1", "m", deadline=x), [-3, 0, NAN, INFINITY, "9", None]),
    "'retries' of Necessity": (lambda x: Necessity("http://h/v1", "m", retries=x), [-1, 1.5, True, "3", None]),
    "'tokens' of Prices": (lambda tokens: Prices(tokens=tokens), [5, None, "words"]),
    "'uncached' of Prices": (lambda price: Prices(uncached=price), ["3", None, [3.0], 10**400]),
    "'turns' of Prices": (lambda turns: Prices(turns=turns), ["4", None]),
    "'privacy' of Prices": (lambda weight: Prices(privacy={"mail": weight}), ["0.1", None]),
    "'budget'": (lambda x: pressure_for_budget(camdf.cold_start(), sample_tasks(1), budget=x), ["x", None, NAN, -1.0]),
    "'tools'": (lambda x: pressure_for_tools(camdf.cold_start(), sample_tasks(1), tools=x), ["x", None, NAN, -1.0]),
    "'min_sufficiency'": (
        lambda x: pressure_for_sufficiency(camdf.cold_start(), sample_tasks(1), min_sufficiency=x),
        ["x", None, NAN, 1.0],
    ),
    "'sufficiency'": (
        lambda x: pressure_for_estimate(camdf.cold_start(), sample_tasks(1), sufficiency=x),
        ["x", None, NAN, 0.0],
    ),
}
"""What takes a setting, by what an error calls it, and what it must refuse."""


@pytest.mark.parametrize("called", ELSEWHERE)
def test_what_scorers_prices_and_promises_cannot_take_is_refused_where_it_is_given(called: str) -> None:
    make, nonsense = ELSEWHERE[called]
    for value in nonsense:
        with pytest.raises(UsageError, match=r"must (be|lie)") as error:
            make(value)
        assert called in str(error.value)
        assert "Got " in str(error.value)


def test_numbers_of_numpy_are_numbers() -> None:
    one = np.float32(1.0)
    assert Prices(uncached=one, cached=one, turns=np.int64(2)).of_tokens(1e6) == 2  # type: ignore[arg-type]
    assert (Fusion(A_SCORER, k=one).k, BM25(k1=one, b=one).b) == (1, 1)  # type: ignore[arg-type]


# Saved whole, or not at all.


def policies_to_save() -> list[Policy]:
    return [camdf.CAMDF().fit(sample_tasks(seed), Payoff(0.12)) for seed in (1, 2)]


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside_it(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = policies_to_save()
    path = tmp_path / "policy.json"
    save(old, path)
    before = path.read_bytes()

    def failing(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, fails, failing)
        with pytest.raises(OSError, match="No space left"):
            save(new, path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["policy.json"]
    save(new, path)
    assert path.read_text(encoding="utf-8") == to_json(new)


def test_an_interrupted_save_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = policies_to_save()
    save(old, tmp_path / "policy.json")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(new, tmp_path / "policy.json")
    assert (tmp_path / "policy.json").read_text(encoding="utf-8") == to_json(old)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_policy_that_cannot_be_saved_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    save(camdf.PlugIn(), path)
    with pytest.raises(camdf.NotFittedError):
        save(camdf.CAMDF(), path)
    assert isinstance(load(path), camdf.PlugIn)
    assert len(list(tmp_path.iterdir())) == 1


def test_threads_that_save_at_once_leave_one_whole_file_and_readers_never_see_a_part(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    texts = {to_json(policy): policy for policy in policies_to_save()}
    save(next(iter(texts.values())), path)

    def write(turn: int) -> None:
        save(list(texts.values())[turn % 2], path)

    def read(turn: int) -> str:
        load(path)
        return path.read_text(encoding="utf-8")

    with ThreadPoolExecutor(8) as pool:
        written = [pool.submit(write, turn) for turn in range(80)]
        seen = {each.result() for each in [pool.submit(read, turn) for turn in range(80)]}
        assert all(each.exception() is None for each in written)
    assert seen <= texts.keys()
    assert path.read_text(encoding="utf-8") in texts
    assert [each.name for each in tmp_path.iterdir()] == ["policy.json"]


def test_processes_that_save_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    code = (
        "import sys, camdf; k = int(sys.argv[2]); policy = camdf.TopK(k); print('ready', flush=True); input();\n"
        "for _ in range(200): camdf.save(policy, sys.argv[1])"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(k)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for k in (3, 4)
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in running:
        each.communicate()
        assert each.returncode == 0
    found = load(path)
    assert isinstance(found, camdf.TopK)
    assert found.k in (3, 4)
    assert [each.name for each in tmp_path.iterdir()] == ["policy.json"]
