"""Names and keywords of the release before: they work for one more, with a warning that names the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def warn_of(old: str, new: str) -> None:
    """Say to whoever called the caller that a name has changed."""
    warnings.warn(f"{old} is called {new} now. The old name goes with the next release.", DeprecationWarning, 3)


def renamed(**new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that takes its keywords by their old names too, as `@renamed(door="tool_search")`."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in new.keys() & kwargs.keys():
                warn_of(f"{old!r}", f"{new[old]!r}")
                kwargs[new[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return decorated


def formerly(**new: Any) -> Callable[[str], Any]:
    """The `__getattr__` of a module that also has what is given here by its old name."""

    def attribute(name: str) -> Any:
        if name not in new:
            raise AttributeError(f"This module has no {name!r}.")
        warn_of(name, new[name].__name__)
        return new[name]

    return attribute


def grouped(
    earlier: Mapping[str, tuple[str, str]], groups: Mapping[str, type[Any]]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that takes settings by themselves too which stand in groups now: `pinned=` for `guards=Guards(...)`.

    `earlier` has for each keyword the group and the field that it became, `groups` the class of each group.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in [name for name in kwargs if name in earlier and earlier[name][0] in groups]:
                group, field = earlier[old]
                warn_of(f"{old!r}", f"{group}={groups[group].__name__}({field}=...)")
                value: Any = kwargs.get(group) or getattr(args[0], group, None) or groups[group]()
                kwargs[group] = replace(value, **{field: kwargs.pop(old)})
            return function(*args, **kwargs)

        return called

    return decorated
