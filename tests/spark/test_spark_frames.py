"""DataFrames as sources and Delta tables as sinks, on Spark: each row once, over failures and restarts."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pytest
from driver_process import HERE, wait_for
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from servers import spark_classes
from session_jobs import Count, Slowly, environment

from api.common import RestartStrategies, Row, Types, WatermarkStrategy
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.functions import MapFunction
from changelog_engine.clock import Deadline
from changelog_engine.connectors import delta as engine
from changelog_engine.connectors.protocols import SinkContext
from changelog_engine.connectors.spark_frames import StreamingDataFrameSource
from changelog_engine.errors import ConfigurationError, ConnectorError, NotSupportedError
from changelog_engine.testing.conformance import check_source
from changelog_engine.types import Instant
from patience import session

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]
PAIR = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])


def table_of(path: Path) -> list[tuple[Any, ...]]:
    try:
        rows = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    except deltalake.exceptions.TableNotFoundError:
        return []
    return sorted(tuple(row.values()) for row in rows)


class FailOnce(MapFunction):
    """Passes rows on; the first time that it sees a number, it fails, slowly enough for checkpoints before."""

    def __init__(self, marker: Path, number: int) -> None:
        self.marker = marker
        self.number = number

    def map(self, row: Any) -> Any:
        time.sleep(0.002)
        if row.n == self.number and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("as planned")
        return row


def test_a_batch_dataframe_through_a_failure_into_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("id AS n", "concat('number ', id) AS text").repartition(3)
    env = environment(tmp_path / "log")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    failing = FailOnce(tmp_path / "failed", 700)
    table = env.from_spark(frame).map(failing, PAIR).to_spark(str(tmp_path / "table"))
    env.execute("batch")
    assert (tmp_path / "failed").exists()
    assert table_of(tmp_path / "table") == [(n, f"number {n}") for n in range(1000)]
    assert table.path == str(tmp_path / "table")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Asks delta_session.py, in a session and a folder of its own, and waits as long as it works."""
    folder = tmp_path_factory.mktemp("delta")
    with (folder / "log").open("w") as log, (folder / "answers").open("w") as answers:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "delta_session.py")],
            cwd=folder,
            env={**os.environ, **spark_classes.for_sessions()},
            stdin=subprocess.PIPE,
            stdout=answers,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert process.stdin is not None
    given = 0

    def said() -> list[str]:
        whole = (folder / "answers").read_text().rpartition("\n")[0]
        return [line for line in whole.splitlines() if line.startswith("RESULT ")]

    def explain() -> str:
        return (folder / "log").read_text()[-3000:]

    def works() -> object:
        found = session(process.pid)
        return found.processes, found.effort

    def ask(*request: object) -> Any:
        nonlocal given
        given += 1
        process.stdin.write(json.dumps([str(each) for each in request]) + "\n")
        process.stdin.flush()
        wait_for(lambda: len(said()) == given or process.poll() is not None, message=explain, works=works)
        assert len(said()) == given, explain()
        return json.loads(said()[-1].removeprefix("RESULT "))

    try:
        yield ask
        process.stdin.close()
        wait_for(lambda: process.poll() is not None, message=explain, works=works)
        assert process.returncode == 0, explain()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # one that hangs has a JVM
        process.wait()


def test_spark_sql_counts_what_the_checkpoints_say(asked: Callable[..., Any], tmp_path: Path) -> None:
    """The log of a finished job is a table that Spark SQL reads as it is."""
    env = environment(tmp_path / "log", python__fn_execution__bundle__size=500)
    source = NumberSequenceSource(0, 2_999)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers = numbers.map(Slowly(0.001), Types.LONG())  # several checkpoints, however fast the machine
    numbers.key_by(lambda v: v % 10, Types.LONG()).process(Count()).uid("counts").filter(
        lambda v: False
    ).print()
    env.execute("readable")

    result = asked("count", tmp_path / "log" / "readable" / "changelog")
    mutations = {name: rows for name, rows in result["rows"].items() if name not in ("checkpoint", "attempt")}
    assert mutations == {"put": 3_000}
    assert sum(result["checkpoints"]) == 3_000
    assert len(result["checkpoints"]) == result["rows"]["checkpoint"] > 1
    assert result["newest"] == {str(key): "300" for key in range(10)}


