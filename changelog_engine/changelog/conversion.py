"""Restored entries of a state whose type has changed since they were written: decoded as what they are, then converted.

The log keeps text of one type after text of another. Whoever changes a state's type writes all of its live entries again,
so rows of the old type are cut off by newer ones: what is live is found first, on the text alone, and only that is decoded.
A subtask may not have declared the state yet, so some key groups may still be in an earlier type: the checkpoint says which.

Invariants:
    * Every live entry is decoded with the type that it was written with.
    * What was converted is logged in full, entry by entry: the fold of all rows needs to know nothing of types.
    * A conversion that fails names operator, state and key, and nothing is logged of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.fold import (
    column_of,
    fill_decoded,
    fill_state,
    identities_of,
    map_identities_of,
)
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.errors import RestoreError
from changelog_engine.graph.descriptions import DescribedState
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state import mutation_log
from changelog_engine.state.backend import StateTable
from changelog_engine.state.mutation_log import MutationLog
from changelog_engine.types import TypeInformation, type_from_spec
from changelog_engine.windowing.reserved import state_words

_WHERE = {"key": "key", "window": "namespace", "map key": "map_key"}
DROPPED: Final = CLEARED  # what a conversion gives for a value that is not to be kept


class Version(NamedTuple):
    """Entries of one state that have one type.

    Args:
        groups: their key groups, as pairs of first and last; None for all that no other version has.
        convert: a stored value to what is kept now, or DROPPED; None where values stay as they are.
        rewrites: they have to be logged anew.
    """

    type: TypeInformation
    groups: Sequence[Sequence[int]] | None = None
    convert: Callable[[Any], Any] | None = None
    rewrites: bool = False


class TypeVersions(NamedTuple):
    """How a state's entries were written.

    Args:
        newest: as the checkpoint describes the state.
        earlier: what is still in other types.
        since: the checkpoint at which the type changed last; rows before it may be of any type. None: it never did.
    """

    newest: Version
    earlier: tuple[Version, ...] = ()
    since: int | None = None

    @property
    def all(self) -> tuple[Version, ...]:
        """Each of them."""
        return (self.newest, *self.earlier)

    def plain(self, tables: Sequence[pa.Table]) -> bool:
        """Whether all rows have the newest type, and no value is converted."""
        if self.earlier or self.newest.rewrites:
            return False
        if self.since is None:
            return True
        firsts = [pc.min(table["checkpoint_id"]).as_py() for table in tables]
        return all(first is None or first >= self.since for first in firsts)


def versions_of(described: DescribedState) -> TypeVersions:
    """How a state's entries were written, from what a checkpoint says of it. Nothing is converted."""
    earlier = [
        Version(type_from_spec(version.value_type), version.key_groups) for version in described.earlier
    ]
    return TypeVersions(Version(type_from_spec(described.value_type)), tuple(earlier), described.since)


def fill_versions(
    tables: list[pa.Table],
    versions: TypeVersions,
    operator: str,
    spec: StateSpec,
    key_type: TypeInformation | None,
    state: StateTable,
    namespaces: NamespaceCodec | None = None,
    log: MutationLog | None = None,
) -> None:
    """Apply a state's rows to its table, whatever types they were written with.

    Args:
        tables: the rows, in log order.
        versions: how they were written, and what becomes of the values.
        operator: uid, for messages.
        spec: the state as it is kept now.
        state: its table, empty.
        log: takes what was converted; None logs nothing.

    Raises:
        RestoreError: a value can't be converted.
    """
    if versions.plain(tables):
        fill_state(tables, spec, key_type, state, namespaces)
        return
    live = fold_state(tables)
    if not live.num_rows:
        return
    values: list[Any] = [None] * live.num_rows
    rewritten = np.zeros(live.num_rows, bool)
    for version, chosen in zip(versions.all, _shares(live, versions), strict=True):
        at = np.flatnonzero(chosen)
        if not len(at):
            continue
        found = _decoded(live.take(pa.array(at)), version, operator, spec)
        for index, value in zip(at.tolist(), found, strict=True):
            values[index] = value
        rewritten[at] = version.rewrites
    kept = np.array([value is not DROPPED for value in values], bool)
    if log is not None and rewritten.any():
        at = np.flatnonzero(rewritten)
        _record(log, live.take(pa.array(at)), [values[i] for i in at], spec, key_type, namespaces)
    if not kept.all():
        live = live.filter(pa.array(kept))
        values = [value for value in values if value is not DROPPED]
    fill_decoded(live, values, spec, key_type, state, namespaces)


