"""What was evaluated is what is served: a policy's file names its scorer, and nobody ranks for it in its place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import camdf
from camdf import Payoff, TopK
from camdf.cli import main
from camdf.cli.logs import listed_tools, scored_by
from camdf.datasets import Example, write_examples
from camdf.errors import ArtifactError, UsageError
from camdf.evaluation.replay import all_handed_over
from camdf.examples.text_logs import rank_log, read_text_log
from camdf.gate import Gate
from camdf.policies.artifact import from_json, to_json
from camdf.policies.training import GIVEN, FittedCatalogue, ScorerRecord, Training
from camdf.scorers import BM25, Embeddings, Fusion, Given, Necessity, Shared, Start, TrustAware, record_of, words_text
from camdf.scorers.named import mismatch, scorer_of
from camdf.service.config import GateSettings
from camdf.service.gates import gate_of
from camdf.service.playground.look import LookRequest, looked
from camdf.tools import Tool
from running_service import running
from saying import refuses, says

TOOLS = {
    "search_flights": "Search flights between two cities.",
    "book_hotel": "Book a hotel room for a guest.",
    "get_weather": "Weather forecast for a city.",
    "send_email": "Send an email to a person.",
    "find_restaurant": "Find a restaurant nearby.",
    "run_sql": "Run a query against the database.",
    "play_music": "Play a song or a playlist.",
    "create_event": "Create an event in the calendar.",
}
ASKED = {
    "search_flights": "How do I fly to {} on Friday",
    "book_hotel": "I need to stay in {} for two nights",
    "get_weather": "Will it rain in {} tomorrow?",
    "get_weather, send_email": "Mail Ann whether she needs an umbrella in {}",
    "find_restaurant": "Where can we eat in {} tonight?",
    "play_music": "Put on something from {} to dance to",
    "create_event": "Remind me of the meeting in {}",
}
CITIES = ("Graz", "Lyon", "Oslo", "Porto", "Bern")
START = ScorerRecord("start", (("text", "full"),), "wordllama l2_supercat_256")
LISTED = [Tool(name, text) for name, text in TOOLS.items()]


def folder_with_a_log(folder: Path) -> Path:
    """A log of requests, and the tools that the agent had."""
    rows = [f"{text.format(city)};{used}" for city in CITIES for used, text in ASKED.items()]
    (folder / "log.csv").write_text("\n".join(["request;tools used", *rows]), encoding="utf-8")
    (folder / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    return folder


def camdf_command(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "camdf", *options]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy that the documented command fitted."""
    folder = folder_with_a_log(tmp_path_factory.mktemp("fitted"))
    options = "fit log.csv --tools tools.json -o policy.json --mean-tools 2 --splits 2"
    done = camdf_command(folder, *options.split())
    assert done.returncode == 0, done.stderr
    return folder


def saved(folder: Path, record: ScorerRecord | None = START, *, tools: int = 2) -> Path:
    """A policy that was fitted with a scorer."""
    path = folder / "policy.json"
    camdf.save(TopK(tools), path, Training(payoff=Payoff(0.0), scorer=record))
    return path


# The service, as the pages say.


def test_the_documented_fit_is_served_as_it_was_evaluated(fitted: Path) -> None:
    config = '[server]\nport = 0\n[gate]\npolicy = "policy.json"\n'
    (fitted / "camdf.toml").write_text(config, encoding="utf-8")
    policy, tools = camdf.load(fitted / "policy.json"), listed_tools(fitted / "tools.json")
    assert policy.training_ is not None
    assert policy.training_.payoff is not None
    log = read_text_log(fitted / "log.csv", tools)
    ranked = rank_log(log, tools, Start(), {"scorer": "start", "text": "full"})
    assert ranked.scored.now == 0, "the fit has scored them"
    rankings = ranked.logged.rankings
    marks = all_handed_over(rankings, policy.decide(rankings, policy.training_.payoff))
    definitions = [{"name": name, "description": text, "input_schema": {}} for name, text in TOOLS.items()]
    wrong = []
    with running(fitted) as service:
        (route,) = service.ask("/v1/policy").body["routes"]
        for row, request in enumerate(log.requests):
            asked = {"messages": [{"role": "user", "content": request.text}], "tools": definitions}
            decision = service.decide(asked)
            evaluated = {name for name, kept in zip(rankings.names(row), marks[row], strict=False) if kept}
            if set(decision["kept"]) != evaluated:
                wrong.append((request.text, decision["kept"], sorted(evaluated), decision["reason"]))
    assert wrong == []
    assert (route["scorer"], route["fitted_scorer"]) == ("Start", str(START))


