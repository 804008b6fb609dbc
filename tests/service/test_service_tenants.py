"""One tenant costs itself alone: what is wrong with its files leaves its last good version, and all others go on."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies

import camdf
from camdf.errors import UsageError
from camdf.policies.artifact import to_json
from camdf.service.store import VersionStore
from running_service import eventually, folder_of, ranking, running
from saying import says

NAMES = ("acme", "globex", "initech")
POLICIES = {count: to_json(camdf.TopK(count)) for count in (1, 2, 3)}
SERVER = "[server]\nport = 0\nreload_seconds = 0.05\n"


def token(tenant: str) -> str:
    return f"the token of {tenant}"


def headers(tenant: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(tenant)}"}


def table(tenant: str, more: str = "") -> str:
    digest = sha256(token(tenant).encode()).hexdigest()
    return f'[tenants.{tenant}]\ntoken_sha256 = "{digest}"\npolicy = "{tenant}.json"\n{more}\n'


def configuration(pressure: float = 0.1, names: tuple[str, ...] = NAMES) -> str:
    return f"{SERVER}[gate]\ncost_pressure = {pressure}\n\n" + "".join(map(table, names))


def folder_with(place: Path, names: tuple[str, ...] = NAMES) -> Path:
    folder_of(place, configuration(names=names))
    for name in names:
        (place / f"{name}.json").write_text(POLICIES[1], encoding="utf-8")
    return place


ASKED = ranking({"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6})


def test_a_torn_file_of_one_tenant_is_named_to_it_and_in_the_log_and_freezes_nobody_else(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "served")
    with running(folder) as service:

        def kept(tenant: str) -> int:
            return len(service.decide(ASKED, **headers(tenant))["kept"])

        def refused(tenant: str) -> str:
            return str(service.ask("/v1/policy", headers=headers(tenant)).body["refused"])

        (folder / "globex.json").write_text("{", encoding="utf-8")
        eventually(lambda: refused("globex") != "")
        assert refused("globex").startswith("camdf.toml: [tenants.globex] policy = 'globex.json': ")
        assert says(refused("globex"), "globex.json … file … not … policy … JSON")
        assert [refused(name) for name in ("acme", "initech")] == ["", ""]
        (folder / "acme.json").write_text(POLICIES[2], encoding="utf-8")
        eventually(lambda: kept("acme") == 2)
        assert [kept(name) for name in NAMES] == [2, 1, 1]
        (folder / "camdf.toml").write_text(configuration(0.2), encoding="utf-8")
        pressure = [0.2, 0.1, 0.2]
        eventually(lambda: service.decide(ASKED, **headers("acme"))["cost_pressure"] == pressure[0])
        assert [service.decide(ASKED, **headers(name))["cost_pressure"] for name in NAMES] == pressure
        assert says(service.errors(), "last good version", "globex (number 2): camdf.toml: [tenants.globex]")
        assert service.number("camdf_refusing") == 1
        assert service.number('camdf_tenant_refusing{tenant="2"}') == 1
        metrics = service.ask("/metrics").body
        assert metrics.count("camdf_tenant_refusing{") == 1
        assert not [name for name in NAMES if name in metrics]

        (folder / "camdf.toml").write_text("[gate", encoding="utf-8")
        eventually(lambda: "The configuration as it is now is refused" in refused("acme"))
        (folder / "acme.json").write_text(POLICIES[3], encoding="utf-8")
        (folder / "camdf.toml").write_text(configuration(0.2), encoding="utf-8")
        eventually(lambda: kept("acme") == 3)
        (folder / "globex.json").write_text(POLICIES[3], encoding="utf-8")
        eventually(lambda: refused("globex") == "")
        assert kept("globex") == 3
        assert service.number("camdf_refusing") == 0


def test_a_tenant_that_never_had_a_good_file_is_told_so_and_the_others_are_served(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "served")
    (folder / "globex.json").unlink()
    with running(folder) as service:
        answer = service.ask("/v1/decide", ASKED, headers=headers("globex"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "GET /v1/policy says why" in answer.body["error"]
        told = service.ask("/v1/policy", headers=headers("globex")).body
        assert told["routes"] == []
        assert says(told["refused"], "globex.json: No such file")
        assert service.ask("/v1/decide", ASKED, headers=headers("acme")).status == 200
        assert says(service.errors(), "Nothing serves globex")
        (folder / "globex.json").write_text(POLICIES[2], encoding="utf-8")
        eventually(lambda: service.ask("/v1/decide", ASKED, headers=headers("globex")).status == 200)


def test_where_nothing_can_be_served_the_service_does_not_start_and_says_why(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "served")
    for name in NAMES:
        (folder / f"{name}.json").write_text("", encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        VersionStore(folder / "camdf.toml", folder / "state")
    assert [line.partition(" policy")[0] for line in str(refused.value).splitlines()] == [
        f"camdf.toml: [tenants.{name}]" for name in NAMES
    ]


def test_tenants_with_one_torn_file_are_told_of_it_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = folder_with(tmp_path / "served")
    shared = configuration().replace("[gate]", '[gate]\nrollout.off = "gate-off"')
    (folder / "gate-off").write_text("false")
    (folder / "camdf.toml").write_text(shared, encoding="utf-8")
    store = VersionStore(folder / "camdf.toml", folder / "state")
    (folder / "gate-off").write_text("")
    with caplog.at_level(logging.ERROR, "camdf.service"):
        store.refresh()
        store.refresh()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "camdf.service"]
    assert says(line, "acme (number 1), globex (number 2), initech (number 3): camdf.toml: gate.rollout.off")
    assert store.refusals == 1


def test_what_is_kept_is_every_file_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "served")
    text = configuration().replace('policy = "initech.json"', 'policy = "acme.json"')
    (folder / "camdf.toml").write_text(text, encoding="utf-8")
    store = VersionStore(folder / "camdf.toml", folder / "state")
    kept = json.loads(store.last_good.read_text(encoding="utf-8"))
    assert (sorted(kept["policies"]), kept["behind"]) == (["acme.json", "globex.json"], {})
    assert store.last_good.stat().st_mode & 0o777 == 0o600
    assert store.state.stat().st_mode & 0o777 == 0o700
    (folder / "globex.json").write_text("{", encoding="utf-8")
    (folder / "camdf.toml").write_text(text.replace("0.1", "0.2"), encoding="utf-8")
    assert store.refresh()
    kept = json.loads(store.last_good.read_text(encoding="utf-8"))
    assert sorted(kept["policies"]) == ["acme.json"]
    assert kept["behind"]["globex"]["policies"] == {"globex.json": POLICIES[1]}
    assert "cost_pressure = 0.1" in kept["behind"]["globex"]["configuration"]


# Whatever happens to the files.


@dataclass
class Model:
    """What every tenant should be served by: how many tools its policy keeps, and at which pressure."""

    files: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(NAMES, 1))
    good: dict[str, tuple[int, float]] = field(default_factory=dict)
    pressure: float = 0.1
    is_torn: bool = False

    def look(self) -> None:
        """After the files were read: a tenant whose file is good has it, at the pressure of now."""
        for name, count in self.files.items():
            if count is not None and not self.is_torn:
                self.good[name] = count, self.pressure


changes = strategies.one_of(
    strategies.tuples(strategies.sampled_from(NAMES), strategies.sampled_from([1, 2, 3, "torn", "empty", "absent"])),
    strategies.tuples(
        strategies.just("configuration"), strategies.sampled_from([0.1, 0.2, 0.3, "torn", "empty", "absent"])
    ),
    strategies.just(("restart", 0)),
)


def put(path: Path, what: str, good: str) -> None:
    if what == "absent":
        path.unlink(missing_ok=True)
    else:
        path.write_text({"torn": good[: len(good) // 2 - 1], "empty": ""}.get(what, good), encoding="utf-8")


def served(store: VersionStore) -> dict[str, tuple[int, float]]:
    gates = {name: own.routes[""].gate for name, own in store.current.tenants.items()}
    return {name: (gate.policy.get_params()["k"], gate.payoff.cost_pressure) for name, gate in gates.items()}


@settings(deadline=None)
@given(steps=strategies.lists(changes, max_size=8))
def test_each_tenant_is_served_by_its_own_latest_good_files_whatever_others_do(
    steps: list[tuple[str, int | float | str]],
) -> None:
    with TemporaryDirectory() as place:
        folder = folder_with(Path(place))
        file = folder / "camdf.toml"
        store = VersionStore(file, folder / "state")
        model = Model()
        model.look()
        for what, to in steps:
            if what == "configuration":
                model.is_torn = isinstance(to, str)
                model.pressure = model.pressure if isinstance(to, str) else to
                put(file, str(to), configuration(model.pressure))
            elif what != "restart":
                model.files[what] = None if isinstance(to, str) else int(to)
                put(folder / f"{what}.json", str(to), POLICIES[model.files[what] or 1])
            model.look()
            if what == "restart":
                store = VersionStore(file, folder / "state")
            else:
                store.refresh()
            assert served(store) == model.good
            assert bool(store.refused) == model.is_torn
            if not model.is_torn:
                assert set(store.current.refused) == {name for name, count in model.files.items() if count is None}
