"""Delete the requests of a conversation, a user or a tenant from what a service keeps, while it runs or not.

They stand in the files of past requests, in the decisions to learn from, and in the last good version. Outcomes name
decisions, and neither a request nor whose it was; a policy that has learned holds coefficients. Both stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from camdf._files import write_whole
from camdf.datasets.examples import Example
from camdf.errors import UsageError
from camdf.mining.forget import Whose, forget_examples, without_examples
from camdf.service import config_file
from camdf.service.lessons import Seen, SeenLog, alone_with
from camdf.service.store import LAST_GOOD, writing


@dataclass(frozen=True)
class ForgotServed:
    """What was deleted: lines of files of past requests, and decisions."""

    examples: int
    decisions: int
    urls: list[str]
    """Files of past requests in which nothing was deleted."""

    def __str__(self) -> str:
        told = f"Forgot {self.examples:,} examples and {self.decisions:,} decisions."
        urls = (f"{url} is a URL, and as it was: delete from the file that you copy there." for url in self.urls)
        return "\n".join([told, *urls])


def forget_served(path: Path, states: Sequence[Path], whose: Whose, tenant: str = "") -> ForgotServed:
    """Delete from the files that a configuration names, and from state folders.

    A `camdf learn` that is under way ends first, and writes nothing back. Of a tenant, those named go, or else all that
    was logged.
    """
    names_some = bool(whose.conversation or whose.user)
    if not (names_some or tenant):
        raise UsageError("Nothing to forget was named. Name a --conversation, a --user or a --tenant.")
    for state in states:
        if not state.is_dir():
            raise UsageError(f"There is no state folder {state}. Name the one that camdf serve has: --state.")
    text, folder = config_file.read_configuration(path)
    configuration = config_file.parsed(text, path.name)
    owners: dict[str, set[str]] = {}
    for place in configuration.places():
        owners.setdefault(configuration.settings(*place).examples, set()).add(place[0])

    def is_theirs(source: str, example: Example) -> bool:
        if tenant and owners.get(source) != {tenant}:
            return False
        return whose.asked(example.group, example.user) if names_some else example.origin == "logged"

    def was_theirs(decision: Seen) -> bool:
        return tenant in ("", decision.tenant) and (not names_some or whose.asked(decision.group or decision.id))

    urls = [source for source in owners if "://" in source]
    files = [source for source in owners if source and source not in urls]
    with alone_with(states):
        decisions = sum(SeenLog(state).forget(was_theirs) for state in states)
        examples = sum(forget_examples(Path(folder) / source, partial(is_theirs, source)) for source in files)
        for state in states:
            _forget_last_good(state, is_theirs)
    return ForgotServed(examples, decisions, urls)


def _forget_last_good(state: Path, is_gone: Callable[[str, Example], bool]) -> None:
    with writing(state):
        for path in state.glob(LAST_GOOD.format("*")):
            version = json.loads(path.read_text(encoding="utf-8"))
            for source, content in version.get("examples", {}).items():
                version["examples"][source], _ = without_examples(content, source, partial(is_gone, source))
            write_whole(path, json.dumps(version).encode())