def clear_all(log: MutationLog, live: pa.Table, key_type: TypeInformation | None) -> None:
    """Log that all entries of a state are gone.

    Args:
        log: of the state, which has no namespaces.
        live: its live rows.
    """
    for identity in dict.fromkeys(identities_of(live, key_codec_for(key_type), None)):
        log.record(identity, CLEARED, mutation_log.CLEAR)


def _shares(live: pa.Table, versions: TypeVersions) -> list[Any]:
    """Which rows each version has."""
    groups = column_of(live, "key_group").to_numpy(zero_copy_only=False)
    left = np.ones(len(groups), bool)
    found = []
    for version in versions.earlier:
        mine = np.zeros(len(groups), bool)
        for first, last in version.groups or ():
            mine |= (groups >= first) & (groups <= last)
        found.append(mine)
        left &= ~mine
    return [left, *found]


def _decoded(table: pa.Table, version: Version, operator: str, spec: StateSpec) -> list[Any]:
    values = codec_for(version.type).decode_many(column_of(table, "value"), column_of(table, "payload"))
    if version.convert is None:
        return values
    found = []
    for index, value in enumerate(values):
        where = {word: table[name][index].as_py() for word, name in _WHERE.items()}
        found.append(converted(version, value, operator, spec, where))
    return found


def converted(
    version: Version, value: Any, operator: str, spec: StateSpec, where: dict[str, str | None]
) -> Any:
    """What becomes of one value.

    Args:
        version: of the value; it converts.
        value: as it was decoded.
        where: what the value belongs to, in words and text; None where there is no such thing.

    Raises:
        RestoreError: it can't be converted.
    """
    assert version.convert is not None
    try:
        return version.convert(value)
    except Exception as error:
        place = "".join(f", {word} {text[:100]}" for word, text in where.items() if text is not None)
        raise RestoreError(
            f"{state_words(spec.name)} of operator {operator!r}{place}: its value can't be brought from "
            f"{version.type.name} to {spec.value_type.name}: {type(error).__name__}: {error}. Mend the function that "
            "was given to set_migration; nothing was changed"
        ) from error


def _record(
    log: MutationLog,
    table: pa.Table,
    values: list[Any],
    spec: StateSpec,
    key_type: TypeInformation | None,
    namespaces: NamespaceCodec | None,
) -> None:
    """Log entries anew; what was dropped is removed."""
    identities = identities_of(table, key_codec_for(key_type), namespaces)
    if not spec.value_type.immutable:  # as handles do: what waits must not change with the value
        encode = codec_for(spec.value_type).encode
        values = [value if value is DROPPED else encode(value) for value in values]
    if spec.kind is StateKind.LIST:
        _record_lists(log, identities, values)
    elif spec.kind is StateKind.MAP:
        for identity, value, map_key in zip(identities, values, map_identities_of(table, spec), strict=True):
            operation = mutation_log.REMOVE if value is DROPPED else mutation_log.PUT
            log.record(identity, value, operation, map_key=map_key)
    else:
        for identity, value in zip(identities, values, strict=True):
            log.record(identity, value, mutation_log.PUT)


def _record_lists(log: MutationLog, identities: list[Any], values: list[Any]) -> None:
    """Log lists anew: a key's first element replaces what was there, the others follow."""
    begun: set[Any] = set()
    for identity, value in zip(identities, values, strict=True):
        if value is not DROPPED:
            log.record(identity, value, mutation_log.APPEND if identity in begun else mutation_log.REPLACE)
            begun.add(identity)
    for identity in dict.fromkeys(identities):
        if identity not in begun:
            log.record(identity, CLEARED, mutation_log.CLEAR)
