"""Cassandra: a sink that runs a CQL statement for each row, at least once.

The driver (cassandra-driver) is imported when a connection is made: a program without Cassandra does not need it.
"""

from changelog_engine.connectors.cassandra.sink import DEFAULT_REQUESTS, CassandraSink, ConnectionOptions

__all__ = ["CassandraSink", "ConnectionOptions", "DEFAULT_REQUESTS"]
