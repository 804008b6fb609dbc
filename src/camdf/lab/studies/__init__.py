"""Every table and figure of the paper as a study, and what is not replicated."""

from __future__ import annotations

from camdf.lab.studies.ablations import (
    ABLATION_STUDIES,
    OBJECTIVE,
    ORDERING,
    RESIDUAL_CORRECTION,
    TRAINING_FREE_STUDY,
    TUNING_CONTROLS,
)
from camdf.lab.studies.atlas import ATLAS_RANDOM, ATLAS_UNIT, ATLAS_VECTORS
from camdf.lab.studies.elsewhere import METATOOL_STUDY, PARTIAL_PAYOFF, TAU2_STUDIES, WORKBENCH_STUDIES
from camdf.lab.studies.grid import DENSE_GRID, GRID_STUDIES
from camdf.lab.studies.main import MAIN_STUDIES, PAYOFF_BY_DEPTH, RETAIL_ABSOLUTE
from camdf.lab.studies.scorers import CROSS_SCORER, CROSS_SCORER_MATCHED, SCORE_QUALITY
from camdf.lab.studies.stress import COST_PERMUTATIONS, LABEL_NOISE, LITE_COEFFICIENTS, SELF_SELECTION_STUDY
from camdf.lab.study import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        *MAIN_STUDIES,
        RETAIL_ABSOLUTE,
        PAYOFF_BY_DEPTH,
        *GRID_STUDIES,
        DENSE_GRID,
        SCORE_QUALITY,
        CROSS_SCORER,
        CROSS_SCORER_MATCHED,
        PARTIAL_PAYOFF,
        *ABLATION_STUDIES,
        OBJECTIVE,
        ORDERING,
        TRAINING_FREE_STUDY,
        TUNING_CONTROLS,
        LABEL_NOISE,
        COST_PERMUTATIONS,
        LITE_COEFFICIENTS,
        RESIDUAL_CORRECTION,
        SELF_SELECTION_STUDY,
        *WORKBENCH_STUDIES,
        *TAU2_STUDIES,
        ATLAS_UNIT,
        ATLAS_VECTORS,
        ATLAS_RANDOM,
        METATOOL_STUDY,
    )
}
"""By name, in the order of a reading: the main results, what they rest on, and the other domains."""

NOT_REPLICATED: dict[str, str] = {
    "Live execution on Retail (tab:e2e)": "needs an agent and a user simulator on tau-bench, that is a paid model API",
    "Live execution with another user simulator (tab:e2eusim)": "needs the same, with a second model",
    "The keyword rule (rows of tab:main, tab:retailabs, tab:grid)": "the paper does not print its keywords",
    "The qwen-turbo panel of fig:atlas": "the scores are not public; a weaker ranking stands in main-minilm",
    "How often two orders choose different prefixes (app:robust)": "replays keep payoffs, not the sets behind them",
}
"""What the paper reports and no study has, with the reason."""
