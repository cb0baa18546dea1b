"""The fold: the state at a checkpoint, out of the changelog alone.

Invariant: ``state_at(path, n)`` is the fold of the lineage of checkpoint n, never of all rows up to it; it equals what the
job held when checkpoint n was taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.conversion import fill_versions, versions_of
from changelog_engine.changelog.fold import group_by_state, timers_of
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ConfigurationError, NotSerializableError, RestoreError
from changelog_engine.graph.descriptions import DescribedState, key_type_of, map_key_type_of
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.graph.nodes import StateKind
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import read_parts
from changelog_engine.operators.state_types import spec_of
from changelog_engine.state.backend import TIMER_DOMAINS, TIMER_STATES
from changelog_engine.types import TypeInformation
from materializer.entries import StateEntries

_TIME, _VALUE = 0, 1  # of the pairs that are kept for state with a time to live
OBJECT_KEYS = "has keys that are objects, and making an object runs what its text names"
PICKLED = "holds pickled values, and loading a pickle runs what is in it"


class FoldedStates(dict[tuple[str, str], StateEntries]):
    """(operator uid, state name) to entries; asking for one that was left out says why it was."""

    def __init__(self, withheld: dict[tuple[str, str], str]) -> None:
        super().__init__()
        self._withheld = withheld

    def __missing__(self, name: tuple[str, str]) -> StateEntries:
        reason = self._withheld.get(name)
        if reason is None:
            raise KeyError(name)
        raise ConfigurationError(
            f"state {name[1]!r} of operator {name[0]!r} {reason}: pass allow_pickle=True if this table was written by "
            "your own job"
        )


@dataclass(frozen=True)
class FoldedState:
    """Every keyed state of a job at one checkpoint.

    Args:
        states: (operator uid, state name) to entries, a mapping of key to value; a list state's value is a list, a map
            state's again such a mapping, an aggregating state's its accumulator. A key of namespaced state is a pair of
            the key and the namespace's text.
        timers: (operator uid, "event time" or "processing time") to [(timestamp in ms, key)] in order of registration.
        withheld: what was left out because showing it would run what is in it, (operator uid, state name or such as
            "(event time timers)") to the reason. Asking ``states`` for one of them raises ConfigurationError.
        accessed: of states with a time to live, in the form of ``states``: when each value, element or map entry was last
            accessed, epoch milliseconds. What had expired at the checkpoint's time is in neither.
    """

    checkpoint: Checkpoint
    states: dict[tuple[str, str], StateEntries]
    timers: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)
    withheld: dict[tuple[str, str], str] = field(default_factory=dict)
    accessed: dict[tuple[str, str], StateEntries] = field(default_factory=dict)


class _NamespaceTexts:
    """Namespaces as the texts that the log has."""

    name = "text"

    def texts(self, identities: list[Any]) -> pa.Array:
        return pa.array(identities, pa.string())

    def from_texts(self, texts: pa.Array) -> list[Any]:
        found: list[Any] = texts.to_pylist()
        return found


@read_again
def state_at(table: str, checkpoint_id: int | None = None, *, allow_pickle: bool = False) -> FoldedState:
    """Fold a job's changelog up to a checkpoint.

    Args:
        table: the job's ``changelog`` folder or URI.
        checkpoint_id: which checkpoint; None for the newest.
        allow_pickle: load values that only pickle could carry, and keys that are objects. Loading a pickle runs what is
            in it: do so only for tables that your own jobs wrote. Otherwise states that have such are left out.

    Raises:
        RestoreError: there is no such checkpoint.
        NotSerializableError: with allow_pickle, a class of a value or key cannot be imported here.
        CorruptChangelogError: a file is missing or damaged.

    Example:
        >>> state = state_at("changelog-data/count/changelog")  # doctest: +SKIP
        >>> state.states["count", "n"]["a"]  # doctest: +SKIP
        3
    """
    ledger = Ledger.at(table)
    lineage = ledger.lineage
    checkpoint = lineage.newest_checkpoint() if checkpoint_id is None else lineage.checkpoint(checkpoint_id)
    if checkpoint is None:
        raise RestoreError(f"there is no checkpoint in {table} yet")
    return fold_at(ledger, checkpoint, allow_pickle=allow_pickle)


def fold_at(
    ledger: Ledger,
    checkpoint: Checkpoint,
    *,
    allow_pickle: bool = False,
    key_groups: range = ALL_KEY_GROUPS,
    operators: frozenset[str] | None = None,
    state: str | None = None,
) -> FoldedState:
    """As ``state_at``, of a log that is open.

    Args:
        key_groups: only entries of these.
        operators: only those of operators with these uids; None for all.
        state: only the state of this name, which may be such as "(event time timers)"; None for all.

    Raises:
        RestoreError, NotSerializableError, CorruptChangelogError: as ``state_at``.
    """
    with contextlib.nullcontext() if allow_pickle else refusing_objects():
        return _fold_at(ledger, checkpoint, allow_pickle, key_groups, operators, state)


def _fold_at(
    ledger: Ledger,
    checkpoint: Checkpoint,
    allow_pickle: bool,
    key_groups: range,
    operators: frozenset[str] | None,
    wanted: str | None,
) -> FoldedState:
    point = ledger.restore_point(checkpoint)
    pending = group_by_state(read_parts(point, key_groups, operators, ledger))
    withheld: dict[tuple[str, str], str] = {}
    folded = FoldedState(checkpoint, FoldedStates(withheld), withheld=withheld)
    for operator in checkpoint.operators:
        uid = operator.uid
        if operators is not None and uid not in operators:
            continue
        key_type = key_type_of(operator)
        for described in operator.states:
            name = (uid, described.name)
            if wanted not in (None, name[1]):
                continue
            tables = pending.pop(name, [])
            if not allow_pickle and any(table["payload"].null_count < table.num_rows for table in tables):
                withheld[name] = PICKLED
                continue
            with _withholding(withheld, name, allow_pickle):
                entries = _fold(tables, described, key_type)
                ttl_ms = described.ttl_ms
                if ttl_ms is not None:
                    since = checkpoint.wall_clock_ms - ttl_ms
                    folded.accessed[name] = _entries(_live(entries, since, _TIME), described, key_type)
                    entries = _live(entries, since, _VALUE)
                folded.states[name] = _entries(entries, described, key_type)
        for timers, shown in TIMER_STATES.items():
            tables = pending.pop((uid, timers), []) if wanted in (None, shown) else []
            if tables:
                with _withholding(withheld, (uid, shown), allow_pickle):
                    folded.timers[uid, TIMER_DOMAINS[timers]] = pending_timers(tables, key_type)
    return folded


@contextlib.contextmanager
def _withholding(
    withheld: dict[tuple[str, str], str], name: tuple[str, str], allowed: bool
) -> Iterator[None]:
    """Where objects are refused, note that a state has some as keys, and go on without it."""
    try:
        yield
    except NotSerializableError:
        if allowed:
            raise
        withheld[name] = OBJECT_KEYS


def fold_rows(
    tables: list[pa.Table], described: DescribedState, key_type: TypeInformation | None, time_ms: int
) -> StateEntries:
    """The entries that rows of one state make.

    Args:
        tables: the rows, in log order, without payloads; all that there are of each of their keys.
        described: the state, as the checkpoint describes it.
        time_ms: when the checkpoint was: what has a time to live and had expired then is left out.

    Raises:
        NotSerializableError: keys are objects, which are not made here.
    """
    with refusing_objects():
        entries = _fold(tables, described, key_type)
        ttl_ms = described.ttl_ms
        if ttl_ms is not None:
            entries = _live(entries, time_ms - ttl_ms, _VALUE)
        return _entries(entries, described, key_type)


def pending_timers(tables: list[pa.Table], key_type: TypeInformation | None) -> list[tuple[int, Any]]:
    """The pending timers that rows leave: (timestamp in ms, key), in order of registration; see ``FoldedState``.

    Args:
        tables: the rows of one domain's timers, in log order.
    """
    namespaced = any(table["namespace"].null_count < table.num_rows for table in tables)
    key_of = key_codec_for(key_type).key_of
    if not namespaced:
        return [(timestamp, key_of(identity)) for timestamp, identity in timers_of(tables, key_type)]
    pairs = timers_of(tables, key_type, _NamespaceTexts())
    return [(timestamp, (key_of(identity[0]), identity[1])) for timestamp, identity in pairs]


def _fold(
    tables: list[pa.Table], described: DescribedState, key_type: TypeInformation | None
) -> dict[Any, Any]:
    """Identities to what is kept for them."""
    spec = spec_of(described)
    namespaced = described.namespace is not None
    entries: dict[Any, Any] = {}
    names = _NamespaceTexts() if namespaced else None
    fill_versions(tables, versions_of(described), "", spec, key_type, entries, names)
    return entries


def _live(entries: dict[Any, Any], since: int, part: int) -> dict[Any, Any]:
    """The times or the values of the pairs of both that were accessed after a time; what has none left is left out."""
    found = {}
    for identity, kept in entries.items():
        if isinstance(kept, tuple):
            if kept[_TIME] > since:
                found[identity] = kept[part]
            continue
        if isinstance(kept, dict):
            shown: Any = _live(kept, since, part)
        else:
            shown = [pair[part] for pair in kept if pair[_TIME] > since]
        if shown:
            found[identity] = shown
    return found


def _entries(
    entries: dict[Any, Any], described: DescribedState, key_type: TypeInformation | None
) -> StateEntries:
    if described.kind == StateKind.MAP.value:
        map_keys = key_codec_for(map_key_type_of(described))
        entries = {identity: StateEntries(map_keys, entry) for identity, entry in entries.items()}
    return StateEntries(key_codec_for(key_type), entries, described.namespace is not None)
