"""Mutations that are not in a part yet, one log per state, as plain columns.

Invariants:
    * A mutation is in its log before the table changes.
    * What waits never changes, or it would rewrite history: immutable values wait as they are, mutable ones as the private
      copies that the table keeps, and what a copy may share was encoded at once (``Encoded``).
    * Within a state, mutations keep their order.
"""

from __future__ import annotations

import functools
from copy import copy
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from changelog_engine.changelog.logged_keys import key_columns
from changelog_engine.changelog.rows import Columns, LogColumns
from changelog_engine.codec.columns import constant_texts, digits, int_words
from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.codec.values import CLEARED, Codec, Encoded, codec_for
from changelog_engine.errors import StateTooLargeError, TypeMismatchError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state import mutation_log
from changelog_engine.state.cursor import key_words
from changelog_engine.state.mutation_log import MutationLog, misfit
from changelog_engine.types import TypeInformation
from changelog_engine.windowing.reserved import state_words

_MAX_MS = (2**63 - 1) // 1000  # that microseconds hold
_FIRST, _SECOND = itemgetter(0), itemgetter(1)


@functools.cache
def _put_or_clear() -> pa.Array:
    # Made when it is needed: Arrow imports pandas to make an array of a list, which building a graph shall not wait for.
    return pa.array([mutation_log.PUT, mutation_log.CLEAR], pa.string())


class StateLog(MutationLog):
    """The waiting mutations of one state, and how they become Arrow columns.

    Args:
        value_codec: of the values; None for timers, whose value is the timestamp.
        map_codec: of a map's keys; None for what is not a map.
        net: the log is one of net changes.
    """

    __slots__ = (
        "_key_codec",
        "_map_codec",
        "_namespaces",
        "_of_list",
        "_value_codec",
        "operator",
        "state",
    )

    def __init__(
        self,
        operator: str,
        state: str,
        key_codec: KeyCodec,
        value_codec: Codec | None,
        map_codec: KeyCodec | None,
        explicit: bool,
        timed: bool,
        namespaces: NamespaceCodec | None,
        net: bool,
    ) -> None:
        super().__init__(map_codec is not None, explicit, timed, net)
        self.operator = operator
        self.state = state
        self._key_codec = key_codec
        self._value_codec = value_codec
        self._map_codec = map_codec
        self._namespaces = namespaces
        self._of_list = explicit and value_codec is not None and map_codec is None

    def halves(self) -> list[StateLog]:
        """The first and the second half of what waits, as logs of their own; none of a single mutation."""
        middle = len(self.keys) // 2
        return [self._part(slice(middle)), self._part(slice(middle, None))] if middle else []

    def _part(self, rows: slice) -> StateLog:
        part = copy(self)
        part.keys, part.values = self.keys[rows], self.values[rows]
        part.map_keys = None if self.map_keys is None else self.map_keys[rows]
        part.operations = None if self.operations is None else self.operations[rows]
        part.times = None if self.times is None else self.times[rows]
        return part

    def identities(self) -> list[Any]:
        """The keys' identities, without namespaces."""
        return self.keys if self._namespaces is None else list(map(_FIRST, self.keys))  # drives our own code

    def columns(self, keys: tuple[pa.Array, pa.Array], times: pa.Array | None) -> Columns:
        """The waiting mutations as columns of the changelog (constants as scalars); the lists are left alone.

        Args:
            keys: texts and groups of the keys.
            times: of the elements, None without.
        """
        namespace = None
        if self._namespaces is not None:
            namespace = self._namespaces.texts(list(map(_SECOND, self.keys)))  # drives our own code
        columns: Columns = {
            "operator": self.operator,
            "state": self.state,
            "key": keys[0],
            "key_group": keys[1],
            "operation": None,
            "value": None,
            "payload": None,
            "map_key": None,
            "namespace": namespace,
            "event_time": times,
        }
        try:
            columns["value"], columns["payload"] = self._value_columns()
        except TypeMismatchError:  # an int of a type whose bounds are looked at here alone
            raise self._misfit() from None
        columns["operation"] = self._operation_column(columns["value"])
        if self.map_keys is not None:
            columns["map_key"] = self._map_key_column()
        return columns

    def _value_columns(self) -> tuple[pa.Array, pa.Array | None]:
        if self._value_codec is None:
            return digits(self.values), None
        if self._of_list and self.operations is not None and mutation_log.REPLACE in self.operations:
            # Most elements of the new list were in the old one.
            return self._value_codec.encode_again(self.values)
        return self._value_codec.encode_many(self.values, admitted=True)

    def first_key(self) -> Any:
        """The key of the first of what waits."""
        return self._key_codec.key_of(self.identities()[0])

    def operation_of(self, index: int) -> str:
        """The operation of one of what waits."""
        if self.operations is not None:
            return self.operations[index]
        return mutation_log.CLEAR if self.values[index] is CLEARED else mutation_log.PUT

    def _misfit(self) -> TypeMismatchError:
        """What to raise of the first value that does not fit."""
        assert self._value_codec is not None
        for identity, value in zip(self.identities(), self.values, strict=True):
            try:
                if type(value) is not Encoded:
                    self._value_codec.encode(value)
            except TypeMismatchError as error:
                where = key_words(self._key_codec.key_of(identity))
                return misfit(self.operator, self.state, where, error)
        raise AssertionError("one of the values did not fit")

    def _operation_column(self, values: pa.Array) -> Any:
        if self.operations is not None:
            first = self.operations[0]
            if self.operations.count(first) == len(self.operations):
                return first
            return constant_texts(self.operations)
        if not values.null_count:  # no text is what CLEARED has, and nothing else
            return mutation_log.PUT
        return pa.DictionaryArray.from_arrays(values.is_null().cast(pa.int32()), _put_or_clear())

    def _map_key_column(self) -> pa.Array:
        assert self.map_keys is not None and self._map_codec is not None
        if CLEARED not in self.map_keys:
            return self._map_codec.texts(self.map_keys)
        present = [k for k in self.map_keys if k is not CLEARED]
        texts = iter(self._map_codec.texts(present).to_pylist())
        return pa.array([None if k is CLEARED else next(texts) for k in self.map_keys], pa.string())


