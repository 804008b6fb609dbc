"""What may not be offered reaches the model in no way: by the list, by a history or by the tool search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camdf import Gate, Payoff
from camdf.gate import Guards, Limits, Rollout
from camdf.gate.append import AuthorizedTools
from camdf.gate.lists import anthropic, mcp, openai, openai_responses
from camdf.gate.notes import line, with_note, without_note
from camdf.gate.tool_search import listing
from camdf.policies.rules import TopK
from camdf.tools import Tool, view

NAMES = ("send_email", "book_flight", "play_music", "find_hotel", "get_weather")
FORGED = ("delete_all", "wire_money")
CLAUDE, GPT = "claude-opus-5", "gpt-5.6"
MODES = ("drop", "append", "defer", "allow", "shadow")
ASKED = ("Please write to Kim about the plan for next week", "Now we fly to Rome, the two of us, on Friday morning")
SERVER = "intranet"


def tool(name: str, more: str = "") -> Tool:
    return Tool(name, f"Tool to {name.replace('_', ' ')}.{more}", {"type": "object", "properties": {}})


def stale(name: str) -> Tool:
    return tool(name, " As it was before.")


def words(task: str, tools: Any) -> list[float]:
    return [float(len(task) % (2 + place)) for place, _ in enumerate(tools)]


def broken(task: str, tools: Any) -> list[float]:
    raise RuntimeError


class Entry(NamedTuple):
    """A tool as a history brings it to the model."""

    kind: str
    name: str
    is_current: bool = True

    @property
    def tool(self) -> Tool:
        return tool(self.name) if self.is_current else stale(self.name)

    @property
    def block(self) -> dict[str, Any]:
        if self.kind == "definition":
            told: dict[str, Any] = {"type": "tool_definition", "definition": anthropic(self.tool)}
        else:
            told = {"type": "tool_reference", "name": self.name}
        return {"type": "tool_removal" if self.kind == "removal" else "tool_addition", "tool": told}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def item(entries: Sequence[Entry]) -> dict[str, Any] | None:
    written = [openai_responses(entry.tool) for entry in entries]
    return {"type": "additional_tools", "role": "developer", "tools": written} if entries else None


def blocks(entries: Sequence[Entry]) -> dict[str, Any] | None:
    return {"role": "system", "content": [entry.block for entry in entries]} if entries else None


def among_text(entries: Sequence[Entry]) -> dict[str, Any]:
    text = [{"type": "text", "text": words} for words in ("Be brief.", "Be kind.")]
    return {"role": "system", "content": [text[0], *(entry.block for entry in entries), text[1]]}


def of_a_user(entries: Sequence[Entry]) -> dict[str, Any]:
    return user([{"type": "text", "text": "Go on."}, *(entry.block for entry in entries)])


def compacted(entries: Sequence[Entry]) -> dict[str, Any]:
    changes = [entry.block for entry in entries]
    return {"role": "assistant", "content": [{"type": "compaction", "content": "Sum.", "tool_changes": changes}]}


def found_by_anthropic(entries: Sequence[Entry]) -> dict[str, Any]:
    found = {"type": "tool_search_tool_search_result", "tool_references": [_referred(entry) for entry in entries]}
    result = {"type": "tool_search_tool_result", "tool_use_id": "s", "content": found}
    return {"role": "assistant", "content": [result]}


def found_by_the_client(entries: Sequence[Entry]) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": "s", "content": [_referred(entry) for entry in entries]}
    return user([result])


def noted(entries: Sequence[Entry]) -> dict[str, Any]:
    return dict(with_note(user("Go on."), list(dict.fromkeys(line(tool(entry.name)) for entry in entries))))


def noted_otherwise(entries: Sequence[Entry]) -> dict[str, Any]:
    """A note in other words, or of tools that nobody has: only what the gate itself says of a tool is sent."""
    return dict(with_note(user("Go on."), [line(stale(entry.name)) for entry in entries]))


def _referred(entry: Entry) -> dict[str, Any]:
    return {"type": "tool_reference", "tool_name": entry.name}


BRINGING = {
    "definition": (item, blocks, among_text, of_a_user, compacted),
    "reference": (blocks, among_text, compacted),
    "removal": (blocks, among_text, compacted),
    "found": (found_by_anthropic, found_by_the_client),
    "note": (noted, noted_otherwise),
}
"""By kind of entry, what brings it."""

SHAPES = (lambda native: native, openai, openai_responses, anthropic, mcp)


class Case(NamedTuple):
    """A request: its tools by name, who may offer what, and a history that brings tools."""

    tools: dict[str, Any]
    guards: dict[str, Any]
    chosen: dict[str, Any]
    model: str
    history: list[tuple[Any, Sequence[Entry]]]

    @property
    def messages(self) -> list[Any]:
        return [bring(entries) if callable(bring) else bring for bring, entries in self.history]

    def is_authorized(self, name: str) -> bool:
        allow, digests = self.guards.get("allow"), self.guards.get("digests")
        allowed = name in self.tools and (allow is None or name in allow)
        return allowed and (digests is None or digests.get(name) == view(self.tools[name]).digest())

    def stays(self, entry: Entry) -> bool:
        return self.is_authorized(entry.name) and (entry.kind != "definition" or entry.is_current)

    @property
    def entries(self) -> Iterator[Entry]:
        return (entry for _, entries in self.history for entry in entries)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    shape = draw(st.sampled_from(SHAPES))
    tools = {name: shape(tool(name)) for name in names}
    some = st.lists(st.sampled_from(NAMES), unique=True)
    guards: dict[str, Any] = {"pinned": draw(some)}
    if draw(st.booleans()):
        guards["allow"] = draw(some)
    if draw(st.booleans()):
        reviewed = {name: draw(st.sampled_from((tool(name), stale(name)))) for name in draw(some)}
        guards["digests"] = {name: view(shape(each)).digest() for name, each in reviewed.items()}
    chosen: dict[str, Any] = {
        "mode": draw(st.sampled_from(MODES)),
        "scorer": draw(st.sampled_from((words, broken))),
        "tool_search": draw(st.booleans()),
        "limits": draw(st.sampled_from((Limits(), Limits(cached_prefix=0), Limits(tools=1)))),
    }
    if chosen["mode"] != "shadow":
        chosen["rollout"] = draw(st.sampled_from((Rollout(), Rollout(0.0), Rollout(off=True))))
    history: list[tuple[Any, Sequence[Entry]]] = []
    for text in ASKED[: draw(st.integers(1, 2))]:
        history += [
            (user(text), ()),
            *draw(st.lists(brought(), max_size=3)),
            ({"role": "assistant", "content": ""}, ()),
        ]
    history += draw(st.lists(brought(), max_size=1))
    return Case(tools, guards, chosen, draw(st.sampled_from((CLAUDE, GPT, ""))), history)


@st.composite
def brought(draw: st.DrawFn) -> tuple[Any, Sequence[Entry]]:
    kind = draw(st.sampled_from(list(BRINGING)))
    one = st.builds(Entry, st.just(kind), st.sampled_from(NAMES + FORGED), st.booleans())
    return draw(st.sampled_from(BRINGING[kind])), draw(st.lists(one, min_size=1, max_size=3))


def gate_of(case: Case) -> Gate:
    chosen = {**case.chosen, "guards": Guards(**case.guards)}
    return Gate(TopK(1), chosen.pop("scorer"), Payoff(0.0), **chosen)


@settings(deadline=None)
@given(cases())
def test_no_tool_reaches_the_model_that_may_not_be_offered_and_every_other_stays_as_it_came(case: Case) -> None:
    gate, tools = gate_of(case), list(case.tools.values())
    decision = gate.decide(case.messages, tools, model=case.model)
    sent = decision.messages(case.messages)

    expected: list[Any] = []
    joining = {addition.after: addition for addition in decision.appended}
    for place, (bring, entries) in enumerate(case.history):
        as_written = noted if bring is noted_otherwise else bring
        message = as_written([entry for entry in entries if case.stays(entry)]) if callable(bring) else bring
        if place in joining and decision.channel == "note":
            said, lines = without_note(message)
            message = with_note(said, [*lines, *[line(tool(key)) for key in joining[place].keys]])
        expected += [] if message is None else [message]
        if place in joining and decision.channel is not None and decision.channel != "note":
            expected.append(decision.authorized.joining(joining[place], decision.channel))
    assert sent == expected
    assert decision.messages(sent) == sent
    assert gate_of(case).decide(sent, tools, model=case.model).messages(sent) == sent

    for entry in case.entries:
        if not case.is_authorized(entry.name):
            assert entry.name in decision.refused
        elif not case.stays(entry):
            assert f"{entry.name}#2" in decision.refused
    assert not {*decision.refused} & {*decision.kept, *decision.cut}

    found = gate.find("Tool to do", tools)
    reached = json.dumps([list(map(anthropic, [*decision.tools, *decision.search, *found])), sent, decision.hidden])
    answers = [gate.answer({"name": "find_tool", "input": {"query": asked}}, tools) for asked in ("Tool", *NAMES, "?")]
    reached += json.dumps([gate.names(tools), listing(found), *(answer.text for answer in answers)])
    for name in {*NAMES, *FORGED}:
        if not case.is_authorized(name):
            assert name not in reached
            assert name.replace("_", " ") not in reached
    assert "As it was before" not in reached


@settings(deadline=None)
@given(cases())
def test_where_the_tools_cannot_be_read_a_history_brings_none(case: Case) -> None:
    def tools() -> Iterator[Any]:
        raise RuntimeError
        yield

    decision = gate_of(case).decide(case.messages, tools(), model=case.model)
    messages = (bring([]) if callable(bring) else bring for bring, _ in case.history)
    assert decision.messages(case.messages) == [message for message in messages if message is not None]
    sent = gate_of(case).decide(case.messages, [*case.tools.values(), Raising()], model=case.model)
    assert not {entry.name for entry in case.entries} & {*FORGED} - {*sent.refused}


class Raising:
    """A tool of which nothing can be read."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


