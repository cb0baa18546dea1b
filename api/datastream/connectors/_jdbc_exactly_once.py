"""The options of the JDBC sink that writes exactly once."""

from __future__ import annotations

import re
from typing import Annotated, Self

from changelog_engine.connectors.jdbc.exactly_once import DEFAULT_COMMIT_TABLE, DEFAULT_RETENTION_MS
from changelog_engine.errors import ArgumentTypeError

from ..._arguments import Whole, checked, checked_later

_TABLE = re.compile(r"[A-Za-z_]\w{0,50}(\.[A-Za-z_]\w{0,50})?", re.ASCII)


class JdbcExactlyOnceOptions:
    """How `JdbcSink.exactly_once_sink` keeps its books; made by its builder. Beyond PyFlink.

    Example:
        >>> JdbcExactlyOnceOptions.builder().with_commit_table("ops.commits").build().get_commit_table()
        'ops.commits'

    Source: an addition of this engine
    """

    def __init__(self, commit_table: str, retention_ms: int) -> None:
        self._commit_table = commit_table
        self._retention_ms = retention_ms

    def get_commit_table(self) -> str:
        """The name of the commit table."""
        return self._commit_table

    def get_retention_ms(self) -> int:
        """How long rows stay staged that no checkpoint commits, in ms."""
        return self._retention_ms

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """The table ``changelog_engine_commits``, and 7 days."""
        return JdbcExactlyOnceOptions.builder().build()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """A builder with the defaults."""
        return JdbcExactlyOnceOptions.Builder()

    @checked
    class Builder:
        """Builds `JdbcExactlyOnceOptions`. Its methods return the builder."""

        def __init__(self) -> None:
            self._commit_table = DEFAULT_COMMIT_TABLE
            self._retention_ms = DEFAULT_RETENTION_MS

        def with_commit_table(self, name: Annotated[str, checked_later]) -> Self:
            """Set the name of the commit table. Rows are staged in ``<name>_staged``. Both are made if they are not there.

            Args:
                name: letters, digits and underscores, with or without a schema; ``changelog_engine_commits`` by default.
            """
            if not isinstance(name, str) or not _TABLE.fullmatch(name):
                raise ArgumentTypeError(
                    "JdbcExactlyOnceOptions.Builder.with_commit_table: name must be of letters, digits and "
                    f"underscores, such as ops.commits, got {name!r}"
                )
            self._commit_table = name
            return self

        def with_retention_ms(self, retention_ms: Annotated[int, Whole(1)]) -> Self:
            """Set how long rows stay staged that no checkpoint commits, because their run failed.

            Args:
                retention_ms: in ms; 7 days by default. Not shorter than the time for which checkpoints are restored.
            """
            self._retention_ms = retention_ms
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """The options."""
            return JdbcExactlyOnceOptions(self._commit_table, self._retention_ms)
