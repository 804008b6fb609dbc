"""Scorers: what they answer, and how they fail. The language model's endpoint is scripted, one failure shape an act."""

from __future__ import annotations

import ipaddress
import json
import logging
import pickle
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf.core.payoff import Payoff
from camdf.core.rankings import mean_ranks
from camdf.errors import MissingExtraError, UsageError
from camdf.gate import Gate
from camdf.policies.rules import ScoreAtLeast
from camdf.runtime.loose_json import objects_in
from camdf.scorers import (
    BM25,
    Embeddings,
    Fusion,
    Given,
    Necessity,
    Scorer,
    ScorerError,
    Start,
    TrustAware,
    WordVectors,
    full_text,
    plain_text,
    word_parts,
    words_text,
)
from camdf.scorers import endpoint as http
from camdf.scorers.necessity import AGAIN, VARIANTS, _usable_score
from camdf.tools import Tool
from saying import refuses, says
from scripted_endpoint import Act, answers, body, drip, drip_headers, endpoint, flood, hang, reset

TASK = "What is the weather in Paris? canary-of-the-task"
WEATHER = Tool("get_weather", "Weather of a city, by name.")
MAIL = Tool("sendMail", "Send a mail to an address.")
TOOLS = [WEATHER, MAIL]
GOOD = {"get_weather": 0.9, "sendMail": 0.1}


def letters(texts: list[str]) -> npt.NDArray[np.float64]:
    """An embedding: how often each letter occurs."""
    return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], dtype=float)


START = Start()
OFFLINE: list[Scorer] = [
    BM25(),
    Embeddings(letters),
    Given({"get_weather": 3.0, "sendMail": 0.0}),
    Fusion([BM25(), Embeddings(letters)]),
    Fusion([BM25(), Embeddings(letters)], "mean"),
    BM25(tokens=word_parts),
    Embeddings(WordVectors()),
    START,
    TrustAware(BM25(), trusted=["x"]),
    TrustAware(BM25(), trusted=["", "mail"]),
]


@pytest.mark.parametrize("scorer", OFFLINE, ids=lambda scorer: type(scorer).__name__)
def test_scores_are_finite_not_negative_one_a_tool_and_follow_their_tools(scorer: Callable[..., Any]) -> None:
    scores = np.array(scorer(TASK, TOOLS))
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert scores[0] > scores[1]
    assert scorer(TASK, TOOLS[::-1]) == scores.tolist()[::-1]
    assert scorer(TASK, []) == []


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.lists(st.builds(Tool, st.text(max_size=12), st.text(max_size=40)), max_size=6))
def test_any_text_and_any_tools_have_scores_in_0_to_1(task: str, tools: list[Tool]) -> None:
    for scorer in (BM25(), Embeddings(letters), Fusion([BM25(), Embeddings(letters)]), START, TrustAware(START, [""])):
        scores = scorer(task, tools)
        assert len(scores) == len(tools)
        assert all(0 <= score <= 1 for score in scores)


def test_importing_the_scorers_loads_numpy_and_the_standard_library_only() -> None:
    code = "import sys, numpy; before = set(sys.modules); import camdf.scorers; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[0] for name in run.stdout.split()} - sys.stdlib_module_names <= {"camdf", "numpy"}


def test_a_missing_extra_is_named_before_a_gate_could_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"camdf\[start\]"):
        Start()
    with pytest.raises(MissingExtraError, match=r"camdf\[bm25\]"):
        BM25()
    with pytest.raises(MissingExtraError, match=r"camdf\[embeddings\]"):
        Embeddings("some/model")
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingExtraError, match=r"camdf\[start\]"):
        WordVectors()


# BM25


def test_bm25_tops_at_1_and_stays_0_where_no_word_is_shared() -> None:
    assert BM25()(TASK, TOOLS) == [1.0, 0.0]
    assert BM25()("zebra", TOOLS) == [0.0, 0.0]
    assert BM25()("", TOOLS) == [0.0, 0.0]
    assert BM25()(TASK, [Tool(""), Tool("the")]) == [0.0, 0.0]


