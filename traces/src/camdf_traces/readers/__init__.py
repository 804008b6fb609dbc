"""Readers: traces of any tracer become spans of one table. `read_spans` is all that is needed from here."""

from camdf.mining.readers.formats import FORMATS
from camdf.mining.readers.reading import Reading, ReadingReport, read_spans

__all__ = ["FORMATS", "Reading", "ReadingReport", "read_spans"]
