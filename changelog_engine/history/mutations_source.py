"""Spark's data source ``changelog_mutations``: the mutations of a job's lineage, as a table and as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import ConfigurationError, RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.history.data_sources import (
    ColumnsSource,
    checked_options,
    described_view,
    key_group_ranges,
)
from changelog_engine.history.mutation_rows import (
    MutationPiece,
    MutationRange,
    WantedMutations,
    mutation_files,
)
from changelog_engine.history.pushed_filters import leaves, missing_checkpoints, tried_checkpoints
from changelog_engine.ledger.described import check_names
from changelog_engine.ledger.follower import FAIL, FIRST, NEWEST, LogFollower, Reached
from changelog_engine.ledger.points import checkpoint_at

MUTATIONS = "changelog_mutations"


class MutationPartition(InputPartition):
    """A file of mutations, or a range of their keys; None for none."""

    def __init__(self, file: MutationPiece | None) -> None:
        self.file = file


class _Batches:
    """Gives the rows of files, in the workers."""

    _schema: pa.Schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        assert isinstance(partition, MutationPartition)
        return iter(()) if partition.file is None else partition.file.batches(self._schema)


class MutationsReader(_Batches, DataSourceReader):
    """Reads the mutations that there were when it was made."""

    def __init__(
        self,
        options: dict[str, str],
        piece: tuple[Reached, Reached],
        wanted: WantedMutations,
        schema: StructType,
    ) -> None:
        self._options = options
        self._piece = piece
        self._wanted = wanted
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._checkpoints: frozenset[int] | None = None  # that filters leave; None: all

    def partitions(self) -> Sequence[InputPartition]:
        """The files, or ranges of keys."""
        follower = _follower(self._options)
        pieces = _pieces(self._options["path"], follower, *self._piece, self._wanted, self._checkpoints)
        return [MutationPartition(piece) for piece in pieces] or [MutationPartition(None)]


class PushingMutationsReader(MutationsReader):
    """As MutationsReader, where the session pushes filters: those on checkpoints and their times choose files."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # Spark's name
        """Take what filters say of checkpoints. Spark looks at the rows again: nothing is left to this alone."""
        start, end = self._piece
        times: dict[int, int | None] = {**_follower(self._options).times_left(end.lineage, start.checkpoint)}
        for first, last in missing_checkpoints(end.lineage, start.checkpoint, list(times)):
            # One that is left is missed when files are chosen.
            times |= dict.fromkeys(tried_checkpoints(filters, first, last))
        for each in filters:
            times = {number: time_ms for number, time_ms in times.items() if leaves(each, number, time_ms)}
        self._checkpoints = frozenset(times)
        return filters