def test_bm25_is_lucenes_formula() -> None:
    tools = [Tool("a", "cat cat dog"), Tool("b", "dog bird fish"), Tool("c", "bird worm")]
    scores = BM25(text=lambda tool: tool.description)("cat dog", tools)

    def gain(times: int, length: int, holding: int) -> float:
        idf = np.log(1 + (3 - holding + 0.5) / (holding + 0.5))
        return float(idf * times / (times + 1.5 * (1 - 0.75 + 0.75 * length / (8 / 3))))

    raw = np.array([gain(2, 3, 1) + gain(1, 3, 2), gain(1, 3, 2), 0.0])
    np.testing.assert_allclose(scores, raw / raw.max(), rtol=1e-6)


def test_bm25_indexes_a_tool_list_once_and_notices_any_change() -> None:
    tokenized: list[str] = []

    def text(tool: Tool) -> str:
        tokenized.append(tool.name)
        return words_text(tool)

    scorer, tools = BM25(text=text), list(TOOLS)
    scorer(TASK, tools)
    scorer("another task", tools)
    assert tokenized == ["get_weather", "sendMail"]
    tools[1] = Tool("sendMail", "Weather by mail, in Paris.")
    assert scorer(TASK, tools) == BM25()(TASK, tools)
    assert scorer(TASK, tools)[1] > 0


def test_bm25_keeps_the_indexes_of_several_lists() -> None:
    tokenized: list[str] = []

    def tokens(text: str) -> list[str]:
        tokenized.append(text)
        return text.split()

    scorer = BM25(tokens=tokens)
    for _ in range(3):
        for tools in (TOOLS, TOOLS[:1]):
            scorer("of", [Tool(each.name, each.description) for each in tools])
    assert len([text for text in tokenized if text != "of"]) == 3


def test_parts_of_words_match_across_endings_compounds_accents_and_languages() -> None:
    calendar, mail = Tool("create_event", "Add an entry to the calendar."), Tool("send", "Send a mail to an address.")
    for said in ("calendars", "Terminkalender", "calendrier", "CALENDÁRIO"):
        scores = BM25(tokens=word_parts)(said, [calendar, mail])
        assert scores[0] > scores[1]
        assert BM25()(said, [calendar, mail]) == [0.0, 0.0]
    weather, music = Tool("weather", "都市の天気を調べる。"), Tool("music", "曲を再生する。")
    assert BM25(tokens=word_parts)("明日の天気は?", [weather, music]) == [1.0, 0.0]
    assert word_parts("the of 雨") == ["雨"]


def test_the_full_text_of_a_tool_has_the_names_of_its_parameters_whatever_its_schema_is() -> None:
    schema = {"type": "object", "properties": {"destinationCity": {"type": "string"}, "max_price": {}}}
    named = ", ".join(["destination City", "max price"])
    assert full_text(Tool("book", "D.", schema)) == f"book: D. {named}"
    assert full_text(Tool("book", "D.", lambda: schema)) == f"book: D. {named}"
    assert full_text(Tool("book", "D.", {"properties": ["odd"]})) == "book: D."


def test_the_two_texts_of_a_tool() -> None:
    assert plain_text(Tool("maps.get-placeInfo_v2", "D.")) == "maps get placeInfo v2. D."
    assert words_text(Tool("maps/get-placeInfo_v2", "D.")) == "maps get place Info v2: D."


# Embeddings


