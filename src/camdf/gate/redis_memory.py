"""Conversations on a Redis, so that every worker knows which tools they have.

    gate = Gate(policy, scorer, payoff, records=Records(store=RedisMemory("redis://localhost")))

A conversation is a list of tools under the digest of its name, gone when it has not been seen for so many `seconds`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from threading import TIMEOUT_MAX
from typing import Any

from camdf._settings import checked_setting, number, whole_number
from camdf.errors import UsageError, require
from camdf.gate.memory import MOST, Identity, Remembered

EXPLORED = b"true"
"""Stands in the list of a conversation that explores; tools are lists there."""

ADD = """
local known = {}
for _, tool in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do known[tool] = true end
for place = 3, #ARGV do
  if not known[ARGV[place]] then redis.call('RPUSH', KEYS[1], ARGV[place]); known[ARGV[place]] = true end
end
redis.call('LTRIM', KEYS[1], -ARGV[1], -1)
redis.call('EXPIRE', KEYS[1], ARGV[2])
"""
"""Appends what is new, in one step whoever else does."""


class RedisMemory:
    """A store for the `Records` of a gate, at a URL or behind a client of yours.

    `timeout` is what a client made for a URL waits for a connection and for an answer, in seconds. One of yours should
    have such limits too, and no retries; the gate waits for neither longer than it waits for any store.
    """

    def __init__(self, redis: Any, *, prefix: str = "camdf:", seconds: int = 86_400, timeout: float = 0.2) -> None:
        checked_setting("RedisMemory", "seconds", seconds, whole_number(1))
        checked_setting("RedisMemory", "timeout", timeout, number(most=TIMEOUT_MAX, above=0))
        self._copy = partial(type(self), redis, prefix=prefix, seconds=seconds, timeout=timeout)
        self.prefix, self.seconds = prefix, seconds
        self._client = _client(redis, timeout) if isinstance(redis, str) else redis

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def recall(self, conversation: str) -> Remembered | None:
        """What the conversation has; None where it is not known, or was too long ago."""
        entries = self._client.lrange(self._key(conversation), 0, -1)
        tools = [json.loads(entry) for entry in entries if entry not in (EXPLORED, EXPLORED.decode())]
        return Remembered(tuple(map(tuple, tools)), len(tools) < len(entries)) if entries else None

    def add(self, conversation: str, kept: Sequence[Identity], explored: bool) -> None:
        """Append what is new."""
        tools = [*(json.dumps(identity) for identity in kept), *([EXPLORED] if explored else [])]
        self._client.eval(ADD, 1, self._key(conversation), MOST + 1, self.seconds, *tools)

    def _key(self, conversation: str) -> str:
        return self.prefix + sha256(conversation.encode(errors="surrogatepass")).hexdigest()


def _client(url: str, timeout: float) -> Any:
    redis = require("redis", "redis")
    never = require("redis.retry", "redis").Retry(require("redis.backoff", "redis").NoBackoff(), 0)
    try:
        return redis.Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=never)
    except ValueError as error:
        raise UsageError(f"The 'redis' of RedisMemory must be a URL such as redis://localhost. {error}.") from None
