"""What is damaged in the log of one of the engine's own Delta tables, and what to say of it.

Invariants:
    * A Delta checkpoint that this engine wrote is checked against its CRC-32 before the list of files is taken from it.
    * A log that cannot be read is an error that names the file of it that is missing or damaged.
"""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.storage.damaged import PARQUET_ERRORS
from changelog_engine.storage.delta_actions import actions_of
from changelog_engine.storage.delta_names import (
    CHECKPOINT_NAME,
    COMMIT_NAME,
    LAST_CHECKPOINT,
    LOG,
    checkpoint_path,
    commit_path,
    last_checkpoint_version,
)
from changelog_engine.storage.protocol import Entry, Storage

# An empty file whose name has a Delta checkpoint's CRC-32; readers of Delta pass over names that begin so.
_CHECKSUM = "_checksum-"
_CHECKSUM_NAME = re.compile(rf"^{_CHECKSUM}(\d{{20}})-([0-9a-f]{{8}})$")


def refuse_damaged(storage: Storage, entries: Iterable[Entry]) -> None:
    """Refuse what delta-rs would take: an emptied commit, a Delta checkpoint of other bytes than were written.

    Raises:
        CorruptChangelogError: names the file.
    """
    newest, checksums = "", {}
    for entry in entries:
        checksum = _CHECKSUM_NAME.match(entry.name)
        if COMMIT_NAME.match(entry.name) and not entry.size:
            raise damaged(storage, storage.join(f"{LOG}/{entry.name}"), "is empty")
        if checksum:
            checksums[checksum.group(1)] = int(checksum.group(2), 16)
        elif CHECKPOINT_NAME.match(entry.name) and entry.name.endswith(".checkpoint.parquet"):
            newest = max(newest, entry.name)
    wanted = checksums.get(newest[:20])
    if wanted is None:
        return  # none, or somebody else's
    path = f"{LOG}/{newest}"
    try:
        found = zlib.crc32(storage.read(path))
    except FileNotFoundError:
        return  # cleaned up since it was listed
    if found != wanted:
        raise damaged(storage, storage.join(path), "is not what was written: its checksum is another")


def note_checksum(storage: Storage, version: int, checkpoint: bytes | pa.Buffer) -> None:
    """Keep the CRC-32 of a Delta checkpoint that was just written."""
    name = f"{_CHECKSUM}{version:020d}-{zlib.crc32(checkpoint):08x}"
    storage.write_durable(f"{LOG}/{name}", b"")


def forget_checksums(storage: Storage) -> None:
    """Forget those of Delta checkpoints that are gone."""
    for entry in storage.list(LOG, after=_CHECKSUM):  # the oldest first, as checkpoints go
        found = _CHECKSUM_NAME.match(entry.name)
        if found is None:
            continue
        if storage.size(checkpoint_path(int(found[1]))) is not None:
            return
        storage.delete(f"{LOG}/{entry.name}")


def unreadable(storage: Storage, error: Exception) -> StorageError:
    """What to say when delta-rs can't read a log: the file that is missing or damaged, where one is found."""
    found = _damage(storage)
    if found is None:
        return StorageError(f"could not read the Delta log of {storage.root}: {error}")
    return damaged(storage, *found)


def damaged(storage: Storage, path: str, what: str) -> CorruptChangelogError:
    """The error of a file of a log."""
    folder = shlex.quote(storage.root.rpartition("/")[0])
    return CorruptChangelogError(
        f"{what}, so the list of files of {storage.root} cannot be read. Nothing was changed. Put the file "
        f"back from a copy, or ask `changelog-engine verify {folder} --repair` what can still be had without it",
        path,
    )


def _damage(storage: Storage) -> tuple[str, str] | None:
    """The first file of a log that is missing or cannot be read, and what is wrong with it; None for none.

    Raises:
        StorageError: the folder could not be listed.
    """
    named = last_checkpoint_version(storage)  # before the list, which then has it
    names = [entry.name for entry in storage.list(LOG)]
    checkpoints = [name for name in names if CHECKPOINT_NAME.match(name) and name.endswith(".parquet")]
    for name in checkpoints:
        try:
            pq.ParquetFile(pa.BufferReader(storage.read(f"{LOG}/{name}"))).read()
        except PARQUET_ERRORS as error:
            return storage.join(f"{LOG}/{name}"), f"cannot be read ({error})"
    commits = {int(match.group(1)) for name in names if (match := COMMIT_NAME.match(name))}
    covered = max((int(name[:20]) for name in checkpoints), default=-1)
    newest = max(commits, default=-1)
    kinds: set[str] = set()
    for version in range(covered + 1, newest + 1):
        path = storage.join(commit_path(version))
        if version not in commits:
            return path, "is gone"
        commit = storage.read(commit_path(version)).to_pybytes()
        try:
            kinds.update(*actions_of(commit))
        except ValueError as error:
            return path, str(error)
    if covered < 0 <= newest and not kinds.issuperset(("protocol", "metaData")):
        return storage.join(commit_path(0)), "does not say what the table is"
    if named > covered:
        return (
            storage.join(LAST_CHECKPOINT),
            f"names the Delta checkpoint of version {named}, which is not there",
        )
    return None
