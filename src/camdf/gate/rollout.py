"""For which conversations a gate cuts, and whether it works at all: both may change at any time.

Chance is dealt by a conversation's name: on the same side in every process that has the same key, and never by what is
said in it. A larger share takes conversations in and puts none out. One that began stays as it began
(`conversation_terms`), so that no list narrows in the middle. One without a name is left alone.
"""

from __future__ import annotations

from hashlib import blake2b
from threading import TIMEOUT_MAX
from typing import Any

from camdf.errors import UsageError
from camdf.gate.switch import Source, Switch, a_share, a_truth


class Rollout:
    """Cut for a `share` of conversations and only watch the others ("shadow"); where it is `off`, cut for none.

    Each is a value or a place to read one from: the path of a file that holds `0.2` or `true`, a function, or a `Flag`
    of an OpenFeature client. It is read again where it is older than `every` seconds, and the last good value stands
    where that fails; until there is one, nothing is cut. Another `salt` picks other conversations.

    Only conversations with a name are cut for: one without could not be told from another when the share changes.
    """

    def __init__(
        self, share: Source[float] = 1.0, *, off: Source[bool] = False, salt: str = "", every: float = 1.0
    ) -> None:
        self._settings = {"share": share, "off": off, "salt": salt, "every": every}
        self.salt = salt
        if not isinstance(salt, str):
            raise UsageError(f"The 'salt' of Rollout must be a string. Got {salt!r} instead.")
        if isinstance(every, bool) or not isinstance(every, (int, float)) or not 0 <= every <= TIMEOUT_MAX:
            raise UsageError(f"The 'every' of Rollout must be a number of seconds, 0 or more. Got {every!r} instead.")
        self._share = Switch("'share' of Rollout", share, 0.0, a_share, every)
        self._off = Switch("'off' of Rollout", off, True, a_truth, every)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._settings,)

    @property
    def due(self) -> bool:
        """Whether it is time to read something."""
        return self._share.due or self._off.due

    def look(self, within: float | None = None) -> None:
        """Read again what it is time to read, for a decision that has so many seconds."""
        self._share.look(within)
        self._off.look(within)

    @property
    def share(self) -> float:
        """Of conversations that are cut for, as last read; 0 before that."""
        return self._share.value

    @property
    def off(self) -> bool:
        """Whether nothing is cut for anybody, as last read; true before that."""
        return self._off.value

    @property
    def error(self) -> str:
        """The type of what went wrong when a value was last read; "" where nothing did."""
        return self._share.error or self._off.error

    def cuts(self, conversation: str) -> bool:
        """Whether the conversation of this name is in the share.

        >>> some = Rollout(0.3, salt="first")
        >>> [number for number in range(10) if some.cuts(f"conversation {number}")]
        [1, 4, 7]
        """
        return dealt(conversation, self.salt) < self.share


def dealt(conversation: str, key: str, purpose: str = "") -> float:
    """A number from 0 to 1 that a conversation's name is dealt: by chance to whoever does not know the key.

    The number for one `purpose` says nothing of that for another.
    """
    keyed = blake2b(key.encode(errors="surrogatepass"), digest_size=32).digest()
    said = blake2b(conversation.encode(errors="surrogatepass"), digest_size=8, key=keyed, person=purpose.encode())
    return int.from_bytes(said.digest()) / 2**64


def _made(settings: dict[str, Any]) -> Rollout:
    return Rollout(**settings)
