"""A log of requests as people have it, to logged tasks: what was asked, which tools that needed, and scores for all.

The columns are guessed by their names (`NAMES`, in any case, with spaces, hyphens or underscores), or are named. Where
no column has the tools, the log is one of chats in the shape of OpenAI's or Anthropic's messages, or of OpenAI's
responses. Then every turn of a user that led to a call is a task, which needed what was called until the next turn.

A row that cannot be learned from is left out, and `TextLog.lines` says how many were and why, all at once. A required
tool that the list does not have counts as missing from the list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from camdf.core.rankings import LoggedTasks
from camdf.datasets.gather import Gathered
from camdf.datasets.records import is_text
from camdf.datasets.tables import LooseTable, TableRow, columns_at_a_glance, read_table
from camdf.datasets.texts import TaskText
from camdf.datasets.triggers import is_triggers, table_of_triggers
from camdf.errors import DataError, UsageError
from camdf.examples.labels import NO_TOOL, text_group
from camdf.gate.tool_search import CALL
from camdf.gate.turns import Turn, events, text_of
from camdf.policies.renames import NO_RENAMES, Renames, check_renames
from camdf.runtime.progress import Progress, silent
from camdf.scorers.base import Scorer
from camdf.scorers.folder import Scored, score_tasks, scored_records
from camdf.tools import Tool

NAMES: dict[str, tuple[str, ...]] = {
    "text": (
        *("text", "prompt", "query", "request", "question", "input", "user_input", "user_message", "user_query"),
        *("utterance", "message", "instruction"),
    ),
    "required": (
        *("required", "needed", "required_tools", "needed_tools", "tools_used", "used_tools", "tools_called"),
        *("expected_tools", "called", "calls", "tool_calls", "tool_name", "tool"),
    ),
    "messages": ("messages", "conversation", "transcript", "history", "chat"),
    "task_id": ("task_id", "id", "request_id", "trace_id", "run_id", "uuid"),
    "group": ("group", "conversation_id", "session_id", "thread_id", "session", "thread"),
    "user": ("user_id", "userid", "customer_id", "account_id"),
    "success": ("success", "succeeded", "successful", "solved", "passed", "ok"),
    "alternatives": ("or",),
}
"""What a column may be called, by what it holds; of two that are there, the first."""

YES = frozenset({"true", "yes", "y", "t", "1", "1.0"})
NO = frozenset({"false", "no", "n", "f", "0", "0.0"})
EMPTY = frozenset({"", "nan", "na", "n/a", "null", "none", "nil", "-"})
"""How cells without a value are written, in small letters."""

NO_TOOL_NEEDED = "none"
"""What a cell says where no tool was needed, besides an empty list: `None` with a capital is Python's empty value."""

SENT = ("request", "body", "messages", "input", "conversation", "transcript", "history", "chat")
ANSWERED = ("response", "output", "choices", "completion")
MESSAGES = (*SENT, *ANSWERED)
"""Where the requests and the answers of models' APIs have their messages."""

SHOWN = 3
"""How many requests a first look shows."""

LISTED = 5
"""How many places or names a line of it lists."""


class LoggedRequest(NamedTuple):
    """A request to learn from."""

    task_id: str
    text: str
    required: tuple[str, ...]
    group: str
    user: str = ""


