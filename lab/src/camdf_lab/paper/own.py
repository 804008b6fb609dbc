"""A policy of your own, or tasks of your own, in a table of the paper: the same cells, with one contestant more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from camdf.evaluation.replay import Outcomes
from camdf_lab.domains import OWN
from camdf_lab.paper.cells import PAPER_COSTS, Cell
from camdf_lab.paper.table import Table


def own_cells(table: Table, policy: str | None, tasks: str | None) -> list[Cell]:
    """The table's cells with the policy, `module:Class`, among the contestants; on your own tasks if a file is named.

    Tasks of your own are priced by the paper's rule, as those of every domain are.
    """
    cells = list(table.cells)
    if tasks is not None:
        cells = [replace(cell, domain=tasks, scorer=OWN, costs=PAPER_COSTS) for cell in cells]
    if policy is not None:
        cells = [replace(cell, policies=(*cell.policies, policy)) for cell in cells]
    return list(dict.fromkeys(cells))


def own_rows(outcomes: Mapping[Cell, Outcomes], policy: str | None) -> list[dict[str, Any]]:
    """One row for every contestant of every cell, the best first: its payoff, and how far your policy is ahead."""
    rows = []
    for cell, paid in outcomes.items():
        place = {name: getattr(cell, name) for name in ("domain", "scorer", "value", "cost_pressure", "dispersion")}
        place |= {"noise": cell.noise, "splits": cell.splits}
        for name in sorted(cell.policies, key=lambda contestant: -paid.mean(contestant)):
            row: dict[str, Any] = {**place, "policy": name, "payoff": paid.mean(name)}
            if policy not in (None, name):
                ahead = paid.difference(str(policy), name)
                row |= {"ahead": ahead.mean, "low": ahead.low, "high": ahead.high}
            rows.append(row)
    return rows


def own_text(table: Table, rows: list[dict[str, Any]], policy: str | None) -> str:
    """The rows for a terminal, cell by cell."""
    width = max(len(row["policy"]) for row in rows)
    what = "Mean payoff on held-out tasks"
    if policy:
        what += f", and how far {policy} is ahead"
    lines = [table.title, f"{what}."]
    above = None
    for row in rows:
        noise = f", {row['noise']:g} of labels flipped" if row["noise"] else ""
        cell = (
            f"{row['domain']}, {row['scorer']}: {row['value']} value, pressure {row['cost_pressure']:g}, "
            f"dispersion {row['dispersion']:g}{noise}, {row['splits']} splits"
        )
        if cell != above:
            lines += ["", cell]
            above = cell
        line = f"  {row['policy']:<{width}}  {row['payoff']:.3f}"
        if "ahead" in row:
            line += f"  {row['ahead']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        lines.append(line)
    return "\n".join(lines)