def test_tables_of_and_for_spark(asked: Callable[..., Any], tmp_path: Path) -> None:
    """What the sink wrote, Spark reads; what Spark wrote, the source reads."""
    kind = Types.ROW_NAMED(["n", "day", "stamp"], [Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP()])
    sink = engine.DeltaSink(str(tmp_path / "ours"), kind, ["day"])
    writer = sink.committing_writer(SinkContext("job", "sink", 0, 1, "run", 1, True, ()))
    writer.write([(n, f"day {n % 2}", datetime.datetime(2024, 2, 29)) for n in range(100)])
    sink.commit(writer.prepare(True).committables)
    assert asked("sums", tmp_path / "ours") == [100, 4950]

    theirs = str(tmp_path / "theirs")
    asked("write", theirs)
    rows = check_source(engine.DeltaSource(theirs))
    assert sorted((row.k, row.at, row.p) for row in rows) == [
        (k, Instant.of_epoch_milli(1000 if k == 3 else k), f"part {k % 2}") for k in (0, 1, 2, 3, 5)
    ]
    changes = check_source(engine.DeltaSource(theirs, changes_from=0, change_data=True))
    assert Counter((row["_commit_version"], row["_change_type"], row.k, row.p) for row in changes) == Counter(
        [
            *((0, "insert", k, f"part {k % 2}") for k in range(6)),
            (1, "update_preimage", 3, "part 1"),
            (1, "update_postimage", 3, "part 1"),
            (2, "delete", 4, "part 0"),
        ]
    )
    with pytest.raises(ConnectorError, match="marked as deleted"):
        check_source(engine.DeltaSource(f"{theirs}-marked"))
    assert len(check_source(engine.DeltaSource(f"{theirs}-marked", version=0))) == 11


def test_values_of_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT 1 AS i, 1.50BD AS d, DATE'2024-02-29' AS day, TIMESTAMP_NTZ'2024-02-29 01:02:03.000004' AS stamp, "
        "to_timestamp('1970-01-01 00:00:01+00:00') AS at, array(1, NULL) AS l, map('k', 1.5D) AS m, "
        "named_struct('a', 'x') AS r, X'00ff' AS b, CAST(NULL AS STRING) AS nothing"
    )
    rows = list(environment(tmp_path / "log", parallelism=1).from_spark(frame).execute_and_collect("values"))
    assert [type(value).__name__ for value in rows[0]._values] == (
        ["int", "Decimal", "date", "datetime", "Instant", "list", "dict", "Row", "bytes", "NoneType"]
    )
    assert (rows[0].at, rows[0].l, rows[0].m, rows[0].r) == (Instant(1, 0), [1, None], {"k": 1.5}, Row(a="x"))
    assert str(rows[0].d) == "1.50"


def test_what_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    env = environment(tmp_path / "log")
    with pytest.raises(ConfigurationError, match="DataFrame of PySpark"):
        env.from_spark([1, 2])
    with pytest.raises(ConfigurationError, match="staging="):
        env.from_spark(spark.readStream.format("rate").load())
    with pytest.raises(ConfigurationError, match="available_now"):
        env.from_spark(spark.range(3), available_now=True)
    with pytest.raises(ConfigurationError, match="no two columns have the same name"):
        env.from_spark(spark.sql("SELECT 1 AS a, 2 AS a"))
    with pytest.raises(NotSupportedError, match="cast or drop"):
        env.from_spark(spark.sql("SELECT INTERVAL '1' DAY AS a"))
    socket = spark.readStream.format("socket").option("host", "localhost").option("port", 1).load()
    with pytest.raises(ConfigurationError, match="socket"):
        env.from_spark(socket, staging=str(tmp_path / "staging"))
    with pytest.raises(ConfigurationError, match="row"):
        env.from_collection([1], Types.LONG()).to_spark(str(tmp_path / "t"))


