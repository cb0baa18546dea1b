"""From Spark to streams and back. Beyond PyFlink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changelog_engine.connectors.delta import DeltaSink
from changelog_engine.connectors.spark_frames import dataframe_source

from .. import _arguments
from ..common.watermark_strategy import WatermarkStrategy
from .connectors.base import Source
from .connectors.delta import as_row_type
from .data_stream_sink import DataStreamSink

if TYPE_CHECKING:
    from .data_stream import DataStream


class SparkSources:
    """``from_spark``; see `StreamExecutionEnvironment`."""

    def from_spark(
        self,
        dataframe: Any,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark DataFrame",
        staging: str | None = None,
        available_now: bool = False,
    ) -> DataStream:
        """A stream of the rows of a Spark DataFrame. Beyond PyFlink.

        Spark computes the DataFrame when the job starts, in the session that it belongs to, and stages its rows in Parquet
        files; the job, and its restores, read those. Elements are rows with the columns as fields.

        Args:
            dataframe: of PySpark: a batch one, or a streaming one of any source that Spark can read again, a Python Data
                Source with a stream reader too.
            watermark_strategy: event times and watermarks of the elements; none by default.
            source_name: its name, which people see.
            staging: folder or URI for the staged rows, which the workers reach. A batch DataFrame has one in the job's base
                path by default. A streaming one needs it: what Spark has read is kept there.
            available_now: of a streaming DataFrame: end when all is read that was there at the start.

        Raises:
            ConfigurationError: no DataFrame, one that cannot be read again, or a streaming one without a folder.
            NotSupportedError: a column that rows cannot hold.
        """
        what = "StreamExecutionEnvironment.from_spark"
        if staging is not None:
            _arguments.text(staging, f"{what}: staging")
        ends = _arguments.flag(available_now, f"{what}: available_now")
        source = Source(dataframe_source(dataframe, staging, ends))
        strategy = WatermarkStrategy.no_watermarks() if watermark_strategy is None else watermark_strategy
        stream: DataStream = self.from_source(source, strategy, source_name)  # type: ignore[attr-defined]
        return stream


class SparkOutputs:
    """``to_spark``; see `DataStream`."""

    def to_spark(self, path: str, partition_by: list[str] | None = None) -> SparkTable:
        """Write the stream to a Delta table, exactly once, that Spark reads while the job runs and after it. Beyond PyFlink.

        Args:
            path: of the table, or its URI; it is made when it is not there, and appended to when it is.
            partition_by: fields whose values part its files.

        Returns:
            The sink, whose ``read`` gives a DataFrame.

        Raises:
            ConfigurationError: the stream has no row type, or an argument that cannot be used.
            NotSupportedError: a field that Delta has no type for.
        """
        _arguments.text(path, "DataStream.to_spark: path")
        row_type = as_row_type(self._transformation.output_type)  # type: ignore[attr-defined]
        sink = self._end("Delta", DeltaSink(path, row_type, partition_by or ()))  # type: ignore[attr-defined]
        return SparkTable(sink, path)


class SparkTable(DataStreamSink):
    """The handle of a stream's Delta table."""

    def __init__(self, sink: DataStreamSink, path: str) -> None:
        super().__init__(sink._transformation)
        self.path = path

    def read(self, spark: Any, version: int | None = None) -> Any:
        """A DataFrame of the table: as its newest checkpoint left it, at the time when Spark looks.

        Args:
            spark: a SparkSession with Delta's extension.
            version: of the table; None for the newest.
        """
        reader = spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.path)

    def read_stream(self, spark: Any) -> Any:
        """A streaming DataFrame of the table, which goes on with each checkpoint.

        Args:
            spark: a SparkSession with Delta's extension.
        """
        return spark.readStream.format("delta").load(self.path)
