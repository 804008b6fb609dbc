"""What a LiteLLM proxy is told by the service: its own words, and the decision of `/v1/decide`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import camdf
from camdf.policies.models.membership import LIST_COLUMNS
from running_service import SECONDS, Answer, Running, folder_of, running
from saying import says
from small_sets import knowing, model

PATH = "/beta/litellm_basic_guardrail_api"
TOKEN = "a-token-of-more-than-sixteen-characters"
CONFIGURATION = """
[server]
port = 0
log_decisions = true
token_variable = "TOKEN"

[gate]
mean_tools = 2
allow_cuts_without_search = true

[routes.guessing]
allow_cuts_without_search = false

[routes.watched]
mode = "shadow"

[routes.named]

[routes.noted]
mode = "append"
limits.cached_prefix = 0

[routes.listed]
guards.allow = ["search_flights", "play_music", "create_ticket"]

[routes.refused]
guards.allow = []

[routes.nothing]
policy = "needs-none.json"
cost_pressure = 0.1
scorer = "start"
scorer_mismatch = "allow"
unset = ["mean_tools"]
guards.allow = ["search_flights", "play_music"]
"""
DESCRIPTIONS = {
    "search_flights": "Search flights between two cities.",
    "book_flight": "Book a flight for a passenger.",
    "play_music": "Play a song or a playlist.",
    "create_ticket": "Open a ticket.",
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object"}}}
    for name, text in DESCRIPTIONS.items()
]
TASK = [{"role": "user", "content": "Search flights from Oslo to Rome and book a flight"}]
BEST = ["search_flights", "book_flight"]
SEARCH = ["find_tool", "call_tool"]
SEARCHES = {"x-camdf-tool-search": "[present]"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = folder_of(tmp_path_factory.mktemp("litellm") / "served", CONFIGURATION)
    camdf.save(knowing(model(none=(60.0, 0.0, *(0.0,) * len(LIST_COLUMNS)))), folder / "needs-none.json")
    with running(folder, settings={"TOKEN": TOKEN}) as found:
        yield found


def asked(service: Running, route: str = "", headers: dict[str, str] | None = None, **more: Any) -> Answer:
    """One question as the proxy asks it, with the fields that nobody here reads."""
    body = {
        "input_type": "request",
        "litellm_call_id": "call",
        "litellm_trace_id": "trace",
        "structured_messages": TASK,
        "images": None,
        "tools": TOOLS,
        "texts": [TASK[0]["content"]],
        "request_data": {"user_api_key_alias": None},
        "request_headers": headers or {},
        "litellm_version": "1.106.2",
        "additional_provider_specific_params": {"route": route},
        "tool_calls": None,
        "model": "gpt-4",
    }
    return service.ask(PATH, {**body, **more}, headers={"x-api-key": TOKEN})


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return [tool["function"]["name"] for tool in answer.body.get("tools", [])]


def test_the_proxy_gets_the_tools_that_v1_decide_keeps_as_it_sent_them(service: Running) -> None:
    question = {"messages": TASK, "tools": TOOLS, "tool_search": False}
    kept = service.decide(question, Authorization=f"Bearer {TOKEN}")["tools"]
    answer = asked(service)
    assert answer.body == {"action": "GUARDRAIL_INTERVENED", "tools": kept}
    assert names(answer) == BEST


def test_only_a_client_that_says_so_gets_the_search(service: Running) -> None:
    assert names(asked(service, headers={"x-litellm-session-id": "one"})) == BEST
    assert names(asked(service, headers=SEARCHES)) == [*BEST, *SEARCH]


def test_a_policy_without_labels_cuts_for_nobody_who_cannot_search_unless_that_is_allowed(service: Running) -> None:
    assert asked(service, "guessing").body == {"action": "NONE"}
    assert names(asked(service, "guessing", SEARCHES)) == [*BEST, *SEARCH]


def test_notes_join_the_messages_of_a_client_that_answers_call_tool_and_of_no_other(service: Running) -> None:
    noted = asked(service, "noted", SEARCHES)
    assert names(noted) == SEARCH
    (message,) = noted.body["structured_messages"]
    assert message["content"].startswith(TASK[0]["content"])
    assert says(message["content"], "call_tool")
    assert says(message["content"], "book_flight")
    plain = asked(service, "noted")
    assert names(plain) == BEST
    assert "structured_messages" not in plain.body


def test_where_no_tool_may_be_offered_the_request_is_blocked_and_not_sent_with_all(service: Running) -> None:
    assert asked(service, "refused").body["action"] == "BLOCKED"


def test_an_empty_choice_is_the_whole_list_of_those_that_may_be_offered(service: Running) -> None:
    """LiteLLM ignores an empty list, so it would send what is refused, too."""
    question = {"messages": TASK, "tools": TOOLS, "tool_search": False, "route": "nothing"}
    assert service.decide(question, Authorization=f"Bearer {TOKEN}")["tools"] == []
    assert names(asked(service, "nothing")) == ["search_flights", "play_music"]


def test_what_may_not_be_offered_is_left_out_in_every_mode(service: Running) -> None:
    greeting = [{"role": "user", "content": "hello"}]
    found = asked(service, "listed", structured_messages=greeting)
    assert names(found) == ["search_flights", "play_music", "create_ticket"]
    assert asked(service, "watched").body == {"action": "NONE"}


@pytest.mark.parametrize("more", [{"tools": None}, {"tools": []}, {"input_type": "response"}])
def test_what_has_no_tools_to_choose_from_passes(service: Running, more: dict[str, Any]) -> None:
    assert asked(service, **more).body == {"action": "NONE"}


def test_a_message_that_brings_a_tool_which_may_not_be_offered_is_changed(service: Running) -> None:
    definition = {"name": "delete_all", "description": "Delete everything", "input_schema": {"type": "object"}}
    addition = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    bringing = {"role": "system", "content": [{"type": "text", "text": "Be brief."}, addition]}
    answer = asked(service, structured_messages=[*TASK, bringing, *TASK])
    changed = [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}]
    assert answer.body["structured_messages"] == [*TASK, *changed, *TASK]


def test_a_trace_names_a_conversation_where_a_header_of_the_client_has_it(service: Running) -> None:
    """LiteLLM makes up another one at every request, by which a conversation would change sides."""
    for headers, named in (({}, False), ({"x-litellm-session-id": "trace"}, True)):
        asked(service, "named", headers)
        attributes: dict[str, Any] = {}
        while attributes.get("camdf.route") != "named":
            attributes = json.loads(service.lines.get(timeout=SECONDS))["attributes"]
        assert attributes["camdf.named"] is named


def test_what_a_configuration_declares_wrongly_is_refused_by_name(service: Running) -> None:
    answer = asked(service, additional_provider_specific_params={"rout": "watched"})
    assert answer.status == 422
    assert says(answer.body["error"], "rout")
    assert asked(service, "there is none").status == 404
    kept = asked(service, additional_provider_specific_params={"keep": ["play_music"]})
    assert "play_music" in names(kept)


def test_a_token_is_taken_from_x_api_key_and_only_where_there_is_no_authorization(service: Running) -> None:
    body = {"input_type": "request"}
    assert service.ask(PATH, body).status == 401
    assert service.ask(PATH, body, headers={"x-api-key": "wrong"}).status == 401
    both = {"x-api-key": TOKEN, "Authorization": "Bearer wrong"}
    assert service.ask(PATH, body, headers=both).status == 401
