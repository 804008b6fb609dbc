"""Every way to choose that is compared: as it comes, and with its numbers tuned on the same labels that camdf gets.

A way takes a case, the rows whose labels are known, the rows to decide on and the payoff, and returns which candidates
it gives to the agent: one mask, or several where chance has a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
CAMDF_COLD = "camdf, no label"
CAMDF_EXAMPLES = "camdf, examples, no label"
CAMDF_THREE = "camdf, three labels"
CAMDF_FITTED = "camdf, fitted"
CAMDF_TEXTS = "camdf, fitted with texts"
CAMDF_PAST = "camdf, fitted, remembering"


@dataclass(frozen=True)
class Method:
    """One row of the comparison.

    `searches` are made before the agent has any tool. `model` says what a language model that reads every candidate
    writes: "names" of those it chooses, "scores" of all. `made_up` ways need examples that were written for the tools,
    and the ways of a `peer` its stored answers.
    """

    name: str
    decide: Decide
    peer: str = ""
    searches: int = 0
    model: str = ""
    made_up: bool = False


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


def from_examples(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
    """camdf fitted on tasks that a language model wrote from the tools alone; no label of the domain."""
    return [_from_examples(case.domain).decide(case.with_texts.rankings.take(rows), payoff).acquired]


@cache
def _from_examples(domain: str) -> Unseen:
    return Unseen(domain).fit(domains.made_up(domain), Payoff(0.1))


def with_texts(*, remember: bool) -> Decide:
    """camdf after these labels and the texts of their tasks; with `remember` it may recall these tasks, too."""

    def decide(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
        policy = _remembering(case.domain, case.scorer, tuple(case.rows[known].tolist()))
        if not remember:
            policy = policy.recalling(None)
        return [policy.decide(case.with_texts.rankings.take(rows), payoff).acquired]

    return decide


@cache
def _remembering(domain: str, scorer: str, rows: tuple[int, ...]) -> Unseen:
    logged = domains.load(domain, scorer, texts=True).take(list(rows))
    return Unseen(domain, remember=True).fit(logged, Payoff(0.1))


def as_it_comes(peer: str) -> Decide:
    """What the peer itself chose, with its defaults."""
    return lambda case, known, rows, payoff: [case.peers[peer].default[rows]]


def tuned(options: Options) -> Decide:
    """The option that earns most on the labels that are known; of equal ones, the first."""

    def decide(case: Case, known: Ints, rows: Ints, payoff: Payoff) -> list[Bools]:
        labeled = case.logged.take(known)
        best = max(options(case, known), key=lambda mask: float(payoff.of(labeled, mask[known]).mean()))
        return [best[rows]]

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


def both_ways(name: str, key: str, options: Options, searches: int = 0, model: str = "") -> tuple[Method, Method]:
    """A peer as it comes, and tuned."""
    comes = Method(name, as_it_comes(key), key, searches, model)
    return comes, Method(f"{name}, tuned", tuned(options), key, searches, model)


def searched(name: str, key: str) -> tuple[Method, Method]:
    """A search that the agent makes before it has any tool."""
    return both_ways(name, key, best_of(key), searches=1)


def scored_by_model(method: Method) -> Method:
    """The same where a language model writes the scores, unless the way needs none."""
    if method.name == EVERYTHING:
        return method
    return replace(method, model="scores")


CONSTANTS = (
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
BM25 = "fastmcp-bm25"
REGEX = "fastmcp-regex"
ROUTER = "semantic-router-1"
METHODS: dict[str, tuple[Method, ...]] = {
    "minilm": (
        *CONSTANTS,
        *both_ways("LiteLLM's filter", "litellm", similar("litellm", all_if_none=True)),
        Method("semantic-router 0.3", as_it_comes("semantic-router"), "semantic-router"),
        *both_ways("semantic-router", ROUTER, similar(ROUTER, all_if_none=False)),
        *searched("toolsieve", "toolsieve"),
        *searched("toolhunch's search", "toolhunch"),
        *searched("graph-tool-call", "graph-tool-call"),
        *searched("graph-tool-call with MiniLM", "graph-tool-call-minilm"),
        *searched("Haystack's search", "haystack"),
        *searched("FastMCP's search", BM25),
        Method("3 most used and a BM25 search", provider(BM25), BM25, searches=1),
        Method("most used and a BM25 search, tuned", tuned(provider_tuned(BM25)), BM25, searches=1),
        Method("3 most used and a regex search", provider(REGEX), REGEX, searches=1),
        Method("most used and a regex search, tuned", tuned(provider_tuned(REGEX)), REGEX, searches=1),
        CAMDF[0],
        Method(CAMDF_EXAMPLES, from_examples, made_up=True),
        *CAMDF[1:],
        Method(CAMDF_TEXTS, with_texts(remember=False)),
        Method(CAMDF_PAST, with_texts(remember=True)),
    ),
    "claude": (
        *(scored_by_model(method) for method in CONSTANTS),
        *both_ways("LangChain's selector", "langchain", at_most("langchain"), model="names"),
        *(scored_by_model(method) for method in CAMDF if method.name != CAMDF_THREE),
    ),
}
"""By ranking: with MiniLM's similarities or a search of words, and with scores by a language model that read all."""


def methods_of(case: Case) -> list[Method]:
    """The ways that a case has: examples were written for eleven domains, and not every peer may have been asked."""
    return [
        method
        for method in METHODS[case.scorer]
        if (not method.made_up or case.domain in domains.made_up_domains())
        and (not method.peer or method.peer in case.peers)
    ]
