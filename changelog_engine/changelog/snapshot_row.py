"""The row of a snapshot, which says that it is complete and which files it is made of (docs/table-format.md).

Invariants:
    * The pieces of a snapshot are disjoint, and together hold every live row.
    * All timers of a subtask's key groups lie in one piece: timers of one time fire in the order of registration, over
      all keys of a subtask. Other entries keep their order within a key only, so they may be cut finer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from changelog_engine.changelog.log_files import parse_part, parse_row
from changelog_engine.changelog.model import FORMAT_VERSION, Checkpoint, Part, check_format
from changelog_engine.changelog.one_row_files import read_row
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.storage.protocol import Storage

ENTRIES = "entries"
TIMERS = "timers"
ANY = "any"  # a part of a full snapshot: entries and timers


class Piece(NamedTuple):
    """One file of a snapshot.

    Args:
        operator: uid, or None for any.
        kind: ENTRIES, TIMERS or ANY.
        first, last: key groups it stands for, inclusive; there may be no row of some of them.
    """

    path: str
    operator: str | None
    kind: str
    first: int
    last: int

    def stands_for(self, operator: str, kind: str, groups: range) -> bool:
        """Whether it holds exactly this."""
        return (self.operator, self.kind, self.first, self.last + 1) == (
            operator,
            kind,
            groups.start,
            groups.stop,
        )

    def may_hold(self, operator: str, kind: str, groups: range) -> bool:
        """Whether it can hold a row of this."""
        return (
            self.operator in (None, operator)
            and self.kind in (ANY, kind)
            and self.first < groups.stop
            and self.last >= groups.start
        )


@dataclass(frozen=True)
class SnapshotRow:
    """A snapshot's row.

    Args:
        pieces: its files, older snapshots' included: what the log has not touched since is referred to again. None for a
            snapshot that was not made from the log: its parts are those of its checkpoint and attempt.
        cells: operator to how many pieces its entries are cut into.
    """

    checkpoint: int
    attempt: int
    parts: int
    pieces: tuple[Piece, ...] | None
    cells: Mapping[str, int]
    text: str

    @staticmethod
    def of(
        checkpoint: Checkpoint,
        parts: Sequence[Part],
        pieces: Sequence[Piece] | None = None,
        cells: Mapping[str, int] | None = None,
    ) -> SnapshotRow:
        """The row of a snapshot that is made now.

        Args:
            pieces, cells: of one that is made from the log.
        """
        shared = {piece.path for piece in pieces or ()} - {part.path for part in parts}
        document: dict[str, object] = {
            "format": FORMAT_VERSION,
            "checkpoint": checkpoint.id,
            "attempt": checkpoint.attempt,
            "parts": len(parts) + len(shared),
            "rows": sum(part.rows for part in parts),
            "bytes": sum(part.size for part in parts),
        }
        if pieces is not None:
            document |= {"files": pieces, "cells": cells or {}}
        return SnapshotRow.from_json(json.dumps(document))

    @staticmethod
    def from_json(text: str, where: str = "a snapshot") -> SnapshotRow:
        """A row as it was written.

        Raises:
            FormatVersionError: a newer engine wrote it.
        """
        document = json.loads(text)
        check_format(document["format"], where)
        pieces = None
        if "files" in document:
            pieces = tuple(_piece(*entry) for entry in document["files"])
        who = int(document["checkpoint"]), int(document["attempt"])
        return SnapshotRow(*who, int(document["parts"]), pieces, document.get("cells", {}), text)

    @property
    def paths(self) -> frozenset[str]:
        """The files that it names."""
        return frozenset(piece.path for piece in self.pieces or ())


def _piece(path: str, operator: str | None, kind: object, first: int, last: int) -> Piece:
    if parse_part(path) is None or not isinstance(kind, str) or not 0 <= int(first) <= int(last):
        raise ValueError(f"it names the piece {path!r}")
    return Piece(path, operator, kind, int(first), int(last))


def read_snapshot_row(storage: Storage, path: str) -> SnapshotRow:
    """Read a snapshot's row.

    Raises:
        CorruptChangelogError: it is missing, isn't what its name says, or isn't a snapshot's row.
        FormatVersionError: a newer engine wrote it.
    """
    name, text = parse_row(path), read_row(storage, path)
    try:
        row = SnapshotRow.from_json(text, storage.join(path))
        if name is not None and (row.checkpoint, row.attempt) != (name.checkpoint, name.attempt):
            raise ValueError(f"it is of checkpoint {row.checkpoint} of attempt {row.attempt}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptChangelogError(f"is not the row of a snapshot: {error!r}", storage.join(path)) from error
    return row
