"""Thirty everyday conversations, played to whoever serves them, and what must hold of every request.

`Played` is the model of one conversation on loopback: it calls what the script calls, through the tool search where a
tool is not on the list that it was sent. A test of an adapter sends the user's turns in its framework's own way:

    with Played(conversation) as model:
        for turn in conversation.turns:
            model.begin(turn)
            ...  # send turn.content with the history so far, to model.url
    found = model.served
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from camdf.datasets.examples import Example, read_examples
from scripted import Call, ScriptedModel, Step

WAYS = {"one worker": 1, "two workers in turn": 2, "a restart before every turn": 0}
"""Ways to serve a conversation, and how many workers are built for it; 0 where one is built for every turn."""

DATA = Path(__file__).parents[1] / "data" / "everyday"
FIND, CALL = "find_tool", "call_tool"


@dataclass(frozen=True)
class Turn:
    """One turn of the user, and what the assistant then does."""

    number: int
    content: Any
    """Text, or parts as OpenAI's chat messages have them."""

    signal: bool
    needed: frozenset[str]
    """Names on the wire."""

    tool_choice: str | None
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    """One for every call of the steps, in order."""


@dataclass(frozen=True)
class Conversation:
    """One conversation over one list of tools."""

    name: str
    language: str
    system: str
    tools: tuple[dict[str, Any], ...]
    """OpenAI functions; a name that stands on two servers is written `server__name`."""

    turns: tuple[Turn, ...]
    summary_after: int | None
    """After this turn, all so far is replaced by one system message."""

    summary: str

    def before(self, number: int) -> list[dict[str, Any]]:
        """The history before a turn as chat messages, each call by its own name: for those who keep it themselves."""
        begins = 0 if self.summary_after is None or number <= self.summary_after else self.summary_after + 1
        messages: list[dict[str, Any]] = [{"role": "system", "content": self.system}]
        if begins:
            messages.append({"role": "system", "content": self.summary})
        for turn in self.turns[begins:number]:
            messages += played(turn)
        return messages


def played(turn: Turn, loaded: Collection[str] | None = None) -> list[dict[str, Any]]:
    """A whole turn as chat messages: what the user said, the assistant did and the tools answered.

    Where it is said which tools were `loaded`, the others were called through the tool search.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": turn.content}]
    results = iter(turn.results)
    for place, step in enumerate(turn.steps):
        if isinstance(step, str):
            messages.append({"role": "assistant", "content": step})
            continue
        calls = [
            (f"call_{turn.number}_{place}_{index}", call)
            for index, call in enumerate((step,) if isinstance(step, Call) else step)
        ]
        if loaded is not None:
            calls = [(key, call if call.name in loaded else through_the_search(call)) for key, call in calls]
        made = [
            {"id": key, "type": "function", "function": {"name": call.name, "arguments": call.text}}
            for key, call in calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": made})
        messages += [{"role": "tool", "tool_call_id": key, "content": next(results)} for key, _ in calls]
    return messages


def through_the_search(call: Call) -> Call:
    """The call of a tool that is not on the list."""
    return Call(CALL, {"name": call.name, "arguments": call.arguments})


class Served(NamedTuple):
    """One request that reached the model."""

    turn: Turn
    tools: tuple[str, ...]
    """Names of the tools that are loaded, in order, without the tool search's."""

    deferred: frozenset[str]
    """Names that the provider's own search reaches."""

    tool_search: bool
    bytes: str
    """The list of tools as it came."""


