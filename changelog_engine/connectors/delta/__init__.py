"""Delta tables as sources and sinks, and other folders of Parquet files that grow version by version."""

from changelog_engine.connectors.delta.reader import VersionsReader
from changelog_engine.connectors.delta.sink import DeltaSink
from changelog_engine.connectors.delta.source import DeltaSource
from changelog_engine.connectors.delta.types import row_type_of

__all__ = ["DeltaSink", "DeltaSource", "VersionsReader", "row_type_of"]
