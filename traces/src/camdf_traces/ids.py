"""Whose spans these are: ids of sessions and users, hashed on entry, and what a table was told to forget.

What was forgotten is remembered as hashes with a salt of the table's own, so that spans that come late do not bring it
back, and nobody can read from the list what was forgotten.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from camdf.datasets.ids import hashed
from camdf.errors import require
from camdf_traces.delta import contents_of, put
from camdf_traces.spans import day_of

if TYPE_CHECKING:
    import polars as pl

IDS = ("conversation", "user")
"""The columns of a span that say whose it is."""

FORGOTTEN = "_forgotten"
"""The folder of a table that holds what it was told to forget, a file each time."""


def with_hashed_ids(spans: pl.DataFrame, key: bytes | None) -> pl.DataFrame:
    """Spans whose ids are hashed; as they are without a key."""
    polars = require("polars", "mining")
    if key is None:
        return spans
    known = {text: hashed(text, key) for name in IDS for text in spans[name].unique()}
    return spans.with_columns(polars.col(name).replace_strict(known, return_dtype=polars.String) for name in IDS)


@dataclass(frozen=True)
class Forgotten:
    """What a table was told to forget: traces, sessions and users by their marks, and every span that began before."""

    salt: str
    marks: frozenset[str] = frozenset()
    before: str = ""

    @classmethod
    def read(cls, table: str, salt: str) -> Forgotten:
        """All that a table was ever told."""
        records = [json.loads(content) for content in contents_of(f"{table}/{FORGOTTEN}")]
        marks = frozenset(mark for record in records for mark in record["marks"])
        return cls(salt, marks, max((record["before"] for record in records), default=""))

    def mark(self, column: str, text: str) -> str:
        """What is remembered of an id."""
        return hashed(f"{column}/{text}", self.salt.encode())

    def remember(self, table: str, ids: Iterable[tuple[str, str]], before: str = "") -> None:
        """Tell a table to forget these, each a column and an id, and what began before a day."""
        record = {"marks": sorted(self.mark(*column_and_id) for column_and_id in ids), "before": before}
        put(f"{table}/{FORGOTTEN}/{uuid.uuid4().hex}.json", json.dumps(record).encode())

    def covers(self, spans: pl.DataFrame) -> pl.Series:
        """Whether each span is one to forget: it began too early, or its trace has an id that is marked."""
        polars = require("polars", "mining")
        early = spans.select((day_of("start") < self.before).fill_null(False)).to_series()
        if not self.marks:
            return early
        marked = [polars.col(name).is_in(self._marked_in(spans[name])) for name in ("trace_id", *IDS)]
        traces = spans.filter(polars.any_horizontal(marked))["trace_id"]
        return early | spans["trace_id"].is_in(traces.unique().implode())

    def _marked_in(self, ids: pl.Series) -> list[str]:
        """Those of the ids in a column that are marked."""
        return [text for text in ids.unique() if self.mark(ids.name, text) in self.marks]
