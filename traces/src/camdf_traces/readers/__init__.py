"""Readers: traces of any tracer become spans of one table. `read_spans` is all that is needed from here."""

from camdf_traces.readers.formats import FORMATS
from camdf_traces.readers.reading import Reading, ReadingReport, read_spans

__all__ = ["FORMATS", "Reading", "ReadingReport", "read_spans"]
