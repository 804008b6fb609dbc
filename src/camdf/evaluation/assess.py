"""Is a policy worth it on these tasks? What an operator needs, with baselines, intervals and one sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import floor, inf, log10
from typing import Any

import numpy as np

from camdf.core.groups import numbered
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.core.resampling import Interval
from camdf.errors import DataError
from camdf.evaluation.replay import DANGERS, MEASURES, ORACLE, Outcomes, replay
from camdf.evaluation.splits import Split, draw_splits
from camdf.policies.base import Policy, fitted_payoff
from camdf.policies.drift import Moved, moved
from camdf.policies.models.linear import LinearModel
from camdf.policies.models.membership import MembershipModel
from camdf.policies.registry import POLICIES
from camdf.policies.rules import AcquireAll
from camdf.runtime.progress import Progress, counted, in_time, silent

WHOLE_LIST = 0.9
"""A rule that loads so much of the lists is said to."""

SIMPLE_RULES = ("fixed-k", "score-threshold", "score-per-cost-threshold", "constant-set")
"""What a policy must beat to be worth its keep; each is tuned on the same tasks."""

EVERY_TOOL = AcquireAll.kind
"""The status quo: what a harness without a gate gives."""

FEW_SUFFICIENT = 0.8
"""Below this share of tasks with every required tool, a policy is warned of, whatever it saves."""

MANY_EMPTY = 0.5
"""Above this share of tasks without any tool, that is said first."""

SUBJECT = "this policy"
REFIT = "refit"
"""The name of the policy fitted again, on the training tasks of each split."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """A policy beside the simple rules and giving every tool on held-out tasks, and its margins.

    `margin` is the one over `best_rule`, by which the policy is judged: the best simple rule, or giving every tool
    where the policy is itself a simple rule.
    """

    outcomes: Outcomes
    subject: str
    best_rule: str
    margin: Interval
    over_every_tool: Interval
    splits: int
    """How many there was time for."""

    refit_gain: Interval | None = None
    """By how much the policy fitted again earns more, where that was asked."""

    @property
    def payoffs(self) -> dict[str, float]:
        """The mean payoff of the policy and of all that it was compared with, by name."""
        return {name: self.outcomes.mean(name) for name in self.outcomes.values}

    @property
    def pays(self) -> bool:
        """True where the margin's whole interval lies above zero."""
        return self.margin.low > 0

    @property
    def answer(self) -> str:
        """Whether it is worth it, in six words at most."""
        return answer_of(self.margin)

    @property
    def verdict(self) -> str:
        """One sentence: what to do."""
        rule = "giving every tool"
        instead = "give every tool"
        if self.best_rule != EVERY_TOOL:
            rule = f"the best simple rule ({self.best_rule})"
            instead = f"ship the {self.best_rule} rule{self._what_the_rule_loads()}"
        figures = f"{self.answer}: {signed(self.margin)} over {rule}, {_interval_in_words(self.margin)}"
        if self.pays:
            return figures
        if self.margin.high < 0:
            return f"{figures}; {instead}"
        return f"{figures}; {instead}, or log more tasks"

    def _what_the_rule_loads(self) -> str:
        """What is said of the best rule where it loads all but the whole list; "" where it does not."""
        loaded = self.outcomes.mean(self.best_rule, "tools")
        listed = self.outcomes.mean(EVERY_TOOL, "tools")
        if loaded < WHOLE_LIST * listed:
            return ""
        return f", which loads {loaded:.1f} of {listed:.1f} tools"

    def refit_advice(self) -> str:
        """Whether to fit again on such tasks, in a sentence; "" where that was not asked."""
        gain = self.refit_gain
        if gain is None:
            return ""
        figures = f"{signed(gain)} in payoff, {_interval_in_words(gain)}"
        if gain.low > 0:
            return f"Refit: fitted again on such tasks, {self.subject} earns more: {figures}."
        return f"A refit on such tasks is not shown to earn more: {figures}."

    def against_every_tool(self, task_worth: float | None = None) -> str:
        """What changes for a harness that gives every tool today; `task_worth` is in the unit of the costs."""
        cost, usual = self._beside_every_tool("cost")
        sufficient, before = self._beside_every_tool("sufficiency")
        gain = self.over_every_tool
        worth = ""
        if task_worth is not None:
            worth = f" ({gain.mean * task_worth:+.3g} a task in the unit of the costs)"
        return (
            f"Against giving every tool it costs {amount(cost, usual)} a task instead of {amount(usual)} "
            f"({amount(usual - cost, usual)} saved, {1 - cost / usual:.0%}) and keeps every required tool in "
            f"{sufficient:.0%} of tasks instead of {before:.0%}: {signed(gain)} in payoff{worth}, "
            f"{_interval_in_words(gain)}."
        )

    def meaning(self, payoff: Payoff, unit: str = "") -> str:
        """What the decisions come to, in words: tools, costs, how often they are enough, how often one searches."""
        tools, listed = self._beside_every_tool("tools")
        cost, usual = self._beside_every_tool("cost")
        enough = self.outcomes.mean(self.subject, "sufficiency")
        return (
            f"A task gets {tools:.1f} of {listed:.1f} tools, which cost {unit}{amount(cost, usual)} instead of "
            f"{unit}{amount(usual)}. They are all that it needs in {enough:.0%} of tasks; in {1 - enough:.0%} "
            f"{what_a_miss_means(payoff)}."
        )

    def alarms(self, payoff: Payoff) -> list[str]:
        """What comes before anything else: a payoff at which little or nothing is worth giving."""
        told = []
        usual = self.outcomes.mean(EVERY_TOOL, "cost") * payoff.cost_pressure
        if usual > 1:
            told.append(
                f"At a cost pressure of {payoff.cost_pressure:.3g}, giving every tool costs {usual:.1f} times what a "
                "solved task is worth. If that is not so, name its worth in dollars: --task-worth, with --prices."
            )
        kept = self.outcomes.values[self.subject][:, MEASURES.index("tools")]
        nothing = float((kept[~np.isnan(kept)] == 0).mean())
        if nothing > MANY_EMPTY:
            told.append(f"{self.subject} keeps no tool at all in {nothing:.0%} of tasks.")
        return told

    def danger(self) -> str:
        """What the decisions come to where tools have effects, in words; "" where nobody says which have."""
        if DANGERS[0] not in self.outcomes.measures:
            return ""
        covered, most = self._beside_every_tool("covered")
        exposed, usual = self._beside_every_tool("exposed")
        needless = self.outcomes.mean(self.subject, "needless")
        return (
            f"Danger: {covered:.0%} of tasks get all tools with effects that they need, where giving every tool comes "
            f"to {most:.0%}. {exposed:.2f} such tools are exposed a task instead of {usual:.2f}, and {needless:.0%} of "
            "tasks expose one that they do not need."
        )

    def warnings(self) -> list[str]:
        """What an operator should know before shipping the policy, whatever it pays."""
        kept, most = self._beside_every_tool("sufficiency")
        if kept >= FEW_SUFFICIENT:
            return []
        told = f"{self.subject} keeps every required tool in only {kept:.0%} of tasks."
        if most < FEW_SUFFICIENT:
            return [f"{told} The lists themselves hold them in only {most:.0%}: rank more candidates."]
        return [
            f"{told} Where a miss is expensive, fit at a lower cost pressure; for policies by expected payoff, camdf "
            "calibrate finds it without a fit."
        ]

    def summary(self) -> dict[str, Any]:
        """The same for machines: the verdict, and every row of the table with its margin, best payoff first."""
        return {
            "pays": self.pays,
            "verdict": self.verdict,
            "splits": self.splits,
            "best_rule": self.best_rule,
            "margin": asdict(self.margin),
            "margin_over_every_tool": asdict(self.over_every_tool),
            "cost_saved": self.outcomes.mean(EVERY_TOOL, "cost") - self.outcomes.mean(self.subject, "cost"),
            "results": {name: self._row_for_machines(name) for name in self._best_first()},
        }

    def _row_for_machines(self, name: str) -> dict[str, Any]:
        margin = None if name == self.subject else asdict(self._margin_over(name))
        return {**{measure: self.outcomes.mean(name, measure) for measure in self.outcomes.measures}, "margin": margin}

    def table(self) -> str:
        """The policy, the rules, giving every tool and the oracle as aligned text, best payoff first, with margins."""
        names = self._best_first()
        mean = self.outcomes.mean
        width = max(map(len, names))
        most = max(mean(name, "cost") for name in names)
        dangers = [name for name in self.outcomes.measures if name in DANGERS]
        heads = "".join(f"  {name}" for name in dangers)
        lines = [f"{'':{width}}  payoff  sufficient  {'cost':>6}  tools{heads}   {self.subject} minus it"]
        for name in names:
            margin = "" if name == self.subject else self._margin_over(name)
            exposed = "".join(f"  {mean(name, danger):{len(danger)}.2f}" for danger in dangers)
            lines.append(
                f"{name:{width}}  {mean(name):6.3f}  {mean(name, 'sufficiency'):10.0%}"
                f"  {amount(mean(name, 'cost'), most):>6}  {mean(name, 'tools'):5.2f}{exposed}   {margin}".rstrip()
            )
        return "\n".join(lines)

    def _best_first(self) -> list[str]:
        names = [name for name in self.outcomes.values if name != ORACLE]
        return [*sorted(names, key=lambda name: -self.outcomes.mean(name)), ORACLE]

    def _margin_over(self, name: str) -> Interval:
        return self.outcomes.difference(self.subject, name, by_group=True)

    def _beside_every_tool(self, measure: str) -> tuple[float, float]:
        """The mean of a measure for the policy, and for giving every tool."""
        return self.outcomes.mean(self.subject, measure), self.outcomes.mean(EVERY_TOOL, measure)


