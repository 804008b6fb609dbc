"""The LiteLLM adapter inside a real LiteLLM proxy process, over HTTP at both ends.

`ScriptedModel` stands in for the provider, because the local model of 135 million parameters never calls a tool on
purpose; what counts is the request that reaches it. One run goes through that local model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, pairwise
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth
from litellm_proxy import KEY, ROOT, running
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import camdf
from camdf.errors import UsageError
from camdf.gate import Gate, Guards, Privilege, Rollout
from camdf.gate.lists import allowed_choice
from camdf.integrations.litellm import MESSAGES, RESPONSES, SEARCHES, ToolGate
from camdf.tools import forced_tools
from golden import PAYOFF, VECTORS, golden_gate, openai_tool, overlap
from local_llm import local_llm
from pages import shows
from scripted import Call, ScriptedModel

TRIP = VECTORS[0]

CHAT = "acompletion"
GATING = """
from camdf.gate import Guards
from golden import golden_gate, overlap
from camdf.integrations.litellm import ToolGate

def fragile(task, tools):
    if "explode" in task:
        raise RuntimeError
    return overlap(task, tools)

gate_hook = ToolGate(golden_gate(fragile, guards=Guards(allow=lambda tool: tool.name != "forbidden")))
"""
sessions = (f"session-{number}" for number in count())


@dataclass
class Relay:
    """Forwards every request to the real model, and keeps the bodies."""

    target: str
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def serve(self) -> ThreadingHTTPServer:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                relay.bodies.append(json.loads(body))
                headers = {"Content-Type": "application/json"}
                asked = urllib.request.Request(relay.target + "/chat/completions", body, headers)
                with urllib.request.urlopen(asked, timeout=300) as answer:
                    data = answer.read()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@dataclass(frozen=True)
class Proxy:
    """A running proxy, the provider behind it, and the way to the real model."""

    url: str
    model: ScriptedModel
    relay: Relay

    def post(self, path: str, body: dict[str, Any], session: str | None = None, key: str = KEY) -> str:
        """The answer's text, whole or streamed."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        if session:
            headers["x-litellm-session-id"] = session
        asked = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return str(answer.read().decode())

    def seen(self) -> list[str]:
        """The tools of the last request that reached the provider, in order."""
        return self.model.tool_names(-1)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One process for all tests: it takes half a minute to start."""
    with ScriptedModel() as model:
        relay = Relay("")
        server = relay.serve()
        local = {"model": "openai/local", "api_base": f"http://127.0.0.1:{server.server_address[1]}/v1"}
        try:
            with running(tmp_path_factory.mktemp("proxy"), GATING, model.url, {"local": local}) as url:
                yield Proxy(url, model, relay)
        finally:
            server.shutdown()
            server.server_close()


def chat(task: str, tools: dict[str, str], model: str = "scripted") -> dict[str, Any]:
    offered = [openai_tool(name, text) for name, text in tools.items()]
    return {"model": model, "messages": [{"role": "user", "content": task}], "tools": offered}


def messages(task: str, tools: dict[str, str], model: str = "scripted") -> dict[str, Any]:
    schema = {"type": "object", "properties": {}}
    offered = [{"name": name, "description": text, "input_schema": schema} for name, text in tools.items()]
    return {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": task}], "tools": offered}


def responses(task: str, tools: dict[str, str], model: str = "scripted") -> dict[str, Any]:
    offered = [{"type": "function", **openai_tool(name, text)["function"]} for name, text in tools.items()]
    return {"model": model, "input": task, "tools": offered}


Ask = Callable[..., dict[str, Any]]
ENDPOINTS: dict[str, tuple[str, Ask, str]] = {
    "chat completions": ("/v1/chat/completions", chat, "scripted"),
    "messages to OpenAI": ("/v1/messages", messages, "scripted"),
    "messages to Anthropic": ("/v1/messages", messages, "claude"),
    "responses": ("/v1/responses", responses, "scripted"),
}
endpoint = pytest.mark.parametrize(("path", "ask", "model"), ENDPOINTS.values(), ids=ENDPOINTS)


def test_litellm_has_every_hook_that_the_adapter_relies_on() -> None:
    from litellm.constants import SESSION_ID_GENERATED_METADATA_KEY
    from litellm.types.utils import CallTypes

    expected = ["self", "user_api_key_dict", "cache", "data", "call_type"]
    assert list(inspect.signature(CustomLogger.async_pre_call_hook).parameters) == expected
    assert list(inspect.signature(ToolGate.async_pre_call_hook).parameters) == expected
    assert {CHAT, MESSAGES, RESPONSES} <= {each.value for each in CallTypes}
    assert SESSION_ID_GENERATED_METADATA_KEY == "litellm_session_id_generated"


def test_the_proxy_refuses_a_callback_that_only_looks_like_a_hook() -> None:
    from litellm.proxy.common_utils.callback_utils import _loaded_callback_or_raise

    class Duck:
        async_pre_call_hook = ToolGate.async_pre_call_hook

    with pytest.raises(ValueError, match="neither a CustomLogger instance nor a callable"):
        _loaded_callback_or_raise("gating.gate_hook", Duck())
    hook = ToolGate(golden_gate())
    assert _loaded_callback_or_raise("gating.gate_hook", hook) is hook


def test_the_proxy_skips_a_hook_that_is_only_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    from litellm.caching.caching import DualCache
    from litellm.proxy._types import UserAPIKeyAuth
    from litellm.proxy.utils import ProxyLogging

    class Inherits(ToolGate):
        pass

    kept = {}
    for kind in (ToolGate, Inherits):
        monkeypatch.setattr(litellm, "callbacks", [kind(golden_gate())])
        logging = ProxyLogging(user_api_key_cache=DualCache())
        data = chat(TRIP.task, TRIP.tools)
        found = asyncio.run(logging.pre_call_hook(UserAPIKeyAuth(api_key="k"), data, "acompletion"))
        kept[kind] = [tool["function"]["name"] for tool in found["tools"]]
    assert kept == {ToolGate: TRIP.kept, Inherits: list(TRIP.tools)}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@endpoint
def test_the_provider_gets_exactly_the_kept_tools_in_order(
    proxy: Proxy, path: str, ask: Ask, model: str, stream: bool
) -> None:
    for vector in VECTORS:
        answer = proxy.post(path, {**ask(vector.task, vector.tools, model), "stream": stream}, next(sessions))
        assert proxy.seen() == vector.kept, vector.task
        assert answer.startswith(("data:", "event:")) == stream
        if not stream or path != "/v1/messages" or model == "claude":  # its stream carries only deltas, we send none
            assert "done" in answer


def test_a_real_local_model_answers_with_the_kept_tools_on_the_wire(proxy: Proxy) -> None:
    tools = [openai_tool(name, text) for name, text in TRIP.tools.items()]
    with local_llm() as url:
        proxy.relay.target = url
        answer = litellm.completion(
            model="litellm_proxy/local",
            api_base=proxy.url,
            api_key=KEY,
            messages=[{"role": "user", "content": TRIP.task}],
            tools=tools,
            max_tokens=24,
            temperature=0,
            timeout=300,
        )
    assert [tool["function"]["name"] for tool in proxy.relay.bodies[-1]["tools"]] == TRIP.kept
    assert answer.usage.completion_tokens > 0


def ten_tasks() -> list[str]:
    return ([vector.task for vector in VECTORS if len(vector.tools) == len(TRIP.tools) and vector.task] * 2)[:10]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def with_history(body: dict[str, Any], history: list[dict[str, Any]]) -> dict[str, Any]:
    return {**body, "input" if "input" in body else "messages": history}


@endpoint
def test_ten_turns_of_a_conversation_never_lose_or_move_a_tool(proxy: Proxy, path: str, ask: Ask, model: str) -> None:
    body, history, lists = ask("", TRIP.tools, model), [], []
    for task in ten_tasks():
        history.append(user(task))
        proxy.post(path, with_history(body, history))
        history.append(said("done"))
        lists.append(json.dumps(proxy.model.requests[-1]["tools"])[:-1])
    assert len(lists) == 10
    assert all(later.startswith(earlier) for earlier, later in pairwise(lists))
    assert len(lists[-1]) > len(lists[0])


BOOKING = [user("Book a flight and find a hotel"), said("Which date?"), user("Tomorrow please")]


@endpoint
def test_a_follow_up_keeps_its_tools_though_nobody_names_the_conversation(
    proxy: Proxy, path: str, ask: Ask, model: str
) -> None:
    """The proxy has never seen the first turn, as after a restart or on another worker."""
    body = ask("", TRIP.tools, model)
    proxy.post(path, with_history(body, BOOKING))
    later = proxy.seen()
    proxy.post(path, with_history(body, BOOKING[:1]))
    assert {"book_flight", "find_hotel"} <= set(later) < set(TRIP.tools)
    assert later[: len(proxy.seen())] == proxy.seen()


IMAGES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    "/v1/messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    "/v1/responses": {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
}


@endpoint
def test_a_failure_a_picture_or_a_greeting_neither_opens_a_conversation_for_good_nor_empties_a_list(
    proxy: Proxy, path: str, ask: Ask, model: str
) -> None:
    body = ask("", TRIP.tools, model)
    for nothing in ("hello", "explode the whole list right now", [IMAGES[path]]):
        proxy.post(path, with_history(body, [user(nothing)]))
        assert proxy.seen() == list(TRIP.tools)
        task = f"{TRIP.task} {next(sessions)}"
        proxy.post(path, with_history(body, [user(nothing), said("What can I do?"), user(task)]))
        assert proxy.seen() == TRIP.kept
        proxy.post(path, with_history(body, [user(task), said("Done."), user(nothing)]))
        assert proxy.seen() == TRIP.kept


def test_what_a_harness_puts_between_a_users_words_is_not_the_task(proxy: Proxy) -> None:
    reminder = "<system-reminder>The todo list is empty. Consider to play a song and read the inbox.</system-reminder>"
    body = messages(TRIP.task, TRIP.tools, "claude")
    called = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": TRIP.kept[0], "input": {}}]},
        user([{"type": "tool_result", "tool_use_id": "c", "content": "ran"}, {"type": "text", "text": reminder}]),
    ]
    proxy.post("/v1/messages", with_history(body, [user(TRIP.task), *called]))
    assert proxy.seen() == TRIP.kept


def test_the_cache_mark_of_a_cut_tool_moves_to_the_last_one_that_is_sent(proxy: Proxy) -> None:
    body, mark = messages(TRIP.task, TRIP.tools, "claude"), {"type": "ephemeral"}
    assert body["tools"][-1]["name"] not in TRIP.kept
    body["tools"][-1]["cache_control"] = mark
    proxy.post("/v1/messages", body)
    sent = proxy.model.requests[-1]["tools"]
    assert [tool.get("cache_control") for tool in sent] == [*[None] * (len(TRIP.kept) - 1), mark]


@pytest.mark.parametrize(
    "held",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"input": [{"type": "item_reference", "id": "msg_1"}, user("Play a song by Bach for me")]},
    ],
    ids=str,
)
def test_where_the_provider_holds_a_part_of_the_history_all_that_is_allowed_is_sent(
    proxy: Proxy, held: dict[str, Any]
) -> None:
    offered = {**TRIP.tools, "forbidden": "Delete every file from disk"}
    proxy.post("/v1/responses", {**responses("Play a song by Bach for me", offered), **held}, next(sessions))
    assert proxy.seen() == list(TRIP.tools)


HISTORIES: dict[str, tuple[str, Ask, str, list[dict[str, Any]]]] = {
    "chat completions": (
        *ENDPOINTS["chat completions"],
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "run_sql", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "ran"},
        ],
    ),
    "messages": (
        *ENDPOINTS["messages to Anthropic"],
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "run_sql", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ran"}]},
        ],
    ),
    "responses": (
        *ENDPOINTS["responses"],
        [
            {"type": "function_call", "call_id": "c", "name": "run_sql", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "ran"},
        ],
    ),
}


@pytest.mark.parametrize(("path", "ask", "model", "later"), HISTORIES.values(), ids=HISTORIES)
def test_a_tool_that_the_history_has_called_stays(
    proxy: Proxy, path: str, ask: Ask, model: str, later: list[dict[str, Any]]
) -> None:
    body = ask(TRIP.task, TRIP.tools, model)
    proxy.post(path, with_history(body, [user(TRIP.task), *later]))
    assert proxy.seen() == [*TRIP.kept, "run_sql"]


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("chat completions", {"type": "function", "function": {"name": "run_sql"}}),
        ("messages to Anthropic", {"type": "tool", "name": "run_sql"}),
        ("responses", {"type": "function", "name": "run_sql"}),
        ("responses", {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "run_sql"}]}),
    ],
)
def test_a_forced_tool_stays(proxy: Proxy, name: str, choice: dict[str, Any]) -> None:
    path, ask, model = ENDPOINTS[name]
    proxy.post(path, {**ask(TRIP.task, TRIP.tools, model), "tool_choice": choice}, next(sessions))
    assert proxy.seen() == [*TRIP.kept, "run_sql"]


@pytest.mark.parametrize(
    ("name", "hosted"),
    [
        ("messages to Anthropic", {"type": "web_search_20250305", "name": "web_search"}),
        ("responses", {"type": "web_search"}),
    ],
)
def test_a_tool_that_the_provider_runs_passes(proxy: Proxy, name: str, hosted: dict[str, Any]) -> None:
    path, ask, model = ENDPOINTS[name]
    body = ask(TRIP.task, TRIP.tools, model)
    proxy.post(path, {**body, "tools": [hosted, *body["tools"]]}, next(sessions))
    assert proxy.seen() == ["web_search", *TRIP.kept]


@endpoint
def test_a_scorer_that_raises_leaves_the_whole_allowed_list(proxy: Proxy, path: str, ask: Ask, model: str) -> None:
    offered = {**TRIP.tools, "forbidden": "Delete every file from disk"}
    proxy.post(path, ask("explode the whole list right now", offered, model), next(sessions))
    assert proxy.seen() == list(TRIP.tools)


@endpoint
def test_a_call_to_a_cut_tool_reaches_the_client_and_is_offered_from_then_on(
    proxy: Proxy, path: str, ask: Ask, model: str
) -> None:
    """A proxy executes nothing: whether a tool that was not offered is run is the client's decision."""
    body = ask(TRIP.task, TRIP.tools, model)
    proxy.model.script = [Call("play_music")]
    answer = json.loads(proxy.post(path, body))
    assert "play_music" not in proxy.seen()
    if "choices" in answer:
        made = [answer["choices"][0]["message"]]
        assert made[0]["tool_calls"][0]["function"]["name"] == "play_music"
        done: dict[str, Any] = {"role": "tool", "tool_call_id": "call_play_music", "content": "ran"}
    elif "output" in answer:
        made = [{key: answer["output"][0][key] for key in ("type", "call_id", "name", "arguments")}]
        assert made[0]["name"] == "play_music"
        done = {"type": "function_call_output", "call_id": "call_play_music", "output": "ran"}
    else:
        made = [{"role": "assistant", "content": answer["content"]}]
        assert answer["content"][0]["name"] == "play_music"
        result = {"type": "tool_result", "tool_use_id": answer["content"][0]["id"], "content": "ran"}
        done = {"role": "user", "content": [result]}
    proxy.post(path, with_history(body, [user(TRIP.task), *made, done]))
    assert proxy.seen() == [*TRIP.kept, "play_music"]


