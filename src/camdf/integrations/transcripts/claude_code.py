"""Transcripts of Claude Code: `projects/*/*.jsonl` in its folder, and those of sub-agents below.

Taken from public readers of the format, which has no published one: the versions are on docs/usage.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from camdf.integrations.transcripts.thread import (
    CLAUDE_CODE,
    LONGEST_NAME,
    Thread,
    called_tool,
    listed_parts,
    objects_among,
    text_in,
)

ANSWER = b'"type":"assistant"'
"""A line of the model's answer has this, and nowhere in a text: quotes in texts are escaped."""

UNREAD = (
    *(b'"type":"tool_result"', b'"type":"file-history-snapshot"', b'"type":"progress"', b'"type":"queue-operation"'),
    *(b'"attachment":{"type":"hook_success"', b'"attachment":{"type":"file"', b'"attachment":{"type":"instructions"'),
)
"""Lines with one of these say nothing that is counted. They are most of the bytes."""

COPIED = b'"forkedFrom":'
"""What a fork copied from another transcript is counted there."""

_COMMAND = re.compile(r"<command-name>/?([^<\s]+)</command-name>")
_NO_REQUEST = ("<", "Caveat: ", "[Request interrupted")
"""How messages begin that the client writes in the user's name."""


def claude_code_home() -> Path:
    """The folder of Claude Code: `$CLAUDE_CONFIG_DIR`, by default `~/.claude`."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


class ClaudeCodeTranscript:
    """What was taken in of one transcript."""

    def __init__(self, *, with_texts: bool) -> None:
        self.thread = Thread(CLAUDE_CODE)
        self._with_texts = with_texts
        self._answers: set[str] = set()
        self._tool_calls: set[str] = set()

    @staticmethod
    def is_unread(line: bytes) -> bool:
        """Whether a line, or its beginning, says nothing that is counted."""
        if ANSWER in line:
            return COPIED in line
        return COPIED in line or any(mark in line for mark in UNREAD)

    def take(self, record: Mapping[str, Any]) -> None:
        """One line."""
        self._take_place(record)
        kind = record.get("type")
        message = record.get("message")
        if kind == "attachment":
            self._take_attachment(record.get("attachment"))
        elif kind == "assistant" and isinstance(message, dict):
            self._take_answer(message)
        elif kind == "user" and isinstance(message, dict):
            self._take_request(record, message)

    def end(self) -> Thread:
        """All of it."""
        self.thread.ask()
        return self.thread

    def _take_place(self, record: Mapping[str, Any]) -> None:
        taken = self.thread
        taken.session = taken.session or text_in(record.get("sessionId"))
        taken.project = taken.project or text_in(record.get("cwd"))
        taken.day = max(taken.day, text_in(record.get("timestamp")))
        taken.is_side = taken.is_side or record.get("isSidechain") is True

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        """One part of an answer: every part repeats the usage of the whole."""
        model = text_in(message.get("model"))
        if model == "<synthetic>":  # the client's own words
            return
        usage = message.get("usage")
        answer = text_in(message.get("id"))
        if isinstance(usage, dict) and (not answer or answer not in self._answers):
            self._answers.add(answer)
            read = usage.get("cache_read_input_tokens")
            self.thread.model_calls[model[:LONGEST_NAME], isinstance(read, int) and read > 0] += 1
        for block in objects_among(message.get("content")):
            if block.get("type") == "tool_use":
                self._take_tool_call(block)

    def _take_tool_call(self, block: Mapping[str, Any]) -> None:
        call = text_in(block.get("id"))
        if call and call in self._tool_calls:
            return
        self._tool_calls.add(call)
        arguments = block.get("input")
        name = called_tool(block.get("name"), arguments)
        if not name:
            return
        if name == "Skill" and isinstance(arguments, dict):
            self.thread.count_skill(arguments.get("skill") or arguments.get("command"))
        self.thread.count_tool(name)

    def _take_request(self, record: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        content = message.get("content")
        text = content if isinstance(content, str) else "\n".join(_texts(content))
        command = _COMMAND.search(text[: LONGEST_NAME * 4])
        if command is not None:
            self.thread.count_skill(command[1])
        if record.get("isMeta") or record.get("isSidechain") or not text or text.startswith(_NO_REQUEST):
            return
        self.thread.ask(text if self._with_texts else "")

    def _take_attachment(self, attachment: object) -> None:
        if not isinstance(attachment, dict):
            return
        kind = attachment.get("type")
        if kind == "prompt_snapshot":
            for definition in objects_among(attachment.get("tools")):
                self.thread.load(definition)
        elif kind == "deferred_tools_record":
            for definition in objects_among(attachment.get("entries")):
                self.thread.find(definition)
        elif kind == "deferred_tools_delta" and isinstance(attachment.get("addedNames"), list):
            self.thread.defer(attachment["addedNames"])
        elif kind == "skill_listing" and isinstance(attachment.get("content"), str):
            self.thread.list_skills(listed_parts(attachment["content"]))


def _texts(content: object) -> list[str]:
    return [text_in(block.get("text")) for block in objects_among(content) if block.get("type") == "text"]
