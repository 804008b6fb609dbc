"""Delete the requests of a conversation, a user or a tenant from what a service keeps, while it runs or not.

They stand in the files of past requests, in the decisions to learn from, in the last good version, and in what killed
writers of these left. Outcomes name decisions, and neither a request nor whose it was; a policy that has learned holds
coefficients. Both stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from camdf.datasets.examples import Example
from camdf.datasets.forgetting import Whose, forget_examples, without_examples
from camdf.errors import CamdfError, DataError, UsageError
from camdf.runtime.files import clear_unfinished, write_whole
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
    owners = _owners(text, path.name)

    def is_theirs(owned_by: set[str], example: Example) -> bool:
        if tenant and owned_by != {tenant}:
            return False
        return whose.asked(example.group, example.user) if names_some else example.origin == "logged"

    def was_theirs(decision: Seen) -> bool:
        if tenant not in ("", decision.tenant):
            return False
        return not names_some or whose.asked(decision.group or decision.id, decision.user)

    urls = [source for source in owners if "://" in source]
    files = {Path(folder) / source: owned_by for source, owned_by in owners.items() if source and source not in urls}
    examples = 0
    unreadable = []
    with alone_with(states):
        decisions = sum(SeenLog(state).forget(was_theirs) for state in states)
        for file, owned_by in files.items():
            try:
                examples += forget_examples(file, partial(is_theirs, owned_by))
            except FileNotFoundError:  # then the service has what is kept of the last good version
                continue
            except DataError as error:
                unreadable.append(str(error))
            except UnicodeDecodeError:
                unreadable.append(f"{file}: must be text in UTF-8.")
        for state in states:  # after the files, from which the service writes it
            _forget_last_good(state, is_theirs)
    if unreadable:
        raise DataError(f"{unreadable[0]} Nothing was deleted from it, and all else was: mend it, and run this again.")
    return ForgotServed(examples, decisions, urls)


def _owners(configuration: str, name: str) -> dict[str, set[str]]:
    """The tenants of each file of past requests that a configuration names."""
    parsed = config_file.tables_in(configuration, name)
    owners: dict[str, set[str]] = {}
    for place in parsed.places():
        owners.setdefault(parsed.settings(*place).examples, set()).add(place[0])
    return owners


def _forget_last_good(state: Path, is_theirs: Callable[[set[str], Example], bool]) -> None:
    """Delete requests from what is kept of the last good version, by the owners that its own configuration names.

    One that cannot be read goes, since the service could not use it either.
    """
    with writing(state):
        clear_unfinished(state)
        for path in state.glob(LAST_GOOD.format("*")):
            try:
                version = json.loads(path.read_bytes())
                for texts in (version, *version["behind"].values()):
                    owners = _owners(texts["configuration"], version["name"])
                    for source, content in texts["examples"].items():
                        is_gone = partial(is_theirs, owners.get(source, set()))
                        texts["examples"][source], _ = without_examples(content, source, is_gone)
            except (CamdfError, ValueError, TypeError, KeyError, AttributeError):
                path.unlink()
            else:
                write_whole(path, json.dumps(version).encode(), private=True)
