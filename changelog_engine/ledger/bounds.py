"""Which files may be left unread: proven by what a checksum covers, or by the list and the file's own footer together.

A list of files is a hint. One flipped bit in a minimum or maximum must not hide a file's rows, so what it says alone never
lets a file be skipped: one of another writer, as after OPTIMIZE, whose footer names no operators, is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow.parquet as pq

from changelog_engine.changelog.file_memo import FileMemo
from changelog_engine.changelog.log_files import checksum_of
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_stats import delta_stats
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.protocol import Storage
from changelog_engine.storage.side_by_side import side_by_side


class Bounds(NamedTuple):
    """What a file's rows are of, as far as checksums cover it.

    Args:
        operator: uid; None for any.
        first, last: key groups, inclusive.
    """

    operator: str | None
    first: int
    last: int

    def may_hold(self, key_groups: range, operators: frozenset[str] | None) -> bool:
        """Whether the file can hold a row of these key groups and operators (None: all)."""
        if self.first >= key_groups.stop or self.last < key_groups.start:
            return False
        return operators is None or self.operator is None or self.operator in operators


def needed(
    storage: Storage,
    files: Iterable[tuple[PartFile, Bounds | None]],
    key_groups: range,
    operators: frozenset[str] | None,
) -> list[PartFile]:
    """The files that may hold rows of some key groups and operators, in their order.

    Args:
        files: with their proven bounds; None where nothing is proven.
        operators: uids; None for all.

    Raises:
        CorruptChangelogError: the list of files and the footer of a file disagree, or the file is missing.
    """
    kept, doubtful = [], []
    for file, bounds in files:
        if bounds is not None and not bounds.may_hold(key_groups, operators):
            continue
        kept.append(file)
        if not file.may_hold(key_groups, operators):
            doubtful.append(file)
    proven = _proven(storage, doubtful)
    hidden = {file.id for file in doubtful if file.path in proven}
    return [file for file in kept if file.id not in hidden]


def check_listed(storage: Storage, files: Sequence[PartFile]) -> None:
    """Compare what the list says of this engine's own files with their footers.

    Raises:
        CorruptChangelogError: they disagree, or a file is missing; names it.
    """
    proven = _proven(storage, files)
    for file in files:
        if file.path not in proven:
            raise CorruptChangelogError(
                "does not say what the table's list of files says of it", storage.join(file.path)
            )


def _proven(storage: Storage, files: Sequence[PartFile]) -> set[str]:
    """Paths of the files whose footers say all that the list says. That of a file of another writer says less.

    Raises:
        CorruptChangelogError: a footer and the list disagree, or a file is missing; names it.
    """
    found = list({file.path: file for file in files}.values())
    said = side_by_side(storage, partial(_says_as_much, storage), found)
    return {file.path for file, as_much in zip(found, said, strict=True) if as_much}


def footer_of_file(storage: Storage, path: str) -> pq.FileMetaData:
    """The Parquet metadata of a file that a table lists.

    Raises:
        CorruptChangelogError: it is missing or can't be read.
    """
    with reading(storage.join(path)):
        return storage.read_footer(path)


class _Said(NamedTuple):
    """What a file's footer says of its rows; None for what it does not say."""

    rows: int | None
    first_key_group: int | None
    last_key_group: int | None
    first_operator: str | None
    last_operator: str | None


_SAID: FileMemo[_Said] = FileMemo(16_384)
_WHAT = ("number of rows", "first key group", "last key group", "first operator", "last operator")


def _said_by(storage: Storage, path: str) -> _Said:
    footer = footer_of_file(storage, path)
    with reading(storage.join(path)):
        found = delta_stats(footer)
    low, high = found["minValues"], found["maxValues"]
    groups = low.get("key_group"), high.get("key_group")
    return _Said(found["numRecords"], *groups, low.get("operator"), high.get("operator"))


def _says_as_much(storage: Storage, file: PartFile) -> bool:
    full = storage.join(file.path)
    # Each operator and subtask of a process asks of nearly all files.
    there = (
        _said_by(storage, file.path)
        if checksum_of(file.path) is None
        else _SAID.of(full, partial(_said_by, storage, file.path))
    )
    listed = _Said(
        file.rows if file.within is None else file.within.pack_rows,
        file.first_key_group,
        file.last_key_group,
        file.first_operator,
        file.last_operator,
    )
    for what, said, found in zip(_WHAT, listed, there, strict=True):
        if said is not None and found is not None and said != found:
            raise CorruptChangelogError(
                f"has {found!r} as its {what}, and the table's list of files says {said!r}: one of them was damaged",
                full,
            )
    return all(said is None or found is not None for said, found in zip(listed, there, strict=True))
