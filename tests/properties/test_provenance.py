"""Explanations of random jobs, checked against programs that carry full provenance themselves.

Every element says which record it comes from and which operators it passed, user code writes that into the state with each
mutation, and remembers who set which timer. So each mutation's value is what its explanation must say, whatever the epochs,
checkpoints and failures of the recorded run were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chance import fewer
from support.jobs import TestJob
from support.script import Script
from support.scripts import EXACT, scripts

from api.common import Duration, Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from api.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from changelog_engine.connectors.protocols import Range, SplitReader
from changelog_engine.errors import NotSupportedError
from changelog_engine.graph.nodes import JobGraph
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.provenance import (
    ExplainedMutation,
    Explanation,
    FiredTimer,
    HeldEntry,
    KeyedElement,
    SourceRecord,
    UnknownCause,
)
from changelog_engine.provenance.explain import Replays
from changelog_engine.provenance.source_ranges import SourceRange
from changelog_engine.replay.compare import types_of
from changelog_engine.replay.log_rows import mutations_of
from changelog_engine.replay.recorded import RecordedRange

ANY = Types.PICKLED_BYTE_ARRAY()
ASIDE = OutputTag("aside", ANY)
RULES = MapStateDescriptor("rules", Types.STRING(), ANY)

# (key, time, id of the record it comes from, names of the stateless operators that it passed since the last keyed one)
Element = tuple[int, int, str, tuple[str, ...]]


def passed(element: Element, name: str) -> Element:
    return (*element[:3], (*element[3], name))


class Passes(ProcessFunction):
    """Even times to a side output as well."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] % 2 == 0:
            yield ASIDE, passed(value, "splits")
        yield passed(value, "splits")


