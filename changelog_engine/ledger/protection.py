"""Checkpoints that somebody is reading for long: truncation and the retirement of snapshots leave alone what they need.

A protection is a small file ``protected/<checkpoint>-<unique>.json`` in the job's folder. Whoever copies a checkpoint (a
savepoint, a fork) makes one first and removes it at the end.

Invariants:
    * While a protection stands, every file that the state at its checkpoint needs stays.
    * A protection ends with its owner: on the same machine with the process, everywhere after a day.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

from changelog_engine.clock import wall_s
from changelog_engine.ledger.job_folder import PROTECTED, JobFolder

LONGEST_HOURS = 24
_NAME = re.compile(r"(\d+)-[0-9a-f]{32}\.json")


class Protection(NamedTuple):
    """One protection.

    Args:
        checkpoint: what is protected.
        snapshot: the checkpoint whose snapshot its restore begins with, or None for the log alone.
        path: its file, relative to the job's folder.
    """

    checkpoint: int
    snapshot: int | None
    path: str


def protect(
    folder: JobFolder,
    checkpoint: int,
    snapshot: int | None,
    purpose: str,
    clock: Callable[[], float] = wall_s,
) -> Protection:
    """Protect a checkpoint from now on.

    Args:
        checkpoint: its id.
        snapshot: see Protection.
        purpose: for people who look at the file.
        clock: seconds since 1970.

    Raises:
        StorageError: the file can't be written.
    """
    path = f"{PROTECTED}/{checkpoint}-{uuid.uuid4().hex}.json"
    document = {
        "checkpoint": checkpoint,
        "snapshot": snapshot,
        "purpose": purpose,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time": clock(),
    }
    folder.storage.make_dirs(PROTECTED)
    folder.storage.write_durable(path, json.dumps(document).encode())
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
    """The protections that stand; one that can't be read stands, too."""
    found = []
    for entry in folder.storage.list(PROTECTED):
        match = _NAME.fullmatch(entry.name)
        if match is None:
            continue
        path = f"{PROTECTED}/{entry.name}"
        document = folder.storage.read_document(path)
        if not document and not folder.storage.exists(path):
            continue  # released since the listing
        if not _ended(document, clock()):
            snapshot = document.get("snapshot")
            found.append(
                Protection(int(match.group(1)), snapshot if isinstance(snapshot, int) else None, path)
            )
    return found


def protected_checkpoints(folder: JobFolder, clock: Callable[[], float] = wall_s) -> set[int]:
    """Ids of the checkpoints whose state must stay restorable."""
    return {protection.checkpoint for protection in protections(folder, clock)}


def protected_snapshots(folder: JobFolder, clock: Callable[[], float] = wall_s) -> set[int]:
    """Ids of the checkpoints whose snapshots must stay."""
    return {p.snapshot for p in protections(folder, clock) if p.snapshot is not None}


def _ended(document: dict[str, object], now: float) -> bool:
    since = document.get("time")
    if isinstance(since, int | float) and now - since > LONGEST_HOURS * 3600:
        return True
    pid = document.get("pid")
    return (
        document.get("host") == socket.gethostname() and isinstance(pid, int) and pid > 0 and not _lives(pid)
    )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
