"""What offering a tool costs one task, in dollars: its tokens in every request, its needless calls, what it exposes.

>>> from camdf.tools import Tool
>>> search = Tool("search", "Search the web and return the ten best pages.", {"query": {"type": "string"}})
>>> prices = Prices(uncached=3.00, cached=0.30, turns=4)
>>> f"{prices.of(search):.6f}"
'0.000125'
>>> prices.payoff(task_worth=0.40).cost_pressure
2.5
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Self

from camdf.core.payoff import Payoff, ValueFunction
from camdf.errors import DataError
from camdf.runtime.settings import (
    Settings,
    by_name,
    check_that,
    checked_setting,
    function,
    instance_of,
    is_accepted,
    number,
    share,
    truth,
    whole_number,
)
from camdf.tools import EFFECTS, WORST, Effect, Tool

CHARACTERS_PER_TOKEN = 4.0
LARGEST = 1e12
"""No price and no rate is larger, so that no cost is infinite."""

NOTED = 0.6
"""How long a definition is in a note, as a part of what it is on the list."""

MISSED = 0.1
"""How often a tool that many tasks need is not brought by the turn that needs it, so that it is searched for. A quarter
would put more into the head, and cost up to 0.04 more in some domains of benchmarks/core.py."""

DANGER: Mapping[str, float] = {"write": 0.03, "egress": 0.06}
"""Examples of prices of effects: a tool that writes costs about as much as a hundred definitions of 100 tokens, and one
that sends twice that. A tool that reads costs its tokens alone."""

COUNTS_KEPT = 16_384
"""How many definitions keep their token count, so that only a new or changed one is counted."""


def _prices_of_effects(value: Any) -> Mapping[str, float]:
    if not is_accepted(by_name(number(0, LARGEST), ""), value) or not set(EFFECTS).issuperset(value):
        raise ValueError(f"a table from {', '.join(EFFECTS)} to dollars, 0 or more")
    prices: Mapping[str, float] = value
    return prices


def estimated_tokens(text: str) -> int:
    """Characters / 4, at least 1: a rule of thumb for definitions in JSON, measured in lab/docs/prices.md.

    >>> estimated_tokens("Search the web.")
    4
    """
    return max(1, round(len(text) / CHARACTERS_PER_TOKEN))


@dataclass(frozen=True)
class ToolStatistics(Settings):
    """What traces say of one tool: how often it was called, the seconds of all calls together, how many failed."""

    calls: Annotated[int, whole_number(0)]
    seconds: Annotated[float, number(0)]
    failures: Annotated[int, whole_number(0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_setting("ToolStatistics", "failures", self.failures, whole_number(0, self.calls))


@dataclass(frozen=True)
class Prices(Settings):
    """Prices a tool by three terms, in dollars a task, that add up.

        tokens    t * (uncached + (turns - 1) * cached) / 1,000,000
        needless  misuse * (seconds * dollars_per_second + failure_rate * dollars_per_failure)
        exposure  the weight of the tool + the price of its effect

    t counts the tokens of `Tool.definition()`. Every request of a task carries it: the first at the `uncached` price of
    a million input tokens (where writing the cache has a price of its own, that one), each of the later ones at the
    `cached` price, which holds while the tool list stands. `cache=False` prices all `turns` requests uncached.

    `misuse` is the expected number of calls a task that an offered tool gets without being required. Each takes
    `seconds` and fails at `failure_rate`; what waiting a second and a failed call cost is for you to say. Both rates
    come from `statistics` by tool, shrunk towards all tools together by `prior_calls` calls k:

        seconds of j = (seconds in all calls of j + k * pooled seconds) / (calls of j + k)
        failure_rate of j = (failures of j + k * pooled failure rate) / (calls of j + k)

    where pooled is the mean over all calls of all tools. A tool without calls has the pooled figures; without any
    statistics all tools have `seconds` and `failure_rate` as given here.

    `privacy` maps a tool, or a server for all of its tools, to dollars a task for being exposed to it. `statistics` and
    `privacy` are looked up as "server/name", then name; privacy then as server. `effects` prices the worst that a tool
    can do, which a `Privilege` says, in the same dollars; a worse effect costs no less than a milder one.

    The defaults are examples, not anybody's price list: set what you pay. The second and third terms are zero until you
    give them prices. `tokens` may be any tokenizer, text to count; the default is `estimated_tokens`.
    """

    uncached: Annotated[float, number(above=0, most=LARGEST)] = 3.00
    """Dollars for a million input tokens."""

    cached: Annotated[float, number(0, LARGEST)] = 0.30
    """Dollars for a million input tokens that the provider has cached; at most `uncached`."""

    turns: Annotated[float, number(1, LARGEST)] = 4.0
    """Model calls of a task, on average."""

    cache: Annotated[bool, truth] = True
    """Whether the later calls of a task read the tools from the cache."""

    misuse: Annotated[float, number(0, LARGEST)] = 0.1
    """Needless calls of an offered tool that no task required, on average."""

    seconds: Annotated[float, number(0, LARGEST)] = 1.0
    """What a call takes."""

    dollars_per_second: Annotated[float, number(0, LARGEST)] = 0.0
    """What waiting a second costs."""

    failure_rate: Annotated[float, share] = 0.05
    """The share of calls that fail."""

    dollars_per_failure: Annotated[float, number(0, LARGEST)] = 0.0
    """What a call that fails costs."""

    statistics: Annotated[Mapping[str, ToolStatistics], by_name(instance_of(ToolStatistics), "ToolStatistics(...)")] = (
        field(default_factory=dict, repr=False)
    )
    """What traces say of tools, by name."""

    prior_calls: Annotated[float, number(above=0, most=LARGEST)] = 20.0
    """So many calls of all tools together count beside a tool's own."""

    privacy: Annotated[Mapping[str, float], by_name(number(0, LARGEST), "dollars, 0 or more")] = field(
        default_factory=dict, repr=False
    )
    """Dollars a task for being exposed to a tool, or to a server's tools."""

    effects: Annotated[Mapping[str, float], _prices_of_effects] = field(default_factory=dict)
    """Dollars a task for being exposed to a tool that can "read", "write" or "egress", as {"write": 0.03, "egress":
    0.06}. A gate with these needs a `Privilege`, which says what tools can do."""

    tokens: Annotated[Callable[[str], int], function] = field(default=estimated_tokens, repr=False)
    """What counts the tokens of a text."""

    _counted: dict[tuple[str, str, bytes], int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        below = check_that(f"at most 'uncached', {self.uncached!r}", lambda cached: cached <= self.uncached)
        checked_setting("Prices", "cached", self.cached, below)

    @classmethod
    def from_statistics(cls, path: str | PathLike[str], **settings: Any) -> Self:
        """Prices with the `statistics` and the `turns` of a file that `camdf mine --statistics` wrote.

        `settings` are all others, and go before what the file says.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({type(error).__name__}). `camdf mine --statistics {path}` writes it."
            ) from None
        try:
            mined = json.loads(content)
            tools = {name: ToolStatistics(**statistics) for name, statistics in mined["tools"].items()}
            runs = mined["usage"]["runs"]
            turns = mined["usage"]["turns"]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(
                f"{path}: must be what `camdf mine --statistics` writes, and is not. Mine the traces again."
            ) from None
        measured: dict[str, Any] = {"statistics": tools}
        if runs:
            measured["turns"] = turns
        return cls(**{**measured, **settings})

    def of(self, tool: Tool, effect: Effect = WORST) -> float:
        """Dollars that offering this tool, which can do this at worst, costs one task: always positive."""
        tokens = self.of_tokens(self.count(tool))
        if self._tokens_alone:
            return tokens
        return tokens + self.of_needless_calls(tool) + self.of_exposure(tool, effect)

    def of_tokens(self, count: float) -> float:
        """The first term alone, for `count` tokens in every request of a task."""
        return count * (self.uncached + (self.turns - 1) * self._again) / 1e6

    def of_request(self, new: float, again: float = 0.0) -> float:
        """One model call: `new` tokens in its prompt, and `again` those that a cache has of the call before."""
        return (new * self.uncached + again * self._again) / 1e6

    def of_rewriting(self, characters: int) -> float:
        """What it costs once that a provider reads so much of a cached prompt anew, because the tool list changed."""
        tokens = characters / CHARACTERS_PER_TOKEN
        return self.of_request(new=tokens) - self.of_request(new=0, again=tokens)

    def of_needless_calls(self, tool: Tool) -> float:
        """The second term alone."""
        if not self.misuse or not (self.dollars_per_second or self.dollars_per_failure):
            return 0.0
        seconds, failure_rate = self.per_call(tool)
        return self.misuse * (seconds * self.dollars_per_second + failure_rate * self.dollars_per_failure)

    def of_exposure(self, tool: Tool, effect: Effect = WORST) -> float:
        """The third term alone."""
        weights = self.privacy
        weight = weights.get(tool.full_name, weights.get(tool.name, weights.get(tool.server, 0.0)))
        return weight + self._of_effects[effect]

    def per_call(self, tool: Tool) -> tuple[float, float]:
        """Seconds and failure rate of a call: the tool's own where it was called often, those of all tools if not."""
        if not self.statistics:
            return self._pooled
        own = self.statistics.get(tool.full_name) or self.statistics.get(tool.name)
        if own is None:
            return self._pooled
        seconds, failure_rate = self._pooled
        k = self.prior_calls
        calls = own.calls + k
        return (own.seconds + k * seconds) / calls, (own.failures + k * failure_rate) / calls

    def count(self, tool: Tool) -> int:
        """Tokens of the tool's definition, at least 1, counted once while the definition stays the same."""
        packed = tool.packed
        if packed is None:
            return max(1, self.tokens(tool.definition()))
        key = tool.name, tool.description, packed
        counted = self._counted.get(key)
        if counted is None:
            if len(self._counted) >= COUNTS_KEPT:
                self._counted.clear()
            counted = self._counted[key] = max(1, self.tokens(tool.definition()))
        return counted

    def of_listing(self, tokens: float) -> float:
        """Dollars that a definition costs a task, needed or not, in a head that all tasks read from a cache.

        tokens * turns * cached / 1,000,000
        """
        return self.of_request(new=0, again=tokens * self.turns)

    def of_joining(self, tokens: float, *, prefix_tokens: float) -> float:
        """Dollars that a tool costs a task that needs it, where it joins the turn that does.

            the note      NOTED * tokens * (uncached + (turns - 1) / 2 * cached) / 1,000,000: written once, and read in
                          the calls after it, half of the others on average
            a search      MISSED * `of_search`, whose answer has two definitions as long as the tool's

        Where a part of all tasks needs the tool, listing it pays if that part of this is more than `of_listing`.
        """
        note = NOTED * tokens
        written = self.of_request(new=note, again=note * (self.turns - 1) / 2)
        return written + MISSED * self.of_search(prefix_tokens=prefix_tokens, found_tokens=2 * tokens)

    def of_search(
        self, *, prefix_tokens: float, found_tokens: float, call_tokens: float = 60.0, output: float = 15.00
    ) -> float:
        """Dollars that one search for a tool costs a task: a round trip that loading the tool would have saved.

            one more request    prefix_tokens * cached / 1,000,000
            the call            call_tokens * output / 1,000,000, for the model writes it
            call and answer     in every request from then on, at most all of the task's: `of_tokens`
            the wait            seconds * dollars_per_second

        The definition of the search itself is not in it: that is paid whether or not anything is missed.
        """
        asked = self.of_request(new=0, again=prefix_tokens) + call_tokens * output / 1e6
        return asked + self.of_tokens(call_tokens + found_tokens) + self._pooled[0] * self.dollars_per_second

    def recourse(
        self,
        task_worth: float,
        *,
        found: float,
        prefix_tokens: float,
        found_tokens: float,
        call_tokens: float = 60.0,
        output: float = 15.00,
    ) -> float:
        """What is left of a task worth `task_worth` dollars per tool that is missed: the `recourse` of a payoff.

            found * (1 - dollars of the search / task_worth), at least 0

        `found` is the chance that a search finds the tool, `prefix_tokens` what a request holds already (instructions,
        tools, conversation), `found_tokens` what the search answers (the definitions that it returns), `call_tokens`
        what the model writes to ask, and `output` the dollars for a million tokens that it writes.

        >>> f"{Prices().recourse(task_worth=0.40, found=0.95, prefix_tokens=8_000, found_tokens=600):.3f}"
        '0.936'
        """
        amounts = {"prefix_tokens": prefix_tokens, "found_tokens": found_tokens, "call_tokens": call_tokens}
        for name, amount in {**amounts, "output": output}.items():
            checked_setting("Prices", name, amount, number(0))
        checked_setting("Prices", "found", found, number(0, 1))
        checked_setting("Prices", "task_worth", task_worth, number(above=0))
        return found * max(0.0, 1.0 - self.of_search(**amounts, output=output) / task_worth)

    def payoff(self, task_worth: float, value: str | ValueFunction = "exact", recourse: float = 0.0) -> Payoff:
        """The payoff, of this `value` and `recourse`, that has these prices and `task_worth` dollars in one unit."""
        return Payoff.from_money(task_worth, value, recourse)

    @cached_property
    def _again(self) -> float:
        """The price of a million tokens that were in the request before."""
        return self.cached if self.cache else self.uncached

    @cached_property
    def _tokens_alone(self) -> bool:
        """Whether neither needless calls nor exposure have a price: a gate asks for hundreds of prices a request."""
        is_misuse_priced = self.misuse and (self.dollars_per_second or self.dollars_per_failure)
        return not (self.privacy or self.effects or is_misuse_priced)

    @cached_property
    def _of_effects(self) -> Mapping[Effect, float]:
        """What each effect costs: as `effects` say, and no less than a milder one."""
        named = [self.effects.get(effect, 0.0) for effect in EFFECTS]
        return dict(zip(EFFECTS, accumulate(named, max), strict=True))

    @cached_property
    def _pooled(self) -> tuple[float, float]:
        known = self.statistics.values()
        calls = sum(tool.calls for tool in known)
        if not calls:
            return self.seconds, self.failure_rate
        return sum(tool.seconds for tool in known) / calls, sum(tool.failures for tool in known) / calls
