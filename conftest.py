"""Property tests try a few cases in every run, each time others; CASES=100 tries Hypothesis's own number."""

from __future__ import annotations

import os
from contextlib import suppress

with suppress(ImportError):  # the environments of frameworks have no Hypothesis
    from hypothesis import settings

    settings.register_profile("short", max_examples=int(os.environ.get("CASES", "30")))
    settings.load_profile("short")
