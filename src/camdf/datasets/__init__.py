"""Logged tasks: 17 benchmark domains that ship as numbers, texts read from a folder you name, and data of your own.

>>> from camdf import datasets
>>> logged = datasets.load("retail", scorer="claude")

Sources, licences and attributions are in `SOURCES.md` beside this file, and in `DOMAINS` and `SECOND_LOOK`.
"""

from camdf.datasets.domains import DOMAINS, SECOND_LOOK, Domain, scorers, second
from camdf.datasets.files import read, read_csv, read_jsonl, read_parquet, write_jsonl, write_parquet
from camdf.datasets.quality import ScoreQuality, as_markdown, quality_table, score_quality
from camdf.datasets.shipped import (
    ToolSize,
    costs,
    labels,
    load,
    projected,
    projection,
    self_selected,
    sizes,
    task_vectors,
    tools,
)
from camdf.datasets.texts import TaskText, Texts, texts_from_folder, texts_from_tau2_bench, texts_from_tau_bench
from camdf.errors import DataError

__all__ = [
    "DOMAINS",
    "SECOND_LOOK",
    "DataError",
    "Domain",
    "ScoreQuality",
    "TaskText",
    "Texts",
    "ToolSize",
    "as_markdown",
    "costs",
    "labels",
    "load",
    "projected",
    "projection",
    "quality_table",
    "read",
    "read_csv",
    "read_jsonl",
    "read_parquet",
    "score_quality",
    "scorers",
    "second",
    "self_selected",
    "sizes",
    "task_vectors",
    "texts_from_folder",
    "texts_from_tau2_bench",
    "texts_from_tau_bench",
    "tools",
    "write_jsonl",
    "write_parquet",
]
