"""Files as sources and exactly-once sinks, on local disks and on whatever pyarrow.fs opens."""

from changelog_engine.connectors.files.arrow_types import arrow_schema, orc_schema, rounded_decimals
from changelog_engine.connectors.files.avro import AvroFiles, AvroRecords, arrow_schema_of_avro
from changelog_engine.connectors.files.buckets import BasePathBuckets, DateTimeBuckets, ElementBuckets
from changelog_engine.connectors.files.columnar import ColumnarFiles, OrcRecords, ParquetRecords
from changelog_engine.connectors.files.compaction import Compaction, CompactStrategy
from changelog_engine.connectors.files.compactors import (
    Compactor,
    ConcatCompactor,
    IdenticalCompactor,
    RecordWiseCompactor,
)
from changelog_engine.connectors.files.csv_files import CsvFiles, CsvRecords
from changelog_engine.connectors.files.csv_values import CsvColumn, CsvSchema
from changelog_engine.connectors.files.encoders import BulkFactory, BulkWriter, MergingFactory, StringEncoder
from changelog_engine.connectors.files.formats import FileFormat, TextLines
from changelog_engine.connectors.files.json_lines import JsonLines
from changelog_engine.connectors.files.rolling import ON_CHECKPOINT, Rolling
from changelog_engine.connectors.files.sink import CHECK_INTERVAL_MS, FileNames, FileSink
from changelog_engine.connectors.files.source import FileSource, MonitoringFileSource

__all__ = [
    "AvroFiles",
    "AvroRecords",
    "BasePathBuckets",
    "BulkFactory",
    "BulkWriter",
    "CHECK_INTERVAL_MS",
    "ColumnarFiles",
    "CompactStrategy",
    "Compaction",
    "Compactor",
    "ConcatCompactor",
    "CsvColumn",
    "CsvFiles",
    "CsvRecords",
    "CsvSchema",
    "DateTimeBuckets",
    "ElementBuckets",
    "FileFormat",
    "FileNames",
    "FileSink",
    "FileSource",
    "IdenticalCompactor",
    "JsonLines",
    "MergingFactory",
    "MonitoringFileSource",
    "ON_CHECKPOINT",
    "OrcRecords",
    "ParquetRecords",
    "RecordWiseCompactor",
    "Rolling",
    "StringEncoder",
    "TextLines",
    "arrow_schema",
    "arrow_schema_of_avro",
    "orc_schema",
    "rounded_decimals",
]
