"""Admission: what may be under way, in whose turn it is done, and what is done off the event loop.

A request is counted once its body is there, by the candidates that it has. Tenants divide what there is: one that is
alone may have all of it, and one that comes later has its part at once. Rankings are decided on the event loop a slice
at a time, and the loop looks at the network after each; what is longer than a slice is done on threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from camdf.runtime.workers import BusyError, Workers
from camdf.service.config import LimitSettings
from camdf.service.limits import RefusedError

Q = TypeVar("Q")
A = TypeVar("A")

LOG = logging.getLogger("camdf.service")

SLICE = 160
"""Candidates that are decided on before others have their turn: some milliseconds."""

ROUNDS = 3
"""Of the event loop between two slices: a new connection is taken, read and stands in line after so many."""

OWN_SEATS = 1
"""How many pieces of work of one tenant are done off the event loop at a time."""

SEATS = 8
"""And how many of all. Python computes for one of them at a time, so more would only make each slower."""


class Shares:
    """So much of something, which the tenants that hold any divide evenly.

    A tenant that is alone may hold all of it, and keeps what it holds when others come, who have their parts all the
    same. So n tenants hold at most 1 + 1/2 + ... + 1/n times as much.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[str, int] = {}

    def fits(self, tenant: str, amount: int, of: int, least: int) -> bool:
        """Whether a tenant that has so much more holds no more than its part `of` all, or `least`."""
        tenants = len(self._held) + (tenant not in self._held)
        return self._held.get(tenant, 0) + amount <= max(of // tenants, least)

    def take(self, tenant: str, amount: int) -> None:
        """Hold so much more."""
        if amount:
            self.total += amount
            self._held[tenant] = self._held.get(tenant, 0) + amount

    def give_back(self, tenant: str, amount: int) -> None:
        """Hold so much less."""
        if amount:
            self.total -= amount
            self._held[tenant] -= amount
            if not self._held[tenant]:
                del self._held[tenant]


class Admission:
    """What requests hold: bytes while they arrive, then a place among those under way for each of their candidates.

    Whoever finds no room is told at once to come back, instead of waiting in a line that nobody sees. A tenant that has
    nothing under way always finds room for one request.
    """

    def __init__(self) -> None:
        self.bytes = Shares()
        self.requests = Shares()
        self.candidates = Shares()
        self.seats = Seats()

    def check(self, tenant: str, candidates: int, limits: LimitSettings) -> int:
        """For how many candidates a request counts, which leave room for shorter ones; or that it must come back."""
        counted = min(candidates, limits.candidates * 3 // 4)
        if not self.requests.fits(tenant, 1, limits.waiting, 1):
            raise come_back("The service is at its capacity. Try again shortly.", limits)
        if not self.candidates.fits(tenant, counted, limits.candidates, counted):
            raise come_back("The service is at its capacity. Try again shortly, or with shorter lists.", limits)
        return counted

    def hold(self, tenant: str, size: int, limits: LimitSettings) -> None:
        """Keep so many bytes more of a body."""
        if not self.bytes.fits(tenant, size, limits.held_bytes, limits.body_bytes):
            raise come_back("Too many long requests arrive at once. Try again shortly.", limits)
        self.bytes.take(tenant, size)

    def enter(self, tenant: str, candidates: int, limits: LimitSettings) -> int:
        """Begin to work on a request; for how many candidates it counts."""
        counted = self.check(tenant, candidates, limits)
        self.requests.take(tenant, 1)
        self.candidates.take(tenant, counted)
        return counted

    def leave(self, tenant: str, counted: int) -> None:
        """The work on it is done."""
        self.requests.give_back(tenant, 1)
        self.candidates.give_back(tenant, counted)


def come_back(words: str, limits: LimitSettings) -> RefusedError:
    """A refusal that says when to try again."""
    return RefusedError(503, words, [(b"retry-after", b"%d" % limits.retry_seconds)])


class Seats:
    """Work off the event loop, in the order in which it came; one piece of any tenant at a time."""

    def __init__(self) -> None:
        self._workers = Workers(SEATS)
        self._all = asyncio.Semaphore(SEATS)
        self._own: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def seat(self, tenant: str) -> AsyncIterator[None]:
        """Wait for one, and have it while the block runs."""
        async with self._own.setdefault(tenant, asyncio.Semaphore(OWN_SEATS)), self._all:
            yield

    async def run(self, tenant: str, work: Callable[[], A], limits: LimitSettings, seconds: float | None = None) -> A:
        """What some work returns, which is done on a thread; one that takes too long is refused."""
        async with self.seat(tenant):
            try:
                return await self._workers.start(lambda _: work(), seconds).wait_async()
            except (TimeoutError, BusyError):
                raise come_back("This took too long. Try again shortly, with less at a time.", limits) from None


class _Piece(NamedTuple, Generic[Q, A]):
    question: Q
    weight: int
    answer: asyncio.Future[A]


class Turns(Generic[Q, A]):
    """Answers questions on the event loop, a slice at a time: tenants in turn, and the requests of each in turn."""

    def __init__(self, answer: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        self._answer = answer
        self._lines: dict[str, dict[Hashable, deque[_Piece[Q, A]]]] = {}
        """By tenant and by request; who is next stands first."""

        self._last_tenant = ""
        self._rests = True

    def ask(self, tenant: str, request: Hashable, question: Q, weight: int) -> asyncio.Future[A]:
        """The answer, once it is there: at once where nobody is in line."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, {}).setdefault(request, deque()).append(_Piece(question, weight, answer))
        if self._rests:
            self._rests = False
            self._answer_slice()
        return answer

    def _answer_slice(self, rounds: int = 0) -> None:
        """Answer a slice, after so many rounds of the loop in which it does nothing but look at the network."""
        later = asyncio.get_running_loop().call_soon
        if not self._lines:
            self._rests = True
        elif rounds:
            later(self._answer_slice, rounds - 1)
        else:
            later(self._answer_slice, ROUNDS)
            self._answer_all(self._next_slice())

    def _answer_all(self, pieces: Sequence[_Piece[Q, A]]) -> None:
        try:
            answers = self._answer([piece.question for piece in pieces])
            for piece, answer in zip(pieces, answers, strict=True):
                piece.answer.set_result(answer)
        except Exception as error:
            for piece in pieces:
                if not piece.answer.done():
                    piece.answer.set_exception(error)

    def _next_slice(self) -> list[_Piece[Q, A]]:
        """What one tenant asks now: a piece of each of its requests in turn, until the slice is full."""
        tenant = next((other for other in self._lines if other != self._last_tenant), self._last_tenant)
        self._last_tenant = tenant
        line = self._lines.pop(tenant)
        left = SLICE
        taken: list[_Piece[Q, A]] = []
        while line and left > 0:
            request = next(iter(line))
            pieces = line.pop(request)
            piece = pieces.popleft()
            if pieces:
                line[request] = pieces
            if not piece.answer.done():  # it may have been cancelled
                taken.append(piece)
                left -= piece.weight
        if line:
            self._lines[tenant] = line
        return taken
