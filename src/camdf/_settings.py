"""Settings that are values: frozen, each field documented by itself, and checked where it is given.

A check takes what was given and returns what is kept, or raises a ValueError that says what it must be:

    @dataclass(frozen=True)
    class Limits(Settings):
        seconds: Annotated[float, number(above=0)] = 5.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from math import inf, isfinite
from numbers import Real
from typing import Any, TypeAlias, get_type_hints

from camdf.errors import UsageError

Check: TypeAlias = Callable[[Any], Any]


class Settings:
    """The base of frozen dataclasses whose fields are annotated with their checks."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, check in checks_of(kind).items():
            object.__setattr__(self, name, checked_setting(kind.__name__, name, getattr(self, name), check))


@lru_cache(maxsize=64)
def checks_of(kind: Any) -> dict[str, Check]:
    """The checks of a class, by field."""
    hints = get_type_hints(kind, include_extras=True)
    annotated = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(kind)}
    return {name: metadata[0] for name, metadata in annotated.items() if metadata}


def checked_setting(owner: str, name: str, value: Any, check: Check) -> Any:
    """What is kept of a setting; a UsageError that names it where it is not what it must be.

    >>> checked_setting("Breaker", "failures", 0, whole_number(1))
    Traceback (most recent call last):
    camdf.errors.UsageError: The 'failures' of Breaker must be a whole number, 1 or more. Got 0 instead.
    """
    try:
        return check(value)
    except ValueError as error:
        raise UsageError(f"The {name!r} of {owner} must be {error}. Got {value!r} instead.") from None


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
    none = f"None for {means}" if means else "None"

    def checks(value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {none}") from None

    return checks


def number(least: float = -inf, most: float = inf, *, above: float | None = None, unit: str = "") -> Check:
    """A finite number within bounds; `above` is one that it must exceed."""
    what = "a number"
    if unit:
        what += f" of {unit}"
    if above is not None:
        what += f" above {above:g}"
    if least > -inf:
        what += f", {least:g} or more"
    if most < 1e6:
        what += f", at most {most:g}"

    def holds(value: Any) -> bool:
        return _is_number(value) and isfinite(value) and least <= value <= most and (above is None or value > above)

    return check_that(what, holds)


def whole_number(least: int, most: int | None = None) -> Check:
    """A whole number within bounds."""
    what = f"{least} or more" if most is None else f"{least} to {most}"

    def holds(value: Any) -> bool:
        return isinstance(value, int) and _is_number(value) and least <= value and (most is None or value <= most)

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


def by_name(check: Check, what: str) -> Check:
    """A table from names to values that a check accepts."""

    def holds(value: Any) -> bool:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            return False
        try:
            return all(check(item) is not None for item in value.values())
        except ValueError:
            return False

    return check_that(f"a table from names to {what}", holds)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)  # numpy's too


share = check_that("a share from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
truth = check_that("true or false", lambda value: isinstance(value, bool))
string = check_that("a string", lambda value: isinstance(value, str))
function = check_that("a function", callable)
