"""There is one way to start, on every page and in every example: `Gate.start`, and over HTTP an empty configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = sorted(
    path
    for pattern in ("README.md", "docs/*.md", "docs/integrations/*.md", "examples/*.py", "examples/*.ipynb")
    for path in ROOT.glob(pattern)
) + sorted(path for path in (ROOT / "examples").glob("*/*") if path.suffix in (".py", ".js", ".toml", ".yaml"))
ANOTHER = re.compile(r"(?<![\w`])(?:camdf\.)?Gate\((?=[\w(])|Gate\.for_target\(|TopShare\(|policy = \"cold-start")
"""A gate that is put together by hand."""

FURTHER = {
    "docs/conversations.md": "measures shares of a list",
    "docs/extend.md": "a scorer of your own",
    "docs/first-day.md": "a language model's scores, after the recipe",
    "docs/gate.md": "targets, money and settings, after the recipe",
    "traces/docs/mining.md": "explores with a fitted policy",
    "docs/operators.md": "what can be changed of a gate at work",
    "docs/service.md": "every key of the configuration, after the smallest",
    "docs/integrations/llama_index.md": "another ranking, after the recipe",
    "examples/a_decision.ipynb": "draws evidence, which the recipe has none of",
    "examples/made_up_traces.py": "explores, so that there is something to mine",
}
"""Pages that also build another gate, and why."""

AFTER_THE_RECIPE = [name for name, why in FURTHER.items() if "after the recipe" in why]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_has_a_recipe_of_its_own(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    assert bool(ANOTHER.search(path.read_text(encoding="utf-8"))) <= (name in FURTHER), name


@pytest.mark.parametrize("name", AFTER_THE_RECIPE)
def test_where_a_page_has_another_gate_the_recipe_comes_first(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    other = ANOTHER.search(page)
    assert other is not None
    assert -1 < page.find("Gate.start(") < other.start()
