"""A real server over stdio that serves the skills of a folder: FastMCP's own provider, by SEP-2640."""

from __future__ import annotations

import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

server = FastMCP("skills")
provider = SkillsDirectoryProvider(Path(sys.argv[1]), experimental_skills=True)
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))

if __name__ == "__main__":
    server.run(show_banner=False)
