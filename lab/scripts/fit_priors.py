"""Learn what the package knows before the first label: `python scripts/fit_priors.py [FOLDER]`.

Writes `prior_similarity.json` and `prior_probability.json` into `src/camdf/policies/models`, or FOLDER, from the nine
domains of `domains.DOMAINS`. What to expect where a domain was left out is measured by `camdf-lab past cold_start`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from camdf.policies.models.prior import FILE, KINDS
from camdf_lab.beyond.priors import learned_prior

FOLDER = Path(__file__).parents[2] / "src" / "camdf" / "policies" / "models"


def main(folder: Path = FOLDER) -> None:
    """One file a kind of scores."""
    for kind in KINDS:
        (folder / FILE.format(kind)).write_text(learned_prior(kind).as_json(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
