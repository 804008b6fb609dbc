"""The stored table of frameworks and situations: whole, and the page made from it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "environments" / "frameworks"))

from conforming import CONVERSATIONS, JOINS, NOTED, everyday_gate, page
from drivers import FRAMEWORKS

from camdf import UsageError
from camdf.integrations.conformance import CHECKS, check_adapter
from everyday import conversations

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "results" / "conformance.json").read_text(encoding="utf-8"))


def test_every_framework_is_stored_with_every_check() -> None:
    assert list(STORED) == [name for name in FRAMEWORKS if name in STORED]
    assert set(STORED) == set(FRAMEWORKS)
    for versions in STORED.values():
        for verdicts in versions.values():
            assert set(verdicts) == {*CHECKS, CONVERSATIONS, NOTED}


def test_all_thirty_conversations_are_played_with_the_newest_version_of_every_framework() -> None:
    for versions in STORED.values():
        newest = list(versions.values())[-1]
        assert newest[CONVERSATIONS] == "30 of 30"
        assert newest[NOTED] == ("30 of 30" if newest[JOINS] == "yes" else newest[JOINS])


def test_the_page_is_made_from_what_is_stored() -> None:
    assert (ROOT / "docs" / "integrations" / "conformance.md").read_text(encoding="utf-8") == page(STORED)


def test_the_gate_cuts_in_most_of_the_everyday_conversations() -> None:
    histories = [(each.before(len(each.turns)), each.tools) for each in conversations()]
    assert sum(bool(everyday_gate().decide(history, tools).cut) for history, tools in histories) > 20


def test_an_exemption_names_a_check_and_has_a_reason() -> None:
    for exempt in ({"nothing of that name": "why"}, {"handoffs": " "}):
        with pytest.raises(UsageError, match="'exempt'"):
            check_adapter(object(), exempt)  # type: ignore[arg-type]
