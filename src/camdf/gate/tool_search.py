"""The search for tools that a conversation was not given: two fixed tools that an adapter adds where some are cut.

The agent searches with `find_tool` and runs what it found with `call_tool`, since a tool that is not declared cannot be
called by its own name. The tool list, and the cached prompt with it, stands. An adapter answers `find_tool` with
`listing(gate.find(query_of(arguments), tools))`, and runs `call_tool` through its framework's own path to the tool that
is `meant`. Models write broken calls: a tool runs with the arguments that the model wrote, or it does not run.

The description of `find_tool` has the names of the tools that the conversation was not given: an agent that sees a name
can search for it at once, and one that sees none has nothing to search for. Names follow from the tools that are not
loaded and from nothing else, so they stand for as long as the list stands, on every worker. A name is text that a
server wrote. It is listed only if it has the characters that providers allow in names. Of a server that is not trusted
it must also be short and of few words, and only so many of its names are listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, NamedTuple, Protocol

from camdf.prices import CHARACTERS_PER_TOKEN
from camdf.runtime.loose_json import without_repeats
from camdf.scorers.base import words_text
from camdf.scorers.echoes import runs_of
from camdf.tools import Tool, view

FOUND = 5
"""How many tools a search finds. Three would miss some that everyday requests need of 400."""

IN_FULL = 2
"""How many of them an answer has in full; the others are names."""

NAMED = 20
"""How many names an answer lists where a search finds nothing."""

LONGEST = 4_000
"""How many characters of a description an answer holds."""

LONGEST_SCHEMA = 40_000
"""How many characters a schema has at most that an answer holds: a longer one is left out."""

WRAPPED = ("arguments", "args", "input", "parameters")
"""Keys under which models write the arguments of the tool that they call; the first is the one they are told."""

NAME_TOKENS = 2_000
"""How many tokens of names a description has: about 400 names."""

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""What a name is made of where it may be listed."""

UNTRUSTED_LENGTH = 40
UNTRUSTED_WORDS = 6
UNTRUSTED_NAMES = 20
"""For servers that are not trusted: how long a name may be, of how many words, and how many are listed."""

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_. -]+")
LABEL_LENGTH = 64

FIND = Tool(
    "find_tool",
    "Search for a tool that is not in your list: by its exact name, or by a few English words for what it should do, "
    "such as 'create a calendar event'. Answers with the tools that match best, the first two in full and the others "
    "by name. Run one of them with call_tool.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Its exact name, or what it should do in a few words."}
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)

CALL = Tool(
    "call_tool",
    "Run a tool that is not in your list: one that find_tool has found, or that a message describes.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool, as it was given to you."},
            "arguments": {"type": "object", "description": "Its arguments, as its parameters say."},
        },
        "required": ["name", "arguments"],
    },
)

TOOL_SEARCH = (FIND, CALL)
SEARCH_NAMES = frozenset(tool.name for tool in TOOL_SEARCH)

NEXT = "If none fits, search once more in other words; if none fits then, say that no tool does it."
ABOUT_OTHERS = "To get the parameters of another one, search for its exact name."
"""What an answer tells a model to do where the tools in it do not fit."""


class AsCode(Protocol):
    """Tools as code (`camdf.gate.code.Code`)."""

    @property
    def text(self) -> str: ...


def find_tool(names: str) -> Tool:
    """`find_tool` with the names of the tools that it leads to (`names_by_server`) in its description."""
    if not names:
        return FIND
    return replace(FIND, description=f"{FIND.description}\nNot in your list: {names}.")


