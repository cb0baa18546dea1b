"""A reader of a job's log that was written after docs/table-format.md alone: pyarrow and delta-rs, no code of the engine."""

from __future__ import annotations

import bisect
import json
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from support.same import exact

Held = dict[tuple[str, str], dict[tuple[str, str | None], list[Any]]]
Row = dict[str, Any]
TIMERS = ("__event_time_timers", "__processing_time_timers")


class LogByHand:
    """A job's log as its two tables are now.

    Args:
        folder: the job's.
    """

    def __init__(self, folder: str | Path) -> None:
        self.rows = list(_rows(f"{folder}/changelog"))
        self.snapshots = list(_rows(f"{folder}/snapshots"))
        self.checkpoints = {
            row["checkpoint_id"]: json.loads(row["value"])
            for row in self.rows
            if row["operation"] == "checkpoint"
        }
        for row in [*self.rows, *self.snapshots]:
            if row["key"] is not None:
                most = self._most(row)
                assert row["key_group"] == key_group(row["key"], most), row

    def _most(self, row: Row) -> int:
        of = [o for c in self.checkpoints.values() for o in c["operators"] if o["uid"] == row["operator"]]
        return int(of[-1]["max_parallelism"])

    def mutations(self, checkpoint: int) -> list[Row]:
        """The rows that make a checkpoint, each key's in order; of a log that was not truncated."""
        return self._since(checkpoint, 0)

    def _since(self, checkpoint: int, first: int) -> list[Row]:
        lineage = Lineage(self.checkpoints[checkpoint]["lineage"])
        found = [
            row
            for row in self.rows
            if row["sequence"] is not None and row["checkpoint_id"] > first and lineage.has(row)
        ]
        return sorted(found, key=lambda row: (row["checkpoint_id"], row["sequence"]))

    def held(self, checkpoint: int) -> Held:
        """The state at a checkpoint."""
        described = self.checkpoints[checkpoint]
        lineage = Lineage(described["lineage"])
        there = [
            row
            for row in self.snapshots
            if row["operation"] == "snapshot" and row["checkpoint_id"] <= checkpoint and lineage.has(row)
        ]
        newest = max(there, key=lambda row: row["checkpoint_id"], default=None)
        if newest is None:
            assert described["snapshot"] is None
            return held(self._since(checkpoint, 0))
        said = json.loads(newest["value"])
        if said.get("files") is not None:
            paths = {file[0] for file in said["files"]}
            base = [row for row in self.snapshots if row["file"] in paths]
        else:
            same = (newest["checkpoint_id"], newest["attempt"])
            base = [
                row for row in self.snapshots
                if row["sequence"] is not None and (row["checkpoint_id"], row["attempt"]) == same
            ]  # fmt: skip
            assert len({row["file"] for row in base}) == said["parts"]
        base.sort(key=lambda row: (row["checkpoint_id"], row["sequence"]))
        return held([*base, *self._since(checkpoint, newest["checkpoint_id"])])


class Lineage:
    """Runs of checkpoints, by their attempts."""

    def __init__(self, runs: list[list[int]]) -> None:
        self.firsts = [run[1] for run in runs]
        self.runs = runs

    def has(self, row: Row) -> bool:
        """Whether a row's checkpoint is on it."""
        place = bisect.bisect_right(self.firsts, row["checkpoint_id"]) - 1
        if place < 0:
            return False
        attempt, _, last = self.runs[place]
        return row["attempt"] == attempt and row["checkpoint_id"] <= last


def key_group(key: str, most: int) -> int:
    """The key group of a key's text."""
    value = json.loads(key)
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return ((value * 0x9E3779B97F4A7C15 % (1 << 64)) >> 33) % most
    return zlib.crc32(key.encode()) % most


def _rows(table: str) -> Iterator[Row]:
    try:
        files = DeltaTable(table).file_uris()
    except TableNotFoundError:
        return
    for uri in sorted(files):
        path = Path(uri.removeprefix("file://"))
        data = path.read_bytes()
        if not path.name.startswith("pack-"):
            assert f"{zlib.crc32(data):08x}" == path.stem.rsplit("-", 1)[1], path
        for row in pq.read_table(pa.BufferReader(data)).to_pylist():
            yield row | {"file": path.name}


def held(rows: list[Row]) -> Held:
    """What rows in the order of the log make: (operator, state) to (key, namespace) to [(map key, value)]; timers sorted."""
    found: dict[tuple[str, str], dict[tuple[str, str | None], Any]] = {}
    for row in rows:
        state = found.setdefault((row["operator"], row["state"]), {})
        place = (row["key"], row["namespace"])
        value = pictured(row)
        operation, map_key = row["operation"], row["map_key"]
        if operation in ("put", "append", "register_timer", "replace"):
            entries = state.setdefault(place, {})
            if operation == "put":
                entries[map_key] = value
            elif operation == "register_timer":
                entries[row["value"]] = value
            else:
                if operation == "replace":
                    entries.clear()
                entries[len(entries)] = value
        elif operation in ("remove", "delete_timer"):
            entries = state.get(place, {})
            entries.pop(map_key if operation == "remove" else row["value"], None)
        elif operation == "clear":
            state.pop(place, None)
        else:
            raise ValueError(operation)
    plain: Held = {}
    for name, state in found.items():
        shown = {}
        for place, entries in state.items():
            if name[1] in TIMERS:
                shown[place] = sorted(entries)
            else:
                shown[place] = [(k if isinstance(k, str) else None, v) for k, v in entries.items()]
        shown = {place: entries for place, entries in shown.items() if entries}
        if shown:
            plain[name] = shown
    return plain


def pictured(row: Row) -> Any:
    """A row's value: its text, or what is pickled."""
    return exact(pickle.loads(row["payload"])) if row["payload"] is not None else row["value"]