def test_embeddings_are_cosines_clipped_at_0() -> None:
    vectors = {
        "task": [3.0, 4.0],
        "same. ": [0.6, 0.8],
        "other. ": [-4.0, 3.0],
        "against. ": [-3.0, -4.0],
        "nil. ": [0, 0],
    }
    scorer = Embeddings(lambda texts: [vectors[text] for text in texts], text=plain_text)
    tools = [Tool("same"), Tool("other"), Tool("against"), Tool("nil")]
    np.testing.assert_allclose(scorer("task", tools), [1.0, 0.0, 0.0, 0.0], atol=1e-12)


def test_a_tool_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def encode(texts: list[str]) -> npt.NDArray[np.float64]:
        asked.append(texts)
        return letters(texts)

    scorer = Embeddings(encode)
    first = scorer(TASK, TOOLS)
    assert scorer(TASK, [*TOOLS, WEATHER]) == [*first, first[0]]
    assert [len(texts) for texts in asked] == [3, 1]
    monkeypatch.setattr("camdf.scorers.embeddings.VECTORS_KEPT", 2)
    scorer(TASK, [Tool("new")])
    assert scorer(TASK, TOOLS) == first


@pytest.mark.parametrize("answer", [[1.0, 2.0, 3.0], [[1.0], [2.0]], [[np.nan]] * 3])
def test_vectors_of_another_shape_are_refused(answer: Any) -> None:
    with pytest.raises(ScorerError, match=r"finite \(3, d\) array"):
        Embeddings(lambda texts: answer)(TASK, TOOLS)


# Start


def test_word_vectors_know_what_words_mean() -> None:
    music, money = Tool("play_music", "Play a song or a playlist."), Tool("pay", "Transfer funds to an account.")
    for said, wanted in (("put on some jazz", 0), ("send 20 euros to my landlord", 1)):
        scores = Embeddings(WordVectors())(said, [music, money])
        assert int(np.argmax(scores)) == wanted
        assert BM25()(said, [music, money]) == [0.0, 0.0]


def test_a_vector_does_not_depend_on_the_texts_beside_it_and_an_empty_text_has_none() -> None:
    vectors = WordVectors()(["a song", "", "a song that is longer than the other"])
    np.testing.assert_array_equal(vectors[0], WordVectors()(["a song"])[0])
    assert not vectors[1].any()
    assert vectors.shape == (3, 256)


def test_start_leaves_wordllama_torch_and_the_programs_logging_alone() -> None:
    code = (
        "import logging, sys; from camdf.scorers import Start; from camdf.tools import Tool;"
        "Start()('rain', [Tool('a', 'Weather.'), Tool('b', 'Mail.')]);"
        "print(len(logging.getLogger().handlers), *sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    handlers, *modules = run.stdout.split()
    assert handlers == "0"
    assert not {"torch", "wordllama", "requests", "sentence_transformers"} & set(modules)


def test_start_reads_tokenizes_and_embeds_a_tool_once_though_it_is_viewed_anew() -> None:
    built: list[str] = []

    def viewed() -> list[Tool]:
        def schema(name: str) -> dict[str, Any]:
            built.append(name)
            return {"properties": {"city": {}}}

        return [Tool(each.name, each.description, partial(schema, each.name)) for each in TOOLS]

    scorer = Start()
    first = scorer(TASK, viewed())
    assert scorer(TASK, viewed()) == first
    assert len(scorer(TASK, viewed()[1:])) == 1
    assert built == ["get_weather", "sendMail"]


def test_start_reads_the_two_ends_of_a_long_task() -> None:
    pasted = "Bob wrote: send the mail to this address. " * 1000
    assert START(f"{TASK} {pasted}", TOOLS)[0] > START(pasted, TOOLS)[0]
    assert START(f"{pasted} {TASK}", TOOLS)[0] > START(pasted, TOOLS)[0]
    assert START(f"{pasted} {TASK} {pasted}", TOOLS) == START(f"{pasted} {pasted}", TOOLS)


def test_a_copy_of_start_scores_the_same() -> None:
    scorer = Start()
    said = scorer(TASK, TOOLS)
    assert pickle.loads(pickle.dumps(scorer))(TASK, TOOLS) == said


# Given scores, fusion


def test_given_scores_pass_through_and_a_missing_or_odd_one_is_refused() -> None:
    assert Given({"sendMail": 7, "get_weather": 0.25, "other": 1})(TASK, TOOLS) == [0.25, 7.0]
    assert Given.ranked(["sendMail", "get_weather"])(TASK, TOOLS) == [0.5, 1.0]
    with pytest.raises(ScorerError, match="Missing: sendMail"):
        Given({"get_weather": 1})(TASK, TOOLS)
    for odd in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ScorerError, match="finite and not negative"):
            Given({"get_weather": odd, "sendMail": 1})(TASK, TOOLS)
    with pytest.raises(ScorerError, match="must return numbers"):
        Given({"get_weather": "x", "sendMail": 1})(TASK, TOOLS)  # type: ignore[dict-item]


