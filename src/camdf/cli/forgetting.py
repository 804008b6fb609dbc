"""Deleting what was kept: forget."""

from __future__ import annotations

import argparse
from contextlib import redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from camdf.cli.parser import add_json, notes_stream, print_answer, print_json, read_day
from camdf.cli.service import STATE
from camdf.datasets.forgetting import Whose, forget_examples
from camdf.datasets.ids import id_key
from camdf.errors import DataError, UsageError
from camdf.examples.mined import mined_tasks
from camdf.integrations.gateway.config import served_file
from camdf.integrations.gateway.folder import Folder


def add_commands(commands: Any) -> None:
    """forget."""
    forget = commands.add_parser(
        "forget",
        help="delete a session, user, tenant or old days from what is kept",
        example="camdf forget --user ada@example.com table",
    )
    forget.add_argument(
        "table", help="what camdf mine --into wrote, the file of camdf mcp or serve, or examples (.jsonl)"
    )
    forget.add_argument("--conversation", metavar="ID", default="", help="the session whose traces are deleted")
    forget.add_argument("--user", metavar="ID", default="", help="the user whose traces are deleted")
    forget.add_argument("--tenant", metavar="NAME", default="", help="of a service: this tenant alone, or all of it")
    forget.add_argument(
        "--state",
        type=Path,
        action="append",
        help=f"of a service: its state folder; may be given several times (default: {STATE})",
    )
    forget.add_argument("--before", type=read_day, metavar="DAY", help="traces that began before this day: 2026-01-31")
    forget.add_argument("--grace-hours", type=int, default=0, help="hours until the files are deleted (default: 0)")
    forget.add_argument(
        "--alone", action="store_true", help="nobody else writes now: delete what killed runs left, too"
    )
    add_ids(forget)
    add_json(forget)
    forget.set_defaults(run=_forget)


def add_ids(parser: argparse.ArgumentParser) -> None:
    """How the ids of sessions and users are written down."""
    ids = parser.add_mutually_exclusive_group()
    ids.add_argument(
        "--id-key", type=Path, metavar="FILE", help="the key that hashes ids of sessions and users (default: your own)"
    )
    ids.add_argument("--plain-ids", action="store_true", help="leave ids of sessions and users as they are")


def id_key_of(options: argparse.Namespace) -> bytes | None:
    """The key that a command hashes ids with; None where they stay as they are."""
    if options.plain_ids:
        return None
    return id_key(options.id_key)


def _forget(options: argparse.Namespace) -> int:
    named = Path(options.table)
    if named.suffix == ".toml":
        return _forget_served(named, options)
    if options.tenant or options.state:
        raise UsageError(f"--tenant and --state are for a service's configuration (.toml). Got {named} instead.")
    if gateways := _gateways_of(named):
        if options.conversation or options.user:
            raise UsageError(
                "The log of camdf mcp does not say whose a line is. Name a day, --before 2026-01-31, or nothing, to "
                "delete all of it."
            )
        count = sum(gateway.forget(options.before) for gateway in gateways)
        print_answer(options, f"Forgot {count:,} searches and calls.", {"lines": count})
        return 0
    whose = Whose(options.conversation, options.user, id_key_of(options))
    if named.suffix == ".jsonl" and not named.is_dir():
        if not (whose.conversation or whose.user):
            raise UsageError("Examples know whose they are. Name a --conversation or a --user, or delete the file.")
        count = forget_examples(named, lambda example: whose.asked(example.group, example.user))
        print_answer(options, f"Forgot {count:,} examples.", {"lines": count})
        return 0
    with redirect_stdout(notes_stream(options)):
        forgotten = mined_tasks().forget_in_table(
            options.table,
            conversation=options.conversation,
            user=options.user,
            before=options.before,
            alone=options.alone,
            id_key=whose.id_key,
            hours=options.grace_hours,
        )
        print(forgotten)
    if options.json:
        print_json(forgotten.record())
    return 0


def _gateways_of(named: Path) -> list[Folder]:
    """What gateways keep of a client's file: by the file itself and, once it starts the gateway, by the copy of it."""
    if not (named.suffix == ".json" and named.is_file()):
        return [folder for folder in [Folder(named)] if folder.log.is_file()]
    files = {named.resolve()}
    with suppress(OSError, DataError):  # what cannot be read has no copy
        files.add(served_file(named).resolve())
    return [Folder.of_client_file(file) for file in files]


def _forget_served(configuration: Path, options: argparse.Namespace) -> int:
    from camdf.service.forget import forget_served

    if options.before:
        raise UsageError("A service keeps requests without their days. Name a --conversation, a --user or a --tenant.")
    whose = Whose(options.conversation, options.user, id_key_of(options))
    forgotten = forget_served(configuration, options.state or [STATE], whose, options.tenant)
    print_answer(options, forgotten, asdict(forgotten))
    return 0
