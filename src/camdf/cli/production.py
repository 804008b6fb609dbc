"""Before the first cut: shadow-report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from camdf.cli.logs import FILES, add_log
from camdf.cli.money import add_dollars, add_payoff, chosen_payoff
from camdf.cli.parser import add_json, print_json
from camdf.cli.policy import (
    add_saved,
    moved_as_json,
    print_moved_and_what_to_run,
    recall_warning,
    saved_policy,
    uncensored_in_dollars,
)
from camdf.cli.tools import tools_in_file
from camdf.policies.base import fitted_payoff
from camdf.prices import Prices
from camdf.tools import view


def add_commands(commands: Any) -> None:
    """shadow-report."""
    shadow = commands.add(_shadow_report)
    shadow.add_argument("policy", type=Path, help="a policy that camdf saved (.json)")
    shadow.add_argument("data", type=Path, help=f"what camdf mine wrote, {FILES}")
    add_saved(shadow)
    add_log(shadow, ", and to count their tokens")
    add_payoff(shadow, required=False)
    add_dollars(shadow)
    add_json(shadow)


def _shadow_report(options: argparse.Namespace) -> int:
    """Say what a policy would have cut, saved and missed.

    camdf shadow-report policy.json tasks.parquet --tools tools.json
    """
    from camdf.evaluation.assess import moved_since_fit
    from camdf.evaluation.shadow import shadow_report

    policy = saved_policy(options)
    payoff = chosen_payoff(options, fitted_payoff(policy))
    tokens = None if options.tools is None else _tokens_by_name(options.tools)
    read = uncensored_in_dollars(options, policy)
    warnings = [*read.warnings, *recall_warning(policy, read.logged)]
    report = shadow_report(policy, read.logged, payoff, tokens)
    moved = moved_since_fit(policy, read.logged)
    if options.json:
        told = {"saw_every_tool": read.told, "left_out": read.left_out, "moved": moved_as_json(moved)}
        print_json({**report.record(), **told})
        return 0
    print("\n".join([f"{report.table()}\n", report.verdict, *warnings]))
    print_moved_and_what_to_run(options, options.policy, moved)
    if not (read.told or read.censored):
        print("Nothing says that these tasks saw every tool. What a gate had cut, none of them could call.")
    return 0


def _tokens_by_name(path: Path) -> dict[str, float]:
    """How many tokens the definition of each tool of a file has."""
    prices = Prices()
    tools = [view(native) for native in tools_in_file(path)]
    return {tool.name: float(prices.count(tool)) for tool in tools}
