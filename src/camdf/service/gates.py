"""From settings to the gate that they describe: its policy, scorer, payoff and prices."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from camdf.checks import try_policy
from camdf.core.payoff import Payoff
from camdf.datasets.examples import examples_in, past_tasks, renamed_examples
from camdf.datasets.ids import id_key
from camdf.errors import ArtifactError, UsageError
from camdf.gate import Gate
from camdf.gate.append import CHANNELS, Channels
from camdf.gate.scoring import recalling
from camdf.gate.settings import Records
from camdf.policies.artifact import from_json
from camdf.policies.base import Policy, fitted_payoff
from camdf.policies.cold_start import cold_start
from camdf.policies.renames import renamed_policy
from camdf.policies.rules import FirstDay, TopK
from camdf.policies.training import ScorerRecord
from camdf.prices import Prices
from camdf.scorers import BM25, Necessity, Scorer, Start
from camdf.scorers.named import check_scorer, scorer_of, scorer_record
from camdf.scorers.with_examples import ToolExamples
from camdf.service.config import COLD_STARTS, START, GateSettings, ScorerSettings
from camdf.service.rollouts import rollout_of
from camdf.tools import WORST, Effect, Tool

LOG = logging.getLogger("camdf.service")


@dataclass(frozen=True)
class PricedTool(Tool):
    """A tool of a client's ranking, with the cost that the client gave it; 0 where it gave none."""

    cost: float = 0.0

    @cached_property
    def as_read(self) -> tuple[str, ...]:
        """Its name, which is all that a ranking tells."""
        return self.server, self.name, self.description


@lru_cache(maxsize=65_536)
def candidate(name: str, cost: float = 0.0) -> PricedTool:
    """The same one each time: a client ranks the same tools again and again."""
    return PricedTool(name, cost=cost)


@dataclass(frozen=True)
class Costs:
    """What a tool costs: as the client says of it by itself, else by the operator's prices, else 1."""

    prices: Prices | None
    of_tools: Mapping[str, float] = field(default_factory=dict)
    """By name, in the place of prices."""

    @property
    def effects(self) -> Mapping[str, float]:
        """What exposing tools costs, by what they can do."""
        if self.prices is None:
            return {}
        return self.prices.effects

    def of(self, tool: Tool, effect: Effect = WORST) -> float:
        """The cost of offering this tool, which can do this at worst, to one task."""
        cost = self.of_tools.get(tool.name)
        if not cost and isinstance(tool, PricedTool):
            cost = tool.cost
        if cost:
            return cost
        if self.prices is None:
            return 1.0
        return self.prices.of(tool, effect)

    def of_rewriting(self, characters: int) -> float:
        """What it costs that a provider reads so many characters of a prompt anew; nothing where tools have costs."""
        if self.of_tools or self.prices is None:
            return 0.0
        return self.prices.of_rewriting(characters)


def gate_of(settings: GateSettings, policy: Policy, folder: str, examples: str = "") -> Gate:
    """The gate that these settings describe; paths in them begin at a folder. `examples` is the text of their file."""
    scorer = scorer_of_route(settings, policy, examples)
    mismatch: Any = settings.scorer_mismatch
    try:
        check_scorer(policy, scorer, mismatch)
    except UsageError as error:
        raise UsageError(f"The policy {settings.policy}: {error} Without gate.scorer, that of the fit ranks.") from None
    try:
        past = renamed_examples(examples_in(examples, settings.examples), settings.renamed or {})
        policy = recalling(policy, past_tasks(past), scorer)
    except UsageError as error:
        raise UsageError(f"{settings.examples}: {error}") from None
    return Gate(
        policy,
        scorer,
        payoff_of_route(settings, policy),
        prices=Costs(settings.prices),
        tool_search=settings.searches,
        mode=settings.mode,  # type: ignore[arg-type]
        channels=_channels(settings.channels),
        scorer_mismatch=mismatch,
        guards=settings.guards,
        privilege=None if settings.privilege is None else settings.privilege.privilege({}),
        limits=settings.limits,
        rollout=rollout_of(settings.rollout, folder),
        records=Records(id_key=_key_in(settings, folder)),
    )


def _key_in(settings: GateSettings, folder: str) -> bytes | None:
    """The key for the ids of users, if there is one."""
    if not settings.id_key:
        return None
    path = Path(folder) / settings.id_key
    if not path.is_file():
        raise UsageError(f"There is no file {path}, which id_key names. Copy the key that camdf fit used there.")
    return id_key(path)


def _channels(named: Mapping[str, str] | None) -> Channels:
    """The channels that ship, and those that settings name."""
    own: dict[str, Any] = {name: None if channel == "none" else channel for name, channel in (named or {}).items()}
    return {**CHANNELS, **own}