@dataclass(frozen=True)
class TextLog:
    """What was understood of a log, and what was not."""

    path: Path
    kind: str
    columns: Mapping[str, str]
    """What each column that is read holds, and what the file calls it."""

    rows: int
    unit: str
    """What the places of rows count: lines or rows."""

    requests: tuple[LoggedRequest, ...]
    left_out: Mapping[str, Sequence[int]]
    """Why rows were left out, and where each of them stands."""

    respelt: Mapping[str, str]
    """Required tools that the list spells in another way, and how."""

    unlisted: Mapping[str, int]
    """Required tools that the list does not have, and in how many requests."""

    def lines(self) -> list[str]:
        """A first look: what was understood, three requests, what was left out and why."""
        read = ", ".join(f"{what} from {column!r}" for what, column in self.columns.items())
        told = [f"{self.path}: {_counted(self.rows, 'row')} ({self.kind}); {read}."]
        for request in self.requests[:SHOWN]:
            asked = " ".join(request.text.split())
            if len(asked) > 60:
                asked = f"{asked[:59]}…"
            told.append(f"  {request.task_id}: {asked!r} needed {', '.join(request.required) or 'no tool'}")
        told += [self._left_out_in_words(why, places) for why, places in self.left_out.items()]
        if self.respelt:
            told.append(
                f"Read as the list spells them: {_first_names(f'{a} as {b}' for a, b in self.respelt.items())}."
            )
        if self.unlisted:
            named = _first_names(f"{name} (in {count:,})" for name, count in self.unlisted.items())
            told.append(f"Not in the list of tools, so counted as missing from it: {named}.")
        learned = f"{_counted(len(self.requests), 'request')} to learn from."
        if self.without_need:
            learned = f"{learned.removesuffix('.')}, {self.without_need:,} of which needed no tool."
        return [*told, learned]

    @property
    def without_need(self) -> int:
        """How many of the requests needed no tool."""
        return sum(not request.required for request in self.requests)

    def _left_out_in_words(self, why: str, places: Sequence[int]) -> str:
        if len(places) == 1:
            return f"1 row left out: it {why} ({self.unit} {places[0]})."
        listed = _first_names(map(str, places))
        return f"{len(places):,} rows left out: each {why} ({self.unit}s {listed})."

    def summary(self) -> dict[str, Any]:
        """The same for machines, without what was asked."""
        left_out = {why: list(places) for why, places in self.left_out.items()}
        read = {"kind": self.kind, "rows": self.rows, "columns": dict(self.columns), "requests": len(self.requests)}
        read["needed_no_tool"] = self.without_need
        return {**read, "left_out": left_out, "respelt": dict(self.respelt), "unlisted": dict(self.unlisted)}


def is_text_log(path: str | PathLike[str]) -> bool:
    """Whether a table has no scores, which logged tasks have (`camdf.datasets.files`); trigger tests have none."""
    return is_triggers(path) or not {"scores", "score"} & columns_at_a_glance(path)


def read_text_log(
    path: str | PathLike[str],
    tools: Mapping[str, Tool],
    columns: Mapping[str, str] | None = None,
    *,
    empty_means_none: bool = False,
    renames: Renames = NO_RENAMES,
) -> TextLog:
    """The requests of a log, and which of the `tools`, by their names, each of them needed.

    `columns` names columns that the guess does not find, by what they hold: {"text": "Prompt", "required": "used"}. A
    row that needed no tool has `[]` or `none` there. An empty cell may also mean that nobody knows, so its row is left
    out, unless `empty_means_none`. `renames` has the new names of tools, as the list has them, by those of the log.
    """
    check_renames(renames)
    place = Path(path)
    table = table_of_triggers(path, tools) if is_triggers(path) else read_table(path)
    read = _columns_by_meaning(place, table.columns, columns or {})
    kept: dict[int, list[LoggedRequest]] = {}
    left_out: dict[str, list[int]] = {}
    for at, why in table.unread.items():
        left_out.setdefault(why, []).append(at)
    spelling = _Spelling(tools, renames)
    rows = table.rows
    if _are_messages_of_chats(table, read):
        rows = _rows_of_chats(table, read)
    for row in rows:
        try:
            kept[row.place] = list(_requests_of_row(row, read, empty_means_none))
        except _LeftOutError as error:
            left_out.setdefault(str(error), []).append(row.place)
    requests = _with_own_ids(kept, left_out)
    spelt = [request._replace(required=spelling.all_of(request.required)) for request in requests]
    log = TextLog(
        path=place,
        kind=table.kind,
        columns=read,
        rows=len(table.rows) + len(table.unread),
        unit=table.unit,
        requests=tuple(spelt),
        left_out=left_out,
        respelt=spelling.respelt,
        unlisted=dict(spelling.unlisted.most_common()),
    )
    if not spelt:
        remedy = "Mend the rows, or name the columns: --columns text=NAME,required=NAME"
        raise DataError("\n".join([*log.lines()[:-1], f"No request is left to learn from. {remedy}"]))
    if not spelling.known:
        needed = _first_names(spelling.unlisted)
        raise DataError(
            f"{path}: none of the tools that requests needed is in the list of tools: {needed}. "
            f"Name the list that the agent had, or the column: --columns required=NAME"
        )
    return log


class RankedLog(NamedTuple):
    """The tasks of a log, and what was scored for them."""

    logged: LoggedTasks
    scored: Scored


