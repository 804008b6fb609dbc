"""The loops of docs/own-loop.md, through the real clients of OpenAI and Anthropic, against a scripted model."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from scripted import Call, ScriptedModel

PAGE = (Path(__file__).parents[3] / "docs" / "own-loop.md").read_text(encoding="utf-8")
CLIENTS: dict[str, Callable[[str], Any]] = {
    "chat": lambda url: OpenAI(base_url=url, api_key="none"),
    "respond": lambda url: OpenAI(base_url=url, api_key="none"),
    "message": lambda url: Anthropic(base_url=url.removesuffix("/v1"), api_key="none"),
}


def programs() -> dict[str, Any]:
    """What the page defines."""
    found: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.S | re.M):
        exec(block, found)
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_a_tool_that_was_cut_is_found_and_runs_with_the_arguments_that_the_model_wrote(name: str) -> None:
    page, ran = programs(), list[Any]()

    def run(tool: str, arguments: dict[str, Any]) -> str:
        ran.append((tool, arguments))
        return "ran"

    page["run"] = run
    script = [
        Call("find_tool", {"query": "rate a concert"}),
        Call("call_tool", {"name": "rate_concert", "arguments": {"place": "Oslo"}}),
        Call("call_tool", '{"name": "rate_concert", "arguments": {"pla'),
        Call("call_tool", {"name": "cancel_restaurant", "arguments": {"place": "Lyon"}}),
    ]
    if name == "message":  # Anthropic's client has no arguments that are cut off
        del script[2]
    with ScriptedModel(script) as model, CLIENTS[name](model.url) as client:
        assert page[name](client, "a-model", "Please cancel the restaurant in Lyon") == "done"
        lists = [model.tool_names(number) for number in range(len(model.requests))]
        sent = [str(request) for request in model.requests]
    assert ran == [("rate_concert", {"place": "Oslo"}), ("cancel_restaurant", {"place": "Lyon"})]
    assert len(lists) == len(script) + 1
    assert all(each == lists[0] for each in lists)
    assert {"cancel_restaurant", "rate_concert"}.isdisjoint(lists[0])
    assert lists[0][-2:] == ["find_tool", "call_tool"]
    assert all(request.count("More tools, through call_tool:") == 1 for request in sent)
    assert all("- cancel_restaurant(place: string): Cancel a restaurant in a place." in request for request in sent)
