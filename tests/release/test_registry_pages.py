"""What a registry shows of each package: absolute links that lead to files of the repository, and true badges."""

from __future__ import annotations

import re
import runpy
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from markdown_it import MarkdownIt

import camdf

ROOT = Path(__file__).parents[2]
ADDRESSES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
SOURCE = ADDRESSES["Source"]
OF_A_FILE = re.compile(rf"{re.escape(SOURCE)}/(blob|raw)/v{re.escape(camdf.__version__)}/([^#]+)(?:#.+)?")
WORKFLOW = re.compile(rf"{re.escape(SOURCE)}/actions/workflows/([\w-]+\.yml)(?:/badge\.svg\?branch=main)?")
REGISTRIES = (
    "pypi" + ".org",
    "pypi" + ".io",
    "npmjs" + ".com",
    "anaconda" + ".org",
    "crates" + ".io",
    "hub.docker" + ".com",
)


@pytest.fixture(scope="module", params=[".", "traces", "lab"])
def pages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Message]:
    """The metadata of a package's sdist, and of the wheel that is built from this sdist, away from the repository."""
    folder = tmp_path_factory.mktemp("built")
    (sdist,) = SdistBuilder(str(ROOT / request.param)).build(directory=str(folder))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (unpacked,) = (folder / "source").iterdir()
    (wheel,) = WheelBuilder(str(unpacked)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        written = archive.read(name)
    return {"sdist": message_from_bytes((unpacked / "PKG-INFO").read_bytes()), "wheel": message_from_bytes(written)}


def targets(page: str) -> Iterator[tuple[str, str]]:
    """Every link and picture of a page, as a reader of Markdown finds them, and whether in HTML."""
    for block in MarkdownIt("commonmark").enable("table").parse(page):
        for token in (block, *(block.children or ())):
            for key in ("href", "src"):
                if key in token.attrs:
                    yield key, str(token.attrs[key])
            if token.type in ("html_block", "html_inline"):
                yield from re.findall(r"\b(href|src|srcset)=[\"']?([^\"'\s>]+)", token.content)


def test_every_link_and_picture_is_absolute_and_leads_to_a_file_of_the_repository(pages: dict[str, Message]) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {*tracked.splitlines()}
    for page in pages.values():
        found = list(targets(str(page.get_payload())))
        assert len(found) > 4
        assert [target for _, target in found if not target.startswith(("https://", "#"))] == []
        ours = [target for _, target in found if target.startswith(SOURCE)]
        linked = [match for match in map(OF_A_FILE.fullmatch, ours) if match]
        workflows = [match for match in map(WORKFLOW.fullmatch, ours) if match]
        assert len(linked) + len(workflows) == len(ours)
        assert {match[2] for match in linked} <= files
        assert {f".github/workflows/{match[1]}" for match in workflows} <= files
        shown = {target for key, target in found if key != "href" and target.startswith(SOURCE)}
        assert [each for each in shown if "/blob/" in each] == [], "what is shown is raw"


def test_a_badge_is_of_a_workflow_of_the_repository(pages: dict[str, Message]) -> None:
    for page in pages.values():
        pictures = [target for key, target in targets(str(page.get_payload())) if key == "src"]
        badges = [target for target in pictures if not OF_A_FILE.fullmatch(target)]
        assert badges
        assert all(WORKFLOW.fullmatch(badge) for badge in badges), badges


def test_the_sdist_and_its_wheel_say_the_same_and_name_every_address(pages: dict[str, Message]) -> None:
    sdist, wheel = pages["sdist"], pages["wheel"]
    assert sdist.get_payload() == wheel.get_payload()
    assert sdist["Description-Content-Type"] == wheel["Description-Content-Type"] == "text/markdown"
    for page in (sdist, wheel):
        named = dict(line.split(", ") for line in page.get_all("Project-URL", []))
        assert named == ADDRESSES
        assert {*named} == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}


def test_what_is_relative_is_found_in_markdown_and_html_and_code_stays_as_it_is() -> None:
    page = """# Title

[![A](a.svg)](b.md#c) [d](../e.md) [f](https://g.example) [h](#i) <img src="j.svg">

```python
calls[name](argument)
```
"""
    written = runpy.run_path(str(ROOT / "registry_page.py"))["registry_page"](page, "lab", "https://there", "v1")
    assert "[![A](https://there/raw/v1/lab/a.svg)](https://there/blob/v1/lab/b.md#c)" in written
    assert (
        '[d](https://there/blob/v1/e.md) [f](https://g.example) [h](#i) <img src="https://there/raw/v1/lab/j.svg">'
        in written
    )
    assert "calls[name](argument)" in written


def test_no_document_or_source_links_to_a_registry() -> None:
    kinds = ("*.md", "*.cff", "*.toml", "*.yml", "src/*.py", "traces/src/*.py", "lab/src/*.py", "*.ipynb")
    listing = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listing.splitlines():
        written = (ROOT / name).read_text("utf-8")
        assert [host for host in REGISTRIES if host in written] == [], name
