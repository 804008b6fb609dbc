"""All filled tables as one HTML page that needs nothing besides itself: no network, no script, no second file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from camdf.lab.paper.figure import Figure
from camdf.lab.paper.markup import LEVELS, STARS, interval_text, number_text
from camdf.lab.paper.summary import VERDICTS, by_place, departures, largest, sentences, verdict_counts
from camdf.lab.paper.table import Result, Table


def html_page(tables: Iterable[Table], results: Iterable[Result], pictures: Mapping[str, Mapping[str, str]]) -> str:
    """The page. `pictures` maps a table's name to its pictures: caption to SVG text, as `drawing.svg` returns it."""
    chosen, everything = list(tables), list(results)
    titles = {table.name: table.title for table in chosen}
    known = [result for result in everything if result.table in titles]
    sections = [_section(table, known, pictures.get(table.name, {})) for table in chosen]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>Scores Are Not Decisions: what replicates</title>",
            f"<style>{_STYLE}</style></head><body>",
            "<header><h1>Scores Are Not Decisions: what replicates</h1>",
            "<p>Every table and figure of the paper, run again with this package, beside the paper's own numbers.</p>",
            "</header><main>",
            _summary(known, titles),
            _contents(chosen, known),
            *sections,
            f"</main><footer>{_METHOD}</footer></body></html>",
            "",
        ]
    )


def _summary(results: Sequence[Result], titles: Mapping[str, str]) -> str:
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(results))
    counts = verdict_counts(results)
    key = "".join(_verdict(verdict, f"{verdict} {count:,}") for verdict, count in counts.items())
    lists = (
        _named("Largest gains", "No difference is clearly above zero.", largest(results, 1), titles)
        + _named("Largest losses", "No difference is clearly below zero.", largest(results, -1), titles)
        + _named("Furthest from the paper", "No finding differs.", departures(results), titles)
    )
    return (
        f'<section id="summary"><h2>Summary</h2>{paragraphs}{_bar(counts)}<p class="key">{key}</p>'
        f'<div class="lists">{lists}</div><p class="note">One finding a table. Gains and losses are differences in '
        "mean payoff whose interval excludes zero; the third list has the findings that differ.</p></section>"
    )


def _named(heading: str, nothing: str, results: Sequence[Result], titles: Mapping[str, str]) -> str:
    items = []
    for result in results:
        paper = "" if result.paper_margin is None else f"; paper {_figure(result.paper_margin)}"
        link = f'<a href="#{_anchor(result.table)}">{escape(titles[result.table])}</a>'
        place = f"{escape(result.row)}, {escape(result.column)}: {escape(result.why)}"
        items.append(f"<li><b>{_figure(result.margin)}</b>{paper}<br>{place}<br>{link}</li>")
    body = f"<ol>{''.join(items)}</ol>" if items else f"<p>{nothing}</p>"
    return f"<div><h3>{heading}</h3>{body}</div>"


def _contents(tables: Sequence[Table], results: Sequence[Result]) -> str:
    rows = []
    for table in tables:
        counts = verdict_counts(by_place(table, results).values())
        numbers = "".join(f'<td data-label="{verdict}">{counts[verdict]:,}</td>' for verdict in VERDICTS)
        link = f'<a href="#{_anchor(table.name)}">{escape(table.title)}</a>'
        rows.append(f'<tr><th scope="row">{link}</th>{numbers}<td class="wide">{_bar(counts)}</td></tr>')
    heads = "".join(f'<th scope="col">{_verdict(verdict, verdict)}</th>' for verdict in VERDICTS)
    return (
        '<nav id="contents"><h2>Contents</h2><table class="contents"><thead><tr><th scope="col">table</th>'
        f'{heads}<th scope="col"></th></tr></thead><tbody>{"".join(rows)}</tbody></table></nav>'
    )


def _lead(result: Result) -> str:
    """The judged margin, where the number itself is a level."""
    if result.margin == result.ours:
        return ""
    theirs = "" if result.paper_margin is None else f", paper {_figure(result.paper_margin)}"
    return f'<span class="paper">lead over it {_figure(result.margin)}{theirs}</span>'


def _bar(counts: Mapping[str, int]) -> str:
    """A bar with a part for each verdict, as wide as the verdict's count."""
    parts = [
        f'<span class="{_class(verdict)}" style="flex-grow:{count}" title="{count:,} {verdict}"></span>'
        for verdict, count in counts.items()
        if count
    ]
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    return f'<div class="bar" role="img" aria-label="{said}">{"".join(parts)}</div>'


def _section(table: Table, results: Sequence[Result], pictures: Mapping[str, str]) -> str:
    found = by_place(table, results)
    rows = []
    for row in table.rows:
        entries = "".join(_entry(column, found.get((row, column))) for column in table.columns)
        rows.append(f'<tr><th scope="row">{escape(row)}</th>{entries}</tr>')
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    drawn = "".join(_picture(f"{table.name}-{i}", *each) for i, each in enumerate(pictures.items()))
    differs = f'<p class="note">Not as in the paper: {escape(table.differs)}</p>' if table.differs else ""
    return (
        f'<section id="{_anchor(table.name)}"><h2>{escape(table.title)}</h2>'
        f'<p class="note">In the paper: {escape(table.where)}.</p>{differs}{drawn}'
        f'<div class="scroll"><table><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="note"><a href="#contents">Contents</a></p></section>'
    )


