"""materializer.fold on other people's tables, and what restore refuses: nothing is run, nothing is misread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.graphs import keyed_job
from support.jobs import TestJob
from support.stores import store_config

from api.datastream import KeyedProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.codec.canonical import canonical_text, from_canonical, refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ConfigurationError, NotSerializableError, RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.store import KeyedStore
from changelog_engine.types import TypeInformation, Types
from materializer import StateEntries, state_at

KEYS: list[Any] = [1, 1.0, True, "1", 0.0, -0.0, (1,), [1], None]


class Keeps(KeyedProcessFunction):
    """Counts, and keeps the last value under each key in a map."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        anything = Types.PICKLED_BYTE_ARRAY()
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", anything, anything))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        self.last.put(value[1], value[2])


def folded(base: Path, elements: list[Any], **options: Any) -> Any:
    job = TestJob(base)
    job.run(keyed_job(elements, Keeps()))
    return state_at(job.table(), **options)


def test_keys_that_python_thinks_equal_stay_apart(tmp_path: Path) -> None:
    elements = [(key, key, number) for number, key in enumerate(KEYS)] + [(1.0, True, "again")]
    states = folded(tmp_path, elements).states
    counts = states["process", "count"]
    assert [(repr(key), count) for key, count in counts.items()] == [
        (repr(key), 2 if repr(key) == "1.0" else 1) for key in KEYS
    ]
    assert [counts[key] for key in (1, 1.0, True, [1])] == [1, 2, 1, 1]
    assert 2 not in counts
    assert object() not in counts
    last = states["process", "last"]
    assert repr(last[1.0]) == "{1.0: 1, True: 'again'}"
    assert last[1.0] != {1.0: 1}
    assert last[True] == {True: 2}
    assert last[1] != {True: 0}


def test_entries_are_equal_to_a_dict_of_the_same(tmp_path: Path) -> None:
    counts = folded(tmp_path, [("a", 1, 1), ("b", 1, 1), ("a", 1, 1)]).states["process", "count"]
    assert isinstance(counts, StateEntries)
    assert counts == {"a": 2, "b": 1}
    plain = {"b": 1, "a": 2}
    assert plain == counts
    assert counts != {"a": 2}
    assert counts != {"a": 2, "c": 1}
    assert counts != {"a": 2, "b": 2}


def test_keys_of_namespaced_state_are_pairs() -> None:
    entries = StateEntries(
        key_codec_for(None), {(1, "[0,5]"): "a", (b"1.0", "[0,5]"): "b", (1, "[5,9]"): "c"}, True
    )
    assert entries[1, "[0,5]"] == "a"
    assert entries[1.0, "[0,5]"] == "b"
    assert (1.0, "[5,9]") not in entries
    assert 1 not in entries
    assert list(entries) == [(1, "[0,5]"), (1.0, "[0,5]"), (1, "[5,9]")]


def test_one_pickled_state_withholds_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folded(tmp_path, [("a", "all", {1, 2})])
    with monkeypatch.context() as patched:
        patched.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
        guarded = state_at(f"{tmp_path}/job/changelog")
        assert guarded.states["process", "count"] == {"a": 1}
        assert list(guarded.withheld) == [("process", "last")]
        with pytest.raises(
            ConfigurationError, match=r"state 'last' of operator 'process' .*pickled values.*allow_pickle"
        ):
            guarded.states["process", "last"]
        with pytest.raises(KeyError):
            guarded.states["process", "nothing"]
    loaded = state_at(f"{tmp_path}/job/changelog", allow_pickle=True)
    assert loaded.states["process", "last"] == {"a": {"all": {1, 2}}}
    assert not loaded.withheld


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self.x == other.x

    def __hash__(self) -> int:
        return hash(self.x)


def test_keys_that_are_objects_withhold_their_state_alone(tmp_path: Path) -> None:
    guarded = folded(tmp_path, [("a", Point(1), 5)])
    assert guarded.states["process", "count"] == {"a": 1}
    assert "keys that are objects" in guarded.withheld["process", "last"]
    loaded = state_at(f"{tmp_path}/job/changelog", allow_pickle=True)
    assert loaded.states["process", "last"] == {"a": {Point(1): 5}}


CRAFTED = '{"object":[{"global":"os:system"},["exit 1"],null,null,null]}'


def test_a_key_that_would_run_code_is_refused() -> None:
    with refusing_objects(), pytest.raises(NotSerializableError, match="allow_pickle"):
        from_canonical(CRAFTED)


def test_plain_keys_are_read_all_the_same() -> None:
    key = (1, "a", (None, 2.5), frozenset({3}))
    with refusing_objects():
        assert from_canonical(canonical_text(key)) == key


def store(key_type: TypeInformation | None) -> KeyedStore:
    made = KeyedStore(store_config(None, "count", key_type=key_type))
    made._restored._described = {
        ("count", "n"): (
            DescribedOperator("count", "count", "process", 1, 128, True, Types.STRING().spec()),
            DescribedState("n", "value", Types.LONG().spec()),
        )
    }
    return made


def test_a_restored_state_keeps_its_types() -> None:
    store(Types.STRING()).state("count", StateSpec("n", StateKind.VALUE, Types.LONG()))


@pytest.mark.parametrize(
    ("key_type", "spec", "words"),
    [
        (Types.STRING(), StateSpec("n", StateKind.VALUE, Types.STRING()), "value type LONG"),
        (Types.STRING(), StateSpec("n", StateKind.LIST, Types.LONG()), "kind value"),
        (Types.LONG(), StateSpec("n", StateKind.VALUE, Types.LONG()), "key type STRING"),
    ],
)
def test_a_restored_state_of_another_type_is_refused(
    key_type: TypeInformation, spec: StateSpec, words: str
) -> None:
    with pytest.raises(RestoreError, match=words):
        store(key_type).state("count", spec)
