"""The note that joins a prompt: the tools that its turn is decided to need, by the gate in mode "append", and skills.

A client's hook sends each prompt here before its model reads it. The session is a conversation whose turns are these
prompts, so that what a note of it has said is not said again, and a short turn is read with those before it.

The gate decides as it does anywhere else. On the first day that is by the rule for turns; from `FEWEST` logged prompts
on it is the default policy, fitted on them: a prompt needed the tools that were called after it, by their own names or
found by a search, and nothing where none was. A tool that is left out costs a search, and one that is named its tokens.

Where nothing is learned, a prompt's text is read and forgotten. Else it stands in the log of the gateway's folder.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

from camdf.datasets.examples import Example
from camdf.datasets.gather import Gathered
from camdf.examples.labels import text_group
from camdf.gate import Gate, GateDecision, Limits
from camdf.gate.notes import line, note, with_note
from camdf.gate.turns import greets
from camdf.integrations.gateway.folder import LONGEST_TEXT, Folder
from camdf.integrations.gateway.prompt_skills import OPENING, PromptSkills
from camdf.integrations.gateway.working_set import PRICES, SEARCH, WORTH
from camdf.integrations.skills.folders import Client
from camdf.policies.base import Policy
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.rules import FirstDay
from camdf.runtime.visible import visible
from camdf.scorers import Start
from camdf.tools import Tool

CHARACTERS = 1_500
"""How long a note is at most, unless somebody says otherwise."""

MOST_CHARACTERS = 10_000
"""And how long it can be: clients show a model no more of it."""

MOST_LINES = 5
"""How many tools a note has at most."""

SECONDS = 0.1
"""How long a decision may take: past it, there is no note."""

TURNS = 4
"""So many turns of a session are read with a short one."""

TOLD = 100
"""So many tools of a session's notes, and so many skills, are not told again."""

SESSIONS = 200
"""So many sessions are remembered."""

FEWEST = 20
"""From so many logged prompts on, a policy is fitted on them."""

MOST_PROMPTS = 200
"""And on so many of the last ones: a fit on them takes seconds."""

EVERY = 20
"""It is fitted anew after so many prompts."""

FRESH = 1_800.0
"""Seconds in which a call is taken to be for the prompt before it."""

PAYOFF = PRICES.payoff(WORTH, recourse=PRICES.recourse(WORTH, found=1.0, **SEARCH))
"""A tool is named where that is cheaper than a search for it. The search is taken to find it."""


class SentPrompt(NamedTuple):
    """What a client's hook says of a prompt."""

    text: str
    session: str = ""
    project: str = ""
    client: Client = "claude-code"


class LoggedPrompt(NamedTuple):
    """A prompt of the log, and the tools that were called after it."""

    text: str
    project: str
    needed: tuple[str, ...]


@dataclass
class _Session:
    """The turns of a session that are read again, each with its note, and the tools and skills that it was told of."""

    turns: deque[tuple[str, dict[str, Any]]] = field(default_factory=lambda: deque(maxlen=TURNS))
    told: dict[str, str] = field(default_factory=dict)
    skills: deque[str] = field(default_factory=lambda: deque(maxlen=TOLD))

    def messages(self, forgotten: str) -> list[Mapping[str, Any]]:
        """Its history: first what it was told, then the turns, without those that somebody wants forgotten."""
        before = with_note({"role": "user", "content": ""}, [*self.told.values()])
        return [before, *(message for at, message in self.turns if at > forgotten)]

    def tell(self, lines: Mapping[str, str]) -> None:
        """Remember the lines of a note by the names of their tools."""
        self.told = dict([*self.told.items(), *lines.items()][-TOLD:])


