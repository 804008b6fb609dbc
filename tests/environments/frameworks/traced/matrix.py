"""The matrix of frameworks, tracers and situations: its rows, why a cell is not exact, and its page.

Nothing here needs a framework or a tracer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from traced.situations import SITUATIONS

__all__ = ["EXACT", "FRAMEWORKS", "SITUATIONS", "TRACERS", "Row", "misleads", "page", "shares", "why"]

EXACT = "exact"
NONE = "none: "

FRAMEWORKS = {
    "LangChain": ("on_langchain", ("langchain", "langchain_mcp_adapters")),
    "LlamaIndex": ("on_llama_index", ("llama_index", "openinference")),
    "pydantic-ai": ("on_pydantic_ai", ("pydantic_ai", "openinference")),
    "OpenAI Agents": ("on_openai_agents", ("agents", "openinference")),
    "FastMCP": ("on_fastmcp", ("fastmcp", "llama_index")),
}
"""Each with the module that runs it, and the packages by which its environment is known."""

TRACERS = ("OpenTelemetry", "OpenInference", "MLflow", "LangSmith", "LangSmith OTel", "Langfuse")


class Row(NamedTuple):
    """What a trace is worth: "exact", "none" where there is nothing to measure, or what is missing, and why."""

    framework: str
    tracer: str
    situation: str
    verdict: str
    why: str


NO_GROUP = "The tracer leaves out the group of a run, so two runs of one conversation are two conversations."

APART = "Nothing in the trace says that the two runs belong together, so both are left out."
UNTRACED = "The tracer records nothing of a run that goes on from a saved state, so nobody knows how it ended."
AS_RUN = "The trace shows a call that waits for a person as one that ran, so nobody knows that the run waits."
READ_ON = (
    "The run goes on behind the reader's back: it had its whole answer, and its trace is that of a run that ended."
)
OPEN = "A run that exits leaves spans open, which are never sent; it is left out because they are missing."
UNSTORED = "MLflow stores no trace of a run that did not end."
UNENDED = "Traceloop records neither the calls that a streamed answer asks for, nor how the workflow ended."

REASONS: dict[tuple[str, str, str], str] = {
    **{("pydantic-ai", "MLflow", situation): APART for situation in ("approved", "edited", "rejected")},
    **{("OpenAI Agents", "", situation): UNTRACED for situation in ("approved", "rejected")},
    **{
        ("OpenAI Agents", tracer, situation): reason
        for tracer, reason in (("OpenTelemetry", APART), ("MLflow", AS_RUN))
        for situation in ("approved", "rejected")
    },
    ("OpenAI Agents", "", "left in the answer"): READ_ON,
    ("OpenAI Agents", "", "exit"): OPEN,
    ("OpenAI Agents", "MLflow", "exit"): UNSTORED,
    ("OpenAI Agents", "", "resumed"): NO_GROUP,
    ("pydantic-ai", "MLflow", "resumed"): "MLflow has no conversation unless the program names a session.",
    ("FastMCP", "Langfuse", ""): (
        "Langfuse's client leaves out spans that are of no model, and FastMCP's are in between; "
        "`Langfuse(should_export_span=...)` lets them through."
    ),
    ("LangChain", "MLflow", ""): UNSTORED,
    **{("LlamaIndex", "OpenTelemetry", situation): UNENDED for situation in ("exit", "limit", "left in the answer")},
    ("LlamaIndex", "", "resumed"): "LlamaIndex tells its tracers no session.",
    ("LlamaIndex", "", "handoff"): (
        "All agents of a workflow share one span: the first one's part is the task, the others' are left out."
    ),
    ("LlamaIndex", "OpenTelemetry", "nested"): "Traceloop names the run of an agent below another like a step.",
    ("LlamaIndex", "OpenTelemetry", "failed"): "Traceloop does not end the spans of a run that fails.",
    ("LlamaIndex", "OpenTelemetry", "structured output"): "Traceloop does not end the spans of such a run.",
}
"""By framework, tracer and situation; "" stands for all of them. The closest that fits is told."""


def why(framework: str, tracer: str, situation: str, verdict: str) -> str:
    """The reason of a cell that is not exact; "" where it is, and where nobody has looked into it."""
    if verdict == EXACT or verdict.startswith(NONE):
        return ""
    known = ((framework, tracer, situation), (framework, "", situation), (framework, tracer, ""))
    return next((REASONS[key] for key in known if key in REASONS), "")


def page(rows: Sequence[Row]) -> str:
    """The matrix as a page: one table a framework, and below it what is missing."""
    exact = sum(row.verdict == EXACT for row in rows)
    there = sum(not row.verdict.startswith(NONE) for row in rows)
    wrong = sum(map(misleads, (row.verdict for row in rows)))
    parts = [HEAD.format(exact=exact, there=there, wrong=wrong, shares=shares(rows), untold=_untold(rows))]
    for framework in FRAMEWORKS:
        found = {(row.tracer, row.situation): row for row in rows if row.framework == framework}
        lines = [f"| | {' | '.join(TRACERS)} |", f"| --- |{' --- |' * len(TRACERS)}"]
        notes: dict[str, None] = {}
        for situation in SITUATIONS:
            cells = [_cell(found.get((tracer, situation)), notes) for tracer in TRACERS]
            lines.append(f"| {situation} | {' | '.join(cells)} |")
        parts += [f"## {framework}\n", "\n".join(lines), ""]
        parts += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
        parts += [""] if notes else []
    return "\n".join(parts).rstrip() + "\n"


def misleads(verdict: str) -> bool:
    """Whether there is a task that should not be, or one that requires other tools."""
    more = any(int(mined) > int(true) for mined, true in re.findall(r"(\d+) runs, not (\d+)", verdict))
    return more or "requires" in verdict


def shares(rows: Sequence[Row]) -> str:
    """How many cells of each framework are exact under each tracer, as a table."""
    lines = [f"| | {' | '.join(TRACERS)} |", f"| --- |{' --- |' * len(TRACERS)}"]
    for framework in FRAMEWORKS:
        cells = []
        for tracer in TRACERS:
            found = [row.verdict for row in rows if row[:2] == (framework, tracer)]
            there = [verdict for verdict in found if not verdict.startswith(NONE)]
            cells.append(f"{there.count(EXACT)} of {len(there)}" if there else "none")
        lines.append(f"| {framework} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _untold(rows: Sequence[Row]) -> str:
    """What keeps cells from being exact, by framework: where, and in which situations."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.why:
            cells.setdefault((row.framework, row.why), []).append(row)
    lines = []
    for (framework, reason), some in cells.items():
        tracers, situations = (", ".join(dict.fromkeys(row[place] for row in some)) for place in (1, 2))
        lines.append(f"| {framework} | {tracers} | {situations} | {reason} |")
    return "\n".join(["| framework | tracer | situation | why |", "| --- | --- | --- | --- |", *lines])


