"""Files as sources and exactly-once sinks, on local disks and on whatever pyarrow.fs opens."""

from changelog_engine.connectors.files.buckets import (
    BasePathBuckets,
    Buckets,
    DateTimeBuckets,
    ElementBuckets,
)
from changelog_engine.connectors.files.encoders import BulkFactory, BulkWriter, RowEncoder, StringEncoder
from changelog_engine.connectors.files.formats import FileFormat, JsonLines, TextLines
from changelog_engine.connectors.files.rolling import ON_CHECKPOINT, Rolling
from changelog_engine.connectors.files.sink import CHECK_INTERVAL_MS, FileNames, FileSink, FileWriter
from changelog_engine.connectors.files.source import FileSource, MonitoringFileSource

__all__ = [
    "BasePathBuckets",
    "Buckets",
    "BulkFactory",
    "BulkWriter",
    "CHECK_INTERVAL_MS",
    "DateTimeBuckets",
    "ElementBuckets",
    "FileFormat",
    "FileNames",
    "FileSink",
    "FileSource",
    "FileWriter",
    "JsonLines",
    "MonitoringFileSource",
    "ON_CHECKPOINT",
    "Rolling",
    "RowEncoder",
    "StringEncoder",
    "TextLines",
]