def answer_of(margin: Interval) -> str:
    """Whether what has this margin is worth it, in six words at most."""
    if margin.low > 0:
        return "is worth it"
    if margin.high < 0:
        return "is not worth it"
    return "not shown to be worth it"


def what_a_miss_means(payoff: Payoff) -> str:
    """What becomes of an agent that was not given a tool which its task needs, in words."""
    return "the agent has to search" if payoff.recourse else "the agent lacks one"


def signed(margin: Interval) -> str:
    """The margin's mean, with its sign."""
    return f"{margin.mean:+.3f}"


def _interval_in_words(margin: Interval) -> str:
    return f"95% CI {margin.low:+.3f} to {margin.high:+.3f}"


def amount(cost: float, beside: float | None = None) -> str:
    """A cost with two digits after the point, or as many as an amount of the size of `beside` needs to be told."""
    if beside is None:
        beside = cost
    digits = 2 - floor(log10(beside)) if 0 < beside < 1 else 2
    return f"{cost:.{digits}f}"


def assess(
    make: Callable[[], Policy],
    logged: LoggedTasks,
    payoff: Payoff,
    *,
    splits: int = 30,
    seed: int = 0,
    subject: str = SUBJECT,
    rules: Mapping[str, Callable[[], Policy]] | None = None,
    with_effects: Collection[str] = (),
    refit: Callable[[], Policy] | None = None,
    seconds: float = inf,
    progress: Progress = silent,
) -> Assessment:
    """Replay a policy and the simple rules over splits that keep groups together; intervals resample groups.

    The best rule is picked in hindsight on the same tasks, which favors the rules: a policy that pays here pays. A
    policy that is one of the rules is judged by its margin over giving every tool.

    Args:
        make: Makes the policy, unfitted, once a split.
        logged: The tasks with what they required.
        payoff: What a set of tools is worth.
        splits: How many times they are split into training and test tasks.
        seed: By what the splits are drawn.
        subject: The name of the policy in the answer.
        rules: Makers of the rules that it is compared with, by name; the usual ones unless given.
        with_effects: The tools that can do more than read, where that is known.
        refit: Makes what is fitted again where `make` makes what stays as it was fitted before.
        seconds: No split is begun after so many, but for the first. The answer rests on those that were.
        progress: Told how many splits are done.
    """
    require_choice(logged)
    chosen = dict(rules or {name: POLICIES[name] for name in SIMPLE_RULES})
    grouped = numbered(logged.groups)[1] < len(logged)
    drawn = counted(draw_splits(logged, splits, seed, grouped=grouped), splits, progress)
    compared = {subject: make, **chosen, EVERY_TOOL: AcquireAll}
    if refit is not None:
        compared[REFIT] = refit
    replayed: list[Split] = []

    def in_turn() -> Iterator[Split]:
        for split in in_time(drawn, seconds):
            replayed.append(split)
            yield split

    progress(0, splits, inf)
    outcomes = replay(compared, logged, payoff, in_turn(), with_effects=with_effects)
    best = EVERY_TOOL if subject in chosen else max(chosen, key=outcomes.mean)
    margin = outcomes.difference(subject, best, by_group=True)
    over_every_tool = outcomes.difference(subject, EVERY_TOOL, by_group=True)
    refit_gain = None
    if refit is not None:
        refit_gain = outcomes.difference(REFIT, subject, by_group=True)
    return Assessment(outcomes, subject, best, margin, over_every_tool, len(replayed), refit_gain)


