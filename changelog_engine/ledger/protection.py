"""Checkpoints that somebody is reading for long: truncation and the retirement of snapshots leave alone what they need.

A protection is a small file ``protected/<checkpoint>-<unique>.json`` in the job's folder. Whoever copies a checkpoint (a
savepoint, a fork) makes one first and removes it at the end.

Invariants:
    * While a protection stands, every file that the state at its checkpoint needs stays.
    * A protection ends with its owner: on the same machine with the process, everywhere after a day.
    * What a file says is believed if its checksum is right. A damaged one stands for a day since it was changed, and keeps
      every snapshot that its checkpoint may begin with.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from changelog_engine.clock import wall_s
from changelog_engine.errors import StorageError
from changelog_engine.ledger.job_folder import PROTECTED, JobFolder
from changelog_engine.ledger.process_notes import has_ended, is_over, process_note

_CHECKSUM = "checksum"
_MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)
_NAME = re.compile(r"(\d+)-[0-9a-f]{32}\.json")


class Protection(NamedTuple):
    """One protection."""

    checkpoint: int
    snapshot: int | None  # the checkpoint whose snapshot its restore begins with, or None for the log alone
    path: str  # its file, relative to the job's folder
    damaged: bool = False  # its file does not say which snapshot


def protect(
    folder: JobFolder,
    checkpoint: int,
    snapshot: int | None,
    purpose: str,
    clock: Callable[[], float] = wall_s,
) -> Protection:
    """Protect a checkpoint from now on.

    Args:
        snapshot: see Protection.
        clock: seconds since 1970.
    """
    path = f"{PROTECTED}/{checkpoint}-{uuid.uuid4().hex}.json"
    document: dict[str, Any] = {
        "checkpoint": checkpoint,
        "snapshot": snapshot,
        "purpose": purpose,
        **process_note(clock),
    }
    document[_CHECKSUM] = _checksum_of(document)
    try:
        folder.storage.make_dirs(PROTECTED)
        folder.storage.write_durable(path, json.dumps(document).encode())
    except StorageError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in _MAY_NOT:
            raise
        place = folder.storage.join(PROTECTED)
        raise StorageError(
            f"a {purpose} notes in {place} what it copies, so that truncation leaves it alone, and this user may not write "
            f"there ({error.__cause__.strerror}). Have {PROTECTED}/ made writable for it, or copy the job's folder "
            f"(while nothing truncates it) and make the {purpose} of that",
            place,
        ) from error.__cause__
    return Protection(checkpoint, snapshot, path)


def release(folder: JobFolder, protection: Protection) -> None:
    """End a protection.

    Raises:
        StorageError: the file can't be deleted; it expires by itself.
    """
    folder.storage.delete(protection.path)


@contextlib.contextmanager
def protecting(folder: JobFolder, checkpoint: int, snapshot: int | None, purpose: str) -> Iterator[None]:
    """Protect a checkpoint for a while; see ``protect``."""
    protection = protect(folder, checkpoint, snapshot, purpose)
    try:
        yield
    finally:
        release(folder, protection)


def protections(folder: JobFolder, clock: Callable[[], float] = wall_s) -> list[Protection]:
    """The protections that stand; a damaged one stands, too."""
    found = []
    for entry in folder.storage.list(PROTECTED):
        match = _NAME.fullmatch(entry.name)
        if match is None:
            continue
        path = f"{PROTECTED}/{entry.name}"
        document = folder.storage.read_document(path)
        if not document and not folder.storage.exists(path):
            continue  # released since the listing
        snapshot = document.get("snapshot")
        if _damaged(document):
            if entry.changed_ns is None or not is_over(entry.changed_ns / 1e9, clock()):
                found.append(Protection(int(match.group(1)), None, path, damaged=True))
        elif not has_ended(document, clock()):
            found.append(Protection(int(match.group(1)), snapshot, path))
    return found


def protected_checkpoints(folder: JobFolder, clock: Callable[[], float] = wall_s) -> set[int]:
    """Ids of the checkpoints whose state must stay restorable."""
    return {protection.checkpoint for protection in protections(folder, clock)}


def protected_snapshots(
    folder: JobFolder, there: Callable[[], Iterable[int]], clock: Callable[[], float] = wall_s
) -> set[int]:
    """Ids of the checkpoints whose snapshots must stay.

    Args:
        there: gives the ids of all checkpoints that have a snapshot; asked where a protection is damaged.
    """
    standing = protections(folder, clock)
    found = {each.snapshot for each in standing if each.snapshot is not None}
    newest = max((each.checkpoint for each in standing if each.damaged), default=None)
    if newest is not None:
        found.update(snapshot for snapshot in there() if snapshot <= newest)
    return found


def _checksum_of(document: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(document).encode()):08x}"


def _damaged(document: dict[str, Any]) -> bool:
    """Whether a file does not say what it was written to say; those of earlier versions have no checksum."""
    said = {name: value for name, value in document.items() if name != _CHECKSUM}
    snapshot = said.get("snapshot")
    return (
        "snapshot" not in said
        or not (snapshot is None or type(snapshot) is int)
        or (_CHECKSUM in document and document[_CHECKSUM] != _checksum_of(said))
    )
