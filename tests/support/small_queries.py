"""Settings of a Spark session for many queries over few rows: what is made for large ones would take most of the time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",  # plans again after each stage
    "spark.sql.ui.explainMode": "simple",  # each query's text, for nobody
}
ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}


@contextlib.contextmanager
def told(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A session has these settings within, and those of before behind it."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, str(value))
