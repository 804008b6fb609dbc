"""Examples in docstrings as blocks of code on the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> |\s*$).*\n?)*)+", flags=re.M)
"""Lines that begin with >>>, and what they print, up to an empty line."""


class Examples(griffe.Extension):  # type: ignore[misc]
    """Puts fences around them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that may have a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
