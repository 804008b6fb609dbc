"""Writes docs/features.md from the docstrings of the columns.

python docs/features_table.py
"""

from __future__ import annotations

from pathlib import Path

from camdf.core import features

SETS = {
    "aggregates": features.AGGREGATES,
    "score aggregates": features.SCORE_AGGREGATES,
    "lite": features.LITE,
    "cost-free": features.COST_FREE,
    "cost-augmented": features.COST_AUGMENTED,
}

HEAD = """# The feature map

What CAM-DF and its family know at each [depth](glossary.md#depth) of a ranking. At depth t the first t candidates are
selected, and the one at rank t + 1 is next. The paper names the groups and lists only the ten columns of CAM-DF-lite;
the other choices are ours:

- *high-cost* means more than the mean cost of the list;
- *normalised* means as a share of the whole list's sum;
- *dispersion* is the list's highest cost over its mean;
- identity adds a column for each tool where all tasks share one catalogue of at most 64 tools.

`python docs/features_table.py` writes this table from the docstrings in `camdf/core/features.py`.

| column | definition | used in, beside the full 32 |
| --- | --- | --- |
"""


def main() -> None:
    rows = [
        f"| `{name}` | {(column.__doc__ or '').strip()} | {', '.join(s for s in SETS if name in SETS[s])} |"
        for name, column in features.COLUMNS.items()
    ]
    Path(__file__).with_name("features.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
