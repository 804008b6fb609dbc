"""Fit the policy that ships for the first day: `python scripts/fit_cold_start.py [TARGET]`.

Writes `src/camdf/policies/cold_start.json`, or TARGET, from every domain and ranking that ships. What to expect of it
where a domain was left out is measured by `camdf lab past cold_start`.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from camdf import datasets
from camdf.lab.past.cold_start import shipped
from camdf.policies.artifact import save
from camdf.policies.cold_start import ARTIFACT, fit_across
from camdf.policies.training import Training

TARGET = Path(__file__).parents[1] / "src" / "camdf" / "policies" / ARTIFACT


def main(target: Path = TARGET) -> None:
    """Fit on all that ships; the digest is that of the rankings' digests, one after the other."""
    rankings = shipped()
    digest = hashlib.sha256("".join(logged.digest() for logged in rankings).encode()).hexdigest()
    tasks = sum(domain.tasks for domain in datasets.DOMAINS)
    groups = sum(len(set(datasets.load(domain.name).groups.tolist())) for domain in datasets.DOMAINS)
    save(fit_across(rankings), target, Training(digest, tasks, groups))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
