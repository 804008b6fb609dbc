"""The settings of a Spark that starts fast and stays small."""

from __future__ import annotations

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # small jobs: compile little
    "spark.sql.codegen.wholeStage": "false",
}
