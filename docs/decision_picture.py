"""Draws docs/pictures/decision.svg and .png: one decision of CAM-DF on a Retail task.

python docs/decision_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import camdf
from camdf import datasets

PICTURES = Path(__file__).parent / "pictures"
KEPT = "#0072B2"
CUT = "#BBBBBB"
LINE = "#D55E00"
TASK = "retail-049"


def main() -> None:
    payoff = camdf.Payoff(cost_pressure=0.12)
    logged = datasets.sample()
    row = logged.task_ids.tolist().index(TASK)
    others = logged.take(np.arange(len(logged)) != row)
    policy = camdf.CAMDF().fit(others, payoff)
    one = logged.rankings.take([row])
    decision = policy.decide(one, payoff)
    assert decision.evidence is not None
    assert decision.depth is not None
    depth = int(decision.depth[0])
    stop = 1 / (1 + np.exp(-decision.evidence[0]))
    names = one.names(0)
    scores = one.scores[0]
    costs = one.costs[0]
    needed = logged.required[row]

    plt.rcParams.update({"font.size": 10, "font.family": "DejaVu Sans", "svg.hashsalt": "camdf"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True, width_ratios=[1.15, 1])
    ranks = np.arange(len(names))
    left.barh(ranks, scores, color=[KEPT if i < depth else CUT for i in ranks], height=0.62)
    for i, (score, cost, need) in enumerate(zip(scores, costs, needed, strict=True)):
        label = f"score {score:.2f}, cost {cost:.2f}"
        if need:
            label += "   (was required)"
        if score > 0.55:
            left.text(0.015, i, label, va="center", color="white", fontsize=8.5)
        else:
            left.text(score + 0.015, i, label, va="center", color="black", fontsize=8.5)
    left.set(yticks=ranks, yticklabels=names, xlim=(0, 1), xlabel="the ranker's score")
    left.invert_yaxis()
    right.plot(stop, ranks - 0.5, marker="o", color="black", linewidth=1.2, markersize=5)
    right.axvline(0.5, color=LINE, linewidth=1, linestyle=":")
    right.set(xlim=(0, 1), xlabel="P(stop here), before the next tool is added")
    right.text(0.515, -0.45, "stop from here on", color=LINE, fontsize=9)
    for axis in (left, right):
        axis.axhline(depth - 0.5, color=LINE, linewidth=1.6)
        axis.spines[["top", "right"]].set_visible(False)
    right.text(0.02, depth - 0.4, f"cut: {depth} of {len(names)} tools", color=LINE, va="top", fontsize=9)
    figure.tight_layout()
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / "decision.svg", metadata={"Date": None})
    figure.savefig(PICTURES / "decision.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    main()