def read_prompt(asked: bytes) -> SentPrompt | None:
    """The prompt in a hook's input; None where it has none."""
    try:
        said = json.loads(asked)
        text = said["prompt"]
        names = [said.get(name) for name in ("session_id", "cwd")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not isinstance(text, str):
        return None
    session, project = (name[:LONGEST_TEXT] if isinstance(name, str) else "" for name in names)
    return SentPrompt(text, session, project, "codex" if "turn_id" in said else "claude-code")


class PromptNotes:
    """Notes for the prompts of one gateway, of at most so many `characters`.

    `tools` gives the accepted tools by the names that clients know, and `loaded` those that the client has anyway.
    """

    def __init__(
        self,
        folder: Folder,
        examples: Sequence[Example],
        characters: int,
        tools: Callable[[], Mapping[str, Tool]],
        loaded: Callable[[], Collection[str]],
    ) -> None:
        self._folder = folder
        self._characters = characters
        self._tools = tools
        self._loaded = loaded
        self._scorer = Start(examples=examples)
        self._skills = PromptSkills(examples)
        self._gate = _gate_with(FirstDay(), self._scorer)
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._latest = ("", 0.0)
        self._prompts = 0
        self._learning: asyncio.Task[None] | None = None

    @property
    def current(self) -> str:
        """The id of the prompt that calls are for now; "" where the last one was too long ago."""
        prompt, at = self._latest
        return prompt if monotonic() < at + FRESH else ""

    async def answer(self, asked: bytes) -> str:
        """The note for a prompt, "" where it needs none. It may fail, and then there is none either."""
        prompt = read_prompt(asked)
        if prompt is None or greets(prompt.text):
            return ""
        session = self._session_of(prompt)
        tools, named = await asyncio.gather(
            self._tools_told(prompt, session),
            self._skills.lines(prompt.text, prompt.client, prompt.project),
        )
        room = self._characters - len(tools) - len(OPENING) - 2
        skills = fitting(room, [(name, lines) for name, lines in named if name not in session.skills])
        session.skills.extend(skills)
        parts = [tools]
        if skills:
            parts.append("\n".join([OPENING, *skills.values()]))
        return "\n\n".join(filter(None, parts))

    async def _tools_told(self, prompt: SentPrompt, session: _Session) -> str:
        """The note of the tools that a prompt needs, "" where it needs none."""
        tools = self._tools()
        if not tools:
            return ""
        turn = {"role": "user", "content": prompt.text}
        history = [*session.messages(self._folder.forgotten_until()), turn]
        loaded = [name for name in self._loaded() if name in tools]
        decision = await self._gate.adecide(history, tools.values(), keep=loaded, user=prompt.project)
        lines = lines_within(self._characters, _candidate_lines(decision, len(history) - 1, tools))
        at = self._noted(prompt, [*lines])
        session.tell(lines)
        if self._folder.learn:
            session.turns.append((at, dict(with_note(turn, [*lines.values()]))))
        return note(lines.values()) if lines else ""

    def _session_of(self, prompt: SentPrompt) -> _Session:
        """What is remembered of a prompt's session; of one without a name nothing."""
        if not prompt.session:
            return _Session()
        session = self._sessions.setdefault(prompt.session, _Session())
        self._sessions.move_to_end(prompt.session)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _noted(self, prompt: SentPrompt, names: list[str]) -> str:
        """Write a prompt down, and learn from time to time; when that was."""
        own = secrets.token_hex(4)
        self._latest = (own, monotonic())
        self._prompts += 1
        if self._prompts % EVERY == 0:
            self._learning = asyncio.create_task(self.learn())
        return self._folder.note("prompt", prompt=own, query=prompt.text, project=prompt.project, noted=names)

    async def learn(self) -> None:
        """Fit the policy anew on what the log has by now, away from the event loop; read the tools where it has not."""
        tools = dict(self._tools())
        if not tools:
            return
        try:
            policy = await asyncio.to_thread(self._fitted, tools)
        except Exception as error:  # whatever the log holds, prompts are decided as before
            print(f"camdf: nothing is learned from prompts: {visible(error, 200)}", file=sys.stderr)
            return
        self._gate = _gate_with(policy, self._scorer)
        await self._gate.adecide([{"role": "user", "content": "Hello"}], tools.values())

    def _fitted(self, tools: Mapping[str, Tool]) -> Policy:
        self._scorer("", list(tools.values()))
        prompts = logged_prompts(self._folder.records(), self.current)[-MOST_PROMPTS:]
        if len(prompts) < FEWEST:
            return FirstDay()
        return fitted_on(prompts, tools, self._scorer)


def logged_prompts(records: Iterable[Mapping[str, Any]], current: str = "") -> list[LoggedPrompt]:
    """The prompts of a log with the tools that were called after them, without the one that is `current`.

    One after which every call failed says nothing, and is left out.
    """
    asked: dict[str, tuple[str, str]] = {}
    needed: dict[str, dict[str, None]] = {}
    failed: set[str] = set()
    for record in records:
        prompt = str(record.get("prompt"))
        if record.get("event") == "prompt" and isinstance(record.get("query"), str):
            asked[prompt] = (record["query"], str(record.get("project")))
        elif record.get("event") == "call" and record.get("ok"):
            needed.setdefault(prompt, {})[str(record.get("tool"))] = None
        elif record.get("event") == "call":
            failed.add(prompt)
    return [
        LoggedPrompt(text, project, tuple(needed.get(prompt, ())))
        for prompt, (text, project) in asked.items()
        if prompt != current and (prompt in needed or prompt not in failed)
    ]


def fitted_on(prompts: Sequence[LoggedPrompt], tools: Mapping[str, Tool], scorer: Start) -> ExpectedPayoffBySet:
    """The default policy, fitted on logged prompts; a project's own past counts as a user's own does."""
    gathered = Gathered()
    listed = list(tools.values())
    for place, prompt in enumerate(prompts):
        scores = dict(zip(tools, scorer(prompt.text, listed), strict=True))
        needed = prompt.needed
        gathered.add(str(place), text_group(prompt.text), scores, needed, len(needed), None, user=prompt.project)
    logged = gathered.logged(priced=False, keep_order=False)
    return ExpectedPayoffBySet(prior="similarity", remember=True).fit(logged, PAYOFF)


def _gate_with(policy: Policy, scorer: Start) -> Gate:
    limits = Limits(seconds=SECONDS, cached_prefix=0)
    return Gate(policy, scorer, PAYOFF, prices=PRICES, tool_search=True, mode="append", limits=limits)


def _candidate_lines(
    decision: GateDecision, place: int, tools: Mapping[str, Tool]
) -> list[tuple[str, tuple[str, ...]]]:
    """The tools that a turn brings, the best first: each with its line, and with a shorter one.

    So are those of an earlier turn that it needs too: that was decided too late to be told, or by another policy.
    """
    ranks = {tool.name: rank for rank, tool in enumerate(decision.ranking)}
    now = {tool.name for tool in decision.ranking if tool.kept}
    brought = [key for addition in decision.appended for key in addition.keys if addition.after == place or key in now]
    best = sorted(brought, key=lambda key: ranks.get(key, len(ranks)))[:MOST_LINES]
    return [(key, (decision.authorized.note_line(key), line(tools[key], described=False))) for key in best]


def lines_within(characters: int, candidates: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """As many candidates as a note has room for, each with the first of its lines that fits.

    >>> lines_within(90, [("send", ("- send(to: string): Send.", "- send")), ("archive", ("- archive(x): ...", "- a"))])
    {'send': '- send(to: string): Send.', 'archive': '- a'}
    """
    return fitting(characters - len(note(())), candidates)


def fitting(room: int, candidates: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """As many candidates as so many characters have room for, each with the first of its lines that fits."""
    told: dict[str, str] = {}
    for name, lines in candidates:
        for written in lines:
            if len(written) < room:
                told[name] = written
                room -= len(written) + 1
                break
    return told