def require_choice(logged: LoggedTasks) -> None:
    """Raise DataError where the tasks cannot teach or test anything, because there is nothing to choose or to need."""
    required = logged.required
    if logged.rankings.lengths.max(initial=0) <= 1:
        raise DataError(
            "Every list holds at most one tool, so there is nothing to choose. Log all candidates of a task with their "
            "scores, not only the tool that was called."
        )
    if not logged.n_required.any():
        raise DataError(
            "No task requires any tool, so nothing can be learned of what tasks need. Put the tools that each task "
            "turned out to need in 'required'."
        )
    if not required.any():
        raise DataError(
            "No list holds any tool that its task required. Spell the tools in 'required' as in 'scores', or rank more "
            "candidates."
        )
    if np.array_equal(required, logged.rankings.listed):
        raise DataError(
            "Every task required every tool of its list, so there is nothing to leave out. Log all candidates of a "
            "task, not only those that were called; if these are all, give every tool."
        )


def estimated_none(policy: Policy, logged: LoggedTasks, payoff: Payoff) -> float | None:
    """The share of tasks that the policy takes to need no tool; None where it takes every task to need one."""
    chances = policy.decide(logged.rankings, payoff).none
    return None if chances is None else float(chances.mean())


def unseen_tools(policy: Policy, logged: LoggedTasks) -> dict[str, int]:
    """The listed tools that the policy did not see in training, and in how many tasks each is listed, most first.

    Empty for a policy that knows no tool by name.
    """
    models = [part for part in vars(policy).values() if isinstance(part, LinearModel | MembershipModel)]
    known = {tool for model in models for tool in model.tools}
    if not known:
        return {}
    ids = logged.rankings.tool_ids[logged.rankings.listed]
    times = np.bincount(ids, minlength=len(logged.rankings.catalogue)).tolist()
    new = {tool: count for tool, count in zip(logged.rankings.catalogue, times, strict=True) if count}
    return dict(sorted(((t, n) for t, n in new.items() if t not in known), key=lambda pair: (-pair[1], pair[0])))