def _cell(row: Row | None, notes: dict[str, None]) -> str:
    if row is None:
        return "not measured"
    if row.verdict == EXACT:
        return EXACT
    lacks = row.verdict.startswith(NONE)
    note = f"{row.verdict.removeprefix(NONE)}." if lacks else f"{row.verdict[0].upper()}{row.verdict[1:]}. {row.why}"
    notes.setdefault(note[0].upper() + note[1:])
    number = list(notes).index(note[0].upper() + note[1:]) + 1
    return f"none ({number})" if lacks else f"not exact ({number})"


HEAD = """# Which traces can be learned from

Of {there} cells with something to measure, {exact} are exact: the tasks that
[mining](../../traces/docs/mining.md) makes of the trace are what really happened. In {wrong} of the others a run that
stopped is taken for a task; in all the rest a task is missing, or lacks something, and nothing wrong is learned.

A [gate](../../docs/gate.md) cuts, the agent runs, a tracer records, with no code by the user: each framework with its
adapter, under each tracer, by situation. A cell is **exact** if the mined tasks have as many runs as there were, the
tools that each was offered, the tools that it required, whether it failed, one conversation where there was one; and of
the gate's decision the ranking with its scores, whether the task explored, the cost pressure and the digest of the
policy.

Every cell comes from a run of the real libraries against a scripted model. OpenTelemetry means the framework's own
spans (pydantic-ai, FastMCP) or those of Traceloop's instrumentors. LangSmith's and Langfuse's clients send to a server
on loopback, and what they send is read; what their services make of it on export is not tested here. LangSmith OTel
means that its client writes OpenTelemetry spans instead of runs.

LiteLLM is missing: its proxy knows requests and no runs.

The situations: two tools in **parallel** in a conversation that explores; a tool that fails and is called again
(**retry**); a run that ends because the model **failed**; an agent **nested** in a tool of another; **streaming**; an
answer as **structured output**; a **handoff**; tools of an **MCP** server; a conversation **resumed** by another run;
a run that is **cancelled** while a tool runs, ends by SystemExit in a tool (**exit**), is **left after a tool** or
**left in the answer** by whoever reads its stream, or ends at its **limit** of calls; and a call that a person must
approve of: it is **approved**, **edited** and then approved, **rejected**, or stays **unanswered**. The pieces before
and after the answer are one task. What was rejected is wanted and not required. Of a run that stops or waits for ever
nothing may be learned.

The share of cells that are exact, of those with something to measure:

{shares}

What no trace of these tells, whoever reads it:

{untold}

`python benchmarks/traces.py --store results/traces_matrix.csv` measures the cells of the environment that it runs in;
`--page results/traces_matrix.csv` writes this page.
"""
