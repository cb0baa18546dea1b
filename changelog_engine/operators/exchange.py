"""The sending side of an exchange: elements into one block per receiving subtask."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from changelog_engine.codec.columns import int_words
from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.errors import ChangelogEngineError, InvalidJobError, TypeMismatchError
from changelog_engine.event_time import MIN_WATERMARK, NO_TIMESTAMP
from changelog_engine.graph.key_groups import key_groups, key_groups_of_ints
from changelog_engine.graph.nodes import Partitioner, PartitionSpec
from changelog_engine.graph.plan import Edge
from changelog_engine.operators.base import call_hook
from changelog_engine.operators.blocks import (
    Block,
    Column,
    RowColumns,
    column_of,
    encode_block,
    field_of,
    join,
    select,
)
from changelog_engine.operators.failures import UsersCode, is_ctrl_c
from changelog_engine.types.typeinfo import shown

_FEW = 8  # receivers, up to which it is cheaper to look for the elements of each


class Exchange:
    """Collects an epoch's elements of one edge.

    Args:
        function: value -> key for a HASH edge; the PartitionSpec of one that a PARTITION node asked for.
        way: from which operator to which, for messages, as " from 'a' to 'b'".
    """

    def __init__(
        self,
        edge: Edge,
        channel: int,
        parallelism: int,
        max_parallelism: int,
        function: Any = None,
        senders: int = 1,
        way: str = "",
    ) -> None:
        self.edge = edge
        self.channel = channel
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.current_watermark = MIN_WATERMARK
        self.idle = False
        self._sent_watermark: tuple[int, bool] = (MIN_WATERMARK, False)
        self._pieces: list[list[tuple[Column | None, Column | None, Column]]] = [
            [] for _ in range(parallelism)
        ]
        self._keys: KeyCodec | None = None
        self._function = function
        self._way = way
        self.typed = True
        self.as_given = self.takes_none = False
        # HASH and CUSTOM call users' code.
        self.passive = edge.partitioner not in (Partitioner.HASH, Partitioner.CUSTOM)
        self._routing = "partitioner" if edge.partitioner is Partitioner.CUSTOM else "key selector"
        self._turn = channel
        self._random: Any = None
        if edge.partitioner is Partitioner.SHUFFLE:
            # Not for all: numpy.random imports "secrets", and that may be a file of the program's.
            self._random = np.random.default_rng((edge.id, channel))
        first = channel * parallelism // senders
        self._nearest = range(first, max(first + 1, (channel + 1) * parallelism // senders))
        if edge.key_by is not None:
            self._keys = key_codec_for(edge.key_by.key_type)
        self._distribute = {
            Partitioner.HASH: self._hash,
            Partitioner.FORWARD: self._forward,
            Partitioner.REBALANCE: self._rebalance,
            Partitioner.RESCALE: self._rescale,
            Partitioner.SHUFFLE: self._shuffle,
            Partitioner.BROADCAST: self._broadcast,
            Partitioner.GLOBAL: self._global,
            Partitioner.CUSTOM: self._custom,
        }[edge.partitioner]

    def open(self, context: Any) -> None:
        """Open the key selector or partitioner, if it wants to be opened."""
        self._call("open", context)

    def close(self) -> None:
        """Close the key selector or partitioner."""
        self._call("close")

    def _call(self, name: str, *arguments: Any) -> None:
        route = self.edge.route
        if route is None:
            return
        functions = [self._function]
        if self.edge.partitioner is Partitioner.CUSTOM:
            functions = [self._function.key_selector, self._function.custom]
        for function in functions:
            call_hook(function, name, route.name, *arguments, call=f"{name} of the {self._routing}")

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements, in order."""
        self._distribute(values, None if times is None else _words(times))

    def watermark(self, watermark: int) -> None:
        """The sender's watermark advanced."""
        self.current_watermark = watermark

    def idleness(self, idle: bool) -> None:
        self.idle = idle

    def resume(self, watermark: int) -> None:
        """See Receiver; it is sent again, for receivers that start anew with another parallelism."""
        self.current_watermark = watermark

    def blocks(self) -> list[tuple[int, bytes]]:
        """What was collected, as (receiving subtask, block); a receiver with nothing new gets no block."""
        status = (self.current_watermark, self.idle)
        same = self.edge.partitioner is Partitioner.BROADCAST
        blocks = []
        encoded = nothing = b""
        for target, pieces in enumerate(self._pieces):
            if pieces:
                if not (same and encoded):
                    keys, times, values = _join_pieces(pieces)
                    block = Block(self.edge.id, self.channel, keys, times, values, *status)
                    encoded = encode_block(block, self._way)
                blocks.append((target, encoded))
            elif status != self._sent_watermark:
                nothing = nothing or encode_block(Block(self.edge.id, self.channel, None, None, [], *status))
                blocks.append((target, nothing))
        self._sent_watermark = status
        self._pieces = [[] for _ in range(self.parallelism)]
        return blocks

    def _hash(self, values: Sequence[Any], times: Column | None) -> None:
        key_by, codec = self.edge.key_by, self._keys
        assert key_by is not None and codec is not None
        key_of, rest = self._function, iter(values)
        with UsersCode(key_by.name, "key selector", values, rest):
            keys: list[Any] = [key_of(value) for value in rest]
        identities, key_column = keys, column_of(keys)
        if not _stand_for_themselves(key_column, codec):
            identities = self._identities(keys, codec, key_by.name)
            if identities is not keys:
                key_column = column_of(identities)
        # Elements that are their own keys are one column.
        same = identities is keys and all(map(is_, keys, values))  # drives our own code
        value_column = key_column if same else column_of(values, self.parallelism)
        field = None if same or identities is not keys else field_of(key_column, value_column)
        if field is not None:  # which travels once, too
            key_column = value_column.columns[field]
        if self.parallelism == 1:
            self._pieces[0].append((key_column, times, value_column))
            return
        if isinstance(key_column, np.ndarray):
            groups = key_groups_of_ints(key_column, self.max_parallelism)
        else:
            groups = key_groups(identities, self.max_parallelism)
        targets = groups.astype(np.int64) * self.parallelism // self.max_parallelism
        for target, places in _dealt(targets, self.parallelism):
            chosen = select(value_column, places)
            if same:
                chosen_keys = chosen
            elif field is not None:
                chosen_keys = chosen.columns[field]
            else:
                chosen_keys = select(key_column, places)
            self._pieces[target].append((chosen_keys, None if times is None else times[places], chosen))

    def _identities(self, keys: list[Any], codec: KeyCodec, selector: str) -> list[Any]:
        try:
            return codec.identities(keys, f"key of {selector!r}{self._way}")
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"{error}. Declare the type that the keys have in key_by's key_type, or convert them"
            ) from None
        except ChangelogEngineError:
            raise
        except BaseException as error:  # whatever a __reduce__ of the user's raises
            if is_ctrl_c(error):
                raise
            what = f"{type(error).__name__}: {error}"
            raise InvalidJobError(f"a key of {selector!r}{self._way} cannot be used: {what}") from error

    def _forward(self, values: Sequence[Any], times: Column | None) -> None:
        self._pieces[self.channel].append((None, times, column_of(values)))

    def _global(self, values: Sequence[Any], times: Column | None) -> None:
        self._pieces[0].append((None, times, column_of(values)))

    def _broadcast(self, values: Sequence[Any], times: Column | None) -> None:
        piece = (None, times, column_of(values))
        for pieces in self._pieces:
            pieces.append(piece)

    def _rebalance(self, values: Sequence[Any], times: Column | None) -> None:
        targets = (np.arange(len(values)) + self._turn) % self.parallelism
        self._turn = (self._turn + len(values)) % self.parallelism
        self._split(targets, values, times)

    def _rescale(self, values: Sequence[Any], times: Column | None) -> None:
        count = len(self._nearest)
        targets = self._nearest.start + (np.arange(len(values)) + self._turn) % count
        self._turn = (self._turn + len(values)) % count
        self._split(targets, values, times)

    def _shuffle(self, values: Sequence[Any], times: Column | None) -> None:
        self._split(self._random.integers(0, self.parallelism, len(values)), values, times)

    def _custom(self, values: Sequence[Any], times: Column | None) -> None:
        assert self.edge.route is not None
        name, count = self.edge.route.name, self.parallelism
        spec: PartitionSpec = self._function
        partition, key_of = spec.custom, spec.key_selector
        rest = iter(values)
        with UsersCode(name, "partitioner", values, rest):
            targets = [partition(key_of(value), count) for value in rest]
        for value, target in zip(values, targets, strict=True):
            if type(target) is not int or not 0 <= target < count:
                raise InvalidJobError(
                    f"the partitioner of {name!r}{self._way} gave {target!r} for the element {shown(value)}: it must give "
                    f"an int from 0 to {count - 1}, as there are {count} partitions"
                )
        self._split(np.asarray(targets, np.int64), values, times)

    def _split(self, targets: Any, values: Sequence[Any], times: Column | None) -> None:
        column = column_of(values, self.parallelism)
        for target, places in _dealt(targets, self.parallelism):
            piece = (None, None if times is None else times[places], select(column, places))
            self._pieces[target].append(piece)


