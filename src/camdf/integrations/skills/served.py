"""Skills that an MCP server serves (SEP-2640: `skills/list`), as the same values as those in folders.

Looked at: the extension's specification of 2026-09-13 (`specification/stable/skills.mdx` at 0682b7b), and FastMCP 4.1,
which speaks it on both sides.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import Any

from camdf.errors import DataError
from camdf.integrations.skills.folders import LARGEST_FILE, MOST, SkillList
from camdf.integrations.skills.front_matter import parse_skill_text
from camdf.integrations.skills.skill import Skill


async def skills_of_server(client: Any, server: str, *, read_bodies: bool = False) -> SkillList:
    """The skills that a server lists; one that is not what was announced is left out, and the problem is told.

    Args:
        client: A connected `fastmcp.Client` that declares the extension:
            `Client(..., extensions=[SkillsClientExtension()])`.
        server: What the harness calls the server. A skill is known by this name and its own.
        read_bodies: Read every SKILL.md, so that skills are ranked by their bodies, too. The specification asks hosts
            to read a file when its skill is loaded and not before, so do this for servers of your own. A file is taken
            only if its bytes have the size and the digest that were announced; where none were, it is not read.
    """
    skills: list[Skill] = []
    problems: dict[str, str] = {}
    entries = await client.list_skills()
    if len(entries) > MOST:
        problems[server] = f"lists more than the {MOST:,} skills that are read"
    for entry in islice(entries, MOST):
        fields = entry.frontmatter.root
        description = " ".join(str(fields["description"]).split())
        body = ""
        if read_bodies and entry.resources != "dynamic":
            try:
                body = _verified_body(entry, await client.read_resource(entry.uri))
            except Exception as error:  # one server's file costs itself
                problems[entry.uri] = str(error) or type(error).__name__
                continue
        skills.append(
            Skill(str(fields["name"]), description, server=server, body=body, path=entry.uri, origin="server")
        )
    return SkillList(tuple(skills), problems)


def _verified_body(entry: Any, contents: Any) -> str:
    """What stands below the front matter of a file that is the one announced."""
    announced = next(resource for resource in entry.resources if resource.uri == entry.uri)
    [content] = contents
    text = str(getattr(content, "text", ""))
    raw = text.encode()
    if len(raw) > LARGEST_FILE:
        raise DataError(f"must have at most {LARGEST_FILE:,} bytes. It has {len(raw):,}.")
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    if len(raw) != announced.size or digest != announced.digest:
        raise DataError("must have the size and digest that the server announced. List the skills again.")
    read = parse_skill_text(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    told = {name: entry.frontmatter.root.get(name) for name in read.fields}
    texts = {name: " ".join(value.split()) for name, value in read.fields.items() if isinstance(told[name], str)}
    if any(" ".join(str(told[name]).split()) != value for name, value in texts.items()):
        raise DataError("must have the front matter that the server announced. List the skills again.")
    return read.body
