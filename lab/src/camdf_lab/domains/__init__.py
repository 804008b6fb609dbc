"""Logged tasks of 17 benchmark domains, which come with the lab as numbers.

>>> from camdf_lab import domains
>>> logged = domains.load("retail", scorer="claude")

Sources, licenses and attributions are in `SOURCES.md` beside this file, and in `DOMAINS`,
`LATER_DOMAINS` and `MIXED_DOMAINS`.
"""

from camdf_lab.domains.catalogue import DOMAINS, LATER_DOMAINS, MIXED_DOMAINS, Domain, scorers
from camdf_lab.domains.checkouts import texts_from_tau2_bench, texts_from_tau_bench
from camdf_lab.domains.made_up import made_up, made_up_domains
from camdf_lab.domains.quality import ScoreQuality, as_markdown, quality_table, score_quality
from camdf_lab.domains.shipped import (
    OWN,
    ToolSize,
    costs,
    labels,
    load,
    projected,
    projection,
    self_selected,
    sizes,
    task_vectors,
    tools,
)

__all__ = [
    "DOMAINS",
    "LATER_DOMAINS",
    "MIXED_DOMAINS",
    "OWN",
    "Domain",
    "ScoreQuality",
    "ToolSize",
    "as_markdown",
    "costs",
    "labels",
    "load",
    "made_up",
    "made_up_domains",
    "projected",
    "projection",
    "quality_table",
    "score_quality",
    "scorers",
    "self_selected",
    "sizes",
    "task_vectors",
    "texts_from_tau2_bench",
    "texts_from_tau_bench",
    "tools",
]
