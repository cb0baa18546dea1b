"""Sinks that write rows to databases: PostgreSQL, MySQL and MariaDB, SQLite."""

from changelog_engine.connectors.jdbc.exactly_once import CommitTableSink
from changelog_engine.connectors.jdbc.options import ConnectionOptions, ExecutionOptions
from changelog_engine.connectors.jdbc.sink import BatchingSink

__all__ = ["BatchingSink", "CommitTableSink", "ConnectionOptions", "ExecutionOptions"]
