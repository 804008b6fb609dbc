"""What every adapter must do, as named checks: for the library's adapters, and for one of your own.

    check_adapter(driver)

A driver tells the checks how to build an agent of a framework with its adapter, and how to send it a turn. The agents
are real, and so is HTTP: their model is a scripted one on loopback, and what counts is the request that reaches it.
What a framework cannot do is exempt by the name of the check, with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from camdf.errors import BrokenPromiseError, UsageError
from camdf.integrations.conformance import situations
from camdf.integrations.conformance.driver import ChatTurn, Driver, Reply, RunnableTool, Setup

__all__ = ["CHECKS", "ChatTurn", "Driver", "Reply", "RunnableTool", "Setup", "check_adapter"]

CHECKS: dict[str, Callable[[Driver], None]] = {
    name.removeprefix("check_").replace("_", " "): check
    for name, check in vars(situations).items()
    if name.startswith("check_")
}
"""By what they say."""


def check_adapter(
    driver: Driver, exempt: Mapping[str, str] | None = None, *, only: Collection[str] | None = None
) -> None:
    """Run every check on an adapter; raise BrokenPromiseError with the name of the first that fails.

    Args:
        driver: How to build an agent with the adapter, and how to send it a turn: an object or a module.
        exempt: Names of checks that the framework cannot pass, and for each the reason.
        only: Names of the checks to run; None runs all.
    """
    exempt = exempt or {}
    unknown = [name for name in (*exempt, *(only or ())) if name not in CHECKS or not exempt.get(name, "-").strip()]
    if unknown:
        raise UsageError(
            f"The 'exempt' and 'only' of check_adapter must name checks, and an exemption has a reason. The checks are "
            f"{', '.join(CHECKS)}. Got {', '.join(unknown)} instead."
        )
    for name in CHECKS if only is None else only:
        if name in exempt:
            continue
        try:
            CHECKS[name](driver)
        except Exception as error:
            raise BrokenPromiseError(f"{name}: {error}") from error
