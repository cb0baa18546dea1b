"""The pieces of a snapshot: which file holds which operator, kind of rows and key groups.

A snapshot's marker lists them, older snapshots' pieces included: what the log has not touched since is referred to again.

Invariants:
    * The pieces of a snapshot are disjoint, and together hold every live row.
    * All timers of a subtask's key groups lie in one piece: timers of one time fire in the order of registration, over
      all keys of a subtask. Other entries keep their order within a key only, so they may be cut finer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from changelog_engine.changelog.part_selection import PartFile

ENTRIES = "entries"
TIMERS = "timers"
ANY = "any"  # a part of a full snapshot: entries and timers


class Piece(NamedTuple):
    """One file of a snapshot.

    Args:
        path: in the snapshots table.
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


def pieces_of(document: Mapping[str, Any], files: Iterable[PartFile]) -> list[Piece]:
    """The pieces that a snapshot's marker names.

    Args:
        files: of the snapshot, for full snapshots, whose marker names none.
    """
    if "files" in document:
        return [Piece(*entry) for entry in document["files"]]
    return [
        Piece(
            file.path,
            file.first_operator if file.first_operator == file.last_operator else None,
            ANY,
            0 if file.first_key_group is None else file.first_key_group,
            2**31 if file.last_key_group is None else file.last_key_group,
        )
        for file in files
    ]


def cut(groups: range, pieces: int) -> list[range]:
    """A range of key groups in about equal pieces; a power of two of them halves those of the power before.

    Example:
        >>> cut(range(0, 5), 2), cut(range(7, 8), 4)
        ([range(0, 2), range(2, 5)], [range(7, 8)])
    """
    size = len(groups)
    bounds = sorted({groups.start + size * i // pieces for i in range(pieces + 1)})
    return [range(low, high) for low, high in itertools.pairwise(bounds)]
