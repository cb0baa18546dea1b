"""The sending side of an exchange: elements into one block per receiving subtask."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.errors import ChangelogEngineError, InvalidJobError
from changelog_engine.graph.key_groups import key_groups, key_groups_of_ints
from changelog_engine.graph.nodes import Partitioner
from changelog_engine.graph.plan import Edge
from changelog_engine.operators.blocks import Block, Column, column_of, encode_block, join
from changelog_engine.operators.failures import user_failure
from changelog_engine.operators.messages import MIN_WATERMARK


class Exchange:
    """Collects an epoch's elements of one edge.

    Args:
        edge: the exchange.
        channel: this subtask.
        parallelism: of the receiving stage.
        max_parallelism: of the receiving stage.
        key_function: value -> key, for a hash exchange.
    """

    def __init__(
        self, edge: Edge, channel: int, parallelism: int, max_parallelism: int, key_function: Any = None
    ) -> None:
        self.edge = edge
        self.channel = channel
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.current_watermark = MIN_WATERMARK
        self.idle = False
        self.sent = 0
        self._sent_watermark: tuple[int, bool] = (MIN_WATERMARK, False)
        self._turn = channel
        self._pieces: list[list[tuple[Column | None, Column | None, Column]]] = [
            [] for _ in range(parallelism)
        ]
        self._keys: KeyCodec | None = None
        self._key_function = key_function
        if edge.key_by is not None:
            self._keys = key_codec_for(edge.key_by.key_type)

    def open(self, context: Any) -> None:
        """Open the key selector, if it wants to be opened."""
        self._call("open", context)

    def close(self) -> None:
        """Close the key selector."""
        self._call("close")

    def _call(self, name: str, *arguments: Any) -> None:
        method = getattr(self._key_function, name, None)
        if method is not None and self.edge.key_by is not None:
            try:
                method(*arguments)
            except Exception as error:
                raise user_failure(error, self.edge.key_by.name, f"{name} of the key selector") from error

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements, in order."""
        self.sent += len(values)
        time_column = None if times is None else np.asarray(times, np.int64)
        if self.edge.partitioner is Partitioner.HASH:
            self._hash(values, time_column)
        elif self.edge.partitioner is Partitioner.FORWARD:
            self._pieces[self.channel].append((None, time_column, column_of(values)))
        else:
            self._rebalance(values, time_column)

    def watermark(self, watermark: int) -> None:
        """The sender's watermark advanced."""
        self.current_watermark = watermark

    def resume(self, watermark: int) -> None:
        """See Receiver; it is sent again, for receivers that start anew with another parallelism."""
        self.current_watermark = watermark

    def blocks(self) -> list[tuple[int, bytes]]:
        """What was collected, as (receiving subtask, block); a receiver with nothing new gets no block."""
        status = (self.current_watermark, self.idle)
        blocks = []
        for target, pieces in enumerate(self._pieces):
            if pieces or status != self._sent_watermark:
                keys, times, values = _join_pieces(pieces)
                block = Block(self.edge.id, self.channel, keys, times, values, *status)
                blocks.append((target, encode_block(block)))
        self._sent_watermark = status
        self._pieces = [[] for _ in range(self.parallelism)]
        return blocks

    def _hash(self, values: Sequence[Any], times: Column | None) -> None:
        key_by, codec = self.edge.key_by, self._keys
        assert key_by is not None and codec is not None
        try:
            keys: list[Any] = list(map(self._key_function, values))
        except Exception as error:
            raise user_failure(error, key_by.name, "key selector") from error
        try:
            identities = codec.identities(keys, f"key of {key_by.name!r}")
        except ChangelogEngineError:
            raise
        except Exception as error:
            raise InvalidJobError(f"a key of {key_by.name!r} cannot be used: {error}") from error
        value_column = column_of(values)
        key_column: Column = keys
        if identities is keys:
            key_column = column_of(keys)
        if self.parallelism == 1:
            self._pieces[0].append((key_column, times, value_column))
            return
        if isinstance(key_column, np.ndarray):
            groups = key_groups_of_ints(key_column, self.max_parallelism)
        else:
            groups = key_groups(identities, self.max_parallelism)
        targets = groups.astype(np.int64) * self.parallelism // self.max_parallelism
        for target in range(self.parallelism):
            mask = targets == target
            if mask.any():
                self._pieces[target].append(
                    (
                        _select(key_column, mask),
                        None if times is None else times[mask],
                        _select(value_column, mask),
                    )
                )

    def _rebalance(self, values: Sequence[Any], times: Column | None) -> None:
        column = column_of(values)
        turns = (np.arange(len(values)) + self._turn) % self.parallelism
        self._turn = (self._turn + len(values)) % self.parallelism
        for target in range(self.parallelism):
            mask = turns == target
            if mask.any():
                piece = (None, None if times is None else times[mask], _select(column, mask))
                self._pieces[target].append(piece)


def _select(column: Column, mask: Any) -> Column:
    if isinstance(column, np.ndarray):
        return column[mask]
    return list(compress(column, mask.tolist()))


def _join_pieces(pieces: list[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    if not pieces:
        return None, None, []
    keys, times, values = zip(*pieces, strict=True)
    joined_keys = None if keys[0] is None else join(list(keys))
    if all(piece is None for piece in times):
        joined_times = None
    else:
        filled = [
            np.full(len(value), MIN_WATERMARK, np.int64) if time is None else time
            for time, value in zip(times, values, strict=True)
        ]
        joined_times = np.concatenate(filled)
    return joined_keys, joined_times, join(list(values))