FORBIDDEN = "Delete every file from disk"


def bringing(path: str, tools: dict[str, str]) -> dict[str, Any]:
    """A message by which tools join the history of a request, with words of the client's."""
    if path == "/v1/responses":
        return {"type": "additional_tools", "role": "developer", "tools": responses("", tools)["tools"]}
    definitions = [{"type": "tool_definition", "definition": each} for each in messages("", tools)["tools"]]
    blocks = [{"type": "tool_addition", "tool": each} for each in definitions]
    return {"role": "system", "content": [{"type": "text", "text": "Be brief."}, *blocks]}


@pytest.mark.parametrize("task", [TRIP.task, "explode the whole list right now"])
@endpoint
def test_no_history_brings_a_tool_to_the_provider_that_may_not_be_offered(
    proxy: Proxy, path: str, ask: Ask, model: str, task: str
) -> None:
    """Refused, with a definition of its own, and never offered: in a request with tools, and in one without any."""
    brought = {"forbidden": FORBIDDEN, "book_flight": FORBIDDEN, "delete_all": FORBIDDEN}
    body = with_history(ask(task, TRIP.tools, model), [user(task), bringing(path, brought), user(task)])
    body["tools"] += ask(task, {"forbidden": FORBIDDEN}, model)["tools"]
    for sent in (body, {**body, "tools": []}, {key: body[key] for key in body if key != "tools"}):
        proxy.post(path, sent, next(sessions))
        asked = json.dumps(proxy.model.requests[-1])
        assert FORBIDDEN not in asked
        assert "delete_all" not in asked
        assert ("Be brief." in asked) == (path != "/v1/responses")


