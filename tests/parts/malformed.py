"""Calls of `call_tool` as models get them wrong, each meant for one file that no other call names.

`delete_files` deletes everything where it is told no pattern, so a call that loses its arguments on the way does harm.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from camdf.gate.tool_search import ToolCall, json_arguments, meant
from camdf.tools import Tool
from scripted import Call

COUNT = int(os.environ.get("MALFORMED", "400"))
"""How many calls each framework gets; MALFORMED=2000 is what the pages speak of."""

NAME, EVERYTHING = "delete_files", "*"
DESCRIPTION = "Delete the files that match a pattern."
SCHEMA = {"type": "object", "properties": {"pattern": {"type": "string", "default": EVERYTHING}}}


def deleting(deleted: list[str]) -> Callable[[str], str]:
    """The tool as a function, which notes what it was told to delete."""

    def delete_files(pattern: str = EVERYTHING) -> str:
        deleted.append(pattern)
        return f"{pattern} deleted"

    return delete_files


class Slip(NamedTuple):
    text: str
    """What the model wrote as the arguments of `call_tool`."""

    pattern: str
    """What it meant to delete."""


def _call(**others: Any) -> str:
    return json.dumps({"name": NAME, **others})


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


SLIPS: Sequence[Callable[[str, random.Random], str]] = (
    lambda p, rng: _cut(_call(arguments={"pattern": p}), rng),
    lambda p, rng: _cut(_call(pattern=p), rng),
    lambda p, rng: _call(arguments=json.dumps({"pattern": p})),
    lambda p, rng: _call(arguments=_cut(json.dumps({"pattern": p}), rng)),
    lambda p, rng: _call(arguments=[p]),
    lambda p, rng: _call(arguments=p),
    lambda p, rng: _call(arguments=rng.choice([None, "", 0, True, [], "null", "[]"])),
    lambda p, rng: _call(pattern=p),
    lambda p, rng: _call(**{rng.choice(["args", "input", "parameters"]): {"pattern": p}}),
    lambda p, rng: _call(**{rng.choice(["args", "input", "parameters"]): json.dumps({"pattern": p})}),
    lambda p, rng: _call(**{rng.choice(["args", "input", "parameters", "kwargs", "params"]): [p]}),
    lambda p, rng: _call(args={"pattern": p}, arguments={}),
    lambda p, rng: _call(arguments={}, pattern=p),
    lambda p, rng: _call(arguments={"pattern": p}, reason="to save space"),
    lambda p, rng: _call(pattern=p, recursive=True),
    lambda p, rng: _call(arguments={rng.choice(["patern", "Pattern", "glob", "path"]): p}),
    lambda p, rng: _call(arguments={"pattern": p, "dry_run": True}),
    lambda p, rng: _call(arguments={"arguments": {"pattern": p}}),
    lambda p, rng: _call(arguments={"name": NAME, "arguments": {"pattern": p}}),
    lambda p, rng: json.dumps({"arguments": {"name": NAME, "arguments": {"pattern": p}}}),
    lambda p, rng: json.dumps({"arguments": {"pattern": p}}),
    lambda p, rng: json.dumps({"tool": NAME, "arguments": {"pattern": p}}),
    lambda p, rng: json.dumps({"name": f" {NAME} ", "arguments": {"pattern": p}}),
    lambda p, rng: json.dumps([NAME, {"pattern": p}]),
    lambda p, rng: json.dumps(f"{NAME}({p})"),
    lambda p, rng: _call(),
    lambda p, rng: "{}",
    lambda p, rng: "",
    lambda p, rng: "null",
    lambda p, rng: str({"name": NAME, "arguments": {"pattern": p}}),
    lambda p, rng: _call(arguments={"pattern": p}) + rng.choice(["}", " {}", ",", " and then some"]),
    lambda p, rng: f'{{"name": "{NAME}", "arguments": {{"pattern": "{p}"}}, "arguments": {{}}}}',
    lambda p, rng: f'{{"name": "{NAME}", "arguments": {{"pattern": "{p}", "pattern": "*"}}}}',
    lambda p, rng: f'{{"name": "{NAME}", "arguments": {{"pattern": NaN}}}}',
)


def slips(count: int, seed: int = 0) -> list[Slip]:
    """So many broken calls, of all kinds in turn."""
    rng = random.Random(seed)
    patterns = [f"tmp/{number:05d}-{rng.randrange(10**6):06d}.log" for number in range(count)]
    return [Slip(SLIPS[number % len(SLIPS)](pattern, rng), pattern) for number, pattern in enumerate(patterns)]


def at_once(broken: Sequence[Slip], count: int = 50) -> Iterator[tuple[Call, ...]]:
    """The broken calls as answers of a model that makes some at once."""
    for first in range(0, len(broken), count):
        yield tuple(Call("call_tool", slip.text) for slip in broken[first : first + count])


def kind(slip: Slip) -> str:
    """What the text is to a parser of JSON that takes the last of two equal keys: some frameworks show us no other."""
    try:
        value = json.loads(slip.text)
    except ValueError:
        return "no JSON"
    if not isinstance(value, dict):
        return "no object"
    return (
        "an object" if json_arguments(slip.text) is not None or "NaN" in slip.text else "an object that says it twice"
    )


def taken(broken: Sequence[Slip]) -> list[str]:
    """What is deleted, in order: where a call has one meaning, what it says."""
    tool = {NAME: Tool(NAME, DESCRIPTION, SCHEMA)}
    read = [meant(slip.text, tool) for slip in broken]
    return [call.arguments["pattern"] for call in read if isinstance(call, ToolCall) and call.arguments]


def check(broken: Sequence[Slip], deleted: Sequence[str]) -> None:
    """A tool ran with the arguments that the model wrote, or it did not run."""
    assert set(deleted) <= {slip.pattern for slip in broken}, "a tool ran with other arguments"
    assert sorted(deleted) == sorted(taken(broken)), "calls that have one meaning are made"
    assert len(deleted) >= len(broken) // 10


MISUSED = (
    Call("find_tool", {}),
    Call("find_tool", {"query": ["a", "b"]}),
    Call("find_tool", {"query": "delete files", "limit": 3, "self": 1, "config": 2}),
    Call("find_tool", {"q": "delete files"}),
    Call("find_tool", '{"query": "delete fi'),
    Call("find_tool", ""),
    Call("call_tool", {}),
    Call("call_tool", {"name": "nope", "arguments": {}, "reason": "x"}),
    Call("call_tool", {"name": ["delete_files"], "arguments": {}}),
    Call("call_tool", {"name": "call_tool", "arguments": {"name": NAME, "arguments": {}}}),
    Call("call_tool", {"name": "find_tool", "arguments": {"query": "x"}}),
    Call("call_tool", '{"name": "delete_files", "argu'),
)
"""The search misused in every way that ends a run, or might."""
