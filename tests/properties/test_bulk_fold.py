"""The fold of log rows in bulk against a plain-Python one, and folded piece by piece."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.changelog import bulk_fold
from changelog_engine.changelog.bulk_fold import condensed, fold_state, live_rows
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.errors import StateTooLargeError
from changelog_engine.state import mutation_log

KINDS: dict[str, tuple[str, ...]] = {
    "value": (mutation_log.PUT, mutation_log.PUT, mutation_log.CLEAR),
    "list": (mutation_log.APPEND, mutation_log.APPEND, mutation_log.REPLACE, mutation_log.CLEAR),
    "map": (mutation_log.PUT, mutation_log.PUT, mutation_log.REMOVE, mutation_log.CLEAR),
    "timers": (mutation_log.REGISTER_TIMER, mutation_log.REGISTER_TIMER, mutation_log.DELETE_TIMER),
}
Row = tuple[
    str, str, str | None, str | None, str, str | None
]  # state, key, namespace, map key, operation, value


@st.composite
def row(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(sorted(KINDS)))
    operation = draw(st.sampled_from(KINDS[kind]))
    namespace = draw(st.sampled_from([None, "[0,10]"])) if kind != "value" else None
    map_key = draw(st.sampled_from("xyz")) if kind == "map" and operation != mutation_log.CLEAR else None
    value = None if operation in (mutation_log.CLEAR, mutation_log.REMOVE) else str(draw(st.integers(0, 3)))
    return kind, draw(st.sampled_from("ab")), namespace, map_key, operation, value


def table_of(log: list[Row]) -> pa.Table:
    columns = {
        "checkpoint_id": [1] * len(log),
        "attempt": [1] * len(log),
        "operator": ["op"] * len(log),
        **{
            name: [entry[i] for entry in log]
            for i, name in enumerate(("state", "key", "namespace", "map_key"))
        },
        "operation": [entry[4] for entry in log],
        "value": [entry[5] for entry in log],
    }
    arrays = [pa.array(columns.get(field.name, [None] * len(log)), field.type) for field in SCHEMA]
    table = pa.table(arrays, names=SCHEMA.names)
    for name in ("operator", "state", "operation"):
        table = table.set_column(SCHEMA.get_field_index(name), name, table[name].dictionary_encode())
    return table


def plain_fold(log: list[Row]) -> dict[str, Any]:
    """State to key and namespace to what it holds."""
    found: dict[str, Any] = {kind: {} for kind in KINDS}
    for kind, key, namespace, map_key, operation, value in log:
        state, name = found[kind], (key, namespace)
        if operation == mutation_log.CLEAR:
            state.pop(name, None)
        elif kind == "value":
            state[name] = value
        elif kind == "list":
            state[name] = [value] if operation == mutation_log.REPLACE else [*state.get(name, []), value]
        elif operation in (mutation_log.REMOVE, mutation_log.DELETE_TIMER):
            state.get(name, {}).pop(map_key if kind == "map" else value, None)
            if not state.get(name, True):
                del state[name]
        else:
            state.setdefault(name, {})[map_key if kind == "map" else value] = value
    return found


def held(folded: dict[tuple[str, str], pa.Table]) -> dict[str, Any]:
    """The same shape, out of live rows; an operation that is none of a snapshot's would change it."""
    log = []
    for (_, state), table in folded.items():
        for entry in table.to_pylist():
            assert entry["operation"] in (mutation_log.PUT, mutation_log.APPEND, mutation_log.REGISTER_TIMER)
            log.append(
                (state, *(entry[name] for name in ("key", "namespace", "map_key", "operation", "value")))
            )
    return plain_fold(log)


def pictured(state: dict[str, Any]) -> dict[str, Any]:
    """With dicts as lists, so that their order counts."""
    return {
        kind: {
            name: list(entry.items()) if isinstance(entry, dict) else entry for name, entry in entries.items()
        }
        for kind, entries in state.items()
    }


@given(log=st.lists(row(), max_size=60))
def test_live_rows_hold_what_the_log_holds_in_its_order(log: list[Row]) -> None:
    folded = live_rows([table_of(log[:7]), table_of(log[7:])])
    assert pictured(held(folded)) == pictured(plain_fold(log))
    entries = sum(
        len(entry) if isinstance(entry, dict | list) else 1
        for state in plain_fold(log).values()
        for entry in state.values()
    )
    assert sum(table.num_rows for table in folded.values()) == entries


@given(log=st.lists(row(), max_size=60), cut=st.integers(0, 60))
def test_folding_live_rows_with_what_follows_is_folding_all(log: list[Row], cut: int) -> None:
    first = live_rows([table_of(log[:cut])])
    both = live_rows([*first.values(), table_of(log[cut:])])
    assert pictured(held(both)) == pictured(plain_fold(log))


@given(log=st.lists(row(), max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_condensed_pieces_fold_to_the_same(log: list[Row], cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(log)]
    pieces = [table_of(log[low:high]) for low, high in pairwise(bounds)]
    small: dict[tuple[str, str], list[pa.Table]] = {}
    for piece in pieces:
        for name, (rows_of_state,) in group_by_state([piece]).items():
            small.setdefault(name, []).append(condensed([rows_of_state]))
    folded = {name: fold_state(tables) for name, tables in small.items()}
    whole = live_rows(pieces)
    data = ["state", "key", "namespace", "map_key", "operation", "value"]
    for name, table in folded.items():
        assert table.select(data).to_pylist() == (
            whole[name].select(data).to_pylist() if name in whole else []
        )


def test_what_does_not_fit_into_arrows_arrays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def coded(column: Any) -> Any:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr(bulk_fold, "coded", coded)
    table = table_of([("value", "a" * 100, None, None, mutation_log.PUT, "1")])
    for fold in (fold_state, condensed):
        with pytest.raises(pa.ArrowInvalid, match="offset overflow"):  # a hundred bytes are not too many
            fold([table])
    monkeypatch.setattr(bulk_fold, "ARRAY_BYTES", 99)
    for fold in (fold_state, condensed):
        with pytest.raises(
            StateTooLargeError, match=r"1 rows of state 'value' of operator 'op'.*offset overflow.*key"
        ):
            fold([table])
