"""CAM-DF and its family: stop where the regret-weighted classifier says that no later prefix pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from camdf.core.features import FULL, LITE
from camdf.core.payoff import Payoff
from camdf.core.rankings import LoggedTasks, Rankings
from camdf.core.stopping import Targets, hindsight_targets, on_policy_targets, realized
from camdf.policies.models.linear import LinearModel, fit_logistic
from camdf.policies.stopping import StoppingPolicy
from camdf.runtime.settings import one_of

MOST_ROUNDS = 10
"""How often an on-policy fit refits at most after the first: by then it has mostly settled, or it cycles."""


class CAMDF(StoppingPolicy):
    """The paper's CAM-DF: P(stop) from a logistic model whose errors weigh what they cost; stop at P >= 0.5.

    Minimizes the mean of (|gap| + 0.0001) * logistic loss + L2 over all nonterminal states of the training tasks, where
    the label says whether the gap between stopping and the best later prefix is not negative (Equation 5).

    `weights="uniform"` drops the regret weights, `identity=False` the next-tool columns, `threshold=None` tunes the
    stop threshold on validation: the paper's ablations and controls.

    `target="on-policy"` changes the target alone. The gap in hindsight supposes that whoever goes on will stop at the
    best later prefix, which only an oracle can; the on-policy gap takes the payoff that the policy itself realizes
    from the next depth on (`core.stopping.on_policy_gap`). That depends on the policy, so fitting alternates: the
    targets of the last fit's stops, then a fit to them, beginning with the hindsight fit, until the stops repeat or
    after ten rounds. Linear models often cycle instead of settling, so the fit with the highest mean payoff on the
    training tasks is kept, the later of two that tie; it never pays less there than the hindsight fit. During the
    rounds a policy whose threshold is tuned stops at 0.5.

    `columns` names the features that the model sees (`camdf.core.features`), `cost_blind` hides prices from them, and
    `grid` has the thresholds to choose among.
    """

    kind = "cam-df"
    weights: Annotated[Literal["regret", "uniform"], one_of("regret", "uniform")]
    target: Annotated[Literal["hindsight", "on-policy"], one_of("hindsight", "on-policy")]

    def __init__(
        self,
        columns: Sequence[str] = FULL,
        *,
        identity: bool = True,
        cost_blind: bool = False,
        weights: Literal["regret", "uniform"] = "regret",
        target: Literal["hindsight", "on-policy"] = "hindsight",
        threshold: float | None = 0.5,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(columns, identity=identity, cost_blind=cost_blind, threshold=threshold, grid=grid)
        self.store(weights=weights, target=target)

    def learn(self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        if self.target == "hindsight":
            return self._classifier(hindsight_targets(logged, payoff), seen, payoff, tools)
        rounds = list(self._rounds(logged, seen, payoff, tools))
        return max(reversed(rounds), key=lambda pair: pair[0])[1]

    def _classifier(self, targets: Targets, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]) -> LinearModel:
        labels = targets.stop if self.stops_above else ~targets.stop
        weights = targets.weight if self.weights == "regret" else None
        return fit_logistic(seen, payoff, self.columns, tools, targets.state, labels, weights)

    def _rounds(
        self, logged: LoggedTasks, seen: Rankings, payoff: Payoff, tools: tuple[str, ...]
    ) -> Iterator[tuple[float, LinearModel]]:
        """Summed training payoff and model of every round, until the stops repeat: from there on all would repeat."""
        payoffs = payoff.by_depth(logged)
        threshold = 0.5 if self.threshold is None else self.threshold
        cutoff = self.cutoff(threshold, payoff)
        listed = seen.listed
        stop = hindsight_targets(logged, payoff).stop
        patterns: set[bytes] = set()
        while len(patterns) <= MOST_ROUNDS:
            pattern = stop[listed].tobytes()
            if pattern in patterns:
                return
            patterns.add(pattern)
            model = self._classifier(on_policy_targets(logged, payoff, stop), seen, payoff, tools)
            stop = self.stops(model.evidence(seen, payoff), cutoff)
            yield float(realized(payoffs, stop)[:, 0].sum()), model


class CAMDFLite(CAMDF):
    """The interpretable variant: exactly ten columns, P(continue), stop below a threshold tuned on validation.

    Positive coefficients favor going on (the paper's Table A9). `columns`, `identity`, `cost_blind`, `weights`,
    `target`, `threshold` and `grid` are those of `CAMDF`, with other defaults.
    """

    kind = "cam-df-lite"
    stops_above = False

    def __init__(
        self,
        columns: Sequence[str] = LITE,
        *,
        identity: bool = False,
        cost_blind: bool = False,
        weights: Literal["regret", "uniform"] = "regret",
        target: Literal["hindsight", "on-policy"] = "hindsight",
        threshold: float | None = None,
        grid: Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            columns,
            identity=identity,
            cost_blind=cost_blind,
            weights=weights,
            target=target,
            threshold=threshold,
            grid=grid,
        )
