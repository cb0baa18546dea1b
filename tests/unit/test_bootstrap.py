"""Savepoints out of tables: kinds of tables, what is refused and how it is told."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.memory_disk import MemoryDisk

import changelog_engine
from api.common import Configuration, Duration, Types
from api.common.time import Instant
from api.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.errors import ChangelogEngineError, ConfigurationError, StorageError, TypeMismatchError
from changelog_engine.savepoints import folder, state_parts
from changelog_engine.savepoints.given_tables import batches, python_values
from changelog_engine.savepoints.writer import begin_tables
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.testing import without_spark
from materializer import state_at
from materializer.fold import FoldedState

GOOD = {"key": ["a", "b"], "value": [1, 2]}


def made(path: Path, table: Any, declared: Any = None, key_type: Any = None, **more: Any) -> FoldedState:
    savepoint = changelog_engine.bootstrap(
        path,
        {"op": {"s": table}},
        key_types={"op": key_type or Types.STRING()},
        types={"op": {"s": declared or Types.LONG()}},
        **more,
    )
    savepoint.verify()
    return state_at(f"{savepoint.path}/changelog")


@pytest.mark.parametrize("form", ["table", "reader", "pandas", "objects", "file", "folder", "stream"])
def test_forms_of_tables(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gives the same state, also in several parts."""
    monkeypatch.setattr(state_parts, "PART_ROWS", 5)
    table = pa.table({"value": pa.array(range(40), pa.uint64()), "key": [f"k{n}" for n in range(40)]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    (tmp_path / "rows").mkdir()
    for number in range(2):
        pq.write_table(table.slice(number * 20, 20), tmp_path / "rows" / f"{number}.parquet")

    class Stream:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    given = {
        "table": table,
        "reader": table.to_reader(3),
        "pandas": table.to_pandas(),
        "objects": table.to_pandas().astype(object),
        "file": tmp_path / "rows.parquet",
        "folder": str(tmp_path / "rows"),
        "stream": Stream(),
    }[form]
    folded = made(tmp_path / "sp", given)
    assert folded.states["op", "s"] == {f"k{n}": n for n in range(40)}
    assert folded.checkpoint.parts > 1


@pytest.mark.parametrize(
    "declared", [Types.FLOAT(), ValueStateDescriptor("s", Types.FLOAT())], ids=["type", "state"]
)
@pytest.mark.parametrize("values", [[0.1], pa.array([0.1], pa.float64())], ids=["objects", "column"])
def test_floats_are_kept_as_state_has_them(tmp_path: Path, values: Any, declared: Any) -> None:
    folded = made(tmp_path / "sp", pa.table({"key": ["a"], "value": values}), declared)
    assert folded.states["op", "s"] == {"a": 0.1}


def test_times_as_spark_and_hive_write_them(tmp_path: Path) -> None:
    end = datetime(9999, 12, 31)
    table = pa.table({"key": [1], "value": pa.array([end], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    (batch,) = batches(tmp_path / "t.parquet", "the table", ["key", "value"], [])
    assert python_values(batch.columns["value"], Types.SQL_TIMESTAMP()) == [end]


REFUSED = [
    ({"key": ["a", None], "value": [1, 2]}, "row 1 .*column 'key': is null"),
    ({"key": ["a", 7], "value": [1, 2]}, "row 1 .*column 'key': .* declared STRING but got 7"),
    ({"key": ["a", "b"], "value": [1, "x"]}, "row 1 .*column 'value': .* declared LONG but got 'x'"),
    ({"key": ["a", "b"], "value": [1, 1.5]}, "row 1 .*column 'value': .*not a whole number"),
    ({"key": ["a", "b"], "value": [1, 2**63]}, "row 1 .*column 'value': .*outside"),
    (pa.table({"key": ["a"], "value": pa.array([2**63], pa.uint64())}), "row 0 .*column 'value': .*outside"),
    ({"key": ["b", "a", "a"], "value": [1, 2, 3]}, "rows 1 and 2 .* the key 'a'"),
    (pd.DataFrame({"key": ["a", "b"], "value": [1.0, None]}), "row 1 .*column 'value': is null"),
    ({"key": ["a"]}, "has no column 'value'"),
    ({**GOOD, "more": [1, 2]}, "a column 'more', which means nothing"),
    (pa.table([["a"], [1], [2]], names=["key", "value", "value"]), "2 columns 'value'"),
    ({"key": ["a"], "value": [1, 2]}, "different numbers of values"),
    ({"key": "ab", "value": [1, 2]}, "column 'key' .* is 'ab'"),
    (7, "is 7: give a table"),
    ("/no/such.parquet", "can't read /no/such.parquet"),
]


@pytest.mark.parametrize(("table", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused_tables(tmp_path: Path, table: Any, message: str) -> None:
    """Table, row and column are named, and no savepoint is left."""
    with pytest.raises(
        ChangelogEngineError, match=f"table of state 's' of operator 'op'.*{message}|{message}"
    ) as raised:
        made(tmp_path / "sp", table)
    assert "the table of state 's' of operator 'op'" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operators": {}, "types": {}, "key_types": {}}, "no operator is named"),
        ({"key_types": {}}, r"key_types\['op'\] must be the type"),
        ({"key_types": {"op": Types.LONG(), "po": Types.LONG()}}, "'po', for which there is no table"),
        ({"types": {}}, r"types\['op'\]\['s'\] must be the state's descriptor"),
        ({"types": {"op": {"s": Types.LONG(), "t": Types.LONG()}}}, "'t' of operator 'op', for which"),
        ({"types": {"op": {"s": ValueStateDescriptor("t", Types.LONG())}}}, "a state named 't'"),
        ({"max_parallelism": 0}, "an int from 1 to 32768, got 0"),
        ({"max_parallelism": {"po": 1}}, "max_parallelism has the operator 'po'"),
        ({"operators": {"op": {"__x": GOOD}}, "types": {"op": {"__x": Types.LONG()}}}, "is not a name"),
        ({"operators": 5}, "operators must be a dict, uid -> name of a state -> its table; got 5"),
        ({"types": {"op": Types.LONG()}}, r"types\['op'\] must be a dict .*; got "),
        ({"key_types": Types.LONG()}, "key_types must be a dict, uid -> the type of its keys; got"),
        ({"timers": {"op": [1]}}, r"timers\['op'\] must be a dict .*; got \[1\]"),
        ({"broadcast": {"op": 5}}, r"broadcast\['op'\] must be a dict .*; got 5"),
        ({"timers": {"op": {"event": GOOD}}}, "'event time' or 'processing time'"),
        ({"timers": {"op": {"event time": GOOD}}}, "has no column 'timestamp'"),
        (
            {"timers": {"op": {"event time": {"key": ["a", "a"], "timestamp": [1, 1]}}}},
            "rows 0 and 1 .* the key 'a' and the timestamp 1",
        ),
    ],
)
def test_refused_arguments(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given = {
        "operators": {"op": {"s": GOOD}},
        "types": {"op": {"s": Types.LONG()}},
        "key_types": {"op": Types.STRING()},
        **change,
    }
    with pytest.raises((ConfigurationError, TypeMismatchError), match=message):
        changelog_engine.bootstrap(tmp_path / "sp", **given)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    made(tmp_path / "sp", GOOD)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(StorageError, match="is there already"):
        made(tmp_path / "sp", GOOD)
    with pytest.raises(ConfigurationError, match="is the folder of a job"):
        made(tmp_path / "sp" / "inside", GOOD)
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="is a Delta table"):
        made(tmp_path / "other", tmp_path / "delta")
    assert before == sorted(
        str(path) for path in tmp_path.rglob("*") if "delta/" not in f"{path}/"[len(str(tmp_path)) + 1 :][:6]
    )


def test_a_full_disk_leaves_the_place_free(tmp_path: Path) -> None:
    with MemoryDisk(str(tmp_path)).mounted() as disk:
        disk.fail("create", errno.ENOSPC, times=99)
        with pytest.raises(StorageError, match="disk full"):
            small(tmp_path / "savepoint", 1)
        disk.heal()
        small(tmp_path / "savepoint", 2)
        assert state_at(str(tmp_path / "savepoint" / "changelog")).states["op", "s"][1] == 2


def small(path: Path, value: int) -> None:
    table = pa.table({"key": [1], "value": [value]})
    changelog_engine.bootstrap(
        path, {"op": {"s": table}}, key_types={"op": Types.LONG()}, types={"op": {"s": Types.LONG()}}
    )


def test_two_at_one_place_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one took away what the faster one had made, as that which had failed."""
    path, begin, others = tmp_path / "savepoint", folder._begin, [2]

    def overtaken(base: Any, slug: str, job: str) -> Any:
        while others:
            small(path, others.pop())
        return begin(base, slug, job)

    monkeypatch.setattr(folder, "_begin", overtaken)
    with pytest.raises(StorageError, match="is there already: another process made it just now"):
        small(path, 1)
    assert state_at(str(path / "changelog")).states["op", "s"][1] == 2


def test_a_table_that_somebody_makes_there_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(target: Any) -> Any:
        DeltaLog.create(target.changelog, SCHEMA, {"delta.appendOnly": "true"})
        return begin_tables(target)

    monkeypatch.setattr("changelog_engine.savepoints.bootstrap.begin_tables", overtaken)
    with pytest.raises(StorageError, match="is a Delta table already"):
        small(tmp_path / "savepoint", 1)
    assert [path.name for path in (tmp_path / "savepoint").iterdir()] == ["changelog"]


def test_kinds_of_values(tmp_path: Path) -> None:
    """Structs, maps and times of Arrow become what the declared type has; a time to live counts from now on."""
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    times = pa.table({"key": ["a"], "value": pa.array([moment], pa.timestamp("ns", tz="Europe/Zurich"))})
    assert made(tmp_path / "1", times, Types.INSTANT()).states["op", "s"] == {
        "a": Instant(int(moment.timestamp()), 0)
    }
    with pytest.raises(TypeMismatchError, match="a SQL_TIMESTAMP has none"):
        made(tmp_path / "2", times, Types.SQL_TIMESTAMP())
    inner = pa.array([{"n": [{"x": 1, "y": "b"}]}])
    nested = pa.table({"key": ["a"], "value": inner})
    pair = Types.TUPLE([Types.LIST(Types.ROW_NAMED(["y", "x"], [Types.STRING(), Types.INT()]))])
    found = made(tmp_path / "3", nested, pair).states["op", "s"]["a"]
    assert (type(found), found[0][0].y, found[0][0].x) == (tuple, "b", 1)
    live = ValueStateDescriptor("s", Types.LONG())
    live.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(1)).build())
    folded = made(tmp_path / "4", GOOD, live, clock=lambda: 5_000)
    assert folded.states["op", "s"] == {"a": 1, "b": 2}
    assert folded.accessed["op", "s"] == {"a": 5_000, "b": 5_000}


def test_objects_stay_what_they_are(tmp_path: Path) -> None:
    """Columns of objects, whose types Arrow would guess: equal keys as of a job, maps without entries of other rows."""

    def state(name: str, keys: list[Any], values: list[Any], **types: Any) -> Any:
        frame = pd.DataFrame({"key": pd.Series(keys, dtype=object), "value": pd.Series(values, dtype=object)})
        return made(tmp_path / name, frame, **types).states["op", "s"]

    maps = [{"a": 1}, {"b": 2}]
    assert (
        list(state("1", ["x", "y"], maps, declared=Types.MAP(Types.STRING(), Types.LONG())).values()) == maps
    )
    decimals = [Decimal("1.5"), Decimal("1.25")]
    assert list(map(str, state("2", decimals, [1, 2], key_type=Types.BIG_DEC()))) == ["1.5", "1.25"]
    assert list(map(repr, state("3", [1, 2.5], [1, 2], key_type=Types.PICKLED_BYTE_ARRAY()))) == ["1", "2.5"]
    lists = [np.array([1, 2]), np.array([3])]
    assert list(state("4", ["x", "y"], lists, declared=Types.LIST(Types.LONG())).values()) == [[1, 2], [3]]
    assert state("5", ["x"], [2**70], declared=Types.BIG_INT()) == {"x": 2**70}
    texts = {"\ud800": "\udfff", "x": "y"}  # Arrow has no surrogates
    frame = pd.DataFrame({"key": list(texts), "value": list(texts.values())}, dtype=object)
    savepoint = changelog_engine.bootstrap(
        tmp_path / "6",
        {"op": {"s": frame}},
        key_types={"op": Types.STRING()},
        types={"op": {"s": Types.STRING()}},
    )
    assert state_at(f"{savepoint.path}/changelog", allow_pickle=True).states["op", "s"] == texts


def test_times_are_no_numbers(tmp_path: Path) -> None:
    """Those of numpy that are finer than Python's; and no time loses what is finer."""
    days = np.array(["2026-01-31"], "datetime64[ns]")
    assert made(tmp_path / "1", {"key": ["a"], "value": days}, Types.SQL_TIMESTAMP()).states["op", "s"] == {
        "a": datetime(2026, 1, 31)
    }
    for column in (days, np.array([5], "timedelta64[ns]"), np.array(["2026"], "datetime64[Y]")):
        with pytest.raises(ChangelogEngineError, match=r"declared LONG|which Arrow has not"):
            made(tmp_path / "2", {"key": ["a"], "value": column})
        with pytest.raises(ChangelogEngineError, match=r"no zone|declared LONG|which Arrow has not"):
            made(tmp_path / "2", GOOD, timers={"op": {"event time": {"key": ["a"], "timestamp": column}}})
    fine = pa.table({"key": ["a"], "value": pa.array([1001], pa.time64("ns"))})
    with pytest.raises(TypeMismatchError, match="finer than a microsecond"):
        made(tmp_path / "3", fine, Types.SQL_TIME())


def test_folders_that_are_more_than_their_files(tmp_path: Path) -> None:
    """A Delta table by its URI; files with columns that the first has not."""
    folder = tmp_path / "delta"
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table(GOOD), folder / "1.parquet")
    with pytest.raises(ConfigurationError, match="is a Delta table"):
        made(tmp_path / "sp", folder.as_uri())
    (folder / "_delta_log").rmdir()
    assert made(tmp_path / "fine", folder.as_uri()).states["op", "s"] == {"a": 1, "b": 2}
    pq.write_table(pa.table({**GOOD, "position": [1, 2]}), folder / "2.parquet")
    with pytest.raises(ConfigurationError, match=r"2\.parquet has the columns key, value, position"):
        made(tmp_path / "sp", str(folder), ListStateDescriptor("s", Types.LONG()))
    whole = ds.dataset(
        str(folder), schema=pa.schema([*pa.table(GOOD).schema, pa.field("position", pa.int64())])
    )
    with pytest.raises(ConfigurationError, match=r"1\.parquet.* has no column 'position'"):
        made(tmp_path / "sp", whole, ListStateDescriptor("s", Types.LONG()))


LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class Guard(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.spent = runtime_context.get_state(ValueStateDescriptor("spent", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.spent.update((self.spent.value() or 0) + value[1])
        limits = ctx.get_broadcast_state(LIMITS)
        yield value[0], self.spent.value(), limits.get("day"), limits.get("month"), limits.contains("month")

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS).put(*value)


def guarded(base: Path, savepoint: str) -> list[Any]:
    """What a job with keyed and broadcast state gives that starts from a savepoint."""
    config = Configuration()
    config.set_string("state.changelog.dstl.dfs.base-path", str(base))
    config.set_string("changelog.restore", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2).enable_checkpointing(1000).enable_changelog_state_backend(True)
    payments = env.from_collection([("ann", 5), ("bob", 7)], Types.TUPLE([Types.STRING(), Types.LONG()])).uid(
        "in"
    )
    none = env.from_collection([], Types.TUPLE([Types.STRING(), Types.LONG()])).uid("limits")
    keyed = payments.key_by(lambda each: each[0], Types.STRING())
    with (
        without_spark(),
        keyed.connect(none.broadcast(LIMITS))
        .process(Guard())
        .uid("guard")
        .execute_and_collect("guarded") as found,
    ):
        return sorted(found)


def test_a_job_begins_with_broadcast_state(tmp_path: Path) -> None:
    limits = pa.table({"map_key": ["day", "month"], "value": pa.array([50, None], pa.int64())})
    given = {
        "operators": {"guard": {"spent": {"key": ["ann"], "value": [100]}}},
        "key_types": {"guard": Types.STRING()},
        "types": {"guard": {"spent": Types.LONG(), "limits": LIMITS}},
        "broadcast": {"guard": {"limits": limits}},
    }
    made = changelog_engine.bootstrap(tmp_path / "opening", **given)
    assert guarded(tmp_path / "base", made.path) == [("ann", 105, 50, None, True), ("bob", 7, 50, None, True)]
    given |= {"operators": {}, "types": {"guard": {"limits": LIMITS}}}
    alone = changelog_engine.bootstrap(tmp_path / "alone", **given)
    assert guarded(tmp_path / "other", alone.path) == [("ann", 5, 50, None, True), ("bob", 7, 50, None, True)]
    for table, declared, words in (
        ({"map_key": ["a", "a"], "value": [1, 2]}, LIMITS, "row 1 .*an earlier row is for the key 'a'"),
        ({"map_key": ["a"], "value": ["x"]}, LIMITS, "broadcast state 'limits' of operator 'guard', row 0"),
        ({"key": ["a"], "value": [1]}, LIMITS, "has no column 'map_key'"),
        ({"map_key": [None], "value": [1]}, LIMITS, "column 'map_key': is null"),
        ({"map_key": ["a"], "value": [1]}, Types.LONG(), "is not the descriptor of a MapState"),
    ):
        given |= {"broadcast": {"guard": {"limits": table}}, "types": {"guard": {"limits": declared}}}
        with pytest.raises(ChangelogEngineError, match=words):
            changelog_engine.bootstrap(tmp_path / "wrong", **given)
    given |= {
        "broadcast": {"guard": {"limits": limits}},
        "types": {"guard": {"limits": LIMITS, "spent": Types.LONG()}},
        "key_types": {},
    }
    with pytest.raises(ConfigurationError, match="'spent' of operator 'guard', for which there is no table"):
        changelog_engine.bootstrap(tmp_path / "wrong", **given)
    assert not (tmp_path / "wrong").exists()
