"""Everyday conversations through a LiteLLM proxy that has nothing but the URL of a service."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import litellm_proxy
import yaml
from anthropic import Anthropic
from openai import OpenAI

from everyday import Conversation, Played
from running_service import Running, folder_of
from running_service import running as running_service
from scripted import ScriptedModel, Step

CONFIGURATION = """
[server]
port = 0
token_variable = "CAMDF_TOKEN"

[gate]
mode = "append"
allow_cuts_without_search = true
limits.seconds = 60

[routes.refused]
guards.allow = []
"""
TOKEN = "a token for the tests alone"
SEARCHES = {"x-camdf-tool-search": "true"}


def guardrail(url: str, **further: Any) -> dict[str, Any]:
    """What docs/integrations/litellm.md tells to write into the proxy's configuration."""
    page = (litellm_proxy.ROOT / "docs" / "integrations" / "litellm.md").read_text("utf-8")
    (block,) = re.findall(r"^```yaml\n(guardrails:.*?)^```", page, flags=re.M | re.S)
    (shown,) = yaml.safe_load(block)["guardrails"]
    params = {**shown["litellm_params"], "api_base": url, "api_key": "os.environ/CAMDF_TOKEN", **further}
    return {**shown, "litellm_params": params}


class Stage(ScriptedModel):
    """The model behind the proxy: the one of the conversation that is played now, or one that says 'done'."""

    playing: Played | None = None

    def answer(self, body: dict[str, Any]) -> Step | int:
        if self.playing is None:
            return super().answer(body)
        return self.playing.answer(body)


class Proxied(NamedTuple):
    """A proxy, the model behind it and the service that it asks."""

    url: str
    stage: Stage
    service: Running


@contextmanager
def proxied(folder: Path) -> Iterator[Proxied]:
    """A proxy in front of a scripted model, which asks a service."""
    token = {"CAMDF_TOKEN": TOKEN}
    with Stage() as stage, running_service(folder_of(folder / "served", CONFIGURATION), settings=token) as service:
        of_page = guardrail(service.url, timeout=10)  # a shared machine may be slow
        refused = guardrail(service.url, additional_provider_specific_params={"route": "refused"}, default_on=False)
        guardrails = [of_page, {**refused, "guardrail_name": "refused"}]
        with litellm_proxy.running(folder, "", stage.url, guardrails=guardrails, variables=token) as url:
            yield Proxied(url, stage, service)


class Call(NamedTuple):
    """A call of the model, and as the client has it."""

    id: str
    name: str
    native: dict[str, Any]


class Client(ABC):
    """One that keeps its history itself."""

    def __init__(self, url: str, system: str, tools: Sequence[dict[str, Any]], *, stream: bool, searches: bool) -> None:
        self.history: list[dict[str, Any]] = []
        self.system = system
        self.functions = [tool["function"] for tool in tools]
        self.stream = stream
        headers = SEARCHES if searches else {}
        self.sdk = self.connected(url, api_key=litellm_proxy.KEY, max_retries=0, default_headers=headers)

    @staticmethod
    def connected(url: str, **settings: Any) -> Any:
        """OpenAI's client of a proxy."""
        return OpenAI(base_url=f"{url}/v1", **settings)

    @property
    @abstractmethod
    def tools(self) -> list[dict[str, Any]]:
        """All that there are, as this client sends them."""

    @abstractmethod
    def say(self, content: Any) -> None:
        """Add a turn of the user's."""

    @abstractmethod
    def ask(self, forced: str | None) -> list[Call]:
        """Send all, and keep what the model says; its calls."""

    @abstractmethod
    def tell(self, results: dict[str, str]) -> None:
        """Add what calls came to, by id."""


class ChatClient(Client):
    """OpenAI's, for chat completions."""

    tools = property(lambda self: [{"type": "function", "function": each} for each in self.functions])

    def say(self, content: Any) -> None:
        self.history.append({"role": "user", "content": content})

    def ask(self, forced: str | None) -> list[Call]:
        more: dict[str, Any] = {}
        if forced:
            more["tool_choice"] = {"type": "function", "function": {"name": forced}}
        messages = [{"role": "system", "content": self.system}, *self.history]
        request: dict[str, Any] = {"model": "scripted", "messages": messages, "tools": self.tools, **more}
        if self.stream:
            with self.sdk.chat.completions.stream(**request) as events:
                said = events.until_done().get_final_completion()
        else:
            said = self.sdk.chat.completions.create(**request)
        message = said.choices[0].message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True)
        self.history.append({"content": None, **message})
        made = message.get("tool_calls") or []
        return [Call(call["id"], call["function"]["name"], call) for call in made]

    def tell(self, results: dict[str, str]) -> None:
        self.history += [{"role": "tool", "tool_call_id": key, "content": text} for key, text in results.items()]


