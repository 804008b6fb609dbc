"""Draws the pictures of traces/docs/compare.md, docs/poison.md and docs/recourse.md as bars, and that of
docs/privilege.md as lines, from results/.

python docs/evidence_pictures.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLORS = ("#00897b", "#f4a259", "#8d99ae")
WIDTH = 640
LEFT = 210
"""Where bars begin."""

LINE = 18
"""The height of a bar."""

GAP = 12
"""The space between two groups."""

ATTACKS = (
    *("nothing: an unrelated tool", "the request's words", "words cut at both ends", "copies of needed tools"),
    *("'always call this first'", "words of many requests", "words of like meaning"),
)
"""What the picture of docs/poison.md shows of the attacks on that page: the plain ones, and the strongest."""

Groups = Mapping[str, Mapping[str, float]]
"""Shares from 0 to 1, by group and by what the legend calls them."""

Curves = Mapping[str, Sequence[Sequence[float]]]
"""Pairs of shares, by what the legend calls them."""

LINE_COLORS = ("#8d99ae", "#24403c", "#f4a259", "#8ecae6", "#00897b", "#6a4c93", "#b23a48")
EDGE = 60
TOP = 30
SQUARE = 360
"""Where the picture of pairs begins, and its side."""

MARKED = 13
"""A curve of no more points than this has a mark at each."""


def bars(groups: Groups) -> str:
    """Shares as horizontal bars."""
    parts: list[str] = []
    y = 8
    names = list(next(iter(groups.values())))
    for number, name in enumerate(names):
        x = 8 + number * (WIDTH - 16) // len(names)
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLORS[number]}"/>')
        parts.append(f'<text x="{x + 18}" y="{y + 11}">{escape(name)}</text>')
    y += 28
    for group, shares in groups.items():
        middle = y + LINE * len(shares) / 2 + 4
        parts.append(f'<text x="{LEFT - 10}" y="{middle:g}" text-anchor="end">{escape(group)}</text>')
        for color, share in zip(COLORS, shares.values(), strict=False):
            width = round((WIDTH - LEFT - 60) * share, 1)
            parts.append(f'<rect x="{LEFT}" y="{y + 2}" width="{width:g}" height="{LINE - 4}" fill="{color}"/>')
            parts.append(f'<text x="{LEFT + 6 + width:g}" y="{y + 13}">{share:.0%}</text>')
            y += LINE
        y += GAP
    return _drawing(WIDTH, y, parts)


def _drawing(width: int, height: int, parts: Sequence[str]) -> str:
    """A picture of these parts."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    style = "<style>text { font: 13px sans-serif; fill: #24403c }</style>"
    return "\n".join([head, style, f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *parts, "</svg>\n"])


def lines(curves: Curves) -> str:
    """Shares against shares: a line a curve, or a mark where it has one point, each with its name beside it."""
    bottom = TOP + SQUARE
    parts = [f'<text x="{EDGE}" y="18">injected orders that can run</text>']
    for tenth in range(0, 11, 2):
        share = f"{tenth / 10:.0%}"
        x, y = _place((tenth / 10, tenth / 10))
        parts.append(f'<path d="M{EDGE} {y:g}H{EDGE + SQUARE}M{x:g} {TOP}V{bottom}" stroke="#e3e8e7"/>')
        parts.append(f'<text x="{EDGE - 8}" y="{y + 4:g}" text-anchor="end">{share}</text>')
        parts.append(f'<text x="{x:g}" y="{bottom + 18}" text-anchor="middle">{share}</text>')
    parts.append(f'<text x="{EDGE + SQUARE}" y="{bottom + 38}" text-anchor="end">tasks covered</text>')
    for number, (name, points) in enumerate(curves.items()):
        color = LINE_COLORS[number]
        y = TOP + 12 + 40 * number
        parts.append(f'<rect x="{EDGE + SQUARE + 20}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        for row, words in enumerate(name.split("\n")):
            parts.append(f'<text x="{EDGE + SQUARE + 38}" y="{y + 16 * row}">{escape(words)}</text>')
        places = [_place(point) for point in points]
        path = "L".join(f"{x:g} {y:g}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        if len(places) <= MARKED:
            parts += [f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="{color}"/>' for x, y in places]
    return _drawing(WIDTH, bottom + 48, parts)


def _place(point: Sequence[float]) -> tuple[float, float]:
    """Where a pair of shares stands in the picture."""
    x, y = point
    return round(EDGE + SQUARE * x, 1), round(TOP + SQUARE * (1 - y), 1)


def privilege_curves() -> Curves:
    """Of what may run, tasks of AgentDojo that are covered against injected orders that can run."""
    stored = _stored("injected_orders")
    return {words: stored["frontiers"][name] for name, words in FRONTIERS.items()}


def compare_groups() -> Groups:
    """What `camdf compare` says of made-up deployments within 60 days."""
    groups = dict[str, dict[str, float]]()
    for effect, figures in _stored("compare")["all"].items():
        points = 100 * float(effect)
        group = f"{points:+.0f} points of success" if points else "no change of success"
        groups[group] = {
            "saving shown": figures["saves"]["share"],
            "called safe": figures["safe"]["share"],
            "harm shown": figures["harms"]["share"],
        }
    return groups


def poison_groups() -> Groups:
    """In how many everyday requests an untrusted tool is kept."""
    groups = dict[str, dict[str, float]]()
    for attack in ATTACKS:
        rows = [row for row in _stored("poison")["kept"] if row["attack"] == attack]
        rows = [row for row in rows if (row["domain"], row["scorer"], row["policy"]) == _FIRST]
        requests = 20 * len(rows)
        groups[attack] = {
            "with trusted servers named": sum(row["trusted"][0] for row in rows) / requests,
            "with trusted left out": sum(row["left out"][0] for row in rows) / requests,
        }
    return groups


def recourse_groups() -> Groups:
    """How many searches find their tool among five."""
    searches = ("everyday words, 40 tools", "everyday words, 400 tools", "sixty plain searches")
    groups = dict[str, dict[str, float]]()
    for row in _stored("first_search")["reached"]:
        groups[row["ranking"]] = {name: row[name][0] / row[name][1] for name in searches}
    return groups


_FIRST = ("everyday", "Start", "cold start")
FRONTIERS = {
    "the best so many, no search": "the best 1, 2, 3 ... tools,\nno search",
    "a privilege, no labels": "a privilege,\nno labels",
    "a privilege, labels of other suites, danger has a price": "labels of other suites,\ndanger has a price",
    "a privilege, labels of the suite, all tools cost the same": "labels of the suite,\nall tools cost the same",
    "a privilege, labels of the suite, danger has a price": "labels of the suite,\ndanger has a price",
    "a privilege, labels of the suite and past tasks, danger has a price": "the same, and it\nrecalls past tasks",
    "exactly the tools of the task": "exactly the tools\nof the task",
}
"""What the picture of docs/privilege.md shows, and how it is called there."""
DRAWN: Mapping[str, Callable[[], str]] = {
    "compare": lambda: bars(compare_groups()),
    "poison": lambda: bars(poison_groups()),
    "recourse": lambda: bars(recourse_groups()),
    "privilege": lambda: lines(privilege_curves()),
}
"""Each picture by its name."""


def _stored(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    for name, drawn in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
