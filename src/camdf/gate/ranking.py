"""The candidates of a decision in rank order, and a picture of them.

The picture shows scores and costs, the kept costs adding up: plain SVG for a browser or a notebook, and lines of text
for a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

ROW = 22
TOP = 58
LABEL = 230
SCORES = 150
PRICES = 300
MARGIN = 16
BARS = MARGIN + LABEL + SCORES + 10
"""Where the bars of the costs begin."""

NAME_LENGTH = 32
"""Characters of a name in the picture."""

KEPT = "#0072B2"
CUT = "#BBBBBB"
INK = "#222222"
FAINT = "#777777"
MOST_ROWS = 60
"""Longer rankings end in a line that counts the rest."""

CUT_LINES = 5
"""How many of the cut tools a terminal shows below the last kept one."""


class Ranked(NamedTuple):
    """One candidate as the policy saw it."""

    name: str
    """As the decision has it."""

    score: float
    """What the scorer said of it."""

    cost: float
    """What offering it costs, in the unit of the prices."""

    priced_cost: float
    """Cost pressure times cost: what offering it costs, in solved tasks."""

    evidence: float | None
    """What the policy compared: for the default, how likely the task needs this tool."""

    kept: bool
    """Whether it is handed over."""

    why: str
    """Why it is, or is not."""

    held: bool = False
    """Whether it stays whatever the policy says: guarded, called or kept before, named by the task."""

    trusted: bool = True
    """Whether its server is trusted. Those that are not come after the others, ranked as among all."""


class Ranking(NamedTuple):
    """The candidates of a turn in rank order, as a policy saw them."""

    tools: tuple[Ranked, ...] = ()
    none: float | None = None
    """How likely the turn is to need no tool, where the policy learned that from tasks that needed none."""


def waterfall(title: str, ranking: Sequence[Ranked]) -> str:
    """The whole picture, for a browser or a notebook."""
    shown = ranking[:MOST_ROWS]
    rest = len(ranking) - len(shown)
    kept = sum(tool.priced_cost for tool in ranking if tool.kept)
    everything = sum(tool.priced_cost for tool in ranking)
    height = TOP + ROW * (len(shown) + 2 + bool(rest))
    width = MARGIN * 2 + LABEL + SCORES + PRICES + 190
    total = max(_reach(ranking), kept) or 1.0
    best = max((tool.score for tool in shown), default=0.0) or 1.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _svg_text(MARGIN, 20, title, weight="bold"),
        _svg_text(MARGIN + LABEL, 46, "score", FAINT),
        _svg_text(BARS, 46, "priced cost, in solved tasks; kept ones add up", FAINT),
    ]
    spent = 0.0
    for row, tool in enumerate(shown):
        lines += _svg_row(tool, TOP + ROW * row, spent, total, best)
        if tool.kept:
            spent += tool.priced_cost
    if rest:
        lines.append(_svg_text(MARGIN, TOP + ROW * len(shown) + 14, f"and {rest} more", FAINT))
    y = TOP + ROW * (len(shown) + bool(rest))
    lines += [
        f'<line x1="{MARGIN}" x2="{width - MARGIN}" y1="{y + 2}" y2="{y + 2}" stroke="{FAINT}" stroke-width="0.7"/>',
        _svg_text(MARGIN, y + 20, "kept together", weight="bold"),
        f'<rect x="{BARS}" y="{y + 9}" width="{_length(kept, total):.1f}" height="12" fill="{INK}"/>',
        _svg_text(BARS + PRICES + 8, y + 20, f"{kept:.4f} of {everything:.4f}", weight="bold"),
        "</svg>",
    ]
    return "\n".join(lines)


def waterfall_lines(
    ranking: Sequence[Ranked],
    tokens: Mapping[str, int],
    width: int = 80,
    *,
    whole: bool = False,
    block: str = "█",
) -> list[str]:
    """The same for a terminal, at most `width` columns wide where names allow it: tokens of the kept tools add up.

    All tools with `whole`; else those down to the last kept one, the next few, and a line that counts the rest.
    """
    shown = ranking if whole else _down_to_the_cut(ranking)
    best = max((tool.score for tool in ranking), default=0.0) or 1.0
    room = max(width - 48, 24)
    bar = min(20, max(8, room // 3))
    names = min(max([4, *(len(tool.name) for tool in shown)]), room - bar)
    judged = any(tool.evidence is not None for tool in ranking)

    def line(rank: str, name: str, score: str, needed: str, *others: str) -> str:
        judgement = [needed] if judged else []
        return "  ".join([f"{rank:>4}", f"{name:<{names}}", score, *judgement, *others])

    lines = [line("", "tool", f"{'score':<{bar + 6}}", "needed", "tokens", "together")]
    together = 0
    for rank, tool in enumerate(shown, 1):
        summed = ""
        verdict = "cut"
        if tool.kept:
            together += tokens[tool.name]
            summed = f"{together:,}"
            verdict = "kept"
        lines.append(
            line(
                str(rank),
                _shortened(tool.name, names),
                f"{block * round(bar * tool.score / best):<{bar}} {tool.score:5.2f}",
                f"{_percent_needed(tool.evidence):>6}",
                f"{tokens[tool.name]:>6,}",
                f"{summed:>8}",
                verdict,
            )
        )
    rest = len(ranking) - len(shown)
    if rest:
        lines.append(f"{'':>4}  and {rest} more, cut")
    return lines


def _down_to_the_cut(ranking: Sequence[Ranked]) -> Sequence[Ranked]:
    """The tools down to the last kept one, and the next few; all where one more would be all."""
    last = max((place for place, tool in enumerate(ranking, 1) if tool.kept), default=0)
    if len(ranking) <= last + CUT_LINES + 1:
        return ranking
    return ranking[: last + CUT_LINES]


def _percent_needed(evidence: float | None) -> str:
    if evidence is None:
        return ""
    if evidence < 0.01:
        return "<1%"
    return f"{evidence:.0%}"


def _shortened(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    return f"{name[: most - 1]}…"


def _svg_row(tool: Ranked, y: int, spent: float, total: float, best: float) -> list[str]:
    if tool.kept:
        ink = INK
        color = KEPT
        fill = KEPT
        verdict = "kept"
    else:
        ink = FAINT
        color = CUT
        fill = "none"
        verdict = "cut"
    start = BARS + _length(spent, total)
    length = max(_length(tool.priced_cost, total), 1.5)
    bar = (SCORES - 50) * tool.score / best
    score_at = MARGIN + LABEL
    reason_at = MARGIN + LABEL + SCORES + PRICES + 18
    return [
        _svg_text(MARGIN, y + 14, _shortened(tool.name, NAME_LENGTH), ink),
        f'<rect x="{score_at}" y="{y + 4}" width="{bar:.1f}" height="12" fill="{color}"/>',
        _svg_text(score_at + bar + 4, y + 14, f"{tool.score:.2f}", FAINT),
        f'<rect x="{start:.1f}" y="{y + 4}" width="{length:.1f}" height="12" fill="{fill}" stroke="{color}"/>',
        _svg_text(reason_at, y + 14, f"{tool.priced_cost:.4f}  {verdict}, {tool.why}", ink),
    ]


def _reach(ranking: Sequence[Ranked]) -> float:
    """Where the rightmost bar ends: a cut tool is drawn where it would have been added."""
    spent = 0.0
    reach = 0.0
    for tool in ranking:
        reach = max(reach, spent + tool.priced_cost)
        if tool.kept:
            spent += tool.priced_cost
    return reach


def _length(cost: float, total: float) -> float:
    return PRICES * cost / total


def _svg_text(x: float, y: float, text: str, fill: str = INK, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{fill}" font-weight="{weight}">{escape(text)}</text>'
