"""What no deployable policy can know: the best prefix in hindsight."""

from __future__ import annotations

from camdf.core.decisions import Decisions
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks
from camdf.core.stopping import earliest_best_depth


def prefix_oracle(logged: LoggedTasks, payoff: Payoff) -> Decisions:
    """The earliest prefix with the highest payoff of each task: a bound for policies that stop along the ranking.

    A function and no `Policy`, because it reads the required tools, which no policy may.
    """
    return Decisions.prefix(logged.rankings, earliest_best_depth(payoff.by_depth(logged)))
