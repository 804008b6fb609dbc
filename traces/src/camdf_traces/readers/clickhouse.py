"""The spans of a table in ClickHouse: a file for each day, whose rows come when it is read.

    clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?table=NAME&since=2026-11-01&until=2026-11-15&project=ID&secure=1

Everything but the host may be left out. USER and PASSWORD are better given as CLICKHOUSE_USER and CLICKHOUSE_PASSWORD,
since others on a machine see the arguments of a command. No message has the password. `until` is the first day that is
not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from logging import NullHandler, getLogger
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from camdf.errors import DataError, UsageError, needs, require
from camdf_traces.readers.clickhouse_sql import OTEL, SHAPES, Shape, days_of, quoted_name, shape_of, spans_of

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

SCHEME = "clickhouse://"
ENDING = ".arrows"
"""How the name of a day ends: its rows are a stream of Arrow."""

BYTES_A_ROW = 1_000
"""What a row counts for where files are divided and progress is shown, so that a megabyte is a thousand spans."""

PACKED = {"output_format_arrow_compression_method": "zstd"}
"""What the server is asked to do; one that lets the user change nothing packs less well."""

PORTS = {False: 8123, True: 8443}
FIRST = date(1970, 1, 1)
LAST = date(2100, 1, 1)

WHAT_TO_DO = {
    60: "Name the table with ?table=NAME, or look at SHOW TABLES",
    81: "Name the database after the host, as in clickhouse://HOST/DATABASE",
    164: "The user must be allowed to read",
    192: "Set CLICKHOUSE_USER to a user of that server",
    193: "Set CLICKHOUSE_PASSWORD to the password of that user",
    241: "Read fewer days at a time, with ?since=DAY&until=DAY",
    497: "Let an administrator GRANT SELECT on the table to the user",
    516: "Set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD to those of that server",
}
"""By the number that ClickHouse gives an error."""


def without_password(place: str) -> str:
    """A URL as it may be shown."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", place)


@dataclass(frozen=True)
class Store:
    """A table of a server, and the part of it that is read."""

    host: str
    port: int
    secure: bool
    user: str
    password: str = field(repr=False)
    database: str
    table: str
    since: date
    until: date
    project: str

    @classmethod
    def of_url(cls, url: str) -> Store:
        """What a URL says, and for what it leaves out the environment."""
        shown = without_password(url)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UsageError(
                f"{shown} must be clickhouse://HOST:PORT/DATABASE. Write / ? # @ : in a name or a password as %2F %3F "
                "%23 %40 %3A, or give the password as CLICKHOUSE_PASSWORD."
            ) from None
        told = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(told.keys() - {"table", "since", "until", "project", "secure"})
        database = unquote(parts.path.strip("/"))
        if unknown or "/" in database or parts.fragment or not parts.hostname:
            raise UsageError(
                f"{shown} must be clickhouse://HOST/DATABASE with none but ?table=, since=, until=, project= and "
                f"secure=1. Got {', '.join(unknown) or 'another path'}."
            )
        secure = told.get("secure", "0") in ("1", "true")
        return cls(
            host=parts.hostname,
            port=port or PORTS[secure],
            secure=secure,
            user=unquote(parts.username or "") or os.environ.get("CLICKHOUSE_USER", "default"),
            password=unquote(parts.password or "") or os.environ.get("CLICKHOUSE_PASSWORD", ""),
            database=database or "default",
            table=told.get("table", ""),
            since=_day(told, "since", FIRST),
            until=_day(told, "until", LAST),
            project=told.get("project", ""),
        )

    @property
    def shown(self) -> str:
        """The place, as messages have it."""
        return f"{SCHEME}{self.host}:{self.port}/{self.database}"

    @property
    def name(self) -> str:
        """What tells this source from others, whoever reads which of its days."""
        return f"{self.shown}?table={self.table}&project={self.project}"


def is_clickhouse(place: object) -> bool:
    """Whether traces are named by a URL of ClickHouse."""
    return isinstance(place, str) and place.startswith(SCHEME)


def on_day(url: str, day: date) -> str:
    """The URL of one day of the table that a URL names."""
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}since={day}&until={day + timedelta(days=1)}"


def _day(told: Mapping[str, str], name: str, otherwise: date) -> date:
    try:
        return date.fromisoformat(told.get(name, str(otherwise)))
    except ValueError:
        raise UsageError(f"The {name}= of a URL must be a day as 2026-11-14. Got {told[name]!r}.") from None


@dataclass(frozen=True)
class FoundTable:
    """The table as it was found: its shape, its statement, and the days that have rows."""

    store: Store
    shape: Shape
    statement: str
    rows: Mapping[date, int]
    """How many there are, by day."""


