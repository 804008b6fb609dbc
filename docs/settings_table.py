"""Writes the tables of docs/settings.md from the docstrings of the fields.

python docs/settings_table.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from inspect import signature
from itertools import starmap
from pathlib import Path
from typing import Any

from camdf.core import features
from camdf.core.payoff import Payoff
from camdf.examples.asking import Wanted
from camdf.gate import Guards, Limits, Privilege, Records, Rollout
from camdf.gate.privilege import WrittenPrivilege
from camdf.gate.target import Target
from camdf.gate.worth import Conversation
from camdf.policies.registry import LIBRARY
from camdf.prices import Prices
from camdf.runtime.breaker import Breaker
from camdf.runtime.docstrings import meanings
from camdf.runtime.settings import checks_of
from camdf.scorers import BM25, Fusion, Necessity
from camdf.service import config

TABLES: dict[str, dict[str, type[Any]]] = {
    "settings": {kind.__name__: kind for kind in (Guards, Privilege, Limits, Rollout, Records)},
    "worth": {kind.__name__: kind for kind in (Payoff, Target, Prices, Conversation, Wanted, Necessity)},
    "keys": {
        "[gate]": config.GateSettings,
        "[gate.scorer]": config.ScorerSettings,
        "[gate.privilege]": WrittenPrivilege,
        "[server]": config.ServerSettings,
        "[limits]": config.LimitSettings,
        "[learn]": config.LearnSettings,
    },
}
"""The classes whose fields stand between two marks, by what the page calls them."""

SHORT = {
    r"^(.*), or a function that returns it": r"\1, or a function",
    r"^a share from 0 to 1": "0 to 1",
    r"^names of camdf.core.features.COLUMNS.*": "columns, in their order",
    r"^a whole number, 0 to 9007199254740992": "integer ≥ 0",
    r"^a finite number from -1e\+100 to 1e\+100": "number",
    r"^a list of at most 16384 numbers from 0 to 1": "numbers, each 0 to 1",
    r"^a list of at most 16384 ": "",
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


def takes(kind: Any, name: str) -> str:
    """What a field must be, in the words of its check."""
    try:
        checks_of(kind)[name](Nothing())
    except ValueError as error:
        must = str(error).partition(" must be ")[2] or str(error)
        must = must.removesuffix(", or None")
        for long, words in SHORT.items():
            must = re.sub(long, words, must)
        return must
    raise AssertionError(f"{kind.__name__}.{name} takes anything")


def table(title: str, kind: type[Any]) -> str:
    """The fields of a class as a table."""
    rows = [f"| `{title}` | must be | default | |", "| --- | --- | --- | --- |"]
    said = meanings(kind)
    in_file = title.startswith("[")
    for field in fields(kind):
        if field.init and field.name in said:
            value = field.default
            if value is MISSING and field.default_factory is not MISSING:
                value = field.default_factory()
            default = ""
            if value is not MISSING and not (in_file and value is None):
                default = f"`{written_value(value, in_file)}`"
            must = takes(kind, field.name)
            rows.append(f"| `{field.name}` | {must} | {default} | {said[field.name]} |")
    return "\n".join(rows)


def constructors(what: str, kinds: Sequence[type[Any]]) -> str:
    """The settings that the constructors of some classes keep, as a table; what they do is said by the classes."""
    rows = [f"| {what} | setting | must be | default |", "| --- | --- | --- | --- |"]
    for kind in kinds:
        for name, setting in signature(kind).parameters.items():
            if name in checks_of(kind):
                default = "" if setting.default is setting.empty else written_default(setting.default)
                rows.append(f"| `{kind.__name__}` | `{name}` | {takes(kind, name)} | {default} |")
    return "\n".join(rows)


def written_default(value: Any) -> str:
    """The default of a policy's setting; of the feature map's columns, by the name of their list."""
    for name in ("FULL", "LITE", "AGGREGATES", "COST_FREE"):
        if value is getattr(features, name):
            return f"`{name}`"
    return f"`{value!r}`"


def written_value(value: Any, in_file: bool) -> str:
    """A default, as Python or as TOML has it."""
    if in_file:
        return json.dumps(value)
    return getattr(value, "__name__", repr(value))


def written(page: str) -> str:
    """The page with its tables as the code has them now."""
    tables = {mark: "\n\n".join(starmap(table, kinds.items())) for mark, kinds in TABLES.items()}
    tables["policies"] = constructors("policy", LIBRARY)
    tables["others"] = constructors("class", (Fusion, BM25, Breaker))
    for mark, rows in tables.items():
        before, begin, rest = page.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- end of {mark} -->")
        page = f"{before}{begin}\n{rows}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE = Path(__file__).with_name("settings.md")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
