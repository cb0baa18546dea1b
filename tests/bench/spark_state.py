"""Peer (d): the same count with Spark's own transformWithState in Python, one call of the state a record.

RocksDB state store with changelog checkpointing on, local[2]. ``python spark_state.py RECORDS_PER_BATCH BATCHES KEYS
FOLDER`` prints its result as JSON. The first batch (start-up, empty state) does not count.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from keyed_count import MULTIPLIER

WARM_UP = 1
STATE = StructType([StructField("count", LongType())])
OUTPUT = StructType([StructField("key", LongType()), StructField("count", LongType())])
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class CountPerKey(StatefulProcessor):
    """The measured function in Spark's terms."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("count", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        state = self.state
        for _ in rows:
            count = state.get()[0] if state.exists() else 0
            state.update((count + 1,))
            if (count + 1) % 1000 == 0:
                yield Row(key=key[0], count=count + 1)

    def close(self) -> None:
        pass


def run(records: int, batches: int, keys: int, folder: str) -> dict[str, Any]:
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", records)
        .option("numPartitions", 2)
        .load()
    )
    counts = (
        numbers.selectExpr(f"(value * {MULTIPLIER}) % {keys} AS key", "value")
        .groupBy("key")
        .transformWithState(
            statefulProcessor=CountPerKey(), outputStructType=OUTPUT, outputMode="Update", timeMode="None"
        )
    )
    query = (
        counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", folder).start()
    )
    durations: dict[int, int] = {}
    while len(durations) < WARM_UP + batches:
        time.sleep(0.2)
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                durations[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
    query.stop()
    counted = [ms for _, ms in sorted(durations.items())[WARM_UP : WARM_UP + batches]]
    return {
        "records": records * batches,
        "seconds": sum(counted) / 1000,
        "records_per_s": records * batches / (sum(counted) / 1000),
        "batch_ms_median": statistics.median(counted),
    }


def main() -> None:
    records, batches, keys, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    print("RESULT " + json.dumps(run(records, batches, keys, folder)), flush=True)


if __name__ == "__main__":
    main()
