"""What is wrong with a library of skills: descriptions that lead astray, lines that clients cut, what each costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from camdf.datasets.examples import Example
from camdf.evaluation.confusions import Confused, confusions
from camdf.examples.checking import Check, check_examples, held_out, installed_rankings
from camdf.integrations.skills.folders import SkillList
from camdf.integrations.skills.needed import MOST, NeededSkills
from camdf.integrations.skills.skill import Skill
from camdf.scorers.base import Scorer
from camdf.tools import Tool, keyed

LONGEST = 1_024
"""How many characters of a description the format allows; Codex leaves a skill out that has more."""

BUDGET = 8_000
"""How many characters Codex gives the whole list where it does not know the model's context; Claude Code about as
many, 1% of 200,000 tokens."""


class Astray(NamedTuple):
    """A description that leads to other skills' bodies rather than to its own, and the one that it leads to first."""

    skill: str
    leads_to: str


@dataclass(frozen=True)
class Lint:
    """What there is to say of some skills."""

    tokens: int
    """What they cost in every call of a session, together."""

    characters: int
    """Of the whole list, beside `BUDGET`."""

    astray: tuple[Astray, ...]
    too_long: tuple[str, ...]
    """Files whose description Codex refuses; Claude Code cuts it at 1,536 characters."""

    not_strict: tuple[str, ...]
    """Files whose front matter is no strict YAML, so that Codex leaves them out."""

    check: Check | None = None
    """Where examples are given: near-duplicates, skills that no example is for, requests that no ranking finds."""

    confused: tuple[Confused, ...] = ()
    """Where examples are given: what `NeededSkills` chose without them."""

    @property
    def clean(self) -> bool:
        """Whether nothing has to be mended."""
        near = self.check.near_duplicates if self.check else ()
        return not (self.astray or self.too_long or self.not_strict or near or self.characters > BUDGET)


def lint_skills(there: SkillList, examples: Sequence[Example] = ()) -> Lint:
    """Check skills against each other and, where there are some, against what people ask them for.

    A description leads astray where three other bodies, as many as a prompt gets, are nearer to it than its own.
    """
    listed = [skill for skill in there.skills if not skill.on_request]
    by_key = keyed(listed)
    names = {key: skill for key, skill in by_key.items() if isinstance(skill, Skill)}
    check = check_examples(examples, by_key) if examples else None
    confused: list[Confused] = []
    if examples:
        needed_skills = NeededSkills(listed, seconds=None)
        chosen = [[skill.full_name for skill in needed_skills(example.text)] for example in examples]
        confused = confusions([example.right for example in examples], chosen)
    return Lint(
        tokens=sum(skill.tokens for skill in listed),
        characters=sum(len(skill.listing) + 1 for skill in listed),
        astray=tuple(_leading_astray(names)),
        too_long=tuple(skill.path for skill in listed if len(skill.description) > LONGEST),
        not_strict=tuple(skill.path for skill in there.lenient),
        check=check,
        confused=tuple(confused),
    )


def _leading_astray(skills: dict[str, Skill]) -> list[Astray]:
    bodies = {key: Tool(key, skill.body) for key, skill in skills.items() if skill.body.strip()}
    descriptions = [Example(skills[key].description, (key,)) for key in bodies]
    if len(bodies) < 2:
        return []
    scores = held_out(descriptions, bodies, _by_bodies_alone)
    keys = list(bodies)
    astray: list[Astray] = []
    for own, row in enumerate(scores):
        if (row > row[own]).sum() >= MOST:
            astray.append(Astray(keys[own], keys[int(np.argmax(row))]))
    return astray


def _by_bodies_alone(examples: Sequence[Example]) -> Scorer:
    """A ranking that reads no description: what is asked is whether one leads to a body."""
    ranking = next(islice(installed_rankings().values(), 1))
    return ranking([])
