"""How a graph is cut into stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.functions import Count
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Script

from api.common.typeinfo import Types
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader
from changelog_engine.errors import ConfigurationError, InvalidJobError
from changelog_engine.graph.nodes import JobGraph, NodeKind, Partitioner
from changelog_engine.graph.plan import JobPlan, plan_job
from changelog_engine.graph.rescaling import rescaled


class Plus:
    """A map function."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def map(self, value: int) -> int:
        return value + self.amount


class Spread(Source):
    """A source of ints in several splits."""

    bounded = True
    parallel = True
    output_type = None

    def __init__(self, *splits: list[int]) -> None:
        self.elements = splits

    def splits(self, parallelism):
        return [Split(str(index), 0) for index in range(len(self.elements))]

    def reader(self, split):
        return SpreadReader(self.elements[int(split.id)])


class SpreadReader(SplitReader):
    def __init__(self, elements: list[int]) -> None:
        self.elements = elements

    def read(self, position, max_records):
        end = min(position + max_records, len(self.elements))
        return Range(self.elements[position:end], end, end == len(self.elements))

    def close(self) -> None:
        pass


def shape(plan: JobPlan) -> list[tuple]:
    """Nodes, parallelism and outgoing edges of each stage."""
    return [
        (
            stage.nodes,
            stage.parallelism,
            [(e.from_node, e.to_stage, e.to_nodes, e.partitioner) for e in stage.outputs],
        )
        for stage in plan.stages
    ]


def test_union_of_one_stage_stays_in_it(tmp_path) -> None:
    """Even of a stream with itself: its elements come twice."""
    build = GraphBuilder(parallelism=2)
    source = build.source(Spread([1, 2], [3]))
    left = build.add(NodeKind.MAP, "left", source, function=Plus(10))
    union = build.add(NodeKind.UNION, "union", left, source, source)
    after = build.add(NodeKind.MAP, "after", union, function=Plus(100))
    build.collect(after)
    plan = plan_job(build.graph())
    assert shape(plan) == [((0, 1, 3, 4), 2, [])]
    assert plan.stages[0].links[source] == (left, after, after)
    job = TestJob(tmp_path, Script(sizes=(1,)))
    job.run(build.graph())
    assert sorted(job.output) == sorted([*(n + 110 for n in (1, 2, 3)), *[n + 100 for n in (1, 2, 3)] * 2])


def test_union_across_stages(tmp_path) -> None:
    build = GraphBuilder(parallelism=2)
    left, right = build.source(Spread([1], [2]), name="left"), build.source([3], name="right")
    union = build.add(NodeKind.UNION, "union", left, right)
    build.collect(build.add(NodeKind.MAP, "map", union, function=Plus(1)))
    plan = plan_job(build.graph())
    assert [stage.parallelism for stage in plan.stages] == [2, 1, 2]
    assert [edge.partitioner for edge in plan.stages[2].inputs] == [
        Partitioner.FORWARD,
        Partitioner.REBALANCE,
    ]
    job = TestJob(tmp_path, Script())
    job.run(build.graph())
    assert sorted(job.output) == [2, 3, 4]


def test_what_goes_to_the_driver_needs_no_stage_behind_a_union(tmp_path) -> None:
    """A sink that collects runs where each of the streams runs, unless it has a parallelism of its own."""
    build = GraphBuilder(parallelism=2)
    numbers = build.source([(n % 3, n % 2) for n in range(12)], uid="numbers")
    threes = build.process(build.key_by(numbers, lambda e: e[0], Types.LONG()), Count(), uid="threes")
    twos = build.process(build.key_by(numbers, lambda e: e[1], Types.LONG()), Count(), uid="twos")
    both = build.add(NodeKind.UNION, "both", threes, twos)
    end = build.collect(both, uid="end")
    plan = plan_job(build.graph())
    assert [(stage.nodes, stage.inputs != (), stage.outputs == ()) for stage in plan.stages] == [
        ((numbers,), False, False),
        ((threes, end), True, True),
        ((twos, end), True, True),
    ]
    assert [stage.parallelism for stage in rescaled(plan, {"end": 3}).stages] == [1, 3, 3]
    with pytest.raises(ConfigurationError, match="'end' and 'twos' are chained"):
        rescaled(plan, {"end": 3, "twos": 1})
    job = TestJob(tmp_path, Script(sizes=(5,)))
    job.run(build.graph())
    assert sorted(count for _, count in job.output) == sorted([*range(1, 5)] * 3 + [*range(1, 7)] * 2)
    operators = job.commits[-1].operators
    assert [operator.uid for operator in operators] == ["numbers", "threes", "end", "twos"]
    build.collect(both, uid="alone", parallelism=1)
    assert [stage.nodes for stage in plan_job(build.graph()).stages][-1] == (end + 1,)


def test_another_parallelism_starts_a_stage_with_a_rebalance(tmp_path) -> None:
    build = GraphBuilder(parallelism=1)
    source = build.source(list(range(20)))
    spread = build.add(NodeKind.MAP, "spread", source, function=Plus(0), parallelism=3)
    same = build.add(NodeKind.MAP, "same", spread, function=Plus(0))
    build.collect(build.add(NodeKind.MAP, "one", same, function=Plus(1), parallelism=1))
    plan = plan_job(build.graph())
    assert shape(plan) == [
        ((0,), 1, [(0, 1, (1,), Partitioner.REBALANCE)]),
        ((1, 2), 3, [(2, 2, (3,), Partitioner.REBALANCE)]),
        ((3, 4), 1, []),
    ]
    job = TestJob(tmp_path, Script(sizes=(7,)))
    job.run(build.graph())
    assert sorted(job.output) == list(range(1, 21))
    shares = [[r.records_in for r in reports if r.stage == 1] for reports in job.reports]
    assert all(max(share) - min(share) <= 1 for share in shares)


