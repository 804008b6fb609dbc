"""Logged tasks: nine benchmarks that ship as numbers, their texts read from a folder you name, and data of your own.

>>> from camdf import datasets
>>> logged = datasets.load("retail", scorer="claude")

Sources, licences and attributions are in `SOURCES.md` beside this file, and in `DOMAINS`.
"""

from camdf.datasets.domains import DOMAINS, Domain, scorers
from camdf.datasets.files import read, read_csv, read_jsonl, read_parquet, write_jsonl, write_parquet
from camdf.datasets.quality import ScoreQuality, as_markdown, quality_table, score_quality
from camdf.datasets.shipped import ToolSize, costs, labels, load, self_selected, sizes, tools
from camdf.datasets.texts import TaskText, Texts, texts_from_folder, texts_from_tau2_bench, texts_from_tau_bench
from camdf.errors import DataError

__all__ = [
    "DOMAINS",
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
    "quality_table",
    "read",
    "read_csv",
    "read_jsonl",
    "read_parquet",
    "score_quality",
    "scorers",
    "self_selected",
    "sizes",
    "texts_from_folder",
    "texts_from_tau2_bench",
    "texts_from_tau_bench",
    "tools",
    "write_jsonl",
    "write_parquet",
]
