"""Where a job's tables lie: ``<base>/<slug>/changelog`` and ``<base>/<slug>/snapshots``.

Invariants:
    * No job name leads out of the base folder, and two names never share a folder.
    * What this engine did not write is left alone, whatever it is.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from changelog_engine.changelog.model import FORMAT_VERSION, check_format
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.config.names import writable
from changelog_engine.errors import ConfigurationError, ForeignPathError, StorageError
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.process_notes import who_noted
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.delta_names import LOG, SNAPSHOTS
from changelog_engine.storage.delta_place import delta_place
from changelog_engine.storage.foreign_commits import has_own_commit
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import TEMPORARY_PREFIX, Storage

CHANGELOG = "changelog"
LOCK_FILE = "driver.lock"
PROTECTED = "protected"  # checkpoints that are being copied; see ledger.protection
REQUESTS = "requests"  # to the driver that runs; see ledger.requests
UNFINISHED_FORK = f"{TEMPORARY_PREFIX}fork.json"  # while one is made; see savepoints.unfinished_forks
SET_ASIDE = "set-aside-"  # and a time: what a repair moved out of the way; see verification.log_repair
FORMAT_PROPERTY = "changelog.format.version"
_LEFT_ALONE = "This engine did not write that, so it is left alone: set another base path or job name"
JOB_PROPERTY = "changelog.job.name"

_PLAIN = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_HASHED = re.compile(r"-[0-9a-f]{10}$")
# Rows carry checkpoint ids and lineage of their own, so old versions of the Delta table are not kept for time travel.
# What truncation removed is forgotten soon, or each Delta checkpoint would name every file of the last week once more.
_TABLE_PROPERTIES = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    # What others committed is to be there when the engine looks at it; its own clean-up does not ask.
    "delta.enableExpiredLogCleanup": "false",
}


@dataclass(frozen=True)
class JobFolder:
    """A job's folder."""

    name: str
    slug: str
    storage: Storage

    @property
    def changelog(self) -> Storage:
        """The changelog table's folder."""
        return self.storage.child(CHANGELOG)

    @property
    def snapshots(self) -> Storage:
        """The snapshots table's folder; it exists once there is a snapshot."""
        return self.storage.child(SNAPSHOTS)

    def open_changelog(self) -> DeltaLog:
        """The changelog table at its newest version."""
        return DeltaLog(self.changelog)

    def open_lineage(self) -> Lineage:
        """Its checkpoints and attempts, as the changelog has them now."""
        return Lineage(self.open_changelog())

    def open_snapshots(self) -> DeltaLog:
        """The snapshots table, made when there is none.

        Raises:
            ForeignPathError, FormatVersionError: as open_job_folder.
        """
        return _open_or_create(self.snapshots, self.name)


def job_slug(name: str) -> str:
    """The folder name of a job.

    Plain names (letters, digits, ``.``, ``_``, ``-``; at most 80) stay as they are. Others keep what is plain of them and
    get a hash of the whole name, so that distinct names have distinct folders.

    Example:
        >>> job_slug("word-count")
        'word-count'
        >>> job_slug("../etc")
        'etc-f7f9121fdb'

    Raises:
        ConfigurationError: the name holds a lone surrogate.
    """
    writable(name, "the job name")
    if _PLAIN.fullmatch(name) and not _HASHED.search(name) and not name.endswith("."):
        return name
    digest = hashlib.sha256(name.encode("utf-8")).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:60].strip("-_")
    return f"{readable or 'job'}-{digest}"


def table_properties(name: str) -> dict[str, str]:
    """The properties of a job's tables."""
    return {FORMAT_PROPERTY: str(FORMAT_VERSION), JOB_PROPERTY: name, **_TABLE_PROPERTIES}


def our_properties(log: DeltaLog, what_to_do: str) -> dict[str, str]:
    """The properties of a table that this engine wrote, in a format that it reads.

    Args:
        what_to_do: about one that it did not write, as a sentence of the error.

    Raises:
        ForeignPathError: it is somebody else's Delta table.
        CorruptChangelogError: it was this engine's, until somebody else replaced it.
        FormatVersionError: a newer engine wrote it.
    """
    properties, root = log.properties(), log.storage.root
    written = properties.get(FORMAT_PROPERTY)
    if written is None:
        if has_own_commit(log.storage, log.version):
            log.files()  # which says what was committed to it, and how to undo that
        raise ForeignPathError(
            f"{root} is a Delta table, but no changelog: it has no {FORMAT_PROPERTY}. {what_to_do}", root
        )
    check_format(written, root)
    return properties


