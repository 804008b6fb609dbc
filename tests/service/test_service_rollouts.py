"""A share of conversations and a kill switch in the service's configuration, on the real process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from openfeature import api
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

import camdf
from camdf.errors import UsageError
from camdf.gate import Rollout
from camdf.runtime import switch
from camdf.service.rollouts import rollout_of
from camdf.service.store import VersionStore
from running_service import PLAIN, eventually, folder_of, ranking, running

ASKED = ranking({"a": 0.9, "b": 0.7, "c": 0.5})
TOOLS = [
    {"name": name, "description": text, "input_schema": {"type": "object"}}
    for name, text in {
        "search_flights": "Search flights.",
        "book_hotel": "Book a hotel.",
        "play": "Play music.",
    }.items()
]
TOP_1 = PLAIN.replace("policy.json", "top-1.json")

PROGRAM = """
import sys
from openfeature import api
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

from camdf.cli import main

flags = {"gated-share": InMemoryFlag("all", {"all": 1.0}), "gate-off": InMemoryFlag("on", {"on": False})}
api.set_provider(InMemoryProvider(flags))
sys.exit(main())
"""


def folder_with(place: Path, rollout: str) -> Path:
    """A service that keeps one tool of a conversation that it cuts for."""
    folder = folder_of(place, TOP_1 + rollout)
    camdf.save(camdf.TopK(1), folder / "top-1.json")
    return folder


def talk(number: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"Search flights for the passengers of row {number}, please"}]


def test_a_share_of_conversations_is_cut_for_and_the_same_ones_as_in_process(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "served", '\n[gate.rollout]\nshare = 0.3\nsalt = "first"\n')
    same = Rollout(0.3, salt="first")
    with running(folder) as service:
        names = [f"thread {number}" for number in range(40)]
        answers = service.decide([{"messages": talk(1), "tools": TOOLS, "conversation": name} for name in names])
        longer = [*talk(1), {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Book a hotel too"}]
        later, unnamed = service.decide(
            [{"messages": [*longer], "tools": TOOLS, **name} for name in ({"conversation": names[1]}, {})]
        )
        sides = [each["mode"] == "drop" for each in answers]
        assert sides == list(map(same.cuts, names))
        assert 0 < sum(sides) < 40
        for cut, each in zip(sides, answers, strict=True):
            assert [tool["name"] for tool in each["tools"]] == (
                ["search_flights"] if cut else [t["name"] for t in TOOLS]
            )
        assert (later["mode"] == "drop") == sides[1], "a conversation stays on its side"
        assert (later["conversation"], later["needs_name"]) == (names[1], False)
        assert (unnamed["mode"], unnamed["conversation"], unnamed["needs_name"]) == ("shadow", "", True)
        made = service.decide({"messages": talk(1), "tools": TOOLS, "conversation": ""})["conversation"]
        assert len(made) == 32, "the service makes a name where one is asked for"
        ranked = service.decide([ASKED] * 60)
        assert {each["mode"] for each in ranked} == {"drop", "shadow"}, "each ranking is a draw of its own"
        assert all(each["tools"] == (["a"] if each["mode"] == "drop" else ["a", "b", "c"]) for each in ranked)
        (route,) = service.ask("/v1/policy").body["routes"]
        assert (route["share"], route["off"]) == (0.3, False)
        assert service.number('camdf_decisions_total{mode="shadow",reason="decided"}') > 0


def test_the_kill_switch_of_all_works_on_a_route_with_a_share_and_needs_no_new_version(tmp_path: Path) -> None:
    rollout = '\n[gate.rollout]\noff = "gate-off"\nevery = 0.05\n[routes.some.rollout]\nshare = 1.0\n'
    folder = folder_with(tmp_path / "served", rollout)
    switch = folder / "gate-off"
    switch.write_text("false")
    with running(folder) as service:

        def reasons() -> set[str]:
            return {each["reason"] for each in service.decide([ASKED, {**ASKED, "route": "some"}])}

        assert reasons() == {"decided"}
        switch.write_text("true")
        eventually(lambda: reasons() == {"switched off"})
        assert service.decide(ASKED)["tools"] == ["a", "b", "c"]
        assert all(route["off"] for route in service.ask("/v1/policy").body["routes"])
        switch.write_text("false")
        eventually(lambda: reasons() == {"decided"})

        switch.write_text("off, please")
        eventually(lambda: "gate.rollout.off is the file 'gate-off'" in service.ask("/v1/policy").body["refused"])
        assert reasons() == {"decided"}, "the last good value stands"
        assert service.number("camdf_refusing") == 1
        switch.unlink()
        eventually(lambda: "No such file" in service.ask("/v1/policy").body["refused"])
        assert reasons() == {"decided"}
        switch.write_text("true")
        eventually(lambda: reasons() == {"switched off"})
        eventually(lambda: service.ask("/v1/policy").body["refused"] == "")
        assert service.number("camdf_swaps") == 0
    with running(folder) as service:
        assert service.decide(ASKED)["reason"] == "switched off", "and so it is after a restart"
    switch.unlink()
    with running(folder) as service:
        assert service.decide(ASKED)["reason"] == "switched off", "without any value, nothing is cut"


def test_a_share_in_the_configuration_is_a_new_version_and_one_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "served", "\n[gate.rollout]\nshare = 0\n")
    text = (folder / "camdf.toml").read_text()
    with running(folder) as service:
        assert service.decide(ASKED)["mode"] == "shadow"
        (folder / "camdf.toml").write_text(text.replace("share = 0", "share = 1"))
        eventually(lambda: bool(service.decide(ASKED)["mode"] == "drop"))
        (folder / "camdf.toml").write_text(text.replace("share = 0", "share = 20"))
        eventually(lambda: "the key gate.rollout.share must be" in service.ask("/v1/policy").body["refused"])
        assert service.decide(ASKED)["mode"] == "drop"


def test_a_program_that_has_an_openfeature_provider_serves_by_its_flags(tmp_path: Path) -> None:
    flags = '\n[gate.rollout]\nshare = { flag = "gated-share" }\noff = { flag = "gate-off" }\n'
    folder = folder_with(tmp_path / "served", flags)
    (folder / "own.py").write_text(PROGRAM)
    with running(folder, program=(sys.executable, "own.py")) as service:
        assert service.decide(ASKED)["mode"] == "drop"
        (folder / "camdf.toml").write_text(TOP_1 + flags.replace("gated-share", "no-such-flag"))
        eventually(lambda: "FLAG_NOT_FOUND" in service.ask("/v1/policy").body["refused"])
        (folder / "camdf.toml").write_text(TOP_1 + flags.replace("gated-share", "gate-off"))
        eventually(lambda: "TYPE_MISMATCH" in service.ask("/v1/policy").body["refused"])
        assert service.decide(ASKED)["mode"] == "drop"


def test_a_flag_whose_provider_fails_leaves_the_last_good_value_and_before_one_nothing_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(switch, "PATIENCE", 30.0)
    flags = {"some": InMemoryFlag("x", {"x": 0.2}), "off": InMemoryFlag("x", {"x": False})}
    table = {"share": {"flag": "some"}, "off": {"flag": "off"}, "every": 0}
    api.set_provider(InMemoryProvider({}))
    rollout = rollout_of(table, "")
    rollout.look()
    assert (rollout.share_now, rollout.is_off, rollout.error) == (0.0, True, "LookupError")
    api.set_provider(InMemoryProvider(flags))
    rollout.look()
    assert (rollout.share_now, rollout.is_off, rollout.error) == (0.2, False, "")
    api.set_provider(InMemoryProvider({}))
    rollout.look()
    assert (rollout.share_now, rollout.is_off, rollout.error) == (0.2, False, "LookupError")
    api.clear_providers()


@pytest.mark.parametrize(
    ("rollout", "said"),
    [
        (
            'off = "no-such-file"',
            r"gate\.rollout\.off is the file 'no-such-file', which cannot be read: No such file.*",
        ),
        ('off = "words"', r"gate\.rollout\.off is the file 'words', which must hold true or false\. It holds 'maybe'"),
        (
            'share = "words"',
            r"gate\.rollout\.share is the file 'words', which must hold a share .* Write for instance 0\.2",
        ),
        (
            'share = { flag = "x" }',
            r"gate\.rollout\.share is the flag 'x', and this process has no OpenFeature provider",
        ),
    ],
)
def test_a_file_or_a_flag_that_says_nothing_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rollout: str, said: str
) -> None:
    monkeypatch.delitem(sys.modules, "openfeature.api", raising=False)
    folder = folder_with(tmp_path / "served", f"\n[gate.rollout]\n{rollout}\n")
    (folder / "words").write_text("maybe\n")
    with pytest.raises(UsageError, match=rf"^camdf\.toml: {said}"):
        VersionStore(folder / "camdf.toml", folder / "state")
