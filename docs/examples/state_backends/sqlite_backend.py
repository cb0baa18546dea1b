"""A state backend of one's own: all state and timers of a subtask in a private SQLite database on the local disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from changelog_engine.state import StateBackend, StateKind, Timer, TimerTable, entry_bytes, identity_bytes


class SQLiteBackend(StateBackend):
    """One database for each subtask. SQLite removes its file when the connection is closed."""

    def __init__(self) -> None:
        self.database = sqlite3.connect("", isolation_level=None)  # no name: a temporary file
        self.database.execute("PRAGMA journal_mode = OFF")  # what makes state durable is the changelog
        self.tables = 0

    def table(self, operator: str, state: str, kind: StateKind) -> SQLiteTable:
        return SQLiteTable(self.database, self.next_name())

    def timer_table(self, operator: str, domain: str) -> SQLiteTimers:
        return SQLiteTimers(self.database, self.next_name())

    def next_name(self) -> str:
        self.tables += 1
        return f"table_{self.tables}"

    def close(self) -> None:
        self.database.close()


class SQLiteTable:
    """A state's entries, each as bytes under the bytes of its key."""

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self.database = database
        self.name = name
        database.execute(f"CREATE TABLE {name} (key BLOB PRIMARY KEY, entry BLOB) WITHOUT ROWID")

    def get(self, key: Any, default: Any = None, /) -> Any:
        found = self.database.execute(
            f"SELECT entry FROM {self.name} WHERE key = ?", (identity_bytes.encode(key),)
        ).fetchone()
        return default if found is None else entry_bytes.load(found[0])

    def __setitem__(self, key: Any, entry: Any, /) -> None:
        row = identity_bytes.encode(key), entry_bytes.dump(entry)
        self.database.execute(f"INSERT OR REPLACE INTO {self.name} VALUES (?, ?)", row)

    def pop(self, key: Any, default: Any, /) -> Any:
        entry = self.get(key, default)
        self.database.execute(f"DELETE FROM {self.name} WHERE key = ?", (identity_bytes.encode(key),))
        return entry

    def items(self) -> Iterator[tuple[Any, Any]]:
        rows = self.database.execute(f"SELECT key, entry FROM {self.name}").fetchall()  # as they are now
        for key, entry in rows:
            yield identity_bytes.decode(key)[0], entry_bytes.load(entry)


class SQLiteTimers(TimerTable):
    """An operator's timers by time, then by number; SQLite gives each row that is added a larger number."""

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self.database = database
        self.name = name
        database.execute(
            f"CREATE TABLE {name} (number INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER, key BLOB)"
        )
        database.execute(f"CREATE UNIQUE INDEX {name}_timers ON {name} (time, key)")
        database.execute(f"CREATE INDEX {name}_due ON {name} (time, number)")

    def __contains__(self, timer: Any, /) -> bool:
        return bool(self.rows("WHERE time = ? AND key = ?", timer[0], identity_bytes.encode(timer[1])))

    def __iter__(self) -> Iterator[Timer]:
        return iter(self.rows("ORDER BY number"))

    def add(self, timer: Timer) -> None:
        row = timer[0], identity_bytes.encode(timer[1])
        self.database.execute(f"INSERT INTO {self.name} (time, key) VALUES (?, ?)", row)

    def remove(self, timer: Timer) -> None:
        row = timer[0], identity_bytes.encode(timer[1])
        self.database.execute(f"DELETE FROM {self.name} WHERE time = ? AND key = ?", row)

    def first(self) -> Timer | None:
        rows = self.rows("ORDER BY time, number LIMIT 1")
        return rows[0] if rows else None

    def due(self, until: int) -> list[Timer]:
        return self.rows("WHERE time <= ? ORDER BY time, number", until)

    def rows(self, where: str, *values: Any) -> list[Timer]:
        rows = self.database.execute(f"SELECT time, key FROM {self.name} {where}", values).fetchall()
        return [(time, identity_bytes.decode(key)[0]) for time, key in rows]