def test_a_stream_of_files_that_ends(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def numbers() -> list[int]:
        frame = spark.readStream.schema("n BIGINT").option("maxFilesPerTrigger", 1).json(str(folder))
        stream = environment(tmp_path / "log").from_spark(
            frame.where("n % 2 = 0"), staging=str(tmp_path / "staging"), available_now=True
        )
        return sorted(row.n for row in stream.execute_and_collect("files"))

    for file in range(3):
        (folder / f"{file}.json").write_text(
            "".join(json.dumps({"n": file * 10 + n}) + "\n" for n in range(10))
        )
    assert numbers() == list(range(0, 30, 2))
    (folder / "3.json").write_text('{"n": 100}\n')
    for file in range(3):
        (folder / f"{file}.json").unlink()  # the stream remembers
    assert numbers() == [*range(0, 30, 2), 100]
    assert not spark.streams.active


def test_a_stream_that_ends_goes_on_when_somebody_stops_its_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(3):
        (folder / f"{file}.json").write_text(json.dumps({"n": file}))
    frame = spark.readStream.schema("n BIGINT").option("maxFilesPerTrigger", 1).json(str(folder))
    source = StreamingDataFrameSource(frame, str(tmp_path / "staging"), available_now=True)
    (split,) = source.splits(1)
    (query,) = spark.streams.active
    query.stop()
    reader, position, finished, found = source.reader(split), split.start, False, []
    deadline = Deadline(120)
    while not finished and not deadline.passed:
        source.discover({})
        values, position, finished, *_ = reader.read(position, 10)
        found += values
    reader.close()
    source.job_ended()
    assert sorted(row.n for row in found) == [0, 1, 2]


def counting() -> type[DataSource]:
    """A Python Data Source whose stream counts, ten numbers a micro-batch; made here so that it is shipped by value."""

    class CountingReader(DataSourceStreamReader):
        """Offsets are numbers; they go on from the query's checkpoint."""

        def __init__(self) -> None:
            self.given = 0

        def initialOffset(self) -> dict[str, int]:
            return {"n": 0}

        def latestOffset(self) -> dict[str, int]:
            self.given += 10
            return {"n": self.given}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            self.given = max(self.given, end["n"])
            return [InputPartition((start["n"], end["n"]))]

        def read(self, partition: InputPartition) -> Any:
            for number in range(*partition.value):
                yield number, f"number {number}"

        def commit(self, end: dict[str, int]) -> None:
            pass

    class Counting(DataSource):
        """A Python Data Source whose stream counts, ten numbers a micro-batch."""

        @classmethod
        def name(cls) -> str:
            return "counting"

        def schema(self) -> str:
            return "n BIGINT, text STRING"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return CountingReader()

    return Counting


def test_a_python_data_source_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(counting())
    check_stream(
        spark, tmp_path, lambda: spark.readStream.format("counting").load(), lambda n: (n, f"number {n}")
    )


def test_a_stream_with_a_rate_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    def frame() -> Any:
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
        return rate.selectExpr("value AS n", "concat('number ', value) AS text")

    check_stream(spark, tmp_path, frame, lambda n: (n, f"number {n}"))


def check_stream(
    spark: SparkSession, tmp_path: Path, frame: Callable[[], Any], row: Callable[[int], tuple[Any, ...]]
) -> None:
    """A job is stopped and goes on: the table has each row once, and all before those that it had when it was stopped.

    Of the newest batch, whose files several subtasks read, it may have been stopped with some.
    """
    path = tmp_path / "table"
    for _ in range(2):
        before = max((found[0] + 1 for found in table_of(path)), default=0)
        env = environment(tmp_path / "log")
        env.from_spark(frame(), staging=str(tmp_path / "staging")).to_spark(str(path))
        client = env.execute_async("stream")

        def goes_on(before: int = before) -> bool:
            found = table_of(path)
            return found[: before + 1] == [row(number) for number in range(before + 1)]

        wait_for(goes_on, message=lambda: f"{table_of(path)}")
        client.cancel().result()
        wait_for(lambda: not spark.streams.active)
    found = table_of(path)
    assert found == [row(found_row[0]) for found_row in found]
    assert len({found_row[0] for found_row in found}) == len(found)
