"""Thirty everyday conversations through a real LiteLLM proxy, whose hook is rebuilt as the way of serving says.

A proxy takes half a minute to start, so the workers of one process stand for processes: each has a gate and a hook of
its own, and the client alone holds the history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from litellm_proxy import KEY, running
from staged import Stage, begins_anew, post

from everyday import WAYS, Conversation, Played, Turn, conversations, promises_broken_by, sampled

GATING = """
from itertools import count
from litellm.integrations.custom_logger import CustomLogger
from camdf import Payoff, cold_start
from camdf.gate import Gate
from camdf.integrations.litellm import ToolGate
from camdf.scorers import BM25

def built():
    return ToolGate(Gate(cold_start(), BM25(), Payoff(0.02)))

class Workers(CustomLogger):
    '''As many hooks as a request asks for, in turn; for none, one that is built for this request alone.'''

    def __init__(self):
        super().__init__()
        self.hooks, self.requests = {1: [built()], 2: [built(), built()]}, count()

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        hooks = self.hooks.get(int(data.pop("user")), [built()])
        hook = hooks[next(self.requests) % len(hooks)]
        return await hook.async_pre_call_hook(user_api_key_dict, cache, data, call_type)

gate_hook = Workers()
"""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def proxy(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("proxy"), GATING, stage.url) as url:
        yield url


def chat(url: str, model: Played, turn: Turn, history: list[dict[str, Any]], workers: int) -> None:
    """One turn of chat completions."""
    choice: Any = {"type": "function", "function": {"name": turn.tool_choice}} if turn.tool_choice else "auto"
    history.append({"role": "user", "content": turn.content})
    while True:
        body = {"messages": history, "tools": model.conversation.tools, "tool_choice": choice}
        answer = sent(f"{url}/v1/chat/completions", body, workers)["choices"][0]["message"]
        history.append({key: answer[key] for key in ("role", "content", "tool_calls") if key in answer})
        if not answer.get("tool_calls"):
            return
        choice = "auto"
        for call in answer["tool_calls"]:
            result = model.result(call["function"]["name"])
            history.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def messages(url: str, model: Played, turn: Turn, history: list[dict[str, Any]], workers: int) -> None:
    """One turn of Anthropic's messages."""
    functions = [tool["function"] for tool in model.conversation.tools]
    tools = [
        {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
        for each in functions
    ]
    choice = {"type": "tool", "name": turn.tool_choice} if turn.tool_choice else {"type": "auto"}
    history.append({"role": "user", "content": anthropic_parts(turn.content)})
    while True:
        body = {"max_tokens": 50, "model": "claude", "messages": history, "tools": tools, "tool_choice": choice}
        answer = sent(f"{url}/v1/messages", body, workers)["content"]
        history.append({"role": "assistant", "content": answer})
        calls = [part for part in answer if part["type"] == "tool_use"]
        if not calls:
            return
        choice = {"type": "auto"}
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": model.result(call["name"])} for call in calls
        ]
        history.append({"role": "user", "content": results})


def responses(url: str, model: Played, turn: Turn, history: list[dict[str, Any]], workers: int) -> None:
    """One turn of OpenAI's Responses, whose input holds the whole history."""
    tools = [{"type": "function", **tool["function"]} for tool in model.conversation.tools]
    choice: Any = {"type": "function", "name": turn.tool_choice} if turn.tool_choice else "auto"
    history.append({"role": "user", "content": responses_parts(turn.content)})
    while True:
        answer = sent(f"{url}/v1/responses", {"input": history, "tools": tools, "tool_choice": choice}, workers)
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        if not calls:
            history.append({"role": "assistant", "content": answer["output"][0]["content"][0]["text"]})
            return
        choice = "auto"
        for call in calls:
            history.append({key: call[key] for key in ("type", "call_id", "name", "arguments")})
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": model.result(call["name"])}
            history.append(result)


def sent(url: str, body: dict[str, Any], workers: int) -> Any:
    return post(url, {"model": "scripted", **body, "user": str(workers)}, Authorization=f"Bearer {KEY}")


def anthropic_parts(content: Any) -> Any:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    if isinstance(content, str):
        return content or [{"type": "text", "text": " "}]
    return [part if part["type"] == "text" else image for part in content]


def responses_parts(content: Any) -> Any:
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    if isinstance(content, str):
        return content
    return [{"type": "input_text", "text": part["text"]} if part["type"] == "text" else image for part in content]


def played(stage: Stage, url: str, conversation: Conversation, take: Callable[..., None], workers: int) -> Played:
    model, history = stage.play(conversation), []
    for turn in conversation.turns:
        if begins_anew(conversation, turn.number):
            history = [{"role": "user", "content": conversation.summary}, {"role": "assistant", "content": "I see."}]
        model.begin(turn)
        take(url, model, turn, history, workers)
    return model


@pytest.mark.parametrize("conversation", sampled(), ids=lambda each: each.name)
def test_whichever_worker_serves_sends_the_same_bytes_and_keeps_every_promise(
    stage: Stage, proxy: str, conversation: Conversation
) -> None:
    lists = []
    for workers in WAYS.values():
        model = played(stage, proxy, conversation, chat, workers)
        assert promises_broken_by(model) == []
        lists.append([each.bytes for each in model.served])
    assert lists[0] == lists[1] == lists[2]
    names = [each.tools for each in model.served]
    for take in (messages, responses) if len(conversation.tools) < 100 else ():  # long lists take the proxy long
        assert [each.tools for each in played(stage, proxy, conversation, take, 0).served] == names, take.__name__


def test_the_model_sees_a_short_list_of_a_long_catalogue(stage: Stage, proxy: str) -> None:
    long = next(each for each in conversations() if len(each.tools) == 400)
    assert len(json.loads(played(stage, proxy, long, chat, 1).served[-1].bytes)) < 100
