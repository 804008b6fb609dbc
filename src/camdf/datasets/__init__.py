"""Logged tasks of your own, read from JSON Lines, Parquet or CSV and written back; and a sample to try things on."""

from camdf.datasets.examples import Example, read_examples, write_examples
from camdf.datasets.files import read, read_csv, read_jsonl, read_parquet, write_jsonl, write_parquet
from camdf.datasets.sample import sample
from camdf.datasets.texts import TaskText, Texts, texts_from_folder
from camdf.datasets.tool_names import joined_copies, renamed
from camdf.errors import DataError

__all__ = [
    "DataError",
    "Example",
    "TaskText",
    "Texts",
    "joined_copies",
    "read",
    "read_csv",
    "read_examples",
    "read_jsonl",
    "read_parquet",
    "renamed",
    "sample",
    "texts_from_folder",
    "write_examples",
    "write_jsonl",
    "write_parquet",
]
