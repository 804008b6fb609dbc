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
selected, the rest remains, and the one at rank t + 1 is next. The paper names the groups, counts 39 columns on Retail,
16 cost-inclusive aggregates, 9 score-only aggregates and 15 cost-free columns, and lists only the ten of CAM-DF-lite.
Where it is silent, the choice is ours. Choices worth knowing:

- *high-cost* means more than the mean cost of the list;
- *normalised* means as a share of the whole list's sum;
- *dispersion* is measured on the list: its highest cost over its mean;
- identity adds one column for each tool where all tasks share one catalogue of at most 64 tools (7 on Retail).

This table is written by `python docs/features_table.py` from the docstrings in `camdf/core/features.py`.

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
