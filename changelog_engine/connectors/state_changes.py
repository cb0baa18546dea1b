"""Another job's state changes as a source: each mutation of one state, exactly once.

A split is a range of key groups. A position is ``{"reached": the newest checkpoint of which mutations were read, with its
lineage; "row": how many of its mutations, or null for all; "max_parallelism": of how many key groups the splits are
ranges}``.

Invariants:
    * Within a checkpoint a split's mutations come by subtask and sequence number: merging files does not change their order.
    * A position names the checkpoint that it is in the middle of, so a rewind behind that one is noticed.
    * Nothing is unpickled where it is not allowed.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Checkpoint, Segment
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.row_filter import in_groups
from changelog_engine.changelog.rows import SCHEMA, milliseconds_of
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.config.paths import absolute_path
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader
from changelog_engine.errors import ConfigurationError, NotSerializableError, RefusedForGoodError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState, TypeSpec, keyed_operators
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.ledger.described import described_state
from changelog_engine.ledger.follower import FAIL, FIRST, NEWEST, LogFollower, Reached
from changelog_engine.ledger.reading import read_file
from changelog_engine.ledger.suffix import Suffix
from changelog_engine.types import TypeInformation, Types, type_from_spec, type_of
from changelog_engine.types.in_state import in_state
from changelog_engine.types.row import make_row

CHECKPOINT_TIME, EVENT_TIME = "checkpoint", "event"
FIELDS = ("key", "window", "map_key", "operation", "value", "checkpoint", "checkpoint_time", "event_time")
_AT_ONCE = 64  # checkpoints whose files are looked for together
_LOOKS = 256  # checkpoints without mutations that one read passes over


class _Position(TypedDict):
    """How far a reader is.

    Attributes:
        reached: the checkpoint up to which it has read.
        row: of that checkpoint, from which on rows are still to be read; None: it has all.
        max_parallelism: of the operator when reading began.
        last: the checkpoint at which reading ends; None for none.
    """

    reached: dict[str, Any]
    row: int | None
    max_parallelism: int
    last: NotRequired[int | None]


class _StateTypes(NamedTuple):
    """What elements are made by: the types of a state as a checkpoint has them.

    Args:
        ttl: values are pairs of the last access and the user's value.
    """

    kind: str
    key: TypeSpec | None
    map_key: TypeSpec | None
    value: TypeSpec
    ttl: bool

    @staticmethod
    def of(operator: DescribedOperator, state: DescribedState) -> _StateTypes:
        return _StateTypes(
            state.kind, operator.key_type, state.map_key_type, state.value_type, state.ttl_ms is not None
        )

    def fields(self) -> list[TypeInformation]:
        """Of an element."""
        value = in_state(type_from_spec(self.value["fields"][1] if self.ttl else self.value))
        text, long = Types.STRING(), Types.LONG()
        key, map_key = (type_of(spec) or Types.PICKLED_BYTE_ARRAY() for spec in (self.key, self.map_key))
        return [key, text, map_key, text, value, long, long, long]


class StateChangesSource(Source):
    """The mutations of one state of another job, in the order of its checkpoints; those of a key in the order they happened.

    Elements are rows with the fields ``key``, ``window`` (the text of the window, None where the state has none),
    ``map_key``, ``operation`` (as in the changelog: put, remove, append, replace, clear), ``value`` (what was put or
    appended; None for none), ``checkpoint``, ``checkpoint_time`` and ``event_time`` (epoch milliseconds; None for none).
    Keys and values have the types that the job declared. Only checkpoints that were acknowledged are read, of the lineage
    that the job stands on.

    Args:
        path: the job's folder; a local path or a URI.
        operator: uid of the operator.
        start: ``first``: all mutations of the lineage; ``oldest``: those that are there; ``newest``: those that come; a
            checkpoint's id: from that checkpoint on.
        until: the last checkpoint, for a bounded source: its id, or ``newest`` for the newest there is now; None: no end.
        on_rewind: when the job is rewound behind what was read, ``fail``, or ``continue`` with what follows the fork.
        time: the timestamps of elements: ``checkpoint``, when the checkpoint's barrier was, or ``event``, that of the
            element that caused the mutation.
        allow_pickle: load pickled values and keys that are objects. That runs what is in them.

    Raises:
        ConfigurationError: an argument that is none of these.
        RestoreError: the job has no such state, or no such checkpoint; names what there is.
        StorageError, ForeignPathError: there is no changelog.

    Example:
        >>> source = StateChangesSource("changelog-data/words", "count", "count")  # doctest: +SKIP
        >>> env.from_source(source, WatermarkStrategy.no_watermarks(), "counts")  # doctest: +SKIP
    """

    timed = True
    watermarks_by_split = True

    def __init__(
        self,
        path: str,
        operator: str,
        state: str,
        *,
        start: str | int = FIRST,
        until: str | int | None = None,
        on_rewind: str = FAIL,
        time: str = CHECKPOINT_TIME,
        allow_pickle: bool = False,
    ) -> None:
        if time not in (CHECKPOINT_TIME, EVENT_TIME):
            raise ConfigurationError(
                f"StateChangesSource: time = {time!r} is neither 'checkpoint' nor 'event'"
            )
        self.path = absolute_path(path)
        self.operator = operator
        self.state = state
        self.on_rewind = on_rewind
        self.start = str(start)
        self.event_time = time == EVENT_TIME
        self.allow_pickle = allow_pickle
        follower = self.follower()
        newest = follower.ledger.lineage.newest_point()
        if newest is None:
            raise ConfigurationError(
                f"StateChangesSource: {path} has no checkpoint yet, and so nothing says the types of its states: start "
                "that job first"
            )
        described, spec = described_state(newest, operator, state)
        self.max_parallelism: int = described.max_parallelism
        self.types = _StateTypes.of(described, spec)
        self.output_type = Types.ROW_NAMED(list(FIELDS), self.types.fields())
        follower.start(self.start)  # or an error now rather than in the job
        self.last = self._last_of(until, follower)
        self.bounded = self.last is not None

    def _last_of(self, until: str | int | None, follower: LogFollower) -> int | None:
        if until is None:
            return None
        newest = follower.newest().checkpoint
        if until == NEWEST:
            return newest
        if not str(until).isdecimal() or not 1 <= int(until) <= newest:
            raise ConfigurationError(
                f"StateChangesSource: until = {until!r} is neither 'newest' nor a checkpoint's id from 1 to {newest}, the "
                "newest there is"
            )
        return int(until)

    def follower(self) -> LogFollower:
        """The job's log."""
        return LogFollower(self.path, self.on_rewind, "start", "on_rewind")

    def splits(self, parallelism: int) -> list[Split]:
        start: _Position = {
            "reached": self.follower().start(self.start).to_json(),
            "row": None,
            "max_parallelism": self.max_parallelism,
            "last": self.last,
        }
        count = min(parallelism, self.max_parallelism)
        ranges = [key_group_range(part, self.max_parallelism, count) for part in range(count)]
        return [Split(f"{groups.start}-{groups.stop - 1}", dict(start)) for groups in ranges]

    def reader(self, split: Split) -> StateChangesReader:
        first, _, last = split.id.partition("-")
        return StateChangesReader(self, range(int(first), int(last) + 1))


