"""The rows of files in SQL: those of a point or a lineage, of an operator, the newest of each entry.

Invariants:
    * Rows apply in the order of (checkpoint_id, sequence) within (key, namespace), and within (key, namespace, map_key).
"""

from __future__ import annotations

from dataclasses import dataclass

from changelog_engine.changelog.model import Segment
from changelog_engine.history.names import literal

COLUMNS = (
    "checkpoint_id BIGINT, attempt INT, sequence BIGINT, operator STRING, state STRING, key_group INT, key STRING, "
    "namespace STRING, map_key STRING, operation STRING, value STRING, payload BINARY, event_time TIMESTAMP"
)
COLUMN_NAMES = [column.partition(" ")[0] for column in COLUMNS.split(", ")]
PLACE = "struct(checkpoint_id, sequence)"
KEY = "key_group, key, namespace"  # the group follows from the key, and conditions on it reach the files
TIMER_KEY = f"{KEY}, state, value"
# Within a key, the order of (checkpoint_id, sequence) is that of (attempt, sequence), which fits into one number; rows of a
# snapshot come before it.
_SEQUENCE_BITS = 45
MOST_ATTEMPTS = 1 << (63 - _SEQUENCE_BITS)
_BEFORE_LOG = 1 << 62
MOST_ENTRIES = 1_000_000  # of which a broadcast table takes less than 100 MB


@dataclass(frozen=True)
class Times:
    """When checkpoints were, for SQL."""

    first: int
    times_ms: list[int | None]  # one a checkpoint from there on; None for those that are not on the lineage

    def milliseconds(self, checkpoint: str) -> str:
        """SQL of a checkpoint's id -> SQL of its time in ms."""
        listed = literal(",".join("" if time is None else str(time) for time in self.times_ms))
        place = f"CAST({checkpoint} - {self.first - 1} AS INT)"
        # Element 0 does not exist, and asking for it is an error.
        found = f"try_cast(try_element_at(split({listed}, ','), {place}) AS BIGINT)"
        return f"CASE WHEN {checkpoint} >= {self.first} THEN {found} END"


def on_lineage_sql(lineage: tuple[Segment, ...], checkpoint: str) -> str:
    """SQL of whether a row is on a lineage, from SQL of its checkpoint's id."""
    runs = [f"(attempt = {s.attempt} AND {checkpoint} BETWEEN {s.first} AND {s.last})" for s in lineage]
    return f"({' OR '.join(runs)})"


def rows_sql(base: str | None, log: str, snapshot: int | None, lineage: tuple[Segment, ...]) -> str:
    """A query of the rows of a selection, with ``is_base`` for those of the snapshot.

    Args:
        base: a query of the snapshot's rows, with the log's columns in their order; None for no snapshot.
        log: a query of the log's rows.
        snapshot: rows of the log up to this checkpoint are in the base.
        lineage: keep only its rows; empty when all are.
    """
    conditions = ["sequence IS NOT NULL"]
    if snapshot is not None:
        conditions.append(f"checkpoint_id > {snapshot}")
    if lineage:
        conditions.append(on_lineage_sql(lineage, "checkpoint_id"))
    rows = f"SELECT *, false AS is_base FROM ({log}) WHERE {' AND '.join(conditions)}"
    if base is None:
        return rows
    return f"SELECT *, true AS is_base FROM ({base}) WHERE sequence IS NOT NULL UNION ALL {rows}"


def newest_sql(rows: str, entry: str) -> str:
    """A query of rows that has the newest row of each entry, and few others: a first sieve where a window is dear.

    The newest place of each entry is found in hash tables of numbers, and rows are looked up by that number alone. Rows of
    other subtasks with the same number come through, too. With more than a million entries nothing is left out.

    Args:
        entry: SQL of what tells entries apart.
    """
    in_log = f"shiftleft(CAST(attempt AS BIGINT), {_SEQUENCE_BITS}) | sequence"
    place = f"CASE WHEN is_base THEN sequence - {_BEFORE_LOG} ELSE {in_log} END"
    entries = "(SELECT count(newest_place) FROM newest)"
    return (
        f"WITH placed AS (SELECT *, {place} AS log_place FROM ({rows})), "
        f"newest AS (SELECT max(log_place) AS newest_place FROM placed GROUP BY {entry}), "
        f"few AS (SELECT newest_place FROM newest WHERE {entries} <= {MOST_ENTRIES} GROUP BY newest_place) "
        "SELECT /*+ BROADCAST(few) */ placed.* FROM placed LEFT JOIN few ON log_place = newest_place "
        f"WHERE newest_place IS NOT NULL OR {entries} > {MOST_ENTRIES}"
    )
