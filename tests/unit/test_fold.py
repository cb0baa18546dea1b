"""materializer.fold on other people's tables, and what restore refuses: nothing is run, nothing is misread."""

from __future__ import annotations

import pytest

from changelog_engine.codec.canonical import canonical_text, from_canonical, refusing_objects
from changelog_engine.errors import NotSerializableError, RestoreError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.store import KeyedStore
from changelog_engine.types import TypeInformation, Types

CRAFTED = '{"object":[{"global":"os:system"},["exit 1"],null,null,null]}'


def test_a_key_that_would_run_code_is_refused() -> None:
    with refusing_objects(), pytest.raises(NotSerializableError, match="allow_pickle"):
        from_canonical(CRAFTED)


def test_plain_keys_are_read_all_the_same() -> None:
    key = (1, "a", (None, 2.5), frozenset({3}))
    with refusing_objects():
        assert from_canonical(canonical_text(key)) == key


def store(key_type: TypeInformation | None) -> KeyedStore:
    made = KeyedStore(None, False, 0, 0, range(128), key_type, False, 128, 1, frozenset({"count"}))
    made._described = {
        ("count", "n"): {
            "name": "n",
            "kind": "value",
            "value_type": Types.LONG().spec(),
            "key_type": Types.STRING().spec(),
        }
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