def _time_column(times: list[int]) -> pa.Array:
    found = np.frombuffer(int_words(times), np.int64)
    absent = None
    if found.min() < -_MAX_MS or found.max() > _MAX_MS:
        absent = found == NO_TIMESTAMP
        present = found[~absent]
        if len(present) and (present.min() < -_MAX_MS or present.max() > _MAX_MS):
            absent |= (found <= -(2**53)) | (found >= 2**53)  # further from 1970 than microseconds reach
        found[absent] = 0
    return pa.array(found * 1000, mask=absent).cast(pa.timestamp("us", tz="UTC"))


class ChangelogBuffer:
    """The logs of all states of one subtask."""

    def __init__(self, key_type: TypeInformation | None, timed: bool, max_parallelism: int) -> None:
        self.logs: list[StateLog] = []
        self._key_codec = key_codec_for(key_type)
        self._timed = timed
        self._max_parallelism = max_parallelism

    def log_of(self, operator: str, spec: StateSpec, namespaces: NamespaceCodec | None = None) -> StateLog:
        """A log for a state."""
        is_map = spec.kind is StateKind.MAP
        log = StateLog(
            operator,
            spec.name,
            self._key_codec,
            codec_for(spec.value_type),
            key_codec_for(spec.map_key_type) if is_map else None,
            explicit=is_map or spec.kind is StateKind.LIST,
            timed=self._timed,
            namespaces=namespaces,
            net=spec.net,
        )
        self.logs.append(log)
        return log

    def timer_log(
        self, operator: str, domain: str, namespaces: NamespaceCodec | None = None, net: bool = False
    ) -> StateLog:
        """A log for an operator's timers: the value is the timestamp; of net changes if that is wanted."""
        log = StateLog(
            operator,
            domain,
            self._key_codec,
            None,
            None,
            explicit=True,
            timed=self._timed,
            namespaces=namespaces,
            net=net,
        )
        self.logs.append(log)
        return log

    def rows(self) -> int:
        """How many mutations wait."""
        return sum([log.waiting() for log in self.logs])

    def drain(self) -> list[LogColumns]:
        """The waiting mutations of every state; they are forgotten once all are encoded."""
        for log in self.logs:
            log.collect()
        waiting = [log for log in self.logs if log.keys]
        drained = self._drained(waiting)
        for log in waiting:
            log.clear()
        return drained

    def _drained(self, waiting: list[StateLog]) -> list[LogColumns]:
        """The columns of some logs; of one log, and of half of it, where a column has more text than one array holds."""
        try:
            return self._columns(waiting)
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            smaller = waiting if len(waiting) > 1 else waiting[0].halves()
            if not smaller and isinstance(error, pa.ArrowCapacityError):
                raise StateTooLargeError(_too_large(waiting[0])) from error
            if not smaller:
                raise
        # Out of the handler, which keeps what was encoded in vain.
        return [columns for log in smaller for columns in self._drained([log])]

    def _columns(self, waiting: list[StateLog]) -> list[LogColumns]:
        # States of one function have mutations of the same records: equal lists become columns once.
        keys, times = _Distinct(), _Distinct()
        places = [
            (keys.place(log.identities()), times.place(log.times) if log.times else None) for log in waiting
        ]
        of_keys = key_columns(keys.lists, self._key_codec, self._max_parallelism)
        of_times = [_time_column(some) for some in times.lists]
        return [
            LogColumns(len(log.keys), log.columns(of_keys[key], None if time is None else of_times[time]))
            for log, (key, time) in zip(waiting, places, strict=True)
        ]


def _too_large(log: StateLog) -> str:
    return (
        f"{state_words(log.state)} of operator {log.operator!r}, key {log.first_key()!r:.100}: one entry has more text than "
        "the log's columns hold, 2 GiB; keep it in smaller pieces, such as the elements of a list or the entries of a map"
    )


class _Distinct:
    """Lists that differ."""

    def __init__(self) -> None:
        self.lists: list[list[Any]] = []

    def place(self, values: list[Any]) -> int:
        """Where a list that is equal stands, which this one may be."""
        for place, known in enumerate(self.lists):
            if len(known) == len(values) and known == values:
                return place
        self.lists.append(values)
        return len(self.lists) - 1