@pytest.mark.parametrize("name", ["messages to Anthropic", "responses"])
def test_a_tool_that_may_be_offered_stays_in_a_history_as_it_came(proxy: Proxy, name: str) -> None:
    path, ask, model = ENDPOINTS[name]
    own = bringing(path, {"book_flight": TRIP.tools["book_flight"]})
    body = with_history(ask("", TRIP.tools, model), [user(TRIP.task), own, user(TRIP.task)])
    proxy.post(path, body, next(sessions))
    assert proxy.model.requests[-1]["input" if name == "responses" else "messages"][1] == own


def test_where_the_provider_holds_a_part_of_the_history_the_rest_brings_no_tool() -> None:
    own = bringing("/v1/responses", {"delete_all": FORBIDDEN})
    body = {**responses(TRIP.task, TRIP.tools), "input": [own, user(TRIP.task)], "previous_response_id": "resp_1"}
    assert hooked(ToolGate(golden_gate()), body, RESPONSES)["input"] == [user(TRIP.task)]


def test_where_the_provider_holds_a_part_of_the_history_only_what_is_free_is_forwarded() -> None:
    reading = next(iter(TRIP.tools))
    hook = ToolGate(golden_gate(privilege=Privilege({reading: "read"})))
    body = {**responses(TRIP.task, TRIP.tools), "previous_response_id": "resp_1"}
    assert [tool["name"] for tool in hooked(hook, body, RESPONSES)["tools"]] == [reading]


