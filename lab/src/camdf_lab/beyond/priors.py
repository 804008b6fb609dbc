"""Priors that have not seen a domain, and the default that starts from them: what a study of that domain may use."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Self

from camdf.core.payoff import Payoff
from camdf.core.rankings import Floats, GatedTasks, LoggedTasks, Rankings
from camdf.policies.by_set import ExpectedPayoffBySet
from camdf.policies.cold_start import from_prior
from camdf.policies.models.membership import HeldOut
from camdf.policies.models.prior import KINDS, Prior, shipped_prior
from camdf_lab import domains
from camdf_lab.prior_fit import CandidateRows, assembled, distance, pooled


class Unseen(ExpectedPayoffBySet):
    """The default, from priors that have not seen one domain; without `texts` it learns from the rankings alone."""

    def __init__(self, domain: str, *, trust_labels: bool = False, texts: bool = True, remember: bool = False) -> None:
        super().__init__(trust_labels=trust_labels, remember=remember)
        self.domain = domain
        self.texts = texts

    def priors(self, reading: Rankings | None = None) -> tuple[Prior, ...]:
        return priors_without(self.domain)

    def learn(self, logged: LoggedTasks, gated: GatedTasks | None = None) -> HeldOut:
        if self.texts:
            return super().learn(logged, gated)
        return super().learn(replace(logged, rankings=replace(logged.rankings, vectors=None)), gated)

    def without_texts(self) -> Self:
        """The same fit as it decides from the ranking alone."""
        alone = self.recalling(None)
        alone.with_text_ = None
        return alone


class Cold(ExpectedPayoffBySet):
    """The cold start that has not seen one domain, for one of its rankings; labels teach it nothing."""

    def __init__(self, domain: str, scorer: str) -> None:
        kind = kind_of(scorer)
        super().__init__(prior=kind)
        self.model_ = from_prior(prior_without(domain, kind), kind).model_

    def fit(
        self,
        logged: LoggedTasks,
        payoff: Payoff,
        validation: LoggedTasks | None = None,
        gated: GatedTasks | None = None,
    ) -> Self:
        return self


def kind_of(scorer: str) -> str:
    """What its scores are: Claude was asked how likely each tool is to be needed, the other scorers compare texts."""
    return "probability" if scorer.startswith("claude") else "similarity"


def priors_without(domain: str) -> tuple[Prior, ...]:
    """One prior of each kind, learned from the domains of `domains.DOMAINS` but this one."""
    return tuple(prior_without(domain, kind) for kind in KINDS)


@cache
def prior_without(domain: str, kind: str) -> Prior:
    """The prior of one kind from all domains but one, each domain's distance from a model that saw neither.

    A later domain has no part in any prior, so its prior is the one that ships.
    """
    names = [shipped.name for shipped in domains.DOMAINS]
    return learned_prior(kind, domain) if domain in names else shipped_prior(kind)


def learned_prior(kind: str, without: str = "") -> Prior:
    """The same, computed; with no domain left out, what `scripts/fit_priors.py` writes."""
    names = tuple(domain.name for domain in domains.DOMAINS if domain.name != without)
    distances = []
    for name in names:
        others = _pooled(kind, tuple(other for other in names if other != name))
        own = [scorer for scorer in domains.scorers(name) if kind_of(scorer) == kind]
        if own:
            distances.append([distance(_candidates(name, scorer), *others) for scorer in own])
    return assembled([_candidates(*domain) for domain in _taught(kind, names)], *_pooled(kind, names), distances)


def _taught(kind: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """What a model of this kind is learned from; a probability is learned from probabilities alone."""
    return [
        (name, scorer) for name in names for scorer in domains.scorers(name) if kind in ("similarity", kind_of(scorer))
    ]


@cache
def _pooled(kind: str, names: tuple[str, ...]) -> tuple[Floats, float]:
    return pooled([_candidates(*ranking) for ranking in _taught(kind, names)], kind)


@cache
def _candidates(domain: str, scorer: str) -> CandidateRows:
    return CandidateRows.of(domains.load(domain, scorer))
