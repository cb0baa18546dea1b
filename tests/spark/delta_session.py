"""A Spark session with Delta Lake that reads and writes tables, as somebody who has never heard of the engine would.

Answers each line of standard input, JSON of a function's name and its arguments, with a line ``RESULT`` and JSON.
"""

import json
import sys

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.ui.enabled", "false")
    # Many queries over few rows: compiling them would take most of the time.
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    .config("spark.sql.adaptive.enabled", "false")
    .config("spark.sql.ui.explainMode", "simple")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()


def sums(path):
    """Of a table with a column n, how many rows it has and what their sum is."""
    return list(spark.read.format("delta").load(path).selectExpr("count(*)", "sum(n)").first())


def write(path):
    """A table with an update and a deletion; and beside it one whose deletion is a mark."""
    written, marked = f"delta.`{path}`", f"delta.`{path}-marked`"
    spark.sql(
        f"CREATE TABLE {written} USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false') "
        "AS SELECT id AS k, timestamp_millis(id) AS at, concat('part ', id % 2) AS p FROM range(6)"
    )
    spark.sql(f"UPDATE {written} SET at = timestamp_millis(1000) WHERE k = 3")
    spark.sql(f"DELETE FROM {written} WHERE k = 4")
    spark.sql(
        f"CREATE TABLE {marked} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
        "AS SELECT id AS k FROM range(0, 11, 1, 1)"
    )
    spark.sql(f"DELETE FROM {marked} WHERE k = 4")


def count(path):
    """Of a changelog table, how many rows of each operation it has, what checkpoints say, and the newest counts."""
    table = f"delta.`{path}`"
    operations = spark.sql(f"SELECT operation, count(*) FROM {table} GROUP BY 1")
    checkpoints = spark.sql(f"SELECT value FROM {table} WHERE operation = 'checkpoint'")
    newest = spark.sql(
        f"SELECT key, max_by(value, struct(checkpoint_id, sequence)) FROM {table} "
        "WHERE state = 'count' AND operation = 'put' GROUP BY key"
    )
    return {
        "rows": {row[0]: row[1] for row in operations.collect()},
        "checkpoints": [json.loads(row[0])["rows"] for row in checkpoints.collect()],
        "newest": {row[0]: row[1] for row in newest.collect()},
    }


FUNCTIONS = {function.__name__: function for function in (sums, write, count)}
for line in sys.stdin:
    name, *arguments = json.loads(line)
    print("RESULT " + json.dumps(FUNCTIONS[name](*arguments)), flush=True)
spark.stop()
