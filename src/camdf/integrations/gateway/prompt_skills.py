"""The skills that a prompt needs, of its client and project: lines that stand after the tools of a note."""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Iterable

from camdf.datasets.examples import Example
from camdf.integrations.skills.folders import Client, installed_skills
from camdf.integrations.skills.needed import NeededSkills
from camdf.integrations.skills.skill import Skill
from camdf.runtime.visible import visible

SECONDS = 0.05
"""How long to decide on skills may take: past it, none is named."""

PROJECTS = 20
"""The skills of so many projects are kept."""

DESCRIBED = 300
"""Characters of a skill's description."""

OPENING = "Skills that this request may need; read the file before you use one:"


class PromptSkills:
    """Names skills for prompts. A project's skills are read at its first prompt, which is not kept waiting for them."""

    def __init__(self, examples: Iterable[Example]) -> None:
        self._examples = list(examples)
        self._needed: OrderedDict[tuple[Client, str], asyncio.Task[NeededSkills | None]] = OrderedDict()

    async def lines(self, prompt: str, client: Client, project: str) -> list[tuple[str, tuple[str, ...]]]:
        """The skills that a prompt needs, the best first, each with its line and a shorter one."""
        if (client, project) not in self._needed:
            self._needed[client, project] = asyncio.create_task(asyncio.to_thread(self._read, client, project))
            if len(self._needed) > PROJECTS:
                self._needed.popitem(last=False)
        reading = self._needed[client, project]
        if not reading.done():
            return []
        needed = reading.result()
        if needed is None:
            return []
        skills = await asyncio.to_thread(needed, prompt)
        return [(skill.label, _lines_of(skill)) for skill in skills]

    def _read(self, client: Client, project: str) -> NeededSkills | None:
        try:
            skills = installed_skills([client], project or None).skills
            if not skills:
                return None
            return NeededSkills(skills, examples=self._examples, seconds=SECONDS)
        except Exception as error:  # whatever the folders hold, prompts get their tools
            print(f"camdf: no skills are named: {visible(error, 200)}", file=sys.stderr)
            return None


def _lines_of(skill: Skill) -> tuple[str, ...]:
    name = visible(skill.label, DESCRIBED)
    where = visible(str(skill.path), DESCRIBED)
    return f"- {name}: {visible(skill.description, DESCRIBED)} ({where})", f"- {name} ({where})"
