"""The read model of a job's log: what there is, what follows on what, whether it is complete, and where a restore begins.

Restores, state_at, forks, savepoints, the history, materialization, replay, verification and retention ask this one object
before they use any file. So for one log all of them get the same answer, or the same error that names the same file.

What is trusted: the rows of checkpoints, attempts and snapshots, whose files carry a CRC-32 in their names, and the names of
parts. A list of files is a hint: what it lists is compared with what the rows promise before any of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint, RestorePoint, Segment
from changelog_engine.changelog.part_selection import PartFile, part_files
from changelog_engine.errors import CorruptChangelogError, NotLoggedError, RestoreError, RetiredError
from changelog_engine.ledger.bounds import Bounds, needed
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.job_path import open_changelog
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.snapshots import Snapshot, Snapshots, beside, warn_unusable
from changelog_engine.ledger.suffix import Suffix, follow
from changelog_engine.storage.delta_log import DeltaLog

_MOST_NAMED = 20  # of the newest checkpoints that can be asked for instead


class Base(NamedTuple):
    """What a state can be made from."""

    snapshot: Snapshot | None  # what comes first; None for the log alone
    suffix: Suffix  # the log after it, complete

    @property
    def checkpoint(self) -> int | None:
        """The checkpoint of the snapshot."""
        return None if self.snapshot is None else self.snapshot.checkpoint

    @property
    def files(self) -> list[PartFile]:
        """Those of the snapshot, and those of the log."""
        return [*(() if self.snapshot is None else self.snapshot.files), *self.suffix.files]


class Ledger:
    """A job's log as it is now.

    Threads: one at a time.

    Args:
        log: the changelog; it moves to the newest version.

    Raises:
        CorruptChangelogError: the list of files has lost its end; see ``Lineage``.

    Example:
        >>> ledger = Ledger(folder.open_changelog())  # doctest: +SKIP
        >>> base = ledger.base(ledger.lineage.newest_checkpoint())  # doctest: +SKIP
    """

    def __init__(self, log: DeltaLog) -> None:
        self.storage = log.storage
        self.lineage = Lineage(log)
        self.files: list[PartFile] = part_files(self.lineage.files)
        self._snapshots: Snapshots | None = None
        self._followed: dict[tuple[tuple[Segment, ...], int | None], Suffix | CorruptChangelogError] = {}

    @classmethod
    def at(cls, table: str) -> Ledger:
        """The ledger of a changelog's folder or URI.

        Raises:
            StorageError, ForeignPathError, FormatVersionError: as ``open_changelog``.
        """
        return cls(open_changelog(table))

    @property
    def snapshots(self) -> Snapshots:
        """The job's snapshots, listed when they are asked for first: after the log, so no snapshot is older than it."""
        if self._snapshots is None:
            self._snapshots = Snapshots(beside(self.storage))
        return self._snapshots

    def following(self, line: Sequence[Segment], after: int | None) -> Suffix:
        """The mutations of a lineage after a checkpoint (None: all), complete.

        Raises:
            NotLoggedError: some were truncated, or made while the changelog was off.
            CorruptChangelogError: some were lost; names what is missing.
        """
        asked = (tuple(line), after)
        if asked not in self._followed:
            try:
                self._followed[asked] = follow(
                    self.lineage, self.storage, self.files, self.snapshots.markers, line, after
                )
            except CorruptChangelogError as error:
                self._followed[asked] = error
        found = self._followed[asked]
        if isinstance(found, CorruptChangelogError):
            raise found.with_traceback(None)  # which grew with each of them
        return found

    def bases(self, line: Sequence[Segment], without: frozenset[int] = frozenset()) -> Iterator[Base]:
        """What the state at the end of a lineage can be made from, the newest snapshot first and the log alone last.

        Of a damaged snapshot that something else takes the place of, a warning is logged.

        Args:
            without: checkpoints whose snapshots are not to be used.

        Raises:
            CorruptChangelogError: there is nothing more; the first fault that was met.
        """
        first: CorruptChangelogError | None = None
        passed_over: list[tuple[int, CorruptChangelogError]] = []
        for mark in self.snapshots.on(line, line[-1].last):
            if mark.checkpoint in without:
                continue
            try:
                snapshot = self.snapshots.get(mark)
            except CorruptChangelogError as error:
                first = first or error
                passed_over.append((mark.checkpoint, error))
                continue
            try:
                suffix = self.following(line, snapshot.checkpoint)
            except CorruptChangelogError as error:
                raise first or error from None  # what older snapshots need includes this
            _warn_of(passed_over)
            yield Base(snapshot, suffix)
        try:
            suffix = self.following(line, None)
        except CorruptChangelogError as error:
            raise first or error from None
        _warn_of(passed_over)
        yield Base(None, suffix)

    def base(self, checkpoint: Checkpoint, without: frozenset[int] = frozenset()) -> Base:
        """What a restore of a checkpoint begins with.

        Args:
            without: checkpoints whose snapshots are not to be used.

        Raises:
            RetiredError: the snapshot that the checkpoint needs, or the log, was retired; lists the snapshots there are.
            CorruptChangelogError: something is missing or damaged; names it.
        """
        try:
            return next(self.bases(checkpoint.lineage, without))
        except CorruptChangelogError:
            self._refuse_retired(checkpoint)
            raise

    def whole_base(self, checkpoint: Checkpoint, look: Callable[[Base], None]) -> tuple[Base, frozenset[int]]:
        """As ``base``, with files that were looked at: a damaged snapshot is warned of, and an older one takes its place.

        Args:
            look: at the files of a snapshot; raises CorruptChangelogError where one is damaged.

        Returns:
            What a restore begins with, and the checkpoints whose snapshots are damaged.

        Raises:
            CorruptChangelogError: nothing takes the place of a damaged one; names what was damaged first.
        """
        damaged: dict[int, CorruptChangelogError] = {}
        while True:
            try:
                base = self.base(checkpoint, frozenset(damaged))
            except (CorruptChangelogError, RestoreError) as error:
                raise next(iter(damaged.values()), error) from None
            try:
                look(base)
                return base, frozenset(damaged)
            except CorruptChangelogError as error:
                if base.checkpoint is None:
                    raise
                warn_unusable(base.checkpoint, error)
                damaged[base.checkpoint] = error

    def oldest(self, checkpoint: Checkpoint) -> Base:
        """From where on all mutations up to a checkpoint are there: the beginning, or the oldest snapshot after a hole.

        Raises:
            RestoreError, CorruptChangelogError: as ``base``; what was lost, other than by truncation, is never left out.
        """
        found = None
        for mark in (*self.snapshots.on(checkpoint.lineage, checkpoint.id), None):
            try:
                snapshot = None if mark is None else self.snapshots.get(mark)
            except CorruptChangelogError:
                continue
            try:
                found = Base(
                    snapshot, self.following(checkpoint.lineage, None if mark is None else mark.checkpoint)
                )
            except NotLoggedError:
                break
        return found or self.base(checkpoint)

    def nearest(self, checkpoint: Checkpoint, fits: Callable[[int], bool]) -> Base:
        """The newest snapshot of a checkpoint that fits, with all mutations from there to another one; else as ``oldest``.

        Raises:
            RestoreError, CorruptChangelogError: as ``oldest``.
        """
        try:
            return next(
                base
                for base in self.bases(checkpoint.lineage)
                if base.checkpoint is not None and fits(base.checkpoint)
            )
        except (CorruptChangelogError, StopIteration):
            return self.oldest(checkpoint)

    def restore_point(self, checkpoint: Checkpoint | None) -> RestorePoint:
        """Where workers find the state of a checkpoint; None for empty state.

        Raises:
            RestoreError, CorruptChangelogError: as ``base``.
        """
        if checkpoint is None:
            return RestorePoint(self.storage.root, None, (), None)
        base = self.base(checkpoint)
        return RestorePoint(self.storage.root, checkpoint.id, checkpoint.lineage, base.checkpoint)

    def restorable(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint can be restored, as far as rows and names tell."""
        try:
            self.base(checkpoint)
        except (RestoreError, CorruptChangelogError):
            return False
        return True

    def newest_restorable(self) -> Checkpoint | None:
        """The newest checkpoint that can be restored, as far as rows and names tell; None for none.

        What its files hold is found out when they are read.
        """
        for identity in reversed(self.lineage.checkpoints.ids()):
            try:
                checkpoint = self.lineage.checkpoint(identity)
            except CorruptChangelogError:
                continue
            if self.restorable(checkpoint):
                return checkpoint
        return None

    def snapshot_files(
        self, base: Base, key_groups: range, operators: frozenset[str] | None
    ) -> list[PartFile]:
        """The files of its snapshot, if it has one, that may hold rows of some key groups and operators (None: all).

        Raises:
            CorruptChangelogError: a file is missing, or the list of files says of it what its footer does not.
        """
        if base.snapshot is None:
            return []
        pairs = list(zip(base.snapshot.files, base.snapshot.bounds, strict=True))
        return needed(self.snapshots.storage, pairs, key_groups, operators)

    def log_files(
        self, suffix: Suffix, key_groups: range, operators: frozenset[str] | None
    ) -> list[PartFile]:
        """As ``snapshot_files``, of a suffix."""
        pairs: list[tuple[PartFile, Bounds | None]] = [
            (file, suffix.bounds.get(file.id)) for file in suffix.files
        ]
        return needed(self.storage, pairs, key_groups, operators)

    def _refuse_retired(self, checkpoint: Checkpoint) -> None:
        """Say it where what is missing was let go on purpose."""
        listed = self.snapshots.on(checkpoint.lineage, checkpoint.id)
        newest = max((mark.checkpoint for mark in listed), default=None)
        if checkpoint.snapshot is not None and (newest is None or newest < checkpoint.snapshot):
            there = sorted({mark.checkpoint for mark in self.snapshots.markers})
            names = ", ".join([str(number) for number in there[-_MOST_NAMED:]]) or "none"
            raise RetiredError(
                f"checkpoint {checkpoint.id} of {self.storage.root} needs the snapshot of checkpoint {checkpoint.snapshot}, "
                "which was retired, or is missing from a copy: without state.changelog.enabled, a job keeps as many of its "
                "newest checkpoints as execution.checkpointing.num-retained says. Ask for one that has its snapshot: "
                f"{names}. To keep more of those to come, run the job with either option set. Nothing was changed"
            ) from None
        if newest is None and checkpoint.lineage:
            first = checkpoint.lineage[0].first
            if first not in self.lineage.checkpoints:
                raise RetiredError(
                    f"checkpoint {checkpoint.id} of {self.storage.root} needs the log from checkpoint {first} on, which was "
                    "truncated, and there is no snapshot on its lineage. Nothing was changed"
                ) from None


def plan_restore(folder: JobFolder, checkpoint: Checkpoint | None) -> RestorePoint:
    """``Ledger.restore_point`` of a job's log as it is now."""

    def plan(_: str) -> RestorePoint:
        return Ledger(folder.open_changelog()).restore_point(checkpoint)

    return read_again(plan)(folder.changelog.root)


def _warn_of(passed_over: list[tuple[int, CorruptChangelogError]]) -> None:
    """Say which snapshots something else takes the place of."""
    for checkpoint, error in passed_over:
        warn_unusable(checkpoint, error)