def refuse_inside_a_job(folder: Storage) -> None:
    """Raise when a folder is a job's or one of its tables: what does not belong there would keep the job from running."""
    if any(DeltaLog.exists(table) for table in (folder, folder.child(CHANGELOG), folder.child(SNAPSHOTS))):
        raise ConfigurationError(
            f"{folder.root} is the folder of a job or of one of its tables: choose another"
        )


def find_job_folder(base_path: str, name: str) -> JobFolder:
    """A job's folder as it would be; looks at nothing and makes nothing."""
    slug = job_slug(name)
    # Like the base path, a job's folder may be a link to another disk; what lies in it may not.
    return JobFolder(name, slug, open_storage(open_storage(base_path).join(slug)))


def open_job_folder(base_path: str, name: str) -> JobFolder:
    """A job's folder with its changelog table, made when there is none.

    Args:
        base_path: folder or URI under which jobs lie.

    Raises:
        ForeignPathError: the path holds something that this engine did not write; nothing was touched.
        FormatVersionError: a newer version of the engine wrote it.
        StorageError: not writable, disk full, a fork that was not finished; names the path.
    """
    base = open_storage(base_path)
    if base.is_file():
        raise ForeignPathError(f"the base path {base.root} is a file: set another base path")
    folder = find_job_folder(base_path, name)
    _check_ours(folder)
    _open_or_create(folder.changelog, name)
    return folder


def _check_ours(folder: JobFolder) -> None:
    root = folder.storage
    delta_place(root)
    if root.is_file():
        raise _foreign(root, "is a file")
    allowed = {CHANGELOG, SNAPSHOTS, LOCK_FILE, PROTECTED, REQUESTS}
    for entry in root.list():
        if entry.name not in allowed and not entry.name.startswith((TEMPORARY_PREFIX, SET_ASIDE)):
            raise _foreign(root, f"holds {entry.name!r}")
        root.place(entry.name)
        if entry.name == UNFINISHED_FORK and is_unfinished_fork(root):
            who = who_noted(root.read_document(UNFINISHED_FORK))
            raise StorageError(
                f"{root.root} holds a fork by {who}, that was not finished: a job would begin empty there. Make it "
                "again by changelog-engine fork, or delete the folder",
                root.root,
            )
    for table in (folder.changelog, folder.snapshots):
        _check_table(table, folder.name)


def is_unfinished_fork(folder: Storage) -> bool:
    """Whether a fork was begun in a job's folder and has not got the commit that makes it a job."""
    if not folder.exists(UNFINISHED_FORK):
        return False
    changelog = folder.child(CHANGELOG)
    return not DeltaLog.exists(changelog) or DeltaLog(changelog).version == 0


def _check_table(table: Storage, name: str) -> None:
    """Raise unless the folder is a table of this job in a format this engine reads, or can become one."""
    if table.is_file():
        raise _foreign(table, "is a file")
    if not DeltaLog.exists(table):
        # A crash while the table was made leaves empty folders or temporary files.
        leftovers = [
            e.name for e in table.list() if e.name != LOG and not e.name.startswith(TEMPORARY_PREFIX)
        ]
        inside = [e.name for e in table.list(LOG) if "#" not in e.name and not e.name.startswith(".")]
        if leftovers or inside:
            raise _foreign(table, f"holds {(leftovers + inside)[0]!r} and is not a changelog table")
        return
    owner = our_properties(DeltaLog(table), _LEFT_ALONE).get(JOB_PROPERTY, name)
    if owner != name:
        raise ForeignPathError(
            f"{table.root} belongs to the job {owner!r} and not to {name!r}: its folder was copied or renamed, or the file "
            "system doesn't tell upper from lower case. To run a copy of a job, make it by 'changelog-engine fork PATH "
            "NEW_PATH'; else set another base path or job name",
            table.root,
        )


def _foreign(storage: Storage, fault: str) -> ForeignPathError:
    return ForeignPathError(
        f"{storage.root} {fault}. {_LEFT_ALONE}",
        storage.root,
    )


def _open_or_create(table: Storage, name: str) -> DeltaLog:
    _check_table(table, name)
    if not DeltaLog.exists(table):
        try:
            return DeltaLog.create(table, SCHEMA, table_properties(name))
        except CommitConflictError:
            _check_table(table, name)
    return DeltaLog(table)