REFERENCES: list[dict[str, Any]] = [
    {"type": "mcp_list_tools", "id": "l", "server_label": SERVER, "tools": [{"name": "a", "input_schema": {}}]},
    {"role": "assistant", "content": [{"type": "mcp_tool_listing", "mcp_server_name": SERVER, "tools": []}]},
    {
        "role": "system",
        "content": [
            {"type": "tool_addition", "tool": {"type": "mcp_toolset_reference", "server_name": SERVER}},
            {"type": "tool_addition", "tool": {"type": "mcp_tool_reference", "server_name": SERVER, "name": "a"}},
        ],
    },
]


@pytest.mark.parametrize("message", REFERENCES)
def test_what_a_hosted_server_lists_stays_as_long_as_the_server_may_be_offered(message: dict[str, Any]) -> None:
    history = [user(ASKED[0]), message, user(ASKED[1])]
    for hosted in ({"type": "mcp", "server_label": SERVER}, {"type": "mcp_toolset", "mcp_server_name": SERVER}):
        for allow, stays in ((None, True), (["send_email"], False), ([view(hosted).name], True)):
            gate = Gate(TopK(1), words, Payoff(0.0), guards=Guards(allow=allow))
            sent = gate.decide(history, [hosted, tool("send_email")]).messages(history)
            assert sent == (history if stays else [history[0], history[2]])
    decision = Gate(TopK(1), words, Payoff(0.0)).decide(history, [tool("send_email")])
    assert decision.messages(history) == [history[0], history[2]]
    assert decision.refused == (SERVER,)


