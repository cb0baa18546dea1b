"""Makes Spark's sessions know the formats of a job's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHES = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Let a session read jobs by ``spark.read`` and ``spark.readStream``, and by ``CREATE TEMPORARY VIEW ... USING`` in SQL.

    The formats are ``changelog_state``, a state at a checkpoint, and ``changelog_mutations``, the mutations of a job as a
    table or as a stream. Where the session has ``spark.sql.python.filterPushdown.enabled`` when it is told, filters on keys
    (``changelog_state``), on checkpoints and on their times (``changelog_mutations``) choose the files that are read.

    Args:
        spark: a running session.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> count = {"path": "changelog-data/words", "operator": "count", "state": "count"}  # doctest: +SKIP
        >>> spark.read.format("changelog_state").options(**count).load().show()  # doctest: +SKIP
    """
    from changelog_engine.history.mutations_source import MutationsDataSource, PushingMutationsSource
    from changelog_engine.history.state_source import PushingStateSource, StateDataSource

    pushes = spark.conf.get(_PUSHES, "false") == "true"
    spark.dataSource.register(PushingStateSource if pushes else StateDataSource)
    spark.dataSource.register(PushingMutationsSource if pushes else MutationsDataSource)
