"""New versions under load: none fails, none is mixed, a bad one is refused, and a restart serves the last good one."""

from __future__ import annotations

import json
import threading
from collections import Counter
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import camdf
from camdf.errors import UsageError
from camdf.service.store import VersionStore
from running_service import PLAIN, SECONDS, Running, asked, eventually, folder_of, ranking, running

VERSIONS = {
    "top-1": (camdf.TopK(1), 0.1),
    "top-2": (camdf.TopK(2), 0.2),
    "top-3": (camdf.TopK(3), 0.3),
}
"""Policies that keep one, two or three tools, each at a cost pressure of its own: a mixed decision would show."""

ASKED = ranking({"a": 0.9, "b": 0.7, "c": 0.5, "d": 0.3})
SWAPS = 30


def publish(folder: Path, name: str) -> None:
    """Put a version there: a policy's file of its own name, then the configuration that names it."""
    policy, pressure = VERSIONS[name]
    camdf.save(policy, folder / f"{name}.json")
    text = PLAIN.replace("policy.json", f"{name}.json").replace("0.06", str(pressure))
    beside = folder / "camdf.toml.part"
    beside.write_text(text, encoding="utf-8")
    beside.replace(folder / "camdf.toml")


def expected() -> dict[tuple[int, float], str]:
    """How many tools are kept at which pressure, and by which version."""
    return {(int(name[-1]), pressure): name for name, (_, pressure) in VERSIONS.items()}


class Load:
    """Clients that ask without a pause until they are stopped, and what they were told."""

    def __init__(self, service: Running, clients: int = 3) -> None:
        self.seen: Counter[tuple[int, float]] = Counter()
        self.digests: dict[tuple[int, float], set[str]] = {}
        self.failed: list[Any] = []
        self._service, self._over = service, threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(SECONDS)

    def _ask(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._service.port, timeout=SECONDS)
        while not self._over.is_set():
            try:
                answer = asked(connection, "/v1/decide", [ASKED, ASKED])
                for each in answer.body:
                    key = len(each["kept"]), each["cost_pressure"]
                    self.seen[key] += 1
                    self.digests.setdefault(key, set()).add(each["policy"])
                if answer.body[0]["policy"] != answer.body[1]["policy"]:
                    self.failed.append("two versions in one answer")
            except Exception as error:
                self.failed.append(error)
        connection.close()


def serves(service: Running, name: str) -> bool:
    (route,) = service.ask("/v1/policy").body["routes"]
    return bool(route["cost_pressure"] == VERSIONS[name][1])


def test_swaps_and_bad_pushes_under_load_fail_no_request_and_mix_no_decision(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    publish(folder, "top-1")
    with running(folder) as service, Load(service) as load:
        names = list(VERSIONS)
        for number in range(1, SWAPS + 1):
            name = names[number % 3]
            if number % 5 == 0:
                (folder / "camdf.toml").write_text("[gate]\npolicy = ", encoding="utf-8")  # torn in the middle
                eventually(lambda: bool(service.ask("/v1/policy").body["refused"]))
            publish(folder, name)
            eventually(lambda name=name: serves(service, name))  # type: ignore[misc]
        assert service.number("camdf_swaps") == SWAPS
        assert service.number("camdf_refusals") >= SWAPS // 5
        assert service.ask("/v1/policy").body["refused"] == ""
    assert load.failed == []
    assert load.seen.keys() <= expected().keys()
    assert all(len(digests) == 1 for digests in load.digests.values())
    assert load.seen.total() > SWAPS


def test_a_bad_policy_is_refused_and_the_last_good_one_serves_across_a_restart(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    good = (folder / "policy.json").read_bytes()
    digest = sha256(good).hexdigest()
    with running(folder) as service:
        kept = service.decide(ASKED)["kept"]
        (folder / "policy.json").write_bytes(good[:-20])
        eventually(lambda: "not a usable policy" in service.ask("/v1/policy").body["refused"])
        assert service.decide(ASKED)["policy"] == digest
        (folder / "policy.json").unlink()
        eventually(lambda: "Cannot read the policy" in service.ask("/v1/policy").body["refused"])
        assert service.decide(ASKED)["kept"] == kept
        assert service.number("camdf_refusing") == 1
    (folder / "camdf.toml").write_text("not even TOML", encoding="utf-8")
    with running(folder) as service:
        again = service.decide(ASKED)
        assert (again["kept"], again["policy"]) == (kept, digest)
        assert "is not TOML" in service.ask("/v1/policy").body["refused"]
        assert service.ask("/readyz").status == 200
        folder_of(folder)
        eventually(lambda: service.ask("/v1/policy").body["refused"] == "")
        assert service.decide(ASKED)["policy"] == digest


def test_what_is_kept_of_the_last_good_version_is_text_and_nothing_that_runs(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    with running(folder):
        (path,) = (folder / "state").glob("last-good-*.json")
        kept = json.loads(path.read_text(encoding="utf-8"))
    assert set(kept) == {"name", "folder", "configuration", "policies", "examples", "behind"}
    assert kept["configuration"] == PLAIN


def test_the_last_good_version_of_one_file_is_never_served_for_another(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "served")
    VersionStore(folder / "camdf.toml", folder / "state")
    other = folder / "other.toml"
    other.write_text("[gate", encoding="utf-8")
    with pytest.raises(UsageError, match=r"other\.toml is not TOML"):
        VersionStore(other, folder / "state")
