"""Made-up tasks as labels: a policy that says so, and a prior that real labels overrule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from camdf import ExpectedPayoffBySet, Payoff, load, save
from camdf.cli import main
from camdf.core.rankings import LoggedTasks
from camdf.datasets import Example, read_examples, write_examples
from camdf.datasets.examples import made_up_in
from camdf.errors import UsageError
from camdf.policies.models.task_text import fit_text
from camdf_lab import domains
from saying import refuses, says

PAYOFF = Payoff(0.12)
TOOLS = {
    "get_weather": "Weather forecast for a city.",
    "book_hotel": "Book a hotel room.",
    "send_email": "Send an email to a person.",
    "find_restaurant": "Find a restaurant nearby.",
}
ASKED = {
    "get_weather": ["Will it rain in {}?", "Weather in {} tomorrow"],
    "book_hotel": ["A room in {} for two nights", "Book me a hotel in {}"],
    "send_email": ["Write to Ann that I am in {}", "Send the office in {} an email"],
    "find_restaurant": ["Where can we eat in {}?", "A restaurant in {} for tonight"],
}


@pytest.fixture(scope="module")
def made_up() -> ExpectedPayoffBySet:
    return ExpectedPayoffBySet().fit(domains.made_up("retail"), PAYOFF)


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    written = [
        Example(text.format(city), (tool,))
        for city in ("Graz", "Lyon", "Oslo", "Porto")
        for tool, texts in ASKED.items()
        for text in texts
    ]
    either = Example("Tell them", (), (("send_email", "book_hotel"),))
    write_examples(tmp_path / "examples.jsonl", [*written, either])
    return tmp_path / "examples.jsonl"


def paid(policy: ExpectedPayoffBySet, logged: LoggedTasks) -> float:
    return float(PAYOFF.of(logged, policy.decide(logged.rankings, PAYOFF).acquired).mean())


def test_without_a_label_the_policy_is_its_prior(made_up: ExpectedPayoffBySet) -> None:
    real = domains.load("retail", "minilm")
    started = ExpectedPayoffBySet(prior=made_up).fit(real.take([]), PAYOFF)
    assert set(started.model_.tools) == set(made_up.model_.tools)
    said, before = (policy.probabilities(real.rankings)[0].ravel() for policy in (started, made_up))
    assert np.corrcoef(said, before)[0, 1] > 0.98  # their histories count for less


def test_where_real_labels_disagree_they_overrule_the_prior(made_up: ExpectedPayoffBySet) -> None:
    real = domains.load("retail", "minilm", texts=True)
    order = np.random.default_rng(0).permutation(len(real))
    few, others = real.take(order[:20]), real.take(order[20:])
    alone, started = (ExpectedPayoffBySet(prior=prior).fit(few, PAYOFF) for prior in ("either", made_up))
    assert paid(started, others) > paid(made_up, others)
    assert paid(started, others) >= paid(alone, others)


def test_a_text_signal_moves_only_where_tasks_say_enough() -> None:
    before = fit_text(domains.made_up("workbench"))
    assert before is not None
    real = domains.load("workbench", "minilm", texts=True)
    few = fit_text(real.take([0, 1, 2]), before[0])
    assert few is not None
    many = fit_text(real, before[0])
    assert many is not None
    was, with_few, with_many = (dict(zip(text.tools, text.matrix, strict=True)) for text, _ in (before, few, many))
    assert with_few.keys() == was.keys()
    assert all(np.allclose(with_few[tool], weights) for tool, weights in was.items())
    assert not all(np.allclose(with_many[tool], weights) for tool, weights in was.items())


def test_a_prior_must_be_fitted_and_is_no_part_of_the_file(made_up: ExpectedPayoffBySet, tmp_path: Path) -> None:
    with refuses(UsageError, "'prior' of ExpectedPayoffBySet", must="fitted"):
        ExpectedPayoffBySet(prior=ExpectedPayoffBySet())
    started = ExpectedPayoffBySet(prior=made_up).fit(domains.load("retail", "minilm").take(range(5)), PAYOFF)
    save(started, tmp_path / "policy.json")
    assert load(tmp_path / "policy.json") == started
    assert vars(load(tmp_path / "policy.json"))["prior"] == "either"


def test_a_fit_on_made_up_tasks_says_so_and_evaluate_says_how_far_off_it_was(
    examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, tools = examples.parent, str(examples.parent / "tools.json")
    rest = ["--scorer", "bm25", "--tools", tools]
    fit = ["--cost-pressure", "0.1", "--splits", "2", *rest]
    assert main(["fit", str(examples), "-o", str(folder / "made-up.json"), *fit]) == 0
    said = capsys.readouterr().out
    assert says(said, "1 row left out: … ('or')")
    assert says(said, "32 of the labels … made up", "promises nothing")
    training = load(folder / "made-up.json").training_
    assert training is not None
    assert training.made_up == 32
    real = folder / "real.jsonl"
    lines = [
        {"text": f"{example.text} Thanks.", "required": example.needed} for example in read_examples(examples)[:-1]
    ]
    real.write_text("\n".join(map(json.dumps, lines)))
    assert main(["evaluate", str(folder / "made-up.json"), str(real), "--splits", "2", *rest]) == 0
    assert says(capsys.readouterr().out, "fitted on made-up tasks", "earned")
    begun = ["fit", str(real), "--prior", str(folder / "made-up.json"), "-o", str(folder / "policy.json"), *fit]
    assert main(begun) == 0
    assert "made up" not in capsys.readouterr().out
    training = load(folder / "policy.json").training_
    assert training is not None
    assert training.made_up == 0
    assert main([*begun, "--policy", "fixed-k"]) == 2
    assert says(capsys.readouterr().err, "Only expected-payoff-by-set", "'prior'")


def test_only_lines_that_say_so_are_made_up(examples: Path) -> None:
    assert made_up_in(examples) == 32
    log = examples.with_name("log.jsonl")
    log.write_text('{"text": "Hello", "needed": []}\n')
    assert made_up_in(log) == 0
    log.write_text("text;required\n")
    assert made_up_in(log) == 0