def is_made_up(policy: Policy) -> bool:
    """Whether all tasks that a policy was fitted on are made up."""
    training = policy.training_
    return training is not None and 0 < training.tasks <= training.made_up


def payoff_of_route(settings: GateSettings, policy: Policy) -> Payoff:
    """What the settings say, and where they do not, what the policy was fitted for."""
    fitted = fitted_payoff(policy)
    if settings.task_worth is not None:
        pressure = Payoff.from_money(settings.task_worth).cost_pressure
    elif settings.cost_pressure is not None:
        pressure = settings.cost_pressure
    elif fitted is not None:
        pressure = fitted.cost_pressure
    elif settings.policy == START:
        pressure = 0.0
    else:
        raise UsageError(
            "gate.cost_pressure is not set, and the policy's file does not say what it was fitted for. Set "
            "cost_pressure, as 0.12, or task_worth, in the unit of the prices."
        )
    usual = fitted or Payoff(pressure)
    recourse = usual.recourse if settings.recourse is None else settings.recourse
    return Payoff(pressure, settings.value or usual.value, recourse)


def policy_of(source: str, content: str, settings: GateSettings) -> Policy:
    """The policy in a file's text, tried on made-up tasks before it may decide; or the one that ships."""
    policy = _untried_policy(source, content, settings)
    payoff = payoff_of_route(settings, policy)
    try:
        try_policy(policy, payoff)
    except Exception as error:
        raise ArtifactError(f"The policy {source} fails on made-up tasks: {error}. Fit it again.") from None
    return policy


def _untried_policy(source: str, content: str, settings: GateSettings) -> Policy:
    if source == START:
        return TopK(settings.mean_tools) if settings.mean_tools else FirstDay()
    if source in COLD_STARTS:
        return cold_start(COLD_STARTS[source])
    return renamed_policy(from_json(content.encode()), settings.renamed or {})


def scored_elsewhere(gate: Gate) -> bool:
    """Whether what ranks for a gate is another program, so that a decision waits more than it works."""
    return isinstance(gate.scorer, Necessity)


def warm(gate: Gate) -> None:
    """Have the scorer load what it needs, so that no request waits for it; another program is not asked."""
    if gate.scorer is not None and not scored_elsewhere(gate):
        gate.scorer("Send an email", [Tool("send_email", "Send an email."), Tool("read_file", "Read a file.")])


def scorer_of_route(settings: GateSettings, policy: Policy, examples: str = "") -> Scorer | None:
    """What ranks the tools of a conversation: as the settings say, else as the policy was fitted, else the usual."""
    fitted = scorer_record(policy)
    named = settings.scorer
    renames = tuple(sorted((settings.renamed or {}).items()))
    if named is None and fitted is not None:
        try:
            scorer = _scorer_of_the_fit(fitted, examples, renames)
        except UsageError as error:
            raise UsageError(f"The policy {settings.policy}: {error} Set gate.scorer.") from None
        if scorer is None:
            LOG.warning(
                "The policy %s was fitted on scores that came with the tasks, so every request must bring a ranking. "
                "For requests with messages, name what gave these scores: gate.scorer",
                settings.policy,
            )
        return scorer
    if named is None:
        named = "start" if settings.policy == START else "bm25"
    if named == "none":
        return None
    if not isinstance(named, ScorerSettings):
        named = ScorerSettings(kind=named)
    return _scorer_of_settings(named, examples, renames)


@lru_cache(maxsize=32)
def _scorer_of_the_fit(fitted: ScorerRecord, examples: str, renames: tuple[tuple[str, str], ...]) -> Scorer | None:
    """One for all gates whose policies were fitted with the same."""
    return scorer_of(fitted, _examples_by_name(examples, renames))


def _examples_by_name(content: str, renames: tuple[tuple[str, str], ...]) -> ToolExamples:
    """Those of a file, by names alone: the tools of a request to the service have no servers."""
    return ToolExamples(examples_in(content, "the examples"), dict(renames)).without_servers()


@lru_cache(maxsize=32)
def _scorer_of_settings(settings: ScorerSettings, examples: str, renames: tuple[tuple[str, str], ...]) -> Scorer:
    """One for all gates that ask for the same: its index and its vectors are made once."""
    if settings.kind == "start":
        return Start(examples=_examples_by_name(examples, renames))
    if settings.kind == "bm25":
        return BM25(examples=_examples_by_name(examples, renames))
    return Necessity(
        settings.url,
        settings.model,
        key_variable=settings.key_variable,
        timeout=settings.timeout,
        deadline=settings.timeout,
        retries=0,
        structured=settings.structured,
    )
