"""From a path that somebody names to the changelog of a job.

Invariant: it only reads; no folder, lock or table is made or changed.
"""

from __future__ import annotations

import os

from changelog_engine.config.options import DEFAULT_BASE_PATH
from changelog_engine.errors import ChangelogEngineError, ForeignPathError, StorageError
from changelog_engine.ledger.job_folder import CHANGELOG, JOB_PROPERTY, JobFolder, our_properties
from changelog_engine.nearest import nearest
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage

NAME_A_JOB = "Name a job's folder, <base path>/<job>; `changelog-engine jobs BASE` lists those of a base path"
_WHO_WRITES_ONE = (
    "a job writes one with `env.enable_checkpointing(1000)` or `env.enable_changelog_state_backend(True)`"
)
_DEPTH = 3  # of the files in a job's folder


def open_changelog(path: str) -> DeltaLog:
    """The changelog table of a job.

    Args:
        path: the job's folder or the changelog folder in it; a local path or a URI.

    Raises:
        StorageError: there is no changelog.
        ForeignPathError: it is a Delta table of somebody else.
        FormatVersionError: a newer engine wrote it.
    """
    given = open_storage(path)
    refuse_file(given)
    found = next((table for table in (given, given.child(CHANGELOG)) if DeltaLog.exists(table)), None)
    if found is None:
        raise StorageError(f"there is no changelog in {given.root}{_instead_of(given)}")
    log = DeltaLog(found)
    our_properties(log, NAME_A_JOB)
    return log


def refuse_another(root: str, table: str, expected: str, what: str, remedy: str) -> None:
    """Raise ForeignPathError where a changelog's id is not the expected one; ``what`` was done with that one, in words."""
    if table != expected:
        raise ForeignPathError(
            f"{root} is another changelog than the one that {what}: the job's folder was made anew. {remedy}"
        )


def open_job(path: str) -> JobFolder:
    """The folder of a job, by the path of it or of the changelog folder in it.

    Raises:
        StorageError, ForeignPathError, FormatVersionError: as ``open_changelog``.
        ForeignPathError: the table does not lie in a job's folder.
    """
    log = open_changelog(path)
    root, _, table = log.storage.root.rpartition("/")
    if table != CHANGELOG:
        raise ForeignPathError(f"{log.storage.root} is not the {CHANGELOG} folder of a job")
    slug = root.rpartition("/")[2]
    return JobFolder(log.properties().get(JOB_PROPERTY, slug), slug, open_storage(root))


def refuse_file(given: Storage) -> None:
    """Refuse a path that is a file's; in object stores nothing is one.

    Raises:
        StorageError: it is one; says what to name instead.
    """
    if given.local is not None and given.is_file():
        raise StorageError(f"{given.root} is a file{_job_above(given) or f'. {NAME_A_JOB}'}", given.root)


def _instead_of(given: Storage) -> str:
    """What to name instead of a folder that has no changelog."""
    if not given.exists():
        return f": no such folder{_job_above(given) or nearest_hint(given) or f'; {_WHO_WRITES_ONE}'}"
    return _jobs_in(given) or _job_above(given) or base_path_in(given) or f". {NAME_A_JOB}"


def _job_above(given: Storage) -> str:
    """A hint when the path is that of a part of a job."""
    folder = given.local
    for _ in range(_DEPTH):
        folder = None if folder is None else folder.rpartition("/")[0] or None
        if folder is not None and DeltaLog.exists(open_storage(folder).child(CHANGELOG)):
            return f"; it lies in the folder of a job: name that, {folder}"
    return ""


def _jobs_in(base: Storage) -> str:
    """A hint when the path is a base path: which jobs lie in it."""
    jobs = [
        name for name in folders_in(base) if DeltaLog.exists(open_storage(base.join(name)).child(CHANGELOG))
    ]
    if len(jobs) == 1:
        return f"; it holds the job {jobs[0]}: name its folder, {base.join(jobs[0])}"
    return f"; it holds the jobs {', '.join(jobs)}: name one of their folders" if jobs else ""


def folders_in(base: Storage) -> list[str]:
    """The folders right below a base path that may be jobs'. A job's folder may be a link to another disk."""
    return [
        entry.name
        for entry in base.list()
        if (entry.is_folder or (entry.is_other and os.path.isdir(base.join(entry.name))))
        and not entry.name.startswith((".", "_"))
    ]


def base_path_in(given: Storage) -> str:
    """A hint when the folder is the one where a program was run: its jobs lie in the default base path there."""
    base = open_storage(given.join(DEFAULT_BASE_PATH))
    return f"; its folder {DEFAULT_BASE_PATH} is a base path{_jobs_in(base)}" if base.exists() else ""


def nearest_hint(missing: Storage) -> str:
    """A hint when there is no such folder: which ones lie above that are most like it."""
    above, _, wanted = missing.root.rpartition("/")
    try:
        there = [entry.name for entry in open_storage(above or "/").list() if entry.is_folder]
    except ChangelogEngineError:
        return ""
    names = ", ".join([repr(name) for name in nearest(there, wanted)])
    return f"; the nearest in {above or '/'}: {names}" if names else ""