def test_two_operators_on_one_keyed_stream_share_a_stage(tmp_path) -> None:
    """Their states are their own, although they have the same names; the exchange is made once."""
    build = GraphBuilder(parallelism=2)
    keyed = build.key_by(build.source([(n % 3, n) for n in range(12)]), lambda e: e[0], Types.LONG())
    first = build.process(keyed, Count(), name="first", uid="first")
    second = build.process(keyed, Count(), name="second", uid="second")
    build.collect(first)
    build.collect(second)
    plan = plan_job(build.graph())
    assert [stage.keyed for stage in plan.stages] == [False, True]
    assert len(plan.stages[0].outputs) == 1
    assert plan.stages[0].outputs[0].to_nodes == (first, second)
    job = TestJob(tmp_path, Script(sizes=(5,)))
    job.run(build.graph())
    expected = sorted((key, count) for key in range(3) for count in range(1, 5))
    assert [sorted(job.outputs[node]) for node in sorted(job.outputs)] == [expected, expected]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_two_key_by_stages_in_a_row(tmp_path, parallelism: int) -> None:
    build = GraphBuilder(parallelism=parallelism)
    keyed = build.key_by(build.source([(n % 4, n) for n in range(40)]), lambda e: e[0], Types.LONG())
    counts = build.process(keyed, Count(), uid="first")
    again = build.key_by(counts, lambda e: e[1] % 5, Types.LONG())
    build.collect(build.process(again, Count(), uid="second"))
    plan = plan_job(build.graph())
    assert [(stage.keyed, stage.parallelism) for stage in plan.stages] == [
        (False, 1),
        (True, parallelism),
        (True, parallelism),
    ]
    job = TestJob(tmp_path, Script(sizes=(7,)))
    job.run(build.graph())
    assert sorted(count for _, count in job.output) == sorted([*range(1, 9)] * 5)


def test_duplicate_uid_is_refused_by_name() -> None:
    build = GraphBuilder()
    source = build.source([1], uid="same", name="numbers")
    build.collect(build.add(NodeKind.MAP, "add", source, function=Plus(1), uid="same"))
    with pytest.raises(InvalidJobError, match="'numbers' and 'add' have the same uid 'same'"):
        plan_job(build.graph())


def test_parallelism_above_max_is_refused_with_both() -> None:
    build = GraphBuilder(parallelism=8, max_parallelism=4)
    keyed = build.key_by(build.source([(1, 1)]), lambda e: e[0])
    build.collect(build.process(keyed, Count(), name="counts"))
    with pytest.raises(InvalidJobError, match=r"parallelism 8 of .*'counts'.* max parallelism 4"):
        plan_job(build.graph())


def test_nothing_to_execute() -> None:
    build = GraphBuilder()
    build.source([1])
    with pytest.raises(InvalidJobError, match="no operators"):
        plan_job(build.graph())


@given(st.data())
def test_any_graph_is_cut_soundly(data: st.DataObject) -> None:
    """Operators are in one stage, the sink in one or more; data flows on; a chain has one parallelism; uids are unique."""
    build = GraphBuilder(parallelism=data.draw(st.integers(1, 3)))
    streams = [build.source([1])]
    for step in range(data.draw(st.integers(1, 8))):
        before = data.draw(st.sampled_from(streams))
        kind = data.draw(st.sampled_from(["map", "union", "key", "source", "wide"]))
        if kind == "map":
            streams.append(build.add(NodeKind.MAP, f"m{step}", before, function=Plus(1)))
        elif kind == "wide":
            wide = data.draw(st.integers(1, 3))
            streams.append(build.add(NodeKind.MAP, f"w{step}", before, function=Plus(1), parallelism=wide))
        elif kind == "union":
            streams.append(build.add(NodeKind.UNION, f"u{step}", before, data.draw(st.sampled_from(streams))))
        elif kind == "key":
            streams.append(build.process(build.key_by(before, lambda value: value), Count()))
        else:
            streams.append(build.source([1]))
    build.collect(streams[-1])
    graph: JobGraph = build.graph()
    plan = plan_job(graph)
    placed = [node for stage in plan.stages for node in stage.nodes]
    wanted = [node.id for node in graph.nodes if node.kind not in (NodeKind.KEY_BY, NodeKind.UNION)]
    assert sorted(set(placed)) == wanted
    assert len(placed) == len(wanted) or {n for n in placed if placed.count(n) > 1} == {wanted[-1]}
    assert len(set(plan.uids.values())) == len(plan.uids) == len(graph.nodes)
    assert plan_job(graph).uids == plan.uids
    for stage in plan.stages:
        for edge in stage.outputs:
            receiver = plan.stages[edge.to_stage]
            assert edge.to_stage > stage.id
            assert edge in receiver.inputs
            assert (edge.partitioner is Partitioner.HASH) == receiver.keyed
            assert edge.partitioner is not Partitioner.FORWARD or receiver.parallelism == stage.parallelism
        for receivers in stage.links.values():
            assert set(receivers) <= set(stage.nodes)
