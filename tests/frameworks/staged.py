"""Everyday conversations played one after the other behind one address, and what must hold of each."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from everyday import Conversation, Played
from scripted import ScriptedModel, Step


class Stage(ScriptedModel):
    """Answers as the model of the conversation that is played: starting and stopping a server takes half a second."""

    playing: Played

    def play(self, conversation: Conversation) -> Played:
        self.playing = Played(conversation)
        self.playing._server.server_close()  # it speaks through this one
        return self.playing

    def answer(self, body: dict[str, Any]) -> Step:
        return self.playing.answer(body)


def post(url: str, body: Mapping[str, Any], **headers: str) -> Any:
    sent = {"Content-Type": "application/json", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), sent), timeout=60) as answer:
        return json.load(answer)


def begins_anew(conversation: Conversation, number: int) -> bool:
    """Whether the history before a turn was replaced by a summary just now: from here on it is another conversation."""
    return conversation.summary_after is not None and number == conversation.summary_after + 1