class Times(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class States:
    """Value, list and map state and timers: each mutation says whose it is."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", ANY))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", ANY))
        self.by_time = runtime_context.get_map_state(MapStateDescriptor("by_time", Types.LONG(), ANY))
        self.setters = runtime_context.get_map_state(MapStateDescriptor("setters", Types.LONG(), ANY))

    def take(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, time, record, through = value
        before = self.last.value()
        self.last.update((record, through, "element", None if before is None else before[0]))
        self.seen.add((record, through, "element", None))
        self.by_time.put(time % 3, (record, through, "element", None))
        due = time + 4
        if due not in self.setters:
            self.setters.put(due, (record, through, "element", None))
            ctx.timer_service().register_event_time_timer(due)
        yield key // 2, time, record, ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        record, through, _, _ = self.setters.get(timestamp)
        before = self.last.value()
        self.last.update((record, through, "timer", None if before is None else before[0]))
        if len(self.seen.get()) > 3:
            self.seen.update([(record, through, "timer", None)])
        self.by_time.remove(timestamp % 3)
        self.setters.remove(timestamp)
        yield ctx.get_current_key() // 2, timestamp, record, ()


class Process(States, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self.take(value, ctx)


class Connect(States, KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self.take(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self.take(value, ctx)


class Broadcast(States, KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self.take(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put("newest", value)


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return passed(value, "both")

    def map2(self, value: Any) -> Any:
        return passed(value, "both")


def newest(one: Any, other: Any) -> Any:
    """A reduction that keeps the last record's id, and those before it."""
    return (*other[:3], (*one[3], *other[3]))


def ids(element: Element) -> Element:
    return (*element[:3], (element[2],))


STATELESS = ("map", "filter", "flat_map", "process", "rebalance")
KEYED = ("process", "connect", "broadcast", "reduce", "tumbling", "sliding", "sessions")


def job_graph(
    times: list[tuple[int, int]], stateless: list[str], keyed: str, twice: bool, parallelism: int
) -> JobGraph:
    """Two sources; stateless operators; a keyed operator; perhaps a second one behind it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    env.set_max_parallelism(8)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(
        Times()
    )

    def source(name: str) -> Any:
        elements = [(key, time, f"{name}{index}", ()) for index, (key, time) in enumerate(times)]
        stream = env.from_collection(elements, ANY).uid(name)
        return stream.assign_timestamps_and_watermarks(strategy)

    stream, other = source("a"), source("b")
    for name in stateless:
        if name == "map":
            stream = stream.map(lambda value: passed(value, "one"), ANY).name("one")
        elif name == "filter":
            stream = stream.filter(lambda value: value[1] % 5 != 0).name("some")
            stream = stream.map(lambda value: passed(value, "some"), ANY).name("marks")
        elif name == "flat_map":
            stream = stream.flat_map(lambda value: [passed(value, "two")] * (value[1] % 3), ANY).name("two")
        elif name == "process":
            both = stream.process(Passes(), ANY).name("splits")
            stream = both.get_side_output(ASIDE).union(both)
        else:
            stream = stream.rebalance().connect(other.rebalance()).map(Both(), ANY).name("both")
    key = lambda value: value[0]  # noqa: E731
    if keyed == "connect":
        done = (
            stream.key_by(key, Types.LONG()).connect(other.key_by(key, Types.LONG())).process(Connect(), ANY)
        )
    elif keyed == "broadcast":
        done = stream.key_by(key, Types.LONG()).connect(other.broadcast(RULES)).process(Broadcast(), ANY)
    elif keyed == "process":
        done = stream.key_by(key, Types.LONG()).process(Process(), ANY)
    else:
        stream = stream.map(ids, ANY).name("ids").key_by(key, Types.LONG())
        if keyed == "reduce":
            done = stream.reduce(newest)
        else:
            assigner = {
                "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(4)),
                "sliding": SlidingEventTimeWindows.of(Time.milliseconds(6), Time.milliseconds(3)),
                "sessions": EventTimeSessionWindows.with_gap(Time.milliseconds(2)),
            }[keyed]
            done = stream.window(assigner).reduce(newest)
    done = done.uid("first")
    if twice:
        done = done.map(lambda value: (value[0], value[1], value[2], ("between",)), ANY).name("between")
        done = done.key_by(key, Types.LONG()).process(Process(), ANY).uid("second")
    done.print().uid("out")
    return env.generate_stream_graph(job_name="job")


def record_of(cause: Any) -> SourceRecord | UnknownCause:
    """The record at the end of a chain."""
    while not isinstance(cause, (SourceRecord, UnknownCause)):
        cause = cause.set_by if isinstance(cause, FiredTimer) else cause.cause
    return cause


def marks(through: tuple[str, ...]) -> tuple[str, ...]:
    """Operators that say in the element that it passed."""
    return tuple(name for name in through if name in ("one", "some", "two", "splits", "both", "between"))


def fired_by_window(cause: Any) -> bool:
    """Whether a window's result is in a chain: what its last element made is given by a timer that its first one set."""
    while not isinstance(cause, (SourceRecord, UnknownCause)):
        if isinstance(cause, FiredTimer) and cause.operator == "first":
            return True
        cause = cause.set_by if isinstance(cause, FiredTimer) else cause.cause
    return False


def check_states(found: ExplainedMutation, windows: bool) -> None:
    """A mutation of the functions above is what its own value says."""
    if not isinstance(found.value, tuple):
        return
    record, through, kind, before = found.value
    assert isinstance(found.cause, FiredTimer) is (kind == "timer")
    assert found.line is not None
    assert found.line.file == __file__
    called = "on_timer" if kind == "timer" else "take"
    assert found.line.function == called
    expected = {
        "last": "self.last.",
        "seen": "self.seen.",
        "by_time": "self.by_time",
        "setters": "self.setters",
    }
    assert expected[found.state] in found.line.text
    root = record_of(found.cause)
    if isinstance(root, UnknownCause):
        assert kind == "timer" or "before" in root.reason
        return
    if windows and fired_by_window(found.cause):
        return
    assert root.value[2] == record
    assert f"{root.source}{root.position}" == record
    element = found.cause.set_by if isinstance(found.cause, FiredTimer) else found.cause
    assert marks(element.through) == through
    if found.state == "last" and before is not None:
        read = [each for each in found.read if each.state == "last"]
        assert len(read) == 1
        if isinstance(read[0], ExplainedMutation):
            assert read[0].value[0] == before
            assert read[0].number < found.number


def check_engine(found: ExplainedMutation) -> None:
    """A mutation of reduce() or of a window's contents ends with the record that brought it about."""
    root = record_of(found.cause)
    if found.state == "__merging_windows" or found.operation not in ("put", "append"):
        return
    if isinstance(found.cause, SourceRecord) and not isinstance(root, UnknownCause):
        assert f"{root.source}{root.position}" == root.value[2]
        assert root.value[0] == found.key
        if found.value[3][-1] != root.value[2]:  # sessions that the element made one
            assert found.namespace is not None


@fewer(2)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 25)), min_size=4, max_size=24),
    st.lists(st.sampled_from(STATELESS), max_size=2),
    st.sampled_from(KEYED),
    st.booleans(),
    st.integers(1, 2),
    scripts(EXACT, parallelism=1),
    st.data(),
)
def test_mutations_are_what_they_say(
    tmp_path_factory: pytest.TempPathFactory,
    times: list[tuple[int, int]],
    stateless: list[str],
    keyed: str,
    twice: bool,
    parallelism: int,
    script: Script,
    data: st.DataObject,
) -> None:
    """Each mutation of a key, by record, timer, operators between, line and what was read; and outputs and impact agree."""
    job = TestJob(tmp_path_factory.mktemp("job"), script)
    job.run(job_graph(times, stateless, keyed, twice, parallelism))
    now = job_graph(times, stateless, keyed, twice, parallelism)
    last = job.commits[-1]
    operator = data.draw(st.sampled_from(["first", "second"] if twice else ["first"]))
    key = data.draw(st.integers(0, 3))
    line = [n for segment in last.lineage for n in range(segment.first, segment.last + 1)]
    at = data.draw(st.sampled_from(line))
    start = data.draw(st.sampled_from([None, 0]))
    # A restore begins the turns of rebalance() anew, which the notes say.
    start = 0 if "rebalance" in stateless else start
    found = Replays(now, job.settings, at, start).key(key, operator, depth=2)
    if "rebalance" in stateless and not found.equal:
        assert found.difference
        assert not found.mutations
        return
    assert found.equal, found.text()
    recorded = Counter(recorded_mutations(job, now, found, operator, key))
    explained = Counter((each.state, each.operation, repr(each.value)) for each in found.mutations)
    if operator == "first" and keyed in KEYED[4:]:  # of a window's timers the log has net changes
        assert recorded <= explained
        assert {each[0] for each in explained - recorded} <= {"(event time timers)", "__merging_windows"}
    else:
        assert recorded == explained
    numbers = [each.number for each in found.mutations]
    assert numbers == sorted(numbers)
    for each in found.mutations:
        if operator == "first" and keyed in KEYED[3:]:
            check_engine(each)
        else:
            check_states(each, keyed in KEYED[4:])
    if not found.start:  # nothing was before the replay
        roots = [record_of(each.cause) for each in found.mutations]
        assert not any(isinstance(root, UnknownCause) and "set before" in root.reason for root in roots)
    assert len(found.text())
    assert all(len(line) <= 160 for line in found.text().splitlines()[2:])
    check_outputs(now, job, at, start, keyed, twice)
    check_impact(now, job, found, start, at, operator, key)


