"""Types as state has them, on any backend, before and after a kill: a FLOAT is not rounded, an int in a DOUBLE stays one."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from support.backends import backend_settings
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Failure, Fault, Script

import changelog_engine
from api.common.typeinfo import Types
from api.datastream.functions import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.codec.values import Codec
from changelog_engine.corrections import UNCHANGED, FixedEntry
from changelog_engine.errors import TypeMismatchError
from changelog_engine.types import Row
from changelog_engine.types.in_state import in_state
from materializer.fold import state_at

SINGLE = Types.FLOAT()


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (SINGLE, 0.1),
        (Types.LIST(SINGLE), [0.1, None]),
        (Types.TUPLE([Types.STRING(), SINGLE]), ("a", 0.1)),
        (Types.ROW_NAMED(["x"], [SINGLE]), Row(x=0.1)),
        (Types.MAP(SINGLE, SINGLE), {0.5: 0.1}),
        (Types.PRIMITIVE_ARRAY(SINGLE), [0.1]),
        (Types.OBJECT_ARRAY(Types.TUPLE([SINGLE])), [(0.1,)]),
    ],
    ids=lambda part: getattr(part, "name", "value"),
)
def test_floats_are_kept_as_they_are(declared: Any, value: Any) -> None:
    kept = in_state(declared)
    assert kept == declared
    assert hash(kept) == hash(declared)
    assert kept.spec() == declared.spec()
    assert repr(kept) == repr(declared)
    assert kept.name == declared.name
    assert kept.check(value) == value
    assert declared.check(value) != value


def test_what_is_no_float_is_refused_as_ever() -> None:
    assert in_state(SINGLE).check(math.inf) == math.inf
    for wrong in (1e300, 2**24 + 1, "0.1"):
        with pytest.raises(TypeMismatchError):
            in_state(SINGLE).check(wrong)


@pytest.mark.parametrize(
    "declared", [Types.LONG(), Types.ROW([Types.LONG()]), Types.LIST(Types.STRING())], ids=str
)
def test_other_types_are_the_same_object(declared: Any) -> None:
    assert in_state(declared) is declared


INTS = [
    (SINGLE, 3),
    (Types.DOUBLE(), 2**60),
    (Types.LIST(Types.DOUBLE()), [1, 0.5, None]),
    (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), ("a", 3)),
    (Types.ROW_NAMED(["x", "y"], [Types.DOUBLE(), SINGLE]), Row(x=1, y=2)),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 3}),
]


@pytest.mark.parametrize(("declared", "value"), INTS, ids=lambda part: getattr(part, "name", "value"))
def test_an_int_stays_one_in_state_and_is_read_from_the_log_as_an_equal_float(
    declared: Any, value: Any
) -> None:
    kept = in_state(declared)
    assert kept.check(value) is value
    texts, payloads = Codec(kept).encode_many([value, value], admitted=True)
    assert Codec(declared).decode_many(texts, payloads) == [value, value]
    if declared.kind != "ROW" and value != 2**60:
        assert Codec(declared).encode_many([declared.check(value)] * 2) == (texts, payloads)


def test_an_int_that_a_double_does_not_hold_is_refused() -> None:
    for wrong in (2**53 + 1, 10**400):
        with pytest.raises(TypeMismatchError):
            in_state(Types.DOUBLE()).check(wrong)
    assert type(in_state(Types.DOUBLE()).check(True)) is float


def test_keys_of_a_map_are_rounded() -> None:
    assert in_state(Types.MAP(SINGLE, Types.LONG())).check({0.1: 1}) == {0.10000000149011612: 1}
    assert MapStateDescriptor("m", SINGLE, SINGLE).to_spec().map_key_type is SINGLE


class Adds(KeyedProcessFunction):
    """Adds numbers up in a FLOAT."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", SINGLE))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", SINGLE))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update((self.sum.value() or 0.0) + value)
        self.all.add(value)
        yield self.sum.value(), self.all.get()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb without cache"])
def test_sums_go_on_with_all_their_bits(tmp_path: Path, backend: str) -> None:
    numbers = [0.1, 0.2, 0.3, 0.7]
    script = Script((2,), (True,), (Failure(1, Fault.COMMITTED),))
    job = TestJob(tmp_path, script, **backend_settings(backend, tmp_path / "local"))
    job.run(keyed_job(numbers, Adds(), key=lambda _: "k", name="added"))
    assert job.drivers == 2
    sums = list(itertools.accumulate(numbers))  # sum() adds more exactly from Python 3.12 on
    assert job.output == [(sums[2], numbers[:3]), (sums[3], numbers)]
    assert list(state_at(job.table("added"), 1).states["process", "sum"].values()) == [sums[1]]
    folder = str(Path(job.table("added")).parent)
    corrected = changelog_engine.repair(folder, None, _tenth, who="a", why="b", dry_run=True)
    assert [each.after for each in corrected.corrections] == [0.1]


def _tenth(entry: FixedEntry) -> Any:
    return 0.1 if entry.state == "sum" else UNCHANGED


def test_a_map_keeps_its_order_in_state_and_has_javas_elsewhere() -> None:
    declared = Types.MAP(Types.STRING(), Types.INT())
    given = {"zeta": 1, "mm": 2, "b": 3, "a": 4}
    assert in_state(declared).check(given) is given
    checked = declared.check(given)
    assert list(checked) == ["zeta", "mm", "a", "b"]
    assert declared.check(checked) is checked
