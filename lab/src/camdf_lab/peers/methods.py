"""Every way to choose that is compared: as it comes, and with its numbers tuned on the same labels that camdf gets.

A way takes a case, the rows whose labels are known, the rows to decide on and the payoff, and returns which candidates
it gives to the agent: one mask, or several where chance has a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

import numpy as np

from camdf.core.payoff import Payoff
from camdf.core.rankings import Bools, Ints
from camdf.policies.base import FittedPolicy, Policy
from camdf.policies.rules import AcquireAll, FixedK, ScoreAtLeast, ScoreThreshold, TopK
from camdf_lab import domains
from camdf_lab.beyond.priors import Cold, Unseen
from camdf_lab.beyond.recourse import most_used
from camdf_lab.peers.answers import Case

Decide: TypeAlias = Callable[[Case, Ints, Ints, Payoff], list[Bools]]
Options: TypeAlias = Callable[[Case, Ints], Iterable[Bools]]
"""From a case and the rows whose labels are known to the masks, (n, m) each, among which tuning chooses."""

DRAWS = 3
"""How many times three labels are drawn."""

MOST_TOOLS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 50)
LOADED = (0, 1, 2, 3, 4, 5)
"""How many tools that most tasks required stay loaded beside a search: providers advise 3 to 5."""

EVERYTHING = "everything"
CAMDF_COLD, CAMDF_THREE, CAMDF_FITTED = "camdf, no label", "camdf, three labels", "camdf, fitted"


@dataclass(frozen=True)
class Method:
    """One row of the comparison.

    `peer` names whose answers it rests on, and so its latency. `searches` are made before the agent has any tool.
    `model` says what a language model that reads every candidate writes: "names" of those it chooses, "scores" of all.
    """

    name: str
    decide: Decide
    peer: str = ""
    searches: int = 0
    model: str = ""


def by(policy: Callable[[Case], Policy]) -> Decide:
    """A policy without labels of its own."""
    return lambda case, known, rows, payoff: [policy(case).decide(case.logged.rankings.take(rows), payoff).acquired]


def fitted(policy: Callable[[Case], FittedPolicy]) -> Decide:
    """A policy fitted on the labels that are known."""

    def decide(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
        learned = policy(case).fit(case.logged.take(known), payoff)
        return [learned.decide(case.logged.rankings.take(rows), payoff).acquired]

    return decide


def three_labels(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
    """camdf after three labels, drawn three times."""
    drawn = [np.random.default_rng([draw, len(known), 3]).choice(known, 3, replace=False) for draw in range(DRAWS)]
    return [mask for some in drawn for mask in taught(case, np.sort(some), rows, payoff)]


def taught(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
    """camdf after these labels, from priors that have not seen the domain."""
    policy = _learned(case.domain, case.scorer, tuple(case.rows[known].tolist()))
    return [policy.decide(case.logged.rankings.take(rows), payoff).acquired]


@cache
def _learned(domain: str, scorer: str, rows: tuple[int, ...]) -> Unseen:
    """One fit serves every payoff."""
    return Unseen(domain, texts=False).fit(domains.load(domain, scorer).take(list(rows)), Payoff(0.1))


def as_it_comes(peer: str) -> Decide:
    """What the peer itself chose, with its defaults."""
    return lambda case, known, rows, payoff: [case.peers[peer].default[rows]]


def tuned(options: Options) -> Decide:
    """The option that pays most on the labels that are known; of equal ones, the first."""

    def decide(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
        here, every = case.logged.take(known), list(options(case, known))
        best = max(range(len(every)), key=lambda i: (float(payoff.of(here, every[i][known]).mean()), -i))
        return [every[best][rows]]

    return decide


def best_of(peer: str) -> Options:
    """The peer's first k, for every k."""

    def options(case: Case, known: Ints) -> Iterable[Bools]:
        places = case.peers[peer].places
        return [(places >= 0) & (places < k) for k in MOST_TOOLS]

    return options


def at_most(peer: str) -> Options:
    """What the peer chose, its first k alone, for every k."""

    def options(case: Case, known: Ints) -> Iterable[Bools]:
        answer = case.peers[peer]
        return [answer.default & (answer.places < k) for k in MOST_TOOLS]

    return options


