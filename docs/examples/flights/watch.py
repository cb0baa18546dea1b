"""Looking at a running job from outside: its changelog table is a Delta table that anyone may read meanwhile."""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError


@dataclass(frozen=True)
class Progress:
    """What the checkpoints of the job say so far.

    Args:
        checkpoint: id of the newest, 0 before the first.
        attempt: which run of the job made it.
        position: bytes of the input that are safely processed.
        checkpoints: how many there are.
        mutations: changes of state they made durable.
        bytes: size of the log.
        finished: the input has ended.
    """

    checkpoint: int = 0
    attempt: int = 0
    position: int = 0
    checkpoints: int = 0
    mutations: int = 0
    bytes: int = 0
    finished: bool = False


def progress(table: Path) -> Progress:
    """Read the checkpoint rows of a changelog table; all zero before the job made it."""
    try:
        changelog = DeltaTable(str(table))
    except TableNotFoundError:  # its folders may be there before its first commit
        return Progress()
    tables = QueryBuilder().register("changelog", changelog)
    rows = pa.table(tables.execute("SELECT value FROM changelog WHERE operation = 'checkpoint'").read_all())
    checkpoints = sorted(map(json.loads, rows["value"].to_pylist()), key=lambda row: row["id"])
    if not checkpoints:
        return Progress()
    newest = checkpoints[-1]
    # A file's position is what was read of it, its size and its time.
    positions = [position for files in newest["sources"].values() for position, _ in files.values()]
    return Progress(
        checkpoint=newest["id"],
        attempt=newest["attempt"],
        position=sum(read for read, _size, _changed in positions),
        checkpoints=len(checkpoints),
        mutations=sum(row["rows"] for row in checkpoints),
        bytes=sum(row["bytes"] for row in checkpoints),
        finished=newest["finished"],
    )
