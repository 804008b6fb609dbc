"""A real LiteLLM proxy that has the URL of a real service in its configuration, and none of our Python."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import litellm_proxy
import pytest
from proxied import CLIENTS, SEARCHES, TOKEN, Proxied, in_anthropics_shape, play, proxied

from everyday import Conversation, catalogue, promises_broken_by, sampled

TASK = "What is the weather in Graz tomorrow? Put a reminder into my calendar."
TOOLS = catalogue("40")[0][:20]
ALL = [tool["function"]["name"] for tool in TOOLS]
PATHS = pytest.mark.parametrize("path", CLIENTS)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    """One proxy for all tests: it takes half a minute to start."""
    with proxied(tmp_path_factory.mktemp("proxied")) as found:
        yield found


@pytest.mark.parametrize(("path", "conversation"), sampled(list(CLIENTS)), ids=lambda each: getattr(each, "name", each))
def test_an_everyday_conversation_keeps_every_promise(there: Proxied, path: str, conversation: Conversation) -> None:
    """Whole and streamed it has the same lists, and with the search nothing is out of reach of a list that stands."""
    plain, streamed = (play(there, path, conversation, stream=stream, searches=False) for stream in (False, True))
    assert promises_broken_by(plain) == []
    assert [each.bytes for each in plain.served] == [each.bytes for each in streamed.served]
    searching = play(there, path, conversation, stream=True, searches=True)
    assert promises_broken_by(searching) == []
    assert searching.out_of_reach == []
    assert conversation.summary_after is not None or len({each.bytes for each in searching.served}) == 1


def asked(path: str, task: str) -> dict[str, Any]:
    """A request in the shape of an endpoint."""
    functions = [tool["function"] for tool in TOOLS]
    said = [{"role": "user", "content": task}]
    if path == "/v1/chat/completions":
        return {"model": "scripted", "messages": said, "tools": list(TOOLS)}
    if path == "/v1/responses":
        return {"model": "scripted", "input": said, "tools": [{"type": "function", **each} for each in functions]}
    tools = [in_anthropics_shape(each) for each in functions]
    return {"model": "claude", "max_tokens": 50, "messages": said, "tools": tools}


def sent(there: Proxied, path: str, task: str = TASK, headers: Mapping[str, str] = {}, **more: Any) -> list[str]:
    """The tools that reached the model, once the client had its answer."""
    before = len(there.stage.requests)
    content = json.dumps({**asked(path, task), **more}).encode()
    head = {"Content-Type": "application/json", "Authorization": f"Bearer {litellm_proxy.KEY}", **headers}
    with urllib.request.urlopen(urllib.request.Request(there.url + path, content, head), timeout=60) as answer:
        assert answer.read()
    assert len(there.stage.requests) == before + 1
    return there.stage.tool_names(-1)


def decided(there: Proxied, task: str = TASK, *, searches: bool = False) -> list[str]:
    """The tools that the service itself answers."""
    question = {"messages": [{"role": "user", "content": task}], "tools": list(TOOLS), "tool_search": searches}
    decision = there.service.decide(question, Authorization=f"Bearer {TOKEN}")
    return [tool["function"]["name"] for tool in (*decision["tools"], *decision.get("search", []))]


@PATHS
def test_the_model_gets_what_v1_decide_keeps_and_only_a_client_that_says_so_the_search(
    there: Proxied, path: str
) -> None:
    kept = decided(there)
    assert 0 < len(kept) < len(ALL)
    if path == "/v1/responses":  # where LiteLLM keeps the order of the request
        kept.sort(key=ALL.index)
    assert sent(there, path) == kept
    assert sent(there, path, headers=SEARCHES) == decided(there, searches=True)
    assert sent(there, path, "hello") == ALL


@PATHS
def test_where_every_tool_is_refused_the_proxy_refuses_the_request(there: Proxied, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        sent(there, path, guardrails=["refused"])
    assert refusal.value.code == 400


def test_a_tool_that_the_provider_runs_passes_and_a_cache_mark_moves(there: Proxied) -> None:
    path = "/v1/messages"
    tools = asked(path, TASK)["tools"]
    mark = {"type": "ephemeral"}
    tools[-1]["cache_control"] = mark
    hosted = {"type": "code_execution_20250522", "name": "code_execution"}
    kept = sent(there, path, tools=[hosted, *tools])
    assert kept == ["code_execution", *decided(there)]
    marks = [tool.get("cache_control") for tool in there.stage.requests[-1]["tools"]]
    assert marks == [*[None] * (len(kept) - 1), mark]


def test_what_the_page_says_a_guardrail_is_not_shown(there: Proxied) -> None:
    """A forced tool, a response that stands elsewhere, and a history that brings tools."""
    kept = decided(there)
    cut = next(name for name in ALL if name not in kept)
    choice = {"type": "function", "function": {"name": cut}}
    assert sent(there, "/v1/chat/completions", tool_choice=choice) == kept
    in_order = sorted(kept, key=ALL.index)
    assert sent(there, "/v1/responses", previous_response_id="resp_1") == in_order
    function = {"type": "function", "name": "delete_all", "description": "Delete everything.", "parameters": {}}
    bringing = {"type": "additional_tools", "role": "developer", "tools": [function]}
    said = {"role": "user", "content": TASK}
    assert sent(there, "/v1/responses", input=[said, bringing, said]) == in_order
    assert bringing in there.stage.requests[-1]["input"]


def test_litellm_itself_drops_anthropics_web_search_where_any_guardrail_is_asked(there: Proxied) -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    tools = [hosted, *asked("/v1/messages", TASK)["tools"]]
    assert sent(there, "/v1/messages", "hello", tools=tools) == ALL


def test_while_the_service_hangs_and_once_it_is_killed_every_tool_goes_on_and_no_traffic_stops(
    there: Proxied,
) -> None:
    """LiteLLM's own default refuses every request. This is the last test of the file: nobody is left to ask."""
    kept = sent(there, "/v1/messages")
    assert kept != ALL
    os.kill(there.service.process.pid, signal.SIGSTOP)
    assert sent(there, "/v1/messages") == ALL
    os.kill(there.service.process.pid, signal.SIGCONT)
    assert sent(there, "/v1/messages") == kept
    there.service.kill()
    for path in CLIENTS:
        for stream in (False, True):
            assert sent(there, path, stream=stream) == ALL
