"""Draws the pictures of traces/docs/compare.md, docs/poison.md and docs/recourse.md as bars, from results/.

python docs/evidence_pictures.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}">'
    style = "<style>text { font: 13px sans-serif; fill: #24403c }</style>"
    return "\n".join([head, style, f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>', *parts, "</svg>\n"])


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
DRAWN = {"compare": compare_groups, "poison": poison_groups, "recourse": recourse_groups}
"""What each picture shows."""


def _stored(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    for name, groups in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(bars(groups()), encoding="utf-8")


if __name__ == "__main__":
    main()