def unseen_warning(policy: Policy, logged: LoggedTasks) -> list[str]:
    """One sentence on the tools that were not in training, with up to five names; nothing where there are none."""
    unseen = unseen_tools(policy, logged)
    if not unseen:
        return []
    new = [tool in unseen for tool in logged.rankings.catalogue]
    touched = int((np.array([*new, False])[logged.rankings.tool_ids]).any(axis=1).sum())
    names = ", ".join(list(unseen)[:5])
    if len(unseen) > 5:
        names += f" and {len(unseen) - 5} more"
    return [
        f"{len(unseen)} of the tools were not in training: {names}. They are listed in {touched} of {len(logged)} "
        "tasks and judged by score, rank and price alone; fit again once tasks with them are logged."
    ]


def moved_since_fit(policy: Policy, logged: LoggedTasks) -> tuple[Moved, ...]:
    """What of these tasks is no longer as it was at the policy's fit; nothing where its file does not say how it was.

    Tools per task are those that the policy chooses at the payoff of its fit.
    """
    training = policy.training_
    if training is None or training.catalogue is None or training.catalogue.lists is None:
        return ()
    payoff = fitted_payoff(policy)
    chosen = None
    if payoff is not None:
        chosen = policy.decide(logged.rankings, payoff).acquired.sum(axis=1)
    return moved(training.catalogue, logged.rankings, logged.groups, chosen)
