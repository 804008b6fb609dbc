"""Fit the policies that ship for the first day: `python scripts/fit_cold_start.py [FOLDER]`.

Writes `cold_start_similarity.json` and `cold_start_probability.json` into `src/camdf/policies`, or FOLDER, from all
domains that ship. What to expect where a domain was left out is measured by `camdf lab past cold_start`.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from camdf.lab.beyond.cold_start import learned, shipped
from camdf.policies.artifact import save
from camdf.policies.cold_start import ARTIFACT, COLUMNS
from camdf.policies.training import Training

FOLDER = Path(__file__).parents[1] / "src" / "camdf" / "policies"


def main(folder: Path = FOLDER) -> None:
    """Fit on all that ships. The digest is that of the rankings' digests; a task counts once in every ranking."""
    for scores in COLUMNS:
        rankings = shipped(scores)
        digest = hashlib.sha256("".join(logged.digest() for logged in rankings).encode()).hexdigest()
        tasks = sum(map(len, rankings))
        groups = sum(len(set(logged.groups.tolist())) for logged in rankings)
        save(learned(scores), folder / ARTIFACT.format(scores), Training(digest, tasks, groups))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
