"""Renamed tools in the service: a policy, its past requests and what is learned from keep what they know of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

import camdf
from camdf import LoggedTasks, Payoff
from camdf.errors import UsageError
from camdf.policies.artifact import to_json
from camdf.service.config import GateSettings
from camdf.service.config_file import parsed
from camdf.service.gates import candidate, gate_of, policy_of
from camdf.service.learning import learn
from camdf.service.lessons import Seen, SeenLog
from saying import refuses

PAYOFF = Payoff(0.12)
TOOLS = tuple(f"tool_{place}" for place in range(8))
NEW = {name: f"v2_{place}" for name, place in zip(TOOLS, (3, 1, 7, 0, 5, 2, 6, 4), strict=True)}
NOTHING: Mapping[str, str] = {}
GATE = '[gate]\npolicy = "policy.json"\ncost_pressure = 0.12\n'
RENAMED = "[gate.renamed]\n" + "".join(f'{old} = "{new}"\n' for old, new in NEW.items())
LEARNS = "\n[learn]\nfewest = 50\n"


def tasks(seed: int, count: int = 60) -> list[tuple[dict[str, float], list[str]]]:
    """The scores of tasks that list every tool, and what each needed."""
    rng = np.random.default_rng(seed)
    made: list[tuple[dict[str, float], list[str]]] = []
    for _ in range(count):
        needed = rng.random(len(TOOLS)) < np.linspace(0.6, 0.05, len(TOOLS))
        scores = 0.7 * rng.random(len(TOOLS)) + 0.3 * needed
        required = [name for name, is_needed in zip(TOOLS, needed, strict=True) if is_needed]
        made.append((dict(zip(TOOLS, scores.tolist(), strict=True)), required))
    return made


def fitted() -> camdf.ExpectedPayoffBySet:
    records = [{"scores": scores, "required": required} for scores, required in tasks(1)]
    return camdf.ExpectedPayoffBySet().fit(LoggedTasks.from_records(records), PAYOFF)


def settings_in(text: str) -> GateSettings:
    return parsed(text, "camdf.toml").settings("", "")


def test_a_gate_decides_on_renamed_tools_as_it_did_before() -> None:
    content = to_json(fitted())
    before, after = (
        gate_of(settings, policy_of("policy.json", content, settings), "")
        for settings in (settings_in(GATE), settings_in(GATE + RENAMED))
    )
    for scores, _ in tasks(2, 30):
        old = before.decide("task", list(map(candidate, scores)), scores=list(scores.values()))
        new = after.decide("task", [candidate(NEW[name]) for name in scores], scores=list(scores.values()))
        assert new.kept == tuple(NEW[name] for name in old.kept)
        assert [tool.evidence for tool in new.ranking] == [tool.evidence for tool in old.ranking]


def served(folder: Path, configuration: str, names: Mapping[str, str]) -> Path:
    """The folder of a service whose runs saw every tool and told what they called, under these names."""
    state = folder / "state"
    state.mkdir(parents=True)
    (folder / "camdf.toml").write_text(configuration, encoding="utf-8")
    (folder / "policy.json").write_text(to_json(fitted()), encoding="utf-8")
    log = SeenLog(state)
    outcomes = []
    for number, (scores, required) in enumerate(tasks(3)):
        listed = [names.get(name, name) for name in scores]
        costs = [1.0] * len(listed)
        log.write(Seen(f"d{number}", "", "", listed, list(scores.values()), costs, listed[:1]))
        called = [names.get(name, name) for name in required]
        told = {"tenant": "", "decision": f"d{number}", "called": called, "success": True}
        outcomes.append({**told, "seq": number + 1, "at": float(number)})
    (state / "outcomes.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in outcomes))
    return folder


def challenger_of(folder: Path) -> str:
    """What was learned, as the file of the challenger has it."""
    learn(folder / "camdf.toml", [folder / "state"])
    versions = folder / "policy.json.learned"
    line = json.loads((versions / "journal.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    return (versions / f"{line['state']['challenger']}.json").read_text(encoding="utf-8")


def test_what_is_learned_from_runs_under_old_names_is_known_of_the_new_ones(tmp_path: Path) -> None:
    under_old_names = served(tmp_path / "old", GATE + RENAMED + LEARNS, NOTHING)
    under_new_names = served(tmp_path / "new", GATE + LEARNS, NEW)
    assert challenger_of(under_old_names) == challenger_of(under_new_names)


def test_a_name_that_is_old_and_new_is_refused() -> None:
    with refuses(UsageError, "gate.renamed", must="no name in both"):
        settings_in(GATE + '[gate.renamed]\na = "b"\nb = "c"\n')
