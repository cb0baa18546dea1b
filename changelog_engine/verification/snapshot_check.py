"""Whether a snapshot is the fold of the log before it. Nothing is decoded: texts and bytes are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.row_filter import in_groups
from changelog_engine.codec.arrow_columns import without_dictionary
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.reading import read_suffix, shares
from changelog_engine.state.backend import TIMER_STATES

_ENTRY = ("key_group", "key", "namespace", "map_key", "value", "payload")


def differences(
    folder: JobFolder,
    checkpoint: Checkpoint,
    after: int | None,
    base: Sequence[PartFile],
    snapshot: Sequence[PartFile],
) -> list[str]:
    """Compare a snapshot with the fold of an older one and the log after that.

    Args:
        after: checkpoint of the older snapshot; None: the log alone.

    Returns:
        What differs, a sentence for each state that does; key by key in the order of insertion.

    Raises:
        CorruptChangelogError: a file is missing or isn't what it was.
    """
    point = RestorePoint(folder.changelog.root, checkpoint.id, checkpoint.lineage, after)
    told: list[str] = []
    for _, _, groups, operators in shares(checkpoint):
        log = list(read_suffix(point, after, groups, operators))
        expected = live_rows([*_rows(folder, base, groups, operators), *log])
        found = live_rows(list(_rows(folder, snapshot, groups, operators)))
        for operator, state in sorted(expected.keys() | found.keys()):
            count, key = _differing(expected.get((operator, state)), found.get((operator, state)), state)
            if count:
                told.append(
                    f"state {state!r} of operator {operator!r} differs for {count} keys, the first is {key}"
                )
    return told


def _rows(
    folder: JobFolder, files: Sequence[PartFile], groups: range, operators: frozenset[str]
) -> Iterator[pa.Table]:
    wanted = pa.array(sorted(operators), pa.string())
    for file in files:
        if file.may_hold(groups, operators):
            table = in_groups(read_part(folder.snapshots, file), groups)
            yield table.filter(pc.is_in(table["operator"], value_set=wanted))


def _differing(expected: pa.Table | None, found: pa.Table | None, state: str) -> tuple[int, Any]:
    """How many keys differ, and the first of them."""
    first, second = _by_key(expected, state), _by_key(found, state)
    if first.equals(second):
        return 0, None
    entries = [_entries(first), _entries(second)]
    keys = [
        key for key in entries[0].keys() | entries[1].keys() if entries[0].get(key) != entries[1].get(key)
    ]
    return len(keys), min(keys, default=("",))[0]


def _by_key(table: pa.Table | None, state: str) -> pa.Table:
    """Entries sorted by key; those of one key stay as they are, but timers have no order of their own."""
    if table is None:
        return pa.table({name: [] for name in _ENTRY})
    plain = pa.table({name: without_dictionary(table[name]) for name in _ENTRY})
    order = np.arange(plain.num_rows)
    columns = [("key", "ascending"), ("namespace", "ascending")]
    if state in TIMER_STATES:
        columns.append(("value", "ascending"))
    rank = plain.append_column("_order", pa.array(order))
    return rank.sort_by([*columns, ("_order", "ascending")]).drop_columns(["_order"]).combine_chunks()


def _entries(table: pa.Table) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for group, key, namespace, *entry in zip(*(table[name].to_pylist() for name in _ENTRY), strict=True):
        found.setdefault((key, namespace or ""), []).append((group, entry))
    return found
