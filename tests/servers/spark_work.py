"""A job, its history and queries, of the kinds that tests have: what a JVM of tests loads.

    spark_work.py FOLDER

The folder is empty.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from api.common import Types
from api.datastream import StreamExecutionEnvironment
from changelog_engine import history

_TIMEOUT_S = 600


def _work(folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(100).enable_changelog_state_backend(True)
    env.get_checkpoint_config().set_checkpoint_storage_dir(str(folder / "log"))
    numbers = env.from_collection(list(range(1_000)), Types.LONG()).key_by(lambda n: n % 10, Types.LONG())
    numbers.reduce(lambda a, b: a + b).key_by(lambda n: n % 10, Types.LONG()).reduce(max).print()
    env.execute("classes")
    (log,) = (folder / "log").iterdir()
    opened = history.open(spark, str(log))
    for view in spark.catalog.listTables(opened.database):
        spark.table(f"{opened.database}.{view.name}").collect()
    opened.close()

    rows = spark.range(100).selectExpr("id", "id % 3 AS k", "struct(id, cast(id AS string) AS s) AS pair")
    for form in ("parquet", "json"):
        rows.write.format(form).save(str(folder / form))
    spark.read.json(str(folder / "json")).createOrReplaceTempView("a")
    spark.read.parquet(str(folder / "parquet")).createOrReplaceTempView("b")
    spark.sql(
        "SELECT a.k, count(*), max_by(b.pair.s, id), collect_list(b.pair), "
        "row_number() OVER (PARTITION BY a.k ORDER BY count(*)) FROM a JOIN b USING (id) "
        "WHERE a.k < 2 GROUP BY a.k HAVING count(*) > 1 ORDER BY a.k"
    ).collect()
    spark.sql("SELECT from_json(to_json(pair), 'id LONG, s STRING') FROM b").toPandas()
    spark.createDataFrame([(1, "a"), (2, None)], "n LONG, s STRING").dropDuplicates().collect()
    schema = StructType.fromJson(spark.table("b").schema.jsonValue())
    _streamed(spark.readStream.schema(schema).parquet(str(folder / "parquet")), folder / "offsets")
    spark.stop()


def _streamed(rows: DataFrame, folder: Path) -> None:
    query = (
        rows.mapInArrow(lambda batches: batches, rows.schema)
        .writeStream.foreachBatch(lambda batch, _: batch.count())
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(_TIMEOUT_S)


if __name__ == "__main__":
    _work(Path(sys.argv[1]))
