"""Priors that have not seen a domain: what a study of that domain may start from."""

from __future__ import annotations

from functools import cache

from camdf import datasets
from camdf.core.rankings import Floats
from camdf.models.prior import KINDS, Prior, shipped_prior
from camdf.models.prior_fit import Candidates, assembled, distance, pooled


def kind_of(scorer: str) -> str:
    """What its scores are: Claude was asked how likely each tool is to be needed, the other scorers compare texts."""
    return "probability" if scorer.startswith("claude") else "similarity"


def priors_without(domain: str) -> tuple[Prior, ...]:
    """One prior of each kind, learned from the domains of `datasets.DOMAINS` but this one."""
    return tuple(prior_without(domain, kind) for kind in KINDS)


@cache
def prior_without(domain: str, kind: str) -> Prior:
    """The prior of one kind from all domains but one, each domain's distance from a model that saw neither.

    A domain of the second look has no part in any prior, so it is the one that ships.
    """
    names = [each.name for each in datasets.DOMAINS]
    return learned_prior(kind, domain) if domain in names else shipped_prior(kind)


def learned_prior(kind: str, without: str = "") -> Prior:
    """The same, computed; with no domain left out, what `scripts/fit_priors.py` writes."""
    names = tuple(each.name for each in datasets.DOMAINS if each.name != without)
    distances = []
    for name in names:
        others = _pooled(kind, tuple(other for other in names if other != name))
        own = [scorer for scorer in datasets.scorers(name) if kind_of(scorer) == kind]
        if own:
            distances.append([distance(_candidates(name, scorer), *others) for scorer in own])
    return assembled([_candidates(*each) for each in _taught(kind, names)], *_pooled(kind, names), distances)


def _taught(kind: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """What a model of this kind is learned from; a probability is learned from probabilities alone."""
    return [
        (name, scorer) for name in names for scorer in datasets.scorers(name) if kind in ("similarity", kind_of(scorer))
    ]


@cache
def _pooled(kind: str, names: tuple[str, ...]) -> tuple[Floats, float]:
    return pooled([_candidates(*each) for each in _taught(kind, names)], kind)


@cache
def _candidates(domain: str, scorer: str) -> Candidates:
    return Candidates.of(datasets.load(domain, scorer))
