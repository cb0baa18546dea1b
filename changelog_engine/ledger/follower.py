"""Following a job's log from outside: how far a reader has come, what it is given next, and what makes that impossible.

How far a reader has come is the lineage of the newest checkpoint that it was given whole. It is given what the job's present
lineage has after that: checkpoints that were acknowledged, each once, in their order.

Invariants:
    * Only checkpoints of the lineage that the job stands on are given; those of dead and abandoned attempts never are.
    * When the job was rewound behind what a reader was given, it is told; it goes on from the fork only if it asks to.
    * Mutations that are not there any more are an error that says of which checkpoints. None are passed over.
    * Another changelog in the same folder is never taken for the one that was read before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from changelog_engine.changelog import segments
from changelog_engine.changelog.model import Segment
from changelog_engine.changelog.segments import before, common, ids_after, last_of, segment_of, up_to
from changelog_engine.errors import (
    ConfigurationError,
    CorruptChangelogError,
    NotLoggedError,
    RestoreError,
)
from changelog_engine.ledger.job_path import open_changelog, refuse_another
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.suffix import Suffix
from changelog_engine.storage.delta_log import DeltaLog

FIRST, OLDEST, NEWEST = "first", "oldest", "newest"
FAIL, CONTINUE = "fail", "continue"
_RUN = re.compile(r"(\d{1,9}):(\d{1,18})-(\d{1,18})")


class Reached(NamedTuple):
    """How far a reader has come."""

    table: str
    lineage: tuple[Segment, ...]  # of the newest checkpoint that it was given; empty for none

    @property
    def checkpoint(self) -> int:
        """The newest checkpoint that it was given; 0 for none."""
        return last_of(self.lineage)

    def prefix_of(self, line: Sequence[Segment]) -> bool:
        """Whether a lineage begins with this one."""
        return common(self.lineage, line) == self.lineage

    def before(self) -> Reached:
        """Without the newest checkpoint."""
        return self._replace(lineage=up_to(self.lineage, self.checkpoint - 1))

    def to_json(self) -> dict[str, Any]:
        """As JSON, which readers keep: the checkpoint's id is for people, the lineage decides."""
        runs = " ".join(f"{run.attempt}:{run.first}-{run.last}" for run in self.lineage)
        return {"checkpoint": self.checkpoint, "lineage": runs, "table": self.table}

    @staticmethod
    def from_json(document: Any) -> Reached:
        """What ``to_json`` gave.

        Raises:
            RestoreError: it is something else.
        """
        try:
            runs = [_RUN.fullmatch(run) for run in document["lineage"].split()]
            lineage = tuple(Segment(*(int(number) for number in run.groups())) for run in runs if run)
            found = Reached(document["table"], lineage)
            if None in runs or found.checkpoint != document["checkpoint"]:
                raise ValueError
        except (TypeError, KeyError, ValueError, AttributeError):
            raise RestoreError(f"{document!r} is not a position in a job's log") from None
        return found


