"""Scorers that read examples: what counts for which tool, that strangers' examples move nothing, and what is stored."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import Payoff, UsageError
from camdf.datasets import DataError, Example, write_examples
from camdf.gate import Gate, Guards
from camdf.policies.rules import TopK
from camdf.scorers import BM25, Embeddings, Fusion, Start, TrustAware, WordVectors
from camdf.scorers.folder import score_folder
from camdf.scorers.shared import Shared
from camdf.scorers.with_examples import ToolExamples, examples_digest_of
from camdf.tools import Tool
from saying import refuses

ROOT = Path(__file__).parents[2]
TOOLS = [
    Tool("get_forecast", "Weather forecast for a city.", server="weather"),
    Tool("send", "Send an email to a person.", server="mail"),
    Tool("log_sleep", "Sleep record of a night.", server="health"),
    Tool("create_event", "Create an event in the calendar.", server="calendar"),
]
THEIRS = {tool.server for tool in TOOLS}
EXAMPLES = [
    Example("Do I need an umbrella?", ("weather/get_forecast",)),
    Example("Brauche ich heute einen Schirm?", ("weather/get_forecast",), language="de"),
    Example("Drop Ann a line", ("send",), origin="own"),
    Example("Did I get enough shut-eye?", ("health/log_sleep",)),
    Example("Drop Ann a line and block an hour", ("mail/send", "calendar/create_event")),
    Example("Thank you"),
]
MAKERS: dict[str, Callable[..., Any]] = {
    "Start": Start,
    "BM25": BM25,
    "Embeddings": lambda **more: Embeddings(WordVectors(), **more),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("task", "best"), [("umbrella today", 0), ("shut-eye", 2), ("drop Bob a line", 1)])
def test_what_people_ask_a_tool_for_ranks_it(name: str, task: str, best: int) -> None:
    scorer = MAKERS[name](examples=EXAMPLES)
    scores = scorer(task, TOOLS)
    assert np.argmax(scores) == best
    assert scorer(task, TOOLS[::-1]) == scores[::-1]
    assert pickle.loads(pickle.dumps(scorer))(task, TOOLS) == scores


@pytest.mark.parametrize("name", MAKERS)
def test_examples_of_tools_that_are_not_there_change_no_score(name: str) -> None:
    elsewhere = [
        Example("umbrella today", ("other/get_forecast",)),
        Example("umbrella today", ("weather/get_forecast", "other/get_forecast")),
        Example("umbrella today", alternatives=(("mail/send", "other/send"),)),
        Example("umbrella today"),
    ]
    for task in ("umbrella today", "send an email"):
        assert MAKERS[name](examples=elsewhere)(task, TOOLS) == MAKERS[name]()(task, TOOLS)
        both = MAKERS[name](examples=[*EXAMPLES, *elsewhere])
        assert both(task, TOOLS) == MAKERS[name](examples=EXAMPLES)(task, TOOLS)


def test_a_full_name_means_one_tool_and_a_name_all_that_have_it() -> None:
    disguised = Tool("mail/send", server="new")
    theirs = ToolExamples([Example("a", ("mail/send",)), Example("b", ("send",)), Example("a", ("mail/send",))])
    assert theirs.texts_of([TOOLS[1], disguised]) == [("a", "b"), ()]
    assert theirs.texts_of([Tool("send"), TOOLS[1]]) == [("b",), ("a",)]
    assert theirs.texts_of([]) == ToolExamples([]).texts_of([]) == []


def test_of_a_long_example_the_ends_are_read() -> None:
    (texts,) = ToolExamples([Example("a" * 9_000 + "b", ("send",))]).texts_of([Tool("send")])
    assert len(texts[0]) < 4_100
    assert texts[0].endswith("b")


# Trust

SERVERS = ["weather", "mail", "health", "calendar"]
NAMES = [tool.full_name for tool in TOOLS]
BAD = ["new/helper", "new/send", "other/get_forecast"]
WORDS = ["umbrella", "shut-eye", "drop", "Ann", "line", "event", "email", "sleep", "x" * 20]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


def untrusted_tools() -> st.SearchStrategy[Tool]:
    names = st.sampled_from(BAD).map(lambda name: name.split("/"))
    return st.builds(lambda name, text: Tool(name[1], text, server=name[0]), names, SENTENCES)


def untrusted_examples() -> st.SearchStrategy[Example]:
    """Examples that name at least one tool of an untrusted server, and perhaps trusted ones."""
    names = st.lists(st.sampled_from([*BAD, *NAMES]), max_size=2)
    one = st.sampled_from(BAD)
    needed = st.builds(lambda text, name, more: Example(text, (name, *more)), SENTENCES, one, names)
    either = st.builds(lambda text, name, more: Example(text, (), ((name, *more),)), SENTENCES, one, names)
    return needed | either


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=30, deadline=None)
@given(
    bad=st.lists(untrusted_tools(), max_size=6),
    theirs=st.lists(untrusted_examples(), max_size=8),
    own=st.sampled_from([[], EXAMPLES]),
    order=st.integers(0, 99),
    task=SENTENCES,
)
def test_examples_of_untrusted_servers_never_change_which_trusted_tools_are_kept(
    name: str, bad: list[Tool], theirs: list[Example], own: list[Example], order: int, task: str
) -> None:
    tools, examples = [*TOOLS, *bad], [*own, *theirs]
    random.Random(order).shuffle(tools)
    honest = [tool for tool in tools if tool in TOOLS]
    alone, together = (
        Gate(TopK(2), MAKERS[name](examples=read), Payoff(0.0), guards=Guards(trusted=THEIRS))
        for read in (own, examples)
    )
    for listed in (honest, tools):  # with the untrusted server there, and without
        before, after = alone.decide(task, honest), together.decide(task, listed)
        kept = [(each.name, each.score, each.kept) for each in after.ranking if each.trusted]
        assert kept == [(each.name, each.score, each.kept) for each in before.ranking]
        assert [tool for tool in after.tools if tool in TOOLS] == before.tools
        assert [tool for tool in together.find(task, listed) if tool in TOOLS] == alone.find(task, honest)


# Their digest


def test_the_digest_of_examples_passes_through_scorers_around_a_scorer(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples.jsonl", EXAMPLES)
    start, other = Start(examples=tmp_path / "examples.jsonl"), BM25(examples=EXAMPLES[:1])
    digest = ToolExamples(EXAMPLES).digest
    assert len(digest) == 64
    assert examples_digest_of(start) == digest
    for around in (TrustAware(start, [""]), Shared(start, {}), Fusion([start, BM25()])):
        assert examples_digest_of(around) == digest
    assert examples_digest_of(Fusion([start, other])) == f"{digest}+{other.examples_digest}"
    assert digest != other.examples_digest
    assert {examples_digest_of(each) for each in (Start(), BM25(), Fusion([Start()]), print)} == {""}


def test_workers_with_other_examples_share_no_scores() -> None:
    store: dict[str, str] = {}
    plain, reads = Shared(BM25(), store), Shared(BM25(examples=EXAMPLES), store)
    assert plain("umbrella", TOOLS) != reads("umbrella", TOOLS)
    assert len(store) == 2


def test_a_folder_that_was_scored_with_other_examples_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "day"
    folder.mkdir()
    (folder / "tasks.jsonl").write_text('{"task_id": "1", "text": "umbrella"}\n')
    (folder / "tools.json").write_text('{"get_forecast": "Weather.", "send": "Send an email."}')
    reads = BM25(examples=[Example("Do I need an umbrella?", ("get_forecast",))])
    score_folder(folder, reads, tmp_path / "scores.jsonl")
    settings_beside = json.loads((tmp_path / "scores.settings.json").read_text())
    assert settings_beside["examples"] == reads.examples_digest
    with pytest.raises(DataError, match="other settings"):
        score_folder(folder, BM25(), tmp_path / "scores.jsonl")


# A gate


def test_a_gate_starts_with_examples_and_searches_by_them(tmp_path: Path) -> None:
    write_examples(tmp_path / "examples.jsonl", EXAMPLES)
    for examples in (EXAMPLES, tmp_path / "examples.jsonl", str(tmp_path / "examples.jsonl")):
        gate = Gate.start(TOOLS, mean_tools=1, examples=examples, guards=Guards(trusted=THEIRS))
        assert gate.decide("Did I have enough shut-eye?", TOOLS).kept == ("log_sleep",)
        assert gate.find("shut-eye", TOOLS)[0] is TOOLS[2]


def test_what_cannot_be_read_is_said_at_the_start(tmp_path: Path) -> None:
    with refuses(UsageError, "examples", must="that scorer"):
        Gate.start(TOOLS, scorer=BM25(), examples=EXAMPLES)
    with refuses(UsageError, got="get_forecast … list of another"):
        Gate.start([Tool("another")], examples=EXAMPLES)
    with refuses(UsageError, "examples", must="JSON Lines"):
        BM25(examples=["Do I need an umbrella?"])  # type: ignore[list-item]
    with pytest.raises((DataError, OSError), match=r"none\.jsonl"):
        Start(examples=tmp_path / "none.jsonl")


def test_a_decision_names_the_examples_that_its_ranking_read() -> None:
    gate = Gate.start(TOOLS, mean_tools=1, examples=EXAMPLES, guards=Guards(trusted=THEIRS))
    decision = gate.decide(EXAMPLES[0].text, TOOLS)
    assert decision.examples_digest == ToolExamples(EXAMPLES).digest != ""
    assert decision.event()["camdf.examples_digest"] == decision.examples_digest
    assert "camdf.examples_digest" not in Gate(TopK(1), Start(), Payoff(0.0)).decide(EXAMPLES[0].text, TOOLS).event()


def test_where_no_tool_has_a_server_examples_name_tools_by_name_alone() -> None:
    bare = [Tool(tool.name, tool.description) for tool in TOOLS]
    gate = Gate.start(bare, mean_tools=1, examples=EXAMPLES)
    assert gate.decide("Brauche ich einen Schirm?", bare).kept == ("get_forecast",)