class MutationsStreamReader(_Batches, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a job's log: an offset is the lineage of the newest checkpoint that was given."""

    def __init__(
        self, options: dict[str, str], most: int | None, wanted: WantedMutations, schema: StructType
    ) -> None:
        self._options = options
        self._most = most
        self._wanted = wanted
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._last: int | None = None
        self._opened: LogFollower | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def _follower(self) -> LogFollower:
        if self._opened is None:
            self._opened = _follower(self._options)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """Where a new query begins. ``newest`` is what the first batch finds, which is empty: Spark keeps where it ends."""
        start = self._options.get("startingcheckpoint", FIRST)
        if start.strip() == NEWEST:
            return {"start": NEWEST}
        return self._follower.start(start).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # Spark's name
        """A checkpoint counts as a file: Spark has no limit of its own for it."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # Spark's name
        """How far the next batch goes."""
        if start == {"start": NEWEST}:
            return self._follower.newest().to_json()
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return self._follower.after(Reached.from_json(start), most, self._last).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # Spark's name
        """Where the job stands, for the query's progress."""
        return self._follower.newest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # Spark's name
        """Stop at what is there now."""
        self._last = self._follower.newest().checkpoint

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of a batch: the same rows however often it is planned."""
        if start == {"start": NEWEST}:
            return []
        piece = Reached.from_json(start), Reached.from_json(end)
        pieces = _pieces(self._options["path"], self._follower, *piece, self._wanted)
        return [MutationPartition(each) for each in pieces]


class MutationsDataSource(ColumnsSource):
    """``changelog_mutations``: the mutations of a job's lineage, as a table and as a stream."""

    format = MUTATIONS
    reader_class = MutationsReader

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        may = (
            "operator",
            "state",
            "startingCheckpoint",
            "endingCheckpoint",
            "onRewind",
            "maxCheckpointsPerTrigger",
            "valueBefore",
        )
        given = checked_options(MUTATIONS, options, ("path",), may)
        self._options = given
        most = given.get("maxcheckpointspertrigger")
        if most is not None and not (most.isdecimal() and int(most) > 0):
            raise ConfigurationError(
                f"{MUTATIONS}: maxCheckpointsPerTrigger = {most!r} is not a whole number from 1 on"
            )
        self._most = None if most is None else int(most)
        self._wanted = _wanted(_follower(given).ledger.lineage.newest_point(), given)
        self.columns = self._wanted.columns()

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads those that are there."""
        self.check_schema(schema)
        for name in ("maxCheckpointsPerTrigger", "onRewind"):
            if name.lower() in self._options:
                raise ConfigurationError(
                    f"{MUTATIONS}: {name} is an option of streams, which readStream makes"
                )
        options, follower = self._options, _follower(self._options)
        first, last = options.get("startingcheckpoint", FIRST), options.get("endingcheckpoint")
        start = follower.start(first)
        end = follower.after(start, last=None if last is None else _ending(follower, first, last))
        return self.reader_class(options, (start, end), self._wanted, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """What follows the job."""
        self.check_schema(schema)
        if "endingcheckpoint" in self._options:
            raise ConfigurationError(
                f"{MUTATIONS}: endingCheckpoint is an option of tables; a stream has no end"
            )
        return MutationsStreamReader(self._options, self._most, self._wanted, schema)


class PushingMutationsSource(MutationsDataSource):
    """As MutationsDataSource, where the session pushes filters."""

    reader_class = PushingMutationsReader


def _follower(options: dict[str, str]) -> LogFollower:
    return LogFollower(options["path"], options.get("onrewind", FAIL))


def _wanted(newest: Checkpoint | None, options: dict[str, str]) -> WantedMutations:
    """Which mutations are asked for.

    Args:
        newest: the checkpoint that says which operators and states there are; None for none.
    """
    operator, state = options.get("operator"), options.get("state")
    before = options.get("valuebefore", "false").strip().lower()
    if before not in ("true", "false"):
        raise ConfigurationError(f"{MUTATIONS}: valueBefore = {before!r} is neither true nor false")
    described: tuple[DescribedOperator, DescribedState | None] | None = None
    if operator is not None and state is not None:
        if newest is None:
            raise RestoreError(
                f"{MUTATIONS}: {options['path']} has no checkpoint yet, so the types of state {state!r} of operator "
                f"{operator!r} are not known: wait for one, or leave out operator or state"
            )
        described = described_view(newest, operator, state)
    elif newest is not None:
        check_names(newest, operator, state)
    if before == "true" and (described is None or described[1] is None):
        raise ConfigurationError(f"{MUTATIONS}: valueBefore needs the options operator and state, of a state")
    return WantedMutations(operator, state, described, before == "true")


def _ending(follower: LogFollower, first: str, last: str) -> int:
    """The id of the last checkpoint.

    Raises:
        RestoreError: the job's lineage does not have it.
        ConfigurationError: it comes before the first.
    """
    number = checkpoint_at(follower.ledger.lineage, last).id
    follower.check_on_line(number, "endingCheckpoint")
    if first.strip().isdecimal() and int(first) > number:
        raise ConfigurationError(
            f"{MUTATIONS}: endingCheckpoint = {last} comes before startingCheckpoint = {first}"
        )
    return number


def _pieces(
    path: str,
    follower: LogFollower,
    start: Reached,
    end: Reached,
    wanted: WantedMutations,
    checkpoints: frozenset[int] | None = None,
) -> Sequence[MutationPiece]:
    """What lies between two points, cut into tasks; only of some checkpoints, where these are given."""
    if checkpoints is not None:
        if not checkpoints:
            return []
        start, end = follower.narrowed(start, end, min(checkpoints), max(checkpoints))
    suffix = follower.between(start, end)
    ledger = follower.ledger
    uids = None if wanted.operator is None else frozenset([wanted.operator])
    files = [
        file
        for file in ledger.log_files(suffix, ALL_KEY_GROUPS, uids)
        if checkpoints is None or file.name is None or file.name.checkpoint in checkpoints
    ]
    if not files:
        return []
    times = follower.times(end.lineage, suffix.after)
    if not wanted.before:
        return mutation_files(ledger.storage.root, suffix, files, end.lineage, times, wanted)
    assert wanted.described is not None
    operator, _ = wanted.described
    return [
        MutationRange(end.table, end.lineage, suffix.after, times, wanted, path, groups)
        for groups in key_group_ranges(operator, sum(file.rows or 0 for file in files))
    ]
