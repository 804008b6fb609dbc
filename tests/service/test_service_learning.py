"""The loop with the real service: decisions and outcomes, a challenger, its trial, promotion, and the way back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

import camdf
from camdf import LoggedTasks
from camdf.cli import main
from camdf.evaluation.champion import compared
from camdf.evaluation.replay import MEASURES
from camdf.gate import Gate, Guards, Limits, Rollout
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.training import FittedCatalogue, Training
from camdf.scorers import BM25, record_of
from camdf.service import lessons as lessons_module
from camdf.service.learning import learn, roll_back
from camdf.service.lessons import Lesson, Seen, SeenLog, given_tools, read_lessons, seen, tasks_of_lessons
from camdf_lab import domains
from golden import PAYOFF, openai_tool
from running_service import PLAIN, Running, eventually, folder_of, running
from saying import refuses, says

EXPLORES = PLAIN.replace("0.06", "0.12") + "rollout.explore = 1.0\n"
LEARNS = EXPLORES + "\n[learn]\nfewest = 100\npatience = 150\n"
PATIENT = 600
"""Seconds that a process which stands behind all others may take on a busy machine."""

NOBODY: Mapping[str, str] = {}
TASKS = domains.load("workbench", "minilm")


def asked(tasks: LoggedTasks, row: int) -> dict[str, Any]:
    """A task as a ranking; every second tool costs twice as much."""
    names, scores = tasks.rankings.names(row), tasks.rankings.scores[row]
    priced = zip(names, scores.tolist(), strict=False)
    return {"ranking": [{"name": n, "score": s, "cost": 1.0 + i % 2} for i, (n, s) in enumerate(priced)]}


def send(
    service: Running, rows: Sequence[int], headers: Mapping[str, str] = NOBODY, *, wrong: bool = False
) -> list[str]:
    """Have so many tasks decided, and report what each required, or what it did not; the decisions' ids."""
    answer = service.ask("/v1/decide", [asked(TASKS, row) for row in rows], headers=headers)
    assert answer.status == 200, answer
    decisions = answer.body
    told = []
    for row, decision in zip(rows, decisions, strict=True):
        needed = TASKS.required[row, : TASKS.rankings.lengths[row]]
        pairs = zip(TASKS.rankings.names(row), needed, strict=True)
        called = [name for name, needs in pairs if needs != wrong]
        told.append({"decision": decision["id"], "called": called, "success": True})
    answer = service.ask("/v1/outcomes", told, headers=headers)
    assert answer.status == 200, answer
    return [decision["id"] for decision in decisions]


def kept(folder: Path, count: int) -> None:
    """Wait until so many decisions are on disk."""
    file = folder / "state" / "decisions.jsonl"
    eventually(lambda: file.exists() and file.read_bytes().count(b"\n") == count)


def command(folder: Path, *options: str) -> str:
    """What `camdf learn` says."""
    run = [sys.executable, "-m", "camdf", "learn", "camdf.toml", *options]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def serving(service: Running) -> str:
    (route,) = service.ask("/v1/policy").body["routes"]
    return str(route["sha256"])


