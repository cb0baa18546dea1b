"""Count the rows of a changelog table with Spark SQL, as somebody who has never heard of the engine would.

python count_rows.py TABLE
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
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
table = f"delta.`{sys.argv[1]}`"
result = {
    "rows": {
        row[0]: row[1] for row in spark.sql(f"SELECT operation, count(*) FROM {table} GROUP BY 1").collect()
    },
    "checkpoints": [
        json.loads(row[0])["rows"]
        for row in spark.sql(f"SELECT value FROM {table} WHERE operation = 'checkpoint'").collect()
    ],
    "newest": {
        row[0]: row[1]
        for row in spark.sql(
            f"SELECT key, max_by(value, struct(checkpoint_id, sequence)) FROM {table} "
            "WHERE state = 'count' AND operation = 'put' GROUP BY key"
        ).collect()
    },
}
spark.stop()
print("RESULT " + json.dumps(result))
