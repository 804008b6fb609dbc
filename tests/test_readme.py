"""README.md says what is stored, names every adapter, and stays as short as a front page is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import camdf
from camdf_lab import domains
from camdf_lab.beyond.batches import BATCHES, IN_TABLES, of_batch
from camdf_lab.beyond.frontier import headline
from camdf_lab.paper.live import episodes, mean, of, successes
from camdf_lab.peers.study import FINAL, SETTINGS
from camdf_lab.stored import held, stored

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = " ".join(README.split())


def results(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def rows_of_the_table() -> list[list[str]]:
    """The rows of what it saves: what was measured, how many tools, the result, where to read on."""
    (body,) = re.findall(r"^\| measured \|.*\n\| --- .*\n((?:\|.*\n)+)", README, flags=re.M)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines()]


def test_the_table_of_what_it_saves_has_the_stored_figures_and_its_losses() -> None:
    live, *rows, peers, cold = rows_of_the_table()
    _, many = episodes(held())
    loaded, tokens = (
        [mean(many, condition, name) for condition in ("camdf-with-door-415", "full-415")]
        for name in ("tools", "tokens")
    )
    solved = [successes(many, each) for each in ("camdf-with-door-415", "full-415")]
    assert solved[0] == solved[1]
    tasks = len(of(many, "full-415"))
    assert live[1] == f"{loaded[1]:.0f}, of which {loaded[0]:.1f} loaded"
    fewer = f"{1 - tokens[0] / tokens[1]:.0%} fewer tokens"
    assert live[2] == f"{solved[0]} of {tasks} solved, as with all {loaded[1]:.0f}; {fewer}"
    paid = {
        row["method"]: row
        for row in stored(held(), "peers")
        if (row["look"], row["domain"], row["scorer"]) == (IN_TABLES["later"], "all", "minilm")
        and row["setting"] == FINAL
    }
    best = max(row["payoff"] for name, row in paid.items() if "camdf" not in name)
    assert peers[1] == cold[1] == f"{paid['everything']['tools']:.0f} on average"
    assert peers[2] == f"{paid['camdf, fitted']['payoff']:.2f}; the best of them {best:.2f}"
    assert cold[2] == f"{paid['camdf, no label']['payoff']:.2f}; the top 5 earn {paid['top 5']['payoff']:.2f}"
    assert f"less {SETTINGS[FINAL].cost_pressure} for each tool" in peers[0]
    assert cold[0].startswith("**worse:**")
    for tools, row in zip((100, 40, 12), rows[:3], strict=True):
        prices = [each["drop, with a tool search"] for each in results("cache") if each["tools"] == tools]
        least, most = 1 - max(prices), 1 - min(prices)
        told = (
            f"{least:.0%} to {most:.0%} cheaper"
            if least > 0
            else f"from {most:.0%} cheaper to {-least:.0%} more expensive"
        )
        assert row[1:3] == [str(tools), told]
    started = [
        each for each in results("first_day")["requests"] if (each["ranking"], each["kept"]) == ("Start", "the best 8")
    ]
    needing = sum(each["needing"] for each in started)
    assert rows[3][0].startswith(f"{needing} everyday requests in five languages")
    assert rows[3][2] == f"{sum(each['found'] for each in started) / needing:.0%}"
    (plain,) = (each for each in results("first_day")["searches"] if each["ranking"] == "Start")
    assert rows[4][2] == f"{plain['found'] / plain['searches']:.0%}"
    _, second = BATCHES
    found = headline(of_batch(stored(held(), "frontier"), second), "alone_")
    better, worse = (found[f"significantly {way}"] for way in ("above", "below"))
    assert rows[5][2] == f"clearly better in {better:.0%} of settings, clearly worse in {worse:.1%}"
    sizes = [domain.tools for domain in domains.LATER_DOMAINS]
    assert rows[5][1] == f"{min(sizes)} to {max(sizes)}"
    assert [row[0].startswith("**worse:**") for row in rows] == [False, False, True, False, True, False]


def test_when_not_to_use_it_names_the_stored_count() -> None:
    started = [
        each for each in results("first_day")["requests"] if (each["ranking"], each["kept"]) == ("Start", "the best 8")
    ]
    loaded, needing = (sum(each[name] for each in started) for name in ("needed loaded", "needing"))
    assert f"the needed tools are loaded at once in {loaded} of {needing} everyday requests" in TEXT


def test_every_adapter_the_service_mining_and_spark_are_on_the_front_page() -> None:
    pages = [f"docs/integrations/{path.stem}.md" for path in (ROOT / "src/camdf/integrations").glob("[a-z]*.py")]
    for page in (*pages, "docs/service.md", "docs/mining.md", "docs/spark.md", "docs/gate.md"):
        assert f"]({page})" in README, page


def test_it_is_a_front_page() -> None:
    assert len(README.splitlines()) < 160
    assert README.count("![") == 1
    opening = README.split("\n\n")[1]
    assert opening.count(". ") == 1, "two sentences"
    assert camdf.CAMDF.__name__ in README
