"""Names, descriptions and schemas that try to get out of whatever they are written into."""

from __future__ import annotations

from camdf import Tool

HOSTILE = [
    '"""\nimport os\n"""',
    "*/ export const stolen = 1; /*",
    "*\\/ */",
    "ends with a star *",
    'ends with a quote"',
    "ends with a backslash\\",
    "\u202eturned\u2028line\u0000",
    "\ud800",
    "class",
    "",
    "__debug__",
    "a-b",
    "a.b",
]
HOSTILE_TOOLS = [
    Tool(name, text, {"properties": {other: {"description": text, "enum": [other]} for other in HOSTILE}})
    for name, text in zip(HOSTILE, reversed(HOSTILE), strict=True)
]
