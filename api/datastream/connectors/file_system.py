"""Files as sources and sinks."""

from __future__ import annotations

from ...common._bulk_writers import BulkWriterFactory, RowDataBulkWriterFactory
from ._file_compaction import FileCompactor, FileCompactStrategy
from ._file_policies import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from ._file_sink import FileSink, StreamingFileSink
from ._file_source import (
    BulkFormat,
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    InputFormat,
    StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "BulkWriterFactory",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "InputFormat",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "RowDataBulkWriterFactory",
    "StreamFormat",
    "StreamingFileSink",
]
