"""What was chosen instead: for every tool or skill, how often it was needed and chosen, and what took its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.evaluation.replay import all_handed_over
from camdf.policies.base import Policy

SHOWN = 3
"""How many of those that were chosen instead a line names."""


@dataclass(frozen=True)
class Confused:
    """What became of the requests that needed one tool, and of those that did not."""

    name: str
    needed: int
    chosen: int
    """For how many of those requests it was chosen."""

    in_vain: int
    """For how many others it was chosen, too."""

    instead: Mapping[str, int] = field(default_factory=dict)
    """What was chosen first for requests that needed it and did not get it; "" where nothing was."""

    def as_record(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)

    def line(self, width: int) -> str:
        """The same in words, the name in a column of this width."""
        told = f"{self.name:<{width}}  {self.chosen} of {self.needed}, in vain {self.in_vain}"
        names = [f"{name or 'nothing'} {count}" for name, count in list(self.instead.items())[:SHOWN]]
        return f"{told}; instead: {', '.join(names)}" if names else told


def confusions(needed: Iterable[Collection[str]], chosen: Iterable[Sequence[str]]) -> list[Confused]:
    """One `Confused` for every name that some request needed or got, the most often missed first.

    Args:
        needed: What each request needs.
        chosen: What it got, the best first.

    >>> [confused.line(3) for confused in confusions([["pdf"], ["pdf"], []], [["pdf"], ["doc"], ["doc"]])]
    ['pdf  1 of 2, in vain 0; instead: doc 1', 'doc  0 of 0, in vain 2']
    """
    wanted: Counter[str] = Counter()
    met: Counter[str] = Counter()
    in_vain: Counter[str] = Counter()
    instead: dict[str, Counter[str]] = {}
    for of_request, got in zip(needed, chosen, strict=True):
        others = [name for name in got if name not in of_request]
        in_vain.update(others)
        for name in dict.fromkeys(of_request):
            wanted[name] += 1
            if name in got:
                met[name] += 1
            else:
                instead.setdefault(name, Counter())[next(iter(others), "")] += 1
    confused = [
        Confused(name, wanted[name], met[name], in_vain[name], dict(instead.get(name, Counter()).most_common()))
        for name in {**wanted, **in_vain}
    ]
    return sorted(confused, key=lambda one: (one.chosen - one.needed, -one.in_vain, one.name))


def confusions_on(policy: Policy, logged: LoggedTasks, payoff: Payoff) -> list[Confused]:
    """The same of what a gate with this policy hands over on logged tasks: nothing where nothing is decided."""
    rankings = logged.rankings
    needed = Decisions(logged.required)
    chosen = Decisions(all_handed_over(rankings, policy.decide(rankings, payoff), searches=True))
    rows = range(len(logged))
    return confusions([needed.names(rankings, row) for row in rows], [chosen.names(rankings, row) for row in rows])


def lines_of_confusions(confused: Sequence[Confused]) -> list[str]:
    """Those that were missed or chosen in vain, a line each."""
    wrong = [one for one in confused if one.chosen < one.needed or one.in_vain]
    width = max((len(one.name) for one in wrong), default=0)
    return [one.line(width) for one in wrong]