def test_the_file_of_a_fit_names_its_scorer_its_tools_and_its_payoff(fitted: Path) -> None:
    training = camdf.load(fitted / "policy.json").training_
    assert training is not None
    assert training.scorer == START == record_of(Start())
    assert training.catalogue is not None
    assert training.catalogue.lists is not None
    assert replace(training.catalogue, lists=None) == FittedCatalogue.of(TOOLS)
    assert training.payoff is not None


def test_a_service_with_another_scorer_does_not_start_unless_that_is_meant(tmp_path: Path) -> None:
    saved(tmp_path)
    config = '[server]\nport = 0\n[gate]\npolicy = "policy.json"\nscorer = "bm25"\n'
    (tmp_path / "camdf.toml").write_text(config, encoding="utf-8")
    done = camdf_command(tmp_path, "serve", "camdf.toml")
    assert done.returncode == 2
    for part in ("policy.json", "scorer start (", "given is bm25 (", "scorer_mismatch", "gate.scorer"):
        assert part in done.stderr
    (tmp_path / "camdf.toml").write_text(f'{config}scorer_mismatch = "allow"\n', encoding="utf-8")
    with running(tmp_path) as service:
        (route,) = service.ask("/v1/policy").body["routes"]
        assert (route["scorer"], route["fitted_scorer"]) == ("BM25", str(START))


def test_a_service_builds_the_scorer_that_a_policy_was_fitted_with(caplog: pytest.LogCaptureFixture) -> None:
    def ranks(record: ScorerRecord | None, **settings: Any) -> Any:
        policy = TopK(2)
        policy.training_ = Training(scorer=record)
        return gate_of(GateSettings("policy.json", cost_pressure=0.0, **settings), policy, "").scorer

    assert isinstance(ranks(START), Start)
    assert isinstance(ranks(None), BM25)
    told = ranks(record_of(BM25(k1=1.2, b=0.5, text=words_text)))
    assert (told.k1, told.b) == (1.2, 0.5)
    assert not caplog.messages
    assert ranks(GIVEN) is None
    assert says(caplog.text, "policy.json", "every request", "ranking", "gate.scorer")
    assert isinstance(ranks(GIVEN, scorer="start"), Start)
    assert ranks(START, scorer="none") is None
    with refuses(UsageError, "policy.json", "scorer llm (model small", must="gate.scorer"):
        ranks(record_of(Necessity("http://127.0.0.1:9/v1", "small")))


def test_the_playground_decides_by_the_scorer_that_serves_and_its_program_says_what_was_allowed() -> None:
    policy = TopK(2)
    policy.training_ = Training(scorer=START, payoff=Payoff(0.0))
    asked = LookRequest(
        messages=[{"role": "user", "content": "Will it rain?"}],
        tools=[{"name": name, "description": text} for name, text in TOOLS.items()],
        target="served",
    )
    settings = GateSettings("policy.json", cost_pressure=0.0)
    found = looked(asked, gate_of(settings, policy, ""), settings)
    assert "Start()" in found.code
    assert "scorer_mismatch" not in found.code
    other = replace(settings, scorer="bm25", scorer_mismatch="allow")
    found = looked(asked, gate_of(other, policy, ""), other)
    assert "BM25()" in found.code
    assert "scorer_mismatch='allow'" in found.code


# A gate.


def test_a_gate_starts_with_the_scorer_of_the_fit_and_refuses_another(tmp_path: Path) -> None:
    policy = camdf.load(saved(tmp_path, record_of(BM25())))
    assert isinstance(Gate.start(LISTED, policy=policy).scorer, BM25)
    with pytest.raises(UsageError, match=r"fitted with the scorer bm25 .* given is start .*scorer_mismatch='allow'"):
        Gate.start(LISTED, policy=policy, scorer=Start())
    with pytest.raises(UsageError, match="fitted with the scorer bm25"):
        Gate(policy, Start())
    allowed = Gate.start(LISTED, policy=policy, scorer=Start(), scorer_mismatch="allow")
    assert isinstance(allowed.for_tenant("acme").scorer, Start)
    assert Gate(policy, None).decide_scored("a task", LISTED, dict.fromkeys(TOOLS, 0.5)), "a harness's own scores"