def names_by_server(
    hidden: Mapping[str, Collection[str]],
    tokens: int = NAME_TOKENS,
    *,
    untrusted: Collection[str] = (),
    likely: Iterable[tuple[str, str]] = (),
) -> str:
    """The names of the tools that are not loaded, in one line; "" where there are none to tell.

    `hidden` has their names by server, "" for tools of no known server, and `untrusted` names the servers that nobody
    vouches for. Where `tokens` do not hold all names, every server is listed with the number of its tools, and then as
    many names as there is room for: those of `likely` first, a server and a name each, then some of every server.

    >>> names_by_server({"mail": ["send", "search"], "calendar": ["create_event"]})
    'calendar: create_event; mail: search, send'
    >>> mail = ["send", "search", "archive", "label"]
    >>> names_by_server({"mail": mail, "calendar": ["create_event"]}, 14, likely=[("mail", "send")])
    'calendar (1); mail (4): send, archive'
    """
    if tokens <= 0:
        return ""
    counts = {server: len(set(names)) for server, names in sorted(hidden.items()) if names}
    told = {server: _names_that_may_be_told(hidden[server], server in untrusted) for server in counts}
    whole = _line_of_servers(counts, told)
    room = int(tokens * CHARACTERS_PER_TOKEN)
    if len(whole) <= room:
        return whole
    return _line_within(room, counts, told, likely)


