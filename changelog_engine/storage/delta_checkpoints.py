"""Delta checkpoints of the engine's own tables: a log is kept short, since behind one of them old commits are removed.

Invariants:
    * No checkpoint is made of a log that is damaged: its checksum would vouch for what that says.
    * A commit that a writer or reader that is behind may need stays for ten minutes on a local disk; elsewhere the table's
      ``delta.logRetentionDuration`` decides.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from deltalake import DeltaTable

from changelog_engine.clock import wall_s
from changelog_engine.errors import StorageError
from changelog_engine.storage.damaged import DELTA_ERRORS, delta_rs
from changelog_engine.storage.delta_content import entries, opened, read_by_delta_rs
from changelog_engine.storage.delta_damage import forget_checksums, note_checksum, refuse_damaged
from changelog_engine.storage.delta_names import (
    CHECKPOINT_NAME,
    LAST_CHECKPOINT,
    LOG,
    NUMBERED,
    checkpoint_path,
    last_checkpoint_version,
)
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.new_table import SCRATCH
from changelog_engine.storage.protocol import Storage

KEPT_S = 600.0  # how long commits stay, for writers and readers that are behind
_CLEANED = 10  # Delta checkpoints in an object store, from one clean-up of its old commits to the next


def shorten(storage: Storage, every: int) -> int | None:
    """Write a Delta checkpoint, and remove what came before it.

    Args:
        every: the number of commits between two of them.

    Returns:
        Its version; None where another process did the same.

    Raises:
        CorruptChangelogError: a file of the log is missing or damaged; names it.
    """
    known = last_checkpoint_version(storage)
    try:
        version = _written_by_delta_rs(storage, known, every) if storage.local is None else _written(storage)
    except StorageError:
        if last_checkpoint_version(storage) > known:
            return None  # what this process had listed is gone
        raise  # an OSError, too, that knows more
    except DELTA_ERRORS as error:
        raise StorageError(
            f"could not write a checkpoint of the Delta log of {storage.root}: {error}"
        ) from error
    if storage.local is None:
        try:
            note_checksum(storage, version, storage.read(checkpoint_path(version)))
        except FileNotFoundError:
            return version  # in several files, or cleaned up by another process already
    else:
        _forget_commits(storage)
    forget_checksums(storage)
    return version


def _written_by_delta_rs(storage: Storage, known: int, every: int) -> int:
    """Have delta-rs write one where the log is; which commits are old is looked at once in a while.

    Args:
        known: the version of the one before.
    """
    refuse_damaged(storage, entries(storage))
    table = opened(storage)
    with delta_rs():
        table.create_checkpoint()
        version = table.version()
        if known < 0 or version // (_CLEANED * every) > known // (_CLEANED * every):
            table.cleanup_metadata()
    return version


def _written(storage: Storage) -> int:
    """Write one on a local disk: the file, its checksum, and then what points to it. All are durable."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch:
        log = Path(scratch, LOG)
        log.mkdir()
        with contextlib.suppress(FileNotFoundError):  # before the list, which then has what it points to
            Path(scratch, LAST_CHECKPOINT).write_bytes(storage.read(LAST_CHECKPOINT))
        begins, newest = last_checkpoint_version(LocalDisk(scratch)), -1
        listed = storage.list(LOG)
        refuse_damaged(storage, listed)
        for entry in listed:
            match = NUMBERED.match(entry.name)
            if match and int(match[1]) >= begins:  # what came before is in that Delta checkpoint
                (log / entry.name).symlink_to(storage.place(f"{LOG}/{entry.name}"))
                newest = max(newest, int(match[1]))
        with read_by_delta_rs(storage):
            table = DeltaTable(scratch)
            if table.version() < newest:  # delta-rs passes over files that are gone by now
                raise FileNotFoundError(f"version {newest} was listed, and is gone")
        with delta_rs():
            table.create_checkpoint()
        name = checkpoint_path(table.version())
        data, pointer = Path(scratch, name).read_bytes(), Path(scratch, LAST_CHECKPOINT).read_bytes()
    storage.write_durable(name, data)
    note_checksum(storage, table.version(), data)
    storage.write_durable(LAST_CHECKPOINT, pointer)
    return table.version()


def _forget_commits(storage: Storage) -> None:
    """Delete commits and Delta checkpoints that nobody needs: before the newest Delta checkpoint but one, and old."""
    names = [entry.name for entry in storage.list(LOG)]
    numbered = {name: int(match.group(1)) for name in names if (match := NUMBERED.match(name))}
    checkpoints = sorted({number for name, number in numbered.items() if CHECKPOINT_NAME.match(name)})
    if len(checkpoints) < 2 or checkpoints[-1] > last_checkpoint_version(storage):
        return
    now = wall_s()
    for name in sorted(numbered):
        if numbered[name] < checkpoints[-2]:
            path = f"{LOG}/{name}"
            stamp = storage.stamp(path)  # None: another process does the same
            if stamp is not None and now - stamp[0] / 1e9 >= KEPT_S:
                storage.delete(path)
