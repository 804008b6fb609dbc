"""Settings that are values: frozen, each field documented by itself, and checked where it is given.

A check takes what was given and returns what is kept, or raises a ValueError that says what it must be:

    @dataclass(frozen=True)
    class Limits(Settings):
        seconds: Annotated[float, number(above=0)] = 5.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import get_annotations
from math import inf, isfinite
from numbers import Real
from typing import Any, TypeAlias, get_type_hints

from camdf.errors import UsageError

Check: TypeAlias = Callable[[Any], Any]

LEFT_OUT = "left out of a file where it is the default"
"""Beside the check of what a file of a policy holds (`policies/models/stored.py`): without it, it means the default."""

LARGEST_NAMED = 1e6
"""A bound from here on is there for arithmetic, and is not worth a word to whoever is far below it."""


class Settings:
    """The base of frozen dataclasses whose fields are annotated with their checks."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, check in checks_of(kind).items():
            object.__setattr__(self, name, checked_setting(kind.__name__, name, getattr(self, name), check))


@lru_cache(maxsize=256)
def metadata_of(kind: Any) -> dict[str, tuple[Any, ...]]:
    """What the annotations of a class and of those it inherits from say, by attribute: the check first."""
    metadata: dict[str, tuple[Any, ...]] = {}
    for ancestor in reversed(kind.__mro__):
        hints = get_annotations(ancestor)
        annotated = {name: hint for name, hint in hints.items() if "Annotated[" in str(hint)}
        # Only these: others may name what is imported for type checkers alone.
        holder = type(ancestor.__name__, (), {"__annotations__": annotated, "__module__": ancestor.__module__})
        resolved = get_type_hints(holder, include_extras=True)
        metadata |= {name: getattr(resolved.get(name), "__metadata__", ()) for name in hints}
    return {name: said for name, said in metadata.items() if said}


def checks_of(kind: Any) -> dict[str, Check]:
    """The checks of a class, by attribute."""
    return {name: said[0] for name, said in metadata_of(kind).items()}


def checked_setting(owner: str, name: str, value: Any, check: Check) -> Any:
    """What is kept of a setting; a UsageError that names it where it is not what it must be.

    >>> checked_setting("Breaker", "failures", 0, whole_number(1))
    Traceback (most recent call last):
    camdf.errors.UsageError: The 'failures' of Breaker must be a whole number, 1 or more. Got 0 instead.
    """
    try:
        return check(value)
    except UsageError:
        raise  # which says it whole
    except ValueError as error:
        raise UsageError(f"The {name!r} of {owner} must be {error}. Got {value!r} instead.") from None


def keep(owner: Any, **given: Any) -> None:
    """Keep the arguments of a constructor as attributes, each checked as annotated there."""
    kind = type(owner)
    checks = checks_of(kind)
    for name, value in given.items():
        setattr(owner, name, checked_setting(kind.__name__, name, value, checks[name]))


def is_number(value: Any) -> bool:
    """Whether a value is a number, of Python's or of numpy's, so that it can be compared with its bounds."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a value is a finite number that a float can be."""
    try:
        return is_number(value) and isfinite(value)
    except OverflowError:  # of a whole number with more than 308 digits
        return False


def check_that(what: str, holds: Callable[[Any], bool]) -> Check:
    """A check by a condition, and the words for it."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(what)
        return value

    return check


def instance_of(kind: type[Any]) -> Check:
    """An object of a class."""
    return check_that(f"{kind.__name__}(...)", lambda value: isinstance(value, kind))


def or_none(check: Check, means: str = "") -> Check:
    """The same, where None is allowed, with what that means."""
    meaning = f" for {means}" if means else ""

    def checks(value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(value)
        except UsageError:
            raise
        except ValueError as error:
            raise ValueError(f"{error}, or None{meaning}") from None

    return checks


def number(least: float = -inf, most: float = inf, *, above: float = -inf, below: float = inf, unit: str = "") -> Check:
    """A finite number within bounds; it must exceed `above` and stay below `below`."""
    what = "a number"
    if unit:
        what += f" of {unit}"
    if above > -inf:
        what += f" above {above:g}"
    if below < inf:
        what += f" and below {below:g}"
    if least > -inf:
        what += f", {least:g} or more"
    if most < LARGEST_NAMED:
        what += f", at most {most:g}"

    def holds(value: Any) -> bool:
        return is_finite(value) and least <= value <= most and above < value < below

    return check_that(what, holds)


def whole_number(least: int, most: int | None = None) -> Check:
    """A whole number within bounds."""
    what = f"{least} or more" if most is None else f"{least} to {most}"

    def holds(value: Any) -> bool:
        return isinstance(value, int) and is_number(value) and least <= value and (most is None or value <= most)

    return check_that(f"a whole number, {what}", holds)


def one_of(*words: str) -> Check:
    """One of a few words."""
    return check_that(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


def names(value: Any) -> frozenset[str]:
    """Names of tools or servers. One string is refused: it would be read letter by letter."""
    if isinstance(value, (str, bytes)):
        raise ValueError(f"a list of names, as [{value!r}]")
    listed: list[Any] = list(value) if isinstance(value, Iterable) else [None]
    if not all(isinstance(name, str) for name in listed):
        raise ValueError("a list of names")
    return frozenset(listed)


def series(check: Check, what: str, count: int | None = None) -> Check:
    """A list whose items a check accepts, of `count` items where that is given."""

    def holds(value: Any) -> bool:
        if not isinstance(value, Sequence) or isinstance(value, str) or count not in (None, len(value)):
            return False
        return all(is_accepted(check, item) for item in value)

    return check_that(what, holds)


def by_name(check: Check, what: str) -> Check:
    """A table from names to values that a check accepts."""

    def holds(value: Any) -> bool:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            return False
        return all(is_accepted(check, item) for item in value.values())

    return check_that(f"a table from names to {what}", holds)


def is_accepted(check: Check, value: Any) -> bool:
    """Whether a value is what a check asks for."""
    try:
        check(value)
    except ValueError:
        return False
    return True


share = check_that("a share from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
truth = check_that("true or false", lambda value: isinstance(value, bool))
string = check_that("a string", lambda value: isinstance(value, str))
function = check_that("a function", callable)
