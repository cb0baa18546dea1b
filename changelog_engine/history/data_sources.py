"""Spark's Python data sources over a job's log: ``changelog_state`` and ``changelog_mutations``.

Only ``registering`` imports this module: whoever asks without Spark has no PySpark loaded.

Invariants:
    * What a DataFrame shows is decided when it is made: its checkpoint, and with it the schema, stay as they are.
    * Rows are those of the typed views; ``StateColumns.shown`` says which columns there are.
    * Options that nobody knows are errors, and so is another schema than the state's own.
"""

from __future__ import annotations

import difflib
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import eq, ge, gt, le, lt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from changelog_engine.changelog import segments
from changelog_engine.changelog.compaction import fold_state
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.model import Checkpoint, Segment
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ChangelogEngineError, ConfigurationError, ForeignPathError, RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState, key_type_of
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS, key_group
from changelog_engine.history.mutation_rows import (
    MutationFile,
    MutationRange,
    WantedMutations,
    mutation_files,
)
from changelog_engine.history.names import TIMERS, quoted
from changelog_engine.history.plain_rows import Values, state_values, timers_values
from changelog_engine.history.state_columns import StateColumns, ViewColumn
from changelog_engine.history.tables import Tables
from changelog_engine.history.timers_sql import TimerColumns
from changelog_engine.ledger.described import check_names, described_operator, described_state
from changelog_engine.ledger.follower import FAIL, FIRST, NEWEST, LogFollower, Reached
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.ledger.reading import read_parts
from changelog_engine.state.backend import TIMER_DOMAINS
from changelog_engine.types import IntegerTypeInfo

STATE, MUTATIONS = "changelog_state", "changelog_mutations"
_FEW_ROWS = 20_000  # that one task folds by itself
_ROWS_OF_TASK = 250_000
_MOST_TASKS = 512
_ROWS_OF_BATCH = 50_000
_MOST_KEYS = 1_000  # of an IN that chooses files
_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
    In: lambda own, values: own in values,
}


