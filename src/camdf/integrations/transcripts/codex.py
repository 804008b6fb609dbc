"""Transcripts of Codex: `sessions/YYYY/MM/DD/rollout-*.jsonl` in its folder, one line an item."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from camdf.integrations.gateway.config import tool_letters
from camdf.integrations.transcripts.thread import (
    CODEX,
    LONGEST_NAME,
    MCP,
    Thread,
    called_tool,
    listed_parts,
    objects_among,
    server_of,
    text_in,
)

MCP_CALL = (b'"type":"McpToolCall"', b'"type":"mcp_tool_call_end"')
"""The events of an MCP call that has ended. Code that a model writes calls tools, too, and only these say so."""

UNREAD = (
    *(b'"type":"function_call_output"', b'"type":"custom_tool_call_output"', b'"type":"reasoning"'),
    *(b'"type":"world_state"', b'"type":"compacted"', b'"type":"token_usage_record"', b'"type":"item_completed"'),
    *(
        b'"type":"exec_command_end"',
        b'"type":"agent_reasoning"',
        b'"type":"agent_message"',
        b'"type":"patch_apply_end"',
    ),
    *(b'"type":"exec_command_output_delta"', b'"type":"turn_diff"'),
)
"""Lines with one of these say nothing that is counted. They are most of the bytes."""

_SKILL_FILE = re.compile(r"([\w.-]+)/SKILL\.md")
_SKILL_NAME = re.compile(r"<name>([^<]+)</name>")
_SKILLS = "<skills_instructions>"


def codex_home() -> Path:
    """The folder of Codex: `$CODEX_HOME`, by default `~/.codex`."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


class CodexTranscript:
    """What was taken in of one transcript."""

    def __init__(self, *, with_texts: bool) -> None:
        self.thread = Thread(CODEX)
        self._with_texts = with_texts
        self._model = ""
        self._total = -1
        self._calls: set[str] = set()
        """The ids of MCP calls: an event repeats what an item says."""

    @staticmethod
    def is_unread(line: bytes) -> bool:
        """Whether a line, or its beginning, says nothing that is counted."""
        return any(mark in line for mark in UNREAD) and not any(mark in line for mark in MCP_CALL)

    def take(self, record: Mapping[str, Any]) -> None:
        """One line."""
        payload = record.get("payload")
        item: Mapping[str, Any] = payload if isinstance(payload, dict) else record  # the first versions had no payload
        kind = record.get("type")
        if not isinstance(payload, dict):
            kind = "response_item" if kind else "session_meta"
        self.thread.day = max(self.thread.day, text_in(record.get("timestamp")))
        if kind == "session_meta":
            self._take_session(item)
        elif kind == "turn_context":
            self._model = text_in(item.get("model")) or self._model
            self.thread.project = self.thread.project or text_in(item.get("cwd"))
        elif kind == "event_msg":
            self._take_event(item)
        elif kind == "response_item":
            self._take_item(item)

    def end(self) -> Thread:
        """All of it."""
        self.thread.ask()
        return self.thread

    def _take_session(self, item: Mapping[str, Any]) -> None:
        taken = self.thread
        taken.session = taken.session or text_in(item.get("session_id")) or text_in(item.get("id"))
        taken.project = taken.project or text_in(item.get("cwd"))
        taken.is_side = taken.is_side or isinstance(item.get("source"), dict)
        for definition in objects_among(item.get("dynamic_tools")):
            taken.load(definition)

    def _take_event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "token_count":
            self._take_usage(event.get("info"))
        elif kind == "mcp_tool_call_end" and isinstance(event.get("invocation"), dict):
            self._take_mcp_call(event.get("call_id"), event["invocation"])
        elif kind == "item_completed" and isinstance(event.get("item"), dict):
            item = event["item"]
            if item.get("type") == "McpToolCall":
                self._take_mcp_call(item.get("id"), item)

    def _take_usage(self, info: object) -> None:
        """What a model call used: an event that repeats the total of the one before is no call."""
        if not isinstance(info, dict):
            return
        last = info.get("last_token_usage")
        total = info.get("total_token_usage")
        if not isinstance(last, dict) or not isinstance(total, dict) or total.get("total_tokens") == self._total:
            return
        self._total = total.get("total_tokens", -1)
        read = last.get("cached_input_tokens")
        self.thread.model_calls[self._model[:LONGEST_NAME], isinstance(read, int) and read > 0] += 1

    def _take_item(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if kind == "function_call":
            self._take_call(item)
        elif kind == "custom_tool_call":
            self._take_own_call(text_in(item.get("name")), item.get("input"))
        elif kind == "tool_search_output":
            self._take_found(item.get("tools"))
        elif kind == "message":
            self._take_message(item)

    def _take_call(self, item: Mapping[str, Any]) -> None:
        namespace = text_in(item.get("namespace"))
        name = text_in(item.get("name"))
        if namespace.startswith(MCP):
            name = f"{namespace.removesuffix('__')}__{name}"
        if name.startswith(MCP):
            self._count_mcp_call(item.get("call_id"), called_tool(name, item.get("arguments")))
        else:
            self._take_own_call(name, item.get("arguments"))

    def _take_own_call(self, name: str, arguments: object) -> None:
        """A tool of the client itself; one that reads a skill's file uses the skill."""
        if not name:
            return
        self.thread.count_tool(name[:LONGEST_NAME])
        if isinstance(arguments, str) and "SKILL.md" in arguments:
            for skill in dict.fromkeys(_SKILL_FILE.findall(arguments)):
                self.thread.count_skill(skill)

    def _take_mcp_call(self, call: object, said: Mapping[str, Any]) -> None:
        server = tool_letters(text_in(said.get("server")))
        written = f"{MCP}{server}__{text_in(said.get('tool'))}"
        self._count_mcp_call(call, called_tool(written, said.get("arguments")))

    def _count_mcp_call(self, call: object, name: str) -> None:
        if isinstance(call, str) and server_of(name) and call not in self._calls:
            self._calls.add(call)
            self.thread.count_tool(name)

    def _take_found(self, tools: object) -> None:
        for listed in objects_among(tools):
            namespace = text_in(listed.get("name"))
            inner = objects_among(listed.get("tools"))
            for definition in inner or [listed]:
                prefix = f"{namespace.removesuffix('__')}__" if inner else ""
                self.thread.find({**definition, "name": f"{prefix}{definition.get('name')}"})

    def _take_message(self, item: Mapping[str, Any]) -> None:
        text = "\n".join(text_in(part.get("text")) for part in objects_among(item.get("content")))
        role = item.get("role")
        if _SKILLS in text[:LONGEST_NAME] and role != "assistant":
            self.thread.list_skills(_skills_in(text))
        elif role == "user" and text.startswith("<skill>"):
            for skill in _SKILL_NAME.findall(text[: LONGEST_NAME * 4])[:1]:
                self.thread.count_skill(skill)
        elif role == "user" and text and not text.startswith(("<", "# AGENTS.md")):
            self.thread.ask(text if self._with_texts and not self.thread.is_side else "")


def _skills_in(text: str) -> dict[str, str]:
    """The skills of a prompt's list: those of its lines that name a file."""
    return {name: part for name, part in listed_parts(text).items() if "SKILL.md)" in part}
