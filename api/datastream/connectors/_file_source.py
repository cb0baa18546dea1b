"""A source of files: formats, enumerators, and the builder."""

from __future__ import annotations

from typing import Annotated, Self

from changelog_engine.connectors import check_inherits, files
from changelog_engine.graph.tags import OutputTag
from changelog_engine.types import TypeInformation

from ..._arguments import RowType, SuchAs, checked, checked_later, text
from ...common.time import AtLeast, Duration
from .base import Source


class FileEnumeratorProvider:
    """How the files under a path are found; made by its static methods.

    Folders are searched however deep they are; names that begin with ``.`` or ``_`` are left out. A file is read by one
    subtask, whichever of the two is chosen.
    """

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """The one for formats that can be read from the middle of a file."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """The one for formats that are read from the beginning of a file."""
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """Which subtask reads which file; made by its static method."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Files go to hosts that have them. Here no host has them: they are dealt out evenly, in turn."""
        return FileSplitAssignerProvider()

    @staticmethod
    def simple_split_assigner() -> FileSplitAssignerProvider:
        """Files are dealt out evenly, in turn; beyond PyFlink."""
        return FileSplitAssignerProvider()


@checked
class StreamFormat:
    """How the records of a file are read; made by its static methods, or by a format's own class."""

    def __init__(self, file_format: Annotated[files.FileFormat, checked_later]) -> None:
        check_inherits(file_format, "StreamFormat needs", files.FileFormat)
        self._format = file_format

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        r"""One element, a str, for each line; lines end at ``\n``, ``\r\n`` or ``\r``.

        Args:
            charset_name: any encoding that Python knows; default UTF-8.

        Raises:
            ConfigurationError: not a str, or an unknown charset.
        """
        return StreamFormat(files.TextLines(charset_name))

    @staticmethod
    def json_line_format(row_type: RowType | None = None) -> StreamFormat:
        """One JSON value in each line, beyond PyFlink; empty lines are left out.

        Args:
            row_type: a ROW type whose fields are taken from the values' keys, missing ones None. Without it the elements
                are dicts, lists, and so on.
        """
        return StreamFormat(files.JsonLines(row_type))


class BulkFormat:
    """How the records of a file are read, many at a time; the formats are in ``api.datastream.formats``."""

    def __init__(self, file_format: files.FileFormat) -> None:
        check_inherits(file_format, "BulkFormat needs", files.FileFormat)
        self._format = file_format


class InputFormat(StreamFormat):
    """A format with the path that it reads, for ``env.create_input``.

    Args:
        file_format: how files are read.
        path: file or folder.
        produced_type: type of the elements.
    """

    def __init__(
        self, file_format: files.FileFormat, path: str, produced_type: TypeInformation | None = None
    ) -> None:
        super().__init__(file_format)
        self._path = text(path, f"{type(self).__name__}: path")
        self._produced_type = produced_type

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the elements; None for undeclared."""
        return self._produced_type


_StreamFormat = Annotated[StreamFormat, SuchAs("StreamFormat.text_line_format()")]
_BulkFormat = Annotated[BulkFormat, SuchAs("ParquetColumnarRowInputFormat")]


@checked
class FileSource(Source):
    """A source of the records of files; bounded, unless the builder's ``monitor_continuously`` is called.

    Folders are read however deep they are; names that begin with ``.`` or ``_`` are left out. Paths are plain, or URIs
    of any file system that pyarrow opens (``file:``, ``s3:``, ``gs:``, ``abfs:``, ``hdfs:``). Text ending in ``.gz``,
    ``.gzip``, ``.bz2``, ``.xz``, ``.deflate`` or ``.zst`` is decompressed.

    Example:
        >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "file:///data/logs").build()
    """

    @staticmethod
    def for_record_stream_format(stream_format: _StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source that reads files record by record.

        Args:
            stream_format: how to read them.
            *paths: files or folders; at least one.
        """
        return FileSourceBuilder(stream_format._format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: _BulkFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source that reads files many records at a time.

        Args:
            bulk_format: how to read them, such as ``ParquetColumnarRowInputFormat``.
            *paths: files or folders; at least one.
        """
        return FileSourceBuilder(bulk_format._format, paths)


@checked
class FileSourceBuilder:
    """Builds a `FileSource`."""

    def __init__(self, file_format: files.FileFormat, paths: tuple[str, ...]) -> None:
        files.FileSource(paths, file_format)  # refuses what can't be read
        self._format = file_format
        self._paths = paths
        self._interval_ms: int | None = None

    def monitor_continuously(self, discovery_interval: Annotated[Duration, AtLeast(1)]) -> Self:
        """Go on for ever: look for new files from time to time, and read them. A path need not exist at first.

        A file is read once, as it is when it is found: put files there whole, by renaming them, and don't change them.

        Args:
            discovery_interval: time between two looks; at least 1 ms.
        """
        self._interval_ms = discovery_interval.to_milliseconds()
        return self

    def process_static_file_set(self) -> Self:
        """Read the files that are there when the job starts; this is the default."""
        self._interval_ms = None
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> Self:
        """Say how files are found: both ways that there are find the same here.

        Args:
            file_enumerator: made by a static method of FileEnumeratorProvider.
        """
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> Self:
        """Say how files are assigned: they are dealt out evenly in any case.

        Args:
            split_assigner: made by a static method of FileSplitAssignerProvider.
        """
        return self

    def set_bad_records_tag(self, tag: OutputTag) -> Self:
        """Where records of CSV and JSON lines go that do not fit; without it the job fails. Not in PyFlink.

        Args:
            tag: a side output, without a type. Its elements are rows of file, position, line (after that position), record
                and error.

        Raises:
            NotSupportedError: a format that cannot go on after a bad record.
        """
        self._format = self._format.with_bad_records_tag(tag.tag_id)
        return self

    def build(self) -> FileSource:
        """The source."""
        if self._interval_ms is None:
            return FileSource(files.FileSource(self._paths, self._format))
        return FileSource(
            files.MonitoringFileSource(self._paths, self._format, interval_ms=self._interval_ms)
        )