class StatePartition(InputPartition):
    """A range of key groups."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class MutationPartition(InputPartition):
    """A file of mutations, or a range of their keys; None for none."""

    def __init__(self, file: MutationFile | MutationRange | None) -> None:
        self.file = file


class StateDataSource(DataSource):
    """``changelog_state``: a state, or the timers of an operator, at a checkpoint."""

    reader_class: type[StateReader]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = _checked(STATE, options, ("path", "operator", "state"), ("at",))
        self._path, self._operator, self._state = given["path"], given["operator"], given["state"]
        tables = Tables(self._path)
        checkpoint = tables.checkpoint(given.get("at"))
        self._checkpoint = checkpoint.id
        self._table = tables.table
        self._columns = _typed(checkpoint, self._operator, self._state).shown()

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return STATE

    def schema(self) -> str:
        """The columns of the state's view."""
        return _ddl(self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the state."""
        _check_schema(STATE, schema, self._columns)
        return self.reader_class(
            self._path, self._table, self._checkpoint, self._operator, self._state, schema
        )


class StateReader(DataSourceReader):
    """Folds a state, range by range of key groups."""

    def __init__(
        self, path: str, table: str, checkpoint: int, operator: str, state: str, schema: StructType
    ) -> None:
        self._path = path
        self._table = table
        self._number = checkpoint
        self._operator = operator
        self._state = state
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._keys: frozenset[str] | None = None  # texts of the keys that are asked for; None for all

    def _tables(self) -> Tables:
        tables = Tables(self._path)
        if tables.table != self._table:
            raise ForeignPathError(
                f"{self._path} is another changelog than the one that the DataFrame or view was made of: the job's folder "
                "was made anew. Make the DataFrame or view anew"
            )
        return tables

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of key groups, as many as the rows are worth."""
        tables = self._tables()
        checkpoint = tables.lineage.checkpoint(self._number)
        operator = described_operator(checkpoint, self._operator)
        groups = operator["max_parallelism"]
        if self._keys is not None:
            codec = key_codec_for(key_type_of(operator))
            found = {key_group(codec.from_texts([text])[0], groups) for text in self._keys}
            return [StatePartition(group, group + 1) for group in sorted(found)] or [StatePartition(0, 0)]
        base = tables.ledger.base(checkpoint)
        uids = frozenset([self._operator])
        files = tables.ledger.log_files(base.suffix, ALL_KEY_GROUPS, uids)
        if base.snapshot is not None:
            files += tables.ledger.snapshot_files(base.snapshot, ALL_KEY_GROUPS, uids)
        rows = sum(file.rows or 0 for file in files)
        return [StatePartition(*pair) for pair in _ranges(operator, rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries of a range of key groups."""
        assert isinstance(partition, StatePartition)
        if partition.first == partition.last:
            return
        tables = self._tables()
        checkpoint = tables.lineage.checkpoint(self._number)
        columns = _typed(checkpoint, self._operator, self._state)
        groups = range(partition.first, partition.last)
        if isinstance(columns, TimerColumns):
            found = [self._live(tables, checkpoint, groups, state) for state in TIMER_DOMAINS]
            yield self._batch(timers_values([each for each in found if each is not None], columns))
            return
        live = self._live(tables, checkpoint, groups, self._state)
        if live is None:
            return
        for start in range(0, live.num_rows, _ROWS_OF_BATCH):
            # A list's elements lie in one batch or not: those are made of all rows at once.
            rows = live if columns.kind == "list" else live.slice(start, _ROWS_OF_BATCH)
            yield self._batch(state_values(rows, columns, checkpoint.time_ms))
            if columns.kind == "list":
                return

    def _batch(self, values: Values) -> pa.RecordBatch:
        arrays = [pa.array(values[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _live(self, tables: Tables, checkpoint: Checkpoint, groups: range, state: str) -> pa.Table | None:
        point = tables.ledger.restore_point(checkpoint)
        pieces = read_parts(point, groups, frozenset([self._operator]), tables.ledger)
        own = group_by_state(pieces).get((self._operator, state))
        if own is None:
            return None
        if self._keys is not None:
            wanted = pa.array(sorted(self._keys), pa.string())
            own = [piece.filter(pc.is_in(piece["key"].cast(pa.string()), value_set=wanted)) for piece in own]
        return fold_state(own)


class PushingStateReader(StateReader):
    """As StateReader, where the session pushes filters: those on keys choose key groups."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # Spark's name
        """Take what filters say of the key. Spark looks at the rows again: nothing is left to this alone."""
        tables = self._tables()
        operator = described_operator(tables.lineage.checkpoint(self._number), self._operator)
        for each in filters:
            texts = _key_texts(each, operator)
            if texts is not None:
                self._keys = texts if self._keys is None else self._keys & texts
        return filters


class PushingStateSource(StateDataSource):
    """As StateDataSource, where the session pushes filters."""

    reader_class = PushingStateReader


StateDataSource.reader_class = StateReader


class MutationsDataSource(DataSource):
    """``changelog_mutations``: the mutations of a job's lineage, as a table and as a stream."""

    reader_class: type[MutationsReader]

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
        given = _checked(MUTATIONS, options, ("path",), may)
        self._options = given
        most = given.get("maxcheckpointspertrigger")
        if most is not None and not (most.isdecimal() and int(most) > 0):
            raise ConfigurationError(
                f"{MUTATIONS}: maxCheckpointsPerTrigger = {most!r} is not a whole number from 1 on"
            )
        self._most = None if most is None else int(most)
        self._wanted = _wanted(_follower(given).ledger.lineage.newest_point(), given)
        self._columns = self._wanted.columns()

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return MUTATIONS

    def schema(self) -> str:
        """The columns of mutations."""
        return _ddl(self._columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads those that are there."""
        _check_schema(MUTATIONS, schema, self._columns)
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
        _check_schema(MUTATIONS, schema, self._columns)
        if "endingcheckpoint" in self._options:
            raise ConfigurationError(
                f"{MUTATIONS}: endingCheckpoint is an option of tables; a stream has no end"
            )
        return MutationsStreamReader(self._options, self._most, self._wanted, schema)


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
        for first, last in _gaps(end.lineage, start.checkpoint, list(times)):
            # One that is left is missed when files are chosen.
            times |= dict.fromkeys(_tried(filters, first, last))
        for each in filters:
            times = {number: time_ms for number, time_ms in times.items() if _leaves(each, number, time_ms)}
        self._checkpoints = frozenset(times)
        return filters


class PushingMutationsSource(MutationsDataSource):
    """As MutationsDataSource, where the session pushes filters."""

    reader_class = PushingMutationsReader


MutationsDataSource.reader_class = MutationsReader


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


def _follower(options: dict[str, str]) -> LogFollower:
    return LogFollower(options["path"], options.get("onrewind", FAIL))


def _typed(checkpoint: Checkpoint, operator: str, state: str) -> StateColumns | TimerColumns:
    described = described_operator(checkpoint, operator)
    if state == TIMERS and all(each["name"] != TIMERS for each in described["states"]):
        return TimerColumns.of(described)
    return StateColumns.of(*described_state(checkpoint, operator, state))


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
        if isinstance(_typed(newest, operator, state), TimerColumns):
            described = described_operator(newest, operator), None
        else:
            described = described_state(newest, operator, state)
    elif newest is not None:
        if operator is not None:
            described_operator(newest, operator)
        if state is not None:
            check_names(newest, None, state)
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
) -> Sequence[MutationFile | MutationRange]:
    """What lies between two points, cut into tasks.

    Args:
        checkpoints: only of these; None: of all.
    """
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
        MutationRange(path, end.table, groups, end.lineage, suffix.after, times, wanted)
        for groups in _ranges(operator, sum(file.rows or 0 for file in files))
    ]


def _ranges(operator: DescribedOperator, rows: int) -> list[tuple[int, int]]:
    """Ranges of an operator's key groups, as many as the rows are worth."""
    groups = operator["max_parallelism"]
    least = 1 if rows < _FEW_ROWS else operator["parallelism"]
    tasks = min(groups, _MOST_TASKS, max(least, rows // _ROWS_OF_TASK))
    bounds = [groups * task // tasks for task in range(tasks + 1)]
    return list(itertools.pairwise(bounds))


def _checked(
    what: str, options: MutableMapping[str, str], must: Sequence[str], may: Sequence[str]
) -> dict[str, str]:
    """Options by their names in lower case."""
    known = {name.lower(): name for name in (*must, *may)}
    given = {name.lower(): value for name, value in dict(options).items()}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]
            raise ConfigurationError(
                f"{what} has no option {name!r}; did you mean {known[near]!r}? It has {', '.join(known.values())}"
            )
    missing = [name for name in must if not given.get(name.lower())]
    if missing:
        raise ConfigurationError(
            f"{what} needs the option {missing[0]!r}: .option({missing[0]!r}, ...), or OPTIONS ({missing[0]} '...') in SQL"
        )
    return given


def _ddl(columns: Sequence[ViewColumn]) -> str:
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def _check_schema(what: str, schema: StructType, columns: Sequence[ViewColumn]) -> None:
    """A schema that the user gave must be the source's own, as far as its names go."""
    names = [column.name for column in columns]
    if schema.fieldNames() != names:
        raise ConfigurationError(
            f"{what} has the columns {', '.join(names)}, not {', '.join(schema.fieldNames())}: leave out .schema(...)"
        )


def _gaps(line: Sequence[Segment], after: int, there: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The checkpoints of a lineage after one of it that are not there, as first and last of each range."""
    for run in segments.after(line, after):
        begin = run.first
        for number in (*there[bisect_left(there, begin) : bisect_right(there, run.last)], run.last + 1):
            if begin < number:
                yield begin, number - 1
            begin = number + 1


def _tried(filters: Sequence[Filter], first: int, last: int) -> set[int]:
    """Some checkpoints of a range: when filters leave any of it, they leave one of these."""
    found = {first, last}
    for each in filters:
        if type(each) in _COMPARED and each.attribute == ("checkpoint_id",):
            for value in each.value if isinstance(each, In) else (each.value,):
                if isinstance(value, int):
                    found |= {value - 1, value, value + 1}
    return {number for number in found if first <= number <= last}


def _leaves(condition: Filter, checkpoint: int, time_ms: int | None) -> bool:
    """Whether a filter may leave rows of a checkpoint."""
    compare = _COMPARED.get(type(condition))
    if compare is None or condition.attribute not in (("checkpoint_id",), ("checkpoint_time",)):
        return True
    own: Any = checkpoint
    if condition.attribute == ("checkpoint_time",):
        if time_ms is None:
            return True
        try:
            own = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)
        except OverflowError:
            return True
    try:
        return bool(compare(own, condition.value))
    except TypeError:  # another kind of value: Spark finds out
        return True


def _key_texts(condition: Filter, operator: DescribedOperator) -> frozenset[str] | None:
    """The texts of the keys that a filter leaves; None where it says nothing of keys, or not exactly."""
    if isinstance(condition, (EqualTo, EqualNullSafe)):
        values: Sequence[Any] = [condition.value]
    elif isinstance(condition, In):
        values = condition.value
    else:
        return None
    if isinstance(condition, EqualNullSafe) and None in values:
        return None  # rows whose key is null, or does not fit its type
    values = [value for value in values if value is not None]
    if condition.attribute not in (("key",), ("key_json",)) or len(values) > _MOST_KEYS:
        return None
    key_type = key_type_of(operator)
    codec = key_codec_for(key_type)
    try:
        with refusing_objects():
            if condition.attribute == ("key_json",):
                codec.from_texts(list(values))
                return frozenset(values)
            if isinstance(key_type, IntegerTypeInfo) or (key_type is not None and key_type.kind == "STRING"):
                return frozenset(codec.text(codec.identity(value)) for value in values)
    except (ChangelogEngineError, ValueError, TypeError, KeyError, IndexError):
        pass  # not a key of the state: Spark finds out that no row has it
    return None
