"""A clock that jumps, by libfaketime, which Debian has: decisions go on, and outcomes keep their order."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from running_service import eventually, folder_of, ranking, running

ASKED = ranking({"a": 0.9, "b": 0.1})


def library() -> Path:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert found, "There is no libfaketime. Install it with: apt-get install faketime"
    return found[0]


def test_a_clock_that_jumps_moves_no_number_and_stops_no_decision(tmp_path: Path) -> None:
    folder, clock = folder_of(tmp_path / "served"), tmp_path / "clock"
    clock.write_text("+0", encoding="utf-8")
    settings = {
        "LD_PRELOAD": str(library()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with running(folder, settings=settings) as service:
        first = service.decide(ASKED)
        kept = first["kept"]
        numbers = list[int]()

        def told() -> float:
            """When the service believes that it writes an outcome down."""
            answer = service.ask("/v1/outcomes", {"decision": first["id"], "called": [], "success": True})
            numbers.append(answer.body["first"])
            lines = (folder / "state" / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
            return float(json.loads(lines[-1])["at"])

        began = told()
        for jump, days in (("-30d", -30), ("+3650d", 3650)):
            clock.write_text(jump, encoding="utf-8")
            expected = began + days * 86_400
            eventually(partial(lambda then: abs(told() - then) < 600, expected))
            assert service.decide(ASKED)["kept"] == kept
        (folder / "policy.json").unlink()
        eventually(lambda: bool(service.ask("/v1/policy").body["refused"]))
        assert service.decide(ASKED)["kept"] == kept
        assert numbers == list(range(1, len(numbers) + 1))