def searched(*tools: Any) -> dict[str, Any]:
    return {"type": "tool_search_output", "call_id": "s", "execution": "server", "tools": list(tools)}


def test_what_a_search_of_openai_found_is_the_definition_that_the_request_has() -> None:
    own = openai_responses(tool("send_email"))
    space = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [own, {**own, "name": "b"}]}
    gate = Gate(TopK(1), words, Payoff(0.0), mode="defer")
    tools = [own, space, {"type": "tool_search"}]

    def sent(*found: Any) -> list[Any]:
        decision = gate.decide([user(ASKED[0])], tools)
        (answer,) = decision.messages([searched(*found)])
        return list(answer["tools"])

    assert sent({**own, "defer_loading": True}) == [{**own, "defer_loading": True}]
    assert sent(openai_responses(stale("send_email"))) == [own]
    assert sent(openai_responses(tool("delete_all"))) == []
    part = {**space, "tools": [{**own, "defer_loading": True}]}
    assert sent(part) == [part]
    assert sent({**space, "tools": [openai_responses(tool("delete_all"))]}) == [space]


MALFORMED: list[Any] = [
    {"role": "system", "content": [{"type": "tool_addition"}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": None}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": "delete_all"}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "delete_all"}}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": 5}}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": ["tool_reference"], "name": "a"}}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": ["a"]}}]},
    {"role": "system", "content": ({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "a"}},)},
    {"role": "system", "content": {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "a"}}},
    {"type": "additional_tools", "tools": [None]},
    {"type": "additional_tools", "tools": ["delete_all"]},
    {"type": "additional_tools", "tools": {"name": "delete_all"}},
    {
        "type": "additional_tools",
        "tools": [{"name": "send_email", "description": "b", "parameters": {}, "function": 1}],
    },
    {"type": "additional_tools", "tools": [{"name": "send_email", "input_schema": {}, "parameters": {}}]},
    {"type": "mcp_list_tools", "server_label": ["a"], "tools": []},
]