def by_server(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """The names of tools by the servers that they come from."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        if not tool.foreign:
            names.setdefault(tool.server, []).append(tool.name)
    return names


def _names_that_may_be_told(names: Iterable[str], untrusted: bool) -> list[str]:
    listed = sorted(name for name in set(names) if may_be_told(name, untrusted))
    return listed[:UNTRUSTED_NAMES] if untrusted else listed


def may_be_told(name: str, untrusted: bool) -> bool:
    """Whether a text to a model may have the name of a tool: of an untrusted server it is short and of few words."""
    if not NAME.fullmatch(name):
        return False
    return not untrusted or (len(name) <= UNTRUSTED_LENGTH and len(WORD.findall(name)) <= UNTRUSTED_WORDS)


def _line_of_servers(counts: Mapping[str, int], told: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(_server_with_names(server, count, told[server]) for server, count in counts.items())


def _server_with_names(server: str, count: int, names: Sequence[str]) -> str:
    """One server: its name, how many tools it has where not all are listed, and those that are."""
    label = NOT_IN_LABELS.sub("_", server)[:LABEL_LENGTH]
    if len(names) < count:
        label = f"{label or 'others'} ({count})"
    return ": ".join(filter(None, (label, ", ".join(names))))


def _line_within(
    room: int, counts: Mapping[str, int], told: Mapping[str, Sequence[str]], likely: Iterable[tuple[str, str]]
) -> str:
    """As many names as there is room for. Where servers alone are too many, the largest are listed, in half of it."""
    shown: dict[str, list[str]] = {}
    left = room
    for server in sorted(counts, key=lambda server: -counts[server]):
        length = len(_server_with_names(server, counts[server], ())) + len(": ; ")
        if left - length < room // 2 and shown:
            break
        shown[server] = []
        left -= length
    known = {server: set(told[server]) for server in shown}
    rows = zip_longest(*(told[server] for server in shown))
    some_of_every = (pair for row in rows for pair in zip(shown, row, strict=True) if pair[1] is not None)
    for server, name in chain(likely, some_of_every):
        if name in known.get(server, ()):
            left -= len(name) + len(", ")
            if left < 0:
                break
            shown[server].append(name)
            known[server].remove(name)
    line = _line_of_servers({server: counts[server] for server in counts if server in shown}, shown)
    more = len(counts) - len(shown)
    if more == 0:
        return line
    if more == 1:
        return f"{line}; and 1 more server"
    return f"{line}; and {more} more servers"


def sharing_words(query: str, tools: Mapping[str, Tool]) -> list[str]:
    """The keys of the tools whose text shares words, or parts of words, with a query; those that share most come first.

    >>> tools = {"a": Tool("send_file", "Upload."), "b": Tool("sendMail", "Send a mail."), "c": Tool("play", "Play.")}
    >>> sharing_words("sending mails", tools)
    ['b', 'a']
    """
    asked = runs_of(query)
    shared = {key: len(asked & runs_of(words_text(tool))) for key, tool in tools.items()}
    return sorted(filter(shared.get, shared), key=lambda key: -shared[key])


def fits(mode: str, names: Iterable[str]) -> bool:
    """Whether a list of tools can have a tool search: only what is left out needs one, and its names must be free."""
    return mode in ("drop", "append") and SEARCH_NAMES.isdisjoint(names)


def query_of(written: object) -> str:
    """What a call of `find_tool` searches for; "" where it does not say."""
    call = json_arguments(written) or {}
    if "query" in call:
        query = call["query"]
        return query if isinstance(query, str) else ""
    texts = [value for value in call.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else ""


def listing(
    found: Iterable[Any], every: Iterable[Any] = (), *, written: Callable[[list[Tool]], AsCode] | None = None
) -> str:
    """What `find_tool` answers: the first tools in full, the rest by name, and what to do next where none fits.

    Args:
        found: What the search found.
        every: All tools that there are: where a search finds nothing, the answer has the names of some.
        written: For agents that write code: `python_code` or `typescript_code` of `camdf.gate.code`, as whose
            signatures the answer has all tools.
    """
    tools = [view(native) for native in found]
    if tools and written is not None:
        return f"{written(tools).text}\n\n{NEXT}"
    if tools:
        answer: dict[str, Any] = {"tools": [_in_full(tool) for tool in tools[:IN_FULL]]}
        others = [tool.name for tool in tools[IN_FULL:]]
        if others:
            answer["others"] = others
            answer["next"] = f"{ABOUT_OTHERS} {NEXT}"
        else:
            answer["next"] = NEXT
        return json.dumps(answer, default=str, ensure_ascii=False)
    names = sorted(filter(NAME.fullmatch, {view(native).name for native in every}))
    some = f"{len(names)} tools, among them" if len(names) > NAMED else "these tools"
    return (
        "No tool matches. Say in 'query' what the tool should do, in other words, or give its exact name. There are "
        f"{some}: {', '.join(names[:NAMED])}."
    )


def _in_full(tool: Tool) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": tool.name, "description": description_for_the_model(tool)}
    schema = schema_for_the_model(tool)
    if schema is not None:
        entry["parameters"] = schema
    return entry


class ToolCall(NamedTuple):
    """The tool that a `call_tool` means, and the arguments that the model wrote for it."""

    name: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    """What to do with a call of the model: run a tool and answer with its result, or answer with words."""

    id: str
    """The call's own, which the answer has to name."""

    run: ToolCall | None
    """The tool to run, under its own name, and with which arguments; None where nothing may run."""

    text: str
    """The answer, where nothing is to be run."""


class WrittenCall(NamedTuple):
    """A call as a model wrote it."""

    id: str
    name: str
    arguments: object

    @classmethod
    def from_client(cls, call: Any) -> WrittenCall:
        """A call of OpenAI chat or Responses, Anthropic or MCP: the client's object, or the same as a dict."""
        inner = field_of(call, "function") or call
        arguments = field_of(inner, "arguments")
        if arguments is None:
            arguments = field_of(inner, "input")
        name = field_of(inner, "name")
        if not isinstance(name, str):
            name = ""
        return cls(str(field_of(call, "call_id") or field_of(call, "id") or ""), name, arguments)

    def answer(self, tools: Mapping[str, Any]) -> Answer:
        """What to do with it, if it is no search, given the tools that it may call."""
        outcome = self._call_or_words(tools)
        if isinstance(outcome, str):
            return Answer(self.id, None, outcome)
        return Answer(self.id, outcome, "")

    def _call_or_words(self, tools: Mapping[str, Any]) -> ToolCall | str:
        if self.name == CALL.name and CALL.name not in tools:
            return meant(self.arguments, tools)
        if self.name not in tools:
            return f"There is no tool named {self.name[:200]!r}. Search with {FIND.name} for one that does it."
        if self.arguments in (None, ""):
            return ToolCall(self.name, {})
        arguments = json_arguments(self.arguments)
        if arguments is None:
            return f"Nothing ran: {self.name} takes one whole JSON object with its arguments."
        return ToolCall(self.name, arguments)


def field_of(part: Any, name: str) -> Any:
    """A field of a message, a block or a call: of a mapping, or of an object of a client."""
    if isinstance(part, Mapping):
        return part.get(name)
    return getattr(part, name, None)


def meant(written: object, tools: Mapping[str, Any], search: str = FIND.name) -> ToolCall | str:
    """What a call of `call_tool` means, or words that tell the model what is wrong with it; then nothing may run.

    `written` is the call's arguments as the model wrote them, as text or as an object. `tools` are those that it may
    call, by name, and `search` is the tool that finds them.

    Models also write `args`, `input` or `parameters` for `arguments`, the arguments as JSON text, or the parameters
    next to the name. Such a call is taken where it can be read in one way only and every argument is a parameter of the
    tool. A call without `arguments` is taken where the tool has no parameters.

    >>> tools = {"delete": Tool("delete", "Delete files.", {"properties": {"pattern": {"type": "string"}}})}
    >>> meant({"name": "delete", "pattern": "*.log"}, tools)
    ToolCall(name='delete', arguments={'pattern': '*.log'})
    >>> meant('{"name": "delete", "arguments": {"pattern": "*.l', tools)
    "Nothing ran: call_tool takes one whole JSON object with 'name' and 'arguments'."
    """
    call = json_arguments(written) or {}
    name = call.pop("name", None)
    if not isinstance(name, str):
        return f"Nothing ran: {CALL.name} takes one whole JSON object with 'name' and 'arguments'."
    if name not in tools:
        return f"There is no tool named {name[:200]!r}. Search with {search}, and give the name as it is listed there."
    tool = view(tools[name])
    readings = _readings_of_call(call, _all_parameters(tool))
    if len(readings) == 1:
        return ToolCall(name, readings[0])
    form = json.dumps({"name": name, "arguments": {}})
    wrong = f"Nothing ran: write {form}, with its arguments by the names of its parameters and nothing else."
    schema = schema_for_the_model(tool)
    if schema is None:
        return wrong
    return f"{wrong} Its parameters: {json.dumps(schema, default=str, ensure_ascii=False)}"


def _readings_of_call(call: dict[str, Any], parameters: Collection[str] | None) -> list[dict[str, Any]]:
    """All that a call without its name can mean, given the parameters of the tool, if they are all known."""
    named = set(parameters or ())
    readings: list[dict[str, Any]] = []
    if WRAPPED[0] not in named and call.get(WRAPPED[0], "") in (None, ""):
        call = {key: value for key, value in call.items() if key != WRAPPED[0]}
    if not call and parameters is not None and not named:
        return [{}]
    if not call:
        return []
    [(key, value), *more] = call.items()
    if key in WRAPPED and not more:
        inner = json_arguments(value)
        if inner is not None and (parameters is None or inner.keys() <= named):
            readings.append(inner)
        if key == WRAPPED[0] and isinstance(value, Mapping):  # as it should be
            return readings
    if call.keys() <= named and call not in readings:
        if "name" in named:  # the name may be the tool's, or an argument
            return []
        readings.append(call)
    return readings


def _all_parameters(tool: Tool) -> Collection[str] | None:
    """The names of all parameters that a tool has; None where its schema does not say, or allows others."""
    try:
        schema = tool.schema
        known = schema.get("properties")
        others = ("patternProperties", "$ref", "allOf", "anyOf", "oneOf")
        if not isinstance(known, Mapping) or schema.get("additionalProperties") or any(key in schema for key in others):
            return None
        return list(map(str, known))
    except Exception:
        return None


def description_for_the_model(tool: Tool) -> str:
    """The description of a tool as a model is told it: the beginning of one that is too long."""
    if len(tool.description) <= LONGEST:
        return tool.description
    return f"{tool.description[:LONGEST]}…"


def schema_for_the_model(tool: Tool) -> Any:
    """The schema of a tool as a model is told it; None where there is none, or it is too long."""
    try:
        schema = tool.schema
        is_too_long = len(json.dumps(schema, default=str, ensure_ascii=False)) > LONGEST_SCHEMA
    except Exception:
        return None
    return None if is_too_long else schema


def json_arguments(written: object) -> dict[str, Any] | None:
    """An object that somebody wrote, as such or as JSON text; None where it is anything else, or says one thing twice.

    Nothing is completed: what was cut off in the middle may have ended in any way.
    """
    try:
        value = _STRICT.decode(written) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return None
    return dict(value)


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON.")


_STRICT = json.JSONDecoder(object_pairs_hook=without_repeats, parse_constant=_no_number)
