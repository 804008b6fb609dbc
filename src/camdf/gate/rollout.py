"""For which conversations a gate cuts, which of them explore, and whether it works at all.

Chance is dealt by a conversation's name: on the same side in every process that has the same key, and never by what is
said in it. A larger share takes conversations in and puts none out. One that began stays as it began
(`ConversationTerms`), so that no list narrows in the middle. One without a name is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from hashlib import blake2b
from threading import TIMEOUT_MAX
from typing import Annotated, Any, NamedTuple

from camdf import _settings as checks
from camdf._settings import Settings
from camdf.runtime.switch import Source, Switch


class Dealt(NamedTuple):
    """What a rollout says of one conversation, once for the whole of a decision."""

    off: bool
    """Whether nothing is cut for anybody."""

    cuts: bool
    explores: bool
    needs_name: bool = False
    """Whether it is left alone since it has no name."""


@dataclass(frozen=True, eq=False)
class Rollout(Settings):
    """Cut for a share of conversations and only watch the others, explore in a share, and switch all of it off.

    `share` and `off` are values, or places to read them from: the path of a file that holds `0.2` or `true`, a
    function, or a `Flag` of an OpenFeature client. Where reading fails the last good value stands; until there is one,
    nothing is cut. Only conversations with a name are cut for, once the share may change: one without could not be told
    from another.
    """

    share: Source[float] = 1.0
    """Of the conversations that are cut for; the others are watched as in shadow mode. Raise it step by step."""

    off: Source[bool] = False
    """Whether nothing is cut for anybody: the switch for the night when something goes wrong."""

    salt: Annotated[str, checks.string] = ""
    """Another one picks other conversations."""

    every: Annotated[float, checks.number(0, TIMEOUT_MAX, unit="seconds")] = 1.0
    """How old a value may be before it is read again."""

    explore: Annotated[float, checks.share] = 0.0
    """The share of named conversations that see every tool, and are flagged: what a policy learns from without bias.
    A few in a hundred do."""

    explore_pressure: Annotated[float | None, checks.or_none(checks.number(0))] = None
    """A cost pressure below the gate's. With it, conversations that explore get what is worth its cost at that pressure
    instead of every tool: cheaper, and it teaches less."""

    explore_key: Annotated[str, checks.string] = ""
    """By which conversations are dealt, the same on all workers. Who knows it and a name knows who explores."""

    _switches: tuple[Switch[float], Switch[bool]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = Switch("'share' of Rollout", self.share, 0.0, checks.share, self.every)
        off = Switch("'off' of Rollout", self.off, True, checks.truth, self.every)
        object.__setattr__(self, "_switches", (share, off))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, part.name) for part in fields(self) if part.init)

    @property
    def everyone(self) -> bool:
        """Whether it cuts for all conversations, and that cannot change."""
        return all(switch.stays for switch in self._switches) and self.share_now >= 1 and not self.is_off

    @property
    def due(self) -> bool:
        """Whether it is time to read something."""
        return any(switch.due for switch in self._switches)

    def look(self, within: float | None = None) -> None:
        """Read again what it is time to read, for a decision that has so many seconds."""
        for switch in self._switches:
            if not switch.stays:
                switch.look(within)

    def dealt(self, conversation: str | None, *, is_history: bool) -> Dealt:
        """What a decision has to know of its conversation, as last read."""
        if conversation is not None:
            return Dealt(self.is_off, self.cuts(conversation), self.explores(conversation))
        everyone = self.everyone
        # One text has no middle; of a history nobody knows how it began.
        cuts = everyone or (self.share_now >= 1 and not is_history)
        return Dealt(self.is_off, cuts, False, needs_name=self.explore > 0 or not everyone)

    @property
    def share_now(self) -> float:
        """Of conversations that are cut for, as last read; 0 before that."""
        return self._switches[0].value

    @property
    def is_off(self) -> bool:
        """Whether nothing is cut for anybody, as last read; true before that."""
        return self._switches[1].value

    @property
    def error(self) -> str:
        """The type of what went wrong when a value was last read; "" where nothing did."""
        return self._switches[0].error or self._switches[1].error

    def cuts(self, conversation: str) -> bool:
        """Whether the conversation of this name is in the share.

        >>> some = Rollout(0.3, salt="first")
        >>> [number for number in range(10) if some.cuts(f"conversation {number}")]
        [1, 4, 7]
        """
        share = self.share_now
        return share >= 1 or _number_of(conversation, self.salt) < share

    def explores(self, conversation: str) -> bool:
        """Whether the conversation of this name is in the share that explores."""
        return self.explore > 0 and _number_of(conversation, self.explore_key, "explore") < self.explore


def _number_of(conversation: str, key: str, purpose: str = "") -> float:
    """A number from 0 to 1 that a conversation's name is dealt: by chance to whoever does not know the key.

    The number for one `purpose` says nothing of that for another.
    """
    keyed = blake2b(key.encode(errors="surrogatepass"), digest_size=32).digest()
    said = blake2b(conversation.encode(errors="surrogatepass"), digest_size=8, key=keyed, person=purpose.encode())
    return int.from_bytes(said.digest()) / 2**64
