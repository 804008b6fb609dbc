"""What a policy answers: the acquired candidates, the depth where there is one, and the evidence behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from camdf.core.rankings import Bools, Floats, Ints, Rankings


@dataclass(frozen=True, eq=False)
class Decisions:
    """One decision a task.

    `acquired` (n, m) marks the candidates to give to the agent. `depth` (n,) is set where they are a prefix of the
    ranking. `evidence` (n, m) is what the policy compared with its threshold, one number for every candidate or for
    every depth 0 to m - 1, where it has such numbers. `none` (n,) is how likely each task is to need no tool, where the
    policy learned that from tasks that needed none.
    """

    acquired: Bools
    depth: Ints | None = None
    evidence: Floats | None = None
    none: Floats | None = None

    @classmethod
    def prefix(cls, rankings: Rankings, depth: Ints, evidence: Floats | None = None) -> Decisions:
        """Acquire the first `depth` candidates of every task."""
        return cls(np.arange(rankings.width) < depth[:, None], depth, evidence)

    def __len__(self) -> int:
        return len(self.acquired)

    def names(self, rankings: Rankings, row: int = 0) -> list[str]:
        """The acquired tools of one task, in rank order."""
        return [rankings.catalogue[i] for i in rankings.tool_ids[row, self.acquired[row]]]
