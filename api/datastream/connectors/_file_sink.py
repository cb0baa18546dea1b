"""Sinks of files, exactly once."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, cast

from changelog_engine.connectors import files

from ..._arguments import SuchAs, Whole, checked
from ..._unsupported import NamesOfPyFlink
from ...common._bulk_writers import BulkWriterFactory
from ...common.serialization import Encoder
from ..functions import SinkFunction
from ._file_compaction import FileCompactor, FileCompactStrategy
from ._file_policies import BucketAssigner, OutputFileConfig, RollingPolicy
from .base import Sink

AnySink = TypeVar("AnySink")
_Compactor = Annotated[FileCompactor, SuchAs("FileCompactor.concat_file_compactor()")]
_Encoder = Annotated[Encoder, SuchAs("Encoder.simple_string_encoder()")]
_WriterFactory = Annotated[BulkWriterFactory, SuchAs("ParquetBulkWriters.for_row_type(row_type)")]


@checked
class _Builder(NamesOfPyFlink, Generic[AnySink]):
    """What the builders of file sinks share."""

    _makes: ClassVar[Any]  # the class of AnySink
    _by_subtask = False

    def __init__(self, base_path: str, encoder: Any) -> None:
        self._base_path = base_path
        self._encoder = encoder
        self._buckets: Any = None
        self._rolling: files.Rolling | None = None
        self._names = files.FileNames()
        self._interval_ms = files.CHECK_INTERVAL_MS
        self._compaction: files.Compaction | None = None

    def with_bucket_check_interval(self, interval: Annotated[int, Whole(1, unit="ms")]) -> Self:
        """Set how often files are looked at whose time may be over.

        Args:
            interval: ms; default a minute.
        """
        self._interval_ms = interval
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Set which folders elements go to.

        Args:
            bucket_assigner: default: by the hour of the wall clock.
        """
        self._buckets = bucket_assigner._buckets
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Set when files end.

        Args:
            rolling_policy: default: by size and time for row formats, at every checkpoint for bulk formats.
        """
        self._rolling = rolling_policy._rolling
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Set how files are called.

        Args:
            output_file_config: default: the prefix ``part`` and no suffix.
        """
        self._names = output_file_config._names
        return self

    def build(self) -> AnySink:
        """The sink.

        Raises:
            ConfigurationError: a bulk format with a policy that does not end files at every checkpoint, or a compactor that
                cannot compact what the sink writes.
        """
        sink = files.FileSink(
            self._base_path,
            self._encoder,
            self._buckets,
            self._rolling,
            replace(self._names, by_subtask=self._by_subtask),
            self._interval_ms,
            compaction=self._compaction,
        )
        return cast(AnySink, self._makes(sink))


@checked
class _CompactingBuilder(_Builder["FileSink"]):
    """What the builders of `FileSink` share."""

    def enable_compact(self, strategy: FileCompactStrategy, compactor: _Compactor) -> Self:
        """Make one file of several small ones before they are shown. They end at every checkpoint then.

        Args:
            strategy: when, and of which.
            compactor: how.
        """
        self._compaction = files.Compaction(strategy._strategy, compactor._compactor)
        return self

    def disable_compact(self) -> Self:
        """Show every file as it is, which is the default; also the files that a checkpoint holds for compaction."""
        self._compaction = None
        return self


@checked
class FileSink(Sink):
    """Writes elements to files below a base path, exactly once.

    A file is in progress while it is written, and pending when it has ended; then its name begins with a dot. When the next
    checkpoint is complete, or a bounded input has ended, it is finished: it has its name, such as
    ``part-81fc4980-a6af-41c8-9937-9939408a734b-17``, of prefix, id of the writer, counter and suffix. A job that never ends
    needs checkpoints to finish any.

    On a local disk a file can grow over several checkpoints. On object stores a file ends at every checkpoint, whatever the
    policy. After a failure the file in progress is finished with what the checkpoint counts of it. With ``enable_compact()``
    small files become larger ones, whose names begin with ``compacted-``, before anybody sees them.

    Example:
        >>> sink = (
        ...     FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder())
        ...     .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024 * 1024))
        ...     .with_output_file_config(OutputFileConfig("words", ".txt"))
        ...     .build()
        ... )
    """

    class RowFormatBuilder(_CompactingBuilder):
        """Builds a `FileSink` that writes elements one by one."""

    class BulkFormatBuilder(_CompactingBuilder):
        """Builds a `FileSink` that writes many elements together."""

    @staticmethod
    def for_row_format(base_path: str, encoder: _Encoder) -> FileSink.RowFormatBuilder:
        """Begin a sink that writes elements one by one.

        Args:
            base_path: folder, plain or as a URI of a file system that pyarrow opens.
            encoder: such as ``Encoder.simple_string_encoder()``.
        """
        return FileSink.RowFormatBuilder(base_path, files.StringEncoder(encoder.charset_name))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: _WriterFactory) -> FileSink.BulkFormatBuilder:
        """Begin a sink that writes many elements together. Its files end at every checkpoint.

        Args:
            base_path: folder, plain or as a URI of a file system that pyarrow opens.
            writer_factory: such as ``ParquetBulkWriters.for_row_type(row_type)``.
        """
        return FileSink.BulkFormatBuilder(base_path, writer_factory._factory)


@checked
class StreamingFileSink(SinkFunction):
    """As `FileSink`, under its older name and for ``add_sink``; files are called ``<prefix>-<subtask>-<counter><suffix>``.

    Deprecated: use FileSink.
    """

    def __init__(self, sink: files.FileSink) -> None:
        warnings.warn("StreamingFileSink is deprecated: use FileSink", DeprecationWarning, stacklevel=2)
        super().__init__(sink)

    class DefaultRowFormatBuilder(_Builder["StreamingFileSink"]):
        """Builds a `StreamingFileSink` that writes elements one by one."""

        _by_subtask = True

        def with_rolling_policy(self, policy: RollingPolicy) -> Self:
            """Set when files end; see `FileSink.RowFormatBuilder.with_rolling_policy`.

            Args:
                policy: default: by size and time.
            """
            return super().with_rolling_policy(policy)

    class DefaultBulkFormatBuilder(_Builder["StreamingFileSink"]):
        """Builds a `StreamingFileSink` that writes many elements together."""

        _by_subtask = True

    @staticmethod
    def for_row_format(base_path: str, encoder: _Encoder) -> StreamingFileSink.DefaultRowFormatBuilder:
        """Begin a sink that writes elements one by one; see `FileSink.for_row_format`."""
        return StreamingFileSink.DefaultRowFormatBuilder(base_path, files.StringEncoder(encoder.charset_name))

    @staticmethod
    def for_bulk_format(
        base_path: str, writer_factory: _WriterFactory
    ) -> StreamingFileSink.DefaultBulkFormatBuilder:
        """Begin a sink that writes many elements together; see `FileSink.for_bulk_format`."""
        return StreamingFileSink.DefaultBulkFormatBuilder(base_path, writer_factory._factory)


FileSink.RowFormatBuilder._makes = FileSink.BulkFormatBuilder._makes = FileSink
StreamingFileSink.DefaultRowFormatBuilder._makes = StreamingFileSink
StreamingFileSink.DefaultBulkFormatBuilder._makes = StreamingFileSink
