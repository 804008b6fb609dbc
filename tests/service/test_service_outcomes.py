"""An outcome is accepted from whoever got the decision, on any copy of the service and after any restart."""

from __future__ import annotations

import json
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

from hypothesis import given, strategies

from camdf.service.outcomes import FILE, is_marked, marked
from running_service import Answer, Running, folder_of, ranking, running
from saying import says

NAMES = ("acme", "mallory")


def tenants(first: str = "a token") -> str:
    """Two tenants, the first with this token."""
    tokens = {"acme": first, "mallory": "another token"}
    tables = [
        f'\n[tenants.{name}]\ntoken_sha256 = "{sha256(token.encode()).hexdigest()}"\n' for name, token in tokens.items()
    ]
    return "[server]\nport = 0\n\n[gate]\nmean_tools = 1\n" + "".join(tables)


def sender(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


ACME = sender("a token")
MALLORY = sender("another token")


def decision_of(service: Running, headers: dict[str, str]) -> str:
    return str(service.decide(ranking({"a": 0.9, "b": 0.1}), **headers)["id"])


def told(service: Running, decision: str | list[str], headers: dict[str, str]) -> Answer:
    named = [decision] if isinstance(decision, str) else decision
    outcomes: list[dict[str, Any]] = [{"decision": each, "called": ["a"], "success": True} for each in named]
    return service.ask("/v1/outcomes", outcomes, headers=headers)


def written(folder: Path) -> list[tuple[str, str]]:
    lines = (folder / "state" / FILE).read_text(encoding="utf-8").splitlines()
    return [(line["tenant"], line["decision"]) for line in map(json.loads, lines)]


def test_an_outcome_of_no_decision_of_the_tenant_is_refused_and_counted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served", tenants())
    with running(folder) as service:
        own = decision_of(service, ACME)
        other = decision_of(service, MALLORY)
        for foreign in ("deadbeef", other, own[:-1], own.upper(), [own, other]):
            answer = told(service, foreign, ACME)
            assert answer.status == 404
            assert says(answer.body["error"], "the id … /v1/decide")
        assert service.number("camdf_outcomes_foreign") == 5
        assert told(service, own, ACME).body == {"first": 1, "last": 1}
        assert told(service, other, MALLORY).body == {"first": 2, "last": 2}
    assert written(folder) == [("acme", own), ("mallory", other)]


def test_any_copy_takes_an_outcome_and_so_does_one_that_was_started_again_with_another_token(tmp_path: Path) -> None:
    folders = [folder_of(tmp_path / name, tenants()) for name in ("one", "other")]
    with ExitStack() as copies:
        one, other = (copies.enter_context(running(folder)) for folder in folders)
        own = decision_of(one, ACME)
        assert told(other, own, ACME).status == 200
        assert told(other, own, MALLORY).status == 404
    folder_of(folders[0], tenants("a new token"))
    with running(folders[0]) as again:
        assert told(again, own, sender("a new token")).status == 200
        assert told(again, own, MALLORY).status == 404


names = strategies.from_regex("[A-Za-z0-9_.-]{1,12}", fullmatch=True)
ids = strategies.text("0123456789abcdef", min_size=1, max_size=40)


@given(decision=ids, tenant=names | strategies.just(""), other=names, place=strategies.integers(0), sign=ids)
def test_an_id_is_one_tenants_to_the_last_sign(decision: str, tenant: str, other: str, place: int, sign: str) -> None:
    own = marked(decision, tenant)
    place %= len(own)
    changed = own[:place] + sign[0] + own[place + 1 :]
    assert is_marked(own, tenant)
    assert is_marked(own, other) == (tenant == other)
    assert is_marked(changed, tenant) == (changed == own)
    assert not is_marked(decision, tenant)