def hooked(hook: ToolGate, data: Any, call_type: str = CHAT) -> Any:
    return asyncio.run(hook.async_pre_call_hook(None, None, data, call_type))


def named(data: Any) -> list[str]:
    return [tool["function"]["name"] for tool in data["tools"]]


def test_a_session_picks_the_exploration_share_unless_the_proxy_makes_one_up_for_every_request() -> None:
    hook = ToolGate(golden_gate(rollout=Rollout(explore=0.5)))
    for made_up in (False, True):
        sides = []
        for number in range(40):
            metadata = {"session_id": f"session {number}", "litellm_session_id_generated": made_up}
            data = hooked(hook, {**chat(TRIP.task, TRIP.tools), "metadata": metadata})
            sides.append(named(data) == list(TRIP.tools))
        assert len(set(sides)) == (1 if made_up else 2)


def test_the_span_of_the_proxy_gets_the_decision() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    received = provider.get_tracer("proxy").start_span("Received Proxy Server Request")
    caller, data = UserAPIKeyAuth(api_key=KEY, parent_otel_span=received), chat(VECTORS[0].task, VECTORS[0].tools)
    asyncio.run(ToolGate(golden_gate()).async_pre_call_hook(caller, None, data, CHAT))
    received.end()
    (event,) = spans.get_finished_spans()[0].events
    assert event.name == "camdf.decision"
    assert event.attributes is not None
    assert event.attributes["camdf.kept"] == tuple(VECTORS[0].kept)


