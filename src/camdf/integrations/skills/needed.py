"""Which skills a prompt needs: the ranking and the policies that decide on tools, over skills.

Most prompts need none. Without labels no score says so by itself, since a ranking compares candidates with each other.
So what people say that needs no skill is ranked, too (examples that need nothing, else `ordinary.txt`): a skill is
needed where it ranks before all of it. A policy that was fitted on labels says itself when nothing is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from camdf.core.payoff import Payoff
from camdf.datasets.examples import past_tasks
from camdf.errors import UsageError
from camdf.gate import Gate, Limits
from camdf.gate.catalogue import PriceList
from camdf.gate.scoring import recalling
from camdf.integrations.skills.skill import Skill
from camdf.policies.base import Policy
from camdf.policies.rules import NearBest
from camdf.scorers import Scorer, Start, full_text
from camdf.scorers.named import scorer_for_tools, scorer_record
from camdf.scorers.with_examples import GivenExamples, ToolExamples, tool_examples
from camdf.tools import Tool, keyed

MOST = 3
"""How many skills are named at most."""

ORDINARY = files("camdf.integrations.skills").joinpath("ordinary.txt")
"""Requests that need no skill, in English, German, Spanish and French."""


class OrdinaryRequest(Tool):
    """Something that people ask without needing a skill, as a candidate beside the skills."""


def text_of_candidate(tool: Tool) -> str:
    """What a scorer reads: of a skill all there is, of an ordinary request its words."""
    if isinstance(tool, OrdinaryRequest):
        return tool.description
    return full_text(tool)


class NeededSkills:
    """Names, for one prompt after another, the skills that it needs: the best first, at most `most`, or none.

    Skills are read once, when it is made. It never raises after that, and names none where a ranking fails or takes
    too long. Skills that only the user may start are left out.

    Args:
        skills: All that there are.
        examples: What people ask the skills for, a file or a list. Those that need nothing count, too.
        policy: What `camdf fit DATA --tools FOLDER` wrote. It decides instead, and names none where labels say so.
        prices: What each skill costs a policy that was fitted by prices. None gives each the cost 1.
        most: How many are named at most.
        seconds: How long a decision may take.
    """

    def __init__(
        self,
        skills: Iterable[Skill],
        *,
        examples: GivenExamples | None = None,
        policy: Policy | None = None,
        prices: PriceList | None = None,
        most: int = MOST,
        seconds: float | None = 5.0,
    ) -> None:
        if most < 1:
            raise UsageError(f"The 'most' of NeededSkills must be at least 1. Got {most!r} instead.")
        self.skills = tuple(skill for skill in skills if not skill.on_request)
        given = tool_examples(examples or ())
        limits = Limits(seconds=seconds, at_most=most)
        if policy is None:
            self.candidates: tuple[Tool, ...] = (*self.skills, *ordinary_requests(given))
            scorer: Scorer = Start(text=text_of_candidate, examples=given)
            self.gate = Gate(NearBest(most), scorer, Payoff(0.0), limits=limits)
        else:
            self.candidates = self.skills
            scorer = scorer_for_tools(self.skills, given if given.examples else None, scorer_record(policy))
            recalls = recalling(policy, past_tasks(given.given), scorer)
            self.gate = Gate(recalls, scorer, prices=prices, limits=limits)
        if self.skills:
            scorer(self.skills[0].name, self.candidates)  # reads all of them, so that the first prompt is not late
        self._by_key = keyed(self.candidates)

    def __call__(self, prompt: str) -> tuple[Skill, ...]:
        """The skills that a prompt needs."""
        if not self.skills:
            return ()
        decision = self.gate.decide([{"role": "user", "content": prompt}], self.candidates)
        if decision.open:  # nothing was decided: a greeting, no word in common, no answer in time
            return ()
        needed: list[Skill] = []
        for ranked in decision.ranking:
            candidate = self._by_key[ranked.name]
            if not isinstance(candidate, Skill):  # an ordinary request is as near
                break
            if ranked.name in decision.kept:
                needed.append(candidate)
        return tuple(needed)


def needed_skills(prompt: str, skills: Iterable[Skill], *, examples: GivenExamples | None = None) -> tuple[Skill, ...]:
    """The skills that one prompt needs, as `NeededSkills` says, which reads the skills once for many prompts."""
    return NeededSkills(skills, examples=examples)(prompt)


def ordinary_requests(examples: ToolExamples) -> list[OrdinaryRequest]:
    """What people say that needs no skill: the examples that need nothing, or what is shipped where there are none."""
    own = [example.text for example in examples.given if example.text and not example.right]
    texts = own or ORDINARY.read_text(encoding="utf-8").splitlines()
    return [OrdinaryRequest(f"ordinary-{place}", text) for place, text in enumerate(dict.fromkeys(texts))]
