"""Saved policies of every kind, and what each of them must go on deciding.

`python tests/parts/golden_policies.py` writes those of the library anew, and leaves those of the lab as they are. Do
that where the schema changes, and only there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import camdf
from camdf import LoggedTasks, Payoff, Policy, Rankings
from camdf.core.vectors import at_length_one
from camdf.policies.artifact import from_json, to_json
from camdf.policies.registry import IN_THE_LAB, LIBRARY
from camdf.policies.training import FittedCatalogue, ScorerRecord, Training

HERE = Path(__file__).parent
PAYOFF = Payoff(0.12)
SCORER = ScorerRecord("start", (("text", "full"),), "wordllama l2_supercat_256")
TOOLS = ("search", "mail", "maps", "calendar", "files", "weather")
COSTS = {tool: 0.25 + 0.25 * i for i, tool in enumerate((*TOOLS, "new"))}


class Golden(NamedTuple):
    """A document as it stands in a file, and the tools that it keeps of every list, by name."""

    document: dict[str, Any]
    kept: list[list[str]]

    @property
    def name(self) -> str:
        payoff = self.document["payoff"] or {"value": "any"}
        return f"{self.document['kind']}, {payoff['value']}"

    @property
    def content(self) -> bytes:
        return json.dumps(self.document).encode()


def lists() -> Rankings:
    """Lists of other lengths than those learned from, with a tool that nobody has seen, ties and zeros."""
    rows = [
        {"search": 0.9, "mail": 0.6, "maps": 0.6, "calendar": 0.2, "files": 0.1, "weather": 0.0},
        {"weather": 0.7, "new": 0.65, "search": 0.3},
        {"mail": 0.05, "files": 0.04},
        {"calendar": 0.5},
        {},
    ]
    rankings = Rankings.from_scores(rows, COSTS)
    return replace(rankings, vectors=at_length_one(np.eye(5, len(TOOLS)) + 0.1))


def kept(policy: Policy, rankings: Rankings | None = None) -> list[list[str]]:
    """The tools that a policy keeps of every list, of `lists()` by default."""
    rankings = lists() if rankings is None else rankings
    decided = policy.decide(rankings, getattr(policy, "payoff_", PAYOFF)).acquired
    return [
        [name for name, taken in zip(rankings.names(row), decided[row], strict=False) if taken]
        for row in range(len(rankings))
    ]


def golden() -> list[Golden]:
    """The stored policies."""
    stored = json.loads((HERE / "golden-policies.json").read_text(encoding="utf-8"))
    return [Golden(**each) for each in stored]


def logged(seed: int) -> LoggedTasks:
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(60):
        scores = {tool: round(rng.random(), 3) for tool in TOOLS}
        records.append({"scores": scores, "required": [tool for tool in TOOLS if rng.random() < scores[tool] ** 2]})
    found = LoggedTasks.from_records(records, COSTS)
    needed = np.array([[tool in record["required"] for tool in TOOLS] for record in records])
    vectors = at_length_one(needed + 0.3 * np.random.default_rng(seed + 100).normal(size=needed.shape))
    return replace(found, rankings=replace(found.rankings, vectors=vectors))


def made() -> list[Golden]:
    """Every kind, those that are fitted for a payoff under both values, the tools weighed and not, with a prior."""
    tasks, others = logged(0), logged(1)
    policies = [kind() for kind in LIBRARY] + [camdf.CAMDF(identity=False), camdf.ExpectedPayoffBySet(identity=False)]
    policies += [camdf.ExpectedPayoffBySet(prior=prior) for prior in ("similarity", "probability")]
    found = []
    for policy in policies:
        for value in ("exact", "partial"):
            payoff = Payoff(0.12, value)
            fitted = policy.fit(tasks, payoff, others)
            measured = Training(tasks.digest(), 60, 60, 60, 0.01, {"acquire-all": -0.1}, payoff)
            training = replace(measured, scorer=SCORER, catalogue=FittedCatalogue.of(TOOLS))
            text = to_json(fitted, training)
            found.append(Golden(json.loads(text), kept(from_json(text.encode()))))
            if not hasattr(fitted, "payoff_"):
                break
    return found


def main() -> None:
    of_the_lab = [each for each in golden() if each.document["kind"] in IN_THE_LAB]
    lines = ",\n".join(json.dumps(each._asdict()) for each in (*made(), *of_the_lab))
    (HERE / "golden-policies.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
