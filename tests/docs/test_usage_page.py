"""docs/usage.md shows the picture of what it prints, and what is stored of how long that takes over 2 GB."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
STORED = ROOT / "results" / "usage.json"


def test_the_picture_of_usage_is_what_the_page_prints() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "terminal_picture.py"))
    drawn = script["picture"](script["usage_printed"](), script["USAGE_TYPED"])
    assert (ROOT / "docs" / "pictures" / "usage.svg").read_text(encoding="utf-8") == drawn
    assert "(pictures/usage.svg)" in PAGE


def test_the_page_says_what_is_stored_of_the_benchmark() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    said = f"{stored['megabytes']:,} MB take {stored['processor_seconds']:.0f} s of a processor and "
    page = " ".join(PAGE.split())
    assert f"{said}{stored['memory_megabytes']} MB of memory" in page
    assert f"takes a {stored['times_plain_processor']:.0f}th of that" in page
    assert stored["megabytes"] >= 2_000
    assert stored["memory_megabytes"] <= 300
