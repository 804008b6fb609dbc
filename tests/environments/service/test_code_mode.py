"""Signatures for agents that write code, compiled by TypeScript itself; `.ci/environments node` brings the compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

from camdf import Tool
from camdf.gate.code import RESERVED, typescript_code
from hostile_tools import HOSTILE, HOSTILE_TOOLS

ROOT = Path(__file__).parents[3]
COMPILER = ROOT / "examples" / "with_vercel_ai" / "node_modules" / "typescript" / "bin" / "tsc"


def test_typescript_compiles_whatever_tools_say_of_themselves(tmp_path: Path) -> None:
    assert COMPILER.is_file(), "TypeScript is missing. Install it with: .ci/environments node"
    nested = {"type": "object", "properties": {"*/": {"type": "array", "items": {"type": ["string", "null"]}}}}
    ordinary = Tool("get_forecast", "The weather.", {"properties": {"place": nested}, "required": ["place"]})
    reserved = [Tool(name, text) for name in sorted(RESERVED) for text in HOSTILE[:2]]
    path = tmp_path / "tools.ts"
    path.write_text(typescript_code([ordinary, *HOSTILE_TOOLS, *reserved]).text, encoding="utf-8")
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext"]
    done = subprocess.run(["node", str(COMPILER), *options, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
