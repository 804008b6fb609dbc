"""What a server has beside its tools, as FastMCP proxies it: resources, their templates, and prompts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from camdf.errors import needs
from camdf.integrations.gateway.intake import MOST_TOOLS
from camdf.integrations.gateway.link import LIST, Link
from camdf.runtime.visible import visible

with needs("mcp"):
    from fastmcp.server.providers.proxy import ProxyProvider


class Beside(ProxyProvider):
    """The resources and prompts of a server, as FastMCP proxies them; its tools go through the gateway.

    A server that does not answer, that is asleep, or that answers with what cannot be read, has none.
    """

    def __init__(self, link: Link, is_own: Callable[[Link, str], bool]) -> None:
        super().__init__(link.borrowed)
        self._link = link
        self._is_own = is_own

    async def _list_tools(self) -> Sequence[Any]:
        return []

    async def _get_tool(self, name: str, version: Any = None) -> None:
        return None

    async def _list_prompts(self) -> Sequence[Any]:
        prompts = await self._answer_or_nothing(super()._list_prompts)
        return [prompt for prompt in prompts if self._is_own(self._link, prompt.name)]

    async def _get_prompt(self, name: str, version: Any = None) -> Any:
        if not self._is_own(self._link, name):
            return None
        return await super()._get_prompt(name, version)

    async def _list_resources(self) -> Sequence[Any]:
        return await self._answer_or_nothing(super()._list_resources)

    async def _list_resource_templates(self) -> Sequence[Any]:
        return await self._answer_or_nothing(super()._list_resource_templates)

    async def _answer_or_nothing(self, listed: Callable[[], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
        if self._link.state in ("down", "asleep"):
            return []
        try:
            async with asyncio.timeout(LIST):
                return (await listed())[:MOST_TOOLS]
        except Exception as error:
            print(f"{self._link.name}: {visible(error, 200)}", file=sys.stderr)
            return []
