"""The page of a package in a registry: its README, with links and pictures that lead to the tag of its version.

A hook of hatchling, for all three packages. A package without addresses of its own has those of the product above it.
An sdist has both already, in its PKG-INFO.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from posixpath import normpath
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCE = re.compile(r"(^```.*?^```$)", flags=re.M | re.S)
TARGET = re.compile(r"""(!\[[^]]*\]\(|\]\(|\bsrc(?:set)?="|\bhref=")(?![a-z]+:|\#)([^)"\s]+)""")
"""Where a link or a picture of a page leads to, in Markdown or HTML, unless that is absolute or on the page itself."""


class RegistryPage(MetadataHookInterface):
    """Fills in `readme` and, of the packages beside the product, `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling, with what pyproject.toml says."""
        package = Path(self.root)
        repository = package if "urls" in metadata else package.parent
        urls = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
        folder = package.relative_to(repository).as_posix()
        readme = (package / "README.md").read_text("utf-8")
        metadata["urls"] = urls
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": registry_page(readme, folder, urls["Source"], f"v{metadata['version']}"),
        }


def registry_page(readme: str, folder: str, source: str, tag: str) -> str:
    """A README of this folder of the repository, with a badge of its CI and without a relative link or picture."""

    def absolute(found: re.Match[str]) -> str:
        opening = found[1]
        place = "blob" if opening == "](" or opening.startswith("href") else "raw"
        return f"{opening}{source}/{place}/{tag}/{normpath(f'{folder}/{found[2]}')}"

    parts = FENCE.split(readme)
    parts[::2] = [TARGET.sub(absolute, prose) for prose in parts[::2]]
    title, _, rest = "".join(parts).partition("\n")
    ci = f"{source}/actions/workflows/ci.yml"
    return f"{title}\n\n[![CI]({ci}/badge.svg?branch=main)]({ci})\n{rest}"
