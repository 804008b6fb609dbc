"""Every error that camdf raises on purpose, as one tree, and the one way to import what an extra brings.

    CamdfError
      UsageError         a setting or an argument that makes no sense (a ValueError too)
      DataError          a data file that is not as it should be (a ValueError too)
      ArtifactError      a file that is no usable policy (a ValueError too)
      NotFittedError     a policy that learns was asked to decide before `fit` (a RuntimeError too)
      ScorerError        a scorer that has no answer (a RuntimeError too)
      MissingExtraError  an optional dependency that is not installed (an ImportError too)
      BrokenPromiseError a policy that fails one of `camdf.checks` (an AssertionError too)

Each message says what is required, what was found, and what to do. None holds a task's text or a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any


class CamdfError(Exception):
    """The root of the tree: catch it to catch everything that camdf raises on purpose."""


class UsageError(CamdfError, ValueError):
    """A setting or an argument makes no sense. The message names it, what it must be, and what it is."""


class DataError(CamdfError, ValueError):
    """A data file is not as it should be. The message says where, what is required, what was found and what to do."""


class ArtifactError(CamdfError, ValueError):
    """A file is not a policy that may be used. The message says what is wrong and what to do."""


class NotFittedError(CamdfError, RuntimeError):
    """A policy that learns was asked to decide before `fit`."""


class ScorerError(CamdfError, RuntimeError):
    """A scorer has no answer to give. The message holds neither the task's text nor a key."""


class MissingExtraError(CamdfError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class BrokenPromiseError(CamdfError, AssertionError):
    """A policy does not keep a promise. The message begins with the name of the check."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of optional packages: one that is missing raises an error that names the extra.

    >>> with needs("mining"):
    ...     import no_such_package
    Traceback (most recent call last):
    camdf.errors.MissingExtraError: This needs no_such_package. Install it with: pip install 'camdf[mining]'
    """
    try:
        yield
    except ImportError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise MissingExtraError(f"This needs {missing}. Install it with: pip install 'camdf[{extra}]'") from error


def expect(module: str, extra: str) -> None:
    """Raise where an optional package is missing, without the seconds that importing it may take."""
    if find_spec(module) is None:
        with needs(extra):
            raise ImportError(name=module)


def require(module: str, extra: str) -> Any:
    """A module of an optional package, imported when it is first used.

    >>> require("json", "mining").loads("[1]")
    [1]
    """
    with needs(extra):
        return import_module(module)
