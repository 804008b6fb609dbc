"""The Spark session that the commands use."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from camdf.errors import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session() -> SparkSession:
    """The session that spark-submit or the notebook made, else a local one on all cores, in this very Python."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets; its executors have a Python of their own
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return require("pyspark.sql", "spark").SparkSession.builder.appName("camdf").getOrCreate()
