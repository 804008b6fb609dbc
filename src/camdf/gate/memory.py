"""What is remembered of conversations, in this process and, where workers share it, in a store.

- `Memory` has the tools of conversations whose history a gate is not shown, so that later turns only widen them.
- `SharedMemory` has them in a store as well, which may be slow, wrong or gone at any moment. What the store says is
  merged into what this process remembers, in the store's order, so that all workers agree on it. Where it has no answer
  in time, this process goes on with what it has. Writing is left to threads, and nobody waits.
- `RedisMemory` is such a store: a conversation is a list of tools under the digest of its name.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import sha256
from threading import TIMEOUT_MAX
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from camdf.errors import UsageError, require
from camdf.runtime.breaker import Breaker, RestingError
from camdf.runtime.forks import Locked
from camdf.runtime.settings import checked_setting, number, whole_number
from camdf.runtime.workers import BusyError, Workers

T = TypeVar("T")

Identity: TypeAlias = tuple[str, str, int]
"""What a tool is in every request: its server, its name, and which of several that have both."""

MOST = 10_000
"""How many tools of one conversation are remembered: those that it got last."""

PATIENCE = 0.25
"""Seconds that a decision waits for a store at most; half of what it has left, if that is less."""

TOGETHER = 8
"""How many conversations are read at a time, and how many are written."""

IN_LINE = 1000
"""How many may wait to be written; more are not."""

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


class Remembered(NamedTuple):
    """The tools a conversation has, in the order it got them, and whether it explores."""

    kept: tuple[Identity, ...]
    explored: bool


NOTHING = Remembered((), explored=False)


class Latest(Locked, Generic[T]):
    """What is known of the last conversations, as many as `size`; the least recently seen is forgotten first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[str, T] = OrderedDict()
        super().__init__()

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, conversation: str, within: float | None = None) -> T | None:
        """What is known of a conversation; `within` so many seconds, where others have to be asked."""
        with self._lock:
            if conversation in self._kept:
                self._kept.move_to_end(conversation)
            return self._kept.get(conversation)

    def _remember(self, conversation: str, known: T) -> T:
        """Remember this and no more of a conversation; the lock is held."""
        self._kept[conversation] = known
        self._kept.move_to_end(conversation)
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)
        return known


class Memory(Latest[Remembered]):
    """The tools of conversations in this process."""

    def widen(self, conversation: str, kept: Iterable[Identity], explored: bool) -> tuple[Identity, ...]:
        """Add tools to what the conversation has, at the end, and return all it has now."""
        with self._lock:
            before = self._kept.get(conversation, NOTHING)
            return self._joined(conversation, before, Remembered((*kept,), explored)).kept

    def _joined(self, conversation: str, first: Remembered, then: Remembered) -> Remembered:
        """Remember both of a conversation, each tool once; the lock is held."""
        kept = first.kept
        if kept != then.kept:
            kept = tuple(dict.fromkeys((*kept, *then.kept)))[-MOST:]
        return self._remember(conversation, Remembered(kept, first.explored or then.explored))


class ConversationStore(Protocol):
    """Where conversations are remembered outside of this process. It may raise, and it may hang."""

    def recall(self, conversation: str) -> Remembered | None:
        """What the conversation has, in the order in which it got it; None where it is not known."""
        ...

    def add(self, conversation: str, kept: Sequence[Identity], explored: bool) -> None:
        """Append what it does not have yet, in one step, whoever else does the same; mark it if it explores."""
        ...


