"""Filled tables as text, plain and in Markdown: our number, the paper's and the verdict at every place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from camdf_lab.paper.figure import Figure
from camdf_lab.paper.summary import VERDICTS, by_place, departures, largest, verdict_counts
from camdf_lab.paper.table import Result, Table

STARS = "A star marks a difference whose 95% interval excludes zero."
LEVELS_AND_DIFFERENCES = (
    "A level, such as a mean payoff, moves with the scorer and the labels: what is judged there is how far the table's "
    "leading policy is ahead."
)


def number_text(figure: Figure) -> str:
    """The value: signed for a difference, with a star where it is clear; bare for a level; a dash where not measured.

    >>> number_text(Figure.between(-0.1, -0.2, -0.05)), number_text(Figure(0.352)), number_text(Figure(495.0))
    ('-0.100*', '0.352', '495')
    """
    if not figure.measured:
        return "-"
    if figure.clear is not None:
        star = "*" if figure.clear else ""
        return f"{figure.value:+.3f}{star}"
    if figure.value.is_integer() and abs(figure.value) >= 10:
        return f"{figure.value:,.0f}"
    return f"{figure.value:.3f}"


def interval_text(figure: Figure) -> str:
    """The 95% interval, `[+0.019, +0.075]`, or nothing where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f"[{figure.low:+.3f}, {figure.high:+.3f}]"


def markdown(table: Table, results: Iterable[Result]) -> str:
    """One table: at every place our number, the paper's below it, and the verdict."""
    filled = by_place(table, results)
    lines = [f"### {_markdown_text(table.title)}", "", f"In the paper: {_markdown_text(table.where)}."]
    if table.differs:
        lines.append(f"Not as in the paper: {_markdown_text(table.differs)}")
    lines += ["", _markdown_row(["", *map(_markdown_text, table.columns)])]
    lines.append(_markdown_row(["---"] * (1 + len(table.columns))))
    for row in table.rows:
        entries = [_markdown_entry(filled.get((row, column))) for column in table.columns]
        lines.append(_markdown_row([_markdown_text(row), *entries]))
    return "\n".join([*lines, "", f"First line: ours. {STARS} Without a verdict, the two cannot be compared.", ""])


def result_text(table: Table, results: Iterable[Result]) -> str:
    """One table for a terminal: a line for every place, under the name of its row."""
    placed = by_place(table, results)
    ours = {place: _text_of(result.ours) for place, result in placed.items()}
    paper = {place: _text_of(result.paper) for place, result in placed.items()}
    ours_width = max(map(len, ["ours", *ours.values()]))
    paper_width = max(map(len, ["paper", *paper.values()]))
    columns = max(map(len, table.columns))
    lines = [table.title, f"In the paper: {table.where}."]
    if table.differs:
        lines.append(f"Not as in the paper: {table.differs}")
    lines += ["", f"{'':{columns + 2}}  {'ours':<{ours_width}}  paper"]
    for row in table.rows:
        lines.append(row)
        for column in table.columns:
            if (row, column) in placed:
                figures = f"{ours[row, column]:<{ours_width}}  {paper[row, column]:<{paper_width}}"
                lines.append(f"  {column:<{columns}}  {figures}  {placed[row, column].verdict}".rstrip())
    return "\n".join([*lines, "", STARS])


def result_json(result: Result) -> dict[str, Any]:
    """One number for machines, with the paper's and the verdict."""

    def figure_json(figure: Figure | None) -> dict[str, Any] | None:
        if figure is None or not figure.measured:
            return None
        return asdict(figure)

    named = {"table": result.table, "row": result.row, "column": result.column}
    return {**named, "ours": figure_json(result.ours), "paper": figure_json(result.paper), "verdict": result.verdict}


def _text_of(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{number_text(figure)} {interval_text(figure)}".rstrip()


def markdown_summary(tables: Iterable[Table], results: Iterable[Result]) -> str:
    """One row a table: how many of its numbers have each verdict."""
    everything = list(results)
    lines = [
        _markdown_row(["table", "in the paper", "numbers", *VERDICTS]),
        _markdown_row(["---"] * (3 + len(VERDICTS))),
    ]
    total: Counter[str] = Counter()
    for table in tables:
        counts = verdict_counts(by_place(table, everything).values())
        total.update(counts)
        lines.append(_summary_row(_markdown_text(table.title), _markdown_text(table.where), counts))
    return "\n".join([*lines, _summary_row("**all**", "", total), ""])


def markdown_findings(tables: Iterable[Table], results: Sequence[Result]) -> str:
    """What stands out, one finding a table: largest gains, largest losses, and what is furthest from the paper."""
    titles = {table.name: table.title for table in tables}
    lists = {
        "Largest gains": largest(results, 1),
        "Largest losses": largest(results, -1),
        "Furthest from the paper": departures(results),
    }
    lines = []
    for heading, findings in lists.items():
        lines += [f"{heading}:", "", *(_markdown_finding(finding, titles[finding.table]) for finding in findings)]
        lines.append("" if findings else "none.\n")
    return "\n".join(lines)


def _markdown_finding(result: Result, title: str) -> str:
    figures = _markdown_figure(result.margin)
    if result.paper_margin is not None:
        figures += f"; paper {_markdown_figure(result.paper_margin)}"
    place = ", ".join(map(_markdown_text, (result.row, result.column)))
    return f"- {figures}: {place} ({_markdown_text(title)}; {_markdown_text(result.why)})"


_MARKDOWN = {ord(char): f"\\{char}" for char in "\\`*_[]|~#$"} | {ord("<"): "&lt;", ord(">"): "&gt;", ord("&"): "&amp;"}


def _markdown_text(text: str) -> str:
    return " ".join(text.split()).translate(_MARKDOWN)


def _markdown_row(parts: Iterable[str]) -> str:
    return f"| {' | '.join(parts)} |"


def _markdown_entry(result: Result | None) -> str:
    if result is None:
        return ""
    lines = [_markdown_figure(result.ours)]
    if result.paper is not None:
        lines.append(f"paper {_markdown_figure(result.paper)}")
    if result.margin != result.ours:
        lead = f"lead over it {_markdown_figure(result.margin)}"
        if result.paper_margin is not None:
            lead += f", paper {_markdown_figure(result.paper_margin)}"
        lines.append(lead)
    verdict = {"differs": "**differs**", "cannot be compared": ""}.get(result.verdict, result.verdict)
    return "<br>".join(filter(None, [*lines, verdict]))


def _markdown_figure(figure: Figure) -> str:
    return f"{_markdown_text(number_text(figure))} {interval_text(figure)}".rstrip()


def _summary_row(title: str, where: str, counts: Mapping[str, int]) -> str:
    return _markdown_row([title, where, str(sum(counts.values())), *(str(counts[verdict]) for verdict in VERDICTS)])
