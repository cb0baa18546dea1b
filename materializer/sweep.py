"""Files on the disk that no table lists: noted when they are seen, deleted when the grace time is over.

Invariant: what is deleted is not listed, by a list that was read just before. A snapshot or a merged file that is made again
has the name of the leftover, so another process may have listed it while this one stood still.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from changelog_engine.changelog.log_files import parse_merged_rows, parse_pack, parse_part, parse_row
from changelog_engine.changelog.rows import ATTEMPT
from changelog_engine.clock import monotonic_s
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import TEMPORARY_PREFIX, Storage

NOTES = "_unlisted.json"
_LEFTOVER_MS = 3_600_000
_FRESH_S = 1.0


def sweep(tables: Sequence[DeltaLog], log: DeltaLog, grace_ms: int, clock: Callable[[], float]) -> int:
    """Note and delete files of tables' folders.

    Args:
        grace_ms: how long a file stays after it was noted.
        clock: seconds since 1970.

    Returns:
        How many files were deleted.

    Raises:
        StorageError: storage failed; the next sweep finishes.
    """
    lineage = Lineage(log)  # before the listings: a part that is committed meanwhile is listed
    return sum(_sweep(table, lineage, grace_ms, int(clock() * 1000)) for table in tables)


def expires(storage: Storage, grace_ms: int, clock: Callable[[], float]) -> bool:
    """Whether a sweep would delete what an earlier one noted.

    Args:
        clock: seconds since 1970.
    """
    return any(
        _is_over(name, since, grace_ms, int(clock() * 1000)) for name, since in _read_notes(storage).items()
    )


def _sweep(table: DeltaLog, lineage: Lineage, grace_ms: int, now_ms: int) -> int:
    storage = table.storage
    on_disk = [entry.name for entry in storage.list() if not entry.is_folder and not entry.is_other]
    listed, looked_s = _listed(table), monotonic_s()
    noted = _read_notes(storage)
    notes = {
        name: noted.get(name, now_ms)
        for name in on_disk
        if name not in listed and _is_garbage(name, lineage.newest_attempt_id, lineage.newest_checkpoint_id)
    }
    expired = [name for name, since in notes.items() if _is_over(name, since, grace_ms, now_ms)]
    if notes != noted:  # what expires is forgotten by the next sweep
        storage.write_durable(NOTES, json.dumps(notes).encode())
    if expired:
        table.make_durable()  # whoever took them out of the table may have failed at this
    deleted = 0
    for name in expired:
        if monotonic_s() - looked_s > _FRESH_S:
            listed, looked_s = _listed(table), monotonic_s()
        if name not in listed:
            storage.delete(name)
            deleted += 1
    return deleted


def _listed(table: DeltaLog) -> set[str]:
    return {str(path) for path in table.files()["path"].to_pylist()}


def _is_over(name: str, since: int, grace_ms: int, now_ms: int) -> bool:
    return now_ms - since >= (max(grace_ms, _LEFTOVER_MS) if name.startswith(TEMPORARY_PREFIX) else grace_ms)


def _is_garbage(name: str, newest_attempt: int, newest_checkpoint: int) -> bool:
    """Whether a file that no table lists never will be listed (again)."""
    if name.startswith((TEMPORARY_PREFIX, "merged-")) or parse_merged_rows(name) is not None:
        return True
    packed, row = parse_pack(name), parse_row(name)
    part = parse_part(name) if packed is None else packed[0].name
    if part is None and row is None:
        return False  # not ours
    attempt = part.attempt if part is not None else row.attempt if row is not None else 0
    checkpoint = part.checkpoint if part is not None else row.checkpoint if row is not None else 0
    if attempt > newest_attempt:
        return False  # a driver is about to take over
    if row is not None and row.operation == ATTEMPT:
        return True
    return attempt < newest_attempt or checkpoint <= newest_checkpoint


def _read_notes(storage: Storage) -> dict[str, int]:
    notes = storage.read_document(NOTES).items()
    return {name: since for name, since in notes if isinstance(since, int)}
