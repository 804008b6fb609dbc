"""Pages whose examples are run: every Python block must print what the text block after it says.

`python tests/parts/pages.py docs/PAGE.md` writes what the blocks print into the page.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType

BLOCK = re.compile(r"(?<=```python\n)(?P<code>.*?)```(?:\n+```text\n(?P<printed>.*?)(?=```))?", flags=re.S)
"""A block fenced as `python`, with the block fenced as `text` right after it. `python no-run` is shown, never run."""

MOST_SECONDS = 900
"""For the blocks of one page. One that waits for what never comes ends the process here."""


def run_page(path: Path) -> int:
    """Run a page's blocks in order, in one namespace and an empty folder, and say how many there were.

    A block that no text block follows must print nothing.
    """
    blocks = 0
    signal.alarm(MOST_SECONDS)
    for block, printed in _blocks(path.read_text(encoding="utf-8"), path.name):
        expected = block["printed"] or ""
        assert printed == expected, f"{path.name}: a block prints\n{printed}\nand the page says\n{expected}"
        blocks += 1
    signal.alarm(0)
    return blocks


def shows(path: Path, program: Path) -> bool:
    """Whether a page links a program and has what it prints, when it is run as a reader would."""
    page = path.read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"```text\n{done.stdout}```" in page, f"{path.name}: {program.name} prints\n{done.stdout}"
    return f"(../../{program.relative_to(path.parents[2])})" in page


def rewrite(path: Path) -> None:
    """The page, with what its blocks print in the text blocks after them."""
    text = path.read_text(encoding="utf-8")
    done, end = [], 0
    for block, printed in _blocks(text, path.name):
        if block["printed"] is not None:
            start, stop = block.span("printed")
            done += [text[end:start], printed]
            end = stop
    path.write_text("".join([*done, text[end:]]), encoding="utf-8")


def _blocks(text: str, name: str) -> Iterator[tuple[re.Match[str], str]]:
    page = sys.modules["page"] = ModuleType("page")  # a module, so that what a page defines can be pickled
    with tempfile.TemporaryDirectory() as folder:
        for block in BLOCK.finditer(text):
            printed = StringIO()
            with chdir(folder), redirect_stdout(printed):
                exec(compile(block["code"], name, "exec"), vars(page))
            yield block, printed.getvalue()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
