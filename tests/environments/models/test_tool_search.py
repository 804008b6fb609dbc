"""The tool search used by a real model: SmolLM2-135M, which uses it badly, behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from camdf import Payoff, TopShare
from camdf.gate import Gate
from camdf.gate.tool_search import CALL, FIND, TOOL_SEARCH, ToolCall, listing, meant, query_of
from camdf.scorers import BM25
from camdf.tools import Tool
from everyday import catalogue
from local_llm import local_llm

TOOLS = list(catalogue("40")[0])
ASKED = [{"role": "user", "content": "Play some quiet jazz on the speaker in the living room."}]


def written(url: str, messages: list[dict[str, Any]], tool: Tool) -> dict[str, Any]:
    """The arguments that the model writes for a tool: its server knows no tools of this model, but it knows schemas."""
    body = {
        "model": "local",
        "messages": messages,
        "max_tokens": 160,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": tool.name, "schema": tool.schema}},
    }
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        content = json.load(answer)["choices"][0]["message"]["content"]
    try:
        found = json.loads(content)
    except ValueError:  # it went on until it was cut off
        found = {}
    return dict(found) if isinstance(found, Mapping) else {}


def test_a_small_model_searches_and_calls_through_the_search_and_nothing_breaks() -> None:
    gate = Gate(TopShare(0.1), BM25(), Payoff(0.02))
    decision = gate.decide(ASKED, TOOLS, tool_search=True)
    assert decision.cut
    listed = ", ".join([*decision.kept, *(tool.name for tool in TOOL_SEARCH)])
    messages: list[dict[str, Any]] = [{"role": "system", "content": f"Your tools: {listed}."}, *ASKED]
    with local_llm() as url:
        query = query_of(written(url, messages, FIND))
        answer = listing(gate.find(query, TOOLS), TOOLS)
        messages += [{"role": "assistant", "content": f"{FIND.name}({query!r})"}, {"role": "user", "content": answer}]
        call = written(url, messages, CALL)
        read = meant(call, {tool["function"]["name"]: tool for tool in TOOLS})
    assert query
    assert answer.startswith(("[{", "No tool matches."))
    assert isinstance(read, ToolCall) or read
    print(f"asked {query!r}, was answered {len(answer)} characters, called {call}: {read}")
    later = gate.decide(
        [*ASKED, {"role": "assistant", "tool_calls": [{"function": {"name": CALL.name}}]}], TOOLS, tool_search=True
    )
    assert later.tools == decision.tools
