"""Random small jobs against a plain-Python evaluator: whatever the parallelism, epochs, backend, changelog and crashes."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.jobs import TestJob
from support.reference import KEYED_STEPS, STEPS, Program
from support.script import Failure, Fault, Script

from changelog_engine.connectors.sinks import CollectSink
from changelog_engine.graph.nodes import JobGraph

elements = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 120), st.integers(-3, 6)), min_size=1, max_size=40
).map(tuple)
programs = st.builds(
    Program, elements, st.lists(st.sampled_from(STEPS), max_size=3).map(tuple), st.sampled_from(KEYED_STEPS)
).filter(lambda program: program.comparable)
# Faults after which no output is lost: what is collected reaches the test when its checkpoint is durable.
faults = st.sampled_from([Fault.WORKER, Fault.SUBTASK, Fault.GONE, Fault.COMMIT_FAILS, Fault.PARTS])
failures = st.lists(st.builds(Failure, st.integers(1, 6), faults), max_size=2).map(tuple)
scripts = st.builds(
    Script,
    st.lists(st.integers(4, 20), min_size=1, max_size=4).map(tuple),
    st.lists(st.booleans(), min_size=1, max_size=3).map(tuple),
    failures,
)


def run(program: Program, parallelism: int, script: Script | None, **settings: Any) -> Counter[Any]:
    graph, sink = program.graph(parallelism)
    nodes = list(graph.nodes)
    nodes[sink] = replace(nodes[sink], function=CollectSink())
    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script, **settings)
        job.run(JobGraph(graph.name, tuple(nodes), graph.parallelism, graph.max_parallelism))
    return Counter(job.output)


@given(
    program=programs,
    parallelism=st.integers(1, 3),
    script=scripts,
    changelog=st.booleans(),
    backend=st.sampled_from(["hashmap", "rocksdb"]),
    read_ahead=st.booleans(),
)
def test_a_random_job_gives_what_plain_python_gives(
    program: Program, parallelism: int, script: Script, changelog: bool, backend: str, read_ahead: bool
) -> None:
    found = run(
        program, parallelism, script, changelog=changelog, state_backend=backend, read_ahead=read_ahead
    )
    assert found == program.results(batch=False)


@given(program=programs, parallelism=st.integers(1, 3), size=st.integers(1, 20))
def test_a_random_job_in_batch_mode_gives_final_results(
    program: Program, parallelism: int, size: int
) -> None:
    found = run(program, parallelism, None, checkpoint_interval_ms=None, batch=True, epoch_max_records=size)
    assert found == program.results(batch=True)