class _Piece(NamedTuple):
    """Some checkpoints whose files are known.

    Args:
        line: lineage of the last of them.
        after: the checkpoint before the first; 0 for none.
        files: checkpoint -> its own files.
        merged: rows of files that hold several checkpoints, as far as they are wanted.
    """

    line: tuple[Segment, ...]
    after: int
    suffix: Suffix
    files: dict[int, list[PartFile]]
    merged: pa.Table | None

    def has(self, reached: Reached) -> bool:
        """Whether the newest checkpoint of a reader is one of them."""
        return reached.checkpoint > self.after and reached.prefix_of(self.line)


class _Changes(NamedTuple):
    """A split's mutations of one checkpoint, in their order."""

    reached: Reached
    time_ms: int
    rows: pa.Table


class StateChangesReader(SplitReader):
    """Reads one range of key groups."""

    def __init__(self, source: StateChangesSource, groups: range) -> None:
        self._source = source
        self._groups = groups
        self._max_parallelism = source.max_parallelism
        self._last = source.last
        self._follower = source.follower()
        self._piece: _Piece | None = None
        self._held: _Changes | None = None

    def read(self, position: _Position, max_records: int) -> Range:
        """Mutations from a position on, of one checkpoint at most."""
        reached, row = Reached.from_json(position["reached"]), position["row"]
        self._max_parallelism = position["max_parallelism"]
        # That of then, where a program that runs again finds a newer one.
        self._last = position.get("last", self._source.last)
        for _ in range(_LOOKS):
            further = self._follower.after(reached, 1, self._last)
            if row is not None and not reached.prefix_of(self._follower.newest().lineage):
                row = None  # the checkpoint was taken back, and the reader goes on from the fork
            if row is None:
                if further == reached:
                    return Range([], self._position(reached, None), self._source.bounded)
                reached, row = further, 0
            changes = self._changes(reached)
            rows = changes.rows.slice(row, max_records)
            if rows.num_rows:
                row += rows.num_rows
                ended = row >= changes.rows.num_rows
                values, times = self._elements(changes, rows)
                return Range(values, self._position(reached, None if ended else row), False, times)
            row = None
        return Range([], self._position(reached, None), False)

    def _position(self, reached: Reached, row: int | None) -> _Position:
        return {
            "reached": reached.to_json(),
            "row": row,
            "max_parallelism": self._max_parallelism,
            "last": self._last,
        }

    def close(self) -> None:
        self._piece = self._held = None

    def _changes(self, reached: Reached) -> _Changes:
        if self._held is None or self._held.reached != reached:
            if self._piece is None or not self._piece.has(reached):
                self._held = None
                self._piece = self._found(reached)
            self._held = self._of_checkpoint(self._piece, reached)
        return self._held

    def _found(self, reached: Reached) -> _Piece:
        """The files of a checkpoint, and of those after it."""
        before = reached.before()
        end = reached
        if reached.prefix_of(self._follower.newest().lineage):
            end = self._follower.after(before, _AT_ONCE, self._last)
        suffix = self._follower.between(before, end)
        ledger = self._follower.ledger
        files: dict[int, list[PartFile]] = {}
        merged: list[pa.Table] = []
        for file in ledger.log_files(suffix, self._groups, frozenset([self._source.operator])):
            if file.name is not None:
                files.setdefault(file.name.checkpoint, []).append(file)
            else:
                merged.append(self._wanted(read_file(ledger.storage, file, suffix, end.lineage)))
        rows = pa.concat_tables(merged) if merged else None
        return _Piece(end.lineage, before.checkpoint, suffix, files, rows)

    def _of_checkpoint(self, piece: _Piece, reached: Reached) -> _Changes:
        ledger, number = self._follower.ledger, reached.checkpoint
        row = ledger.lineage.checkpoint(number)
        self._check_key_groups(row)
        tables = [
            self._wanted(read_file(ledger.storage, file, piece.suffix, piece.line))
            for file in piece.files.get(number, ())
        ]
        if piece.merged is not None:
            tables.append(piece.merged.filter(pc.equal(piece.merged["checkpoint_id"], number)))
        tables = [table for table in tables if table.num_rows]
        if not tables:
            return _Changes(reached, row.time_ms, SCHEMA.empty_table())
        described, spec = described_state(row, self._source.operator, self._source.state)
        if _StateTypes.of(described, spec) != self._source.types:
            raise RefusedForGoodError(
                f"the state {self._source.state!r} of operator {self._source.operator!r} of {self._source.path} has other "
                f"types at checkpoint {number} than the newest had when this source was made: begin anew, with a start from "
                "which on the types are the same"
            )
        table = pa.concat_tables(tables, promote_options="permissive")
        groups = table["key_group"].cast(pa.int64())
        subtasks = pc.divide(pc.multiply(groups, described.parallelism), described.max_parallelism)
        ordered = table.append_column("subtask", subtasks)
        ordered = ordered.sort_by([("subtask", "ascending"), ("sequence", "ascending")])
        return _Changes(reached, row.time_ms, ordered)

    def _check_key_groups(self, row: Checkpoint) -> None:
        """With another max parallelism keys are in other groups, and some of these in no split."""
        uid = self._source.operator
        found = next((each for each in keyed_operators(row.operators) if each.uid == uid), None)
        if found is not None and found.max_parallelism != self._max_parallelism:
            raise RefusedForGoodError(
                f"operator {uid!r} of {self._source.path} has max parallelism {found.max_parallelism} at checkpoint "
                f"{row.id}, and {self._max_parallelism} when reading began: begin anew, with a start from which on it is "
                "the same"
            )

    def _wanted(self, table: pa.Table) -> pa.Table:
        table = in_groups(table, self._groups)
        source = self._source
        mask = pc.and_(pc.equal(table["operator"], source.operator), pc.equal(table["state"], source.state))
        table = table.filter(mask).drop_columns(["operator", "state"])
        place = table.schema.get_field_index("operation")  # its dictionaries differ from file to file
        return table.set_column(place, "operation", table["operation"].cast(pa.string()))

    def _elements(self, changes: _Changes, rows: pa.Table) -> tuple[list[Any], list[int]]:
        """Typed rows, and their timestamps."""
        source = self._source
        keys = self._keys(rows["key"], source.types.key)
        map_keys = self._keys(rows["map_key"], source.types.map_key)
        values = self._values(rows)
        windows, operations = rows["namespace"].to_pylist(), rows["operation"].to_pylist()
        events: list[Any] = milliseconds_of(rows["event_time"])
        number, time_ms = changes.reached.checkpoint, changes.time_ms
        if source.event_time and None in events:
            key = rows["key"][events.index(None)].as_py()
            raise RefusedForGoodError(
                f"a mutation of checkpoint {number} of {source.path} (key {key}) has no event time, since the job's "
                "stream has no timestamps there: read it with time = 'checkpoint'"
            )
        names = list(FIELDS)
        made = [
            make_row(names, [key, window, map_key, operation, value, number, time_ms, event])
            for key, window, map_key, operation, value, event in zip(
                keys, windows, map_keys, operations, values, events, strict=True
            )
        ]
        return made, events if source.event_time else [time_ms] * len(made)

    def _keys(self, texts: pa.ChunkedArray, spec: TypeSpec | None) -> list[Any]:
        given = texts.to_pylist()
        codec = key_codec_for(type_of(spec))
        identities = iter(codec.from_texts([text for text in given if text is not None]))
        try:
            if self._source.allow_pickle:
                return [None if text is None else codec.key_of(next(identities)) for text in given]
            with refusing_objects():
                return [None if text is None else codec.key_of(next(identities)) for text in given]
        except NotSerializableError as error:
            raise self._withheld(f"a key is an object ({error})") from error

    def _values(self, rows: pa.Table) -> list[Any]:
        payloads = rows["payload"]
        if not self._source.allow_pickle and payloads.null_count < len(payloads):
            place = pc.index(pc.is_valid(payloads), True).as_py()
            raise self._withheld(f"the value of key {rows['key'][place].as_py()} is pickled")
        value_type = type_from_spec(self._source.types.value)
        given = codec_for(value_type).decode_many(rows["value"], payloads)
        values = [None if value is CLEARED else value for value in given]
        if self._source.types.ttl:  # pairs of the last access and the user's value
            return [None if value is None else value[1] for value in values]
        return values

    def _withheld(self, what: str) -> RefusedForGoodError:
        source = self._source
        return RefusedForGoodError(
            f"state {source.state!r} of operator {source.operator!r} of {source.path}: {what}. Loading it runs what is in "
            "it: where that job can be trusted, give StateChangesSource allow_pickle=True"
        )
