"""What similar past tasks needed: the columns, what is kept, how a policy learns from them, and who can spoil them."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import camdf
from camdf import ExpectedPayoffBySet, Gate, Payoff, Tool
from camdf.cli import main
from camdf.core.rankings import Floats, LoggedTasks, Rankings
from camdf.datasets import read_examples, write_jsonl
from camdf.datasets.examples import Example, logged_examples, past_tasks, write_examples
from camdf.datasets.forgetting import Whose
from camdf.datasets.ids import hashed, id_key
from camdf.errors import UsageError
from camdf.evaluation.assess import assess
from camdf.evaluation.replay import Fixed
from camdf.gate import Records
from camdf.policies.artifact import to_json
from camdf.policies.base import Policy, fitted_payoff
from camdf.policies.models.past_tasks import PastTasks
from camdf.scorers import Start
from camdf.scorers.base import vector_of
from camdf.scorers.with_examples import ToolExamples
from camdf.service.forget import forget_served
from camdf.service.learning import learn
from camdf.service.lessons import Seen, SeenLog, read_lessons, tasks_of_lessons
from camdf.service.store import VersionStore, made
from camdf_lab import domains
from camdf_lab.beyond.past_tasks import PastJob
from golden import openai_tool
from running_service import SECONDS, Running, eventually, running
from saying import refuses, says

PAYOFF = Payoff(0.05)
ROOT = Path(__file__).parents[3]


@cache
def atlas() -> tuple[LoggedTasks, LoggedTasks]:
    """Tasks to learn from, and others, of a catalogue of 190 tools."""
    logged = domains.load("mcp-atlas", "minilm", texts=True)
    order = np.random.default_rng(0).permutation(len(logged))
    return logged.take(order[:120]), logged.take(order[120:])


@cache
def remembering() -> ExpectedPayoffBySet:
    """The default that recalls those tasks."""
    return ExpectedPayoffBySet(remember=True).fit(atlas()[0], PAYOFF)


def evidence(policy: Policy, rankings: Rankings) -> Floats:
    """How likely each candidate is to be needed."""
    told = policy.decide(rankings, PAYOFF).evidence
    assert told is not None
    return told


def four_tasks() -> PastTasks:
    """Two directions: 'mail' was needed in one of them, 'chat' in both."""
    vectors = np.array([[127, 0], [126, 1], [0, 127], [1, 126]], dtype=np.int8)
    counts, needed = np.array([1, 2, 1, 1]), np.array([0, 0, 1, 1, 1])
    return PastTasks(("mail", "chat", "never"), vectors, counts, needed, np.array(["a", "b", "c", "d"]))


def asked(*vectors: list[float]) -> Rankings:
    """Rankings of four tools for requests in these directions."""
    scores = [{"mail": 0.4, "chat": 0.3, "never": 0.2, "new": 0.1}] * len(vectors)
    return replace(Rankings.from_scores(scores), vectors=np.array(vectors))


def test_a_tool_that_similar_tasks_needed_has_higher_columns_and_an_unknown_one_has_0() -> None:
    rankings = asked([1.0, 0.0], [0.0, 1.0])
    vote, near = four_tasks().columns(rankings)
    mail, chat, never, new = range(4)
    assert vote[0, mail] > vote[0, chat] > vote[0, never]
    assert vote[1, chat] > vote[1, mail]
    assert near[0, mail] > 0 > near[1, mail]
    assert vote[:, new].tolist() == near[:, new].tolist() == near[:, never].tolist() == [0.0, 0.0]


def test_a_task_that_is_learned_from_hears_the_other_groups_alone() -> None:
    past, rankings = four_tasks(), asked([1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0])
    left_out = past.left_out(rankings)
    for row in range(4):
        others = past.take(np.delete(np.arange(4), row))
        assert left_out[:, row].tolist() == others.columns(rankings)[:, row].tolist()


def test_columns_do_not_depend_on_what_stands_beside_a_task_or_on_padding() -> None:
    taught, others = atlas()
    past = PastTasks.all_of(taught)
    together = past.columns(others.rankings)
    for row in range(len(others)):
        alone = past.columns(others.rankings.take([row]))
        assert np.array_equal(alone[:, 0], together[:, row])
    wider = past.columns(others.rankings.padded_to(others.rankings.width + 3))
    assert np.array_equal(wider[:, :, :-3], together)


def test_what_is_kept_is_bounded_and_rare_tools_stay() -> None:
    n = 1000
    needed = np.where(np.arange(n) % 100 == 0, np.arange(n) // 100 + 1, 0)  # ten tools once each
    vectors = np.random.default_rng(0).integers(-127, 128, (n, 4)).astype(np.int8)
    groups = np.array([f"user {i}" for i in range(n)])
    past = PastTasks(tuple(f"tool {i}" for i in range(11)), vectors, np.ones(n, dtype=np.int64), needed, groups)
    few = past.bounded(50)
    assert len(few) == 50
    assert set(few.needed.tolist()) == set(range(11))
    flooded = replace(past, groups=np.array(["one chat"] * 900 + [f"chat {i}" for i in range(100)]))
    assert (flooded.bounded(1000, of_a_group=20).groups == "one chat").sum() == 20


def of_users(*tasks: int) -> PastTasks:
    """So many tasks of each user in turn, every one a conversation of its own that needed one of ten tools."""
    n = sum(tasks)
    users = tuple(f"user {number}" for number, count in enumerate(tasks) for _ in range(count))
    vectors = np.random.default_rng(0).integers(-127, 128, (n, 4)).astype(np.int8)
    chats = np.array([f"chat {i}" for i in range(n)])
    tools = tuple(f"tool {i}" for i in range(10))
    return PastTasks(tools, vectors, np.ones(n, dtype=np.int64), np.arange(n) % 10, chats, users=users)


def test_one_user_with_10_000_tasks_cannot_crowd_others_out() -> None:
    kept = Counter(of_users(*[5] * 40, 10_000).bounded().users)
    assert kept == {**{f"user {number}": 5 for number in range(40)}, "user 40": 20}
    kept = Counter(of_users(*[600] * 30, *[10_000] * 3).bounded().users)
    assert kept.total() == 10_000
    assert max(kept.values()) == 600
    assert max(Counter(of_users(*[2_000] * 12).bounded().users).values()) <= 1_430, "a seventh, of twelve users"
    assert max(Counter(of_users(*[2_000] * 30).bounded().users).values()) == 1_000, "a tenth"
    assert Counter(of_users(30, 500, 40).bounded().users) == {"user 0": 30, "user 1": 40, "user 2": 40}
    assert len(of_users(500).bounded()) == 500, "nobody else is there"


def test_a_policy_pays_more_with_past_tasks_on_a_catalogue_of_190_tools() -> None:
    _, others = atlas()
    policy = remembering()
    assert policy.past_ is not None
    assert policy.reads_texts
    without = policy.recalling(None)
    paid = [PAYOFF.of(others, way.decide(others.rankings, PAYOFF).acquired).mean() for way in (policy, without)]
    assert paid[0] > paid[1] + 0.02


def test_past_tasks_of_four_groups_are_not_recalled_for_the_tasks_of_others() -> None:
    logged = domains.load("workbench", "minilm", texts=True)
    _, _, split, _ = PastJob("workbench", "minilm", splits=4, labels=38).drawn(logged)
    taught = logged.take(split.train)
    assert len(set(taught.groups.tolist())) == 4
    assert not ExpectedPayoffBySet(remember=True).fit(taught, PAYOFF).recalls


def test_a_file_of_examples_gives_a_loaded_policy_its_past_tasks_bit_for_bit(tmp_path: Path) -> None:
    _, others = atlas()
    policy = remembering()
    camdf.save(policy, tmp_path / "policy.json")
    assert policy.past_ is not None
    write_examples(tmp_path / "examples.jsonl", logged_examples(policy.past_))
    examples = read_examples(tmp_path / "examples.jsonl")
    assert not any(example.text for example in examples)
    assert {example.origin for example in examples} == {"logged"}
    loaded = camdf.load(tmp_path / "policy.json")
    recalled = evidence(loaded.recalling(past_tasks(examples)), others.rankings)
    assert np.array_equal(recalled, evidence(policy, others.rankings))
    assert np.array_equal(evidence(loaded, others.rankings), evidence(policy.recalling(None), others.rankings))


def test_a_policy_that_recalls_no_task_at_all_decides_as_one_without_any() -> None:
    policy, rankings = remembering(), atlas()[1].rankings
    assert policy.past_ is not None
    none = policy.recalling(policy.past_.take(np.zeros(0, dtype=np.int64)))
    kept, expected = (known.decide(rankings, PAYOFF).acquired for known in (none, policy.recalling(None)))
    assert np.array_equal(kept, expected)
    assert none.reasons(rankings, 0) == {}


def test_a_policy_that_remembers_nothing_is_written_as_it_always_was() -> None:
    text = to_json(ExpectedPayoffBySet().fit(atlas()[0].take(np.arange(20)), PAYOFF))
    assert "past" not in text
    assert "remember" not in text


def test_it_goes_on_learning_without_the_tasks_of_before() -> None:
    taught, others = atlas()
    policy = ExpectedPayoffBySet(remember=True).fit(taught, PAYOFF)
    before = len(policy.past_ or ())
    policy.update(others.take(np.arange(5)))
    assert policy.past_ is not None
    assert len(policy.past_) == before + 5


@pytest.mark.parametrize("tool", ["calculator_calculate", "exa_web_search_exa"])
def test_poisoned_examples_change_at_most_2_percent_of_decisions(tool: str) -> None:
    """1% of the examples name one tool: copies of requests of others, from users of their own."""
    _, others = atlas()
    policy, rankings = remembering(), others.rankings
    past = policy.past_
    assert past is not None
    assert tool in past.tools
    clean = policy.decide(rankings, PAYOFF).acquired
    for seed in range(5):
        rows = np.random.default_rng(seed).integers(0, len(past), max(1, round(len(past) / 100)))
        place = past.tools.index(tool)
        poison = replace(
            past.take(rows),
            counts=np.ones(len(rows), dtype=np.int64),
            needed=np.full(len(rows), place),
            groups=np.array([f"attacker {i}" for i in range(len(rows))]),
        )
        dirty = policy.recalling(past.joined(poison)).decide(rankings, PAYOFF).acquired
        assert (dirty != clean)[rankings.listed].mean() <= 0.02
        assert (dirty != clean).any(axis=1).mean() <= 0.02


class Vectors:
    """A scorer that knows the scores and the vectors of some tasks, by their ids."""

    def __init__(self, logged: LoggedTasks) -> None:
        self.logged = logged

    def __call__(self, task: str, tools: Sequence[Tool]) -> list[float]:
        row = self.logged.task_ids.tolist().index(task)
        known = dict(zip(self.logged.rankings.names(row), self.logged.rankings.scores[row].tolist(), strict=False))
        return [known[tool.name] for tool in tools]

    def embedding(self, task: str) -> Floats:
        assert self.logged.rankings.vectors is not None
        vector: Floats = self.logged.rankings.vectors[self.logged.task_ids.tolist().index(task)]
        return vector


def test_a_gate_explains_a_tool_by_the_past_requests_that_needed_it() -> None:
    _, others = atlas()
    gate = Gate(remembering(), Vectors(others), PAYOFF)
    explained = [
        gate.decide(others.task_ids[row], [Tool(name) for name in others.rankings.names(row)]).explain()
        for row in range(5)
    ]
    assert any("of the 5 most similar past requests" in text for text in explained)


def test_fit_writes_the_past_tasks_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(atlas()[0], tmp_path / "logged.jsonl")
    command = f"fit {tmp_path}/logged.jsonl -o {tmp_path}/policy.json --cost-pressure 0.05 --splits 1"
    assert main([*command.split(), "--remember", str(tmp_path / "examples.jsonl")]) == 0
    assert f"has {len(atlas()[0])} of them" in capsys.readouterr().out
    assert past_tasks(read_examples(tmp_path / "examples.jsonl")) is not None


SUBJECTS = (
    *("otter", "violin", "glacier", "tractor", "saffron", "lantern", "compass", "meadow", "anchor", "walnut", "falcon"),
    *("pepper", "harbor", "cactus", "mirror", "pillow", "ribbon", "candle", "thunder", "marble", "velvet", "orchard"),
    *("bicycle", "cinnamon", "dolphin", "emerald", "feather", "granite", "hammock", "igloo", "jasmine", "kettle"),
)
ASKED = (
    "Please check the {}",
    "What about the {} today?",
    "I need the {} again",
    "Tell me about my {}",
    "Sort out the {}",
)
"""What a subject needs no description tells: only the requests of before do."""

NEWER = "Could you check the otter again for me?"


def write_log(folder: Path) -> None:
    """A log of requests of 40 users over 70 tools, and the file of these tools."""
    words = ("check", "today", "need", "again", "tell", "sort")
    tools = {f"unit_{number:02}": f"Runs {words[number % 6]} procedure {number}." for number in range(70)}
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    with (folder / "log.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "tools_used", "user_id", "conversation_id"])
        for number, (way, place) in enumerate(product(ASKED, range(len(SUBJECTS)))):
            used = f"unit_{2 * place:02};unit_{2 * place + 1:02}"
            rows.writerow([way.format(SUBJECTS[place]), used, f"user {number % 40}", f"chat {number}"])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with such a log, a policy that was fitted on it, and its past requests with their texts."""
    folder = tmp_path_factory.mktemp("fitted")
    write_log(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "configuration"))
        patch.chdir(folder)
        command = "fit log.csv --tools tools.json -o policy.json --cost-pressure 0.05 --splits 1"
        assert main([*command.split(), "--remember", "examples.jsonl", "--keep-text"]) == 0
        yield folder


