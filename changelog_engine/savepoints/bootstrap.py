"""A savepoint out of tables: the state with which a job begins that no job has made.

Steps (a crash after any but the last leaves a folder that says it was never finished):
    1. Everything but the rows is checked: names, types, columns of what lies in memory.
    2. The folder and its marker.
    3. Each table: its rows are encoded, compared, put into the order of their key groups, and written as parts.
    4. Commits, as of any savepoint (``savepoints.writer``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.model import Checkpoint, Part, Segment
from changelog_engine.changelog.small_state import KeptBroadcast, StageState
from changelog_engine.clock import wall_ms
from changelog_engine.config.names import writable
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.graph.nodes import StateDescription, StateKind, StateSpec
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ownership import attempt_of_this_process
from changelog_engine.operators.broadcast import BroadcastStates
from changelog_engine.operators.state_types import describe
from changelog_engine.savepoints.folder import Savepoint, give_up_savepoint, new_savepoint_at, open_savepoint
from changelog_engine.savepoints.given_tables import batches, is_spark_frame
from changelog_engine.savepoints.state_parts import Place, write_in_tasks, write_rows
from changelog_engine.savepoints.state_rows import (
    KEY,
    MAP_KEY,
    SCHEMA_OF_ROWS,
    VALUE,
    StateShape,
    encoded_rows,
    refused_twice,
    typed_rows,
)
from changelog_engine.savepoints.writer import begin_tables, complete_savepoint
from changelog_engine.state.backend import TIMER_DOMAINS
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.in_state import in_state
from changelog_engine.types.typeinfo import shown
from changelog_engine.windowing.reserved import RESERVED

_DEFAULT_MAX_PARALLELISM = 128
_TIMERS = {domain: state for state, domain in TIMER_DOMAINS.items()}


@dataclass(frozen=True)
class _Source:
    """One table, and what becomes of it."""

    uid: str
    state: str
    shape: StateShape
    table: Any


def bootstrap(
    path: str | os.PathLike[str],
    operators: Mapping[str, Mapping[str, Any]],
    *,
    key_types: Mapping[str, TypeInformation] = MappingProxyType({}),
    types: Mapping[str, Mapping[str, TypeInformation | StateDescription]],
    timers: Mapping[str, Mapping[str, Any]] | None = None,
    broadcast: Mapping[str, Mapping[str, Any]] | None = None,
    max_parallelism: int | Mapping[str, int] = _DEFAULT_MAX_PARALLELISM,
    clock: Callable[[], int] = wall_ms,
) -> Savepoint:
    """Make a savepoint out of tables, from which a job starts with this state.

    It is what Flink's State Processor API does by ``OperatorTransformation.bootstrapWith`` and ``SavepointWriter``; here the
    tables say the state itself.

    Args:
        path: the savepoint's folder, a local path or a URI; there is nothing yet.
        operators: uid of a keyed operator -> name of a state -> its table: a pyarrow Table, reader or Dataset, a pandas
            DataFrame, columns by name, the path of Parquet files, or a DataFrame of Spark, which is then read and written
            by its tasks. Its columns are ``key`` and ``value``, and ``map_key`` for a MapState. A row is a value, an element
            of a list in the order of the table or of a column ``position``, an entry of a map, what a reduce function has
            combined, or an accumulator.
        key_types: uid -> the type of its keys, as ``key_by()`` has it; ``Types.PICKLED_BYTE_ARRAY()`` where it has none.
        types: uid -> name of a state -> its descriptor, or the type of the values of a ValueState.
        timers: uid -> ``event time`` or ``processing time`` -> a table with the columns ``key`` and ``timestamp`` (epoch
            milliseconds, or Arrow's timestamps with a zone), in the order in which they count as registered.
        broadcast: uid of an operator -> name of a broadcast state -> its table: columns ``map_key`` and ``value``. Its
            MapStateDescriptor is in ``types``. All of it is in every checkpoint of the job.
        max_parallelism: number of key groups, 1 to 32768, for all operators or by uid. The job keeps it; a program that sets
            another is refused.
        clock: epoch milliseconds; what has a time to live counts as accessed at that time.

    Returns:
        The savepoint; ``changelog-engine run script.py --restore`` takes its ``path``.

    Raises:
        TypeMismatchError: a value is not of its type, a key is null, or two rows are for the same entry; names table, row
            and column. No savepoint is left.
        ConfigurationError: a name, type or column is missing or unknown.
        StorageError: the path is taken, a table can't be read, or the savepoint can't be written.

    Example:
        >>> import tempfile
        >>> import changelog_engine
        >>> from changelog_engine.api.common import Types
        >>> made = changelog_engine.bootstrap(
        ...     f"{tempfile.mkdtemp()}/opening",
        ...     {"account": {"balance": {"key": ["ann", "bob"], "value": [100, 250]}}},
        ...     key_types={"account": Types.STRING()},
        ...     types={"account": {"balance": Types.LONG()}},
        ... )
        >>> made.rows
        2
    """
    given = _Given(operators, key_types, types, timers or {}, broadcast or {}, max_parallelism, clock())
    given.check()
    shared = {uid: given.broadcast_state(uid) for uid in given.broadcast}
    planned = [given.planned(uid) for uid in given.uids]
    target = new_savepoint_at(os.fspath(path))
    try:
        changelog, snapshots = begin_tables(target)
        attempt = attempt_of_this_process(1, None, given.now_ms)
        small = {uid: StageState(shared={uid: state}) for uid, state in shared.items()}
        checkpoint = Checkpoint(
            1,
            1,
            None,
            (Segment(1, 1, 1),),
            given.now_ms,
            operators=[described for described, _ in planned],
            operator_state=small,
        )
        parts: list[Part] = []
        for number, source in enumerate(source for _, sources in planned for source in sources):
            parts += _write(target, checkpoint, number, source)
        complete_savepoint(target, changelog, snapshots, checkpoint, attempt, parts)
        return open_savepoint(target.storage.root)
    except BaseException as failure:
        give_up_savepoint(target.storage, failure)
        raise


@dataclass(frozen=True)
class _Given:
    """The arguments of ``bootstrap``, and what becomes of them."""

    operators: Mapping[str, Mapping[str, Any]]
    key_types: Mapping[str, TypeInformation]
    types: Mapping[str, Mapping[str, TypeInformation | StateDescription]]
    timers: Mapping[str, Mapping[str, Any]]
    broadcast: Mapping[str, Mapping[str, Any]]
    max_parallelism: int | Mapping[str, int]
    now_ms: int

    @property
    def uids(self) -> list[Any]:
        """Of the operators that have a table."""
        return list(dict.fromkeys([*self.operators, *self.timers, *self.broadcast]))

    def check(self) -> None:
        """Refuse arguments of another form, and operators without a table."""
        _refuse_others("operators", self.operators, "uid -> name of a state -> its table")
        _refuse_others(
            "types", self.types, "uid -> name of a state -> its descriptor or the type of its values"
        )
        _refuse_others("timers", self.timers, "uid -> 'event time' or 'processing time' -> a table")
        _refuse_others("broadcast", self.broadcast, "uid -> name of a broadcast state -> its table")
        if not isinstance(self.key_types, Mapping):
            raise ArgumentTypeError(
                f"key_types must be a dict, uid -> the type of its keys; got {self.key_types!r}"
            )
        if not self.uids:
            raise ConfigurationError("no operator is named: give bootstrap() a table for at least one state")
        self._refuse_unknown("key_types", self.key_types)
        self._refuse_unknown("types", self.types)
        if isinstance(self.max_parallelism, Mapping):
            self._refuse_unknown("max_parallelism", self.max_parallelism)

    def _refuse_unknown(self, argument: str, given: Mapping[str, Any]) -> None:
        for uid in given:
            if uid not in self.uids:
                raise ConfigurationError(
                    f"{argument} has the operator {uid!r}, for which there is no table; the tables are of "
                    f"{', '.join([repr(uid) for uid in self.uids])}"
                )

    def planned(self, uid: Any) -> tuple[DescribedOperator, list[_Source]]:
        """An operator as a checkpoint's row has it, and the tables of its keyed state and timers."""
        if not isinstance(uid, str) or not uid:
            raise ArgumentTypeError(f"an operator's uid must be a non-empty str, got {uid!r}")
        writable(uid, "the uid of an operator")
        groups = self._groups_of(uid)
        described = DescribedOperator(uid, uid, "process", 1, groups)
        tables = self.operators.get(uid, {})
        if spare := self.types.get(uid, {}).keys() - tables.keys() - self.broadcast.get(uid, {}).keys():
            raise ConfigurationError(
                f"types has {sorted(spare)[0]!r} of operator {uid!r}, for which there is no table: give it one (with no "
                "rows, if the state is to be empty), or leave its type out"
            )
        if uid not in self.operators and uid not in self.timers and uid not in self.key_types:
            return described, []  # it has broadcast state only, and no keys
        key_type = self._key_type(uid)
        specs = [self._spec(uid, name) for name in tables]
        sources = [self._state(uid, spec, key_type, groups) for spec in specs]
        sources += [self._timers(uid, domain, key_type, groups) for domain in self.timers.get(uid, {})]
        states = tuple([describe(spec) for spec in specs])
        return described._replace(keyed=True, key_type=key_type.spec(), states=states), sources

    def _state(self, uid: str, spec: StateSpec, key_type: TypeInformation, groups: int) -> _Source:
        shape = StateShape(
            f"the table of state {spec.name!r} of operator {uid!r}",
            spec.kind,
            key_type,
            spec.value_type,
            spec.map_key_type,
            groups,
            None if spec.ttl is None else self.now_ms,
        )
        return _Source(uid, spec.name, shape, self.operators[uid][spec.name])

    def _timers(self, uid: str, domain: str, key_type: TypeInformation, groups: int) -> _Source:
        if domain not in _TIMERS:
            raise ConfigurationError(
                f"timers of operator {uid!r} are of 'event time' or 'processing time', not {domain!r}"
            )
        where = f"the table of {domain} timers of operator {uid!r}"
        shape = StateShape(where, None, key_type, None, None, groups)
        return _Source(uid, _TIMERS[domain], shape, self.timers[uid][domain])

    def _key_type(self, uid: str) -> TypeInformation:
        found = self.key_types.get(uid)
        if not isinstance(found, TypeInformation):
            raise ArgumentTypeError(
                f"key_types[{uid!r}] must be the type that key_by() has before that operator, such as Types.STRING(), or "
                f"Types.PICKLED_BYTE_ARRAY() where it has none; got {found!r}"
            )
        return found

    def _groups_of(self, uid: str) -> int:
        found = self.max_parallelism
        if isinstance(found, Mapping):
            found = found.get(uid, _DEFAULT_MAX_PARALLELISM)
        if type(found) is not int or not 1 <= found <= len(ALL_KEY_GROUPS):
            raise ArgumentTypeError(
                f"max_parallelism of operator {uid!r} must be an int from 1 to {len(ALL_KEY_GROUPS)}, got {found!r}"
            )
        return found

    def _spec(self, uid: str, name: Any) -> StateSpec:
        found = self.types.get(uid, {}).get(name)
        if isinstance(found, TypeInformation):
            if not isinstance(name, str) or not name.strip() or name.startswith(RESERVED):
                raise ConfigurationError(
                    f"{name!r} of operator {uid!r} is not a name for a state: it must be a non-empty str that does not "
                    f"begin with {RESERVED!r}; timers go into the argument timers"
                )
            writable(name, "the name of a state")
            return StateSpec(name, StateKind.VALUE, in_state(found))
        if isinstance(found, StateDescription):
            spec = found.to_spec()
            if spec.name != name:
                raise ConfigurationError(
                    f"types[{uid!r}][{name!r}] is the descriptor of a state named {spec.name!r}: use one name in both places"
                )
            return replace(spec, function=None, migration=None)
        raise ArgumentTypeError(
            f"types[{uid!r}][{name!r}] must be the state's descriptor, such as ListStateDescriptor({shown(name)}, "
            f"Types.STRING()), or for a ValueState the type of its values, such as Types.LONG(); got {found!r}"
        )

    def broadcast_state(self, uid: Any) -> KeptBroadcast:
        """The broadcast state of an operator."""
        tables = self.broadcast[uid]
        specs = tuple(self._spec(uid, name) for name in tables)
        for spec in specs:
            if spec.kind is not StateKind.MAP:
                raise ConfigurationError(
                    f"types[{uid!r}][{spec.name!r}] is not the descriptor of a MapState, which every broadcast state is"
                )
        states = BroadcastStates(uid, specs)
        for spec in specs:
            where = f"the table of broadcast state {spec.name!r} of operator {uid!r}"
            shape = StateShape(where, spec.kind, Types.INT(), spec.value_type, spec.map_key_type, 1)
            table = tables[spec.name]
            entries = states.writers[spec.name]
            given = table.toArrow() if is_spark_frame(table) else table
            for batch in batches(given, where, (MAP_KEY, VALUE), ()):
                columns = {KEY: [0] * batch.rows, **batch.columns}
                for number, _, key, value, _ in typed_rows(shape, batch._replace(columns=columns)):
                    if entries.contains(key):
                        raise refused_twice(where, number, key, None)
                    entries.put(key, value)
        return states.snapshot()


def _refuse_others(argument: str, given: Any, wanted: str) -> None:
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{argument} must be a dict, {wanted}; got {given!r}")
    for uid, of in given.items():
        if not isinstance(of, Mapping):
            raise ArgumentTypeError(f"{argument}[{uid!r}] must be a dict ({argument}: {wanted}); got {of!r}")


def _write(target: JobFolder, checkpoint: Checkpoint, stage: int, source: _Source) -> list[Part]:
    place = Place(target.storage.root, checkpoint.id, checkpoint.attempt, stage, source.uid, source.state)
    shape = source.shape
    if is_spark_frame(source.table):
        return write_in_tasks(place, shape, source.table)
    encoded = [
        encoded_rows(shape, batch)
        for batch in batches(source.table, shape.where, shape.wanted, shape.optional)
    ]
    rows = pa.concat_tables(encoded, promote_options="default") if encoded else SCHEMA_OF_ROWS.empty_table()
    return write_rows(place, shape, rows, numbered=True)