class DaysOfSpans:
    """The days of a table as files, for what reads files: their names, their sizes and what is in them."""

    def __init__(self, url: str, with_text: bool) -> None:
        self._store = Store.of_url(url)
        self._with_text = with_text

    @cached_property
    def _found(self) -> FoundTable:
        with connected(self._store) as client:
            return _found(client, self._store, self._with_text)

    @property
    def store(self) -> Store:
        """Where they are."""
        return self._found.store

    @property
    def days(self) -> list[date]:
        """The days that have spans."""
        return list(self._found.rows)

    def isfile(self, root: str) -> bool:
        """Whether it is one file: a table is none."""
        return False

    def find(self, root: str) -> list[str]:
        """The names of the days that have spans."""
        return [f"{day}{ENDING}" for day in self.days]

    def size(self, name: str) -> int:
        """What a day counts for."""
        return self._found.rows[date.fromisoformat(name.removesuffix(ENDING))] * BYTES_A_ROW

    @contextmanager
    def open(self, name: str, mode: str = "rb") -> Iterator[IO[bytes]]:
        """The rows of a day as a stream of Arrow."""
        day = date.fromisoformat(name.removesuffix(ENDING))
        window = _parameters(self.store, day, day + timedelta(days=1))
        with connected(self.store) as client:
            stream: Any = client.raw_stream(self._found.statement, window, PACKED, fmt="ArrowStream")
            try:
                with stream:
                    yield stream
                    if stream.read(1):
                        raise ValueError("there is more after the end of the rows")
            except Exception as error:  # what came so far must not be taken for the whole day
                raise DataError(
                    f"{self.store.shown} broke off while {day} was read ({type(error).__name__}). Run the command "
                    "again, and read fewer days at a time where the server has too little memory."
                ) from None


@contextmanager
def connected(store: Store) -> Iterator[Client]:
    """A connection; what goes wrong there is said with what to do, and never with the password."""
    connect = require("clickhouse_connect", "clickhouse")
    getLogger("clickhouse_connect").addHandler(NullHandler())  # what goes wrong is raised, and said once
    connect.common.set_setting("invalid_setting_action", "drop")
    with needs("clickhouse"):
        from clickhouse_connect.driver.exceptions import ClickHouseError
    try:
        client = connect.get_client(
            host=store.host,
            port=store.port,
            secure=store.secure,
            username=store.user,
            password=store.password,
            database=store.database,
            compress=False,
            autogenerate_session_id=False,
        )
        try:
            yield client
        finally:
            client.close()
    except ClickHouseError as error:
        raise DataError(_why(store, error)) from None


def _why(store: Store, error: Any) -> str:
    if error.code is None:
        return (
            f"{store.shown} does not answer as ClickHouse. Check the host and the port of its HTTP interface, "
            f"{PORTS[False]} or with ?secure=1 {PORTS[True]}, and that the server runs."
        )
    words = str(error).rpartition("server response: ")[2].splitlines()[0][:300]
    if store.password:
        words = words.replace(store.password, "***")
    return f"{store.shown} refused: {words} {WHAT_TO_DO.get(error.code, 'Ask whoever runs the server')}."


def _found(client: Client, store: Store, with_text: bool) -> FoundTable:
    """The table that is asked for, or the first that is known."""
    table = store.table or _first_known(client, store)
    place = f"{quoted_name(store.database)}.{quoted_name(table)}"
    described = client.query(f"DESCRIBE TABLE {place}").result_rows
    columns = {str(row[0]): str(row[1]) for row in described}
    shape = shape_of(table, columns)
    if store.project and shape is OTEL:
        raise UsageError(f"The project= of a URL is for tables of Langfuse, and {table} is none. Leave it out.")
    counted = client.query(days_of(shape, place, store.project), _parameters(store, store.since, store.until))
    rows = {day: int(count) for day, count in counted.result_rows}
    if not rows:
        raise DataError(
            f"{store.shown} must have spans in {table} from {store.since} until {store.until}, and has none. Set "
            "?since= and until= to days that it has."
        )
    statement = spans_of(shape, quoted_name(store.database), place, columns, with_text, store.project)
    return FoundTable(replace(store, table=table), shape, statement, rows)


def _first_known(client: Client, store: Store) -> str:
    names = [shape.table for shape in SHAPES]
    asked = "SELECT name FROM system.tables WHERE database = {database:String} AND name IN {names:Array(String)}"
    there = {row[0] for row in client.query(asked, {"database": store.database, "names": names}).result_rows}
    known = [name for name in names if name in there]
    if not known:
        raise DataError(f"{store.shown} must have one of {', '.join(names)}, and has none. Name another: ?table=NAME.")
    return known[0]


def _parameters(store: Store, since: date, until: date) -> dict[str, Any]:
    """What a statement is told: the window in UTC, and the project."""
    return {"since": f"{since} 00:00:00", "until": f"{until} 00:00:00", "project": store.project}