def recorded_mutations(
    job: TestJob, now: JobGraph, found: Explanation, operator: str, key: int
) -> list[tuple[str, str, str]]:
    """The log's mutations of a key, by another way."""
    history = RecordedRange(find_job_folder(job.settings.base_path, "job"), found.start, found.end)
    types = types_of(history.end.operators)
    listed = []
    for tables in history.mutations(operators=frozenset((operator,))).values():
        for table in tables:
            for state in set(table["state"].to_pylist()):
                rows = table.filter(pc.equal(table["state"], state))
                listed += mutations_of(rows, types.specs, types.keys[operator])
    return [(each.state, each.operation, repr(each.value)) for each in listed if each.key == key]


def check_outputs(now: JobGraph, job: TestJob, at: int, start: int | None, keyed: str, twice: bool) -> None:
    outputs = Replays(now, job.settings, at, start).output("out", lambda value: True)
    if not outputs.equal:
        return
    for each in outputs.outputs:
        assert isinstance(each.cause, KeyedElement)
        assert each.cause.operator == ("second" if twice else "first")
        root = record_of(each.cause)
        windows = keyed in KEYED[4:]  # a timer that the first element set gives what the last one made
        if isinstance(root, SourceRecord) and not (
            windows and (twice or isinstance(each.cause.cause, FiredTimer))
        ):
            assert root.value[2] == each.value[2]


