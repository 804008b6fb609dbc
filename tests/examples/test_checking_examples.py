"""`camdf examples --check`: coverage, tools that are taken for each other, and requests that no ranking finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from camdf.cli import main
from camdf.datasets import Example, write_examples
from camdf.examples import check_examples, checking, named_tools
from camdf.examples.checking import FIFTHS, SharedRuns, held_out, installed_rankings
from camdf.scorers import Scorer
from camdf.tools import Tool
from saying import says

TOOLS = named_tools(
    [
        Tool("forecast", "Weather forecast for a city.", server="weather"),
        Tool("send", "Send an email to a person.", server="mail"),
        Tool("message", "Send a message to a person.", server="chat"),
        Tool("play", "Play a song or an album.", server="music"),
        Tool("book", "Book a hotel room.", server="travel"),
    ]
)
SAID = {
    "weather/forecast": ["will it rain", "rain tomorrow", "weather for Oslo", "weather in Rome", "will the rain stop"],
    "music/play": ["put on some jazz", "play the new album", "jazz please", "a song by Nina", "next song of the album"],
    "travel/book": ["a room in Lyon", "hotel for two nights", "two nights in a hotel", "a hotel room", "room for two"],
    "mail/send": ["write to Ann", "tell Bob I am late", "drop Eve a line", "email Tom the report", "write to Bob"],
    "chat/message": ["write Ann I am here", "tell Bob I am late today", "write to Eve", "text Tom", "write to Bob now"],
}
EXAMPLES = [Example(text, (name,), language="en") for name, texts in SAID.items() for text in texts]
WORDS = {"words": SharedRuns}


def test_coverage_is_counted_by_tool_and_language() -> None:
    examples = [*EXAMPLES, Example("Regnet es?", ("weather/forecast",), language="de"), Example("Hi", ("gone",))]
    found = check_examples(examples, TOOLS, ["en", "de"], WORDS)
    assert found.coverage["weather/forecast"] == {"en": 5, "de": 1}
    assert {name for name, languages in found.lacking.items() if languages == ("de",)} == {*TOOLS} - {
        "weather/forecast"
    }
    assert found.unknown == ("gone",)
    assert not found.complete
    assert check_examples(EXAMPLES, TOOLS, rankings=WORDS).complete


def test_tools_that_win_each_others_requests_are_told_in_pairs() -> None:
    found = check_examples(EXAMPLES, TOOLS, rankings=WORDS)
    pairs = {(own, first) for own, first, _, _ in found.near_duplicates}
    assert ("mail/send", "chat/message") in pairs
    assert all({own, first} == {"mail/send", "chat/message"} for own, first in pairs)
    assert all(2 <= count <= total == 5 for _, _, count, total in found.near_duplicates)


def test_a_request_that_no_ranking_finds_is_told_and_ties_find_nothing() -> None:
    odd = Example("Wie geht es weiter?", ("music/play",), language="de")
    found = check_examples([*EXAMPLES, odd], TOOLS, rankings={**WORDS, "silent": lambda _: lambda _, tools: [0.0] * 5})
    assert found.missed[-1] == odd
    assert found.shares["silent"] == 0.0
    assert found.shares["words"] > 0.6


def test_one_of_several_tools_will_do_and_all_needed_ones_must_be_there() -> None:
    both = Example("a room and a song", ("travel/book", "music/play"))
    either = Example("write to Ann", (), (("mail/send", "chat/message"),))
    order = {"travel/book": 5.0, "mail/send": 4.0, "weather/forecast": 3.0, "music/play": 2.0, "chat/message": 1.0}
    fixed = {"fixed": lambda _: lambda _, tools: [order[tool.full_name] for tool in tools]}
    assert check_examples([both], TOOLS, rankings=fixed).missed == (both,)
    assert check_examples([either], TOOLS, rankings=fixed).missed == (either,)
    order |= {"music/play": 6.0, "mail/send": 7.0}
    assert check_examples([either], TOOLS, rankings=fixed).missed == ()
    order |= {"mail/send": 0.0}
    assert check_examples([both], TOOLS, rankings=fixed).missed == ()


def test_a_ranking_never_reads_the_example_that_it_ranks_nor_one_of_the_same_text() -> None:
    seen: list[frozenset[str]] = []

    def ranking(examples: Sequence[Example]) -> Scorer:
        known = frozenset(example.text.casefold() for example in examples)
        seen.append(known)

        def scorer(task: str, tools: Sequence[Tool]) -> list[float]:
            assert task.casefold() not in known
            return [1.0] * len(tools)

        return scorer

    examples = [*EXAMPLES, Example("WRITE TO ANN", ("chat/message",))]
    assert held_out(examples, TOOLS, ranking).shape == (26, 5)
    assert len(seen) == FIFTHS
    assert frozenset.union(*seen) == {example.text.casefold() for example in examples}


def test_requests_that_stand_twice_are_told_with_all_their_tools() -> None:
    examples = [*EXAMPLES, Example("Write to Ann!", ("chat/message",), language="en")]
    assert check_examples(examples, TOOLS, rankings=WORDS).repeated == {"write to Ann": ("mail/send", "chat/message")}


def test_the_base_install_has_a_ranking_and_extras_have_better_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*installed_rankings()] == ["parts of words", "start"]
    for ranking in installed_rankings().values():
        assert np.all(held_out(EXAMPLES, TOOLS, ranking) >= 0)
    monkeypatch.setattr(checking, "find_spec", lambda name: None if name == "wordllama" else find_spec(name))
    assert [*installed_rankings()] == ["parts of words"]
    monkeypatch.setattr(checking, "find_spec", lambda name: None)
    assert installed_rankings() == WORDS


def test_no_examples_at_all_lack_every_tool() -> None:
    found = check_examples([], TOOLS, rankings=WORDS)
    assert found.lacking.keys() == TOOLS.keys()
    assert found.shares == {"words": 0.0}
    assert found.missed == ()


def test_the_command_says_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools, examples = tmp_path / "tools.json", tmp_path / "examples.jsonl"
    entries = [
        {"server": tool.server, "tool": {"name": tool.name, "description": tool.description}} for tool in TOOLS.values()
    ]
    tools.write_text(json.dumps(entries), encoding="utf-8")
    write_examples(examples, [*EXAMPLES, Example("Was nun?", ("music/play",), language="de"), Example("Hi", ("gone",))])
    command = ["examples", "--check", str(examples), "--tools", str(tools)]
    assert main([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["unknown"] == ["gone"]
    assert main(command) == 1
    shown = capsys.readouterr().out
    first, english = shown.splitlines()[:2]
    assert says(first, "27 examples … 5 tools: 27 made up")
    assert says(english, "en … 25 examples … 5 of 5 tools")
    assert says(shown, "Tools … not in … gone")
    for said in (
        "lack examples: 4\n  weather/forecast: de\n",
        "Near-dup",
        "more; --json has all",
    ):
        assert said in shown
    write_examples(examples, EXAMPLES)
    assert main(command) == 0
