"""On how many threads numpy multiplies matrices."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")
"""What OpenBLAS calls it in the wheels of numpy, by version."""


def one_blas_thread() -> bool:
    """Let the OpenBLAS of numpy's wheel work on one thread; False where that is not it, or a variable says how many.

    The matrices of a fit are so small that two threads wait for each other more than they work: on two cores that are
    busy, a fit took four times the processor time. What is computed is the same.
    """
    if any(name in os.environ for name in VARIABLES):
        return False
    home = Path(np.__file__).parent
    for library in (*home.with_name("numpy.libs").glob("*openblas*"), *(home / ".dylibs").glob("*openblas*")):
        loaded = ctypes.CDLL(str(library))
        for name in SETTERS:
            if hasattr(loaded, name):
                getattr(loaded, name)(1)
                return True
    return False
