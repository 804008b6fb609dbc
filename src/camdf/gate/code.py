"""Tools as signatures, for agents that write code: what was decided or found, in Python or in TypeScript.

Names and descriptions are text of others. A function's name has letters, digits and underscores alone, differs from
every other and from the words of both languages; a description ends no comment and no string. What stands for what is
in `Code.functions`.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from camdf.gate.tool_search import description_for_the_model
from camdf.runtime.visible import visible, visible_lines
from camdf.tools import PARAMETERS, Tool, view

LONGEST_NAME = 64
DEEPEST = 5
"""How deep the types of arguments are told; what lies below is any value."""

CHOICES = 30
"""Of how many values a type may be: of more, only their kind is told."""

TYPESCRIPT_WORDS = frozenset(
    [
        "abstract",
        "any",
        "arguments",
        "as",
        "async",
        "await",
        "boolean",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "constructor",
        "continue",
        "debugger",
        "declare",
        "default",
        "delete",
        "do",
        "else",
        "enum",
        "eval",
        "export",
        "exports",
        "extends",
        "false",
        "finally",
        "for",
        "from",
        "function",
        "get",
        "globalThis",
        "if",
        "implements",
        "import",
        "in",
        "infer",
        "instanceof",
        "interface",
        "is",
        "keyof",
        "let",
        "module",
        "namespace",
        "never",
        "new",
        "null",
        "number",
        "object",
        "of",
        "package",
        "private",
        "protected",
        "public",
        "readonly",
        "require",
        "return",
        "set",
        "static",
        "string",
        "super",
        "switch",
        "symbol",
        "this",
        "throw",
        "true",
        "try",
        "type",
        "typeof",
        "undefined",
        "unique",
        "unknown",
        "var",
        "void",
        "while",
        "with",
        "yield",
    ]
)
RESERVED = frozenset((*keyword.kwlist, *keyword.softkwlist, *TYPESCRIPT_WORDS, "Any", "Literal", "__debug__"))
"""Names that no function and no argument has."""


class CodeFunction(NamedTuple):
    """What a function in the code stands for."""

    tool: Tool
    arguments: Mapping[str, str]
    """The names of the tool's parameters, by those of the function's where they differ."""

    def arguments_for_tool(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call in the code, as the tool takes them."""
        return {self.arguments.get(name, name): value for name, value in written.items()}


class Code(NamedTuple):
    """Signatures, and what each stands for."""

    text: str
    functions: Mapping[str, CodeFunction]


def python_code(tools: Iterable[Any]) -> Code:
    """Tools as Python functions with keyword arguments, whatever their schemas, names and descriptions are.

    >>> schema = {"properties": {"page-id": {"type": "integer"}}, "required": ["page-id"]}
    >>> code = python_code([Tool("get-page", "Fetch a page.", schema)])
    >>> print(code.text)
    def get_page(*, page_id: int) -> Any:
        \"\"\"Fetch a page.\"\"\"
    >>> code.functions["get_page"].arguments_for_tool({"page_id": 7})
    {'page-id': 7}
    """
    functions: dict[str, CodeFunction] = {}
    texts: list[str] = []
    for name, tool in _named(tools):
        schema = _schema_of(tool)
        properties = _properties(schema)
        required = _required(schema)
        names = _unique_names(properties)
        listed: list[str] = []
        for argument, original in names.items():
            default = "" if original in required else " = ..."
            listed.append(f"{argument}: {_type_of(properties[original], schema, DEEPEST, PYTHON)}{default}")
        arguments = f"*, {', '.join(listed)}" if listed else ""
        told = [description_for_the_model(tool)]
        described = ((argument, _description(properties[original])) for argument, original in names.items())
        told += [f"{argument}: {text}" for argument, text in described if text]
        texts.append(f"def {name}({arguments}) -> Any:\n    {_docstring(told)}")
        functions[name] = CodeFunction(tool, {argument: own for argument, own in names.items() if argument != own})
    return Code("\n\n\n".join(texts), functions)


def typescript_code(tools: Iterable[Any]) -> Code:
    """Tools as TypeScript functions of one object, whatever their schemas, names and descriptions are.

    >>> schema = {"properties": {"page-id": {"type": "integer"}}, "required": ["page-id"]}
    >>> print(typescript_code([Tool("get-page", "Fetch a page.", schema)]).text)
    /** Fetch a page. */
    export declare function get_page(args: { "page-id": number }): Promise<unknown>;
    """
    functions: dict[str, CodeFunction] = {}
    texts: list[str] = []
    for name, tool in _named(tools):
        schema = _schema_of(tool)
        arguments = ""
        if _properties(schema):
            optional = "" if _required(schema) else "?"
            arguments = f"args{optional}: {_typescript_object(schema, schema, DEEPEST)}"
        texts.append(
            f"{_comment(description_for_the_model(tool))}\n"
            f"export declare function {name}({arguments}): Promise<unknown>;"
        )
        functions[name] = CodeFunction(tool, {})
    return Code("\n\n".join(texts), functions)


