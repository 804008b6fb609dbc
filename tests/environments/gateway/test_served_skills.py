"""Skills over MCP: a real FastMCP server over stdio, FastMCP's client, and the same values as from the folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills import SkillsClientExtension

from camdf.integrations.skills import SkillList, skills_in
from camdf.integrations.skills.served import skills_of_server

LIBRARY = Path(__file__).parents[2] / "data" / "skills" / "library"
SERVER = Path(__file__).with_name("skills_server.py")


class Changed:
    """A client whose server answers with another text than it has announced."""

    def __init__(self, client: Any, text: str) -> None:
        self.client = client
        self.text = text

    async def list_skills(self) -> Any:
        """What the server lists."""
        return await self.client.list_skills()

    async def read_resource(self, uri: str) -> Any:
        """The other text for the first skill by name."""
        if "accessibility-audit" in uri:
            return [SimpleNamespace(text=self.text)]
        return await self.client.read_resource(uri)


@pytest.fixture(scope="module")
def listed() -> dict[str, SkillList]:
    """What was read of the server: by its list alone, with bodies, and where one text has changed."""

    async def read() -> dict[str, SkillList]:
        transport = StdioTransport(sys.executable, [str(SERVER), str(LIBRARY)])
        async with Client(transport, extensions=[SkillsClientExtension()]) as client:
            text = (LIBRARY / "accessibility-audit" / "SKILL.md").read_text(encoding="utf-8")
            return {
                "list": await skills_of_server(client, "office"),
                "bodies": await skills_of_server(client, "office", read_bodies=True),
                "changed": await skills_of_server(Changed(client, f"{text} "), "office", read_bodies=True),
            }

    return asyncio.run(read())


def test_what_a_server_serves_is_what_its_folder_has(listed: dict[str, SkillList]) -> None:
    folder = {skill.name: skill for skill in skills_in(LIBRARY).skills}
    for way in ("list", "bodies"):
        assert listed[way].problems == {}
        served = {skill.name: skill for skill in listed[way].skills}
        assert served.keys() == folder.keys()
        assert {name: skill.description for name, skill in served.items()} == {
            name: skill.description for name, skill in folder.items()
        }
    assert all(skill.body == folder[skill.name].body for skill in listed["bodies"].skills)
    assert not any(skill.body for skill in listed["list"].skills)


def test_a_served_skill_is_known_by_its_server(listed: dict[str, SkillList]) -> None:
    for skill in listed["list"].skills:
        assert skill.label == f"office:{skill.name}"
        assert skill.path == f"skill://{skill.name}/SKILL.md"
        assert skill.origin == "server"


def test_a_text_that_was_not_announced_costs_its_skill(listed: dict[str, SkillList]) -> None:
    names = {skill.name for skill in listed["changed"].skills}
    assert "accessibility-audit" not in names
    assert len(names) == len(listed["bodies"].skills) - 1
    [problem] = listed["changed"].problems
    assert "accessibility-audit" in problem