def test_reciprocal_ranks_ignore_scale_and_share_ties() -> None:
    one, two = Given({"a": 9, "b": 5, "c": 5}), Given({"a": 0.1, "b": 0.3, "c": 0.2})
    tools = [Tool("a"), Tool("b"), Tool("c")]
    assert mean_ranks(np.array(one(TASK, tools))).tolist() == [1, 2.5, 2.5]
    expected = [(61 / 61 + 61 / 63) / 2, (61 / 62.5 + 61 / 61) / 2, (61 / 62.5 + 61 / 62) / 2]
    np.testing.assert_allclose(Fusion([one, two])(TASK, tools), expected)
    np.testing.assert_allclose(Fusion([one, two], "mean")(TASK, tools), [(1 + 1 / 3) / 2, (5 / 9 + 1) / 2, 11 / 18])


def test_a_fusion_weighs_its_scorers_and_refuses_weights_that_make_no_sense() -> None:
    one, other = Given({"get_weather": 1.0, "sendMail": 0.0}), Given({"get_weather": 0.0, "sendMail": 0.5})
    assert Fusion([one, other], "mean", weights=[3, 1])(TASK, TOOLS) == [0.75, 0.25]
    assert Fusion([one, other], "mean", weights=[2, 2])(TASK, TOOLS) == Fusion([one, other], "mean")(TASK, TOOLS)
    for weights in ([1], [1, 0], [1, -1], [1, float("nan")], [1, float("inf")]):
        with refuses(UsageError, "weights", "Fusion", "2 positive", "numbers", "scorer"):
            Fusion([one, other], weights=weights)


def test_a_fusion_fails_with_any_of_its_scorers() -> None:
    async def later(task: str, tools: Sequence[Tool]) -> Sequence[float]:
        return [1.0] * len(tools)

    for broken, message in (
        (Given({}), "must name every tool"),
        (later, "later is a coroutine"),
        (lambda task, tools: [1.0], "one score … 2 tools"),
    ):
        with refuses(ScorerError, message):
            Fusion([BM25(), broken])(TASK, TOOLS)
    with pytest.raises(ValueError, match="at least one scorer"):
        Fusion([])
    with pytest.raises(ValueError, match="reciprocal-rank"):
        Fusion([BM25()], "median")


# Necessity, over a scripted endpoint


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_PAUSE", 0.01)


def ask(*script: Act, tools: Sequence[Tool] = TOOLS, **options: Any) -> tuple[list[float], list[dict[str, Any]]]:
    with endpoint(*script) as server:
        scores = Necessity(server.url, "some-model", **options)(TASK, tools)
        return scores, server.requests


def refusal(*script: Act, **options: Any) -> str:
    with pytest.raises(ScorerError) as caught:
        ask(*script, **options)
    assert "canary" not in str(caught.value)
    return str(caught.value)


