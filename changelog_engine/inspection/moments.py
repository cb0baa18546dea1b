"""One state at every moment of a branch: the page's slider goes over it.

The rows of the state are read once and kept in memory, by key. What a page of keys was at a checkpoint is the fold of these
keys' rows up to it, so a step costs what the page's keys have, however many others there are, and whatever the direction.

Invariants:
    * The fold is the engine's own (``materializer.fold``), on rows that the ledger gives and verifies.
    * Keys are listed in one order that does not change with the moment: a key that is not there yet, or no more, says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.coded import Coded, coded
from changelog_engine.changelog.condensing import DICTIONARIES
from changelog_engine.changelog.fold import group_by_state, timers_of
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ConfigurationError, NotSerializableError
from changelog_engine.graph.descriptions import DescribedState, key_type_of
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.inspection.values import Withheld, keys_of
from changelog_engine.ledger.described import check_names
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.reading import read_history
from changelog_engine.state.backend import TIMER_STATES, logged_name
from changelog_engine.types import TypeInformation
from materializer.fold import OBJECT_KEYS, PICKLED, fold_rows

MOST_ROWS = 30_000_000  # of one state in memory; some 100 bytes each
_THREADS = 2  # that read files; decoding runs outside of the interpreter's lock
_CONDENSED = 5_000  # rows of a page from which on those that later ones make void are left out first
_COLUMNS = (
    "checkpoint_id", "key_group", "key", "namespace", "map_key", "operation", "value", "payload", "operator", "state",
)  # fmt: skip

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyAt:
    """What a state has for a key at a moment.

    Args:
        key: typed.
        text: the key as the log has it.
        entries: (namespace, value), typed; none where the key is not there at the moment. Of timers their times.
        changes: how many mutations it had up to then.
    """

    key: Any
    text: str
    entries: tuple[tuple[str | None, Any], ...]
    changes: int


@dataclass(frozen=True)
class KeysAt:
    """A page of a state at a moment.

    Args:
        total: how many keys the search found.
        ever: how many keys the state had at any time since ``begins``.
        begins: the checkpoint of the snapshot with which the mutations that were read begin; 0: they begin with the branch.
        withheld: why values are not shown.
    """

    checkpoint: Checkpoint
    keys: tuple[KeyAt, ...]
    total: int
    ever: int
    begins: int
    withheld: str | None


class StateOverTime:
    """A state, or an operator's timers, on one branch.

    Threads: one at a time makes it; any number ask.

    Args:
        tip: the checkpoint at the branch's end.
        operator: uid.
        state: name; ``(event time timers)`` or ``(processing time timers)`` for timers.
        since: the earliest moment that will be asked for: what is older than the newest snapshot before it is not read.
            None: all that is kept of the branch.

    Raises:
        RestoreError: there is no such operator or state; the error suggests the closest match.
        ConfigurationError: it has more rows than are kept in memory.
        CorruptChangelogError: a file is missing or damaged.
    """

    def __init__(
        self, ledger: Ledger, tip: Checkpoint, operator: str, state: str, since: Checkpoint | None = None
    ) -> None:
        self._timers = state in TIMER_STATES.values()
        check_names(tip, operator, state, timers=True)
        self.tip = tip
        self.operator, self.state = operator, state
        self._begins, held, logged = _rows(ledger, tip, operator, logged_name(state), since)
        tables = [*held, *logged] or [pa.table({name: pa.array([], _TYPES[name]) for name in _COLUMNS})]
        table = pa.concat_tables(tables)
        keys = coded(table["key"])
        # Its texts are hashed once: from here on keys are numbers.
        place = table.schema.get_field_index("key")
        numbered = pa.DictionaryArray.from_arrays(pa.array(keys.codes, pa.int32()), keys.values)
        self._table = table.set_column(place, "key", numbered).unify_dictionaries()
        self._index(keys, sum(each.num_rows for each in held))

    def _index(self, keys: Coded, held: int) -> None:
        counts = np.bincount(keys.codes, minlength=len(keys.values))
        used = np.flatnonzero(counts)
        codes = keys.codes
        texts = keys.values
        if len(used) < len(counts):  # other states' keys
            codes = (np.cumsum(counts > 0) - 1)[codes]
            texts = texts.take(pa.array(used))
        self._texts: pa.Array = texts.cast(pa.string())
        self._order: Numbers = np.argsort(codes, kind="stable")
        self._starts: Numbers = np.concatenate(([0], np.cumsum(counts[used])))
        checkpoints = self._table["checkpoint_id"].to_numpy().copy()
        checkpoints[:held] = self._begins  # a snapshot's rows are what was there then
        self._checkpoints: Numbers = checkpoints[self._order]
        self._shown: Numbers = _sorted(self._texts)

    def covers(self, checkpoint: Checkpoint) -> bool:
        """Whether the moment is on the branch, and in what is kept of it."""
        return self._begins <= checkpoint.id <= self.tip.id and on_lineage(
            self.tip.lineage, checkpoint.attempt, checkpoint.id
        )

    def page(self, checkpoint: Checkpoint, first: int = 0, limit: int = 50, search: str = "") -> KeysAt:
        """Some keys at a moment.

        Args:
            checkpoint: the moment; ``covers`` it.
            first: how many keys to pass over.
            limit: the most that the page has.
            search: only keys whose text has this in it, in capitals or not.
        """
        shown = self._shown
        if search:
            found = pc.match_substring(self._texts, search, ignore_case=True).to_numpy(zero_copy_only=False)
            shown = shown[found[shown]]
        chosen = shown[first : first + limit]
        described, key_type = self._described(checkpoint)
        counts, pieces = [], []
        for code in chosen.tolist():
            low, high = int(self._starts[code]), int(self._starts[code + 1])
            count = int(np.searchsorted(self._checkpoints[low:high], checkpoint.id, side="right"))
            counts.append(count)
            pieces.append(self._order[low : low + count])
        at = np.sort(np.concatenate(pieces)) if pieces else np.array([], np.int64)
        rows = self._table.take(pa.array(at))
        withheld = PICKLED if self._table["payload"].null_count < self._table.num_rows else None
        texts = self._texts.take(pa.array(chosen, pa.int64())).to_pylist()
        values: dict[str, list[tuple[str | None, Any]]] = {}
        if withheld is None and (described is not None or self._timers) and rows.num_rows:
            try:
                values = self._values(rows, described, key_type, checkpoint.wall_clock_ms)
            except NotSerializableError:
                withheld = OBJECT_KEYS
        elif withheld is not None:
            values = {text: [(None, Withheld(None, 0))] for text, n in zip(texts, counts, strict=True) if n}
        keys = keys_of(texts, key_type, False)
        entries = [
            KeyAt(key, text, tuple(values.get(text, ())), count)
            for key, text, count in zip(keys, texts, counts, strict=True)
        ]
        return KeysAt(checkpoint, tuple(entries), len(shown), len(self._texts), self._begins, withheld)

    def _values(
        self, rows: pa.Table, described: DescribedState | None, key_type: TypeInformation | None, time_ms: int
    ) -> dict[str, list[tuple[str | None, Any]]]:
        codec = key_codec_for(key_type)
        found: dict[str, list[tuple[str | None, Any]]] = {}
        if self._timers:
            with refusing_objects():
                for time, identity in timers_of([rows], key_type):
                    found.setdefault(codec.text(identity), []).append((None, time))
            return found
        assert described is not None
        if rows.num_rows > _CONDENSED:
            rows = fold_state([rows])
        entries = fold_rows([rows], described, key_type, time_ms)
        for plain, namespace, value in entries.spread():
            found.setdefault(codec.text(codec.identity(plain)), []).append((namespace, value))
        return found

    def _described(self, checkpoint: Checkpoint) -> tuple[DescribedState | None, TypeInformation | None]:
        """The state as a checkpoint describes it, None where it had none and for timers; and the type of its keys."""
        for operator in (*checkpoint.operators, *self.tip.operators):
            if operator.uid == self.operator:
                key_type = key_type_of(operator)
                if self._timers:
                    return None, key_type
                states = {each.name: each for each in operator.states}
                return states.get(self.state), key_type
        return None, None


def _rows(
    ledger: Ledger, tip: Checkpoint, operator: str, state: str, since: Checkpoint | None
) -> tuple[int, list[pa.Table], list[pa.Table]]:
    """The checkpoint of a snapshot (0 for none), a state's rows in it, and those of the log from there to the tip."""
    base = ledger.oldest(tip) if since is None else ledger.nearest(tip, lambda each: each <= since.id)
    operators = frozenset([operator])
    files = ledger.snapshot_files(base, ALL_KEY_GROUPS, operators)
    log = ledger.log_files(base.suffix, ALL_KEY_GROUPS, operators)
    count = sum(file.rows or 0 for file in (*files, *log))
    if count > MOST_ROWS:
        raise ConfigurationError(
            f"operator {operator!r} has {count:,} mutations in the log, and up to {MOST_ROWS:,} are kept in memory: ask for "
            "single keys, or use changelog-engine state"
        )
    read = read_history(ledger, tip, base, ALL_KEY_GROUPS, operators, _THREADS, DICTIONARIES, _COLUMNS)
    held, logged = (group_by_state(some).get((operator, state), []) for some in read)
    return base.checkpoint or 0, held, logged


_TYPES = {
    "checkpoint_id": pa.int64(), "key_group": pa.int32(), "payload": pa.binary(),
    **dict.fromkeys(("key", "namespace", "map_key", "operation", "value", "operator", "state"), pa.string()),
}  # fmt: skip


def _sorted(texts: pa.Array) -> Numbers:
    """Positions in the order of keys: numbers by value, others by text."""
    try:
        order = pc.sort_indices(pc.cast(texts, pa.float64()))
    except pa.ArrowInvalid:
        order = pc.sort_indices(texts)
    found: Numbers = order.to_numpy().astype(np.int64)
    return found