def test_texts_and_users_are_kept_as_the_log_has_them_the_users_hashed(fitted: Path) -> None:
    examples = read_examples("examples.jsonl")
    assert [example.group for example in examples] == [f"chat {number}" for number in range(160)]
    assert examples[0].text == "Please check the otter"
    assert len({example.user for example in examples}) == 40
    assert "user" not in examples[0].user
    assert past_tasks(examples) is not None


def test_an_explanation_shows_the_past_requests(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("needed by 5 of the 5", "past requests: 'Please check the otter', 'I need the otter again'")
    of_nobody = without_users("examples.jsonl", "of-nobody.jsonl")
    assert main(["try", "tools.json", NEWER, "--policy", "policy.json", "--examples", of_nobody]) == 0
    told = capsys.readouterr().out
    assert says(told, "Because   unit_00: worth its cost", *words)
    assert says(told, "2 of 70 tools kept: … worth their cost")
    tools = [Tool(name, text) for name, text in json.loads(Path("tools.json").read_text(encoding="utf-8")).items()]
    gate = Gate.start(tools, policy=camdf.load("policy.json"), examples=of_nobody)
    decision = gate.decide(NEWER, tools)
    assert says(decision.explain(), *words)
    assert "otter" not in json.dumps(decision.event())
    with pytest.raises(UsageError, match="one tenant's own"):
        gate.for_tenant("another")
    gate.reload("policy.json")
    assert says(gate.decide(NEWER, tools).explain(), *words), "the policy of a new file recalls what the last one did"
    write_examples("fewer.jsonl", [replace(example, text="") for example in read_examples("examples.jsonl")[:40]])
    gate.reload("policy.json", examples="fewer.jsonl")
    assert says(gate.decide(NEWER, tools).explain(), "needed by 2 of the 5", "past requests\n")
    gate.for_tenant("another")


def without_users(path: str | Path, new: str | Path) -> str:
    """Write the same examples without saying who asked."""
    write_examples(new, [replace(example, user="") for example in read_examples(path)])
    return str(new)


def test_an_explanation_shows_nobody_what_another_user_asked(fitted: Path) -> None:
    tools = [Tool(name, text) for name, text in json.loads(Path("tools.json").read_text(encoding="utf-8")).items()]
    policy = camdf.load("policy.json")
    gate = Gate.start(tools, policy=policy, examples="examples.jsonl", records=Records(id_key=id_key()))
    asked = {"user 0": "'Please check the otter'", "user 24": "'I need the otter again'"}
    for user in ("", "user 7", *asked):
        told = gate.decide(NEWER, tools, user=user).explain()
        assert says(told, "needed by 5 of the 5")
        assert {name for name, text in asked.items() if text in told} == {user} & asked.keys()


def test_without_keep_text_there_is_none(fitted: Path) -> None:
    command = "fit log.csv --tools tools.json -o other.json --cost-pressure 0.05 --splits 1 --remember other.jsonl"
    assert main(command.split()) == 0
    with_texts = read_examples("examples.jsonl")
    assert read_examples("other.jsonl") == [replace(example, text="") for example in with_texts]


def test_a_ranking_reads_no_past_request(fitted: Path) -> None:
    assert not ToolExamples("examples.jsonl").examples
    for name in ("examples.jsonl", ""):
        told = ["--examples", name] if name else []
        command = f"score log.csv --tools tools.json --scorer start -o scored{name}.jsonl"
        assert main([*command.split(), *told]) == 0
    assert Path("scored.jsonl").read_bytes() == Path("scoredexamples.jsonl.jsonl").read_bytes()


def test_evaluate_calibrate_and_shadow_report_recall_the_same_file(
    fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"Would you kindly see to my {subject}?,unit_{2 * place:02};unit_{2 * place + 1:02}"
            for place, subject in enumerate(SUBJECTS)]  # fmt: skip
    Path("newer.csv").write_text("\n".join(["text,tools_used", *rows]), encoding="utf-8")
    logged = "newer.csv --tools tools.json --json"
    policy = camdf.load("policy.json")
    examples = read_examples("examples.jsonl")
    shifted = zip(examples, [*examples[1:], examples[0]], strict=True)
    write_examples("shifted.jsonl", [replace(example, needed=following.needed) for example, following in shifted])
    past = past_tasks(read_examples("shifted.jsonl"))

    def told(command: str) -> dict[str, Any]:
        assert main(command.split()) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    recalled = told(f"evaluate policy.json {logged} --splits 1 --examples shifted.jsonl")
    alone = told(f"evaluate policy.json {logged} --splits 1")
    assert not any("recalls past requests" in warning for warning in recalled["warnings"])
    assert any("recalls past requests" in warning for warning in alone["warnings"])
    main(["score", "newer.csv", "--tools", "tools.json", "--scorer", "start", "-o", "newer.jsonl"])
    capsys.readouterr()
    tasks = camdf.datasets.read("newer.jsonl")
    for answer, way in ((recalled, policy.recalling(past)), (alone, policy)):
        measured = assess(partial(Fixed, way), tasks, PAYOFF, splits=1).summary()["results"]
        assert answer["results"]["this policy"]["payoff"] == pytest.approx(measured["this policy"]["payoff"])
    assert recalled["results"]["this policy"]["payoff"] != alone["results"]["this policy"]["payoff"]
    for command in ("calibrate policy.json", "shadow-report policy.json"):
        option = " --budget 2" if command.startswith("calibrate") else ""
        assert told(f"{command} {logged}{option} --examples shifted.jsonl") != told(f"{command} {logged}{option}")


def test_past_requests_of_another_model_are_refused(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(atlas()[1], "atlas.jsonl")
    write_examples("short.jsonl", [replace(example, vector=b"12") for example in read_examples("examples.jsonl")])
    assert main(["evaluate", "policy.json", "atlas.jsonl", "--examples", "examples.jsonl"]) == 2
    assert says(capsys.readouterr().err, "past requests", "vectors of 256", "vectors of 64")
    assert main(["try", "tools.json", NEWER, "--policy", "policy.json", "--examples", "short.jsonl"]) == 2
    assert says(capsys.readouterr().err, "past requests", "vectors of 2", "vectors of 256")
    command = ["try", "tools.json", NEWER, "--policy", "policy.json", "--examples", "examples.jsonl"]
    assert main([*command, "--scorer", "bm25"]) == 2
    assert says(capsys.readouterr().err, "scorer makes no vectors")
    camdf.save(ExpectedPayoffBySet().fit(atlas()[0].take(np.arange(20)), PAYOFF), "plain.json")
    assert (
        main(["evaluate", "plain.json", "atlas.jsonl", "--examples", "examples.jsonl", "--cost-pressure", "0.1"]) == 2
    )
    assert says(capsys.readouterr().err, "fitted without past requests")


def test_what_a_fit_does_not_keep_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores alone have no texts to keep; and where similar requests do not help, a file of before is not read."""
    write_jsonl(atlas()[0].take(np.arange(12)), tmp_path / "logged.jsonl")
    examples = tmp_path / "examples.jsonl"
    command = f"fit {tmp_path}/logged.jsonl -o {tmp_path}/policy.json --cost-pressure 0.05 --splits 1".split()
    assert main([*command, "--keep-text"]) == 2
    assert main([*command, "--remember", str(examples), "--keep-text"]) == 2
    assert says(capsys.readouterr().err, "logged.jsonl has no texts", "--keep-text")
    examples.write_text("", encoding="utf-8")
    assert main([*command, "--remember", str(examples)]) == 0
    assert says(capsys.readouterr().out, "examples.jsonl … earlier fit", "policy does not read")


def test_a_fit_replaces_only_what_a_fit_has_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither requests that a model was paid to write nor the log itself."""
    log, made_up = tmp_path / "logged.jsonl", tmp_path / "examples.jsonl"
    write_jsonl(atlas()[0], log)
    write_examples(made_up, [Example("Do I need a jacket?", ("get_weather",))])
    for path in (log, made_up):
        before = path.read_bytes()
        command = f"fit {log} -o {tmp_path}/policy.json --cost-pressure 0.05 --splits 1 --remember {path}"
        assert main(command.split()) == 2
        assert says(capsys.readouterr().err, f"--remember would replace {path}")
        assert path.read_bytes() == before


def test_a_user_is_forgotten(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_examples("some.jsonl", read_examples("examples.jsonl"))
    assert main(["forget", "some.jsonl", "--user", "user 7"]) == 0
    assert capsys.readouterr().out == "Forgot 4 examples.\n"
    assert not {"chat 7", "chat 47"} & {example.group for example in read_examples("some.jsonl")}
    assert main(["forget", "some.jsonl"]) == 2


SERVED = """
[server]
port = 0
reload_seconds = 0.05

[gate]
policy = "policy.json"
scorer = "start"
examples = "examples.jsonl"
limits.seconds = 30
"""


def served(fitted: Path, folder: Path, configuration: str = SERVED) -> Path:
    """A folder of a service that has the policy and its past requests."""
    folder.mkdir()
    for name in ("policy.json", "examples.jsonl"):
        shutil.copy(fitted / name, folder)
    (folder / "camdf.toml").write_text(configuration, encoding="utf-8")
    return folder


def question(text: str, **settings: Any) -> dict[str, Any]:
    """A request to the service over the tools of the log."""
    tools = json.loads(Path("tools.json").read_text(encoding="utf-8"))
    listed = [openai_tool(name, described) for name, described in tools.items()]
    return {"messages": [{"role": "user", "content": text}], "tools": listed, "explain": True, **settings}


def why(decision: dict[str, Any], tool: str = "unit_00") -> str:
    """What a decision of the service says of a tool."""
    (words,) = [ranked["why"] for ranked in decision["ranking"] if ranked["name"] == tool]
    return str(words)


def test_the_service_reads_past_requests_at_the_start_and_again_and_refuses_those_of_another_model(
    fitted: Path, tmp_path: Path
) -> None:
    folder = served(fitted, tmp_path / "served")
    examples = read_examples(without_users("examples.jsonl", folder / "examples.jsonl"))
    with running(folder) as service:
        assert says(why(service.decide(question(NEWER))), "needed by 5 of the 5", "past requests", "'Please check the")
        write_examples(folder / "examples.jsonl", [replace(example, text="") for example in examples[:40]])
        eventually(lambda: says(why(service.decide(question(NEWER))), "needed by 2 of the 5"))
        write_examples(folder / "examples.jsonl", [replace(example, vector=b"12") for example in examples])
        refused = ("examples.jsonl", "past requests", "vectors of 2", "vectors of 256")
        eventually(lambda: says(service.ask("/v1/policy").body["refused"], *refused))
        assert says(why(service.decide(question(NEWER))), "needed by 2 of the 5")
        assert why(service.decide(question(NEWER))).endswith(" past requests")
        write_examples(folder / "examples.jsonl", [])  # as camdf forget leaves it once nothing is left
        eventually(lambda: "past requests" not in why(service.decide(question(NEWER))))
        write_examples(folder / "examples.jsonl", [replace(example, vector=b"12") for example in examples])
    with refuses(UsageError, "past requests", "vectors of 2", must="vectors of 256"):
        VersionStore(folder / "camdf.toml", tmp_path / "another state")
    other = SERVED.replace('"start"', '"bm25"\nscorer_mismatch = "allow"')
    with refuses(UsageError, "past requests", must="scorer makes no vectors"):
        VersionStore(served(fitted, tmp_path / "other", other) / "camdf.toml", tmp_path / "third state")


def test_past_requests_are_one_tenants_own(fitted: Path, tmp_path: Path) -> None:
    tenants = "".join(
        f'\n[tenants.{name}]\ntoken_sha256 = "{digit * 64}"\n' for name, digit in (("a", "1"), ("b", "2"))
    )
    folder = served(fitted, tmp_path / "served", SERVED + tenants)
    without_users("examples.jsonl", folder / "examples.jsonl")
    with refuses(UsageError, "[gate]", got="past requests, examples.jsonl"):
        VersionStore(folder / "camdf.toml", tmp_path / "state")
    alone = SERVED.replace('examples = "examples.jsonl"\n', "") + tenants.replace(
        "\n[tenants.b]", 'examples = "examples.jsonl"\n\n[tenants.b]'
    )
    (folder / "camdf.toml").write_text(alone, encoding="utf-8")
    places = VersionStore(folder / "camdf.toml", tmp_path / "state").current.places
    asked_of = question(NEWER)
    told = {
        tenant: place.gate.decide(asked_of["messages"], asked_of["tools"]).explain()
        for (tenant, _), place in places.items()
    }
    assert "'Please check the otter'" in told["a"]
    assert "past requests" not in told["b"]
    assert "otter" not in told["b"]


def test_the_loop_adds_new_requests_to_the_file_and_judges_with_them(fitted: Path, tmp_path: Path) -> None:
    configuration = f"{SERVED}rollout.explore = 1.0\n\n[learn]\nfewest = 9\n"
    folder = served(fitted, tmp_path / "served", configuration)
    needed = {"zeppelin": ("unit_68", "unit_69"), "otter": ("unit_00", "unit_01"), "violin": ("unit_02", "unit_03")}
    path = folder / "examples.jsonl"

    def told(service: Running, *ways: str) -> str:
        """Have requests explored and reported, then have the loop look."""
        for number, (way, (subject, used)) in enumerate(product(ways, needed.items())):
            decision = service.decide(question(way.format(subject), conversation=f"{way} {number}"))
            report = {"decision": decision["id"], "called": list(used), "success": True}
            assert service.ask("/v1/outcomes", report).status == 200
        lines = folder / "state" / "decisions.jsonl"
        eventually(lambda: lines.read_bytes().count(b"\n") == asked_before + len(ways) * len(needed))
        return str(learn(folder / "camdf.toml", [folder / "state"]))

    with running(folder) as service:
        asked_before = 0
        said = told(service, "Check the {} for me", "Check my {} now", "Go and check the {}")
        assert "Challenger 1 (" in said
        assert says(said, "9 requests joined … examples.jsonl … 169")
        assert "zeppelin" not in (folder / "state" / "decisions.jsonl").read_text(encoding="utf-8")
        asks = question("Please do check the zeppelin")
        eventually(
            lambda: says(why(service.decide(asks), "unit_69"), "needed by 3 of the 5"),
        )
        past = past_tasks(read_examples(path))
        asked_before = 9
        said = told(service, "Would you check on the {}?")
        assert says(said, "3 requests joined … examples.jsonl … 172")
        assert main(["forget", str(path), "--conversation", "Check the {} for me 0"]) == 0
        assert len(read_examples(path)) == 171
        assert "joined" not in str(learn(folder / "camdf.toml", [folder / "state"])), "and it does not come back"
    journal = (folder / "policy.json.learned" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    (evidence,) = [
        line["state"]["trial"]["evidence"] for line in map(json.loads, journal) if "judging" in line["words"]
    ][:1]
    judged = tasks_of_lessons(read_lessons([folder / "state"]).lessons[9:])
    champion = camdf.load(folder / "policy.json").recalling(past)
    payoff = fitted_payoff(champion)
    assert payoff is not None
    assert evidence["tasks"] == 3
    paid = payoff.of(judged, champion.decide(judged.rankings, payoff).acquired)
    assert evidence["champion"][0] == pytest.approx(paid.sum())


LEARNS = f"{SERVED}rollout.explore = 1.0\n\n[learn]\nfewest = 2\n"
ZENOS = "the conversation of zeno"


@pytest.fixture(scope="module")
def explored(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose service has seen two requests, one of them of zeno, and has learned from none."""
    folder = served(fitted, tmp_path_factory.mktemp("explored") / "served", LEARNS)
    with running(folder) as service:
        for conversation, subject, used in ((ZENOS, "zeppelin", "unit_68"), ("another", "violin", "unit_02")):
            decision = service.decide(question(f"Check the {subject} for me", conversation=conversation))
            assert service.ask("/v1/outcomes", {"decision": decision["id"], "called": [used], "success": True}).status
        decisions = folder / "state" / "decisions.jsonl"
        eventually(lambda: decisions.exists() and decisions.read_bytes().count(b"\n") == 2)
        assert service.stop() == 0
    return folder


def copied(explored: Path, folder: Path) -> Path:
    """The same in another folder, without the last good version, which is known by its configuration's path."""
    shutil.copytree(explored, folder, ignore=shutil.ignore_patterns("last-good-*"))
    return folder


def traces_of_zeno(folder: Path) -> list[str]:
    """The files that name zeno's conversation or hold the vector of the request, by any spelling."""
    vector = b64encode(vector_of(Start(), "Check the zeppelin for me"))
    spelled = (ZENOS.encode(), hashed(ZENOS, b"").encode(), vector)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "errors.txt")
    return [path.name for path in files if any(text in path.read_bytes() for text in spelled)]


PAUSED = """
import sys, time
from pathlib import Path
from camdf.cli import main
from camdf.service import learning

function, now = getattr(learning, sys.argv[1]), sys.argv[2] == "after"

def paused(*arguments):
    result = function(*arguments) if now else None
    Path("reached").touch()
    while not Path("go on").exists():
        time.sleep(0.01)
    return result if now else function(*arguments)

setattr(learning, sys.argv[1], paused)
sys.exit(main(["learn", "camdf.toml", "--state", "state"]))
"""


@contextmanager
def learning_paused(folder: Path, when: str, function: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `camdf learn` up to a function of its own, and goes on once there is a file "go on"."""
    command = [sys.executable, "-c", PAUSED, function, when]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: (folder / "reached").exists())
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("when", "function"), [("after", "read_lessons"), ("before", "write_examples")])
def test_a_look_that_began_before_somebody_was_forgotten_writes_nothing_back(
    explored: Path, tmp_path: Path, when: str, function: str
) -> None:
    folder = copied(explored, tmp_path / "served")
    forget = ["forget", str(folder / "camdf.toml"), "--state", str(folder / "state"), "--conversation", ZENOS]
    with learning_paused(folder, when, function) as looking:
        forgetting = threading.Thread(target=main, args=(forget,))
        forgetting.start()
        forgetting.join(1)
        (folder / "go on").touch()
        said, _ = looking.communicate(timeout=SECONDS)
        assert looking.returncode == 0
        assert "2 requests joined those of examples.jsonl" in said
        forgetting.join(SECONDS)
    assert traces_of_zeno(folder) == []
    groups = [example.group for example in read_examples(folder / "examples.jsonl")]
    assert hashed("another", b"") in groups
    assert "joined" not in str(learn(folder / "camdf.toml", [folder / "state"])), "and nothing comes back later"
    assert traces_of_zeno(folder) == []


def test_a_look_that_adds_requests_brings_back_none_that_are_deleted_from_the_file(
    explored: Path, tmp_path: Path
) -> None:
    folder = copied(explored, tmp_path / "served")
    path = folder / "examples.jsonl"
    chat = read_examples(path)[0].group
    with learning_paused(folder, "before", "write_examples") as looking:
        forgetting = threading.Thread(target=main, args=(["forget", str(path), "--conversation", chat],))
        forgetting.start()
        forgetting.join(1)
        (folder / "go on").touch()
        looking.communicate(timeout=SECONDS)
        assert looking.returncode == 0
        forgetting.join(SECONDS)
    groups = {example.group for example in read_examples(path)}
    assert chat not in groups
    assert hashed(ZENOS, b"") in groups


def test_the_service_forgets_a_conversation_while_it_runs_and_after_it_ended(
    explored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(explored, tmp_path / "served")
    learn(folder / "camdf.toml", [folder / "state"])
    command = ["forget", str(folder / "camdf.toml"), "--state", str(folder / "state")]
    with running(folder) as service:
        (last_good,) = (folder / "state").glob("last-good-*.json")
        assert set(traces_of_zeno(folder)) == {"decisions.jsonl", "examples.jsonl", last_good.name}
        assert main([*command, "--conversation", ZENOS]) == 0
        assert capsys.readouterr().out == "Forgot 1 examples and 1 decisions.\n"
        assert traces_of_zeno(folder) == []
        eventually(lambda: service.number("camdf_swaps") == 1)
        assert traces_of_zeno(folder) == []
        service.decide(question("Check the otter for me", conversation="a third"))
        decisions = folder / "state" / "decisions.jsonl"
        eventually(lambda: decisions.read_bytes().count(b"\n") == 2)
    chat = next(example for example in read_examples(folder / "examples.jsonl") if example.text).group
    assert main([*command, "--conversation", chat, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"examples": 1, "decisions": 0, "urls": []}
    assert chat not in {example["group"] for example in map(json.loads, last_examples(last_good))}


def test_what_is_forgotten_is_in_no_byte_of_a_service_that_runs_and_in_no_explanation(
    fitted: Path, tmp_path: Path
) -> None:
    """Nor in what killed writers left, nor after decisions, a look at what could be learned, and a start."""
    folder = served(fitted, tmp_path / "served", LEARNS.replace("reload_seconds = 0.05", "reload_seconds = 0.5"))
    secret = "Please check the zeppelin of my divorce lawyer"
    hers = Example(secret, ("unit_68",), origin="logged", group=ZENOS, vector=vector_of(Start(), secret))
    write_examples(folder / "examples.jsonl", [*read_examples(folder / "examples.jsonl"), hers])
    command = ["forget", str(folder / "camdf.toml"), "--state", str(folder / "state"), "--conversation", ZENOS]

    def spelled() -> list[str]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return [path.name for path in files if secret.encode() in path.read_bytes()] + traces_of_zeno(folder)

    with running(folder) as service:
        service.decide(question("Check the zeppelin for me", conversation=ZENOS))
        eventually(lambda: "decisions.jsonl" in spelled())
        (last_good,) = (folder / "state").glob("last-good-*.json")
        for path in (folder / "examples.jsonl", last_good, folder / "state" / "decisions.jsonl"):
            path.with_name(f"{path.name}.0123456789ab.part").write_text(f"{secret} of {ZENOS}", encoding="utf-8")
        assert secret in why(service.decide(question(secret)), "unit_68")
        assert main(command) == 0
        forgotten = time.monotonic()
        assert spelled() == []
        eventually(lambda: secret not in why(service.decide(question(secret)), "unit_68"))
        assert time.monotonic() - forgotten < SECONDS
        told = service.decide(question("Check the otter for me", conversation="a third"))
        assert service.ask("/v1/outcomes", {"decision": told["id"], "called": ["unit_00"], "success": True}).status
        eventually(lambda: service.number("camdf_swaps") == 1)
        assert "1 requests joined" in str(learn(folder / "camdf.toml", [folder / "state"]))
        eventually(lambda: service.number("camdf_swaps") == 2)
        assert spelled() == []
        assert service.stop() == 0
    with running(folder) as service:
        assert secret not in json.dumps(service.decide(question(secret)))
        assert spelled() == []


def last_examples(last_good: Path) -> list[str]:
    """The lines of examples that the last good version has."""
    return str(json.loads(last_good.read_text(encoding="utf-8"))["examples"]["examples.jsonl"]).splitlines()


def test_a_version_that_was_read_before_somebody_was_forgotten_is_not_kept(
    explored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(explored, tmp_path / "served")
    learn(folder / "camdf.toml", [folder / "state"])
    command = ["forget", str(folder / "camdf.toml"), "--state", str(folder / "state"), "--conversation", ZENOS]

    def forgetting(*arguments: Any) -> Any:
        assert main(command) == 0
        return made(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("camdf.service.store.made", forgetting)
        store = VersionStore(folder / "camdf.toml", folder / "state")
    assert traces_of_zeno(folder) == []
    assert store.refresh()
    assert traces_of_zeno(folder) == []
    (last_good,) = (folder / "state").glob("last-good-*.json")
    assert len(last_examples(last_good)) == len(read_examples(folder / "examples.jsonl"))


def test_what_the_service_is_told_to_forget_must_be_named(
    explored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration, state = str(explored / "camdf.toml"), ["--state", str(explored / "state")]
    for options, words in (
        (state, "Nothing to forget"),
        ([*state, "--before", "2026-01-31"], "without their days"),
        (["--user", "x", "--state", str(tmp_path / "none")], f"no state folder … {tmp_path / 'none'}"),
    ):
        assert main(["forget", configuration, *options]) == 2
        assert says(capsys.readouterr().err, words)
    assert main(["forget", str(explored / "examples.jsonl"), "--tenant", "acme"]) == 2
    assert says(capsys.readouterr().err, "--tenant and --state", "configuration (.toml)")


def test_a_tenant_is_forgotten_and_the_others_are_not(fitted: Path, tmp_path: Path) -> None:
    tenants = "".join(
        f'\n[tenants.{name}]\ntoken_sha256 = "{digit * 64}"\nexamples = "{name}.jsonl"\n'
        for name, digit in (("a", "1"), ("b", "2"))
    )
    told = SERVED.replace('"start"', '"start"\nscorer_mismatch = "allow"')  # the fit had no example of a tenant's own
    folder = served(fitted, tmp_path / "served", told + tenants)
    own, logged = Example("Mine", ("unit_00",), origin="own"), read_examples(folder / "examples.jsonl")
    write_examples(folder / "a.jsonl", [own, *logged[:80]])
    write_examples(folder / "b.jsonl", [own, *logged[80:]])
    VersionStore(folder / "camdf.toml", folder / "state")
    log = SeenLog(folder / "state")
    for name, tenant in (("one", "a"), ("one", "b"), ("two", "a")):
        log.write(Seen(name, tenant, "", ["unit_00", "unit_01"], [0.9, 0.1], [1.0, 1.0], []))
    assert forget_served(folder / "camdf.toml", [folder / "state"], Whose("one"), "a").decisions == 1
    assert forget_served(folder / "camdf.toml", [folder / "state"], Whose(logged[0].group), "b").examples == 0
    assert len(read_examples(folder / "a.jsonl")) == 81
    with (folder / "camdf.toml").open("a", encoding="utf-8") as file:
        file.write('\n[tenants.b.routes.far]\nexamples = "memory://far.jsonl"\n')
    forgot = forget_served(folder / "camdf.toml", [folder / "state"], Whose(), "a")
    first, second = str(forgot).splitlines()
    assert says(first, "80 examples and 1 decisions")
    assert says(second, "memory://far.jsonl is a URL")
    assert read_examples(folder / "a.jsonl") == [own]
    assert read_examples(folder / "b.jsonl") == [own, *logged[80:]]
    (line,) = (folder / "state" / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["tenant"] == "b"


WRITES = """
import sys
from pathlib import Path
from camdf.service import lessons

lessons.LARGEST = 200_000
log = lessons.SeenLog(Path(sys.argv[1]))
for number in range(3_000):
    log.write(lessons.Seen(f"number {number}", "", "", ["a", "b"], [0.9, 0.1], [1.0, 1.0], [], b"12", str(number % 3)))
"""


def test_no_decision_is_lost_that_is_written_while_others_are_forgotten(tmp_path: Path) -> None:
    log = SeenLog(tmp_path)
    with subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path)]) as writing:
        while writing.poll() is None:
            log.forget(lambda decision: decision.group == "1")
    assert writing.returncode == 0
    log.forget(lambda decision: decision.group == "1")
    lines = [line for path in tmp_path.glob("decisions*") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [json.loads(line)["id"] for line in sorted(lines, key=number_of)] == [
        f"number {number}" for number in range(3_000) if number % 3 != 1
    ]


def number_of(line: str) -> int:
    return int(json.loads(line)["id"].removeprefix("number "))


def test_a_conversation_is_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "examples.jsonl"
    write_examples(path, logged_examples(four_tasks()))
    assert main(["forget", str(path), "--conversation", "b"]) == 0
    assert capsys.readouterr().out == "Forgot 1 examples.\n"
    assert [example.group for example in read_examples(path)] == ["a", "c", "d"]


def test_the_page_says_what_was_measured() -> None:
    page = " ".join((ROOT / "docs" / "fitting.md").read_text(encoding="utf-8").split())
    with (ROOT / "lab" / "results" / "past_tasks.csv").open(encoding="utf-8") as file:
        rows = [{name: value for name, value in row.items() if name != "domain"} for row in csv.DictReader(file)]
    margin = {
        labels: np.mean([float(r["with past tasks"]) - float(r["with texts"]) for r in rows if r["labels"] == labels])
        for labels in ("0", "38")
    }
    assert f"it adds {margin['0']:.3f} to the payoff" in page
    assert f"and {margin['38']:.3f} with 38 labels" in page
    assert min(float(row["hi"]) for row in rows) >= -0.02
    few, more, most = json.loads((ROOT / "results" / "past_tasks.json").read_text())
    took = [round(size["milliseconds"]) for size in (few, more, most)]
    assert says(page, f"{took[0]} ms … 10,000 past requests", f"{took[1]} ms with 100,000", f"{took[2]} ms")