def test_a_reload_and_a_tenant_take_no_policy_of_another_scorer(tmp_path: Path) -> None:
    gate = Gate(TopK(3), Start(), Payoff(0.0))
    other = saved(tmp_path, record_of(BM25()))
    with refuses(ArtifactError, "fitted … scorer bm25") as refused:
        gate.reload(other)
    assert says(str(refused.value), "gate goes on")
    with pytest.raises(UsageError, match="fitted with the scorer bm25"):
        gate.for_tenant("acme", policy=camdf.load(other))
    assert gate.policy == TopK(3)
    gate.reload(saved(tmp_path, START))
    assert gate.policy == TopK(2)
    Gate(TopK(3), Start(), Payoff(0.0), scorer_mismatch="allow").reload(saved(tmp_path, record_of(BM25())))


def test_a_policy_of_given_scores_asks_who_gave_them_where_nobody_says(tmp_path: Path) -> None:
    policy = camdf.load(saved(tmp_path, GIVEN))
    with pytest.raises(UsageError, match=r"came with the tasks.*scorer="):
        Gate.start(LISTED, policy=policy)
    assert isinstance(Gate.start(LISTED, policy=policy, scorer=BM25()).scorer, BM25)


def test_other_examples_are_another_scorer_and_more_past_requests_are_not(tmp_path: Path) -> None:
    rain = Example("Do I need an umbrella?", ("sky/get_weather",))
    past = Example("", ("get_weather",), origin="logged", vector=bytes([127, 1]))
    write_examples(tmp_path / "examples.jsonl", [rain])
    fitted_with = record_of(Start(examples=[rain]))
    policy = camdf.load(saved(tmp_path, fitted_with))
    Gate.start(LISTED, policy=policy, examples=tmp_path / "examples.jsonl")
    write_examples(tmp_path / "examples.jsonl", [rain, past, past])
    Gate.start(LISTED, policy=policy, examples=tmp_path / "examples.jsonl")
    assert record_of(Start(examples=[Example("Do I need an umbrella?", ("get_weather",))])) == fitted_with
    with refuses(UsageError, "examples", must="examples of the fit"):
        Gate.start(LISTED, policy=policy)
    plain = camdf.load(saved(tmp_path))
    Gate.start(LISTED, policy=plain, examples=[past])
    with refuses(UsageError, "examples", must="no examples"):
        Gate.start(LISTED, policy=plain, examples=[rain])
    assert Gate.start(LISTED, policy=plain, examples=[rain], scorer_mismatch="allow").scorer is not None


def test_a_decision_names_the_tools_that_the_policy_was_not_fitted_on(tmp_path: Path) -> None:
    training = Training(payoff=Payoff(0.0), catalogue=FittedCatalogue.of(TOOLS))
    camdf.save(TopK(2), tmp_path / "policy.json", training)
    gate = Gate(camdf.load(tmp_path / "policy.json"), BM25())
    text = "Book a hotel room in Oslo"
    known = gate.decide(text, LISTED)
    assert known.unknown_tools == ()
    assert "Refit" not in known.explain()
    renamed = [replace(tool, name=f"v2_{tool.name}") if place < 2 else tool for place, tool in enumerate(LISTED)]
    decision = gate.decide(text, renamed)
    assert set(decision.unknown_tools) == {"v2_search_flights", "v2_book_hotel"}
    assert re.search(r"^Refit: 2 of 8 tools \(25%\) .*: v2_\w+, v2_\w+", decision.explain(), re.M)


# Commands.


