"""Property tests try a few cases in every run, each time others; CASES=100 tries Hypothesis's own number.

CI names a seed, CASES_SEED, by which whoever looks into a failure has the same cases.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

with suppress(ImportError):  # the environments of frameworks have no Hypothesis
    from hypothesis import settings

    settings.register_profile("short", max_examples=int(os.environ.get("CASES", "30")), deadline=None)
    settings.load_profile("short")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the seed to Hypothesis where it is there and nobody has named another."""
    if getattr(config.option, "hypothesis_seed", "not there") is None:
        config.option.hypothesis_seed = os.environ.get("CASES_SEED")
