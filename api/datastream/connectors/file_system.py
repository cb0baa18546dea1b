"""A source of files."""

from __future__ import annotations

from api._arguments import text
from api._unsupported import NamesOfPyFlink, module_getattr
from api.datastream.connectors.base import Source
from changelog_engine import connectors as engine
from changelog_engine.errors import ConfigurationError


class StreamFormat(NamesOfPyFlink):
    """How the records of a file are read; made by its static method.

    Source: pyflink.datastream.connectors.StreamFormat
    """

    _not_here = frozenset({"avro_generic_record_format"})

    def __init__(self, charset_name: str) -> None:
        self._charset_name = charset_name

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        r"""One element, a str, for each line; lines end at ``\n``, ``\r\n`` or ``\r``.

        Args:
            charset_name: any encoding that Python knows.

        Raises:
            ConfigurationError: no text.
        """
        return StreamFormat(text(charset_name, "StreamFormat.text_line_format: charset_name"))


class FileSource(NamesOfPyFlink, Source):
    """A source of the records of files; bounded.

    Empty lines and a last line without an end are elements. Folders are read however deep they are; names
    that begin with ``.`` or ``_`` are left out. ``.gz``, ``.gzip``, ``.bz2`` and ``.xz`` are decompressed.
    Bytes that the charset cannot decode become U+FFFD.

    Example:
        >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "file:///data/logs").build()

    Source: pyflink.datastream.connectors.FileSource
    """

    _not_here = frozenset({"for_bulk_file_format"})

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begin a source that reads files record by record.

        Args:
            stream_format: how to read them.
            *paths: files or folders, plain or as ``file:`` URIs; at least one.

        Raises:
            ConfigurationError: no format or no path, or an unknown charset.
            NotSupportedError: a path of another file system.
        """
        if not isinstance(stream_format, StreamFormat):
            raise ConfigurationError(
                "FileSource.for_record_stream_format needs a StreamFormat such as "
                f"StreamFormat.text_line_format(), got {stream_format!r}"
            )
        return FileSourceBuilder(engine.TextFileSource(list(paths), stream_format._charset_name))


class FileSourceBuilder(NamesOfPyFlink):
    """Builds a `FileSource`.

    Source: pyflink.datastream.connectors.FileSourceBuilder
    """

    _not_here = frozenset({"monitor_continuously", "set_file_enumerator", "set_split_assigner"})

    def __init__(self, source: engine.TextFileSource) -> None:
        self._source = source

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts; this is the default. Returns this object."""
        return self

    def build(self) -> FileSource:
        """The source."""
        return FileSource(self._source)


__getattr__ = module_getattr(
    __name__,
    {
        "BucketAssigner",
        "BulkFormat",
        "BulkWriterFactory",
        "DefaultRollingPolicy",
        "FileCompactStrategy",
        "FileCompactor",
        "FileEnumeratorProvider",
        "FileSink",
        "FileSplitAssignerProvider",
        "OnCheckpointRollingPolicy",
        "OutputFileConfig",
        "RollingPolicy",
        "StreamingFileSink",
    },
)