def test_nothing_of_a_conversation_is_remembered() -> None:
    hook = ToolGate(golden_gate())
    hooked(hook, {**chat("canary Book a flight", TRIP.tools), "litellm_session_id": "a"})
    assert not hook.gate.memory._kept


def test_allowed_tools_are_named_where_the_endpoint_can_and_the_list_stands() -> None:
    hook = ToolGate(golden_gate(mode="allow"))
    for call_type, ask in ((CHAT, chat), (MESSAGES, messages), (RESPONSES, responses)):
        body = ask(TRIP.task, TRIP.tools)
        data = hooked(hook, dict(body), call_type)
        assert data["tools"] == body["tools"]
        assert forced_tools(data.get("tool_choice")) == (TRIP.kept if call_type == RESPONSES else [])
        stricter = {"type": "function", "function": {"name": "run_sql"}}
        assert hooked(hook, {**body, "tool_choice": stricter}, call_type)["tool_choice"] == stricter
        assert "tool_choice" not in hooked(hook, ask("hello", TRIP.tools), call_type)


def test_litellm_refuses_a_choice_of_allowed_tools_in_chat_completions() -> None:
    from litellm.utils import validate_chat_completion_tool_choice

    with pytest.raises(litellm.BadRequestError, match="Invalid tool choice"):
        validate_chat_completion_tool_choice(allowed_choice(["a"], "auto", responses=False))


