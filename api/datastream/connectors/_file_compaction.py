"""How and when file sinks make one file of several small ones."""

from __future__ import annotations

from typing import Annotated, Self

from changelog_engine.connectors import files
from changelog_engine.errors import ArgumentTypeError

from ..._arguments import Whole, checked
from ._file_source import BulkFormat, StreamFormat


class FileCompactStrategy:
    """When a `FileSink` makes one file of those that wait, and of which; made by its builder.

    Example:
        >>> strategy = FileCompactStrategy.builder().set_size_threshold(1024).enable_compaction_on_checkpoint(5).build()
    """

    def __init__(self, strategy: files.CompactStrategy) -> None:
        self._strategy = strategy

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """A builder without conditions; it needs one at least."""
        return FileCompactStrategy.Builder()

    @checked
    class Builder:
        """Builds a `FileCompactStrategy`."""

        def __init__(self) -> None:
            self._size_threshold: int | None = None
            self._checkpoints: int | None = None
            self._threads = 1

        def set_size_threshold(self, size_threshold: Annotated[int, Whole(-(2**63))]) -> Self:
            """Compact the files of a bucket as soon as together they reach a size.

            Args:
                size_threshold: bytes; a negative number stands for any size, which is the default.
            """
            self._size_threshold = size_threshold if size_threshold >= 0 else None
            return self

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: Annotated[int, Whole(1)]
        ) -> Self:
            """Compact the files of a bucket at the latest when the first of them has waited for a number of checkpoints.

            Args:
                num_checkpoints_before_compaction: 1 compacts what each checkpoint ends. Default: however many.
            """
            self._checkpoints = num_checkpoints_before_compaction
            return self

        def set_num_compact_threads(self, num_compact_threads: Annotated[int, Whole(1)]) -> Self:
            """Set how many files a subtask makes at a time.

            Args:
                num_compact_threads: default 1.
            """
            self._threads = num_compact_threads
            return self

        def build(self) -> FileCompactStrategy:
            """The strategy.

            Raises:
                ConfigurationError: neither a size nor a number of checkpoints was set.
            """
            return FileCompactStrategy(
                files.CompactStrategy(self._size_threshold, self._checkpoints, self._threads)
            )


class FileCompactor:
    """How a `FileSink` makes one file of several; made by its static methods."""

    def __init__(self, compactor: files.Compactor) -> None:
        self._compactor = compactor

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One that joins files byte by byte: for row formats, CSV without a header, and formats of your own.

        Args:
            file_delimiter: goes between two files; default nothing. Elements of row formats end with a line end already.

        Raises:
            ArgumentTypeError: not bytes.
        """
        if file_delimiter is not None and not isinstance(file_delimiter, (bytes, bytearray)):
            raise ArgumentTypeError(
                f"FileCompactor.concat_file_compactor: file_delimiter must be bytes, got {file_delimiter!r}"
            )
        return FileCompactor(files.ConcatCompactor(bytes(file_delimiter or b"")))

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """One that leaves every file as it is: files wait as the strategy says, and appear one by one."""
        return FileCompactor(files.IdenticalCompactor())

    @staticmethod
    def record_wise_file_compactor(reader: StreamFormat | BulkFormat | None = None) -> FileCompactor:
        """One that writes the records of the files again, for bulk formats; beyond PyFlink.

        Args:
            reader: how files are read, for a ``BulkWriterFactory`` of your own: a StreamFormat, BulkFormat or InputFormat.
                Parquet, ORC, Avro and CSV need none: their files are merged without loss.
        """
        if reader is not None and not isinstance(reader, (StreamFormat, BulkFormat)):
            raise ArgumentTypeError(
                "FileCompactor.record_wise_file_compactor: reader must be a StreamFormat, BulkFormat or InputFormat, got "
                f"{reader!r}. Flink's DecoderBasedReader and InputFormatBasedReader are Java classes that read Java's "
                "formats; files of row formats need no reader: use concat_file_compactor()"
            )
        return FileCompactor(files.RecordWiseCompactor(None if reader is None else reader._format))