class MessagesClient(Client):
    """Anthropic's."""

    @staticmethod
    def connected(url: str, **settings: Any) -> Any:
        return Anthropic(base_url=url, **settings)

    tools = property(lambda self: [in_anthropics_shape(each) for each in self.functions])

    def say(self, content: Any) -> None:
        if isinstance(content, list):
            content = [_anthropic_part(part) for part in content]
        self.history.append({"role": "user", "content": content})

    def ask(self, forced: str | None) -> list[Call]:
        request: dict[str, Any] = {"model": "claude", "max_tokens": 50, "system": self.system}
        request |= {"messages": self.history, "tools": self.tools}
        if forced:
            request["tool_choice"] = {"type": "tool", "name": forced}
        if self.stream:
            with self.sdk.messages.stream(**request) as events:
                said = events.get_final_message()
        else:
            said = self.sdk.messages.create(**request)
        kept = {"text": {"type", "text"}, "tool_use": {"type", "id", "name", "input"}}
        blocks = [block.model_dump(include=kept[block.type]) for block in said.content]
        self.history.append({"role": "assistant", "content": blocks})
        return [Call(block["id"], block["name"], block) for block in blocks if block["type"] == "tool_use"]

    def tell(self, results: dict[str, str]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": key, "content": text} for key, text in results.items()]
        self.history.append({"role": "user", "content": blocks})


class ResponsesClient(Client):
    """OpenAI's, for responses."""

    tools = property(lambda self: [{"type": "function", **each} for each in self.functions])

    def say(self, content: Any) -> None:
        if isinstance(content, list):
            content = [_response_part(part) for part in content]
        self.history.append({"role": "user", "content": content})

    def ask(self, forced: str | None) -> list[Call]:
        request: dict[str, Any] = {"model": "scripted", "instructions": self.system, "store": False}
        request |= {"input": self.history, "tools": self.tools}
        if forced:
            request["tool_choice"] = {"type": "function", "name": forced}
        said = self.sdk.responses.create(**request, stream=self.stream)
        if self.stream:
            (said,) = [event.response for event in said if event.type == "response.completed"]
        items = [item.model_dump(exclude_none=True) for item in said.output]
        calls = [
            {key: item[key] for key in ("type", "call_id", "name", "arguments")}
            for item in items
            if item["type"] == "function_call"
        ]
        texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
        self.history += [{"role": "assistant", "content": text} for text in texts] + calls
        return [Call(call["call_id"], call["name"], call) for call in calls]

    def tell(self, results: dict[str, str]) -> None:
        for key, text in results.items():
            self.history.append({"type": "function_call_output", "call_id": key, "output": text})


def in_anthropics_shape(function: dict[str, Any]) -> dict[str, Any]:
    """A function of OpenAI's as Anthropic's clients send it."""
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


def _anthropic_part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return part
    kind, data = part["image_url"]["url"].removeprefix("data:").split(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _response_part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "detail": "auto", "image_url": part["image_url"]["url"]}


CLIENTS: dict[str, type[Client]] = {
    "/v1/chat/completions": ChatClient,
    "/v1/messages": MessagesClient,
    "/v1/responses": ResponsesClient,
}


def play(there: Proxied, path: str, conversation: Conversation, *, stream: bool, searches: bool) -> Played:
    """A whole conversation through the proxy; what reached its model."""
    with Played(conversation) as model:
        there.stage.playing = model
        system = conversation.system
        client = CLIENTS[path](there.url, system, conversation.tools, stream=stream, searches=searches)
        for turn in conversation.turns:
            model.begin(turn)
            client.say(turn.content)
            forced = turn.tool_choice
            while calls := client.ask(forced):
                forced = None
                client.tell({call.id: _result(there, client, model, call, searches) for call in calls})
            if turn.number == conversation.summary_after:
                client.history = []
                client.system = f"{system}\n{conversation.summary}"
        client.sdk.close()
    there.stage.playing = None
    return model


def _result(there: Proxied, client: Client, model: Played, call: Call, searches: bool) -> str:
    """What a call comes to; a client that says it answers `call_tool` asks the service what was meant."""
    if not searches:
        return model.result(call.name)
    asked = {"call": call.native, "tools": client.tools}
    meant = there.service.ask("/v1/answer", asked, headers={"Authorization": f"Bearer {TOKEN}"})
    assert meant.status == 200, meant
    if meant.body["run"] is None:
        return str(meant.body["text"])
    return model.result(meant.body["run"]["name"])
