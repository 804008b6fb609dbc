"""What tools may do is guessed for a human to correct: by hints, and by verbs in five languages."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camdf import UsageError
from camdf.gate.guessed_effects import VERBS, effects_of_name, guessed_effect, open_pairs
from camdf.gate.privilege import Privilege
from camdf.tools import EFFECTS, WORST, Effect, FromServer, Tool, view
from saying import says

WRITTEN = [
    (verb, effect) for effect, languages in VERBS.items() for verbs in languages.values() for verb in verbs.split()
]


@pytest.mark.parametrize("form", ["{}", "{}_the_thing", "{}TheThing", "{}-thing.v2", "{} thing"])
def test_every_verb_of_the_lists_is_known_as_the_first_word_of_a_name(form: str) -> None:
    for verb, effect in WRITTEN:
        assert effect in effects_of_name(form.format(verb)), verb


def test_languages_disagree_on_few_verbs_and_then_the_worse_counts() -> None:
    by_effect: dict[Effect, set[str]] = {effect: set() for effect in EFFECTS}
    for verb, effect in WRITTEN:
        by_effect[effect].add(verb)
    disputed = set().union(*(one & other for one, other in combinations(by_effect.values(), 2)))
    assert disputed == set()
    assert guessed_effect(Tool("zahle_rechnung")).effect == "egress", "zähle without its dots, or zahle"


@given(st.text(max_size=30))
def test_any_name_has_an_effect_and_an_unknown_one_is_the_worst(name: str) -> None:
    guess = guessed_effect(Tool(name))
    assert guess.effect in EFFECTS
    if not effects_of_name(name):
        assert guess.effect == WORST


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("Löschen", "write"),
        ("loesche_datei", "write"),
        ("añade", "write"),
        ("RÉPONDRE", "egress"),
        ("メールを検索", "read"),
        ("送信", "egress"),
        ("予定_作成", "write"),
        ("GETAccount", "read"),
        ("getaway", "egress"),
        ("do_search", "egress"),
    ],
)
def test_the_first_word_decides_whatever_its_accents_and_case(name: str, effect: Effect) -> None:
    assert guessed_effect(Tool(name)).effect == effect


def test_a_tool_that_reads_an_address_can_send_to_it() -> None:
    for parameter in ("url", "target_url", "imageUrl", "webhook"):
        tool = Tool("read_page", parameters={"properties": {parameter: {"type": "string"}}})
        assert guessed_effect(tool).effect == "egress"
    assert guessed_effect(Tool("read_page", parameters={"properties": {"curl": {}}})).effect == "read"


def test_hints_say_what_a_name_does_not_and_never_less_than_it() -> None:
    def hinted(name: str, **hints: bool) -> Effect:
        return guessed_effect(view({"name": name, "inputSchema": {}, "annotations": hints})).effect

    assert hinted("frobnicate", readOnlyHint=True) == "read"
    assert hinted("send_mail", readOnlyHint=True) == "egress"
    assert hinted("frobnicate", readOnlyHint=False, openWorldHint=False) == "write"
    assert hinted("search_web", readOnlyHint=True, openWorldHint=True) == "egress"


def test_what_is_open_is_every_tool_that_reads_freely_beside_one_that_sends() -> None:
    tools = [Tool("read_mail"), Tool("send_mail"), Tool("delete_mail"), Tool("search_web")]
    effects = {tool.name: guessed_effect(tool).effect for tool in tools}
    pairs = [("read_mail", "send_mail"), ("search_web", "send_mail")]
    assert open_pairs(tools, Privilege(effects)) == pairs
    assert open_pairs(tools, Privilege(effects, free=[])) == []


def test_a_file_of_effects_is_read_as_a_privilege(tmp_path: Path) -> None:
    path = tmp_path / "privilege.json"
    path.write_text(json.dumps({"mail/send": "egress", "docs/*": "read", "own": "write"}))
    privilege = Privilege.from_file(path, free=["read", "write"])
    assert privilege.effects == {"mail/send": "egress", "docs/*": "read", "own": "write"}
    assert privilege.is_free(view(FromServer("docs", Tool("any"))), ["docs/any"])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('{"send": "rd"}', "'send' must be one of read"),
        ('{"send": 1}', "'send' must be one of read"),
        ('{"send": "read", "send": "egress"}', "stands twice"),
        ("[]", "one object"),
        ("{", "JSON"),
        ("\xff", "JSON"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_its_name_and_key(tmp_path: Path, content: str, named: str) -> None:
    path = tmp_path / "privilege.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError) as refused:
        Privilege.from_file(path)
    assert says(str(refused.value), f"{path} … {named}")
