"""Commands before and after the first cut: shadow-report, compare."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from camdf.cli.logs import FILES, add_log
from camdf.cli.money import add_payoff, chosen_payoff
from camdf.cli.parser import add_json, print_json
from camdf.cli.policy import add_saved, recall_warning, saved_policy, uncensored_tasks
from camdf.cli.tools import add_prices, chosen_prices, tools_in_file
from camdf.cli.traces import add_workers, read_traces
from camdf.policies.base import fitted_payoff
from camdf.prices import Prices
from camdf.tools import view

OUTPUT_PRICE = 15.0
"""Dollars a million output tokens: an example, as the prices of `Prices` are."""

HARM = {3: "success is shown to have fallen"}


def add_commands(commands: Any) -> None:
    """shadow-report, compare."""
    shadow = commands.add(_shadow_report)
    shadow.add_argument("policy", type=Path, help="a policy that camdf saved (.json)")
    shadow.add_argument("data", type=Path, help=f"what camdf mine wrote, {FILES}")
    add_saved(shadow)
    add_log(shadow, ", and to count their tokens")
    add_payoff(shadow, required=False)
    add_json(shadow)

    compare = commands.add(_compare, codes=HARM)
    option = compare.add_argument
    option("traces", help="a folder of traces, one file, or a URL of either, of any tracer that docs/traces.md names")
    option("--margin", type=float, default=0.02, help="by how much success may fall and be safe (default: %(default)s)")
    option("--require-outcome", action="store_true", help="count conversations without an outcome as failed")
    option("--gated-share", type=float, help="the share of conversations that were to be gated")
    add_prices(compare)
    option("--output-price", type=float, default=OUTPUT_PRICE, help="the same where they are written (%(default)s)")
    add_workers(compare)
    add_json(compare)


def _shadow_report(options: argparse.Namespace) -> int:
    """Say what a policy would have cut, saved and missed.

    camdf shadow-report policy.json tasks.parquet --tools tools.json
    """
    from camdf.evaluation.shadow import shadow_report

    policy, prices = saved_policy(options), Prices()
    payoff = chosen_payoff(options, fitted_payoff(policy))
    tools = None if options.tools is None else [view(tool) for tool in tools_in_file(options.tools)]
    tokens = None if tools is None else {tool.name: float(prices.count(tool)) for tool in tools}
    read = uncensored_tasks(options)
    warnings = [*read.warnings, *recall_warning(policy, read.logged)]
    report = shadow_report(policy, read.logged, payoff, tokens)
    if options.json:
        print_json({**report.record(), "saw_every_tool": read.told, "left_out": read.left_out})
        return 0
    print("\n".join([f"{report.table()}\n", report.verdict, *warnings]))
    if not (read.told or read.censored):
        print("Nothing says that these tasks saw every tool. What a gate had cut, none of them could call.")
    return 0


def _compare(options: argparse.Namespace) -> int:
    """Say whether gated conversations do as well, and what they save.

    camdf compare traces/
    """
    from camdf.evaluation.compare import compare
    from camdf.mining.arms import arms

    prices = chosen_prices(options)
    with read_traces(options, with_text=False) as tables:
        dealt = arms(tables, prices, options.output_price, require_outcome=options.require_outcome)
    counts = {"lost": dealt.lost, "unplaced": dealt.unplaced, "share": options.gated_share}
    comparison = compare(dealt.gated, dealt.measures, options.margin, **counts)
    if options.json:
        print_json({**comparison.record(), "sums": dealt.sums})
    else:
        print(f"{dealt}\n\n{comparison.table()}\n\n{comparison.verdict}")
    return 3 if comparison.harms else 0