class LogFollower:
    """A job's log as somebody outside the job follows it.

    Threads: one at a time.

    Args:
        path: the job's folder, or the changelog folder in it; a local path or a URI.
        on_rewind: what happens when the job was rewound behind what the reader was given: ``fail``, or ``continue`` with
            what follows the fork on the new branch.
        start_option: how the reader's user says where it begins, for messages.
        rewind_option: how the user says ``on_rewind``, for messages.

    Raises:
        StorageError, ForeignPathError, FormatVersionError: as ``ledger.job_path.open_changelog``.
        ConfigurationError: ``on_rewind`` is neither.

    Example:
        >>> follower = LogFollower("changelog-data/visits")  # doctest: +SKIP
        >>> start = follower.start("first")  # doctest: +SKIP
        >>> follower.between(start, follower.after(start)).files  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str,
        on_rewind: str = FAIL,
        start_option: str = "startingCheckpoint",
        rewind_option: str = "onRewind",
    ) -> None:
        if on_rewind not in (FAIL, CONTINUE):
            raise ConfigurationError(f"{rewind_option} = {on_rewind!r} is neither {FAIL!r} nor {CONTINUE!r}")
        self._log: DeltaLog = open_changelog(path)
        self._table = self._log.table_id()
        self._ledger = Ledger(self._log)
        self._newest: Reached | None = None
        self._on_rewind = on_rewind
        self._start_option = start_option
        self._rewind_option = rewind_option

    @property
    def ledger(self) -> Ledger:
        """The log as it is now. Costs a look at a name or two when nothing was committed since.

        Raises:
            CorruptChangelogError: its end was lost; see ``Lineage``.
            ForeignPathError: the folder was made anew since it was opened.
        """
        if self._log.refresh() != self._ledger.lineage.version:
            ledger = Ledger(self._log)
            self._check_table(self._log.table_id())
            self._ledger, self._newest = ledger, None
        return self._ledger

    def newest(self) -> Reached:
        """Where the job stands: what its newest attempt has, or where that started from."""
        lineage = self.ledger.lineage
        if self._newest is None:
            point = lineage.newest_point()
            self._newest = Reached(self._table, () if point is None else point.lineage)
        return self._newest

    def start(self, wanted: str) -> Reached:
        """Where a reader stands that was given nothing yet.

        Args:
            wanted: ``first``: before all mutations of the job's lineage. ``oldest``: before the oldest that are there.
                ``newest``: after those that are there now. A checkpoint's id: before that one's.

        Raises:
            ConfigurationError: ``wanted`` is something else.
            RestoreError: the job's lineage has no such checkpoint; says what it has.
            CorruptChangelogError: the log has a hole.
        """
        text = wanted.strip()
        if text == FIRST:
            return Reached(self._table, ())
        newest = self.newest()
        if text == NEWEST:
            return newest
        if text == OLDEST:
            return Reached(self._table, up_to(newest.lineage, self._base(newest) or 0))
        if not text.isdecimal() or int(text) < 1:
            raise ConfigurationError(
                f"{self._start_option} = {wanted!r} is none of {FIRST}, {OLDEST}, {NEWEST} and a checkpoint's id"
            )
        number = int(text)
        if number != self._to_come():
            self.check_on_line(number, self._start_option)
        return Reached(self._table, up_to(newest.lineage, number - 1))

    def check_on_line(self, checkpoint: int, option: str) -> None:
        """Raise when the job's lineage does not have a checkpoint.

        Args:
            option: how the reader's user gave it, for the message.

        Raises:
            RestoreError: says what it has.
        """
        line = self.newest().lineage
        if segment_of(line, checkpoint) is None:
            there = ", ".join(f"{run.first} to {run.last}" for run in line) or "none"
            raise RestoreError(
                f"{option} = {checkpoint}: the lineage of {self._ledger.storage.root} has the checkpoints {there}. Others "
                "are to come, or on branches that the job was rewound from"
            )

    def narrowed(self, reached: Reached, end: Reached, first: int, last: int) -> tuple[Reached, Reached]:
        """The same piece of a lineage without the checkpoints before and after some."""
        line = end.lineage
        previous = before(line, first)
        start = (
            reached
            if last_of(common(reached.lineage, line)) >= previous
            else Reached(end.table, up_to(line, previous))
        )
        return start, Reached(end.table, up_to(line, last))

    def after(self, reached: Reached, most: int | None = None, last: int | None = None) -> Reached:
        """How far a reader can be given more, at once.

        Args:
            most: how many checkpoints at most; None for all.
            last: no checkpoint above this one; None for all.

        Returns:
            The same when there is nothing more.

        Raises:
            RestoreError: the job was rewound behind that, and the reader did not ask to go on from the fork.
            ForeignPathError: the changelog is not the one that was read before.
        """
        newest = self.newest()
        shared = self._shared(reached, newest)
        wanted = newest.lineage if last is None else up_to(newest.lineage, last)
        if not wanted or wanted[-1].last <= last_of(shared):
            return reached
        if most is not None:
            wanted = _next(wanted, last_of(shared), most)
        return Reached(self._table, wanted)

    def between(self, reached: Reached, end: Reached) -> Suffix:
        """The mutations that lead from one point to a later one, complete.

        Args:
            end: what ``after`` gave for it, now or before a restart.

        Raises:
            NotLoggedError: some are not there any more; says of which checkpoints, and from where on the log can be read.
            CorruptChangelogError: some were lost; names what is missing.
            RestoreError, ForeignPathError: as ``after``.
        """
        shared = self._shared(reached, end)
        if shared == end.lineage:
            return Suffix((), {}, {}, last_of(shared) or None)
        ledger = self.ledger
        try:
            return ledger.following(end.lineage, last_of(shared) or None)
        except NotLoggedError as error:
            raise self._gone(shared, end, error) from error

    def times(self, line: Sequence[Segment], after: int | None) -> dict[int, int]:
        """When the checkpoints of a lineage after one of it were, in epoch milliseconds."""
        rows = self._ledger.lineage.checkpoints
        return {number: rows.time_of(rows[number]) for number in ids_after(line, after or 0)}

    def times_left(self, line: Sequence[Segment], after: int) -> dict[int, int]:
        """As ``times``, in ascending order, without the checkpoints whose rows were truncated."""
        ids, _, times = self._ledger.lineage.checkpoints.index()
        found: dict[int, int] = {}
        for run in segments.after(line, after):
            first, last = ids.searchsorted([run.first, run.last + 1])
            found |= zip(ids[first:last].tolist(), times[first:last].tolist(), strict=True)
        return found

    def _shared(self, reached: Reached, end: Reached) -> tuple[Segment, ...]:
        """What both have, where a reader may go on from there."""
        self._check_table(reached.table)
        root = self._ledger.storage.root
        shared = common(reached.lineage, end.lineage)
        if shared == reached.lineage or self._on_rewind == CONTINUE:
            return shared
        fork = last_of(shared)
        gone = ", ".join(f"{run.first} to {run.last}" for run in segments.after(reached.lineage, fork))
        on = f"checkpoint {fork}" if fork else "empty state"
        at = self._next_on(end.lineage, fork)
        raise RestoreError(
            f"the job of {root} was rewound to {on}, so checkpoints {gone} were taken back after their mutations were read. "
            f"Undo what was made of them and begin anew with {self._start_option} = {at}, or set {self._rewind_option} = "
            f"{CONTINUE!r} to be given what follows {on} on the new branch"
        )

    def _check_table(self, table: str) -> None:
        remedy = "Begin anew (a streaming query of Spark: with another checkpointLocation)"
        refuse_another(self._log.storage.root, table, self._table, "was read before", remedy)

    def _base(self, end: Reached) -> int | None:
        """The checkpoint after which all mutations up to a point are there; None: all of the lineage's are."""
        if not end.lineage:
            return None
        return self._ledger.oldest(self._ledger.lineage.checkpoint(end.checkpoint)).checkpoint

    def _to_come(self) -> int:
        """The id that the job's next checkpoint will have."""
        return self._ledger.lineage.newest_checkpoint_id + 1

    def _next_on(self, line: Sequence[Segment], checkpoint: int) -> int:
        """The id of the checkpoint that follows one on a lineage, or will."""
        follows = next(ids_after(line, checkpoint), None)
        return self._to_come() if follows is None else follows

    def _gone(self, shared: tuple[Segment, ...], end: Reached, error: NotLoggedError) -> NotLoggedError:
        root, newest = self._ledger.storage.root, self.newest()
        whole = newest if end.prefix_of(newest.lineage) else end
        try:
            base = self._base(whole)
        except (RestoreError, CorruptChangelogError):
            return error
        first = self._next_on(whole.lineage, last_of(shared))
        if base is None or base < first:
            return error
        begin = self._next_on(whole.lineage, base)
        return NotLoggedError(
            f"does not have the mutations of checkpoints {first} to {base}: they were truncated, or made without the "
            f"changelog. None were passed over. Begin anew with {self._start_option} = {begin} to go on without them; "
            "changelog.history.retention says how long a job keeps them",
            root,
        )


def _next(line: Sequence[Segment], after: int, most: int) -> tuple[Segment, ...]:
    """A lineage that ends a number of checkpoints after one of its own."""
    left = most
    for run in segments.after(line, after):
        if left <= run.last - run.first + 1:
            return up_to(line, run.first + left - 1)
        left -= run.last - run.first + 1
    return tuple(line)
