"""Which rows of a file are wanted: told by few of its columns, so that the others are decoded where they are needed only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.fold import by_state
from changelog_engine.graph.nodes import StateId
from changelog_engine.state.backend import TIMER_STATES

_PLACE = "place"


class RowFilter(Protocol):
    """Finds rows.

    Attributes:
        columns: what it has to see of a row.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    def may_hold(self, first: int, last: int) -> bool:
        """Whether a row of key groups from the first to the last one may be wanted."""

    def positions(self, table: pa.Table) -> Any:
        """Where the wanted rows are, ascending: an array of ints.

        Args:
            table: the columns; ``operator`` and ``state`` as dictionaries.
        """


def in_groups(table: pa.Table, groups: range) -> pa.Table:
    """The rows of a range of key groups; rows about the log, which have none, may be among them."""
    mask = mask_of_groups(table["key_group"], groups)
    return table if mask is None else table.filter(mask)


def mask_of_groups(column: pa.ChunkedArray, groups: range) -> pa.ChunkedArray | None:
    """Which rows are of a range of key groups, by their ``key_group``; None where none is of others."""
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or (low >= groups.start and high < groups.stop):
        return None
    return pc.and_(pc.greater_equal(column, groups.start), pc.less(column, groups.stop))


class OfKeys:
    """The rows of some keys, whatever the state."""

    columns = ("key",)

    def __init__(self, key_group: int, texts: Sequence[str]) -> None:
        self._key_group = key_group
        self._texts = pa.array(texts, pa.string())

    def may_hold(self, first: int, last: int) -> bool:
        return first <= self._key_group <= last

    def positions(self, table: pa.Table) -> Any:
        return np.flatnonzero(_is_in(table["key"], self._texts))


class OfState:
    """The rows of one state, whatever the operator."""

    columns = ("state",)

    def __init__(self, state: str) -> None:
        self._state = pa.array([state])

    def may_hold(self, first: int, last: int) -> bool:
        return True

    def positions(self, table: pa.Table) -> Any:
        return np.flatnonzero(_is_in(table["state"].cast(pa.string()), self._state))


class OfEntries:
    """The rows of some keys of some states, and of timers those of some timestamps.

    Args:
        texts: by operator and state, the keys or timestamps in the log's form.
        key_groups: of the keys, where all of them are known; None for any.
    """

    def __init__(self, texts: dict[StateId, pa.Array], key_groups: Any = None) -> None:
        of_timers = {state in TIMER_STATES for _, state in texts}
        self.columns = ("operator", "state", *["value" if timers else "key" for timers in sorted(of_timers)])
        self._texts = texts
        self._key_groups = None if key_groups is None else np.unique(key_groups)

    def may_hold(self, first: int, last: int) -> bool:
        if self._key_groups is None:
            return True
        at = int(np.searchsorted(self._key_groups, first))
        return at < len(self._key_groups) and bool(self._key_groups[at] <= last)

    def positions(self, table: pa.Table) -> Any:
        table = table.append_column(_PLACE, pa.array(np.arange(table.num_rows)))
        if table["operator"].null_count:  # rows about the log, in files that somebody else merged
            table = table.filter(pc.is_valid(table["operator"]))
        found = [np.empty(0, np.int64)]
        for name, rows in by_state(table):
            if name in self._texts:
                hits = _is_in(rows["value" if name[1] in TIMER_STATES else "key"], self._texts[name])
                found.append(rows[_PLACE].to_numpy()[hits])
        return np.sort(np.concatenate(found))


def _is_in(column: pa.ChunkedArray, texts: pa.Array) -> Any:
    """Of each row whether its text is one of these; null is none."""
    found = pc.is_in(column, value_set=texts) if len(texts) != 1 else pc.equal(column, texts[0])
    return pc.fill_null(found, False).to_numpy()