def rank_log(
    log: TextLog,
    tools: Mapping[str, Tool],
    scorer: Scorer,
    settings: Mapping[str, str],
    *,
    top: int | None = None,
    progress: Progress = silent,
) -> RankedLog:
    """Every request of a log with a score for each of the tools, or for the `top` best of them.

    Scores are kept beside the log, by a digest of the text, in a file whose name has a digest of the tools and of the
    `settings` of the scorer, of which "scorer" is its name. So no text is scored twice, and a run that was interrupted
    goes on where it stopped. With a scorer that embeds texts, tasks have vectors. Requests that the scorer refuses are
    left out, and tried again by the next run.
    """
    told = {**settings, "tools": [tool.as_read for tool in tools.values()]}
    key = hashlib.sha256(json.dumps([told, top]).encode()).hexdigest()[:8]
    output = log.path.with_name(f"{log.path.stem}.{settings['scorer']}-{key}.scores.jsonl")
    texts = {_digest_of_text(request.text): request.text for request in log.requests}
    asked = [TaskText(digest, text, tuple(tools)) for digest, text in texts.items()]
    choices: dict[str, Any] = {"top": top, "vectors": hasattr(scorer, "embedding"), "progress": progress}
    done = score_tasks(asked, tools, scorer, output, settings=told, **choices)
    scored = {record["task_id"]: record for record in scored_records(output)}
    gathered = Gathered()
    for task_id, text, required, group, _ in log.requests:
        if ranking := scored.get(_digest_of_text(text)):
            gathered.add(task_id, group, ranking["scores"], required, len(required), None, ranking.get("vector", ()))
    return RankedLog(gathered.logged(priced=False, keep_order=False), done)


def _digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


def _first_names(names: Iterable[str]) -> str:
    """The first names of a list, and how many more there are."""
    listed = list(names)
    first = ", ".join(listed[:LISTED])
    if len(listed) <= LISTED:
        return first
    return f"{first} and {len(listed) - LISTED:,} more"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


class _LeftOutError(Exception):
    """A row cannot be learned from; the message follows 'the row'."""


def _columns_by_meaning(path: Path, there: Sequence[str], named: Mapping[str, str]) -> dict[str, str]:
    """The column of the file for everything that it has."""
    plain = {_plain_name(column): column for column in reversed(there)}
    wrong = [what for what in named if what not in NAMES]
    absent = [column for column in named.values() if _plain_name(column) not in plain]
    if wrong or absent:
        known = f"What can be named: {', '.join(NAMES)}. The columns of {path}: {', '.join(there)}."
        raise UsageError(f"There is no {', '.join(map(repr, [*wrong, *absent]))} to read. {known}")
    guessed = {what: plain[name] for what, names in NAMES.items() for name in reversed(names) if name in plain}
    read = {**guessed, **{what: plain[_plain_name(column)] for what, column in named.items()}}
    if "required" in read and {"text", "messages"} & read.keys():
        return read
    chats = [plain[name] for name in (*MESSAGES, "role") if name in plain]
    if "required" not in read and ("messages" in read or chats):
        others = {what: column for what, column in read.items() if what != "text"}
        return {"messages": next(iter(chats), ""), **others}
    lacks = " and ".join(repr(what) for what in ("text", "required") if what not in read)
    raise UsageError(
        f"{path}: no column seems to hold the {lacks} of a request. Its columns: {', '.join(there)}. "
        "Name them: --columns text=NAME,required=NAME"
    )


def _plain_name(column: str) -> str:
    """The name of a column without case and marks.

    >>> _plain_name(" Tools Used"), _plain_name("toolsUsed"), _plain_name("TASK-ID")
    ('tools_used', 'tools_used', 'task_id')
    """
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", column.strip())
    return re.sub(r"[\s\-.]+", "_", parted).casefold()


def _are_messages_of_chats(table: LooseTable, read: Mapping[str, str]) -> bool:
    """Whether the rows are the messages of one chat, or of several that a column tells apart."""
    return (
        "required" not in read
        and bool(table.rows)
        and all("role" in row.fields or "type" in row.fields for row in table.rows)
    )


def _rows_of_chats(table: LooseTable, read: Mapping[str, str]) -> list[TableRow]:
    """The chats whose messages are the rows of a table, in the place of their first."""
    group = read.get("group", "")
    user = read.get("user", "")
    chats: dict[str, list[TableRow]] = {}
    for row in table.rows:
        chats.setdefault(_name_in_cell(row.fields.get(group)) or "chat", []).append(row)
    rows_of_chats: list[TableRow] = []
    for name, rows in chats.items():
        first = rows[0]
        chat = {user: first.fields.get(user), "task_id": name, "messages": [row.fields for row in rows]}
        rows_of_chats.append(TableRow(first.place, chat))
    return rows_of_chats


