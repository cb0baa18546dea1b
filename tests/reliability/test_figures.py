"""What a job does, in figures: in the rows of checkpoints, and in the snapshot that displays read."""

from __future__ import annotations

import json

from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Failure, Fault, Script

from api.common import Types
from api.datastream.functions import KeyedProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.driver.figures import PARTS
from changelog_engine.driver.orders import EpochOrders
from changelog_engine.state.sizes import size_of_dict


class Seen(KeyedProcessFunction):
    """Counts by key, and keeps every value."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.all = runtime_context.get_map_state(MapStateDescriptor("all", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.all.put(value, value)
        if value == 3:
            ctx.timer_service().register_event_time_timer(2**50)
        yield value


def seen_job(tmp_path, script, **settings):
    build = GraphBuilder(parallelism=2)
    keyed = build.key_by(build.source(range(20)), lambda value: value % 4)
    build.collect(build.process(keyed, Seen(), name="seen", uid="seen"))
    job = TestJob(tmp_path, script, **settings)
    job.run(build.graph())
    assert sorted(job.output) == list(range(20))
    return job


def total(figures, field):
    return sum(each[field] for each in figures)


def test_rows_of_checkpoints_tell_what_happened_since_the_one_before(tmp_path):
    job = seen_job(tmp_path, Script(sizes=(3,), barriers=(False, True)))
    figures = [checkpoint.figures for checkpoint in job.commits]
    assert len(figures) > 2
    assert total(figures, "records_in") == total(figures, "records_out") == 20
    assert total(figures, "epochs") == len(job.reports)
    for name, count in (("count", 20), ("all", 20)):
        assert sum(each["mutations"].get("seen", {}).get(name, 0) for each in figures) == count
    assert sum(sum(each["mutations"].get("seen", {}).values()) for each in figures) == sum(
        checkpoint.rows for checkpoint in job.commits
    )
    last = figures[-1]["sizes"]["seen"]
    assert (last["count"][0], last["all"][0]) == (4, 4)
    assert all(size > 0 for _, size in (last["count"], last["all"]))
    assert sum(each["sources"][uid][0] for each in figures for uid in each["sources"]) == 20
    assert all(set(each["times_ms"]) == set(PARTS) for each in figures)
    assert all(sum(ms for ms, _ in each["stages"].values()) > 0 for each in figures)


def test_only_orders_by_which_state_can_be_restored_carry_small_state(tmp_path, monkeypatch):
    """It has where each epoch since the checkpoint before ended: much, when epochs are short."""
    carried, of = [], EpochOrders.of

    def noted(orders, epoch):
        order = of(orders, epoch)
        each = order(0, 0)
        carried.append((each.epoch - each.committed_epoch, bool(each.operator_state)))
        return order

    monkeypatch.setattr(EpochOrders, "of", noted)
    seen_job(tmp_path, Script(sizes=(3,), barriers=(False, False, True)))
    assert {True, False} <= {some for _, some in carried}
    assert not [epoch for epoch, some in carried if some and epoch > 1]


def test_rows_of_full_snapshots_are_not_mutations(tmp_path):
    job = seen_job(tmp_path, Script(sizes=(3,), barriers=(False, True)), changelog=False)
    last = job.commits[-1]
    assert len(job.commits) > 2
    assert (last.rows, last.rows_in_words) == (24, "24 entries of state")
    assert last.figures["sizes"]["seen"]["all"][0] == 4
    assert all(checkpoint.figures["mutations"] == {} for checkpoint in job.commits)
    assert {stats.mutations for stats in job.stats} == {0}


def test_what_an_attempt_lost_is_not_counted_in_rows(tmp_path):
    job = seen_job(tmp_path, Script(sizes=(3,), barriers=(False, True), failures=(Failure(3, Fault.GONE),)))
    figures = [checkpoint.figures for checkpoint in job.commits]
    assert total(figures, "records_in") == 20
    assert figures[-1]["restarts"] == 1
    run = job.monitor.latest
    assert run.records_again > 0
    assert run.records_in - run.records_again == 20


def test_rows_of_older_engines_open(tmp_path):
    job = seen_job(tmp_path, Script(sizes=(10,)))
    document = json.loads(job.commits[-1].to_json())
    del document["figures"]
    assert Checkpoint.from_json(json.dumps(document)).figures == {}


def test_the_size_of_a_table_costs_the_same_however_large_it_is():
    small = {key: {"a": [1, 2, 3]} for key in range(1_000)}
    large = {0: dict.fromkeys(range(100000), "x" * 50)}
    assert size_of_dict({}) == (0, 0)
    assert size_of_dict(small).entries == 1_000
    assert 300_000 < size_of_dict(small).bytes < 1_000_000
    assert 5_000_000 < size_of_dict(large).bytes < 30_000_000