def journal(folder: Path, policy: str = "policy.json") -> list[dict[str, Any]]:
    lines = (folder / f"{policy}.learned" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a champion that keeps eight tools has served 250 tasks, with a trial that began after 100."""
    folder = folder_of(tmp_path_factory.mktemp("logs") / "served", LEARNS)
    camdf.save(camdf.TopK(8), folder / "policy.json", Training(scorer=record_of(BM25())))
    with running(folder) as service:
        send(service, range(100))
        kept(folder, 100)
        assert "Challenger 1" in command(folder, "--state", "state")
        send(service, range(100, 250))
        kept(folder, 250)
    return folder


def copy(logs: Path, place: Path) -> Path:
    shutil.copytree(logs, place)
    return place


def test_a_service_learns_from_its_outcomes_promotes_what_pays_and_rolls_back(logs: Path, tmp_path: Path) -> None:
    folder = copy(logs, tmp_path / "served")
    with running(folder) as service:
        before = serving(service)
        said = command(folder, "--state", "state")
        assert f"Promoted challenger 1 ({journal(folder)[-2]['state']['champion'][:12]}) in the place of" in said
        assert "is worth it: +0." in said
        assert "on 150 newer tasks" in said
        assert "Challenger 2 (" in said
        promoted = sha256((folder / "policy.json").read_bytes()).hexdigest()
        eventually(lambda: serving(service) == promoted != before)
        assert service.decide(asked(TASKS, 0))["policy"] == promoted
        assert service.number("camdf_refusals") == 0

        assert f"Rolled back from {promoted[:12]} to {before[:12]}." in command(folder, "--roll-back")
        eventually(lambda: serving(service) == before)
        assert journal(folder)[-1]["state"]["challenger"] == ""


def test_a_trial_is_judged_within_the_bounds_of_the_gate(logs: Path, tmp_path: Path) -> None:
    folder = copy(logs, tmp_path / "served")
    (folder / "camdf.toml").write_text(LEARNS.replace("\n[learn]", "limits.at_most = 2\n\n[learn]"), encoding="utf-8")
    learn(folder / "camdf.toml", [folder / "state"])
    evidence = journal(folder)[1]["state"]["trial"]["evidence"]
    assert evidence["tasks"] == 150
    assert evidence["champion"][MEASURES.index("tools")] == 2 * 150, "the champion would keep eight"


def test_what_is_learned_is_the_fit_on_the_tasks_as_they_were_served(logs: Path) -> None:
    found = tasks_of_lessons(read_lessons([logs / "state"]).lessons[:100])
    first = json.loads((logs / "policy.json.learned" / "journal.jsonl").read_text().splitlines()[0])
    challenger = camdf.load(logs / "policy.json.learned" / f"{first['state']['challenger']}.json")
    assert isinstance(challenger, ExpectedPayoffBySet)
    assert (found.required.sum(axis=1) == TASKS.take(slice(100)).required.sum(axis=1)).all()
    assert set(found.rankings.costs.round(9).ravel().tolist()) == {1.0, 2.0}
    again = ExpectedPayoffBySet().fit(found, camdf.Payoff(0.12))
    assert (
        challenger.decide(TASKS.rankings, camdf.Payoff(0.12)).acquired
        == again.decide(TASKS.rankings, camdf.Payoff(0.12)).acquired
    ).all()
    assert challenger.training_ is not None
    assert (challenger.training_.tasks, challenger.training_.payoff) == (100, camdf.Payoff(0.12))
    assert challenger.training_.scorer == record_of(BM25()), "the champion's, so that the same one goes on ranking"
    assert challenger.training_.catalogue is not None
    assert challenger.training_.catalogue.lists is not None
    assert replace(challenger.training_.catalogue, lists=None) == FittedCatalogue.of(found.rankings.catalogue)


def test_a_trial_goes_on_over_looks_and_a_look_without_news_changes_nothing(logs: Path, tmp_path: Path) -> None:
    folder = copy(logs, tmp_path / "served")
    outcomes = folder / "state" / "outcomes.jsonl"
    lines = outcomes.read_bytes().splitlines(keepends=True)
    outcomes.write_bytes(b"".join(lines[:103]))
    first = learn(folder / "camdf.toml", [folder / "state"]).said
    assert says(first[0], "Goes on judging challenger 1", "not shown")
    assert first == learn(folder / "camdf.toml", [folder / "state"]).said
    outcomes.write_bytes(b"".join(lines))
    assert "on 150 newer tasks" in learn(folder / "camdf.toml", [folder / "state"]).said[0]


def test_what_is_not_shown_to_pay_is_refused_and_the_next_one_may_err_less(logs: Path, tmp_path: Path) -> None:
    folder = copy(logs, tmp_path / "served")
    (same,) = [
        each for each in (folder / "policy.json.learned").glob("*.json") if b"expected-payoff" in each.read_bytes()
    ]
    shutil.copy(same, folder / "policy.json")
    outcomes = folder / "state" / "outcomes.jsonl"
    lines = outcomes.read_bytes().splitlines(keepends=True)
    outcomes.write_bytes(b"".join(lines[:100]))
    (said,) = learn(folder / "camdf.toml", [folder / "state"]).said
    assert "by somebody else. Challenger 2" in said  # a trial against another champion does not go on
    outcomes.write_bytes(b"".join(lines))
    (said,) = learn(folder / "camdf.toml", [folder / "state"]).said
    assert "Refused challenger 2" in said
    assert says(said, "not shown … +0.000 over the champion … 150 newer tasks")
    assert "Challenger 3" in said
    assert journal(folder)[-1]["state"]["trial"]["number"] == 3
    assert sha256((folder / "policy.json").read_bytes()).hexdigest() == same.stem


def test_the_price_of_exploring_stands_beside_the_labels_that_it_bought(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(logs, tmp_path / "served")
    learned = learn(folder / "camdf.toml", [folder / "state"])
    own = read_lessons([folder / "state"]).lessons
    logged, payoff = tasks_of_lessons(own), camdf.Payoff(0.12)
    served = camdf.load(folder / "policy.json").decide(logged.rankings, payoff).acquired
    given_up = payoff.of(logged, served).mean() - payoff.of(logged, logged.rankings.listed).mean()
    exploring = learned.exploring["policy.json"]
    assert exploring.labels == len(own)
    assert exploring.given_up == pytest.approx(given_up)
    assert given_up > 0
    words = (f"{len(own)} runs … every tool … a label each", f"{given_up:.3f} less a run")
    assert says(learned.said[0], *words)
    state = ["--state", str(folder / "state")]
    assert main(["learn", str(folder / "camdf.toml"), *state]) == 0
    printed = capsys.readouterr().out
    assert says(printed, *words)
    assert f"{len(own)} outcomes read: {len(own)} to learn from.\n{len(own)} explored runs begun: " in printed
    assert main(["learn", str(folder / "camdf.toml"), *state, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for counts in document["sums"].values():
        whole, *parts = counts.values()
        assert whole == sum(parts)
    assert document["exploring"]["policy.json"]["given_up"] == pytest.approx(given_up)


def test_rolling_back_goes_one_version_further_each_time_and_then_says_so(logs: Path, tmp_path: Path) -> None:
    folder = copy(logs, tmp_path / "served")
    first = (folder / "policy.json").read_bytes()
    for k in (2, 3):
        camdf.save(camdf.TopK(k), folder / "policy.json")
        learn(folder / "camdf.toml", [folder / "state"])
    for _ in range(2):
        roll_back(folder / "camdf.toml", "./policy.json")
    assert (folder / "policy.json").read_bytes() == first
    with pytest.raises(camdf.UsageError, match="no earlier version"):
        roll_back(folder / "camdf.toml")
    with pytest.raises(camdf.UsageError, match="here: none"):
        roll_back(folder / "camdf.toml", "other.json")


TENANTS = """
[server]
port = 0

[gate]
cost_pressure = 0.06
rollout.explore = 1.0

[learn]
patience = 300

[tenants.acme]
policy = "acme.json"
token_sha256 = "{}"

[tenants.mallory]
policy = "mallory.json"
token_sha256 = "{}"
""".format(*(sha256(f"a token of {name}".encode()).hexdigest() for name in ("acme", "mallory")))


def test_poisoned_outcomes_of_one_tenant_move_no_other(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", TENANTS)
    for name in ("acme", "mallory"):
        camdf.save(camdf.TopK(1), folder / f"{name}.json")
    acme, mallory = ({"Authorization": f"Bearer a token of {name}"} for name in ("acme", "mallory"))
    alone, both = tmp_path / "alone", folder / "state"
    with running(folder) as service:
        ids = send(service, range(120), acme)
        kept(folder, 120)
        shutil.copytree(both, alone)
        lies = [{"decision": each, "called": ["delete_everything"], "success": True} for each in ids]
        assert service.ask("/v1/outcomes", lies, headers=mallory).status == 404
        send(service, range(200), mallory, wrong=True)
        kept(folder, 320)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    untouched = learn(folder / "camdf.toml", [alone]).said[0]
    told = learn(other / "camdf.toml", [both]).said
    assert "has learned from 120 tasks" in untouched
    assert told[0] == untouched
    assert "has learned from 200 tasks" in told[1]  # lies about the decisions of others are nobody's
    challengers = [journal(each, "acme.json")[-1]["state"]["challenger"] for each in (folder, other)]
    assert challengers[0] == challengers[1] != journal(other, "mallory.json")[-1]["state"]["challenger"]


def test_tenants_with_one_file_teach_it_together_only_where_the_configuration_joins_them(tmp_path: Path) -> None:
    shared = TENANTS.replace("acme.json", "./policy.json").replace("mallory.json", "policy.json")
    folder = folder_of(tmp_path / "served", shared)
    with refuses(camdf.UsageError, "acme, mallory … one policy", must="learn.join_tenants = true"):
        learn(folder / "camdf.toml", [folder / "state"])
    (folder / "camdf.toml").write_text(shared.replace("[learn]", "[learn]\njoin_tenants = true"), encoding="utf-8")
    with running(folder) as service:
        for name in ("acme", "mallory"):
            send(service, range(60), {"Authorization": f"Bearer a token of {name}"})
        kept(folder, 120)
    assert "has learned from 120 tasks" in learn(folder / "camdf.toml", [folder / "state"]).said[0]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ('"cold-start"', "cold-start … no file"),
        ('"memory://policy.json"', "memory://policy.json: is a URL"),
        (f'"policy.json"\nsha256 = "{"0" * 64}"', "policy.json … pinned by sha256"),
        ('"policy.json"', "No challenger yet: … 100 tasks … 0: 100 are missing"),
    ],
)
def test_where_nothing_can_be_learned_it_says_why(tmp_path: Path, policy: str, said: str) -> None:
    gate = f"[gate]\ncost_pressure = 0.06\ntool_search = true\npolicy = {policy}\n\n"
    folder = folder_of(tmp_path / "served", f"{gate}[learn]\n")
    (line,) = learn(folder / "camdf.toml", [folder / "state"]).said
    assert says(line, said)


def test_without_a_table_nothing_is_kept_and_learning_says_so(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", EXPLORES)
    with running(folder) as service:
        send(service, range(3))
    assert not (folder / "state" / "decisions.jsonl").exists()
    with pytest.raises(camdf.UsageError, match=r"no table \[learn\]"):
        learn(folder / "camdf.toml", [folder / "state"])


NAMES = ["book_flight", "get_weather", "play_music"]
TOOLS = [*(openai_tool(name, name.replace("_", " ")) for name in NAMES), {"type": "web_search"}]


def test_only_runs_that_saw_every_tool_and_a_ranking_that_says_something_are_kept() -> None:
    gates = {
        "cuts": Gate(camdf.TopK(1), BM25(), PAYOFF),
        "explores": Gate(camdf.TopK(1), BM25(), PAYOFF, rollout=Rollout(explore=1.0)),
        "watches": Gate(camdf.TopK(1), BM25(), PAYOFF, mode="shadow", guards=Guards(pinned=["play_music"])),
        "fills up": Gate(camdf.TopK(1), BM25(), PAYOFF, mode="shadow", limits=Limits(at_least=3)),
    }
    found = {name: seen("", "", gate.decide("book a flight", TOOLS, conversation="")) for name, gate in gates.items()}
    assert found["cuts"] is None
    for name, given in (
        ("explores", ["web_search"]),
        ("watches", ["play_music", "web_search"]),
        ("fills up", ["web_search"]),
    ):
        kept = found[name]
        assert kept is not None
        assert kept.tools[0] == "book_flight"
        assert sorted(kept.tools) == NAMES
        assert sorted(kept.given) == given
        assert kept.costs == pytest.approx([1.0] * 3)
        assert b"book a flight" not in msgspec.json.encode(kept)
        assert seen("", "", gates[name].decide("xyzzy", TOOLS)) is None


def test_what_every_run_has_is_no_margin_of_anybody() -> None:
    """A tool that is pinned costs both alike, whoever chooses it."""
    alike = [
        Lesson(Seen("id", "", "", ["a", "b"], [0.9, 0.1], [1.0, 1.0], given), ["b"], "", 1, 0.0)
        for given in ([], ["b"])
    ]
    for lesson, margin in zip(alike, (1.0 - PAYOFF.cost_pressure, 0.0), strict=True):
        logged = tasks_of_lessons([lesson])
        evidence = compared(camdf.TopK(2), camdf.TopK(1), logged, PAYOFF, given_tools([lesson], logged))
        assert evidence.total == pytest.approx(margin)


def test_decisions_cannot_outgrow_the_disk_and_a_full_one_costs_lessons_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lessons_module, "LARGEST", 300)
    log = SeenLog(tmp_path)
    for number in range(20):
        log.write(Seen(f"number {number}", "", "", ["a", "b"], [0.9, 0.1], [1.0, 1.0], []))
    sizes = [path.stat().st_size for path in tmp_path.glob("decisions*")]
    assert len(sizes) == 2
    assert max(sizes) < 450
    assert "number 19" in "".join(path.read_text() for path in tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        SeenLog(tmp_path / "gone").write(Seen("", "", "", [], [], [], []))
    assert says(caplog.text, "decision … not be kept")


def test_decisions_that_cannot_be_kept_are_counted_and_decisions_go_on(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", LEARNS)
    (folder / "state" / "decisions.jsonl").mkdir(parents=True)  # where no file can be written
    with running(folder) as service:
        send(service, range(3))
        eventually(lambda: service.number("camdf_decisions_not_logged") == 3)
        unkept = [line for line in service.errors().splitlines() if says(line, "decision … not be kept … directory")]
        assert len(unkept) == 3


@pytest.mark.parametrize("torn", [b'{"id":"torn', b'{"id":"\xc3', b"\0" * 4096])
def test_a_decision_that_a_crash_cut_short_costs_itself_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, torn: bytes
) -> None:
    log = SeenLog(tmp_path)
    log.write(Seen("before", "", "", ["a", "b"], [0.9, 0.1], [1.0, 1.0], []))
    with open(tmp_path / "decisions.jsonl", "ab") as file:
        file.write(torn)
    for name in ("after", "later"):
        log.write(Seen(name, "", "", ["a", "b"], [0.9, 0.1], [1.0, 1.0], []))
    told = [
        {"seq": seq, "at": seq, "tenant": "", "decision": name, "called": ["a"], "success": True}
        for seq, name in enumerate(("before", "torn", "after", "later"), start=1)
    ]
    (tmp_path / "outcomes.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told), encoding="utf-8")
    assert [lesson.seen.id for lesson in read_lessons([tmp_path]).lessons] == ["before", "after", "later"]
    (record,) = caplog.records
    assert says(record.message, f"Left out … 1 of the lines in {tmp_path / 'decisions.jsonl'}")


def test_an_outcome_counts_once_for_its_own_tenant_and_only_where_the_run_succeeded(tmp_path: Path) -> None:
    line = {"tenant": "acme", "route": "", "tools": ["a", "b"], "scores": [0.9, 0.1], "costs": [1, 2], "given": ["c"]}
    decisions = "".join(json.dumps({"id": name, **line}) + "\n" for name in ("one", "two", "three"))
    (tmp_path / "decisions.jsonl").write_text(decisions + '{"id": "torn', encoding="utf-8")
    told = [
        {"tenant": "mallory", "decision": "one", "called": ["b"], "success": True},
        {"tenant": "acme", "decision": "one", "called": ["c", "a", "x", "a"], "success": True},
        {"tenant": "acme", "decision": "one", "called": ["b"], "success": True},
        {"tenant": "acme", "decision": "two", "called": ["b"], "success": False},
        {"tenant": "acme", "decision": "two", "called": ["b"], "success": True},
        {"tenant": "acme", "decision": "not kept", "called": [], "success": True},
    ]
    lines = "".join(json.dumps({"seq": seq, "at": 1.0, **each}) + "\n" for seq, each in enumerate(told, start=1))
    (tmp_path / "outcomes.jsonl").write_text(lines, encoding="utf-8")
    (lesson,), sums = read_lessons([tmp_path, tmp_path / "not there"])
    assert sums["outcomes"] == {
        "read": 6, "to learn from": 1, "without success": 1, "told again": 2, "of other runs": 2
    }  # fmt: skip
    assert sums["explored runs"] == {
        "begun": 3, "tasks": 1, "without success": 1, "without an outcome": 1
    }  # fmt: skip
    assert (lesson.seen.id, lesson.required, lesson.seq) == ("one", ["a", "x"], 2)
    logged = tasks_of_lessons([lesson])
    assert logged.missing.tolist() == [1]
    assert logged.rankings.costs.tolist() == [[1.0, 2.0]]


def test_the_service_looks_by_itself_in_a_process_of_its_own(logs: Path, tmp_path: Path) -> None:
    folder = copy(logs, tmp_path / "served")
    configuration = folder / "camdf.toml"
    configuration.write_text(LEARNS.replace("[learn]", "[learn]\nevery_hours = 24"), encoding="utf-8")
    with running(folder) as service:
        before = serving(service)
        eventually(lambda: serving(service) != before, PATIENT)
        eventually(lambda: "Learning: policy.json: Promoted challenger 1" in service.errors(), PATIENT)
        looks = len(journal(folder))
        assert service.stop() == 0
    with running(folder) as service:  # a restart is no reason to look again
        send(service, range(3))
        assert len(journal(folder)) == looks