def _named(tools: Iterable[Any]) -> list[tuple[str, Tool]]:
    """Every tool that has a definition, with the name of its function."""
    viewed = [tool for tool in map(view, tools) if not tool.foreign]
    names = _unique_names([tool.name for tool in viewed])
    return list(zip(names, viewed, strict=True))


def _unique_names(originals: Iterable[str]) -> dict[str, str]:
    """Names that both languages take, each once, and what they stand for."""
    names: dict[str, str] = {}
    for original in originals:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", str(original))[:LONGEST_NAME] or "_"
        if plain[0].isdigit():
            plain = f"_{plain}"
        if plain in RESERVED:
            plain = f"{plain}_"
        name = plain
        number = 1
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names[name] = original
    return names


def _schema_of(tool: Tool) -> Mapping[str, Any]:
    try:
        schema: Any = tool.schema
    except Exception:  # a framework's own code builds it
        return {}
    return schema if isinstance(schema, Mapping) else {}


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): value for name, value in islice(properties.items(), PARAMETERS)}


def _required(schema: Mapping[str, Any]) -> frozenset[str]:
    required = schema.get("required")
    return frozenset(filter(_is_string, required)) if isinstance(required, list) else frozenset()


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _description(schema: Any) -> str:
    described = schema.get("description") if isinstance(schema, Mapping) else None
    return visible(described, 200) if isinstance(described, str) else ""


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema, or the part of the root that it refers to; {} where there is none."""
    if not isinstance(schema, Mapping):
        return {}
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    part: Any = root
    for step in reference.removeprefix("#/").split("/"):
        part = part.get(step) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) and "$ref" not in part else {}


def _parts(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas of which a value meets one, where a schema has several; else none."""
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return list(schema[key][:CHOICES])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return [{**schema, "type": kind} for kind in kinds[:CHOICES]]
    return []


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """The values that are allowed, where these are few and plain; else none."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not 0 < len(values) <= CHOICES:
        return []
    if not all(value is None or type(value) in (str, int, bool) for value in values):
        return []
    return values


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _type_of(given: Any, root: Mapping[str, Any], depth: int, language: Language) -> str:
    """What a value is that meets a schema, as a language writes it."""
    schema = _resolved(given, root)
    if depth == 0:
        return language.anything
    if values := _values(schema):
        return language.choice(values)
    if parts := _parts(schema):
        return _union(_type_of(part, root, depth - 1, language) for part in parts)
    kind = schema.get("type")
    if kind == "array":
        return language.array.format(_type_of(schema.get("items"), root, depth - 1, language))
    if kind == "object":
        return language.object(schema, root, depth - 1)
    return language.kinds.get(kind, language.anything) if isinstance(kind, str) else language.anything


def _python_object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    return "dict[str, Any]"


def _typescript_object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    properties = _properties(schema)
    if not properties:
        return "Record<string, unknown>"
    required = _required(schema)
    fields: list[str] = []
    for name, value in properties.items():
        told = _description(value)
        comment = f"{_comment(told)} " if told else ""
        optional = "" if name in required else "?"
        fields.append(f"{comment}{json.dumps(name)}{optional}: {_type_of(value, root, depth, TYPESCRIPT)}")
    return f"{{ {'; '.join(fields)} }}"


def _comment(text: str) -> str:
    """A comment that ends where it should: the sign that would end it is taken apart."""
    lines = visible_lines(text).replace("*/", "*\\/").split("\n")
    return f"/** {' '.join(filter(None, map(str.strip, lines)))} */"


def _docstring(lines: Sequence[str]) -> str:
    """A string that ends where it should, whatever quotes and backslashes the lines have."""
    text = "\n".join(visible_lines(line) for line in lines).replace("\\", "\\\\").replace('"', '\\"')
    return '"""' + text.replace("\n", "\n    ") + '"""'


class Language(NamedTuple):
    """How a language writes types."""

    kinds: Mapping[str, str]
    anything: str
    array: str
    choice: Callable[[list[Any]], str]
    """One of some values."""

    object: Callable[[Mapping[str, Any], Mapping[str, Any], int], str]


PYTHON = Language(
    {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"},
    "Any",
    "list[{}]",
    lambda values: f"Literal[{', '.join(map(ascii, values))}]",
    _python_object,
)
TYPESCRIPT = Language(
    {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"},
    "unknown",
    "Array<{}>",
    lambda values: _union(map(json.dumps, values)),
    _typescript_object,
)
