"""The way to delta-rs, which is loaded when a table is first looked at: building other programs does without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from changelog_engine.storage.delta_tables import UserTable


def user_tables() -> type[UserTable]:
    """The class of users' tables."""
    from changelog_engine.storage.delta_tables import UserTable

    return UserTable


def schema_of_json(text: str) -> pa.Schema:
    """The columns of a schema as Delta and Spark write it.

    Raises:
        NotSupportedError: a type that Delta does not have.
    """
    from changelog_engine.storage import delta_tables

    return delta_tables.schema_of_json(text)