class SharedMemory(Memory):
    """The conversations of a store, and in this process the last `size` of them for when it does not answer."""

    def __init__(self, store: ConversationStore, size: int) -> None:
        self.store = store
        self.breaker = Breaker(failures=3, seconds=1.0)
        self.failures = 0
        """How often the store was not read or not written."""

        self._askers = Workers(TOGETHER)
        self._writers = Workers(TOGETHER, IN_LINE)
        super().__init__(size)

    def recall(self, conversation: str, within: float | None = None) -> Remembered | None:
        """What the store says, and after it what only this process knows; of the store, in time or not at all."""
        here = super().recall(conversation)
        try:
            self.breaker.check()
            seconds = PATIENCE if within is None else min(PATIENCE, within / 2)
            stored = _checked_answer(self._askers.start(lambda work: self.store.recall(conversation), seconds).wait())
            self.breaker.succeeded()
        except Exception as error:
            self._count_failure(error)
            return here
        if stored is None:
            return here
        with self._lock:
            return self._joined(conversation, stored, self._kept.get(conversation, NOTHING))

    def widen(self, conversation: str, kept: Iterable[Identity], explored: bool) -> tuple[Identity, ...]:
        """Add tools here at once, and have all that the conversation has now written to the store."""
        now = super().widen(conversation, kept, explored)
        try:
            self.breaker.check()
            self._writers.start(lambda work: self._write_to_store(conversation, now, explored))
        except Exception as error:
            self._count_failure(error)
        return now

    def _write_to_store(self, conversation: str, kept: tuple[Identity, ...], explored: bool) -> None:
        try:
            self.store.add(conversation, kept, explored)
            self.breaker.succeeded()
        except BaseException as error:
            self._count_failure(error)

    def _count_failure(self, error: BaseException) -> None:
        """A store that is not asked, or for which no thread is free, has not failed once more."""
        with self._lock:
            self.failures += 1
        if not isinstance(error, (RestingError, BusyError)):
            self.breaker.failed()


def _checked_answer(found: Any) -> Remembered | None:
    """What a store says, if it can be."""
    if found is None:
        return None
    kept, explored = found
    known = tuple((server, name, which) for server, name, which in tuple(kept)[-MOST:])
    if not all(type(server) is type(name) is str and type(which) is int for server, name, which in known):
        raise TypeError("A store remembers tools by server, name and number.")
    return Remembered(known, bool(explored))


class RedisMemory:
    """Conversations on a Redis, at a URL or behind a client of yours, so that every worker knows which tools they have.

        gate = Gate(policy, scorer, payoff, records=Records(store=RedisMemory("redis://localhost")))

    A conversation is gone when it has not been seen for so many `seconds`.

    `timeout` is what a client made for a URL waits for a connection and for an answer, in seconds. One of yours should
    have such limits too, and no retries; the gate waits for neither longer than it waits for any store.
    """

    def __init__(self, redis: Any, *, prefix: str = "camdf:", seconds: int = 86_400, timeout: float = 0.2) -> None:
        checked_setting("RedisMemory", "seconds", seconds, whole_number(1))
        checked_setting("RedisMemory", "timeout", timeout, number(most=TIMEOUT_MAX, above=0))
        self._copy = partial(type(self), redis, prefix=prefix, seconds=seconds, timeout=timeout)
        self.prefix = prefix
        self.seconds = seconds
        self._client = _client_for_url(redis, timeout) if isinstance(redis, str) else redis

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def recall(self, conversation: str) -> Remembered | None:
        """What the conversation has; None where it is not known, or was too long ago."""
        entries = self._client.lrange(self._key(conversation), 0, -1)
        tools = [json.loads(entry) for entry in entries if entry not in (EXPLORED, EXPLORED.decode())]
        if not entries:
            return None
        return Remembered(tuple(map(tuple, tools)), len(tools) < len(entries))

    def add(self, conversation: str, kept: Sequence[Identity], explored: bool) -> None:
        """Append what is new."""
        entries: list[str | bytes] = [json.dumps(identity) for identity in kept]
        if explored:
            entries.append(EXPLORED)
        self._client.eval(ADD, 1, self._key(conversation), MOST + 1, self.seconds, *entries)

    def _key(self, conversation: str) -> str:
        return self.prefix + sha256(conversation.encode(errors="surrogatepass")).hexdigest()


def _client_for_url(url: str, timeout: float) -> Any:
    redis = require("redis", "redis")
    never = require("redis.retry", "redis").Retry(require("redis.backoff", "redis").NoBackoff(), 0)
    try:
        return redis.Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=never)
    except ValueError as error:
        raise UsageError(f"The 'redis' of RedisMemory must be a URL such as redis://localhost. {error}.") from None
