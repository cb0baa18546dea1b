"""The way to delta-rs, which is loaded when a table is first looked at: building other programs does without it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from changelog_engine.storage.delta_tables import UserTable

_MODULE = "changelog_engine.storage.delta_tables"


def user_tables() -> type[UserTable]:
    """The class of users' tables."""
    found: type[UserTable] = importlib.import_module(_MODULE).UserTable
    return found


def schema_of_json(text: str) -> pa.Schema:
    """The columns of a schema as Delta and Spark write it.

    Raises:
        NotSupportedError: a type that Delta does not have.
    """
    return importlib.import_module(_MODULE).schema_of_json(text)
