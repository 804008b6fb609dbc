"""What the gateway of `camdf mcp` adds to a call, and whether its memory stays flat.

    python benchmarks/mcp_gateway.py --output results/mcp.json
    python benchmarks/mcp_gateway.py --calls 300 --soak 3000 --check results/mcp.json

Three servers over stdio. The same calls go, in turns of fifty, straight to a server, through FastMCP's bare proxy and
through the gateway; times are medians, and only their ratios are kept. The soak calls one tool through the gateway and
looks at the memory of the process, in the middle of every tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

from camdf.integrations.gateway.config import ServerEntry
from camdf.integrations.gateway.folder import Folder
from camdf.integrations.gateway.server import Gateway

SERVERS = Path(__file__).parents[1] / "tests" / "environments" / "gateway" / "small_servers.py"
KINDS = ("calendar", "mail", "money")
TURN = 50
REQUESTS = 500
MOST_RATIO = 1.5
"""The target of a call through the gateway, beside FastMCP's proxy."""

MOST_GROWTH = 0.10
"""The target of the growth of memory over the last half of a soak."""


async def one_call(client: Any, name: str) -> float:
    began = time.perf_counter()
    result = await client.call_tool(name, {"text": "x"})
    assert not result.is_error
    return time.perf_counter() - began


async def timed(calls: int, folder: Path) -> dict[str, float]:
    """Medians of calls: direct, through the bare proxy, through the gateway as a loaded tool and by `call_tool`."""
    bare = FastMCP("bare")
    for kind in KINDS:
        bare.mount(create_proxy(StdioTransport(sys.executable, [str(SERVERS), kind])), namespace=kind)
    gateway = Gateway(servers(), Folder(folder))
    async with AsyncExitStack() as stack:
        clients = {
            "direct": await stack.enter_async_context(Client(StdioTransport(sys.executable, [str(SERVERS), "mail"]))),
            "bare proxy": await stack.enter_async_context(Client(bare)),
            "gateway": await stack.enter_async_context(Client(gateway.server)),
        }
        names = {"direct": "send_mail", "bare proxy": "mail_send_mail", "gateway": "mail_send_mail"}
        for way, client in clients.items():
            await client.list_tools()
            await one_call(client, names[way])
        seconds: dict[str, list[float]] = {way: [] for way in clients}
        for _ in range(calls // TURN):
            for way, client in clients.items():
                seconds[way] += [await one_call(client, names[way]) for _ in range(TURN)]
    return {way: median(times) for way, times in seconds.items()}


async def soaked(calls: int, folder: Path) -> list[float]:
    """Megabytes of this process after each tenth of the calls. A search before every hundredth is learned from."""
    megabytes: list[float] = []
    async with Client(Gateway(servers()[:1], Folder(folder)).server) as client:
        await client.list_tools()
        for number in range(calls):
            if number % 100 == 0:
                await client.call_tool("find_tool", {"query": f"create an event number {number // 100 % REQUESTS}"})
            await one_call(client, "calendar_create_event")
            if (number + 1) % (calls // 10) == 0:
                gc.collect()
                megabytes.append(round(resident(), 1))
                print(f"{number + 1:,} calls: {megabytes[-1]} MB", file=sys.stderr)
    return megabytes


def servers() -> list[ServerEntry]:
    return [ServerEntry(kind, {"command": sys.executable, "args": [str(SERVERS), kind]}) for kind in KINDS]


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(calls: int, soak: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        times = asyncio.run(timed(calls, Path(folder) / "timed"))
        memory = asyncio.run(soaked(soak, Path(folder) / "soaked")) if soak else []
    return {
        "calls": calls,
        "gateway_by_bare_proxy": round(times["gateway"] / times["bare proxy"], 2),
        "gateway_by_direct": round(times["gateway"] / times["direct"], 2),
        "bare_proxy_by_direct": round(times["bare proxy"] / times["direct"], 2),
        "soak_calls": soak,
        "megabytes_by_tenth": memory,
        "growth_over_last_half": round(memory[-1] / memory[4] - 1, 3) if memory else 0.0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--soak", type=int, default=100_000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--check", type=Path, help="hold the targets, and what is stored at them, too")
    options = parser.parse_args()
    result = measured(options.calls, options.soak)
    print(json.dumps(result, indent=1))
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")
    for each in [result, *([json.loads(options.check.read_text())] if options.check else [])]:
        if each["gateway_by_bare_proxy"] > MOST_RATIO or each["growth_over_last_half"] > MOST_GROWTH:
            print(f"Targets: at most {MOST_RATIO} times the bare proxy, and {MOST_GROWTH:.0%} growth.", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
