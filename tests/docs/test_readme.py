"""README.md says what is stored, names every adapter and peer, and stays as short as a front page is."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import camdf
from camdf.gate import Limits
from camdf_lab import domains
from camdf_lab.beyond.batches import IN_TABLES, of_batch
from camdf_lab.beyond.frontier import headline
from camdf_lab.paper.live import (
    ALL_415,
    EVERYDAY,
    FITTED,
    MOST_USED,
    PLANBENCH,
    SEARCH_415,
    by_way,
    episodes,
    mean,
    of_condition,
    successes,
    total,
)
from camdf_lab.peers.answers import everyday, read_answers
from camdf_lab.peers.study import FINAL, SETTINGS
from camdf_lab.stored import held, stored
from camdf_lab.study import mean_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?%?"
Figures = tuple[Sequence[str], Sequence[str]]
"""Those under 'tools', and those under 'result'."""


def results(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def figures_in(text: str) -> list[str]:
    return re.findall(FIGURE, text)


def tables() -> list[list[list[str]]]:
    """The rows of what it saves, table by table: what was measured, how many tools, the result."""
    bodies = re.findall(r"^\| measured \|.*\n\| --- .*\n((?:\|.*\n)+)", README, flags=re.M)
    return [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines()] for body in bodies]


def first_day() -> tuple[int, int, int]:
    """Of the requests of the first day: how many need tools, have them at once, and have them after a search."""
    started = [
        row for row in results("first_day")["requests"] if (row["ranking"], row["kept"]) == ("Start", "the best 8")
    ]
    needing, loaded, reached = (sum(row[name] for row in started) for name in ("needing", "needed loaded", "found"))
    return needing, loaded, reached


def prices(tools: int, cache: str, price: str | None = None, way: str = "Gate.start") -> list[float]:
    """What prompts cost with `Gate.start`, of no gate: of conversations, or of one turn where a price is named."""
    return [
        row[way]
        for row in results("recipe")
        if (row["tools"], row["cache"], row["smallest"]) == (tools, cache, Limits().cached_prefix)
        and (row["turns"] > 1 if price is None else (row["turns"], row["cached"]) == (1, price))
    ]


def with_the_recipe() -> list[Figures]:
    rows = list[Figures]()
    for tools in (100, 40):
        ratios = prices(tools, "empty")
        rows.append(([str(tools)], [f"{1 - max(ratios):.0%}", f"{1 - min(ratios):.0%}"]))
    assert all(abs(ratio - 1) < 0.005 for ratio in prices(12, "empty")), "the same price"
    rows.append((["12"], []))
    single = [*prices(40, "shared", "0.1", "Gate.start, tools alone"), *prices(40, "shared", "0.1")]
    rows.append((["40"], [f"{ratio:.1f}" for ratio in single]))
    joining = {(row["tools"], row["told"]): row for row in results("joining") if row["way"] == "joined"}
    plain, told = ([joining[size, given] for size in (40, 400)] for given in ("no examples", "examples"))
    there = [str(row[name]) for row in plain for name in ("with all tools", "turns")]
    rows.append((["40", "400"], [*there, *[str(row["with all tools"]) for row in told]]))
    receipt = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    (told,) = re.findall(rf"({FIGURE}) of ({FIGURE}) tools loaded, ({FIGURE}) of ({FIGURE}) tokens of defin", receipt)
    loaded, listed, saved, every = (int(figure.replace(",", "")) for figure in told)
    assert loaded == 8
    rows.append(([str(listed)], [f"{saved / every:.0%}"]))
    answers = by_way(held(), EVERYDAY)
    started = answers["8 by Start, search"]
    right, searching = total(started, "right"), sum(row["searches"] > 0 for row in started)
    assert right == total(answers["all tools"], "right") == len(started)
    rows.append((["40", "400"], [str(right), str(searching)]))
    needing, at_once, reached = first_day()
    rows.append((["40", "400"], [f"{reached / needing:.0%}"]))
    rows.append((["40", "400"], [str(at_once), str(needing)]))
    (by_words,) = (row for row in results("first_day")["searches"] if row["ranking"] == "Start")
    rows.append((["400"], [f"{by_words['found'] / by_words['searches']:.0%}"]))
    sizes, daily = ["40", "400"], everyday(read_answers(held()))
    ours, filters = ([daily[size][way] for size in sizes] for way in ("camdf", "litellm"))
    shares = [f"{way.after_one:.0%}" for way in (*ours, *filters)]
    dearer = [f"{dear.dollars / own.dollars:.0f}" for own, dear in zip(ours, filters, strict=True)]
    rows.append((sizes, [*shares, *dearer]))
    return rows


def once_it_has_learned() -> list[Figures]:
    _, many = episodes(held())
    few, every = ([mean(many, name, what) for what in ("tools", "tokens")] for name in (SEARCH_415, ALL_415))
    solved, with_all = (str(successes(many, name)) for name in (SEARCH_415, ALL_415))
    assert solved == with_all
    tasks, fewer = str(len(of_condition(many, ALL_415))), f"{1 - few[1] / every[1]:.0%}"
    rows: list[Figures] = [([f"{every[0]:.0f}", f"{few[0]:.1f}"], [solved, tasks, f"{every[0]:.0f}", fewer])]
    chains = by_way(held(), PLANBENCH)
    searches = [f"{mean_of(chains[way], 'searches'):.1f}" for way in (FITTED, "search alone", MOST_USED)]
    rows.append((["1,665", f"{mean_of(chains[FITTED], 'loaded'):.1f}"], searches))
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
    own = [f"{paid[name]['payoff']:.2f}" for name in ("camdf, fitted", "camdf, fitted, remembering")]
    rows.append((width, [*own, f"{best:.2f}"]))
    rows.append((width, [f"{paid['camdf, no label']['payoff']:.2f}", "5", f"{paid['top 5']['payoff']:.2f}"]))
    return rows


def test_the_tables_of_what_it_saves_have_the_stored_figures() -> None:
    shown = [[(figures_in(tools), figures_in(result)) for _, tools, result in rows] for rows in tables()]
    assert shown == [with_the_recipe(), once_it_has_learned()]


def test_what_is_worse_is_called_so() -> None:
    recipe, learned = ([place for place, row in enumerate(rows) if "**worse:**" in row[0]] for rows in tables())
    assert (recipe, learned) == ([3, 8, 9, 10], [4])


def test_what_was_measured_is_what_was_stored() -> None:
    recipe, learned = tables()
    assert {row["turns"] for row in results("recipe")} == {1, 2, 4, 8, 12}, "two to twelve turns"
    assert str(len(by_way(held(), EVERYDAY)["all tools"])) in figures_in(recipe[6][0])
    assert str(first_day()[0]) in figures_in(recipe[7][0])
    steps = [row["steps"] for row in by_way(held(), PLANBENCH)[FITTED]]
    assert (min(steps), max(steps)) == (5, 8), "five to eight steps"
    assert str(SETTINGS[FINAL].cost_pressure) in figures_in(learned[3][0])


def test_the_picture_is_what_the_command_prints() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "terminal_picture.py"))
    printed = script["printed"]()
    assert (ROOT / "docs" / "pictures" / "try.svg").read_text(encoding="utf-8") == script["picture"](printed)
    ((said, _),) = re.findall(r"!\[(.*)\]\((docs/pictures/try\.svg)\)", README)
    assert set(figures_in(said)) <= set(figures_in(printed))


def test_every_adapter_the_service_mining_and_spark_are_on_the_front_page() -> None:
    modules = {path.stem for path in (ROOT / "src/camdf/integrations").glob("[a-z]*.py")}
    pages = [f"docs/integrations/{name}.md" for name in modules - {"chat"} | {"conformance"}]
    for page in (*pages, "docs/service.md", "traces/docs/mining.md", "traces/docs/spark.md", "docs/gate.md"):
        assert f"]({page})" in README, page


def test_the_table_of_ways_in_begins_with_the_gateway() -> None:
    ways = README.split("| where you run agents |")[1].splitlines()
    assert "camdf mcp mcp.json" in ways[2]


def test_the_providers_and_every_peer_have_their_row_and_where_they_are_enough() -> None:
    section = README.split("## Why not my provider's tool search?")[1].split("\n## ")[0]
    assert "**The provider's is enough**" in section
    rows = re.search(r"\| it is enough where \|\n\| --- .*\n((?:\|.*\n)+)", section)
    assert rows is not None
    for peer in ("toolhunch", "toolsieve", "LiteLLM", "LangChain", "FastMCP", "Haystack"):
        assert peer in rows[1]


def test_it_is_a_front_page() -> None:
    prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"```.*?```", "", README, flags=re.S))
    assert len(re.findall(r"[^\s|]*\w[^\s|]*", prose)) <= 1300
    code = README.index("```\n\n```text")
    assert README[:code].count("\n") < 45, "the first code ends within two screens"
    assert README.count("![") == 1
    assert README.split("\n\n")[1].startswith("**camdf ")
    assert camdf.CAMDF.__name__ in README
