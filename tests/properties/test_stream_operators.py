"""Partitionings, side outputs, connected and broadcast streams, and BATCH mode, in jobs in this process."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.graphs import GraphBuilder
from support.jobs import TestJob

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction, ProcessFunction
from api.datastream.functions import ReduceFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.errors import InvalidJobError, JobExecutionError
from changelog_engine.graph.nodes import BroadcastSpec, NodeKind, Partitioner, PartitionSpec
from changelog_engine.graph.plan import plan_job
from changelog_engine.graph.tags import OutputTag

ODD = OutputTag("odd", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Where:
    """A map function that says in which subtask it runs."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return self.subtask, value


class Split(ProcessFunction):
    """Odd numbers go aside, and those above ten to a side output nobody reads."""

    def process_element(self, value: int, ctx: Any) -> Any:
        if value % 2:
            yield ODD, value
        elif value > 10:
            yield OutputTag("large"), value
        else:
            yield value


class Both:
    """A co-process function over keyed streams: the sum of the first input, scaled by the second; a timer ends it."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(1_000)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + 100 * value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.total.value()


class Price:
    """A broadcast function: looks its values up in the rules."""

    def open(self, runtime_context: Any) -> None:
        """Nothing to open."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        yield value, rules.get(value), rules.contains(value), hasattr(rules, "put")

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        name, price = value
        rules = ctx.get_broadcast_state(RULES)
        if price < 0:
            rules.remove(name)
        else:
            rules.put(name, price)


class Looked(Price):
    """As Price, on a keyed stream with a count for each key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + 1)
        yield value, ctx.get_broadcast_state(RULES).get(value), self.seen.value(), ctx.get_current_key()


def partitioned(partitioner: Partitioner, parallelism: int, elements: int = 40, **more: Any) -> list[Any]:
    build = GraphBuilder(parallelism=parallelism)
    spec = PartitionSpec(partitioner, **more)
    source = build.source(range(elements))
    moved = build.add(NodeKind.PARTITION, "partition", source, function=spec)
    build.collect(build.add(NodeKind.MAP, "where", moved, function=Where()))
    job = TestJob("unused", checkpoint_interval_ms=None)
    job.run(build.graph())
    return job.output


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("partitioner", [Partitioner.REBALANCE, Partitioner.RESCALE, Partitioner.SHUFFLE])
def test_even_partitionings_reach_all_subtasks_with_every_element_once(
    partitioner: Partitioner, parallelism: int
) -> None:
    output = partitioned(partitioner, parallelism)
    assert sorted(value for _, value in output) == list(range(40))
    assert {subtask for subtask, _ in output} == set(range(parallelism))


def test_rebalance_takes_turns() -> None:
    assert Counter(subtask for subtask, _ in partitioned(Partitioner.REBALANCE, 4)) == dict.fromkeys(
        range(4), 10
    )


def test_broadcast_reaches_every_subtask() -> None:
    output = partitioned(Partitioner.BROADCAST, 3, 5)
    assert sorted(output) == [(subtask, value) for subtask in range(3) for value in range(5)]


def test_a_block_of_many_elements_keeps_their_order() -> None:
    assert partitioned(Partitioner.FORWARD, 1, 40_000) == [(0, value) for value in range(40_000)]


def test_global_reaches_the_first_subtask() -> None:
    assert sorted(partitioned(Partitioner.GLOBAL, 3, 5)) == [(0, value) for value in range(5)]


def test_a_custom_partitioner_decides() -> None:
    output = partitioned(
        Partitioner.CUSTOM, 3, 9, custom=lambda key, count: key % count, key_selector=lambda value: value // 2
    )
    assert sorted(output) == sorted((value // 2 % 3, value) for value in range(9))


def test_a_partitioner_that_names_no_partition_is_an_error() -> None:
    with pytest.raises(JobExecutionError, match=r"partitioner of 'partition' from .* gave 3.*0 to 2"):
        partitioned(
            Partitioner.CUSTOM, 3, 9, custom=lambda key, count: count, key_selector=lambda value: value
        )


def test_forward_needs_the_same_parallelism() -> None:
    build = GraphBuilder(parallelism=2)
    source = build.source(range(3))
    forwarded = build.add(NodeKind.PARTITION, "forward", source, function=PartitionSpec(Partitioner.FORWARD))
    build.collect(build.add(NodeKind.MAP, "where", forwarded, function=Where(), parallelism=2))
    with pytest.raises(
        InvalidJobError, match=r"forward.*'source' \(parallelism 1\).*'where' \(parallelism 2\)"
    ):
        plan_job(build.graph())


def test_side_outputs_take_their_elements_out_of_the_stream() -> None:
    build = GraphBuilder()
    split = build.process(build.source(range(16)), Split(), output_type=Types.LONG())
    main = build.collect(split)
    odd = build.add(NodeKind.SIDE_OUTPUT, "odd", split, function="odd", output_type=Types.LONG())
    aside = build.collect(odd)
    job = TestJob("unused", checkpoint_interval_ms=None)
    job.run(build.graph())
    assert job.outputs == {main: [0, 2, 4, 6, 8, 10], aside: [1, 3, 5, 7, 9, 11, 13, 15]}


class OwnTag(OutputTag):
    """A tag of the user's class."""