def test_a_saved_policy_is_measured_with_its_own_scorer(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, log, tools = (str(fitted / name) for name in ("policy.json", "log.csv", "tools.json"))
    bm25 = fitted / "words.json"
    camdf.save(TopK(2), bm25, Training(payoff=Payoff(0.1), scorer=record_of(BM25())))
    for command in ("evaluate", "shadow-report", "calibrate"):
        more = ["--mean-tools", "2"] if command == "calibrate" else []
        asked = [command, policy, log, "--tools", tools, *more]
        assert main([*asked, "--scorer", "bm25"]) == 2
        assert says(capsys.readouterr().err, "fitted … scorer start", "bm25")
    assert main(["shadow-report", policy, log, "--tools", tools]) == 0
    assert main(["shadow-report", policy, log, "--tools", tools, "--scorer", "bm25", "--scorer-mismatch", "allow"]) == 0
    assert main(["shadow-report", str(bm25), log, "--tools", tools]) == 0
    assert list(fitted.glob("log.bm25-*.scores.jsonl"))
    given = fitted / "given.json"
    camdf.save(TopK(2), given, Training(payoff=Payoff(0.1), scorer=GIVEN))
    assert main(["shadow-report", str(given), log, "--tools", tools]) == 2
    assert says(capsys.readouterr().err, "Name the scorer", "--scorer")
    assert main(["try", tools, "Will it rain?", "--policy", policy, "--scorer", "bm25"]) == 2
    assert main(["try", tools, "Will it rain?", "--policy", policy]) == 0


def test_a_fit_on_logged_scores_says_that_they_were_given(tmp_path: Path) -> None:
    camdf.datasets.write_jsonl(camdf.datasets.sample(), tmp_path / "logged.jsonl")
    asked = f"fit {tmp_path / 'logged.jsonl'} -o {tmp_path / 'policy.json'} --policy fixed-k --cost-pressure 0.12"
    assert main([*asked.split(), "--splits", "2"]) == 0
    training = camdf.load(tmp_path / "policy.json").training_
    assert training is not None
    assert training.scorer == GIVEN
    assert training.catalogue is not None
    assert replace(training.catalogue, lists=None) == FittedCatalogue.of(camdf.datasets.sample().rankings.catalogue)


# Records.


@pytest.mark.parametrize(
    "scorer",
    [Start(), BM25(), BM25(k1=1.2, b=0.25), BM25(tokens=camdf.scorers.word_parts), Start(text=words_text)],
    ids=lambda scorer: str(record_of(scorer)),
)
def test_a_scorer_made_from_its_record_scores_the_same(scorer: Any) -> None:
    record = record_of(scorer)
    kept = from_json(to_json(TopK(1), Training(scorer=record)).encode()).training_
    assert kept is not None
    assert kept.scorer == record
    again = scorer_of(record)
    assert again is not None
    assert record_of(again) == record
    for text in ("Will it rain in Oslo?", "Where can we eat?"):
        assert again(text, LISTED) == scorer(text, LISTED)


def test_scorers_that_score_otherwise_have_other_records() -> None:
    def vectors(texts: list[str]) -> Any:
        return [[1.0] for _ in texts]

    example = [Example("Do I need an umbrella?", ("get_weather",))]
    scorers: list[Any] = [
        Start(),
        Start(text=words_text),
        Start(examples=example),
        BM25(),
        BM25(k1=1.2),
        BM25(tokens=str.split),
        Embeddings(vectors),
        Embeddings(list),
        Necessity("http://127.0.0.1:9/v1", "small"),
        Necessity("http://127.0.0.1:9/v1", "small", "conservative"),
        Fusion([BM25(), Start()]),
        Fusion([BM25(), Start()], weights=[1, 2]),
        None,
        vectors,
    ]
    records = list(map(record_of, scorers))
    assert len(set(records)) == len(scorers)
    for record in records:
        kept = from_json(to_json(TopK(1), Training(scorer=record)).encode()).training_
        assert kept == Training(scorer=record)
    assert record_of(Shared(BM25(), {})) == record_of(TrustAware(BM25(), ["mail"])) == record_of(BM25())
    assert record_of(Given({})) == GIVEN
    assert scorer_of(GIVEN) is None
    for record in records[5:12]:
        with refuses(UsageError, f"scorer {record}", must="Give the scorer"):
            scorer_of(record)


def test_scores_whose_origin_nobody_knows_are_no_mismatch() -> None:
    bm25, start = record_of(BM25()), record_of(Start())
    assert mismatch(bm25, start)
    assert mismatch(bm25, bm25) == mismatch(None, start) == mismatch(GIVEN, start) == mismatch(start, GIVEN) == ""


def test_a_table_that_camdf_score_wrote_says_what_gave_its_scores(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    from camdf.examples.mined import SCORED_BY
    from camdf.policies.artifact import scorer_as_text

    table = polars.DataFrame({"task_id": ["1"]})
    table.write_parquet(tmp_path / "a.parquet", metadata={SCORED_BY: scorer_as_text(START)})
    table.write_parquet(tmp_path / "b.parquet")
    table.write_parquet(tmp_path / "c.parquet", metadata={SCORED_BY: '{"kind": 3}'})
    assert [scored_by(tmp_path / name) for name in ("a.parquet", "b.parquet", "c.parquet", "d.jsonl")] == [
        START,
        *[None] * 3,
    ]
