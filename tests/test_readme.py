"""README.md says what is stored, names every adapter, and stays as short as a front page is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import camdf
from camdf_lab import domains
from camdf_lab.beyond.batches import IN_TABLES, of_batch
from camdf_lab.beyond.frontier import headline
from camdf_lab.paper.live import episodes, mean, of, successes
from camdf_lab.peers.study import FINAL, SETTINGS
from camdf_lab.stored import held, stored

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = " ".join(README.split())


def results(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


FIGURE = r"\d+(?:\.\d+)?%?"


def figures_in(text: str) -> list[str]:
    return re.findall(FIGURE, text)


def rows_of_the_table() -> list[list[str]]:
    """The rows of what it saves: what was measured, how many tools, the result, where to read on."""
    (body,) = re.findall(r"^\| measured \|.*\n\| --- .*\n((?:\|.*\n)+)", README, flags=re.M)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines()]


def first_day() -> tuple[int, int, int]:
    """Of the requests of the first day: how many need tools, have them at once, and have them after a search."""
    started = [
        row for row in results("first_day")["requests"] if (row["ranking"], row["kept"]) == ("Start", "the best 8")
    ]
    needing, loaded, reached = (sum(row[name] for row in started) for name in ("needing", "needed loaded", "found"))
    return needing, loaded, reached


def stored_figures() -> list[tuple[list[str], list[str]]]:
    """The figures under 'tools' and 'result', row by row."""
    _, many = episodes(held())
    conditions = ("camdf-with-door-415", "full-415")
    few, every = ([mean(many, name, what) for what in ("tools", "tokens")] for name in conditions)
    solved = [str(successes(many, name)) for name in conditions]
    assert solved[0] == solved[1]
    tasks, fewer = str(len(of(many, "full-415"))), f"{1 - few[1] / every[1]:.0%}"
    rows = [([f"{every[0]:.0f}", f"{few[0]:.1f}"], [solved[0], tasks, f"{every[0]:.0f}", fewer])]
    for tools in (100, 40, 12):
        prices = [
            row["drop, with a tool search"]
            for row in results("cache")
            if (row["tools"], row["cache"]) == (tools, "empty") and row["turns"] > 1
        ]
        saved = sorted((1 - max(prices), 1 - min(prices)), key=lambda share: (share < 0, share))
        rows.append(([str(tools)], [f"{abs(share):.0%}" for share in saved]))
    (single,) = (
        row["drop, with a tool search"]
        for row in results("cache")
        if (row["tools"], row["turns"], row["cache"], row["cached"]) == (40, 1, "shared", "0.1")
    )
    rows.append((["40"], [f"{single:.1f}"]))
    needing, _, reached = first_day()
    (plain,) = (row for row in results("first_day")["searches"] if row["ranking"] == "Start")
    rows.append((["40", "400", "8"], [f"{reached / needing:.0%}"]))
    rows.append((["400"], [f"{plain['found'] / plain['searches']:.0%}"]))
    won = headline(of_batch(stored(held(), "frontier"), "later"), "alone_")
    sizes = [domain.tools for domain in domains.LATER_DOMAINS]
    better, worse = f"{won['significantly above']:.0%}", f"{won['significantly below']:.1%}"
    rows.append(([str(min(sizes)), str(max(sizes))], [better, worse]))
    paid = {
        row["method"]: row
        for row in stored(held(), "peers")
        if (row["look"], row["domain"], row["scorer"]) == (IN_TABLES["later"], "all", "minilm")
        and row["setting"] == FINAL
    }
    best = max(row["payoff"] for name, row in paid.items() if "camdf" not in name)
    width = [f"{paid['everything']['tools']:.0f}"]
    rows.append((width, [f"{paid['camdf, fitted']['payoff']:.2f}", f"{best:.2f}"]))
    rows.append((width, [f"{paid['camdf, no label']['payoff']:.2f}", "5", f"{paid['top 5']['payoff']:.2f}"]))
    return rows


def test_the_table_of_what_it_saves_has_the_stored_figures_and_marks_what_is_worse() -> None:
    rows = rows_of_the_table()
    assert [(figures_in(tools), figures_in(result)) for _, tools, result, _ in rows] == stored_figures()
    assert [place for place, (measured, *_) in enumerate(rows) if "worse" in measured] == [3, 4, 6, 9]
    assert str(first_day()[0]) in figures_in(rows[5][0])
    assert str(SETTINGS[FINAL].cost_pressure) in figures_in(rows[8][0])


def test_when_not_to_use_it_names_the_stored_count() -> None:
    needing, loaded, _ = first_day()
    assert re.search(rf"\b{loaded} of {needing}\b", TEXT)


def test_every_adapter_the_service_mining_and_spark_are_on_the_front_page() -> None:
    modules = {path.stem for path in (ROOT / "src/camdf/integrations").glob("[a-z]*.py")}
    pages = [f"docs/integrations/{name}.md" for name in modules - {"chat"} | {"conformance"}]
    for page in (*pages, "docs/service.md", "docs/mining.md", "docs/spark.md", "docs/gate.md"):
        assert f"]({page})" in README, page


def test_it_is_a_front_page() -> None:
    assert len(README.splitlines()) < 160
    assert README.count("![") == 1
    opening = README.split("\n\n")[1]
    assert opening.count(". ") == 1, "two sentences"
    assert camdf.CAMDF.__name__ in README