def test_the_providers_search_is_added_where_there_is_one_and_something_is_cut() -> None:
    hook = ToolGate(golden_gate(mode="defer"), search=True)
    for call_type, ask in ((MESSAGES, messages), (RESPONSES, responses)):
        first, *others = hooked(hook, ask(TRIP.task, TRIP.tools), call_type)["tools"]
        assert first == SEARCHES[call_type]
        assert {tool["name"] for tool in others if not tool.get("defer_loading")} == set(TRIP.kept)
        assert {tool["name"] for tool in others} == set(TRIP.tools)
        own = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
        body = ask(TRIP.task, TRIP.tools)
        kinds = [
            tool.get("type") for tool in hooked(hook, {**body, "tools": [own, *body["tools"]]}, call_type)["tools"]
        ]
        assert sum(str(kind).startswith("tool_search") for kind in kinds) == 1
        first, *others = hooked(hook, ask("hello", TRIP.tools), call_type)["tools"]
        assert first == SEARCHES[call_type], "nothing is decided, and the model can search"
        assert all(tool["defer_loading"] for tool in others)
        watching = ToolGate(golden_gate(mode="defer", rollout=Rollout(0.0)), search=True)
        assert hooked(watching, ask(TRIP.task, TRIP.tools), call_type)["tools"] == ask(TRIP.task, TRIP.tools)["tools"]
    body = chat(TRIP.task, TRIP.tools)
    assert hooked(hook, dict(body))["tools"] == body["tools"]
    with pytest.raises(UsageError, match="mode='defer'"):
        ToolGate(golden_gate(), search=True)


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "any"}])
def test_where_nothing_is_worth_it_all_that_is_allowed_is_sent(choice: Any) -> None:
    hook = ToolGate(
        Gate(camdf.ScoreAtLeast(2.0), overlap, PAYOFF, guards=Guards(allow=lambda tool: tool.name != "forbidden"))
    )
    offered = {**TRIP.tools, "forbidden": "Delete every file from disk"}
    data = hooked(hook, {**chat(TRIP.task, offered), "tool_choice": choice, "parallel_tool_calls": False})
    assert named(data) == list(TRIP.tools)
    assert data["tool_choice"] == choice


