"""Savepoints: the whole state of a job at one checkpoint, in a folder of its own.

    savepoint-<job>-<random>/
        savepoint.json    written first: this folder is a savepoint, finished or not
        snapshots/        the state, as a full snapshot of the checkpoint
        changelog/        the checkpoint's row and its attempt's; committed last: from then on the savepoint is complete

Inside, everything is named relative to the folder, in the form of a job's folder whose changelog is off: it can be moved
or copied, and whatever reads a job's folder reads it.

Invariants:
    * A savepoint needs no file outside of its folder.
    * One that was not finished is told from a complete one, and never restored.
    * Nothing is deleted that this engine did not write; a failed attempt to make a savepoint deletes nobody else's files.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from changelog_engine.changelog.model import FORMAT_VERSION, Checkpoint, check_format
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.display import Displayed, Document, Grid
from changelog_engine.errors import (
    ChangelogEngineError,
    CorruptChangelogError,
    ForeignPathError,
    RestoreError,
    StorageError,
)
from changelog_engine.ledger.job_folder import (
    CHANGELOG,
    JOB_PROPERTY,
    JobFolder,
    our_properties,
    refuse_inside_a_job,
)
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.snapshots import Snapshots
from changelog_engine.readable import counted, iso, size_text
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.delta_names import SNAPSHOTS
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import TEMPORARY_PREFIX, Storage

MARKER = "savepoint.json"
_SAVEPOINT = "savepoint-"
_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True, repr=False)
class Savepoint(Displayed):
    """A complete savepoint.

    Args:
        folder: its folder, as a job's folder; ``folder.name`` is the job's name.
    """

    folder: JobFolder
    checkpoint: Checkpoint
    parts: tuple[PartFile, ...]
    rows: int
    bytes: int

    @property
    def path(self) -> str:
        """Where it lies."""
        return self.folder.storage.root

    def display(self) -> Document:
        operators = [(each.uid, len(each.states)) for each in self.checkpoint.operators if each.states]
        return Document(
            f"savepoint {self.path}",
            [
                f"{counted(self.rows, 'row')} ({size_text(self.bytes)}) of job {self.folder.name!r} at checkpoint "
                f"{self.checkpoint.id}, {iso(self.checkpoint.time_ms)} UTC"
            ],
            [Grid(("operator", "states"), operators)],
        )

    def verify(self) -> None:
        """Read every file of state.

        Raises:
            CorruptChangelogError: one is missing or isn't what it was; names file and fault.
        """
        for part in self.parts:
            read_part(self.folder.snapshots, part)


def is_savepoint_path(restore: str) -> bool:
    """Whether ``changelog.restore`` names a savepoint.

    Example:
        >>> is_savepoint_path("/sp/savepoint-1a2b3c-0123456789ab"), is_savepoint_path("s3://b/x"), is_savepoint_path("./x")
        (True, True, True)
        >>> is_savepoint_path("savepoint-1a2b3c-0123456789ab")
        True
        >>> is_savepoint_path("latest"), is_savepoint_path("17"), is_savepoint_path("as-of:2026-01-31T12:00:00Z")
        (False, False, False)
    """
    wanted = restore.strip()
    if wanted.startswith("as-of:"):
        return False
    return "/" in wanted or wanted.startswith(_SAVEPOINT) or bool(_URI.match(wanted))


def new_savepoint(directory: str, short_id: str, job: str) -> JobFolder:
    """An empty folder for a savepoint.

    Args:
        directory: folder or URI below which it lies; made when it isn't there.

    Raises:
        ConfigurationError: the directory is the folder of a job.
        ForeignPathError: the directory is a file.
    """
    base = open_storage(directory)
    if base.is_file():
        raise ForeignPathError(f"the savepoint directory {base.root} is a file: name a folder")
    refuse_inside_a_job(base)
    return _begin(base, f"{_SAVEPOINT}{short_id}-{uuid.uuid4().hex[:12]}", job)


def new_savepoint_at(path: str) -> JobFolder:
    """An empty folder for a savepoint, named by its maker; its job has the folder's name.

    Raises:
        ConfigurationError: it would lie in the folder of a job.
        ForeignPathError: the folder above is a file.
        StorageError: it is there already, or can't be written.
    """
    base, slug = free_place(path, "savepoint", empty=True)  # as a full disk leaves it
    return _begin(base, slug, slug)


def free_place(
    path: str,
    what: str,
    make_room: Callable[[Storage, str], None] = lambda base, slug: None,
    empty: bool = False,
) -> tuple[Storage, str]:
    """The folder above a new savepoint or fork, and its name in it.

    Args:
        make_room: takes away what must not be in its way.
        empty: an empty folder will do.

    Raises:
        ConfigurationError: it would lie in the folder of a job.
        ForeignPathError: the folder above is a file.
        StorageError: it is there already.
    """
    root = open_storage(path).root
    above, _, slug = root.rpartition("/")
    base = open_storage(above)
    if base.is_file():
        raise ForeignPathError(f"{base.root} is a file: name a folder for the {what}")
    make_room(base, slug)
    if base.exists(slug) and (not empty or base.is_file(slug) or base.list(slug)):
        raise StorageError(f"{root} is there already: name a new folder for the {what}")
    refuse_inside_a_job(base)
    return base, slug


def _begin(base: Storage, slug: str, job: str) -> JobFolder:
    storage = base.child(slug)
    storage.make_dirs()
    marker = {"format": FORMAT_VERSION, "job": job, "id": uuid.uuid4().hex}
    if not storage.put_if_absent(MARKER, json.dumps(marker).encode()):
        raise taken(storage, "savepoint")
    return JobFolder(job, slug, storage)


def taken(folder: Storage, what: str) -> StorageError:
    """The error of a folder that was free for a savepoint or fork a moment ago."""
    return StorageError(
        f"{folder.root} is there already: another process made it just now. Name a new folder for the {what}",
        folder.root,
    )


def give_up_savepoint(storage: Storage, failure: BaseException) -> None:
    """Take away what was made of a savepoint that failed, as far as that works; a table that somebody else made stays."""
    with contextlib.suppress(ChangelogEngineError):
        if isinstance(failure, CommitConflictError):
            storage.delete(MARKER)
        else:
            dispose_savepoint(storage.root)


def open_savepoint(path: str) -> Savepoint:
    """Open a savepoint, after a look at its lists of files; ``Savepoint.verify`` reads the files themselves.

    Args:
        path: its folder, a local path or a URI.

    Raises:
        RestoreError: there is no savepoint, or one that was never finished.
        ForeignPathError: the folder holds something else.
        FormatVersionError: a newer engine wrote it.
        CorruptChangelogError: a file that it lists is missing or has another size.
    """
    storage = open_storage(path)
    _check_marker(storage)
    folder = JobFolder("", storage.root.rpartition("/")[2], storage)
    for table in (folder.changelog, folder.snapshots):
        if not DeltaLog.exists(table):
            raise _unfinished(storage)
    log = folder.open_changelog()
    properties = our_properties(log, f"It lies where a savepoint has its {CHANGELOG}: name another folder")
    lineage = Lineage(log)
    checkpoint = lineage.newest_checkpoint()
    if checkpoint is None:
        raise _unfinished(storage)
    named = JobFolder(properties.get(JOB_PROPERTY, ""), folder.slug, storage)
    return _with_parts(named, checkpoint)


def list_savepoints(directory: str) -> list[tuple[str, Savepoint | ChangelogEngineError]]:
    """The savepoints below a directory: name and savepoint, or what is wrong with it.

    Raises:
        StorageError: there is no such directory.
    """
    base = open_storage(directory)
    if not base.exists() or base.is_file():
        raise StorageError(f"{base.root} is not a folder")
    found: list[tuple[str, Savepoint | ChangelogEngineError]] = []
    for entry in base.list():
        if entry.is_folder and base.child(entry.name).exists(MARKER):
            try:
                found.append((entry.name, open_savepoint(base.join(entry.name))))
            except ChangelogEngineError as error:
                found.append((entry.name, error))
    return found


def dispose_savepoint(path: str) -> None:
    """Delete a savepoint, finished or not, whole or damaged.

    Raises:
        RestoreError: there is no savepoint.
        ForeignPathError: the folder holds something that is not part of a savepoint; nothing was deleted.
        StorageError: it can't be deleted; dispose of it again.
    """
    storage = open_storage(path)
    _check_marker(storage, any_format=True)
    known = {MARKER, CHANGELOG, SNAPSHOTS}
    for entry in storage.list():
        if entry.name not in known and not entry.name.startswith(TEMPORARY_PREFIX):
            raise ForeignPathError(
                f"{storage.root} holds {entry.name!r}, which is not part of a savepoint: nothing was deleted. Move it away"
            )
    # The marker goes last: a savepoint that is half disposed of can be disposed of again.
    storage.delete_tree(CHANGELOG)
    storage.delete_tree(SNAPSHOTS)
    storage.delete(MARKER)
    storage.delete_tree()


def _check_marker(storage: Storage, any_format: bool = False) -> None:
    if not storage.exists():
        raise RestoreError(f"there is no savepoint {storage.root}: no such folder")
    if storage.is_file():
        raise ForeignPathError(f"{storage.root} is a file, not the folder of a savepoint")
    try:
        marker = json.loads(storage.read(MARKER).to_pybytes())
        written = int(marker["format"])
    except FileNotFoundError:
        raise _no_savepoint(storage) from None
    except (ValueError, KeyError, TypeError) as error:
        if any_format:
            return
        raise CorruptChangelogError("was changed after it was written", storage.join(MARKER)) from error
    if not any_format:
        check_format(written, storage.root)


def _no_savepoint(storage: Storage) -> ChangelogEngineError:
    if DeltaLog.exists(storage.child(CHANGELOG)):
        return ForeignPathError(
            f"{storage.root} is the folder of a job, not a savepoint: make one of its checkpoints with changelog-engine "
            f"savepoint create {storage.root} DIRECTORY"
        )
    inside = [entry.name for entry in storage.list() if entry.is_folder and entry.name.startswith(_SAVEPOINT)]
    if inside:
        return RestoreError(
            f"{storage.root} is not a savepoint; it holds {', '.join(inside[:5])}: name one of them"
        )
    return ForeignPathError(f"{storage.root} is not a savepoint: it has no {MARKER}")


def _unfinished(storage: Storage) -> RestoreError:
    return RestoreError(
        f"the savepoint {storage.root} was never finished: it can't be restored. Remove it with changelog-engine savepoint "
        f"dispose {storage.root}"
    )


def _with_parts(folder: JobFolder, checkpoint: Checkpoint) -> Savepoint:
    storage = folder.snapshots
    snapshots = Snapshots(storage)
    if list(snapshots.markers) != [checkpoint.mark]:
        raise CorruptChangelogError(f"has no complete snapshot of checkpoint {checkpoint.id}", storage.root)
    snapshot = snapshots.get(checkpoint.mark)
    parts, others = list(snapshot.files), snapshots.files.keys() - snapshot.paths
    if others or len(parts) != checkpoint.parts:
        raise CorruptChangelogError(
            f"lists {len(parts) + len(others)} parts of state, {checkpoint.parts} were written", storage.root
        )
    for part in parts:
        size = storage.size(part.path)
        if size != part.size:
            found = "is missing" if size is None else f"has {size} bytes"
            raise CorruptChangelogError(f"{found}, it was written with {part.size}", storage.join(part.path))
    return Savepoint(folder, checkpoint, tuple(parts), checkpoint.rows, sum(part.size for part in parts))
