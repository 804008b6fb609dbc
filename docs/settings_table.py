"""Writes the tables of docs/settings.md from the docstrings of the fields.

python docs/settings_table.py
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from camdf._settings import checks_of
from camdf.gate import Guards, Limits, Records, Rollout
from camdf.service import config

TABLES: dict[str, dict[str, type[Any]]] = {
    "settings": {kind.__name__: kind for kind in (Guards, Limits, Rollout, Records)},
    "keys": {
        "[gate]": config.GateSettings,
        "[gate.prices]": config.PriceSettings,
        "[gate.scorer]": config.ScorerSettings,
        "[server]": config.ServerSettings,
        "[limits]": config.LimitSettings,
        "[learn]": config.LearnSettings,
    },
}
"""The classes whose fields stand between two marks, by what the page calls them."""

SHORT = {
    r"^a share from 0 to 1": "0 to 1",
    r"^a whole number, (\d+) (?:or more|to 1000000000)": r"integer ≥ \1",
    r"^a whole number": "integer",
    r"^a number of seconds above 0, at most 3600": "seconds > 0",
    r"^a number of seconds, ([\d.]+) or more(?:, at most 3600)?": r"seconds ≥ \1",
    r"^a number(?:, (\d) or more)": r"number ≥ \1",
    r"^a number above 0": "number > 0",
    r"^(?:a list of|one of|an?) ": "",
}
"""What a check says, and how a table says it. The page has the bounds of all seconds and integers of the service."""


class Nothing:
    """What no setting takes, so that its check says what it must be."""


def meanings(kind: type[Any]) -> dict[str, str]:
    """The docstring of every field, on one line."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def takes(kind: Any, name: str) -> str:
    """What a field must be, in the words of its check."""
    try:
        checks_of(kind)[name](Nothing())
    except KeyError:
        return {"share": "0 to 1, or a source of it", "off": "true or false, or a source of it"}[name]
    except ValueError as error:
        must = str(error).removesuffix(", or None")
        return next((re.sub(check, words, must) for check, words in SHORT.items() if re.search(check, must)), must)
    raise AssertionError(f"{kind.__name__}.{name} takes anything")


def table(title: str, kind: type[Any]) -> str:
    """The fields of a class as a table."""
    rows = [f"| `{title}` | must be | default | |", "| --- | --- | --- | --- |"]
    said = meanings(kind)
    in_file = title.startswith("[")
    for field in fields(kind):
        if field.init and field.name in said:
            value = field.default
            default = ""
            if value is not MISSING and not (in_file and value is None):
                default = f"`{written_value(value, in_file)}`"
            must = takes(kind, field.name)
            rows.append(f"| `{field.name}` | {must} | {default} | {said[field.name]} |")
    return "\n".join(rows)


def written_value(value: Any, in_file: bool) -> str:
    """A default, as Python or as TOML has it."""
    return json.dumps(value) if in_file else repr(value)


def written(page: str) -> str:
    """The page with its tables as the code has them now."""
    for mark, kinds in TABLES.items():
        before, begin, rest = page.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- end of {mark} -->")
        tables = "\n\n".join(table(title, kind) for title, kind in kinds.items())
        page = f"{before}{begin}\n{tables}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE = Path(__file__).with_name("settings.md")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