def test_the_request_shows_the_task_the_tools_and_the_schema_of_the_answer() -> None:
    scores, (request,) = ask(answers(GOOD), options={"seed": 3})
    assert scores == [0.9, 0.1]
    assert request["model"] == "some-model"
    assert (request["temperature"], request["seed"]) == (0, 3)
    system, user = (message["content"] for message in request["messages"])
    assert VARIANTS["default"] in system
    assert TASK in user
    assert says(user, "get_weather")
    assert says(user, "sendMail")
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["get_weather", "sendMail"]
    assert schema["properties"]["sendMail"] == {"type": "number", "minimum": 0, "maximum": 1}


def test_the_prompt_is_the_same_for_every_task_up_to_the_task() -> None:
    judge, named = Necessity("http://localhost/v1", "any"), {tool.name: tool for tool in TOOLS}
    rain, mail = (
        "".join(message["content"] for message in judge.messages(task, named)) for task in ("rain?", "mail Bob")
    )
    assert rain.removesuffix("rain?") == mail.removesuffix("mail Bob")
    assert all(tool.description in rain for tool in TOOLS)


def test_the_conservative_variant_keeps_the_contract_and_changes_the_rule() -> None:
    _, (one,) = ask(answers(GOOD))
    _, (two,) = ask(answers(GOOD), variant="conservative", structured=False, options={"temperature": None})
    assert one["messages"][1] == two["messages"][1]
    assert VARIANTS["conservative"] in two["messages"][0]["content"]
    assert not {"response_format", "temperature"} & two.keys()
    with pytest.raises(ValueError, match="default, conservative"):
        Necessity("http://localhost/v1", "m", "bold")


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(GOOD),
        f"Sure! Here you go:\n```json\n{json.dumps(GOOD)}\n```\nAnything else?",
        f"{{not json}} {json.dumps(GOOD)} {{}}",
        '{"get_weather": "0.9", "sendMail": "10%"}',
        json.dumps(GOOD | {"invented": 85, "other": "x"}),
    ],
)
def test_a_usable_answer_is_repaired_in_one_request(content: str) -> None:
    scores, requests = ask(answers(content))
    assert scores == [0.9, 0.1]
    assert len(requests) == 1


def test_values_a_little_outside_are_clipped() -> None:
    assert ask(answers({"get_weather": 1.05, "sendMail": -0.02}))[0] == [1.0, 0.0]


@pytest.mark.parametrize(
    "odd", [85, -1, 2, "high", "", True, None, float("nan"), float("inf"), "nan", [0.5], {"score": 0.5}]
)
def test_a_missing_or_unusable_score_is_asked_for_once_more_and_alone(odd: Any) -> None:
    for first in ({"get_weather": 0.9}, {"get_weather": 0.9, "sendMail": odd}):
        scores, (_, again) = ask(answers(first), answers({"sendMail": 0.3, "get_weather": 0.0}))
        assert scores == [0.9, 0.3]
        assert again["response_format"]["json_schema"]["schema"]["required"] == ["sendMail"]
        assert "get_weather" not in again["messages"][1]["content"]
        assert again["messages"][1]["content"].endswith(AGAIN)
    message = refusal(answers({"get_weather": 0.9, "sendMail": odd}))
    assert "1 of 2 tools, asked twice: sendMail" in message


@pytest.mark.parametrize("content", ["", "no", "{", "[0.9, 0.1]", "{" * 5000, json.dumps({"score": GOOD})])
def test_an_answer_without_the_object_is_asked_for_again_then_refused(content: str) -> None:
    scores, requests = ask(answers(content), answers(GOOD))
    assert scores == [0.9, 0.1]
    assert len(requests) == 2
    assert "2 of 2 tools" in refusal(answers(content))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80) | st.recursive(st.floats() | st.text() | st.none(), st.lists).map(json.dumps))
def test_no_answer_breaks_the_reading_of_answers(content: str) -> None:
    numbers = (_usable_score(value) for found in objects_in(content) for value in found.values())
    assert all(number is None or 0 <= number <= 1 for number in numbers)


