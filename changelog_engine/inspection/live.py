"""All states at a checkpoint as live rows: counted and measured as arrays; only the entries that are shown become values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.coded import coded, numbered, pair_codes
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.codec.arrow_columns import without_dictionary
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.errors import NotSerializableError
from changelog_engine.graph.descriptions import DescribedState, key_type_of
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.inspection.states import StateEntry, StateSummary, key_name, summary_of
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.reading import read_parts
from changelog_engine.state.backend import TIMER_STATES
from changelog_engine.types import TypeInformation
from materializer.fold import OBJECT_KEYS, PICKLED, fold_rows, pending_timers

_TIMED = r"(?s)^\[(?P<ms>-?\d+),(?P<value>.*)\]$"
_TEXTS = ("key", "namespace", "map_key", "value", "payload")


@dataclass(frozen=True)
class StateSample:
    """A state, how large it is, and its first entries.

    Args:
        summary: of it. ``keys`` counts pairs of key and window where it has windows; None where that is not known.
        bytes: of keys and values, as the log writes them.
        entries: the first, in the order in which their keys came.
    """

    summary: StateSummary
    bytes: int
    entries: tuple[StateEntry, ...] = ()


def state_samples(ledger: Ledger, checkpoint: Checkpoint, limit: int) -> list[StateSample]:
    """The states at a checkpoint, and the timers of operators that have some.

    Args:
        limit: the most entries of each.

    Raises:
        RestoreError: the checkpoint was truncated.
        CorruptChangelogError: a file is missing or damaged.
    """
    live = live_rows(list(read_parts(ledger.restore_point(checkpoint), ALL_KEY_GROUPS, None, ledger)))
    found = []
    for operator in checkpoint.operators:
        uid, key_type = operator.uid, key_type_of(operator)
        for described in operator.states:
            summary = summary_of(operator, described)
            found.append(
                _state(live.get((uid, described.name)), summary, described, key_type, checkpoint, limit)
            )
        for timers, shown in TIMER_STATES.items():
            rows = live.get((uid, timers))
            if rows is not None:
                summary = StateSummary(uid, shown, "timer", rows.num_rows, key_name(operator))
                found.append(_timers(rows, summary, key_type, limit))
    return found


def accessed_since(live: pa.Table, since: int) -> pa.Table:
    """Live rows of a state with a time to live that had not expired, with the user's values.

    Args:
        live: its rows. Values that are pickled, or in an earlier type, stay as they are.
        since: a time, epoch milliseconds; what was accessed last at that time or before it had expired.
    """
    texts = live["value"].cast(pa.string()).combine_chunks()
    place = live.schema.get_field_index("value")
    values = pc.struct_field(pc.extract_regex(texts, _TIMED), "value")
    kept = _not_expired(live, since)
    live = live.set_column(place, pa.field("value", pa.string()), pc.coalesce(values, texts))
    return live.filter(kept)


def _not_expired(live: pa.Table, since: int) -> pa.Array:
    texts = live["value"].cast(pa.string()).combine_chunks()
    times = pc.struct_field(pc.extract_regex(texts, _TIMED), "ms")
    return pc.fill_null(pc.greater(pc.cast(times, pa.int64()), since), True)


def _state(
    rows: pa.Table | None,
    summary: StateSummary,
    described: DescribedState,
    key_type: TypeInformation | None,
    checkpoint: Checkpoint,
    limit: int,
) -> StateSample:
    if rows is None:
        return StateSample(replace(summary, keys=0), 0)
    pickled = rows["payload"].null_count < rows.num_rows
    if summary.ttl_ms is not None:
        rows = rows.filter(_not_expired(rows, checkpoint.wall_clock_ms - summary.ttl_ms))
    codes, count = _keys(rows)
    size = _bytes(rows)
    if pickled:  # of pickles with a time to live nobody knows how many had expired
        keys = None if summary.ttl_ms is not None else count
        return StateSample(replace(summary, keys=keys, withheld=PICKLED), size)
    summary = replace(summary, keys=count)
    first = rows.filter(pa.array(codes < limit))
    try:
        entries = fold_rows([first], described, key_type, checkpoint.wall_clock_ms)
    except NotSerializableError:
        return StateSample(replace(summary, withheld=OBJECT_KEYS), size)
    found = [StateEntry(summary.operator, summary.state, *entry) for entry in entries.spread()]
    return StateSample(summary, size, tuple(found))


def _timers(
    rows: pa.Table, summary: StateSummary, key_type: TypeInformation | None, limit: int
) -> StateSample:
    first = rows.slice(0, limit)
    namespaced = first["namespace"].null_count < first.num_rows
    try:
        with refusing_objects():
            timers = pending_timers([first], key_type)
    except NotSerializableError:
        return StateSample(replace(summary, withheld=OBJECT_KEYS), _bytes(rows))
    entries = []
    for time, key in timers:
        plain, window = key if namespaced else (key, None)
        entries.append(StateEntry(summary.operator, summary.state, plain, window, time))
    return StateSample(summary, _bytes(rows), tuple(entries))


def _keys(rows: pa.Table) -> tuple[Any, int]:
    """Of each row the number of its key and window, in the order in which they come; and how many there are."""
    codes = coded(rows["key"]).codes
    if rows["namespace"].null_count < rows.num_rows:
        return pair_codes(codes, coded(rows["namespace"]))
    return numbered(codes)


def _bytes(rows: pa.Table) -> int:
    columns = [rows[name] for name in _TEXTS]
    return sum(pc.sum(pc.binary_length(without_dictionary(column))).as_py() or 0 for column in columns)
