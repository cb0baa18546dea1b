"""The history of one aircraft's state, out of the changelog table with Spark SQL.

    python history.py TABLE AIRCRAFT

Each mutation is one row; nothing here knows the job. Prints one JSON object a row, newest last.
"""

import json
import sys

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

QUERY = """
SELECT attempt, checkpoint_id AS checkpoint,
       date_format(event_time, 'MMM dd HH:mm') AS event_time,
       state, operation, map_key, value
FROM delta.`{table}`
WHERE operator = 'aircraft' AND key = '"{aircraft}"' AND state IN ('position', 'routes', 'miles', 'pauses')
ORDER BY checkpoint_id, event_time, sequence
""".strip()


def history(table: str, aircraft: str) -> list[dict[str, object]]:
    """Run the query on a Spark of its own and give the rows."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("history")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    try:
        return [row.asDict() for row in spark.sql(QUERY.format(table=table, aircraft=aircraft)).collect()]
    finally:
        spark.stop()


if __name__ == "__main__":
    for row in history(sys.argv[1], sys.argv[2]):
        print(json.dumps(row))