@pytest.mark.parametrize(
    "hostile",
    [
        lambda size: '{"a":' * (size // 5),
        lambda size: '{"a":[' * (size // 6),
        lambda size: "{ " * (size // 2),
        lambda size: '{"a":' * 900 + '"' + "x" * size,
        lambda size: ('{"a":[' + "0," * (size // 600)) * 300,
        lambda size: '{"' * (size // 2),
    ],
    ids=["objects", "lists", "spaces", "a string without an end", "long lists", "quotes"],
)
def test_an_answer_of_nested_braces_takes_the_time_of_a_plain_one_of_its_length(hostile: Callable[[int], str]) -> None:
    def seconds(read: Callable[[str], object], text: str) -> float:
        times = list[float]()
        for _ in range(3):
            began = time.process_time()
            read(text)
            times.append(time.process_time() - began)
        return min(times)

    for size in (100_000, 1_000_000):
        text = hostile(size)
        plain = f"[{'0,' * (len(text) // 2)}0]"
        assert list(objects_in(text)) == []
        assert seconds(lambda text: list(objects_in(text)), text) < 8 * seconds(json.loads, plain) + 0.05


def test_two_tools_of_one_name_are_scored_apart() -> None:
    tools = [Tool("search", "Files.", server="disk"), Tool("search", "Pages.", server="web")]
    scores, (request,) = ask(answers({"disk/search": 0.2, "web/search": 0.8}), tools=tools)
    assert scores == [0.2, 0.8]
    assert "- web/search: Pages." in request["messages"][1]["content"]


@pytest.mark.parametrize("passing", [body("busy", 429), body("", 500), body("", 503), body("{", 200), reset])
def test_a_failure_that_passes_is_tried_again(passing: Act) -> None:
    scores, requests = ask(passing, passing, answers(GOOD))
    assert scores == [0.9, 0.1]
    assert len(requests) == 3


def test_retry_after_is_kept_to_and_one_past_the_deadline_ends_the_wait_at_once() -> None:
    start = time.monotonic()
    assert ask(body("", 429, "Retry-After: 1\r\n"), answers(GOOD))[0] == [0.9, 0.1]
    assert time.monotonic() - start >= 1
    start = time.monotonic()
    assert "status 429" in refusal(body("", 429, "Retry-After: 3600\r\n"), deadline=60)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (body("", 500), "failed after 3 attempts: status 500"),
        (body("canary", 429), "failed after 3 attempts: status 429"),
        (reset, "failed after 3 attempts: ConnectionResetError"),
        (body("<html>canary</html>"), "3 attempts … JSON"),
        (body("[" * 100_000), "3 attempts … JSON"),
        (body("[]"), r"must have choices[0].message.content"),
        (body('{"choices": []}'), r"must have choices[0].message.content"),
        (body("canary", 400), "refuses the request (status 400)"),
        (body("", 404), "refuses the request (status 404)"),
        (body("", 401), "refuses the key (status 401)"),
        (body(" " * 5_000_000), "more than 4000000 bytes"),
        (flood, "more than 4000000 bytes"),
    ],
)
def test_a_failure_that_lasts_says_what_it_is(act: Act, message: str) -> None:
    assert says(refusal(act, retries=2), message)


def test_a_redirect_is_not_followed() -> None:
    with endpoint(answers(GOOD)) as elsewhere:
        moved = body("", 307, f"Location: {elsewhere.url}/chat/completions\r\n")
        assert "redirects are not followed" in refusal(moved)
        assert not elsewhere.requests


@pytest.mark.parametrize("act", [hang, drip, drip_headers])
def test_an_endpoint_that_hangs_or_drips_costs_at_most_the_deadline(act: Act) -> None:
    start = time.monotonic()
    assert says(refusal(act, timeout=0.2, deadline=0.7, retries=9), "no whole", "answer", "time")
    assert time.monotonic() - start < 30  # ten attempts and their pauses take minutes


def test_a_dead_endpoint_is_refused_at_once() -> None:
    with endpoint(answers(GOOD)) as server:
        url = server.url
    with pytest.raises(ScorerError, match="ConnectionRefusedError"):
        Necessity(url, "m", retries=1)(TASK, TOOLS)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "file:///etc/hosts",
        "host/v1",
        "http://user:secret@host/v1",
        "",
        "http://h:99999/v1",
        "http://[",
        5,
    ],
)
def test_other_urls_are_refused_where_they_are_given_without_being_repeated(url: Any) -> None:
    with refuses(UsageError, "url", "Necessity", must="http") as caught:
        Necessity(url, "m")
    assert "secret" not in str(caught.value)
    changed = Necessity("http://host/v1", "m")
    changed.url = url if isinstance(url, str) else ""
    with pytest.raises(ScorerError, match="must be http") as asked:
        changed(TASK, TOOLS)
    assert "secret" not in str(asked.value)


def test_a_link_local_address_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("camdf.scorers.endpoint.CREDENTIALS", (ipaddress.ip_network("127.0.0.0/8"),))
    with endpoint(answers(GOOD)) as server:
        with pytest.raises(ScorerError, match="link-local"):
            Necessity(server.url, "m")(TASK, TOOLS)
        assert not server.requests


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "fe80::1%eth0", "fe80::1", "fd00:ec2::254",
        "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
    ],
)  # fmt: skip
def test_an_address_where_clouds_keep_credentials_is_known_however_it_is_written(address: str) -> None:
    assert http.holds_credentials(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "::ffff:10.0.0.1", "fd00::1", "2001:db8::1"])