def test_where_every_tool_is_refused_no_empty_list_is_sent() -> None:
    """Providers refuse an empty list, and a choice among nothing."""
    hook = ToolGate(golden_gate(guards=Guards(allow=())))
    data = hooked(hook, {**chat(TRIP.task, TRIP.tools), "tool_choice": "required", "parallel_tool_calls": False})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(data)


@pytest.mark.parametrize(
    "odd",
    [
        {"messages": 5},
        {"messages": [None, 3, {"role": "user", "content": {"a": 1}}]},
        {"messages": [{"role": "assistant", "tool_calls": 5}]},
        {"metadata": "text"},
        {"tool_choice": {"tools": 7}},
        {"messages": [{"role": "user", "content": "\ud800"}]},
    ],
)
def test_a_request_that_makes_no_sense_never_raises_and_never_frees_a_forbidden_tool(odd: dict[str, Any]) -> None:
    hook = ToolGate(golden_gate(guards=Guards(allow=lambda tool: tool.name != "forbidden")))
    offered = {**TRIP.tools, "forbidden": "Delete every file from disk"}
    found = named(hooked(hook, {**chat("", offered), **odd}))
    assert set(found) <= set(TRIP.tools)
    assert found


@pytest.mark.parametrize("tools", [None, [], "text", {"a": 1}])
def test_a_request_without_a_list_of_tools_is_left_alone(tools: Any) -> None:
    data = {"messages": [], "tools": tools, "tool_choice": "auto"}
    assert hooked(ToolGate(golden_gate()), dict(data)) == data


def test_the_sdk_never_runs_the_hook_and_its_own_one_for_asynchronous_calls_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    class Own(ToolGate):
        async def async_pre_call_hook(self, *_: Any, **__: Any) -> Any:
            ran.append("proxy's hook")

        async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:
            ran.append("deployment hook")

    monkeypatch.setattr(litellm, "callbacks", [Own(golden_gate())])
    with ScriptedModel() as model:
        settings = {**chat(TRIP.task, TRIP.tools, "openai/scripted"), "api_base": model.url, "api_key": "none"}
        litellm.completion(**settings)
        assert ran == []
        asyncio.run(litellm.acompletion(**settings))
        assert ran == ["deployment hook"]
        assert model.tool_names(0) == model.tool_names(1) == list(TRIP.tools)


def test_a_base_install_of_litellm_fails_on_tools_so_the_extra_asks_for_the_proxy() -> None:
    body = chat(TRIP.task, TRIP.tools, "openai/scripted")
    with ScriptedModel() as model:
        code = f"""
import sys
sys.modules["mcp"] = None
import litellm
litellm.completion(**{body!r}, api_base={model.url!r}, api_key="none", num_retries=0)
"""
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode != 0
    assert "mcp" in found.stderr
    assert 'litellm = ["litellm[proxy]' in (ROOT / "pyproject.toml").read_text()


def test_litellms_own_filter_skips_messages_and_function_tools() -> None:
    from litellm.proxy.hooks.mcp_semantic_filter.hook import SemanticToolFilterHook

    class Filter:
        enabled, asked, top_k = True, False, 10

        def extract_user_query(self, messages: Any) -> str:
            return "task"

        def extract_tool_info(self, tool: Any) -> tuple[str, str]:
            return tool["function"]["name"], ""

        async def filter_tools(self, query: str, available_tools: Sequence[Any]) -> list[Any]:
            self.asked = True
            return []

    own = Filter()
    hook = SemanticToolFilterHook(own)
    for call_type, body in (("acompletion", chat), ("anthropic_messages", messages), ("aresponses", responses)):
        data = body(TRIP.task, TRIP.tools)
        asyncio.run(hook.async_pre_call_hook(None, None, data, call_type))
        assert len(data["tools"]) == len(TRIP.tools)
    assert not own.asked


def test_the_page_shows_what_the_example_prints() -> None:
    assert shows(ROOT / "docs" / "integrations" / "litellm.md", ROOT / "examples" / "with_litellm" / "run.py")
