"""Delta tables as sources and sinks, and other folders of Parquet files that grow version by version."""

from changelog_engine.connectors.delta.reader import Versions, VersionsReader
from changelog_engine.connectors.delta.sink import DeltaSink, DeltaWriter
from changelog_engine.connectors.delta.source import DeltaSource
from changelog_engine.connectors.delta.types import row_type_of, table_schema

__all__ = [
    "DeltaSink",
    "DeltaSource",
    "DeltaWriter",
    "Versions",
    "VersionsReader",
    "row_type_of",
    "table_schema",
]
