"""The days of a table in ClickHouse, each mined into a table of tasks by itself, and none of them twice.

The commit that puts the spans of a day down carries its number, beside the name of the source. A command that was
stopped goes on with the first day after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from camdf.datasets.files import File
from camdf_traces.days import MinedDay, last_number, mine_day
from camdf_traces.readers.clickhouse import DaysOfSpans, on_day
from camdf_traces.spans import SPAN_COLUMNS, no_rows

ReadDay = Callable[[str], AbstractContextManager[list[Path]]]
"""What reads the spans of a URL into span tables."""


def mine_each_day(url: str, table: File, read: ReadDay, choices: Mapping[str, Any]) -> Generator[MinedDay, None, None]:
    """Bring every day of a URL into a table that is over, has spans, and was not brought before; first days first.

    `choices` are those of `camdf_traces.days.mine_day`. The day that goes on has more spans to come, so it is left for
    tomorrow.
    """
    source = DaysOfSpans(url, with_text=False)
    name = f"read {blake2b(source.store.name.encode(), digest_size=8).hexdigest()}"
    today = datetime.now(UTC).date()
    before = last_number(table, name)
    done = date.min if before is None else date.fromordinal(before)
    new = [day for day in source.days if done < day < today]
    for day in new:
        with read(on_day(url, day)) as tables:
            yield mine_day(tables, table, day, **choices, numbers={name: day.toordinal()})
    if before is not None and not new:  # whoever was killed in between has left the tasks of the last day to others
        yield mine_day(no_rows(SPAN_COLUMNS), table, done, **choices)
