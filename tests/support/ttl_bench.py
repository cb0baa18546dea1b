"""One state with a time to live, of one subtask, with a clock and a log to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api.common.typeinfo import Types
from changelog_engine.codec.values import CLEARED
from changelog_engine.graph.nodes import StateKind, StateSpec, TtlSpec
from changelog_engine.operators.store import KeyedStore
from changelog_engine.state import StateBackend, StateTable, mutation_log
from support.stores import store_config

TTL = 100


class _OneTable(StateBackend):
    """Gives a table that is made already."""

    def __init__(self, table: StateTable) -> None:
        self._table = table

    def table(self, operator: str, state: str, kind: StateKind) -> StateTable:
        return self._table


class TtlBench:
    """See the module. Time begins at 1,000 ms, the cursor stands at key "a"."""

    def __init__(
        self,
        tmp_path: Path,
        kind: StateKind = StateKind.VALUE,
        value_type: Any = None,
        function: Any = None,
        table: Any = None,
        **ttl: Any,
    ) -> None:
        self.now = 1_000
        self.readings = 0
        self.store = KeyedStore(
            store_config(tmp_path), self.clock, None if table is None else _OneTable(table)
        )
        self.spec = StateSpec(
            "s",
            kind,
            value_type or Types.LONG(),
            Types.STRING() if kind is StateKind.MAP else None,
            function,
            ttl=TtlSpec(TTL, **ttl),
        )
        self.state = self.store.state("op", self.spec)
        self.key("a")

    def clock(self) -> int:
        """The time, in ms."""
        self.readings += 1
        return self.now

    def key(self, key: str) -> TtlBench:
        """Go to a key."""
        self.store.cursor.key = key
        return self

    @property
    def table(self) -> Any:
        """The table of the stored state."""
        return self.store.tables["op", "s"]

    def logged(self) -> list[tuple[Any, ...]]:
        """What was logged since the last call: (operation, key, map key where there is one, value where there is one)."""
        (log,) = self.store.buffer.logs
        size = len(log.keys)
        operations = log.operations or [
            mutation_log.CLEAR if v is CLEARED else mutation_log.PUT for v in log.values
        ]
        map_keys = log.map_keys or [CLEARED] * size
        columns = zip(operations, log.keys, map_keys, log.values, strict=True)
        found = [tuple(cell for cell in row if cell is not CLEARED) for row in columns]
        log.clear()
        return found
