"""Skills in Microsoft Agent Framework: its own source, filtered by what each run needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    AgentSession,
    ChatResponse,
    FileSkillsSource,
    FilteringSkillsSource,
    Message,
    SkillsProvider,
    SkillsSourceContext,
)

from camdf.integrations.agent_framework import SkillGate
from camdf.integrations.skills import NeededSkills, skills_in

LIBRARY = Path(__file__).parents[2] / "data" / "skills" / "library"


class Listening:
    """A chat client that keeps the instructions of each request."""

    additional_properties: dict[str, Any] = {}

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def get_response(self, messages: Any, **options: Any) -> Any:
        """What the model is told, and an answer of one word."""
        told = options.get("options") or {}
        self.seen.append(f"{told.get('instructions', '')} {' '.join(str(message.text) for message in messages)}")
        return ChatResponse(messages=[Message("assistant", ["Fine."])])


def test_a_run_is_told_of_the_skills_that_it_needs() -> None:
    skills = SkillGate(NeededSkills(skills_in(LIBRARY).skills, seconds=None))
    source = FilteringSkillsSource(FileSkillsSource(str(LIBRARY)), skills.needs)
    client = Listening()
    agent = Agent(client, context_providers=[skills, SkillsProvider(source)])

    async def runs() -> list[list[str]]:
        session = AgentSession()
        named: list[list[str]] = []
        for prompt in ("Write a Kubernetes manifest with a readiness check", "Thank you, that is right."):
            await agent.run(prompt, session=session)
            there = await source.get_skills(SkillsSourceContext(agent=agent, session=session))
            named.append([skill.frontmatter.name for skill in there])
        everything = await source.get_skills(SkillsSourceContext(agent=agent))
        return [*named, [skill.frontmatter.name for skill in everything]]

    needed, none, every = asyncio.run(runs())
    assert "k8s-manifests" in needed
    assert len(needed) <= 3
    assert none == []
    assert len(every) == len(skills_in(LIBRARY).skills)
    assert "k8s-manifests" in client.seen[0]
    assert "press-release" not in client.seen[0]
    assert "k8s-manifests" not in client.seen[1]
