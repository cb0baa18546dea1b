"""Sinks that write rows to databases: PostgreSQL, MySQL and MariaDB, SQLite."""

from changelog_engine.connectors.jdbc.exactly_once import CommitTableSink, CommitTableWriter
from changelog_engine.connectors.jdbc.options import ConnectionOptions, ExecutionOptions
from changelog_engine.connectors.jdbc.sink import BatchingSink, BatchingWriter

__all__ = [
    "BatchingSink",
    "BatchingWriter",
    "CommitTableSink",
    "CommitTableWriter",
    "ConnectionOptions",
    "ExecutionOptions",
]