def similar(peer: str, *, all_if_none: bool) -> Options:
    """The peer's first k that reach a threshold; LiteLLM hands over every tool where none does."""

    def options(case: Case, known: Ints) -> Iterable[Bools]:
        answer = case.peers[peer]
        assert answer.scores is not None
        listed = case.logged.rankings.listed
        cuts = np.quantile(answer.scores[known][listed[known]], np.linspace(0, 0.98, 15))
        for k, cut in product(MOST_TOOLS, cuts):
            mask = (answer.places < k) & (answer.scores >= cut) & listed
            if all_if_none:
                mask = mask | (listed & ~mask.any(axis=1, keepdims=True))
            yield mask

    return options


def loaded(case: Case, known: Ints, count: int) -> Bools:
    """(n, m): the tools that most of the known tasks required, in every list that has them."""
    rankings = case.logged.rankings
    kept = most_used(case.logged.take(known), count)
    chosen = np.array([name in kept for name in rankings.catalogue] + [False])
    mask: Bools = chosen[rankings.tool_ids]
    return mask


def provider(peer: str) -> Decide:
    """Three tools that stay loaded, and the five that a search answers with."""
    return lambda case, known, rows, payoff: [(loaded(case, known, 3) | case.peers[peer].default)[rows]]


def provider_tuned(peer: str) -> Options:
    """So many loaded, and so many found."""

    def options(case: Case, known: Ints) -> Iterable[Bools]:
        masks = list(best_of(peer)(case, known))
        for count in LOADED:
            kept = loaded(case, known, count)
            yield from (kept | mask for mask in masks)

    return options


PEER_CONSTANTS = (
    Method(EVERYTHING, by(lambda case: AcquireAll())),
    Method("top 5", by(lambda case: TopK(5))),
    Method("top 10", by(lambda case: TopK(10))),
    Method("top k, tuned", fitted(lambda case: FixedK())),
    Method("score > 0.3", by(lambda case: ScoreAtLeast(0.3))),
    Method("score > t, tuned", fitted(lambda case: ScoreThreshold())),
)
CAMDF = (
    Method(CAMDF_COLD, by(lambda case: Cold(case.domain, case.scorer))),
    Method(CAMDF_THREE, three_labels),
    Method(CAMDF_FITTED, taught),
)
BM25, REGEX, LITELLM, ROUTER, LANGCHAIN = "fastmcp-bm25", "fastmcp-regex", "litellm", "semantic-router", "langchain"
METHODS: dict[str, tuple[Method, ...]] = {
    "minilm": (
        *PEER_CONSTANTS,
        Method("LiteLLM's filter", as_it_comes(LITELLM), LITELLM),
        Method("LiteLLM's filter, tuned", tuned(similar(LITELLM, all_if_none=True)), LITELLM),
        Method("semantic-router", as_it_comes(ROUTER), ROUTER),
        Method("semantic-router, tuned", tuned(similar(ROUTER, all_if_none=False)), ROUTER),
        Method("FastMCP's BM25 search", as_it_comes(BM25), BM25, searches=1),
        Method("FastMCP's BM25 search, tuned", tuned(best_of(BM25)), BM25, searches=1),
        Method("3 most used and a BM25 search", provider(BM25), BM25, searches=1),
        Method("most used and a BM25 search, tuned", tuned(provider_tuned(BM25)), BM25, searches=1),
        Method("3 most used and a regex search", provider(REGEX), REGEX, searches=1),
        Method("most used and a regex search, tuned", tuned(provider_tuned(REGEX)), REGEX, searches=1),
        *CAMDF,
    ),
    "claude": (
        *(
            Method(method.name, method.decide, model="" if method.name == EVERYTHING else "scores")
            for method in PEER_CONSTANTS
        ),
        Method("LangChain's selector", as_it_comes(LANGCHAIN), LANGCHAIN, model="names"),
        Method("LangChain's selector, tuned", tuned(at_most(LANGCHAIN)), LANGCHAIN, model="names"),
        *(Method(method.name, method.decide, model="scores") for method in CAMDF),
    ),
}
"""By ranking: with MiniLM's similarities or a search of words, and with scores by a language model that read all."""