def _words(times: Sequence[int]) -> Column:
    """Timestamps as an array."""
    if type(times) is list and times:
        return np.frombuffer(int_words(times), np.int64)
    return np.asarray(times, np.int64)


def _dealt(targets: Any, parallelism: int) -> list[tuple[int, Any]]:
    """The receivers that get any elements, each with the places of its own, in order."""
    if parallelism <= _FEW:
        each = [(target, np.flatnonzero(targets == target)) for target in range(parallelism)]
        return [(target, places) for target, places in each if len(places)]
    # A look at all elements for each receiver would be work by the square of the parallelism.
    order = np.argsort(targets.astype(np.min_scalar_type(parallelism)), kind="stable")
    counts = np.bincount(targets, minlength=parallelism)
    ends = np.cumsum(counts)
    receivers = np.flatnonzero(counts)
    return [(target, order[ends[target] - counts[target] : ends[target]]) for target in receivers.tolist()]


def _stand_for_themselves(column: Column, codec: KeyCodec) -> bool:
    """Whether keys are an array of ints that are their own identities."""
    if codec.ints is None or not isinstance(column, np.ndarray) or column.dtype != np.int64:
        return False
    low, high = codec.ints
    return bool(low <= column.min() and column.max() <= high)


def _join_pieces(pieces: list[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    if not pieces:
        return None, None, []
    keys, times, values = zip(*pieces, strict=True)
    same = all(map(is_, keys, values))  # drives our own code
    joined = join(list(values))
    joined_keys = joined if same else _joined_keys(keys, values, joined)
    if all(piece is None for piece in times):
        joined_times = None
    else:
        filled = [
            np.full(len(value), NO_TIMESTAMP, np.int64) if time is None else time
            for time, value in zip(times, values, strict=True)
        ]
        joined_times = np.concatenate(filled)
    return joined_keys, joined_times, joined


def _joined_keys(keys: tuple[Any, ...], values: tuple[Any, ...], joined: Column) -> Column | None:
    """The keys of pieces as one column: a field of the joined rows where they are that field in each piece."""
    if keys[0] is None:
        return None
    if isinstance(joined, RowColumns) and all(isinstance(piece, RowColumns) for piece in values):
        for field in range(len(joined.columns)):
            if all(piece.columns[field] is key for piece, key in zip(values, keys, strict=True)):
                return joined.columns[field]
    return join(list(keys))