@pytest.mark.parametrize("message", MALFORMED)
def test_an_addition_that_cannot_be_read_is_left_out_and_said(message: Any) -> None:
    history = [user(ASKED[0]), message]
    decision = Gate(TopK(1), words, Payoff(0.0)).decide(history, [tool("send_email")])
    assert decision.messages(history) == history[:1]
    assert decision.refused


@pytest.mark.parametrize(
    "message", [None, 5, "text", {}, {"role": "user"}, {"content": 5}, {"content": [5, None, "a"]}]
)
def test_a_message_that_brings_no_tool_is_sent_as_it_came(message: Any) -> None:
    assert Gate(TopK(1), words, Payoff(0.0)).decide([message], [tool("a")]).messages([message]) == [message]
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "delete_all"}}]}
    assert AuthorizedTools().sendable([call]).messages == [call]


def test_a_definition_that_a_tool_has_no_more_joins_anew_as_it_is_now() -> None:
    """Nothing of the old one is left, and the conversation has the tool."""
    name, history = "book_flight", [user("Please send an email to Kim"), user("Now book a flight to Rome, please")]

    def by_words(task: str, tools: Any) -> list[float]:
        return [float(sum(word in task.lower() for word in each.name.split("_"))) for each in tools]

    for model in (CLAUDE, GPT):
        gate = Gate(TopK(1), by_words, Payoff(0.0), mode="append", tool_search=True, limits=Limits(cached_prefix=0))
        before = gate.decide(history, [tool("send_email"), stale(name)], model=model).messages(history)
        assert "As it was before" in json.dumps(before)
        later = [*before, {"role": "assistant", "content": "Done."}, user("Thank you very much for all of that")]
        decision = gate.decide(later, [tool("send_email"), tool(name)], model=model)
        sent = json.dumps(decision.messages(later))
        assert "As it was before" not in sent
        assert sent.count("Tool to book flight") == 1
        assert decision.joined == ("send_email", name)