def _requests_of_row(row: TableRow, read: Mapping[str, str], empty_means_none: bool) -> Iterator[LoggedRequest]:
    """The request of a row, or those of its chat."""
    fields = {what: row.fields.get(column) for what, column in read.items()}
    task_id = _name_in_cell(fields.get("task_id")) or _name_in_cell(row.fields.get("task_id")) or str(row.place)
    if "success" in read and not _succeeded(fields["success"]):
        raise _LeftOutError("did not succeed")
    if _value_of_cell(fields.get("alternatives")) not in (None, [], ""):
        raise _LeftOutError("says of some tools that one of them will do ('or')")
    group = _name_in_cell(fields.get("group"))
    user = _name_in_cell(fields.get("user"))
    if "required" not in read:
        is_guessed = _plain_name(read["messages"]) in (*MESSAGES, "role")
        chat = row.fields if is_guessed else fields["messages"]
        for request in _requests_of_chat(task_id, group or task_id, chat):
            yield request._replace(user=user)
        return
    text = _text_in_cell(fields.get("text")) or _first_turn(fields.get("messages"))
    if not text:
        raise _LeftOutError("has no text")
    required = _tools_in_cell(fields["required"])
    if required is None and _value_of_cell(fields["required"]) is None:
        if not empty_means_none:
            raise _LeftOutError("does not say which tools were needed (if that means none, add --empty-means none)")
        required = ()
    if required is None:
        raise _LeftOutError("does not say which tools were needed")
    yield LoggedRequest(task_id, text, required, group or text_group(text), user)


def _requests_of_chat(task_id: str, group: str, chat: Any) -> Iterator[LoggedRequest]:
    """Every turn of a user in a chat that led to a call, and what was called until the next turn."""
    turns: list[tuple[str, list[str]]] = []
    for event in events(_messages_in_record(chat)):
        if isinstance(event, Turn):
            turns.append((event.subject, []))
        elif turns and not re.search(NO_TOOL, event.tool):
            turns[-1][1].append(event.tool)
        elif turns and event.tool == CALL.name:
            raise _LeftOutError(f"runs tools through {CALL.name}: mine its traces, which name them")
    if not turns:
        raise _LeftOutError("has no message of a user")
    called = [(text, tools) for text, tools in turns if text and tools]
    if not called:
        raise _LeftOutError("has no call of a tool")
    for number, (text, tools) in enumerate(called, start=1):
        own_id = task_id if len(called) == 1 else f"{task_id}-{number}"
        yield LoggedRequest(own_id, text, tuple(dict.fromkeys(tools)), group)


def _messages_in_record(value: Any, asked: bool = False) -> list[Mapping[str, Any]]:
    """The messages in a record of a chat: those that were sent, then those that came."""
    value = _value_of_cell(value)
    if isinstance(value, str) and asked:
        return [{"role": "user", "content": value}]
    if isinstance(value, list):
        items = (item.get("message", item) for item in value if isinstance(item, Mapping))
        return [item for item in items if isinstance(item, Mapping)]
    if not isinstance(value, Mapping):
        return []
    if "role" in value and "content" in value:
        return [value]
    plain = {_plain_name(key): inner for key, inner in value.items()}
    return [
        message for key in MESSAGES if key in plain for message in _messages_in_record(plain[key], asked=key == "input")
    ]


def _first_turn(messages: Any) -> str:
    for event in events(_messages_in_record(messages)):
        if isinstance(event, Turn) and event.subject:
            return event.subject
    return ""


def _value_of_cell(cell: Any) -> Any:
    """What a cell holds: JSON where it is written as such, None where it is written as empty."""
    if isinstance(cell, float) and isnan(cell):
        return None
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if text.lower() in EMPTY:
        return None
    if text[0] in "[{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text


def _text_in_cell(cell: Any) -> str:
    """What was asked: a text, or the parts of a message."""
    value = _value_of_cell(cell)
    if isinstance(value, Mapping | list):
        return text_of(value) or _first_turn(value)
    return _as_string(value)


