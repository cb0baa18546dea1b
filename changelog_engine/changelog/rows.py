"""The changelog's row: one mutation of one keyed state. docs/table-format.md describes it for readers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from changelog_engine.graph.nodes import StateId

# Rows about the log itself; their value is a JSON document.
CHECKPOINT = "checkpoint"
ATTEMPT = "attempt"

SCHEMA = pa.schema(
    [
        pa.field("checkpoint_id", pa.int64(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64()),
        pa.field("operator", pa.string()),
        pa.field("state", pa.string()),
        pa.field("key_group", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("namespace", pa.string()),
        pa.field("map_key", pa.string()),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("value", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("event_time", pa.timestamp("us", tz="UTC")),
    ]
)


def milliseconds_of(event_times: pa.ChunkedArray) -> list[int | None]:
    """The column ``event_time`` in milliseconds since 1970."""
    return [None if each is None else each // 1000 for each in event_times.cast(pa.int64()).to_pylist()]


class RowOfLog(NamedTuple):
    """What a row about the log itself has; all other columns are null."""

    checkpoint_id: int  # its id; of an attempt, the checkpoint it starts from, or 0
    attempt: int
    operation: str
    value: str
    event_time: int  # microseconds since 1970


Columns = dict[str, Any]
"""Of some rows by name: an array of as many values (plain or dictionary), a constant for all rows, or None for nulls."""


class LogColumns(NamedTuple):
    """Rows of one state, column by column."""

    rows: int
    columns: Columns

    @property
    def name(self) -> StateId:
        """The operator's uid and the state's name."""
        return self.columns["operator"], self.columns["state"]
