"""What a saved policy tells of its training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from camdf.core.payoff import Payoff

GIVEN_SCORES = "given"
"""The kind of a scorer that nobody knows: the scores came with the tasks."""

NAMES_KEPT = 1_000
"""How many tools of a catalogue a policy's file names."""

SHOWN = 12
"""How many digits of a digest people read."""


@dataclass(frozen=True)
class ScorerRecord:
    """What gave the scores of some tasks, as far as a name can tell: two scorers of equal records score alike."""

    kind: str
    """"start", "bm25", "embeddings", "llm" or "fusion"; "given" where the scores came with the tasks; and for a scorer
    of your own, where Python finds it."""

    settings: tuple[tuple[str, str], ...] = ()
    """What it was set to, by name: how it writes a tool as text, for one."""

    model: str = ""
    """The language model, or the one that embeds texts; "" where there is none."""

    examples_sha256: str = ""
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
class FittedCatalogue:
    """The tools on the lists that a policy was fitted on."""

    tools: int
    """How many there are."""

    sha256: str
    """Of their names in order, a line each."""

    names: tuple[str, ...] = ()
    """Their names in order; of a larger catalogue the first `NAMES_KEPT`."""

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """That of tools of these names."""
        from hashlib import sha256  # loads OpenSSL, which a decision never needs

        ordered = sorted(set(names))
        content = "\n".join(ordered).encode(errors="surrogatepass")
        return cls(len(ordered), sha256(content).hexdigest(), tuple(ordered[:NAMES_KEPT]))

    def unknown(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some names that the catalogue does not have; none where it does not name all of its own."""
        known = frozenset(self.names)
        return tuple(name for name in names if name not in known) if len(known) == self.tools else ()


@dataclass(frozen=True)
class Training:
    """What a policy was fitted on, and how it did: travels inside the artifact."""

    data_sha256: str = ""
    tasks: int = 0
    groups: int = 0
    validation_tasks: int = 0
    label_noise: float | None = None
    """The `rate` of `estimate_label_noise`, an upper bound on the share of flipped labels; None where not known."""

    validation_payoff: dict[str, float] = field(default_factory=dict)
    """Mean payoff on held-out tasks: this policy's, and that of each baseline it was compared with, by name."""

    payoff: Payoff | None = None
    """What it was fitted and measured under, also where the policy itself serves any payoff; None where not known."""

    made_up: int = 0
    """How many of the tasks a language model made up: such labels promise nothing about real tasks."""

    scorer: ScorerRecord | None = None
    """What gave the scores (`camdf.scorers.record_of`); None where not known."""

    catalogue: FittedCatalogue | None = None
    """The tools on the lists; None where not known."""