def _name_in_cell(cell: Any) -> str:
    """An id of any type as a string; "" where there is none."""
    value = _value_of_cell(cell)
    if isinstance(value, float) and value.is_integer():  # pandas makes floats of whole numbers where one is missing
        value = int(value)
    name = _as_string(value)
    return name if is_text(name) else ""


def _as_string(value: Any) -> str:
    return "" if value is None else str(value)


def _succeeded(cell: Any) -> bool:
    said = str(_value_of_cell(cell)).lower()
    if said not in YES | NO:
        raise _LeftOutError("does not say whether it succeeded")
    return said in YES


def _tools_in_cell(cell: Any) -> tuple[str, ...] | None:
    """The names of tools in a cell: a list, one as JSON or as Python writes it, or names between `;`, `,` or `|`."""
    if isinstance(cell, str) and cell.strip() == NO_TOOL_NEEDED:
        return ()
    value = _value_of_cell(cell)
    if value is None:
        return None
    if isinstance(value, str):
        inner = value.removeprefix("[").removesuffix("]").removeprefix("{").removesuffix("}")
        separator = next((mark for mark in ";|," if mark in inner), ",")
        value = [part.strip().strip("'\"").strip() for part in inner.split(separator)]
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        return None
    names = (_tool_named(item) for item in value)
    return tuple(dict.fromkeys(name for name in names if name))


def _tool_named(item: Any) -> str:
    """The name of a tool, or that in a call of one."""
    if isinstance(item, Mapping):
        inner = item.get("function")
        named = inner if isinstance(inner, Mapping) else item
        item = named.get("name") or item.get("tool") or item.get("tool_name")
    if isinstance(item, str) and is_text(item.strip()):
        return item.strip()
    return ""


def _with_own_ids(kept: Mapping[int, Sequence[LoggedRequest]], left_out: dict[str, list[int]]) -> list[LoggedRequest]:
    """Requests whose ids differ. Rows of one id and text are one request; others of one id share a group."""
    requests_by_id: dict[str, LoggedRequest] = {}
    ids: Counter[str] = Counter()
    for place, requests in kept.items():
        for request in requests:
            first = requests_by_id.get(request.task_id)
            if first is not None and first.text == request.text:
                both = tuple(dict.fromkeys(first.required + request.required))
                requests_by_id[first.task_id] = first._replace(required=both)
                why = "repeats another"
                if both != first.required:
                    why = "has more tools of another, which got them"
                left_out.setdefault(why, []).append(place)
                continue
            ids[request.task_id] += 1
            if first is not None:
                request = request._replace(task_id=_free_id(request.task_id, ids, requests_by_id), group=first.group)
            requests_by_id[request.task_id] = request
    return list(requests_by_id.values())


def _free_id(task_id: str, ids: Counter[str], taken: Mapping[str, LoggedRequest]) -> str:
    while (name := f"{task_id}#{ids[task_id]}") in taken:
        ids[task_id] += 1
    return name


class _Spelling:
    """The tools of a list by whatever name a log has for them: other case, other marks between words, a server before.

    A name that could be two tools is neither.
    """

    def __init__(self, tools: Mapping[str, Tool], renames: Renames) -> None:
        self.tools = tools
        self.renames = renames
        self.alike: dict[str, set[str]] = {}
        for key, tool in tools.items():
            for name in (key, tool.full_name, tool.name, _name_without_server(tool.name)):
                self.alike.setdefault(_letters_of_name(name), set()).add(key)
        self.known: Counter[str] = Counter()
        self.respelt: dict[str, str] = {}
        self.unlisted: Counter[str] = Counter()

    def all_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """These names as the list has them; those that it does not have stay as they are."""
        return tuple(dict.fromkeys(self._as_listed(self.renames.get(name, name)) for name in names))

    def _as_listed(self, name: str) -> str:
        if name in self.tools:
            self.known[name] += 1
            return name
        for spelt in (_letters_of_name(name), _letters_of_name(_name_without_server(name))):
            alike = self.alike.get(spelt, set())
            if len(alike) == 1:
                (tool,) = alike
                self.respelt[name] = tool
                self.known[tool] += 1
                return tool
        self.unlisted[name] += 1
        return name


def _letters_of_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def _name_without_server(name: str) -> str:
    """A name without the server before it.

    >>> [_name_without_server(name) for name in ("mail/send", "mcp__mail__send", "functions.send")]
    ['send', 'send', 'send']
    """
    return re.split(r"/|__|\.|:", name)[-1]
