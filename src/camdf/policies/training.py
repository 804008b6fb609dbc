"""What a saved policy tells of its training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from camdf.core.payoff import Payoff
from camdf.errors import UsageError
from camdf.policies.copies import check_copies
from camdf.policies.models.stored import (
    LONGEST_NAME,
    Written,
    count,
    list_of,
    names_of,
    number,
    numbers,
    object_of,
    shares,
    short_text,
    table_of,
)
from camdf.runtime.settings import LEFT_OUT, or_none

GIVEN_SCORES = "given"
"""The kind of a scorer that nobody knows: the scores came with the tasks."""

NAMES_KEPT = 1_000
"""How many tools of a catalogue a policy's file names."""

MOST_CHOSEN = 1_000
"""Sets of more tools than these count as sets of so many."""

SHOWN = 12
"""How many digits of a digest people read."""


_texts = table_of(short_text, "strings", most=100)
_payoffs = table_of(number, "numbers", most=100)


def _payoff(value: Any) -> Payoff:
    """A payoff whose numbers are as bounded as any others of a file."""
    payoff: Payoff = object_of(Payoff)(value)
    try:
        pressure = number(payoff.cost_pressure)
    except ValueError as error:
        raise UsageError(f"cost_pressure: must be {error}") from None
    return Payoff(pressure, payoff.value, float(payoff.recourse))


stored_payoff = or_none(_payoff)


def _settings(value: Any) -> tuple[tuple[str, str], ...]:
    """What a scorer was set to."""
    return tuple(sorted(_texts(value).items()))


_names_by_name = table_of(short_text, "strings", most=NAMES_KEPT)


def _copies(value: Any) -> tuple[tuple[str, str], ...]:
    """Which tools do the same, as a file has them."""
    copies = _names_by_name(value)
    check_copies(copies)
    return tuple(sorted(copies.items()))


@dataclass(frozen=True)
class ScorerRecord:
    """What gave the scores of some tasks, as far as a name can tell: two scorers of equal records score alike."""

    kind: Annotated[str, short_text]
    """"start", "bm25", "embeddings", "llm" or "fusion"; "given" where the scores came with the tasks; and for a scorer
    of your own, where Python finds it."""

    settings: Annotated[tuple[tuple[str, str], ...], _settings, Written(dict)] = ()
    """What it was set to, by name: how it writes a tool as text, for one."""

    model: Annotated[str, short_text] = ""
    """The language model, or the one that embeds texts; "" where there is none."""

    examples_sha256: Annotated[str, short_text] = ""
    """Of the examples that it reads, whose tools are named without their servers; "" where it reads none."""

    @property
    def is_given(self) -> bool:
        """Whether the scores came with the tasks."""
        return self.kind == GIVEN_SCORES

    def __str__(self) -> str:
        if self.is_given:
            return "scores that came with the tasks"
        told = [f"model {self.model}"] if self.model else []
        told += [f"{name} {value}" for name, value in self.settings]
        if self.examples_sha256:
            told.append(f"examples {self.examples_sha256[:SHOWN]}")
        return f"{self.kind} ({', '.join(told)})" if told else self.kind


GIVEN = ScorerRecord(GIVEN_SCORES)


@dataclass(frozen=True)
class UsualShares:
    """How some values of a task lay, its scores for one: the share of them below some points."""

    points: Annotated[tuple[float, ...], numbers]
    """Deciles of all values, each once."""

    shares: Annotated[tuple[float, ...], shares]
    """By point, the share of a task's values below it, equal ones counted half: the mean over tasks."""

    deviations: Annotated[tuple[float, ...], shares]
    """By point, how far that share differs between tasks, as a standard deviation."""


@dataclass(frozen=True)
class UsualLists:
    """What lists were like when a policy was fitted: `camdf.policies.drift` compares later ones with it."""

    evidence: Annotated[float, number]
    """As many independent tasks as these say as much as, since near-copies of one group say less."""

    listed_once: Annotated[int, count]
    """How many tools were on the lists of one group alone: so many more a few other tasks would have brought."""

    scores: Annotated[UsualShares, object_of(UsualShares)]
    best: Annotated[UsualShares, object_of(UsualShares)]
    """Of a task's best score alone."""

    spans: Annotated[UsualShares, object_of(UsualShares)]
    """Of the span from a task's worst score to its best."""

    chosen: Annotated[tuple[int, ...], list_of(count, "whole numbers", MOST_CHOSEN + 1)]
    """How many tasks got no tool, one, two and so on from the policy; the last count is for all larger sets too."""

    cost_pressure: Annotated[float, number]
    """At which it chose."""


