"""Filled studies as text: Markdown and LaTeX tables with our number and the paper's in one cell, and their verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from camdf.lab.study import Figure, Result, Study

VERDICTS = ("replicates", "same direction", "differs", "cannot be compared")
"""Every verdict, best first."""

MARKS = {"replicates": "=", "same direction": "~", "differs": "≠", "cannot be compared": ""}
"""A verdict as one character, where a word has no room."""

STARS = "A star marks a difference whose 95% interval excludes zero."


def number(figure: Figure) -> str:
    """The value: signed for a difference, with a star where it is clear; bare for a level; a dash where not measured.

    >>> number(Figure.between(-0.1, -0.2, -0.05)), number(Figure(0.352)), number(Figure(495.0))
    ('-0.100*', '0.352', '495')
    """
    if not figure.measured:
        return "-"
    if figure.clear is None and figure.value.is_integer() and abs(figure.value) >= 10:
        return f"{figure.value:,.0f}"
    return f"{figure.value:{'.3f' if figure.clear is None else '+.3f'}}" + ("*" if figure.clear else "")


def interval(figure: Figure) -> str:
    """The 95% interval, `[+0.019, +0.075]`, or nothing where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f"[{figure.low:+.3f}, {figure.high:+.3f}]"


def counted(results: Iterable[Result]) -> dict[str, int]:
    """How many results have which verdict, in the order of `VERDICTS`."""
    counts = Counter(result.verdict for result in results)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def by_place(study: Study, results: Iterable[Result]) -> dict[tuple[str, str], Result]:
    """(row, column) -> result, of one study; `results` may hold those of other studies too."""
    return {(result.row, result.column): result for result in results if result.study == study.name}


def markdown(study: Study, results: Iterable[Result]) -> str:
    """One study: in every cell our number, the paper's below it, and the verdict."""
    found = by_place(study, results)
    lines = [f"### {_markdown_text(study.title)}", "", f"In the paper: {_markdown_text(study.where)}."]
    lines += [f"Not as in the paper: {_markdown_text(study.differs)}"] if study.differs else []
    lines += ["", _markdown_row(["", *map(_markdown_text, study.columns)])]
    lines.append(_markdown_row(["---"] * (1 + len(study.columns))))
    for row in study.rows:
        cells = [_markdown_cell(found.get((row, column))) for column in study.columns]
        lines.append(_markdown_row([_markdown_text(row), *cells]))
    return "\n".join([*lines, "", f"First line: ours. {STARS} Without a verdict, the two cannot be compared.", ""])


def markdown_summary(studies: Iterable[Study], results: Iterable[Result]) -> str:
    """One row a study: how many of its numbers replicate, go the same direction, differ, or cannot be compared."""
    everything = list(results)
    lines = [_markdown_row(["study", "in the paper", "numbers", *VERDICTS]), _markdown_row(["---"] * 7)]
    total: Counter[str] = Counter()
    for study in studies:
        counts = counted(by_place(study, everything).values())
        total.update(counts)
        lines.append(_summary_row(_markdown_text(study.title), _markdown_text(study.where), counts))
    return "\n".join([*lines, _summary_row("**all**", "", total), ""])


def latex(study: Study, results: Iterable[Result]) -> str:
    """One study as a table for a paper that loads booktabs: ours, the paper's and the verdict's mark side by side."""
    found = by_place(study, results)
    columns = study.columns
    heads = " & ".join(f"\\multicolumn{{3}}{{c}}{{{_latex_text(column)}}}" for column in columns)
    rules = "".join(f"\\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(len(columns)))
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}[t]",
        "\\centering\\small\\setlength{\\tabcolsep}{3pt}",
        "\\begin{tabular}{l" + "rrc@{\\hspace{9pt}}" * len(columns) + "}",
        "\\toprule",
        f" & {heads} \\\\",
        rules,
        " & " + " & ".join(["ours & paper & "] * len(columns)) + " \\\\",
        "\\midrule",
    ]
    for row in study.rows:
        lines += _latex_rows(row, [found.get((row, column)) for column in columns])
    caption = [_sentence(study.title), f"In the paper: {study.where}.", _sentence(study.differs), STARS]
    caption.append("Verdicts: = replicates, ~ same direction, ≠ differs.")
    lines += [
        "\\bottomrule",
        "\\end{tabular}",
        f"\\caption{{{_latex_text(' '.join(filter(None, caption)))}}}",
        f"\\label{{tab:camdf-{study.name.replace(' ', '-')}}}",
        "\\end{table}",
    ]
    return "\n".join([*lines, ""])


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."


_MARKDOWN = {ord(char): f"\\{char}" for char in "\\`*_[]|~#$"} | {ord("<"): "&lt;", ord(">"): "&gt;", ord("&"): "&amp;"}


def _markdown_text(text: str) -> str:
    return " ".join(text.split()).translate(_MARKDOWN)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(result: Result | None) -> str:
    if result is None:
        return ""
    lines = [_markdown_figure(result.ours)]
    lines += [f"paper {_markdown_figure(result.paper)}"] if result.paper is not None else []
    if result.margin != result.ours:
        theirs = "" if result.paper_margin is None else f", paper {_markdown_figure(result.paper_margin)}"
        lines.append(f"lead over it {_markdown_figure(result.margin)}{theirs}")
    verdict = {"differs": "**differs**", "cannot be compared": ""}.get(result.verdict, result.verdict)
    return "<br>".join(filter(None, [*lines, verdict]))


def _markdown_figure(figure: Figure) -> str:
    return f"{_markdown_text(number(figure))} {interval(figure)}".rstrip()


def _summary_row(title: str, where: str, counts: Mapping[str, int]) -> str:
    return _markdown_row([title, where, str(sum(counts.values())), *(str(counts[verdict]) for verdict in VERDICTS)])


_LATEX = {
    "\\": "\\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": "$\\sim$",
    "^": "\\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "≠": "$\\neq$",
    "≥": "$\\geq$",
    "≤": "$\\leq$",
    "±": "$\\pm$",
    "λ": "$\\lambda$",
    "τ": "$\\tau$",
    "ε": "$\\varepsilon$",
    "Δ": "$\\Delta$",
    "²": "$^2$",
}
_LATEX_TABLE = {ord(char): escaped for char, escaped in _LATEX.items()}


def _latex_text(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX_TABLE)


def _latex_rows(row: str, results: list[Result | None]) -> list[str]:
    """The numbers, and their intervals on a smaller line below where any has one."""
    lines = [_latex_line(_latex_text(row), results, _latex_number, lambda result: _latex_text(MARKS[result.verdict]))]
    below = _latex_line("", results, _latex_interval, lambda result: "")
    return [*lines, below] if "[" in below else lines


def _latex_line(
    head: str, results: list[Result | None], shown: Callable[[Figure], str], mark: Callable[[Result], str]
) -> str:
    cells = [head]
    for result in results:
        if result is None:
            cells += ["", "", ""]
        else:
            paper = "" if result.paper is None else shown(result.paper)
            cells += [shown(result.ours), paper, mark(result)]
    return " & ".join(cells) + " \\\\"


def _latex_number(figure: Figure) -> str:
    text = number(figure)
    if text == "-":
        return "--"
    return f"${text.rstrip('*').replace(',', '{,}')}{'^{*}' if text.endswith('*') else ''}$"


def _latex_interval(figure: Figure) -> str:
    text = interval(figure)
    return f"{{\\scriptsize${text}$}}" if text else ""
