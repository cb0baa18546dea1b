"""``changelog-engine sql``: SQL over a job's typed views, by DuckDB or by Spark. It only reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from changelog_engine.cli.options import PATH, at_option
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.display import Grid
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.sql import QueryResult, query
from changelog_engine.readable import counted


@click.command()
@click.argument("path", type=PATH)
@click.argument("text", metavar="QUERY")
@at_option
@click.option("--spark", is_flag=True, help="Run the query by Spark, in its SQL, which starts a JVM.")
@shows
def sql(path: str, text: str, at: str | None, spark: bool) -> Answer:
    """Run a query over the typed views of a job's states.

    PATH is the job's folder, <base>/<job>. `SELECT * FROM states` says which views there are: <operator>_<state> for each
    state and <operator>_timers, each with a view of its changes whose name ends in _history; mutations; checkpoints. The SQL
    is DuckDB's, or Spark's with --spark.
    """
    found = _by_spark(path, text, at) if spark else query(path, text, at)
    columns = _distinct(found.columns)
    rows = [[_cell(value) for value in row] for row in found.rows]
    documents = [dict(zip(columns, row, strict=True)) for row in found.rows]
    return Answer(documents, [Grid(columns, rows)], notes=[counted(len(rows), "row")])


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, of which none is lost where a query gives one twice: ``key``, ``key_2``."""
    found: list[str] = []
    for name in names:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _by_spark(path: str, text: str, at: str | None) -> QueryResult:
    from pyspark.sql import SparkSession

    from changelog_engine import history
    from changelog_engine.java import check_java

    checkpoint = open_point(path, at).checkpoint
    check_java()
    builder = SparkSession.builder.master("local[*]").appName("changelog-engine sql")
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    opened = history.open(spark, path, checkpoint.id)
    try:
        spark.sql(f"USE {opened.database}")
        frame = spark.sql(text)
        return QueryResult(tuple(frame.columns), [tuple(row) for row in frame.collect()])
    finally:
        spark.sql("USE default")
        opened.close()
        spark.stop()
