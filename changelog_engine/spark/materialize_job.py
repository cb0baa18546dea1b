"""Folds as one Spark job without a shuffle: a task folds a range of key groups and returns what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from changelog_engine.spark.session import spark_context


class SparkFolds:
    """Runs fold tasks on Spark, for logs on storage that all executors reach.

    Args:
        master: where, such as ``local[2]``.
        fold: what a task does; importable on the executors.
    """

    def __init__(self, master: str, fold: Callable[[Any], Any]) -> None:
        self._master = master
        self._fold = fold

    def __call__(self, tasks: Sequence[Any]) -> list[Any]:
        """Run tasks; results in their order.

        Raises:
            py4j.protocol.Py4JJavaError: a task failed.
        """
        if not tasks:
            return []
        context = spark_context({"spark.master": self._master})
        results: list[Any] = context.parallelize(list(tasks), len(tasks)).map(self._fold).collect()
        return results
