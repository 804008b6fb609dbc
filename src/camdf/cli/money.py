"""What a decision is worth, on the command line: in dollars, as a target, or as a cost pressure."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from camdf.cli.logs import listed_tools
from camdf.cli.parser import notes_stream
from camdf.cli.tools import read_prices
from camdf.core.payoff import VALUES, Payoff
from camdf.errors import UsageError
from camdf.gate.catalogue import cost_function, effects_of_tools
from camdf.gate.privilege import Privilege
from camdf.gate.settings import Guards
from camdf.gate.worth import Conversation
from camdf.policies.pressure import pressure_for_coverage, pressure_for_estimate
from camdf.policies.registry import POLICIES
from camdf.policies.rules import TopK
from camdf.policies.training import FittedEffects
from camdf.prices import DANGER, Prices
from camdf.tools import Effect

if TYPE_CHECKING:
    from camdf.core.rankings import LoggedTasks
    from camdf.policies.base import Policy

AS_FITTED = "default: as in its fit"
FOUND = 0.9
"""How often a search finds the tool that was missed. An example, as the prices of `Prices` are: measure your own."""

NEAR_ENOUGH = 0.05
"""By what share the tools of a task may be off the number that --mean-tools names, before it is said."""

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
        pressure.add_argument(
            "--covered",
            type=float,
            metavar="SHARE",
            help="with --effects: the share of tasks that get every tool with effects that they need, as 0.9",
        )
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
    dangers = " and ".join(f"${dollars:g} for {effect}" for effect, dollars in DANGER.items())
    parser.add_argument(
        "--effects",
        type=Path,
        metavar="FILE",
        help=f"what tools can do, as camdf privilege wrote it: prices them in dollars, {dangers} more",
    )


def named_prices(options: argparse.Namespace) -> Prices | None:
    """The prices that the options name, those of effects with them; None where tools keep the costs that they have."""
    if not _is_given(options, "effects"):
        return getattr(options, "prices", None)
    return replace(options.prices or Prices(), effects=DANGER)


def named_effects(options: argparse.Namespace) -> FittedEffects | None:
    """What tools can do and what that costs, by the file that the options name; None where they name none."""
    if not _is_given(options, "effects"):
        return None
    return FittedEffects(dict(DANGER), dict(_effects_by_tool(options)))


def exposing_tools(options: argparse.Namespace) -> frozenset[str]:
    """The tools that can do more than read, by the file that the options name."""
    effects = named_effects(options)
    return frozenset() if effects is None else effects.exposing


def _effects_by_tool(options: argparse.Namespace) -> Mapping[str, Effect]:
    """The worst that each tool can do, by the file that the options name; nothing where they name none."""
    if not _is_given(options, "effects"):
        return {}
    return effects_of_tools(Privilege.from_file(options.effects), Guards(), listed_tools(options.tools))


def chosen_payoff(options: argparse.Namespace, fitted: Payoff | None = None) -> Payoff:
    """The payoff that the options name; what they leave out is as in the fit, where that is known.

    Where they name a target, its pressure is found on tasks (`on_tasks`).
    """
    named = {name: getattr(options, name) for name in ("cost_pressure", "value", "recourse")}
    if options.task_worth is not None:
        named["cost_pressure"] = Payoff.from_money(options.task_worth).cost_pressure
    if any(_is_given(options, target) for target in ("covered", "mean_tools", "sufficiency")):
        named["cost_pressure"] = 0.0
    given = {name: value for name, value in named.items() if value is not None}
    if fitted is None and "cost_pressure" not in given:
        raise UsageError("This policy does not say what it was fitted for. Name it: --cost-pressure or --task-worth")
    if named_prices(options) is not None and options.tools is None:
        option = "--effects" if _is_given(options, "effects") else "--prices"
        raise UsageError(f"{option} needs the definitions that it prices. Name them: --tools tools.json")
    if _is_given(options, "covered") and not _is_given(options, "effects"):
        raise UsageError("--covered needs to know which tools have effects. Name the file: --effects privilege.json")
    if _is_given(options, "tool_search"):
        given.setdefault("recourse", recourse_of_a_search(options))
    return replace(fitted or Payoff(0.0), **given)


def in_dollars(options: argparse.Namespace, logged: LoggedTasks) -> LoggedTasks:
    """The tasks with the dollars of every tool as its cost, where prices are named; else as they are."""
    prices = named_prices(options)
    if prices is None:
        return logged
    cost_of = cost_function(prices, _effects_by_tool(options))
    costs = {key: cost_of(key, tool) for key, tool in listed_tools(options.tools).items()}
    lacking = [name for name in logged.rankings.catalogue if name not in costs]
    if lacking:
        raise UsageError(
            f"{options.tools} lacks {len(lacking)} of the tools that are to be priced: {', '.join(lacking[:5])}. "
            "Add their definitions, or leave --prices and --effects out."
        )
    return logged.with_costs(costs)


def on_tasks(
    options: argparse.Namespace,
    payoff: Payoff,
    logged: LoggedTasks,
    policy: Callable[[Payoff], Policy],
    held_out: Callable[[Payoff], Iterable[tuple[Policy, LoggedTasks]]],
) -> Payoff:
    """The payoff at which a policy meets the target that the options name on these tasks; else the one it was.

    `held_out` gives policies with tasks that they were not fitted on.
    """
    effects = named_effects(options)
    if _is_given(options, "covered") and effects is not None:
        parts = [(fitted, unseen.needing(effects.exposing)) for fitted, unseen in held_out(payoff)]
        return pressure_for_coverage(parts, payoff.value, payoff.recourse, covered=options.covered)
    if _is_given(options, "mean_tools"):
        from camdf.evaluation.calibrate import pressure_for_handed_over  # which most commands never need

        asked = options.mean_tools
        nearest, given = pressure_for_handed_over(held_out(payoff), payoff.value, payoff.recourse, tools=asked)
        if abs(given - asked) > NEAR_ENOUGH * asked:
            print(
                f"No cost pressure gives {asked:g} tools a task. The nearest gives {given:.1f}, on tasks that a policy "
                "was not fitted on. If nothing is worth loading, a gate without a tool search loads the whole list.\n",
                file=notes_stream(options),
            )
        return nearest
    if _is_given(options, "sufficiency"):
        fitted = policy(payoff)
        return pressure_for_estimate(fitted, logged, payoff.value, payoff.recourse, sufficiency=options.sufficiency)
    return payoff


def rules_compared(options: argparse.Namespace) -> dict[str, Callable[[], Policy]]:
    """What a policy is compared with: the simple rules, and the best so many where --mean-tools names a number."""
    from camdf.evaluation.assess import SIMPLE_RULES

    rules: dict[str, Callable[[], Policy]] = {name: POLICIES[name] for name in SIMPLE_RULES}
    if _is_given(options, "mean_tools"):
        best = max(round(options.mean_tools), 1)
        rules[f"best-{best}"] = partial(TopK, best)
    return rules


def recourse_of_a_search(options: argparse.Namespace) -> float:
    """What is left of a task where a search finds what was missed: less its price, in the middle of a conversation."""
    prices = named_prices(options)
    if prices is None or not options.task_worth:
        return FOUND
    tokens = [prices.count(tool) for tool in listed_tools(options.tools).values()]
    usual = Conversation()
    before = usual.system + usual.spoken * usual.turns * usual.requests / 2 + usual.share * sum(tokens)
    searched = {"prefix_tokens": before, "found_tokens": DEFINITIONS * sum(tokens) / len(tokens)}
    return prices.recourse(options.task_worth, found=FOUND, **searched)


def _is_given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name, None) not in (None, False)
