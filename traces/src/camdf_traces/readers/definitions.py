"""Tool definitions in JSON, decoded as far as names need: schemas and descriptions are passed over as bytes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.json import Decoder


class Function(Struct, gc=False):
    """What OpenAI's chat completions wrap a tool in."""

    name: str | None = None


class Definition(Struct, gc=False):
    """One tool of a request."""

    name: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Function | None = None

    def named(self) -> str | dict[str, Any]:
        """The name, where it is plain; else the same definition with nothing but what names it."""
        wrapped = self.function or self.custom
        if wrapped is not None and wrapped.name:
            return wrapped.name
        if wrapped is None and self.name and self.type in (None, "function"):
            return self.name
        if wrapped is not None:
            raise ValueError("a wrapped definition without a name")
        known = {"name": self.name, "type": self.type}
        return {key: value for key, value in known.items() if value is not None}


_decode = Decoder(Definition).decode
_decode_list = Decoder(list[Definition]).decode


def bare_definition(text: str) -> str | dict[str, Any] | None:
    """The definition in a JSON object, as far as it names a tool; None where the text is no plain one."""
    try:
        return _decode(text).named()
    except Exception:
        return None


def bare_definitions(text: str) -> list[str | dict[str, Any]] | None:
    """The definitions in a JSON list, each as far as it names a tool; None where the text is no plain list of them."""
    try:
        return [definition.named() for definition in _decode_list(text)]
    except Exception:
        return None
