"""The peers on everyday requests and conversations, beside `Gate.start`: what is loaded, and what it costs in dollars.

Of tests/data/everyday: requests over 40 and over 400 tools, and thirty conversations. A peer answers each turn by the
turn's own text, with its defaults. What it chose reaches the model in one of three ways:

    anew       a filter: the list holds what was chosen for this turn, so most turns rewrite the cached prompt
    answered   a search: the answer has the definitions, and they stay among the messages
    joined     a search: what it found joins the list, which rewrites the cached prompt

A peer that is searched is searched once in each turn that calls a tool which no search has found yet. `bill` of
benchmarks/cache.py prices the prompts: what is the same as in the call before is read from the cache at 0.1 of the
price of a token, the rest is written at 1.25 of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peer_calls import PEERS, Asked, MiniLM

from camdf.gate import Gate, Limits
from camdf.scorers import Embeddings, Fusion, Start
from camdf.tools import view

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "parts"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from cache import LISTS, Played, bill, called, play
from conversations import decided

from everyday import Conversation, catalogue, conversations, examples, played, requests

EVERYDAY = "everyday"
SIZES = ("40", "400")
PRICE = 3.0
READ = 0.1
WRITE = 1.25
"""Dollars for a million tokens, and the parts of it for those that a cache has and for those that are written."""

REACHES = {
    "fastmcp-bm25": "answered",
    "graph-tool-call": "answered",
    "graph-tool-call-minilm": "answered",
    "haystack": "joined",
    "litellm": "anew",
    "minilm": "anew",
    "semantic-router-1": "anew",
    "toolhunch": "joined",
    "toolsieve": "answered",
}
OURS = ("camdf", "camdf-minilm", "camdf-examples")
SEARCH = [
    json.dumps({"name": name, "description": text, "parameters": {"type": "object", "properties": fields}})
    for name, text, fields in (
        ("search_tools", "Search the tools that are not listed, in words.", {"query": {"type": "string"}}),
        ("call_tool", "Call a tool.", {"name": {"type": "string"}, "arguments": {"type": "object"}}),
    )
]
"""The two tools of a search, about as short as they come."""


def everyday_answers(name: str, minilm: MiniLM) -> dict[str, Any]:
    """By list: where the last needed tool of each request stands, and what every conversation comes to.

    `everyday/SIZE/NAME/worst` has the place from 0, -1 where a needed tool is nowhere. `.../talks` has for each
    conversation its dollars, its turns with signal, those whose needed tools were all there at once, and those that had
    them after one search.
    """
    arrays: dict[str, Any] = {}
    if name not in (*REACHES, *OURS):
        return arrays
    for size in SIZES:
        asked = [request for request in requests() if request.size == size and request.needed]
        talks = [talk for talk in conversations() if len(talk.tools) == int(size)]
        if name in PEERS:
            tools = tuple(map(view, catalogue(size)[0]))
            peer = PEERS[name]([Asked("", tools, {}, {})], minilm)
            rankings = [peer(Asked(request.text, tools, {}, {})).whole for request in asked]
            rows = []
            for talk in talks:
                texts = [said(turn.content) for turn in talk.turns]
                chosen = [peer(Asked(text, tools, {}, {})).default if text else () for text in texts]
                rows.append(conversation(talk, chosen, REACHES[name]))
        else:
            given = examples(size) if name == "camdf-examples" else None
            both = None
            if name == "camdf-minilm":
                both = Fusion([Start(), Embeddings(minilm)], "mean", weights=[1, 2])
            gate = Gate.start(catalogue(size)[0], scorer=both, examples=given, limits=Limits(seconds=None))
            rankings = [[tool.name for tool in gate.decide(request.text, request.tools).ranking] for request in asked]
            rows = [gated(talk, gate) for talk in talks]
            whole = f"{EVERYDAY}/{size}/everything/"
            arrays[f"{whole}talks"] = np.array([gated(talk, None) for talk in talks], np.float32)
            arrays[f"{whole}worst"] = np.zeros(len(asked), np.int16)
        worst = [worst_place(ranking, request.needed) for ranking, request in zip(rankings, asked, strict=True)]
        arrays[f"{EVERYDAY}/{size}/{name}/worst"] = np.array(worst, np.int16)
        arrays[f"{EVERYDAY}/{size}/{name}/talks"] = np.array(rows, np.float32)
    return arrays


def said(content: Any) -> str:
    """The text of a turn."""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content).strip()


def worst_place(ranking: Sequence[str], needed: Sequence[frozenset[str]]) -> int:
    """Where the last needed tool stands; of tools that serve alike, the first counts."""
    places = [[place for place, name in enumerate(ranking) if name in alike] for alike in needed]
    return max(alike[0] for alike in places) if all(places) else -1


def dollars(prompts: list[list[str]]) -> float:
    return bill(Played(prompts, 0.0, 0, 0, 0), READ, WRITE) / 4 * PRICE / 1e6


def conversation(talk: Conversation, chosen: Sequence[Sequence[str]], reaches: str) -> list[float]:
    """A conversation in which a peer chose these tools for each turn."""
    definitions = {view(tool).name: json.dumps(tool, ensure_ascii=False) for tool in talk.tools}
    history: list[Any] = [{"role": "system", "content": talk.system}]
    prompts: list[list[str]] = []
    known: list[str] = []
    turns = 0
    at_once = 0
    after_one = 0
    for turn, names in zip(talk.turns, chosen, strict=True):
        history.append({"role": "user", "content": turn.content})
        if reaches == "anew":
            known = list(names)
        turns += turn.signal
        at_once += turn.signal and turn.needed <= {*known}
        after_one += turn.signal and turn.needed <= {*known, *names}
        answers = iter(played(turn)[1:])
        searched = reaches == "anew"
        for message in answers:
            prompts.append(_prompt(known, definitions, history, reaches))
            wanted = {called(call) for call in message.get("tool_calls", ())}
            if not searched and not wanted <= {*known}:
                more = [name for name in names if name not in known]
                answer = [definitions[name] if reaches == "answered" else name for name in more]
                history.append({"role": "assistant", "content": f"search_tools({said(turn.content)!r})"})
                history.append({"role": "tool", "content": "\n".join(answer)})
                known = [*known, *more]
                searched = True
                prompts.append(_prompt(known, definitions, history, reaches))
            history += [message, *(next(answers) for _ in message.get("tool_calls", ()))]
    return [dollars(prompts), turns, at_once, after_one]


def _prompt(known: Sequence[str], definitions: dict[str, str], history: Sequence[Any], reaches: str) -> list[str]:
    said_so_far = [json.dumps(message, ensure_ascii=False) for message in history]
    listed = [definitions[name] for name in known]
    if reaches == "anew":
        return [*listed, *said_so_far]
    if reaches == "answered":
        return [*SEARCH, *said_so_far]
    return [*SEARCH, *listed, *said_so_far]


def gated(talk: Conversation, gate: Gate | None) -> list[float]:
    """A conversation behind `Gate.start`, or one that has every tool."""
    mode = "no gate" if gate is None else LISTS
    prompts = play(mode, list(talk.tools), talk.turns, talk.system, None, gate).prompts
    signal = [turn for turn in talk.turns if turn.signal]
    if gate is None:
        return [dollars(prompts), len(signal), len(signal), len(signal)]
    at_once = 0
    after_one = 0
    for turn, kept in decided(gate, talk, True):
        first = [view(tool).name for tool in gate.find(said(turn.content), talk.tools)]
        at_once += turn.signal and turn.needed <= kept
        after_one += turn.signal and turn.needed <= {*kept, *first}
    return [dollars(prompts), len(signal), at_once, after_one]
