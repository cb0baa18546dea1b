"""What one database's SQL says otherwise than another's: Spark's here; DuckDB's is in ``inspection.sql_changes``.

An *entry* is what a row of the log says of a value, as a struct of ``FIELDS``; of a list there is a list of them.
"""

from __future__ import annotations

from changelog_engine.history.rows_sql import PLACE
from changelog_engine.history.sql_types import SqlType, time_of, value_of

FIELDS = ("value", "pickled_type", "pickled_bytes", "accessed_ms")


class SqlDialect:
    """Spark's SQL.

    Attributes:
        entry: of a row.
        place: of a row among all, in their order.
        collected: the entries of all rows but clears, as a list.
    """

    entry = f"struct({', '.join(f'{name} AS {name}' for name in FIELDS)})"
    place = PLACE
    collected = f"collect_list(CASE WHEN operation <> 'clear' THEN {entry} END)"

    def checkpoint_of(self, place: str) -> str:
        """The checkpoint of a place."""
        return f"{place}.checkpoint_id"

    def time(self, milliseconds: str) -> str:
        """A timestamp of epoch milliseconds; null outside the years 1 to 9999."""
        return time_of(milliseconds)

    def value(self, kind: SqlType, json_text: str) -> str:
        """A value of a type, of JSON text."""
        return value_of(kind, json_text)

    def values(self, kind: SqlType, entries: str) -> str:
        """The values of a list's entries."""
        return self.each(entries, f"CASE WHEN e.pickled_type IS NULL THEN {self.value(kind, 'e.value')} END")

    def each(self, entries: str, found: str) -> str:
        """A list of what is said of each entry ``e``."""
        return f"transform({entries}, e -> {found})"

    def joined(self, texts: str, between: str) -> str:
        """A list's texts as one."""
        return f"array_join({texts}, '{between}')"

    def types(self, entries: str) -> str:
        """The different types of a list's pickled values, a list."""
        return f"array_distinct(filter({entries}.pickled_type, n -> n IS NOT NULL))"

    def size(self, entries: str) -> str:
        """The bytes of a list's pickled values."""
        return f"aggregate({entries}, CAST(NULL AS INT), (s, e) -> coalesce(s + e.pickled_bytes, s, e.pickled_bytes))"


SPARK = SqlDialect()
