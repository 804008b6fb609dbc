"""One of the servers of examples/with_mcp, by the standard library alone, so that four of them start at once.

python light_server.py NAME
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "with_mcp" / "servers.py"
WHAT = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


def tools_of(name: str) -> dict[str, str]:
    """What the example says of a server's tools, by name."""
    for part in ast.parse(EXAMPLE.read_text(encoding="utf-8")).body:
        if isinstance(part, ast.Assign) and [getattr(target, "id", "") for target in part.targets] == ["TOOLS"]:
            described: dict[str, str] = ast.literal_eval(part.value)[name]
            return described
    raise LookupError(name)


def answer(method: str, params: dict[str, Any], tools: dict[str, str]) -> dict[str, Any] | None:
    """The result of a request; None where the server has no such method."""
    if method == "initialize":
        about = {"name": "light", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": name, "description": text, "inputSchema": WHAT} for name, text in tools.items()]}
    if method == "tools/call":
        said = f"{params['name']} ran: {params['arguments']['what']}"
        return {"content": [{"type": "text", "text": said}], "isError": False}
    return {} if method == "ping" else None


def main(name: str) -> None:
    tools = tools_of(name)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        result = answer(asked["method"], asked.get("params") or {}, tools)
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