@dataclass
class Played(ScriptedModel):
    """The model of one conversation."""

    conversation: Conversation
    served: list[Served] = field(default_factory=list)
    out_of_reach: list[tuple[int, str]] = field(default_factory=list)
    """Turn and tool, where the script calls one that is neither on the list nor behind a tool search."""

    def __post_init__(self) -> None:
        super().__init__()
        self._results: dict[str, list[str]] = {}

    def begin(self, turn: Turn) -> None:
        """The user's turn that is sent next."""
        self.turn = turn
        self._left: list[Step] = list(turn.steps)
        results = iter(turn.results)
        for step in turn.steps:
            for call in () if isinstance(step, str) else (step,) if isinstance(step, Call) else step:
                self._results.setdefault(call.name, []).append(next(results))

    def result(self, name: str) -> str:
        """What a tool answers when it is run."""
        waiting = self._results.get(name)
        return waiting.pop(0) if waiting else "ok"

    def answer(self, body: dict[str, Any]) -> Step:
        with self._lock:
            self.requests.append(body)
            sent = body.get("tools") or []
            names = [(tool.get("function", tool).get("name") or tool.get("type", ""), tool) for tool in sent]
            loaded = tuple(name for name, tool in names if not tool.get("defer_loading") and name not in (FIND, CALL))
            deferred = frozenset(name for name, tool in names if tool.get("defer_loading"))
            tool_search = CALL in dict(names)
            self.served.append(Served(self.turn, loaded, deferred, tool_search, json.dumps(sent, sort_keys=True)))
            return self._next({*loaded, *deferred}, tool_search)

    def _next(self, known: set[str], tool_search: bool) -> Step:
        while self._left:
            step = self._left.pop(0)
            if isinstance(step, str):
                return step
            calls = (step,) if isinstance(step, Call) else step
            if all(call.name in known or call.name in (FIND, CALL) for call in calls):
                return step
            if tool_search:
                hidden = [call for call in calls if call.name not in known]
                direct = [call for call in calls if call.name in known]
                called = tuple(map(through_the_search, hidden))
                self._left.insert(0, (*direct, *called))
                return tuple(Call(FIND, {"query": call.name.replace("_", " ")}) for call in hidden)
            self.out_of_reach += [(self.turn.number, call.name) for call in calls if call.name not in known]
            reached = tuple(call for call in calls if call.name in known)
            if reached:
                return reached
        return "done"


def broken_promises(served: Sequence[Served]) -> list[str]:
    """What must hold of every conversation, whoever serves it, and does not."""
    found = []
    for before, after in pairwise(served):
        if not (after.tools or after.deferred or after.tool_search):
            found.append(f"turn {after.turn.number} has no tools")
        if len(before.tools) > len(after.tools) and decided(before, served):
            found.append(f"turn {after.turn.number} has fewer tools than turn {before.turn.number}")
    return found


def promises_broken_by(model: Played) -> list[str]:
    """Of the conversation before its summary, and of the one after it: a history that is rewritten begins anew."""
    last = model.conversation.summary_after
    after = [last is not None and each.turn.number > last for each in model.served]
    parts = ([each for each, late in zip(model.served, after, strict=True) if late is part] for part in (False, True))
    return [broken for part in parts for broken in broken_promises(part)]


def check_every_way(
    model: Played, serve: Callable[[int, bool], object], searches: Sequence[bool] = (False, True)
) -> None:
    """Play a conversation in every way, without a search and with it: `serve(workers, tool_search)` sends turns."""
    for tool_search in searches:
        sent = []
        for workers in WAYS.values():
            model.served, model.out_of_reach = [], []
            serve(workers, tool_search)
            sent.append([each.bytes for each in model.served])
            assert promises_broken_by(model) == []
            assert not tool_search or model.out_of_reach == []
        assert sent[0] == sent[1] == sent[2]


def decided(one: Served, served: Sequence[Served]) -> bool:
    """Whether a list was cut: the longest list of a conversation is the open one."""
    return len(one.tools) < max(len(each.tools) for each in served)


