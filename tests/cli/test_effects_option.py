"""`camdf fit --effects` prices what tools can do; `evaluate`, `curve` and `shadow-report` then say what is exposed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from camdf import Gate, Prices, load
from camdf.cli import main
from camdf.gate import Privilege
from camdf.prices import DANGER
from camdf.tools import Tool
from saying import says

TOOLS = {
    "search_flights": "Search flights between two cities.",
    "get_weather": "Weather forecast for a city.",
    "find_restaurant": "Find a restaurant nearby.",
    "play_music": "Play a song or a playlist.",
    "create_event": "Create an event in the calendar.",
    "book_hotel": "Book a hotel room for a guest.",
    "send_email": "Send an email to a person.",
}
ASKED = {
    "search_flights": "How do I fly to {} on Friday",
    "book_hotel": "I need to stay in {} for two nights",
    "get_weather": "Will it rain in {} tomorrow?",
    "get_weather, send_email": "Mail Ann whether she needs an umbrella in {}",
    "find_restaurant": "Where can we eat in {} tonight?",
    "play_music": "Put on something from {} to dance to",
    "create_event": "Remind me of the meeting in {}",
}
CITIES = ("Graz", "Lyon", "Oslo", "Porto", "Bern")
FIT = "fit log.csv --tools tools.json --effects privilege.json --covered 0.9 --splits 4 -o policy.json --json"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of requests, and the tools that the agent had with what they can do."""
    rows = [f"{text.format(city)};{used}" for city in CITIES for used, text in ASKED.items()]
    (tmp_path / "log.csv").write_text("\n".join(["request;tools used", *rows]), encoding="utf-8")
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["privilege", "tools.json", "-o", "privilege.json"]) == 0
    capsys.readouterr()


def test_a_fit_with_effects_meets_its_target_and_is_served_as_it_was_fitted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(FIT.split()) == 0
    fitted = json.loads(capsys.readouterr().out)
    shipped = fitted["results"]["expected-payoff-by-set"]
    assert shipped["covered"] >= 0.85
    assert shipped["exposed"] < fitted["results"]["acquire-all"]["exposed"] == 4
    assert 0 <= shipped["needless"] < fitted["results"]["acquire-all"]["needless"] == 1

    policy = load("policy.json")
    training = policy.training_
    assert training is not None
    assert training.effects is not None
    assert training.effects.prices == DANGER
    assert training.effects.tools["send_email"] == "egress"
    listed = [Tool(name, text) for name, text in TOOLS.items()]
    privilege = Privilege.from_file("privilege.json")
    gate = Gate.start(listed, policy=policy, prices=Prices(effects=DANGER), privilege=privilege)
    may_run = gate.decide([{"role": "user", "content": "Mail Bo whether she needs a coat in Rome"}], listed).may_run
    assert may_run is not None
    assert "send_email" in may_run
    assert "book_hotel" not in may_run


def test_the_commands_after_a_fit_say_what_is_exposed_and_ask_for_what_tools_can_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(FIT.removesuffix(" --json").split()) == 0
    out = capsys.readouterr().out
    assert "Danger: " in out
    assert "--tools tools.json --effects privilege.json" in out, "what to run on newer tasks"
    for command in ("evaluate policy.json log.csv --splits 2", "shadow-report policy.json log.csv"):
        assert main([*command.split(), "--tools", "tools.json"]) == 2
        assert says(capsys.readouterr().err, "fitted", "--effects")
        assert main([*command.split(), "--tools", "tools.json", "--effects", "privilege.json"]) == 0
        assert ("Danger: " in capsys.readouterr().out) == command.startswith("evaluate")


def test_a_curve_has_the_second_axis(capsys: pytest.CaptureFixture[str]) -> None:
    command = "curve log.csv --tools tools.json --cost-pressure 3 --splits 2"
    assert main([*command.split(), "--effects", "privilege.json"]) == 0
    assert says(capsys.readouterr().out, "covered", "exposed", "needless")
    assert main(command.split()) == 0
    assert "covered" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("left_out", "named"), [("--effects privilege.json ", "--effects"), ("--tools tools.json ", "--tools")]
)
def test_a_target_of_covered_tasks_needs_the_tools_and_what_they_can_do(
    left_out: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(FIT.replace(left_out, "").split()) == 2
    assert named in capsys.readouterr().err
