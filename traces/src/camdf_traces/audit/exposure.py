"""Which tools with effects tasks exposed, and which of them nobody used: what could be taken away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from camdf.core.rankings import Bools, Ints
from camdf.gate.privilege import Privilege
from camdf.runtime.visible import visible
from camdf.tools import WORST
from camdf_traces.audit.task_lists import TaskLists, ToolLists

SHOWN = 20
"""How many tools the table has, and a sentence names."""


@dataclass(frozen=True)
class ExposedTool:
    """A tool that can do more than read, and in how many tasks it was exposed and used."""

    tool: str
    effect: str
    """The worst that it can do; what nobody says anything of counts as the worst."""

    exposed: int
    """Tasks that offered it; of a task that recorded no offer, that it was ranked for."""

    used: int
    """Tasks that called it."""

    unconfirmed: int
    """Those of them in which only a request shows the call: it was refused, or nobody traced it."""


def exposed_tools(tasks: TaskLists, privilege: Privilege) -> list[ExposedTool]:
    """The tools with effects that tasks exposed: those that nobody used first, then by how many exposed them."""
    exposed = _tasks_by_tool(tasks, _lists_given(tasks))
    used = _tasks_by_tool(tasks, tasks.called)
    unconfirmed = np.zeros_like(used)
    if tasks.inferred is not None:
        unconfirmed = _tasks_by_tool(tasks, tasks.inferred)
    tools: list[ExposedTool] = []
    for place, name in enumerate(tasks.catalogue):
        effect = privilege.effect_by_name(name, WORST)
        if effect != "read" and exposed[place]:
            counts = (int(exposed[place]), int(used[place]), int(unconfirmed[place]))
            tools.append(ExposedTool(name, effect, *counts))
    return sorted(tools, key=lambda tool: (tool.used > 0, -tool.exposed, tool.tool))


def exposure_text(tools: Sequence[ExposedTool], tasks: int) -> str:
    """A short table, and a line that says which tools nobody used."""
    width = max([4, *(len(visible(tool.tool)) for tool in tools[:SHOWN])])
    lines = [f"{'tool':{width}}  effect  exposed    used  unconfirmed"] if tools else []
    for tool in tools[:SHOWN]:
        counts = f"{tool.exposed:7,}  {tool.used:6,}  {tool.unconfirmed:11,}"
        lines.append(f"{visible(tool.tool):{width}}  {tool.effect:6}  {counts}")
    if len(tools) > SHOWN:
        lines.append(f"and {len(tools) - SHOWN:,} more")
    if lines:
        lines.append("")
    return "\n".join([*lines, _unused_sentence(tools, tasks)])


def _unused_sentence(tools: Sequence[ExposedTool], tasks: int) -> str:
    unused = [visible(tool.tool) for tool in tools if not tool.used]
    if not tools:
        return f"No tool with effects was exposed in {tasks:,} tasks."
    if not unused:
        return f"In {tasks:,} tasks somebody used each of the {len(tools):,} tools with effects that were exposed."
    names = ", ".join(unused[:SHOWN])
    if len(unused) > SHOWN:
        names += f" and {len(unused) - SHOWN:,} more"
    return f"Nobody used {len(unused):,} of {len(tools):,} tools with effects in {tasks:,} tasks: take away {names}."


def _lists_given(tasks: TaskLists) -> ToolLists:
    """What the agent of each task was offered; what was ranked for it where no offer is recorded."""
    if tasks.offered is None:
        return tasks.ranked
    unrecorded = ~tasks.offered.filled
    tools: Ints = np.concatenate([tasks.offered.tools, tasks.ranked.tools[unrecorded[tasks.ranked.task]]])
    task: Ints = np.concatenate([tasks.offered.task, tasks.ranked.task[unrecorded[tasks.ranked.task]]])
    order = np.argsort(task, kind="stable")
    return ToolLists(tools[order], np.where(unrecorded, tasks.ranked.lengths, tasks.offered.lengths))


def _tasks_by_tool(tasks: TaskLists, lists: ToolLists) -> Ints:
    """In how many tasks each tool of the catalogue is on its list, each once."""
    codes = np.sort(tasks.codes(lists), kind="stable")
    first: Bools = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
    counts: Ints = np.bincount(codes[first] % len(tasks.catalogue), minlength=len(tasks.catalogue))
    return counts