def test_what_a_decision_refuses_for_its_size_no_search_names_or_runs() -> None:
    huge = tool("play_music", "x" * 300_000)
    gate = Gate(TopK(1), words, Payoff(0.0), tool_search=True)
    assert gate.decide([user(ASKED[0])], [tool("a"), huge]).refused == ("play_music",)
    assert gate.may_be_offered([tool("a"), huge]) == [tool("a")]
    assert gate.names([tool("a"), huge]) == "a"
    assert "play_music" not in gate.answer({"name": "find_tool", "input": {"query": "?"}}, [tool("a"), huge]).text
    assert gate.answer({"name": "call_tool", "input": {"name": "play_music", "arguments": {}}}, [huge]).run is None


ANY_SHAPE = st.sampled_from(SHAPES)


@pytest.mark.parametrize("name", ["find_tool", "call_tool"])
@pytest.mark.parametrize("shown", [False, True])
def test_where_a_tool_has_the_name_of_the_search_nothing_is_cut_and_the_decision_says_why(
    name: str, shown: bool
) -> None:
    tools, task = [*map(tool, NAMES), tool(name)], [user(ASKED[0])] if shown else ASKED[0]
    for mode in ("drop", "append"):
        gate = Gate(TopK(1), words, Payoff(0.0), mode=mode, tool_search=True)
        before = gate.decide(task, tools[:-1], conversation="a")
        assert before.cut
        decision = gate.decide(task, tools, conversation="a", model=CLAUDE)
        assert decision.tools == tools
        assert not decision.cut
        assert not decision.search
        assert (decision.reason, decision.open) == ("name taken", True)
        assert repr(name) in decision.error
        assert name in decision.explain()
        assert gate.decide(task, tools[:-1], conversation="a").kept == before.kept, "nothing of it is remembered"
        assert gate.decide(task, tools, tool_search=False).reason == "decided"
        refusing = Gate(TopK(1), words, Payoff(0.0), mode=mode, tool_search=True, guards=Guards(allow=NAMES))
        assert refusing.decide(task, tools).reason == "decided", "a tool that may not be offered takes no name"
    assert Gate(TopK(1), words, Payoff(0.0), tool_search=True, mode="allow").decide(task, tools).reason == "decided"


TALKS: list[Any] = [
    "Send a mail",
    [user("Send a mail")],
    [{"type": "function_call", "name": "send_email", "call_id": "c", "arguments": "{}"}, user("Again, please")],
]


@pytest.mark.parametrize("talk", TALKS)
@given(ANY_SHAPE)
def test_a_call_with_task_and_tools_swapped_cuts_nothing_and_says_so(talk: Any, shape: Any) -> None:
    gate = Gate(TopK(1), words, Payoff(0.0), tool_search=True, guards=Guards(allow=NAMES))
    listed = [shape(tool(name)) for name in (*NAMES, "delete_all")]
    for tools in (listed, {"mail": listed}):
        decisions = [gate.decide(tools, talk), asyncio.run(gate.adecide(tools, talk))]  # type: ignore[arg-type]
        decisions.append(gate.decide_scored(tools, talk, [1.0] * len(listed)))  # type: ignore[arg-type]
        for decision in decisions:
            assert decision.tools == listed[:-1]
            assert (decision.reason, decision.cut, decision.refused) == ("arguments swapped", (), ("delete_all",))
            assert "decide(task, tools)" in decision.error
        with pytest.warns(UserWarning, match="swapped"):
            assert gate.find(tools, talk) == []  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="swapped"):
            assert asyncio.run(gate.afind(tools, talk)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("tools", [[], "", [user("a")], [None], [{"role": "tool", "name": "a", "description": "b"}]])
@pytest.mark.parametrize("task", ["a", [], [user("a")], None, {"role": "user"}])
def test_a_call_that_is_not_swapped_is_not_said_to_be(task: Any, tools: Any) -> None:
    assert Gate(TopK(1), words, Payoff(0.0)).decide(task, tools).reason != "arguments swapped"