def _entry(column: str, result: Result | None) -> str:
    if result is None:
        return '<td class="none"></td>'
    paper = "" if result.paper is None else f'<span class="paper">paper {_figure(result.paper)}</span>'
    verdict = _verdict(result.verdict, result.verdict, result.why)
    return f'<td data-label="{escape(column)}"><span>{_figure(result.ours)}</span>{paper}{_lead(result)}{verdict}</td>'


def _verdict(verdict: str, text: str, why: str = "") -> str:
    title = f' title="{escape(why)}"' if why else ""
    return f'<span class="verdict {_class(verdict)}"{title}>{escape(text)}</span>'


def _figure(figure: Figure) -> str:
    between = interval_text(figure)
    return escape(number_text(figure)) + (f" <small>{between}</small>" if between else "")


def _picture(prefix: str, caption: str, svg: str) -> str:
    """An SVG file's text as an element of this page: no prolog, and names that no other picture of the page uses."""
    element = svg[svg.index("<svg") :]
    scope = f"{_anchor(prefix)}-"
    element = re.sub(r'(\bid="|href="#|url\(#)', lambda match: match[0] + scope, element)
    label = f'<svg role="img" aria-label="{escape(caption)}"'
    return f"<figure>{element.replace('<svg', label, 1)}<figcaption>{escape(caption)}</figcaption></figure>"


def _anchor(name: str) -> str:
    return "table-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _class(verdict: str) -> str:
    return verdict.replace(" ", "-")


_METHOD = f"""<h2>How to read this</h2>
<p>At every place the first number is ours and the one below it the paper's. {STARS} Intervals resample tasks in pairs.
A signed number is a difference in mean payoff; a bare one is a level. {LEVELS}</p>
<p><b>Replicates</b>: clear with the same sign in both. <b>Same direction</b>: the same sign, clear in one.
<b>Unclear in both</b>: clear in neither, so nothing was found that could replicate. <b>Differs</b>: opposite signs, at
least one of them clear. A verdict's tooltip gives its reason.</p>
"""

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --page: #fff; --tint: #f6f8fa;
  --link: #0059a8; --replicates: #0072b2; --same: #56b4e9; --unclear: #8a97a3; --differs: #d55e00; --unknown: #c4c9cf }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --line: #30363d; --page: #0d1117;
  --tint: #161b22; --link: #6cb6ff; --replicates: #3d9bd9; --same: #8fd0f5; --unclear: #77838f;
  --differs: #ef7a33; --unknown: #565e67 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--page) }
section, nav, footer { border-top: 1px solid var(--line); padding: 1.5rem 0 }
h1 { line-height: 1.2; margin: .5rem 0 }
h2 { line-height: 1.25; margin: 0 0 .5rem; font-size: 1.3rem }
h3 { margin: .5rem 0 }
p { max-width: 46rem }
a { color: var(--link) }
.note { color: var(--soft); font-size: .875rem }
.lists { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 0 2rem }
.lists ol { margin: 0; padding-left: 1.4rem }
.lists li { margin-bottom: .6rem; font-size: .875rem }
.key { margin: .4rem 0 1rem }
.key span { margin-right: 1.2rem }
.bar { display: flex; gap: 2px; height: .8rem; min-width: 7rem; border-radius: 3px; overflow: hidden }
.bar span { flex: 1 1 0; min-width: 3px; background: var(--unknown) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums }
th, td { padding: .4rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
tbody th { min-width: 9rem }
thead th { background: var(--tint); white-space: nowrap }
td span { display: block; white-space: nowrap }
small, .paper { color: var(--soft) }
.contents { width: 100% }
.contents th { font-weight: 400 }
.contents td, .contents thead th + th { text-align: right }
.wide { width: 22% }
.wide .bar { margin-top: .25rem }
.verdict { font-size: .8rem }
.verdict::before { content: ""; display: inline-block; width: .65em; height: .65em; margin-right: .4em;
  border-radius: 50%; background: var(--unknown) }
.bar .replicates, .replicates::before { background: var(--replicates) }
.bar .same-direction, .same-direction::before { background: var(--same) }
.bar .unclear-in-both, .unclear-in-both::before { background: var(--unclear) }
.bar .differs, .differs::before { background: var(--differs) }
td .differs { font-weight: 700 }
td .cannot-be-compared { color: var(--soft) }
figure { display: inline-block; vertical-align: top; max-width: 100%; margin: 1rem 1rem 1rem 0; padding: .75rem;
  overflow-x: auto; background: #fff; border: 1px solid var(--line); border-radius: 6px }
figure svg { display: block; max-width: 100%; height: auto }
figcaption { max-width: 34rem; margin-top: .5rem; font-size: .875rem; color: #57606a }
@media (max-width: 640px) {
  thead { display: none }
  table, tbody, tr, th, td { display: block; width: 100% }
  tr { margin-bottom: .75rem; border: 1px solid var(--line); border-radius: 6px }
  tbody th { background: var(--tint) }
  td { display: grid; grid-template-columns: minmax(6rem, 34%) 1fr }
  td::before { content: attr(data-label); grid-row: 1 / span 3; color: var(--soft) }
  td span { grid-column: 2; white-space: normal }
  td.none { display: none }
  .contents td { display: inline-block; width: auto; border: 0; padding: .2rem .7rem }
  .contents td::before { margin-right: .4rem }
  .contents td.wide { display: block; width: 100%; padding: .2rem .7rem .6rem }
  .contents td.wide::before { display: none }
  figure { margin-right: 0 }
  figure svg { max-width: none }
}
"""
