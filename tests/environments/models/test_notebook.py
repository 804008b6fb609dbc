"""The notebook among the examples, run on a real kernel: it says what is stored in it, and draws as many pictures.

`python tests/environments/models/test_notebook.py` runs it and stores what it says and draws.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[3] / "examples" / "a_decision.ipynb"


def stored() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def run() -> Any:
    """The notebook after a run of all its cells. A cell that fails raises."""
    book = stored()
    NotebookClient(book, timeout=300, startup_timeout=300, record_timing=False).execute()
    return book


def outputs(book: Any) -> list[Any]:
    return [each for cell in book.cells for each in cell.get("outputs", [])]


def said(book: Any) -> list[str]:
    return [f"{each.name}: {each.text}" for each in outputs(book) if each.output_type == "stream"]


def drawn(book: Any) -> list[str]:
    """The kinds of the pictures, in order."""
    kinds = ("image/png", "image/svg+xml")
    return [kind for each in outputs(book) for kind in kinds if kind in each.get("data", {})]


def test_the_notebook_says_and_draws_what_is_stored() -> None:
    fresh, before = run(), stored()
    assert drawn(fresh) == drawn(before) == ["image/svg+xml", "image/png", "image/png"]
    assert said(fresh) == said(before)
    assert all(text.startswith("stdout: kept") for text in said(fresh))


if __name__ == "__main__":
    done = run()
    done.metadata = stored().metadata
    nbformat.write(done, NOTEBOOK)
