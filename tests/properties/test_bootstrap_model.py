"""A job that starts from a savepoint made of tables sees what they say, whatever types, key groups and parallelism."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import keyed_job
from support.jobs import TestJob
from support.same import exact

import changelog_engine
from api.common import Row, Types
from api.common.time import Instant
from api.datastream.functions import AggregateFunction, KeyedProcessFunction
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.verification.verify import verify

TEXTS = st.text(alphabet='ab\u00e9"\\\n\U0001f600, ]', max_size=4)
LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
ROW = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
KEYS = {  # declared type -> keys
    "LONG": (Types.LONG(), LONGS),
    "BYTE": (Types.BYTE(), st.integers(-128, 127)),
    "BIG_INT": (Types.BIG_INT(), st.integers(-(2**70), 2**70)),
    "STRING": (Types.STRING(), TEXTS),
    "TUPLE": (Types.TUPLE([Types.LONG(), Types.STRING()]), st.tuples(LONGS, TEXTS)),
    "BIG_DEC": (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False, places=2)),
    "undeclared": (Types.PICKLED_BYTE_ARRAY(), LONGS | TEXTS | st.booleans()),
}
VALUES = {
    **{name: KEYS[name] for name in ("LONG", "BYTE", "STRING", "TUPLE", "undeclared")},
    "DOUBLE": (Types.DOUBLE(), st.floats()),
    "ROW": (ROW, st.builds(Row, id=st.integers(-9, 9), name=TEXTS)),
    "LIST": (Types.LIST(Types.LONG()), st.lists(LONGS, max_size=3)),
    "MAP": (Types.MAP(Types.STRING(), Types.BOOLEAN()), st.dictionaries(TEXTS, st.booleans(), max_size=3)),
    "INSTANT": (
        Types.INSTANT(),
        st.builds(Instant, st.integers(-(10**9), 10**9), st.integers(0, 999_999_999)),
    ),
}


class Keep(AggregateFunction):
    def create_accumulator(self) -> Any:
        raise AssertionError("there is one")

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a


class Tell(KeyedProcessFunction):
    """Tells all that it finds for a key."""

    def __init__(self, descriptors: list[Any]) -> None:
        self.descriptors = descriptors

    def open(self, runtime_context: Any) -> None:
        value, listed, mapped, reduced, aggregated = self.descriptors
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(listed)
        self.map = runtime_context.get_map_state(mapped)
        self.reduced = runtime_context.get_reducing_state(reduced)
        self.aggregated = runtime_context.get_aggregating_state(aggregated)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        found = (self.value.value(), list(self.list.get()), sorted(self.map.items(), key=repr))
        yield exact(value[0]), exact((*found, self.reduced.get(), self.aggregated.get()))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield "timer", timestamp, exact(ctx.get_current_key())


def columns(rows: list[tuple[Any, ...]], *names: str) -> dict[str, list[Any]]:
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_job_sees_the_tables(data: st.DataObject) -> None:
    key_type, keys = KEYS[data.draw(st.sampled_from(sorted(KEYS)), "keys")]
    value_type, values = VALUES[data.draw(st.sampled_from(sorted(VALUES)), "values")]
    map_key_type, map_keys = KEYS[data.draw(st.sampled_from(sorted(KEYS)), "map keys")]
    identity, map_identity = key_codec_for(key_type).identity, key_codec_for(map_key_type).identity
    some = data.draw(st.lists(keys, min_size=1, max_size=8, unique_by=identity), "some keys")
    key = st.sampled_from(some)
    cells = [
        data.draw(st.lists(st.tuples(key, values), unique_by=lambda row: identity(row[0]))) for _ in range(3)
    ]
    elements = data.draw(st.lists(st.tuples(key, values), max_size=8), "elements of lists")
    entries = data.draw(
        st.lists(
            st.tuples(key, map_keys, values | st.none()),
            unique_by=lambda row: (identity(row[0]), map_identity(row[1])),
            max_size=8,
        ),
        "entries of maps",
    )
    timers = data.draw(
        st.lists(
            st.tuples(key, st.integers(1, 99)), unique_by=lambda row: (identity(row[0]), row[1]), max_size=5
        ),
        "timers",
    )
    max_parallelism, parallelism = data.draw(st.integers(3, 300)), data.draw(st.integers(1, 3))
    descriptors = [
        ValueStateDescriptor("value", value_type),
        ListStateDescriptor("list", value_type),
        MapStateDescriptor("map", map_key_type, value_type),
        ReducingStateDescriptor("reduced", lambda a, b: a, value_type),
        AggregatingStateDescriptor("aggregated", Keep(), value_type),
    ]
    tables: dict[str, Any] = {
        name: columns(rows, "key", "value")
        for name, rows in zip(("value", "reduced", "aggregated", "list"), (*cells, elements), strict=True)
    }
    tables["map"] = columns(entries, "key", "map_key", "value")
    if data.draw(st.booleans(), "by position"):  # the same lists, their rows in another order
        numbered = data.draw(st.permutations([(*row, at) for at, row in enumerate(elements)]))
        tables["list"] = columns(numbered, "key", "value", "position")
    with tempfile.TemporaryDirectory() as base:
        made = changelog_engine.bootstrap(
            f"{base}/opening",
            {"process": tables},
            key_types={"process": key_type},
            types={"process": {descriptor.get_name(): descriptor for descriptor in descriptors}},
            timers={"process": {"event time": columns(timers, "key", "timestamp")}},
            max_parallelism=max_parallelism,
        )
        assert verify(JobFolder("opening", "opening", made.folder.storage)).faults == []
        job = TestJob(f"{base}/data")
        graph = keyed_job(
            [(each, 0) for each in some],
            Tell(descriptors),
            key_type=key_type,
            parallelism=parallelism,
            timestamp=lambda element: element[1],
        )
        job.run_driver(graph, restore=made.path)
        assert {commit.operators[-1].max_parallelism for commit in job.commits} <= {max_parallelism}

    def held(rows: list[tuple[Any, ...]], wanted: Any) -> list[tuple[Any, ...]]:
        return [row[1:] for row in rows if identity(row[0]) == identity(wanted)]

    def seen(wanted: Any) -> Any:
        value, reduced, aggregated = (next((row[0] for row in held(rows, wanted)), None) for rows in cells)
        listed = [row[0] for row in held(elements, wanted)]
        return exact((value, listed, sorted(held(entries, wanted), key=repr), reduced, aggregated))

    told = [each for each in job.output if each[0] != "timer"]
    assert sorted(told, key=repr) == sorted([(exact(each), seen(each)) for each in some], key=repr)
    fired = [each for each in job.output if each[0] == "timer"]
    assert sorted(fired, key=repr) == sorted([("timer", at, exact(each)) for each, at in timers], key=repr)


@given(st.lists(st.tuples(LONGS, LONGS), unique_by=lambda row: row[0]), st.integers(1, 3))
def test_arrow_and_lists_give_the_same_rows(rows: list[tuple[int, int]], chunks: int) -> None:
    """Columns of whole numbers never become Python objects; what is written is the same."""
    table = pa.table(
        {
            "key": pa.array([k for k, _ in rows], pa.int64()),
            "value": [v for _, v in rows] or pa.array([], pa.int64()),
        }
    )
    size = max(1, len(rows) // chunks)
    cut = pa.Table.from_batches(table.to_batches(max_chunksize=size), schema=table.schema)
    with tempfile.TemporaryDirectory() as base:
        found = []
        for at, given_table in enumerate((cut, columns(rows, "key", "value"))):
            made = changelog_engine.bootstrap(
                f"{base}/{at}",
                {"a": {"s": given_table}},
                key_types={"a": Types.LONG()},
                types={"a": {"s": Types.LONG()}},
                clock=lambda: 5,
            )
            found.append([(part.path, part.rows) for part in made.parts])
    assert found[0] == found[1]