@pytest.mark.parametrize("given", [[(1, 2)], [()], [(), 7], [Counter], [(None,), (0,)]])
@pytest.mark.parametrize("tag", [ODD, OwnTag("odd", Types.LONG())])
def test_a_tag_among_tuples_is_found(given: list[Any], tag: OutputTag) -> None:
    class Given(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            return [*given, (tag, value), *given]

    build = GraphBuilder()
    split = build.process(build.source([5]), Given())
    main = build.collect(split)
    aside = build.collect(build.add(NodeKind.SIDE_OUTPUT, "odd", split, function="odd"))
    job = TestJob("unused", checkpoint_interval_ms=None)
    job.run(build.graph())
    assert job.outputs == {main: [*given, *given], aside: [5]}


def test_a_side_output_is_checked_against_its_type() -> None:
    build = GraphBuilder()
    split = build.process(build.source(range(4)), Split(), output_type=Types.LONG())
    build.collect(build.add(NodeKind.SIDE_OUTPUT, "odd", split, function="odd", output_type=Types.STRING()))
    with pytest.raises(JobExecutionError, match=r"'odd'.*STRING"):
        TestJob("unused", checkpoint_interval_ms=None).run(build.graph())


def test_none_is_no_element_of_a_declared_type() -> None:
    build = GraphBuilder()
    build.collect(
        build.add(NodeKind.MAP, "where", build.source([1]), function=Where(), output_type=Types.LONG())
    )
    build.nodes[1] = replace(build.nodes[1], function=Nothing())
    with pytest.raises(JobExecutionError, match="output of operator 'where': None is not a LONG"):
        TestJob("unused", checkpoint_interval_ms=None).run(build.graph())


class Nothing:
    """A map function that forgot its return."""

    def map(self, value: Any) -> None:
        """Nothing."""


def connected(parallelism: int) -> GraphBuilder:
    build = GraphBuilder(parallelism=parallelism)
    first = build.source([(n % 5, n) for n in range(50)], uid="first")
    second = build.source([(n % 5, 1) for n in range(10)], uid="second")
    keyed = [build.key_by(stream, lambda value: value[0], Types.LONG()) for stream in (first, second)]
    both = build.add(NodeKind.CO_PROCESS, "both", *keyed, function=Both(), uid="both")
    build.collect(both)
    return build


@pytest.mark.parametrize("changelog", [True, False])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_two_keyed_inputs_share_state_and_timers(tmp_path: Path, parallelism: int, changelog: bool) -> None:
    job = TestJob(tmp_path, changelog=changelog, epoch_max_records=7, checkpoint_interval_ms=1)
    job.run(connected(parallelism).graph())
    assert sorted(job.output) == [(key, sum(range(key, 50, 5)) + 200) for key in range(5)]


def test_connecting_a_keyed_stream_with_another_is_an_error() -> None:
    build = GraphBuilder()
    first = build.key_by(build.source([1]), lambda value: value)
    build.collect(build.add(NodeKind.CO_MAP, "both", first, build.source([2]), function=Both()))
    with pytest.raises(InvalidJobError, match=r"'both'.*key both or neither"):
        plan_job(build.graph())


def broadcast_job(function: Any, keyed: bool, parallelism: int = 2) -> GraphBuilder:
    build = GraphBuilder(parallelism=parallelism)
    orders = build.source(["tea", "rum", "gin"] * 20, uid="orders")
    rules = build.source([("tea", 2), ("rum", 9), ("tea", 3), ("rum", -1)], uid="rules")
    stream = build.key_by(orders, lambda value: value, Types.STRING()) if keyed else orders
    spread = build.add(NodeKind.PARTITION, "broadcast", rules, function=PartitionSpec(Partitioner.BROADCAST))
    priced = build.add(
        NodeKind.BROADCAST_PROCESS,
        "price",
        stream,
        spread,
        function=BroadcastSpec(function, (RULES.to_spec(),)),
        uid="price",
    )
    build.collect(priced)
    return build


def test_what_is_broadcast_is_read_on_the_other_side() -> None:
    job = TestJob("unused", checkpoint_interval_ms=None)
    job.run(broadcast_job(Price(), keyed=False).graph())
    found = {("tea", 3, True, False): 20, ("rum", None, False, False): 20, ("gin", None, False, False): 20}
    assert Counter(job.output) == found


@pytest.mark.parametrize("changelog", [True, False])
def test_broadcast_state_is_in_each_checkpoint_and_survives_another_parallelism(
    tmp_path: Path, changelog: bool
) -> None:
    job = TestJob(tmp_path, changelog=changelog, epoch_max_records=8, checkpoint_interval_ms=1)
    kept: list[Any] = []
    job.on_commit = kept.append  # type: ignore[method-assign]
    job.run(broadcast_job(Looked(), keyed=True).graph())
    assert Counter(job.output) == Counter(
        (name, price, seen, name)
        for name, price in (("tea", 3), ("rum", None), ("gin", None))
        for seen in range(1, 21)
    )
    middle = next(checkpoint for checkpoint in kept if not checkpoint.finished)
    again = TestJob(tmp_path, changelog=changelog, epoch_max_records=50)
    again.run(
        broadcast_job(Looked(), keyed=True, parallelism=3).graph(),
        restore=str(middle.id) if changelog else "latest",
    )
    if changelog:
        seen = {element[2] for element in again.output if element[0] == "tea"}
        assert max(seen) == 20
        assert {element[1] for element in again.output if element[0] == "tea"} == {3}


def test_broadcast_states_that_are_asked_for_in_turns() -> None:
    names = [MapStateDescriptor(name, Types.LONG(), Types.LONG()) for name in ("a", "b")]

    class InTurns(Price):
        def process_element(self, value: Any, ctx: Any) -> Any:
            states = [*names, MapStateDescriptor("a", Types.LONG(), Types.LONG())]
            yield tuple([ctx.get_broadcast_state(each).get(value) for each in states for _ in range(2)])

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            for each, factor in zip(names, (10, 100), strict=True):
                ctx.get_broadcast_state(each).put(value, factor * value)

    build = GraphBuilder(parallelism=1)
    rules = build.source([1, 2])
    spread = build.add(NodeKind.PARTITION, "broadcast", rules, function=PartitionSpec(Partitioner.BROADCAST))
    spec = BroadcastSpec(InTurns(), tuple(each.to_spec() for each in names))
    build.collect(build.add(NodeKind.BROADCAST_PROCESS, "turns", build.source([1, 2]), spread, function=spec))
    job = TestJob("unused", checkpoint_interval_ms=None)
    job.run(build.graph())
    assert job.output == [(10, 10, 100, 100, 10, 10), (20, 20, 200, 200, 20, 20)]


def test_a_broadcast_state_that_was_not_given_is_an_error() -> None:
    build = broadcast_job(Price(), keyed=False)
    node = next(node for node in build.nodes if node.kind is NodeKind.BROADCAST_PROCESS)
    build.nodes[node.id] = type(node)(**{**vars(node), "function": BroadcastSpec(Price(), ())})
    with pytest.raises(JobExecutionError, match=r"'price'.*broadcast state 'rules'.*none"):
        TestJob("unused", checkpoint_interval_ms=None).run(build.graph())


class Watermarks(ProcessFunction):
    """Gives each element with the watermark at it."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark()


@pytest.mark.parametrize("lag_ms", [None, 0])
def test_a_union_waits_for_the_slowest_watermark(lag_ms: int | None) -> None:
    """Both streams are chained in one stage; the other one's watermarks lag by 0 ms, or there are none."""
    build = GraphBuilder()
    source = build.source([10, 20, 30, 40])
    fast = build.timestamps(source, lambda value: 1_000 * value, 0)
    slow = build.timestamps(source, lambda value: value, lag_ms)
    build.collect(build.process(build.add(NodeKind.UNION, "union", fast, slow), Watermarks()))
    job = TestJob("unused", checkpoint_interval_ms=None, epoch_max_records=2)
    job.run(build.graph())
    before = -(2**63)
    assert sorted(job.output) == sorted(
        [(value, mark) for value, mark in ((10, before), (20, before)) for _ in range(2)]
        + [(value, before if lag_ms is None else 19) for value in (30, 40) for _ in range(2)]
    )


class Sum(ReduceFunction):
    """Adds pairs up."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class Stamp(ProcessFunction):
    """Elements with their timestamps."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield *value, ctx.timestamp()


class Watch(KeyedProcessFunction):
    """Says what comes when."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        yield value[0], "element", value[1], ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "timer", timestamp, ctx.timer_service().current_watermark()


def test_batch_gives_final_results_only_with_the_time_of_the_end() -> None:
    build = GraphBuilder(parallelism=2)
    keyed = build.key_by(build.source([(n % 3, n) for n in range(30)]), lambda value: value[0])
    build.collect(build.process(build.add(NodeKind.REDUCE, "sum", keyed, function=Sum()), Stamp()))
    job = TestJob("unused", checkpoint_interval_ms=None, batch=True, epoch_max_records=4)
    job.run(build.graph())
    assert sorted(job.output) == [(key, sum(range(key, 30, 3)), 2**63 - 1) for key in range(3)]


def test_batch_sorts_a_keys_elements_by_time_before_its_timers() -> None:
    build = GraphBuilder()
    stream = build.timestamps(
        build.source([("a", 5), ("b", 2), ("a", 1), ("b", 9), ("a", 3)]), lambda v: v[1]
    )
    keyed = build.key_by(stream, lambda value: value[0])
    build.collect(build.process(keyed, Watch()))
    job = TestJob("unused", checkpoint_interval_ms=None, batch=True, epoch_max_records=2)
    job.run(build.graph())
    before, after = -(2**63), 2**63 - 1
    assert job.output == [
        *[("a", "element", time, before) for time in (1, 3, 5)],
        *[("a", "timer", time, after) for time in (101, 103, 105)],
        *[("b", "element", time, before) for time in (2, 9)],
        *[("b", "timer", time, after) for time in (102, 109)],
    ]


def test_in_batch_mode_elements_wait_for_the_end_of_what_is_broadcast() -> None:
    """However many epochs the broadcast side takes, and whichever side comes first."""
    build = GraphBuilder(parallelism=2)
    elements = build.source(["tea", "rum"] * 5)
    rules = build.source([*[(f"rule {n}", n) for n in range(40)], ("tea", 3)])
    broadcast = build.add(
        NodeKind.PARTITION, "broadcast", rules, function=PartitionSpec(Partitioner.BROADCAST)
    )
    spec = BroadcastSpec(Price(), (RULES.to_spec(),))
    build.collect(build.add(NodeKind.BROADCAST_PROCESS, "price", elements, broadcast, function=spec))
    graph = build.graph()
    job = TestJob("unused", checkpoint_interval_ms=None, batch=True, epoch_max_records=2)
    job.run(graph)
    assert Counter(job.output) == {("tea", 3, True, False): 5, ("rum", None, False, False): 5}
    streaming = TestJob("unused", checkpoint_interval_ms=None, epoch_max_records=2)
    streaming.run(graph)
    assert Counter(streaming.output) != Counter(job.output)
