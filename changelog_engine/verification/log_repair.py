"""Repair of a job whose tables lost commits: which checkpoint can still be had, and what must be set aside for it.

Invariants:
    * Nothing is deleted: what is in the way is moved into a folder beside the tables that is named with the time.
    * What is proposed was tried first: beside links to the data files, as a start of the job would read it.
    * A log that its readers can open stays as it is: where only a part is damaged, ``changelog.restore`` chooses an earlier
      checkpoint, and no commit is set aside.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath

from changelog_engine.clock import wall_s
from changelog_engine.errors import ChangelogEngineError, StorageError
from changelog_engine.ledger.job_folder import CHANGELOG, SET_ASIDE, JobFolder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.ownership import DriverLock
from changelog_engine.storage.delta_names import (
    CHECKPOINT_NAME,
    COMMIT_NAME,
    LAST_CHECKPOINT_NAME,
    LOG,
    OF_VERSION,
    SNAPSHOTS,
)
from changelog_engine.storage.protocol import TEMPORARY_PREFIX, Storage

_TRIAL = f"{TEMPORARY_PREFIX}repair-"
_CHECKSUM_NAME = re.compile(r"^_checksum-|^\.\d{20}\.checkpoint\.")  # of a Delta checkpoint
_LEFTOVER_S = 3_600  # longer than any trial takes


@dataclass(frozen=True)
class Repair:
    """What can be done for a job's folder."""

    aside: tuple[str, ...]  # files and folders to set aside, relative to the job's folder
    checkpoint: int | None  # the newest checkpoint that can be restored then; None for none
    wrong: str


def plan_repair(folder: Storage) -> Repair | None:
    """What to set aside so that the job can go on, and from which checkpoint.

    Args:
        folder: the job's folder, on a local disk.

    Returns:
        The smallest repair; None when nothing is wrong with the tables' logs.

    Raises:
        StorageError: the folder is on an object store, no job's or not writable, or nothing makes its log readable.
    """
    if folder.local is None:
        raise StorageError(
            f"{folder.root} is on an object store, and --repair moves files on local disks only: copy the folder to a disk "
            "and repair the copy"
        )
    job = Path(folder.local)
    if not (job / CHANGELOG / LOG).is_dir():
        raise StorageError(f"{job} is not a job's folder: it has no {CHANGELOG}/{LOG}")
    wrong = _wrong_with(job)
    if wrong is None:
        return None
    with _Trial(folder, job) as trial:
        log_aside = trial.first(CHANGELOG, _open)
        snapshots_aside = trial.first(SNAPSHOTS, _restore) if (job / SNAPSHOTS).is_dir() else []
        newest = _open(trial.root).newest_restorable()
    return Repair((*log_aside, *snapshots_aside), None if newest is None else newest.id, wrong)


