"""Metrics of functions reach the observer of a job with each epoch's figures."""

from __future__ import annotations

from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Script

from api.datastream.functions import KeyedProcessFunction


class Counted(KeyedProcessFunction):
    """Counts what it sees, in a metric."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group().add_group("kind", "seen")
        self.seen = group.counter("elements")
        group.gauge("odd", object)  # no number: it must not stop the job

    def process_element(self, value, ctx):
        self.seen.inc()
        yield value


def test_figures_come_with_each_epoch(tmp_path):
    build = GraphBuilder(parallelism=2)
    keyed = build.key_by(build.source(range(10)), lambda value: value % 3)
    build.collect(build.process(keyed, Counted(), name="count"))
    job = TestJob(tmp_path, Script(sizes=(5,)))
    job.run(build.graph())
    assert sorted(job.output) == list(range(10))
    names = [f"count.{subtask}.kind.seen.{metric}" for subtask in (0, 1) for metric in ("elements", "odd")]
    totals = []
    for stats in job.stats:
        assert sorted(stats.metrics) == sorted(names)
        assert stats.metrics["count.0.kind.seen.odd"] is None
        totals.append(sum(figure or 0 for figure in stats.metrics.values()))
    assert totals == sorted(totals)
    assert (totals[0], totals[-1]) == (5, 10)


def test_jobs_without_metrics_report_none(tmp_path):
    build = GraphBuilder()
    build.collect(build.source([1, 2]))
    job = TestJob(tmp_path)
    job.run(build.graph())
    assert job.stats
    assert all(stats.metrics == {} for stats in job.stats)