def test_other_addresses_may_be_asked(address: str) -> None:
    assert not http.holds_credentials(address)


@pytest.mark.parametrize("host", ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost"])
def test_neither_a_mapped_address_nor_a_name_leads_around_the_check(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with endpoint(answers(GOOD)) as server:
        url = server.url.replace("127.0.0.1", host)
        assert Necessity(url, "m")(TASK, TOOLS)
        monkeypatch.setattr(http, "CREDENTIALS", (ipaddress.ip_network("127.0.0.0/8"),))
        with pytest.raises(ScorerError, match="link-local"):
            Necessity(url, "m")(TASK, TOOLS)
        assert len(server.requests) == 1


def test_a_redirect_to_credentials_is_not_followed_and_not_repeated() -> None:
    moved = body("", 307, "Location: http://169.254.169.254/latest/meta-data\r\n")
    said = refusal(moved)
    assert "redirects are not followed" in said
    assert "169.254" not in said


def test_a_name_server_that_hangs_costs_at_most_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hanging(*_: object, **__: object) -> list[Any]:
        release.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    start = time.monotonic()
    with refuses(ScorerError, "no whole", "answer", "time"):
        Necessity("http://models.example/v1", "m", timeout=0.2, deadline=0.5)(TASK, TOOLS)
    assert time.monotonic() - start < 30
    release.set()


def test_a_handshake_that_never_comes_costs_at_most_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/v1"
        start = time.monotonic()
        with refuses(ScorerError, "no whole", "answer", "time"):
            Necessity(url, "m", timeout=0.3, deadline=0.5, retries=0)(TASK, TOOLS)
        assert time.monotonic() - start < 30  # nobody ever answers


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")
def test_https_is_asked_and_its_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with endpoint(answers(GOOD), tls=context) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(ScorerError, match="SSLCertVerificationError"):
            Necessity(url, "m", retries=0)(TASK, TOOLS)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert Necessity(url, "m", retries=0)(TASK, TOOLS)


def test_the_key_comes_from_the_named_variable_and_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-this-one")
    monkeypatch.setenv("MY_KEY", "key-canary\n")
    with endpoint(answers(GOOD)) as server:
        Necessity(server.url, "m")(TASK, TOOLS)
        Necessity(server.url, "m", key_variable="MY_KEY")(TASK, TOOLS)
    without, with_key = server.headers
    assert "Authorization" not in without
    assert "Authorization: Bearer key-canary\r\n" in with_key + "\r\n"
    for held in ("", "key-canary\nX-Header: 1", "clé-canary"):
        monkeypatch.setenv("MY_KEY", held)
        assert "MY_KEY must hold an API key" in refusal(answers(GOOD), key_variable="MY_KEY")


def test_nothing_of_the_task_or_the_key_reaches_a_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", "key-canary")
    (tmp_path / "file").touch()
    ask(body("", 500), answers(GOOD), key_variable="MY_KEY", cache=tmp_path / "file")
    assert "could not be cached" in caplog.text
    assert "canary" not in caplog.text


def test_a_gate_takes_these_scorers_and_keeps_every_tool_where_one_fails() -> None:
    policy, payoff = ScoreAtLeast(0.5), Payoff(0.1)
    assert Gate(policy, BM25(), payoff).decide(TASK, TOOLS).kept == ("get_weather",)
    with endpoint(answers(GOOD), body("", 400)) as server:
        gate = Gate(policy, Necessity(server.url, "m"), payoff)
        assert gate.decide(TASK, TOOLS).kept == ("get_weather",)
        failed = gate.decide(f"{TASK} Or was it yesterday?", TOOLS)
    assert (failed.reason, failed.error, failed.tools) == ("scorer failed", "ScorerError", TOOLS)


# The cache


def test_the_cache_spares_the_second_call_and_holds_no_text(tmp_path: Path) -> None:
    with endpoint(answers(GOOD)) as server:
        scorer = Necessity(server.url, "m", cache=tmp_path)
        assert scorer(TASK, TOOLS) == scorer(TASK, TOOLS) == [0.9, 0.1]
        assert len(server.requests) == 1
        (entry,) = tmp_path.iterdir()
        assert json.loads(entry.read_text()) == {"scores": GOOD}
        scorer("Another task", TOOLS)
        scorer(TASK, [WEATHER, Tool("sendMail", "Changed.")])
        Necessity(server.url, "m", "conservative", cache=tmp_path)(TASK, TOOLS)
        Necessity(server.url, "m2", cache=tmp_path)(TASK, TOOLS)
        assert len(server.requests) == len(list(tmp_path.iterdir())) == 5


@pytest.mark.parametrize(
    "content", [b"", b'{"scores": {"get_wea', b"[]", b'{"scores": []}', b'{"scores": {"get_weather": 0.5}}', b"\xff",
                b'{"scores": {"get_weather": 5.0, "sendMail": 0.1}}',
                b'{"scores": {"get_weather": NaN, "sendMail": 1.0}}'],
)  # fmt: skip
def test_a_damaged_cache_entry_is_ignored_and_replaced(tmp_path: Path, content: bytes) -> None:
    with endpoint(answers(GOOD)) as server:
        scorer = Necessity(server.url, "m", cache=tmp_path)
        scorer(TASK, TOOLS)
        (entry,) = tmp_path.iterdir()
        entry.write_bytes(content)
        assert scorer(TASK, TOOLS) == [0.9, 0.1]
        assert len(server.requests) == 2
        assert json.loads(entry.read_text()) == {"scores": GOOD}


def test_refused_answers_are_not_cached(tmp_path: Path) -> None:
    refusal(answers({"get_weather": 85}), cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_threads_share_a_scorer_and_its_cache(tmp_path: Path) -> None:
    results: list[list[float]] = []
    with endpoint(answers(GOOD)) as server:
        scorer = Necessity(server.url, "m", cache=tmp_path)
        threads = [threading.Thread(target=lambda: results.append(scorer(TASK, TOOLS))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [[0.9, 0.1]] * 16
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
