"""An audit in words: a sentence for each finding, the verdict, and the same as JSON for machines."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from functools import singledispatch
from typing import Any

from camdf.core.resampling import Interval
from camdf.datasets.counts import in_one_line
from camdf_traces.audit.findings import (
    Audit,
    Censoring,
    Drift,
    Exploration,
    Finding,
    Noise,
    NoTool,
    RepeatedRuns,
    Shift,
    Surfacing,
    Unknown,
    Untraced,
)
from camdf_traces.audit.verdict import CHANCE, ENOUGH_TASKS, verdict_of

WIDTH = 118
"""Characters a line."""

NAMED = 3
"""How many tools of a list are named."""


def audit_text(audit: Audit) -> str:
    """The report: the counts, then a paragraph for each finding and for the verdict."""
    sentences = {name.replace("_", " "): in_words(finding) for name, finding in audit.findings.items()}
    indent = max(map(len, sentences)) + 2
    lines = [f"{in_one_line('tasks', audit.sums['tasks'])} {audit.tools:,} tools.", ""]
    for name, words in {**sentences, "verdict": verdict_of(audit).sentence}.items():
        lines += textwrap.wrap(words, WIDTH, initial_indent=f"{name:{indent}}", subsequent_indent=" " * indent)
    return "\n".join(lines)


def audit_json(audit: Audit) -> dict[str, Any]:
    """Numbers and sentences, for machines."""
    findings = {name: {**asdict(finding), "sentence": in_words(finding)} for name, finding in audit.findings.items()}
    counts = {"tasks": audit.tasks, "ranked": audit.ranked, "tools": audit.tools}
    return {**counts, "sums": audit.sums, **findings, "verdict": asdict(verdict_of(audit))}


@singledispatch
def in_words(finding: Finding) -> str:
    """A finding in words."""
    raise NotImplementedError


@in_words.register
def _(finding: Unknown) -> str:
    return finding.sentence


@in_words.register
def _(finding: RepeatedRuns) -> str:
    repeated = {"text": "tasks ran more than once", "group": "groups of near-copies"}[finding.by]
    return (
        f"{finding.tasks:,} {repeated}, {finding.runs:,} runs in all. Two runs of one agree on "
        f"{_in_percent(finding.agreement)} of the tools that either called, as if {_in_percent(finding.flips)} of all "
        "labels were flipped at random."
    )


@in_words.register
def _(finding: Noise) -> str:
    return (
        f"{finding.rate:.1%} of the {finding.labels:,} labels that a model is surest of contradict it, at most "
        f"{finding.at_most:.1%}, in {finding.tasks:,} runs that saw their whole ranking. An upper bound on random "
        "flips: a task that is hard to read looks like a wrong label."
    )


@in_words.register
def _(finding: Censoring) -> str:
    never = ""
    if finding.never_offered:
        never = f"Never offered to any run: {_some_names(finding.never_offered)}."
    if finding.cut_runs.mean == 0:
        return f"None: the {finding.runs:,} runs that did not explore saw every ranked tool. {never}".rstrip()
    return (
        f"{_in_percent(finding.cut_runs)} of the {finding.runs:,} runs that did not explore lost a ranked tool, and "
        f"{finding.cut_candidates:.0%} of their candidates were cut. What is cut cannot be called. {never}"
    ).rstrip()


@in_words.register
def _(finding: Surfacing) -> str:
    words = f"{_in_percent(finding.missed)} of {finding.tasks:,} tasks required a tool that the ranking lacks. "
    words += f"Lists reach position {finding.longest}; the deepest required tool stood at {finding.deepest_required}"
    if finding.deepest_offered is None:
        return f"{words}. What was offered is not recorded."
    if finding.deepest_offered < finding.longest:
        return f"{words}, and nothing past {finding.deepest_offered} was ever offered: nothing can be learned there."
    return f"{words}, and every position was offered to some run."


@in_words.register
def _(finding: Drift) -> str:
    changes = (("came", finding.added), ("went", finding.removed))
    changed = "; ".join(f"{_some_names(names)} {what}" for what, names in changes if names) or "no tool came or went"
    required = finding.required
    return (
        f"Since {finding.since} ({finding.later:,} tasks, {finding.earlier:,} before): {changed}; "
        f"{finding.shared:.0%} of all tools are in both periods. Distance of scores {_moved_by(finding.scores)}, of "
        f"top scores {_moved_by(finding.top_scores)}; required tools {required.mean:+.2f} "
        f"[{required.low:+.2f}, {required.high:+.2f}]."
    )


@in_words.register
def _(finding: Exploration) -> str:
    enough = f"{ENOUGH_TASKS} are enough"
    if finding.unbiased >= ENOUGH_TASKS:
        enough = "enough to learn from"
    sentences = [
        f"{_in_percent(finding.share)} of runs explored: {finding.unbiased:,} tasks have unbiased labels, {enough}."
    ]
    if finding.incomplete:
        sentences.append(f"{finding.incomplete:,} explored runs lacked a ranked tool all the same.")
    if finding.extra_tools is not None:
        sentences.append(
            f"Its price: {finding.extra_tools:.1f} tools more a run than other runs saw, times the cost pressure in "
            "payoff."
        )
    return " ".join(sentences)


@in_words.register
def _(finding: Untraced) -> str:
    sentence = (
        f"{finding.share:.1%} of {finding.calls:,} required tools are known by the model's request alone, as the call "
        f"has no span: {_shares_by_name(finding.tools)}."
    )
    if finding.services:
        sentence += f" By service: {_shares_by_name(finding.services)}."
    return sentence


@in_words.register
def _(finding: NoTool) -> str:
    return (
        f"{_in_percent(finding.share)} of the {finding.tasks:,} tasks whose agent saw its whole ranking needed no "
        f"tool; {finding.of_all:.1%} of all with a ranking called none."
    )


def _shares_by_name(shares: dict[str, float]) -> str:
    return _some_names(tuple(f"{name or 'without a name'} ({share:.0%})" for name, share in shares.items()))


def _in_percent(share: Interval) -> str:
    return f"{share.mean:.1%} [{share.low:.1%}, {share.high:.1%}]"


def _moved_by(shift: Shift) -> str:
    return f"{shift.distance:.2f} (p {'<' if shift.chance < CHANCE else '='} {max(shift.chance, CHANCE):.2f})"


def _some_names(names: tuple[str, ...]) -> str:
    some = ", ".join(names[:NAMED])
    if len(names) > NAMED:
        some += f" and {len(names) - NAMED} more"
    return some
