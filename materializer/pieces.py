"""How the key groups of a snapshot are cut into pieces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.snapshot_row import ANY, Piece, SnapshotRow


def pieces_of(row: SnapshotRow, files: Iterable[PartFile]) -> list[Piece]:
    """The pieces of a snapshot.

    Args:
        files: of the snapshot, for one whose row names none.
    """
    if row.pieces is not None:
        return list(row.pieces)
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
