"""The paper, replicated: every table and figure as a `Table`, and what is not replicated."""

from __future__ import annotations

from camdf_lab.paper.table import Table
from camdf_lab.paper.tables import (
    ablations,
    atlas,
    cost_permutations,
    cross_scorer,
    dense_grid,
    grid,
    label_noise,
    lite_coefficients,
    main,
    metatool,
    objective,
    ordering,
    other_domains,
    partial_payoff,
    payoff_by_depth,
    residual_correction,
    retail_absolute,
    score_quality,
    self_selection,
    training_free,
    tuning_controls,
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        *main.TABLES,
        retail_absolute.TABLE,
        payoff_by_depth.TABLE,
        *grid.TABLES,
        dense_grid.TABLE,
        score_quality.TABLE,
        *cross_scorer.TABLES,
        partial_payoff.TABLE,
        *ablations.TABLES,
        objective.TABLE,
        ordering.TABLE,
        training_free.TABLE,
        tuning_controls.TABLE,
        label_noise.TABLE,
        cost_permutations.TABLE,
        lite_coefficients.TABLE,
        residual_correction.TABLE,
        self_selection.TABLE,
        *other_domains.TABLES,
        *atlas.TABLES,
        metatool.TABLE,
    )
}
"""By name, in reading order: the main results, what they rest on, and the other domains."""

NOT_REPLICATED: dict[str, str] = {
    "Live execution on Retail (tab:e2e)": (
        "not with the paper's agent, policies and user simulator; [live.md](live.md) sets 335 episodes of another "
        "agent, without a simulator, beside it"
    ),
    "Live execution with another user simulator (tab:e2eusim)": "needs two models that play the customer",
    "The keyword rule (rows of tab:main, tab:retailabs, tab:grid)": "the paper does not print its keywords",
    "The qwen-turbo panel of fig:atlas": "the scores are not public; a weaker ranking stands in main-minilm",
    "How often two orders choose different prefixes (app:robust)": "replays keep payoffs, not the sets behind them",
}
"""What the paper reports and no table here has, with the reason."""
