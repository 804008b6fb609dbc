"""The site as it is published: `python .ci/site_versions.py FOLDER`, in a checkout with its tags.

Each release has a folder of its version, built from its tag, and what is checked out has `dev`. The page at the top
leads to the newest release, and `versions.json` is what the theme offers to choose from.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TO_NEWEST = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={newest}/">
<link rel="canonical" href="{newest}/">
<title>To the newest version</title>
<a href="{newest}/">To the newest version</a>
"""


def git(*arguments: str) -> str:
    """What git says of the repository that is built."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def build(source: Path, version: str, commit: str, output: Path) -> None:
    """The site of one version, the same bytes whenever it is built."""
    clock = git("log", "-1", "--format=%ct", commit).strip()
    surroundings = os.environ | {"SITE_VERSION": version, "SOURCE_DATE_EPOCH": clock}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(output / version)]
    subprocess.run(command, cwd=source, env=surroundings, check=True)


def build_tag(tag: str, output: Path) -> None:
    """The site of a release, from a copy of its commit."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        git("worktree", "add", "--detach", str(copy), tag)
        try:
            build(copy, tag.removeprefix("v"), tag, output)
        finally:
            git("worktree", "remove", "--force", str(copy))


if __name__ == "__main__":
    output = Path(sys.argv[1]).resolve()
    tags = git("tag", "--list", "v*", "--sort=-version:refname").split()
    for tag in tags:
        build_tag(tag, output)
    build(Path.cwd(), "dev", "HEAD", output)
    versions = [*(tag.removeprefix("v") for tag in tags), "dev"]
    newest = versions[0]
    offered = [{"version": version, "title": version, "aliases": []} for version in versions]
    (output / "versions.json").write_text(json.dumps(offered, indent=1) + "\n", encoding="utf-8")
    (output / "index.html").write_text(TO_NEWEST.format(newest=newest), encoding="utf-8")
    for name in ("404.html", "sitemap.xml"):
        shutil.copyfile(output / newest / name, output / name)