def tally(served: Sequence[Served]) -> Counter[str]:
    """Counts over the first requests of the turns with signal: how many, needed tools loaded at once, tools loaded."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    for each in served:
        if each.turn.number in seen or not each.turn.signal:
            continue
        seen.add(each.turn.number)
        counts["turns"] += 1
        counts["loaded at once"] += each.turn.needed <= set(each.tools)
        counts["loaded"] += len(each.tools)
    return counts


@cache
def catalogue(size: str) -> tuple[tuple[dict[str, Any], ...], dict[str, str]]:
    """The tools as OpenAI functions with names of their own, and these names by `server/name`."""
    entries = json.loads((DATA / f"catalogue-{size}.json").read_text())
    shared = Counter(entry["tool"]["function"]["name"] for entry in entries)
    tools, names = [], {}
    for entry in entries:
        function, server = entry["tool"]["function"], entry["server"]
        name = function["name"] if shared[function["name"]] == 1 else f"{server}__{function['name']}"
        names[f"{server}/{function['name']}"] = name
        tools.append({**entry["tool"], "function": {**function, "name": name}})
    return tuple(tools), names


@cache
def examples(size: str) -> tuple[Example, ...]:
    """What a language model wrote from the tools of a catalogue alone, under the names that these have on the wire."""
    names = catalogue(size)[1]
    folder = Path(__file__).parents[1] / "data" / "examples"
    return tuple(
        replace(
            example,
            needed=tuple(names[name] for name in example.needed),
            alternatives=tuple(tuple(names[name] for name in group) for group in example.alternatives),
        )
        for kind in ("single", "multi")
        for example in read_examples(folder / f"{kind}-{size}.jsonl")
    )


@cache
def conversations() -> tuple[Conversation, ...]:
    """All thirty."""
    return tuple(map(_conversation, _lines("conversations-dev.jsonl")))


@dataclass(frozen=True)
class Asked:
    """One request without a conversation around it."""

    language: str
    size: str
    """Of its catalogue: "40" or "400"."""

    tools: tuple[dict[str, Any], ...]
    text: str
    needed: tuple[frozenset[str], ...]
    """Names on the wire: one of each set."""

    queries: tuple[str, ...]
    """What an agent that lacks it would type into a search, for each needed tool."""

    scores: dict[str, float] | None
    """A language model's, over 40 tools."""


@cache
def requests() -> tuple[Asked, ...]:
    """All 120, over both catalogues, in five languages."""
    scored = {entry["id"]: entry["scores"] for entry in _lines("scores-claude-40.jsonl")}
    return tuple(_asked(entry, scored.get(entry["id"])) for entry in _lines("requests-dev.jsonl"))


def _asked(entry: dict[str, Any], scores: dict[str, float] | None) -> Asked:
    tools, names = catalogue(entry["catalogue"])
    instead = {options[0]: options for options in entry.get("or", ())}
    return Asked(
        entry["lang"],
        entry["catalogue"],
        tools,
        entry["text"],
        tuple(frozenset(names[each] for each in instead.get(tool, [tool])) for tool in entry["needed"]),
        tuple(entry["queries"][tool] for tool in entry["needed"]),
        None if scores is None else {names[tool]: score for tool, score in scores.items()},
    )


@cache
def plain_searches() -> dict[str, str]:
    """Sixty more searches over 400 tools, by the tool that is meant: written from its bare name, in other words."""
    names, path = catalogue("400")[1], Path(__file__).parents[1] / "data" / "everyday" / "searches-plain.json"
    return {names[tool]: query for tool, query in json.loads(path.read_text()).items()}


def sampled(frameworks: Sequence[str]) -> list[tuple[str, Conversation]]:
    """What CI plays: one over 40 tools through each framework, one over 400 through one, by CAMDF_SAMPLE."""
    rng = random.Random(int(os.environ.get("CAMDF_SAMPLE", "0")))
    few, many = ([each for each in conversations() if (len(each.tools) == 40) is small] for small in (True, False))
    everywhere, once = rng.choice(few), rng.choice(many)
    return [*((framework, everywhere) for framework in frameworks), (rng.choice(frameworks), once)]


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with (DATA / name).open() as lines:
        yield from map(json.loads, lines)


def _conversation(entry: dict[str, Any]) -> Conversation:
    tools, names = catalogue(entry["catalogue"])
    turns = []
    for number, turn in enumerate(entry["turns"]):
        steps: list[Step] = []
        results: list[str] = []
        for step in turn["steps"]:
            if "assistant" in step:
                steps.append(step["assistant"])
            if step.get("calls"):
                steps.append(tuple(Call(names[call["tool"]], call["arguments"]) for call in step["calls"]))
                results += [str(result) for result in step["results"]]
        choice = turn.get("tool_choice")
        needed = frozenset(names[each] for each in turn["needed"])
        content = turn.get("parts") or turn["user"]
        forced = names[choice] if choice else None
        turns.append(Turn(number, content, turn["signal"], needed, forced, tuple(steps), tuple(results)))
    return Conversation(
        entry["id"],
        entry["lang"],
        entry["system"],
        tools,
        tuple(turns),
        entry.get("summary_after"),
        entry.get("summary", ""),
    )