def repair_logs(folder: Storage, plan: Repair) -> str:
    """Set aside what a plan names; returns the folder that holds it now.

    Raises:
        FencedError: a driver runs the job.
        StorageError: the folder has changed since the plan was made, or a file could not be moved; those before it were.
    """
    slug = folder.root.rpartition("/")[2]
    with DriverLock(JobFolder(slug, slug, folder)):
        if plan_repair(folder) != plan:
            raise StorageError(
                f"{folder.root} has changed meanwhile: nothing was set aside. Run the command again"
            )
        stamp = datetime.fromtimestamp(wall_s(), UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = f"{SET_ASIDE}{stamp}"
        target = folder.join(aside)
        try:
            for path in plan.aside:
                folder.make_dirs(str(PurePath(aside, path).parent))
                if not folder.move(path, f"{aside}/{path}"):
                    raise StorageError("it is gone")
        except StorageError as error:
            raise StorageError(f"could not set {path} aside in {target}: {error}") from error
    return target


class _Trial:
    """A folder with links to a job's data files, whose logs can be put together as one likes."""

    def __init__(self, folder: Storage, job: Path) -> None:
        self.folder = folder
        self.job = job
        self.name = f"{_TRIAL}{uuid.uuid4().hex}"
        self.root = job / self.name

    def __enter__(self) -> _Trial:
        try:
            for left in self.job.glob(f"{_TRIAL}*"):  # by a repair that was killed
                if wall_s() - left.stat().st_mtime > _LEFTOVER_S:
                    shutil.rmtree(left)
            for table in (CHANGELOG, SNAPSHOTS):
                self.folder.make_dirs(f"{self.name}/{table}")
                names = [e.name for e in self.folder.list(table) if not e.is_folder and not e.is_other]
                self._link(table, names)
        except OSError as error:
            shutil.rmtree(self.root, ignore_errors=True)
            raise StorageError(
                f"could not try what would help: it takes a folder of links beside the tables, in {self.job}: {error}. "
                "Nothing was changed. Let this user write there, or copy the job's folder to a disk where that is so "
                "and repair the copy"
            ) from error
        return self

    def __exit__(self, *failure: object) -> None:
        shutil.rmtree(self.root)

    def first(self, table: str, begin: Callable[[Path], object]) -> list[str]:
        """The files of a table's log, relative to the job's folder, without which it can begin: as few as possible."""
        found = self.folder.list(f"{table}/{LOG}")
        names = [entry.name for entry in found if not entry.is_folder and not entry.is_other]
        emptied = [entry.name for entry in found if COMMIT_NAME.match(entry.name) and not entry.size]
        for cut in _cuts(names):
            left_out = cut | _not_needed(emptied, set(names) - cut)
            self._lay(table, [name for name in names if name not in left_out])
            with contextlib.suppress(ChangelogEngineError):
                begin(self.root)
                return [f"{table}/{LOG}/{name}" for name in sorted(left_out)]
        if table == SNAPSHOTS:  # the log alone may have everything
            shutil.rmtree(self.root / table)
            return [table]
        raise StorageError(
            f"no commit of {self.job / table} is left with which its list of files can be read: restore the folder from a "
            "copy, or start the job anew under another name"
        )

    def _lay(self, table: str, names: Sequence[str]) -> None:
        log = f"{table}/{LOG}"
        self.folder.delete_tree(f"{self.name}/{log}")
        self.folder.make_dirs(f"{self.name}/{log}")
        self._link(log, names)

    def _link(self, folder: str, names: Sequence[str]) -> None:
        source, target = self.folder.child(folder), self.folder.child(f"{self.name}/{folder}")
        for name in names:
            if not target.share(source, name):
                raise StorageError(f"{target.join(name)} cannot be a link to {source.join(name)}")


def _cuts(names: Sequence[str]) -> Iterator[set[str]]:
    """Files of a log to leave out: none, Delta checkpoints, then the newest commits, one more each time."""
    numbered = {name: int(match[1]) for name in names if (match := OF_VERSION.match(name))}
    checkpoints = {name for name in numbered if CHECKPOINT_NAME.match(name) or _CHECKSUM_NAME.match(name)}
    pointer = {LAST_CHECKPOINT_NAME, f".{LAST_CHECKPOINT_NAME}.crc"} & set(names)
    yield set()
    yield pointer
    for first in sorted({numbered[name] for name in checkpoints}, reverse=True):
        yield {name for name in checkpoints if numbered[name] >= first} | pointer
    for first in sorted(set(numbered.values()), reverse=True):
        newer = {name for name, number in numbered.items() if number >= first}
        yield newer | pointer
        if checkpoints - newer:
            yield newer | pointer | checkpoints


def _not_needed(commits: Sequence[str], left: Iterable[str]) -> set[str]:
    """Those of some commits for which a Delta checkpoint stands that is left: no reader asks what they said."""
    last = max((int(match[1]) for name in left if (match := CHECKPOINT_NAME.match(name))), default=-1)
    return {name for name in commits if int(name.partition(".")[0]) <= last}


def _open(job: Path) -> Ledger:
    """As a start of the job, which so finds its checkpoints."""
    return Ledger.at(str(job / CHANGELOG))


def _restore(job: Path) -> None:
    """As a start of the job, which so finds the state of its newest checkpoint."""
    ledger = _open(job)
    ledger.restore_point(ledger.lineage.newest_checkpoint())


def _wrong_with(job: Path) -> str | None:
    """What the logs of a job's tables lack; None when both can be read."""
    try:
        _ = _open(job).snapshots
    except ChangelogEngineError as error:
        return str(error)
    return None
