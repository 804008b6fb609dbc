"""Every adapter whose framework is installed here: the checks of the suite, and everyday conversations on any worker.

What a framework cannot do is exempt for a reason, and must fail: an exemption that is no longer needed is noticed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conforming import JOINS, check_everyday, check_notes
from drivers import FRAMEWORKS, driver

from camdf.errors import BrokenPromiseError
from camdf.integrations.conformance import CHECKS, check_adapter
from everyday import Conversation, sampled

STORED = json.loads((Path(__file__).parents[3] / "results" / "conformance.json").read_text(encoding="utf-8"))
INSTALLED = [name for name, framework in FRAMEWORKS.items() if framework.version]

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("framework", INSTALLED)
def test_the_adapter_keeps_the_promise_or_is_exempt_for_a_reason(framework: str, check: str) -> None:
    if check in driver(framework).EXEMPT:
        with pytest.raises(BrokenPromiseError, match=check):
            check_adapter(driver(framework), only=[check])
    else:
        check_adapter(driver(framework), only=[check])


@pytest.mark.parametrize(("framework", "conversation"), sampled(INSTALLED), ids=lambda of: getattr(of, "name", of))
def test_an_everyday_conversation_has_the_same_tools_whoever_serves(framework: str, conversation: Conversation) -> None:
    check_everyday(driver(framework), conversation)
    if JOINS not in driver(framework).EXEMPT:
        check_notes(driver(framework), conversation)


def test_what_is_stored_is_what_the_drivers_say() -> None:
    for framework in INSTALLED:
        exempt = driver(framework).EXEMPT
        for verdicts in STORED[framework].values():
            assert {name: verdicts[name] for name in CHECKS} == {name: exempt.get(name, "yes") for name in CHECKS}


def test_there_is_a_framework_here() -> None:
    assert INSTALLED
