"""What the log of one of the engine's own Delta tables says, as delta-rs reads it: files, properties, id.

It is read once, as long as none of the log's files was changed.

Invariants:
    * A table that asks for more than plain readers know is refused.
    * Rows are those that this engine wrote (``foreign_commits``).
    * What the log lists are names of files in the table's folder: nothing else that stands there leaves this module.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Metadata
from deltalake.exceptions import TableNotFoundError

from changelog_engine.errors import ForeignPathError, StorageError
from changelog_engine.storage.damaged import DELTA_ERRORS, delta_rs
from changelog_engine.storage.delta_damage import refuse_damaged, unreadable
from changelog_engine.storage.delta_names import CHECKPOINT_NAME, COMMIT_NAME, LOG, last_checkpoint_version
from changelog_engine.storage.delta_place import delta_place
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.foreign_commits import refuse_changed_rows
from changelog_engine.storage.protocol import Entry, Storage

_PLAIN_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._+=-]*$"  # others' compactions give such names too
_READER_VERSION = 1


class Content(NamedTuple):
    """What a table's log says: at which version, which files, and what the table is."""

    version: int
    files: pa.Table
    metadata: Metadata


# Of each table that was read: its log's files then, and what they say. A commit is never replaced.
_READ: dict[str, tuple[list[Entry], Content]] = {}
_OPENED: dict[str, tuple[list[Entry], DeltaTable]] = {}  # while nobody uses them, see _table_of
_MOST_READ = 16
_MOST_KEPT = 5_000  # files of a table that stays open: delta-rs holds some kB of each


def entries(storage: Storage) -> list[Entry]:
    """The files of a log, in object stores from the newest Delta checkpoint on: all of them where that is not found.

    A store gives a thousand names a request, and the log of a day's checkpoints may have a hundred thousand.
    """
    version = last_checkpoint_version(storage) if storage.local is None else -1
    if version > 0:
        found = storage.list(LOG, after=f"{version:020d}")
        if any(CHECKPOINT_NAME.match(entry.name) and int(entry.name[:20]) == version for entry in found):
            return found
    return storage.list(LOG)


def content_of(storage: Storage) -> Content:
    """All of it, for the newest version.

    Raises:
        ForeignPathError: somebody else changed what the table is, or added what is not a file in its folder.
        CorruptChangelogError: a file of the log is missing or cannot be read, or somebody else changed rows; names it.
    """
    listed = entries(storage)
    refuse_damaged(storage, listed)
    return _remembered(storage, listed) or _read(storage, listed)


def metadata_of(storage: Storage) -> Metadata:
    """What the table is.

    Raises:
        CorruptChangelogError: a file of the log is missing or damaged; names it.
    """
    listed = entries(storage)
    known = _remembered(storage, listed)
    if known is not None:
        return known.metadata
    with _table_of(storage, listed) as table:
        return table.metadata()


def plain_names(storage: Storage, paths: Iterable[str]) -> list[str]:
    """Paths out of the log, which anybody may have written; see the invariants.

    Raises:
        ForeignPathError: one of them is not the name of a file in the table's folder.
    """
    names = list(paths)
    for name in names:
        if not re.fullmatch(_PLAIN_NAME, name):
            raise ForeignPathError(
                f"the Delta log of {storage.root} lists {name!r}, which is not the name of a file in that folder: "
                "somebody else wrote that. Nothing was read or changed. Restore the folder from a copy, or start in "
                "another base path"
            )
    return names


def opened(storage: Storage) -> DeltaTable:
    """The table as delta-rs has it; raises as ``read_by_delta_rs``."""
    place = delta_place(storage)
    with read_by_delta_rs(storage):
        return DeltaTable(place, storage_options=FileSystems().delta_options(storage.root))


@contextlib.contextmanager
def read_by_delta_rs(storage: Storage) -> Iterator[None]:
    """Have delta-rs read a log in the block, and nothing else.

    Raises:
        CorruptChangelogError: a file of the log is missing or damaged; names it.
    """
    try:
        with delta_rs():
            yield
    except TableNotFoundError as error:
        raise StorageError(f"{storage.root} is not a Delta table") from error
    except DELTA_ERRORS as error:
        raise unreadable(storage, error) from error


def _remembered(storage: Storage, listed: list[Entry]) -> Content | None:
    found = _READ.get(storage.root)
    return found[1] if found is not None and found[0] == listed else None


def _read(storage: Storage, listed: list[Entry]) -> Content:
    with _table_of(storage, listed) as table:
        _refuse_features(storage, table)
        # pa.table() would import pandas to see whether that is a DataFrame: a third of a second.
        with read_by_delta_rs(storage):
            files = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
        content = Content(table.version(), files, table.metadata())
    if files.num_rows > _MOST_KEPT:
        _OPENED.pop(storage.root, None)
    paths = files["path"]
    plain_names(storage, paths.filter(pc.invert(pc.match_substring_regex(paths, _PLAIN_NAME))).to_pylist())
    commits = (int(match[1]) for entry in listed if (match := COMMIT_NAME.match(entry.name)))
    refuse_changed_rows(storage, max(commits, default=-1))
    if len(_READ) >= _MOST_READ:
        _READ.clear()
    _READ[storage.root] = listed, content
    return content


@contextlib.contextmanager
def _table_of(storage: Storage, listed: list[Entry]) -> Iterator[DeltaTable]:
    """The table at its newest version, for one thread in the block; it stays open for the next if the block raises nothing.

    Where only commits came since it was opened, delta-rs reads these and not the whole log: less than half of the CPU.
    """
    before, table = _OPENED.pop(storage.root, (listed, None))
    if table is not None and before != listed:
        table = _caught_up(table, before, listed)
    if table is None:
        refuse_damaged(storage, listed)
        table = opened(storage)
    yield table
    if len(_OPENED) >= _MOST_READ:
        _OPENED.clear()
    _OPENED[storage.root] = listed, table


def _caught_up(table: DeltaTable, before: list[Entry], listed: list[Entry]) -> DeltaTable | None:
    """The same table with the commits that came since; None where others files came, went or changed, or one is damaged."""
    came = set(listed).difference(before)
    if len(came) + len(before) != len(listed) or not all(
        COMMIT_NAME.match(each.name) and each.size for each in came
    ):
        return None
    try:
        with delta_rs():
            table.update_incremental()
    except (StorageError, *DELTA_ERRORS):
        return None  # opened anew, it says which file is the matter
    return table


def _refuse_features(storage: Storage, table: DeltaTable) -> None:
    """Refuse a table whose rows are not simply those of its files."""
    protocol, partitions = table.protocol(), table.metadata().partition_columns
    if protocol.min_reader_version > _READER_VERSION:
        features = ", ".join(protocol.reader_features or []) or "column mapping"
        what = f"asks for reader version {protocol.min_reader_version} ({features})"
    elif partitions:
        what = f"is partitioned by {', '.join(partitions)}"
    else:
        return
    raise ForeignPathError(
        f"the Delta table {storage.root} {what}: somebody else changed it, and its files alone do not say any more "
        "which rows there are. Nothing was read or changed. Ask `changelog-engine verify "
        f"{shlex.quote(storage.root.rpartition('/')[0])} --repair` how to undo that, or restore the folder from a copy"
    )