def check_impact(
    now: JobGraph, job: TestJob, found: Explanation, start: int | None, at: int, operator: str, key: int
) -> None:
    """What a record of the explanation touched has the explained mutations that it brought about, and no others."""
    roots = [(each, record_of(each.cause)) for each in found.mutations]
    records = [root for _, root in roots if isinstance(root, SourceRecord)]
    if not records or not found.equal:
        return
    record = records[-1]
    begin = 0 if found.start is None else found.start
    touched = Replays(now, job.settings, at, begin).impact(record.source, record.position)
    if not touched.equal:
        return
    mine = [
        (each.state, each.operation, repr(each.value), each.namespace)
        for each, root in roots
        if isinstance(root, SourceRecord) and (root.source, root.position) == (record.source, record.position)
    ]
    theirs = [
        (each.state, each.operation, repr(each.value), each.namespace)
        for each in touched.mutations
        if each.operator == operator and each.key == key
    ]
    assert mine == theirs


class Lists(KeyedProcessFunction):
    """Several elements of a list at once, then a sum of them."""

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        if value == 1:
            self.numbers.update([10, 11])
        elif value == 2:
            self.numbers.add_all([12, 13])
        else:
            self.sum.update(sum(self.numbers.get()))


def test_all_elements_of_a_list_that_was_read_are_named(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([1, 2, 3], Types.LONG()).key_by(lambda value: 0, Types.LONG())
    keyed.process(Lists(), Types.LONG()).uid("lists").print()
    graph = env.generate_stream_graph(job_name="job")
    job = TestJob(tmp_path)
    job.run(graph)
    added = Replays(graph, job.settings).key(0, "lists", depth=2).mutations[-1]
    assert (added.state, added.value) == ("sum", 46)
    assert [(each.operation, each.value) for each in added.read if isinstance(each, ExplainedMutation)] == [
        ("replace", 10),
        ("append", 11),
        ("append", 12),
        ("append", 13),
    ]
    assert len(added.read) == 4  # and nothing from before


class Seen(KeyedProcessFunction):
    """How many elements a key had."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)


@pytest.mark.parametrize(
    ("keys", "declared", "text", "also"),
    [
        ([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]), '["a", 1]', ""),
        ([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]), "('a', 1)", ""),
        ([7], None, "7", ""),
        ([7, "7", "7"], None, "7", "'7' also means the key \"7\" of 'seen'"),
    ],
)
def test_a_key_is_given_as_it_is_shown(
    tmp_path: Path, keys: list[Any], declared: Any, text: str, also: str
) -> None:
    """As to all commands that look at one: a text may mean several keys, and says so."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(keys).key_by(lambda value: value, declared).process(Seen()).uid("seen").print()
    graph = env.generate_stream_graph(job_name="job")
    job = TestJob(tmp_path)
    job.run(graph)
    found = Replays(graph, job.settings).key(text)
    assert [each.value for each in found.mutations] == [1]
    assert [note[: len(also)] for note in found.notes] == ([also] if also else [])


def test_held_entries_are_named() -> None:
    assert str(HeldEntry("op", "state", 1, "a")) == "state['a'] of 'op', as it was before the replayed range"


def test_what_cannot_be_explained_is_refused(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    graph = job_graph([(0, 1)], [], "process", False, 1)
    job.run(graph)
    with pytest.raises(NotSupportedError, match="BATCH"):
        Replays(graph, replace(job.settings, batch=True)).key(0)


def test_a_source_that_has_nothing_for_a_while_is_asked_again() -> None:
    class Slow(SplitReader):
        asked = 0

        def read(self, position: int, max_records: int) -> Range:
            self.asked += 1
            if self.asked % 2:
                return Range([], position, False)
            values = [f"v{number}" for number in range(position, min(15, position + max_records))]
            return Range(values, position + len(values), False)

    assert SourceRange("uid", "name", "split", Slow(), 10, 15, 5).record(3) == (13, "v13")
