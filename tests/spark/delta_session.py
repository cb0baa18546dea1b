"""Read one Delta table with Spark, and write another, as somebody who has never heard of the engine would.

python delta_session.py READ WRITTEN
"""

import json
import sys

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

builder = (
    SparkSession.builder.master("local[1]")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.ui.enabled", "false")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
count, total = spark.read.format("delta").load(sys.argv[1]).selectExpr("count(*)", "sum(n)").first()
written = f"delta.`{sys.argv[2]}`"
spark.sql(
    f"CREATE TABLE {written} USING delta PARTITIONED BY (p) "
    "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false') "
    "AS SELECT id AS k, timestamp_millis(id) AS at, concat('part ', id % 2) AS p FROM range(6)"
)
spark.sql(f"UPDATE {written} SET at = timestamp_millis(1000) WHERE k = 3")
spark.sql(f"DELETE FROM {written} WHERE k = 4")
marked = f"delta.`{sys.argv[2]}-marked`"
spark.sql(
    f"CREATE TABLE {marked} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
    "AS SELECT id AS k FROM range(0, 11, 1, 1)"
)
spark.sql(f"DELETE FROM {marked} WHERE k = 4")
spark.stop()
print("RESULT " + json.dumps([count, total]))
