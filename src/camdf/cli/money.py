"""What a decision is worth, on the command line: in dollars, as a target, or as a cost pressure."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from camdf.cli.logs import listed_tools
from camdf.cli.tools import read_prices
from camdf.core.payoff import VALUES, Payoff
from camdf.errors import UsageError
from camdf.gate.worth import Conversation
from camdf.policies.pressure import pressure_for_estimate, pressure_for_tools
from camdf.prices import Prices

if TYPE_CHECKING:
    from camdf.core.rankings import LoggedTasks
    from camdf.policies.base import Policy

AS_FITTED = "default: as in its fit"
FOUND = 0.9
"""How often a search finds the tool that was missed. An example, as the prices of `Prices` are: measure your own."""

DEFINITIONS = 3
"""About how many definitions a search answers with."""


def add_payoff(parser: argparse.ArgumentParser, required: bool, *, targets: bool = False) -> None:
    """The options that say what a decision is worth; with `targets`, also by the tools it should hand over."""
    pressure = parser.add_mutually_exclusive_group(required=required)
    pressure.add_argument("--cost-pressure", type=float, help="price of one unit of tool cost in solved tasks, as 0.12")
    pressure.add_argument(
        "--task-worth", type=float, help="worth of a solved task, in dollars with --prices, else in the unit of costs"
    )
    if targets:
        pressure.add_argument("--mean-tools", type=float, metavar="N", help="or: how many tools a task gets on average")
        pressure.add_argument(
            "--sufficiency", type=float, metavar="SHARE", help="or: how often the policy expects them to be enough"
        )
        add_dollars(parser)
        parser.add_argument(
            "--tool-search",
            action="store_true",
            help=f"the agent can search for what was cut: --recourse {FOUND}, less its price with --prices",
        )
    usual = "default: {}" if required else AS_FITTED
    parser.add_argument(
        "--value",
        choices=sorted(VALUES),
        help=f"what an acquired set is worth ({usual.format('exact')})",
    )
    parser.add_argument(
        "--recourse",
        type=float,
        help=f"left of a task for each tool missed, as 0.9 ({usual.format(0)})",
    )


def add_dollars(parser: argparse.ArgumentParser) -> None:
    """What tokens cost, so that tools do."""
    usual = Prices()
    parser.add_argument(
        "--prices",
        nargs="?",
        type=read_prices,
        const=usual,
        metavar="UNCACHED,CACHED",
        help="price tools in dollars, by what a million tokens cost, uncached and cached, or by a file that camdf mine "
        f"--statistics wrote (without a value: {usual.uncached:g},{usual.cached:g})",
    )


def chosen_payoff(options: argparse.Namespace, fitted: Payoff | None = None) -> Payoff:
    """The payoff that the options name; what they leave out is as in the fit, where that is known.

    Where they name a target, its pressure is found on tasks (`on_tasks`).
    """
    named = {name: getattr(options, name) for name in ("cost_pressure", "value", "recourse")}
    if options.task_worth is not None:
        named["cost_pressure"] = Payoff.from_money(options.task_worth).cost_pressure
    if _is_given(options, "mean_tools") or _is_given(options, "sufficiency"):
        named["cost_pressure"] = 0.0
    given = {name: value for name, value in named.items() if value is not None}
    if fitted is None and "cost_pressure" not in given:
        raise UsageError("This policy does not say what it was fitted for. Name it: --cost-pressure or --task-worth")
    if _is_given(options, "prices") and options.tools is None:
        raise UsageError("--prices needs the definitions that it prices. Name them: --tools tools.json")
    if _is_given(options, "tool_search"):
        given.setdefault("recourse", recourse_of_a_search(options))
    return replace(fitted or Payoff(0.0), **given)


def in_dollars(options: argparse.Namespace, logged: LoggedTasks) -> LoggedTasks:
    """The tasks with the dollars of every tool as its cost, where prices are named; else as they are."""
    if not _is_given(options, "prices"):
        return logged
    costs = {key: options.prices.of(tool) for key, tool in listed_tools(options.tools).items()}
    lacking = [name for name in logged.rankings.catalogue if name not in costs]
    if lacking:
        raise UsageError(
            f"{options.tools} lacks {len(lacking)} of the tools that are to be priced: {', '.join(lacking[:5])}. "
            "Add their definitions, or leave --prices out."
        )
    return logged.with_costs(costs)


def on_tasks(
    options: argparse.Namespace, payoff: Payoff, logged: LoggedTasks, policy: Callable[[Payoff], Policy]
) -> Payoff:
    """The payoff at which a policy meets the target that the options name on these tasks; else the one it was."""
    if _is_given(options, "mean_tools"):
        fitted = policy(payoff)
        return pressure_for_tools(fitted, logged, payoff.value, payoff.recourse, tools=options.mean_tools)
    if _is_given(options, "sufficiency"):
        fitted = policy(payoff)
        return pressure_for_estimate(fitted, logged, payoff.value, payoff.recourse, sufficiency=options.sufficiency)
    return payoff


def recourse_of_a_search(options: argparse.Namespace) -> float:
    """What is left of a task where a search finds what was missed: less its price, in the middle of a conversation."""
    if not (options.prices and options.task_worth):
        return FOUND
    tokens = [options.prices.count(tool) for tool in listed_tools(options.tools).values()]
    usual = Conversation()
    before = usual.system + usual.spoken * usual.turns * usual.requests / 2 + usual.share * sum(tokens)
    prices: Prices = options.prices
    searched = {"prefix_tokens": before, "found_tokens": DEFINITIONS * sum(tokens) / len(tokens)}
    return prices.recourse(options.task_worth, found=FOUND, **searched)


def _is_given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name, None) not in (None, False)
