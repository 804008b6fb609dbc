"""A gate charges for what its tools can do, as its privilege says it and as the fit of its policy was charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from camdf import Gate, Payoff, Prices, cold_start, load, save
from camdf.errors import ArtifactError, UsageError
from camdf.gate import Guards, Privilege
from camdf.policies.training import FittedEffects, Training
from camdf.prices import DANGER
from camdf.tools import FromServer, Tool
from saying import refuses

TOOLS = [
    Tool("read_mail", "Read a mail."),
    Tool("make_note", "Make a note."),
    Tool("send_mail", "Send a mail."),
    Tool("frobnicate", "Frobnicate it."),
]
EFFECTS = {"read_mail": "read", "make_note": "write", "send_mail": "egress"}
PRICES = Prices(effects=DANGER)
SCORES = {"read_mail": 0.9, "make_note": 0.8, "send_mail": 0.7, "frobnicate": 0.6}


def gate(policy: Any = None, **settings: Any) -> Gate:
    settings = {"prices": PRICES, "privilege": Privilege(EFFECTS), **settings}
    return Gate(policy or cold_start(), None, Payoff(0.0), **settings)


def costs(gate: Gate, tools: Any = TOOLS, scores: Any = SCORES) -> dict[str, float]:
    return {ranked.name: ranked.cost for ranked in gate.decide("Do it", tools, scores=scores).ranking}


def test_a_tool_costs_its_tokens_and_what_it_can_do() -> None:
    found = costs(gate())
    plain = costs(gate(prices=Prices()))
    more = {name: round(found[name] - plain[name], 9) for name in SCORES}
    assert more == {"read_mail": 0.0, "make_note": 0.03, "send_mail": 0.06, "frobnicate": 0.06}


def test_a_tool_of_an_untrusted_server_costs_the_worst_under_a_name_that_means_another() -> None:
    tools = [*TOOLS, FromServer("evil", Tool("glance", "Read a mail."))]
    privilege = Privilege({**EFFECTS, "glance": "read"})
    guards = Guards(trusted=["mine"])
    (found,) = gate(privilege=privilege, guards=guards)._decider.reader.catalogues.read(tools)[:1]
    assert found.costs["glance"] > DANGER["egress"]


def test_prices_of_effects_need_somebody_who_says_what_tools_can_do() -> None:
    with refuses(UsageError, "'prices'", "'effects'", "privilege=Privilege.from_file("):
        gate(privilege=None)


FITTED = Training(effects=FittedEffects(dict(DANGER), {"read_mail": "read", "send_mail": "egress"}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prices": None}, ["{'write': 0.03, 'egress': 0.06}", "{}"]),
        ({"prices": Prices(effects={"write": 1.0})}, ["{'write': 1.0}"]),
        ({"prices": {"read_mail": 1.0}}, ["{}"]),
        ({"privilege": Privilege({**EFFECTS, "send_mail": "read"})}, ["'send_mail'", "'egress'", "'read'"]),
        ({"privilege": Privilege({})}, ["'read_mail'", "'read'", "'egress'"]),
    ],
)
def test_what_was_fitted_is_what_is_served(settings: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    save(cold_start(), path, FITTED)
    fitted = load(path)
    assert fitted.training_ == FITTED
    assert costs(gate(fitted)) == costs(gate())
    with refuses(UsageError, "fitted", *words):
        gate(fitted, **settings)
    if settings.get("prices", PRICES):
        with refuses(ArtifactError, "fitted", *words):
            gate(**settings).reload(path)


def test_a_privilege_that_reads_more_than_names_may_serve_what_was_fitted() -> None:
    save_nothing = cold_start()
    save_nothing.training_ = Training(effects=FittedEffects(dict(DANGER), {"mine/read_mail": "read"}))
    gate(save_nothing, privilege=Privilege({}, hinted=["mine"]))
    gate(save_nothing, privilege=Privilege(lambda tool: "read"))
    gate(save_nothing, privilege=Privilege({"mine/*": "read"}))
    with refuses(UsageError, "'mine/read_mail'"):
        gate(save_nothing, privilege=Privilege({}))