@dataclass(frozen=True)
class FittedCatalogue:
    """The tools on the lists that a policy was fitted on, and what these lists were like."""

    tools: Annotated[int, count]
    """How many there are."""

    sha256: Annotated[str, short_text]
    """Of their names in order, a line each."""

    names: Annotated[tuple[str, ...], names_of(NAMES_KEPT)] = ()
    """Their names in order; of a larger catalogue the first `NAMES_KEPT`, and none that a file could not hold."""

    lists: Annotated[UsualLists | None, or_none(object_of(UsualLists)), LEFT_OUT] = None
    """What its lists were like; None where not known."""

    @classmethod
    def of(cls, names: Iterable[str], lists: UsualLists | None = None) -> Self:
        """That of tools of these names."""
        from hashlib import sha256  # loads OpenSSL, which a decision never needs

        ordered = sorted(set(names))
        content = "\n".join(ordered).encode(errors="surrogatepass")
        kept = [name for name in ordered[:NAMES_KEPT] if len(name) <= LONGEST_NAME]
        return cls(len(ordered), sha256(content).hexdigest(), tuple(kept), lists)

    def unknown(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some names that the catalogue does not have; none where it does not name all of its own."""
        known = frozenset(self.names)
        return tuple(name for name in names if name not in known) if len(known) == self.tools else ()


@dataclass(frozen=True)
class FittedEffects:
    """What tools could do when a policy was fitted, and what being exposed to that cost."""

    prices: Annotated[dict[str, float], _payoffs]
    """Dollars a task, by effect."""

    tools: Annotated[dict[str, str], table_of(short_text, "strings", most=NAMES_KEPT)]
    """The worst that each tool could do, by name; of a larger catalogue the first `NAMES_KEPT`."""

    @property
    def exposing(self) -> frozenset[str]:
        """The tools that can do more than read."""
        return frozenset(name for name, effect in self.tools.items() if effect != "read")

    def bounded(self) -> Self:
        """The same with no more tools than a file keeps."""
        kept = [name for name in sorted(self.tools) if len(name) <= LONGEST_NAME][:NAMES_KEPT]
        return replace(self, tools={name: self.tools[name] for name in kept})


@dataclass(frozen=True)
class Training:
    """What a policy was fitted on, and how it did: travels inside the artifact."""

    data_sha256: Annotated[str, short_text] = ""
    tasks: Annotated[int, count] = 0
    groups: Annotated[int, count] = 0
    validation_tasks: Annotated[int, count] = 0
    label_noise: Annotated[float | None, or_none(number)] = None
    """The `rate` of `estimate_label_noise`, an upper bound on the share of flipped labels; None where not known."""

    validation_payoff: Annotated[dict[str, float], _payoffs] = field(default_factory=dict)
    """Mean payoff on held-out tasks: this policy's, and that of each baseline it was compared with, by name."""

    payoff: Annotated[Payoff | None, stored_payoff] = None
    """What it was fitted and measured under, also where the policy itself serves any payoff; None where not known."""

    made_up: Annotated[int, count] = 0
    """How many of the tasks a language model made up: such labels promise nothing about real tasks."""

    scorer: Annotated[ScorerRecord | None, or_none(object_of(ScorerRecord))] = None
    """What gave the scores (`camdf.scorers.record_of`); None where not known."""

    catalogue: Annotated[FittedCatalogue | None, or_none(object_of(FittedCatalogue))] = None
    """The tools on the lists; None where not known."""

    effects: Annotated[FittedEffects | None, or_none(object_of(FittedEffects)), LEFT_OUT] = None
    """What exposing tools cost by what they can do; None where that had no price."""

    copies: Annotated[tuple[tuple[str, str], ...], _copies, Written(dict), LEFT_OUT] = ()
    """Tools that do the same as another one, each with that one's name, under which the policy knows both."""
