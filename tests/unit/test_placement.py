"""How many executors a job waits for, how long, and what it says."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import pickle
import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext, TaskContext
from support.functions import Count
from support.graphs import keyed_job

from api.common import Types
from changelog_engine.errors import ConfigurationError, EpochFailedError, StateLostError, StorageError
from changelog_engine.graph.plan import plan_job
from changelog_engine.operators.blocks import encode_report
from changelog_engine.operators.messages import EpochReport
from changelog_engine.spark import background, early_workers, epoch_job, epoch_watch, own_executors, session
from changelog_engine.spark.background import BackgroundTasks, _locked
from changelog_engine.spark.epoch_job import SparkEpochRunner
from changelog_engine.spark.epoch_watch import EpochWatch
from changelog_engine.spark.jvm_options import JvmSettings
from changelog_engine.spark.placement import Executor, Placement, Wanted, wanted
from changelog_engine.spark.session import (
    BACKGROUND_SLOTS,
    _add_slot,
    _not_started,
    local_cores,
    spark_context,
    task_cpus,
)
from changelog_engine.spark.session_options import session_options
from changelog_engine.spark.spare_room import concurrent_stages, spare_location
from changelog_engine.spark.stage_rdds import streams_are_plain
from changelog_engine.spark.task import StageTask, describe_failure, failure_of
from changelog_engine.storage.locks import is_stopped

EXECUTORS = "spark.executor.instances"
LEAST = "spark.dynamicAllocation.minExecutors"
MOST = "spark.dynamicAllocation.maxExecutors"
RATIO = "spark.scheduler.minRegisteredResourcesRatio"
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("local-cluster[3, 2, 1024]", {}, Wanted(3, 8)),
        ("spark://host:7077", {}, Wanted(None, 8)),
        ("spark://host:7077", {"spark.cores.max": "6"}, Wanted(None, 6)),
        ("spark://host:7077", {"spark.cores.max": "6", "spark.task.cpus": "2"}, Wanted(None, 3)),
        ("spark://host:7077", {"spark.cores.max": "7", "spark.executor.cores": "2"}, Wanted(3, 8)),
        ("spark://host:7077", {EXECUTORS: "9"}, Wanted(None, 8)),  # a standalone master does not ask for it
        ("yarn", {}, Wanted(2, 8)),
        ("yarn", {EXECUTORS: "10"}, Wanted(10, 8)),
        ("yarn", {EXECUTORS: "10", "spark.scheduler.minRegisteredResourcesRatio": "0.75"}, Wanted(8, 8)),
        ("k8s://https://host:443", {}, Wanted(2, 8)),
        ("k8s://https://host:443", {EXECUTORS: "4"}, Wanted(4, 8)),
        ("yarn", {**DYNAMIC, "spark.dynamicAllocation.minExecutors": "3", EXECUTORS: "2"}, Wanted(3, 8)),
        ("yarn", DYNAMIC, Wanted(None, 8)),
        ("yarn", {**DYNAMIC, LEAST: "3", RATIO: "0.5"}, Wanted(2, 8)),
        ("yarn", {RATIO: "0.5"}, Wanted(1, 8)),
        (
            "spark://host:7077",
            {"spark.cores.max": "8", "spark.executor.cores": "2", RATIO: "0.6"},
            Wanted(3, 8),
        ),
        ("somebody's own", {}, Wanted(None, 8)),
        ("somebody's own", {EXECUTORS: "4"}, Wanted(4, 8)),
    ],
)
def test_what_an_application_asked_for(master: str, conf: dict[str, str], expected: Wanted) -> None:
    assert wanted(master, conf.get, 8) == expected


class Scheduler:
    """As much of a SparkContext as a placement asks; executors (id, cores, profile) come and go by the clock.

    Args:
        steps: from which second on which executors are there.
        conf: of the application.
    """

    def __init__(self, steps: dict[float, list[tuple[str, int, int]]], conf: dict[str, str]) -> None:
        self.steps, self.conf, self.now = steps, conf, 0.0
        self.about_to_go: set[str] = set()
        self.unheard: set[str] = set()  # registered, and their connections are gone
        self.gone: list[tuple[str, int, int]] = []  # that the status still lists
        self.requests, self.deaf_until = 0, 0.0
        self.master, self._jsc, self._jvm, self.requested = "spark://host:7077", self, mock.Mock(), 0
        self._jvm.PythonUtils.toSeq, self._jvm.scala.Tuple2 = list, lambda data, where: where
        self.stored: list[Stored] = []

    def getConf(self) -> dict[str, str]:
        return self.conf

    def sc(self) -> Scheduler:
        return self

    def statusStore(self) -> Scheduler:
        return self

    def isStopped(self) -> bool:
        return False

    def schedulerBackend(self) -> Scheduler:
        return self

    def isExecutorActive(self, id_: str) -> bool:
        return id_ not in self.about_to_go

    def requestTotalExecutors(self, number: int, aware: int, where: Any) -> None:
        if self.now < self.deaf_until:
            raise Unanswered
        self.requested = number
        self.requests += 1

    def there(self) -> list[tuple[str, int, int]]:
        return next(there for since, there in reversed(self.steps.items()) if since <= self.now)

    def taskScheduler(self) -> Scheduler | None:
        return None if self.isStopped() else self

    def runningTasksByExecutors(self) -> Scheduler:
        return self

    def getExecutorIds(self) -> Any:
        return Listed([id_ for id_, _, _ in self.there()])

    def keys(self) -> Any:
        return Listed([id_ for id_, _, _ in self.there() if id_ not in self.unheard])

    def executorList(self, active: bool) -> Any:
        return Listed([Summary(*executor) for executor in [("driver", 0, 0), *self.gone, *self.there()]])

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def makeRDD(self, elements: list[list[str]], tag: Any) -> Stored:
        self.stored.append(Stored([where for (where,) in elements]))
        return self.stored[-1]


class Stored:
    """What executors store, once a job has counted it."""

    def __init__(self, where: list[str]) -> None:
        self.where, self.counted, self.cancelled, self.gone = (
            where,
            threading.Event(),
            False,
            threading.Event(),
        )

    def cache(self) -> Stored:
        return self

    toJavaRDD = countAsync = cache

    def get(self) -> None:
        self.counted.wait(60)

    def cancel(self, interrupt: bool) -> None:
        self.cancelled = True

    def unpersist(self, blocking: bool) -> None:
        assert self.cancelled, "what has not run would be stored after all"
        self.gone.set()


class Unanswered(Py4JJavaError):
    """What Spark raises whose application's master on YARN is gone."""

    def __init__(self) -> None:
        """Without a JVM to ask."""

    def __str__(self) -> str:
        return "org.apache.spark.SparkException: Exception thrown in awaitResult: "


class Listed(list[Any]):
    """A sequence of Scala's."""

    def size(self) -> int:
        return len(self)

    def apply(self, number: int) -> Any:
        return self[number]

    def mkString(self, between: str) -> str:
        return between.join(self)


class Summary:
    """What Spark's status says of an executor."""

    def __init__(self, id_: str, cores: int, profile: int) -> None:
        self.id = lambda: id_
        self.hostPort = lambda: f"10.0.0.{id_}:7077" if cores else None
        self.totalCores = lambda: cores
        self.resourceProfileId = lambda: profile


def placed(scheduler: Scheduler, subtasks: int = 4, cancelled: Any = lambda: None) -> Placement:
    return Placement(scheduler, [1, subtasks], cancelled, lambda: scheduler.now, scheduler.pause)  # type: ignore[arg-type]


def test_a_second_executor_that_comes_late_is_waited_for_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    late = {0: [("0", 2, 0)], 40: [("0", 2, 0), ("10", 2, 0), ("9", 8, 7)]}
    scheduler = Scheduler(late, {})
    placement = placed(scheduler)
    awaited: list[str] = []
    placement._pause = lambda seconds: (awaited.append(placement.awaited), scheduler.pause(seconds))[1]
    with caplog.at_level(logging.WARNING, "changelog_engine"):
        assert placement.place(1)
    assert set(awaited) == {"1 executor registered, with room for 2 of 4 tasks at a time"}
    assert not placement.awaited
    assert placement.executors == [Executor("0", "10.0.0.0", 2), Executor("10", "10.0.0.10", 2)]
    assert 40 <= scheduler.now < 41
    assert "1 executor registered, with room for 2 of 4 tasks at a time on spark://host:7077" in caplog.text
    assert "at most 55 s more" in caplog.text
    assert caplog.text.count("the job waits for the rest") == 2, "not at each look"
    where = [placement.location(subtask, 4) for subtask in range(4)]
    assert where == ["executor_10.0.0.0_0"] * 2 + ["executor_10.0.0.10_10"] * 2
    assert not placement.place(1)
    assert not placement.lost()


def test_a_job_goes_on_with_fewer_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    conf = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "20s"}
    # At first without a place
    scheduler = Scheduler({0: [("0", 0, 0)], 30: [("0", 3, 0), ("1", 1, 0)]}, conf)
    placement = placed(scheduler, subtasks=8)
    with caplog.at_level(logging.WARNING, "changelog_engine"):
        assert placement.place(1)
    assert 50 <= scheduler.now < 51
    assert "after 50 s: the job goes on with what is there" in caplog.text
    # The one with three cores has three of four subtasks.
    assert [placement.location(subtask, 8)[-1] for subtask in range(8)] == list("00000011")


def test_a_lost_executor_is_replaced_or_done_without() -> None:
    steps = {
        0: [("0", 2, 0), ("1", 2, 0)],
        10: [("1", 2, 0)],
        12: [("1", 2, 0), ("2", 2, 0)],
        100: [("2", 2, 0)],
    }
    scheduler = Scheduler(steps, {"spark.cores.max": "4", "spark.executor.cores": "2"})
    placement = placed(scheduler)
    assert placement.place(1)
    scheduler.now = 10
    assert placement.lost() == ["executor_10.0.0.0_0"]
    assert placement.place(1)
    assert [executor.id for executor in placement.executors] == ["1", "2"]
    assert 12 <= scheduler.now < 13
    scheduler.now = 100
    assert placement.place(2)
    assert [executor.id for executor in placement.executors] == ["2"]
    assert 110 <= scheduler.now < 111


def test_an_executor_whose_connection_is_gone_is_lost() -> None:
    """It is registered until YARN says what became of it: of a lost machine, by default, after 10 minutes."""
    scheduler = Scheduler({0: [("0", 2, 0), ("1", 2, 0)]}, {"spark.executor.instances": "2"})
    scheduler.master = "yarn"
    placement = placed(scheduler)
    assert placement.place(1)
    scheduler.unheard = {"1"}
    assert placement.lost() == ["executor_10.0.0.1_1"]
    assert placement.place(2)
    assert placement.executors == [Executor("0", "10.0.0.0", 2)]


def test_executors_are_asked_for_again_where_the_applications_master_is_gone() -> None:
    """YARN starts another one, and executors with it."""
    scheduler = Scheduler({0: [], 20: [("0", 2, 0), ("1", 2, 0)]}, DYNAMIC | {"spark.executor.cores": "2"})
    scheduler.deaf_until = 12
    placement = placed(scheduler)
    assert placement.place(1)
    assert len(placement.executors) == 2
    assert scheduler.requested == 2
    scheduler.isStopped = lambda: True  # type: ignore[method-assign]
    scheduler.deaf_until = 1000
    assert placement.lost() == []
    with pytest.raises(Unanswered):
        placement.come(8, lambda: False)


def test_an_executor_without_subtasks_may_go() -> None:
    """Dynamic allocation takes away what idles: no epoch fails for it, and none is waited for in its place."""
    steps = {0: [("0", 1, 0), ("1", 1, 0), ("2", 1, 0)], 60: [("0", 1, 0), ("1", 1, 0)], 90: [("0", 1, 0)]}
    scheduler = Scheduler(steps, DYNAMIC | {"spark.dynamicAllocation.initialExecutors": "3"})
    placement = Placement(scheduler, [1, 2], lambda: None, lambda: scheduler.now, scheduler.pause)  # type: ignore[arg-type]
    assert placement.place(1)
    assert [placement.location(0, 1)[-1], *(placement.location(n, 2)[-1] for n in (0, 1))] == list("001")
    scheduler.now = 60
    assert placement.lost() == []
    assert not placement.place(1)
    assert [executor.id for executor in placement.there()] == ["0", "1"]
    scheduler.now = 90
    assert placement.lost() == ["executor_10.0.0.1_1"]
    placement.resize([1])
    assert placement.place(2)
    assert placement.executors == [Executor("0", "10.0.0.0", 1)]
    assert scheduler.now < 91


def test_an_executor_whose_subtasks_wait_for_others_stays() -> None:
    """Spark takes none for idle that stores something: else an epoch that one subtask is long at would never end."""
    names = [f"executor_10.0.0.{number}_{number}" for number in range(3)]
    scheduler = Scheduler({0: [("0", 1, 0), ("1", 1, 0), ("2", 1, 0)]}, DYNAMIC)
    placement = Placement(scheduler, [1, 2], lambda: None, lambda: scheduler.now, scheduler.pause)  # type: ignore[arg-type]
    assert placement.place(1)
    placement.place(2)
    assert [stored.where for stored in scheduler.stored] == [names[:2]], "what they store they have already"
    placement.resize([1])
    placement.place(3)
    first, second = scheduler.stored
    assert second.where == names[:1]
    assert not first.gone.is_set(), "an executor would store nothing for a moment"
    second.counted.set()
    assert first.gone.wait(60)
    assert not second.gone.is_set()
    placement.let_go()
    assert second.gone.is_set()


def test_an_attempt_does_not_begin_on_executors_that_are_about_to_go() -> None:
    scheduler = Scheduler({0: [("0", 1, 0), ("1", 1, 0)], 3: [("1", 1, 0), ("2", 1, 0)]}, DYNAMIC)
    scheduler.about_to_go = {"0"}
    placement = placed(scheduler, subtasks=2)
    assert placement.place(1)
    assert [executor.id for executor in placement.executors] == ["1", "2"]


def test_executors_that_do_not_go_by_themselves_store_nothing() -> None:
    scheduler = Scheduler({0: [("0", 4, 0)]}, {})
    assert placed(scheduler).place(1)
    assert not scheduler.stored


def test_more_executors_than_were_asked_for_are_not_waited_for_when_one_is_lost() -> None:
    steps = {0: [(id_, 2, 0) for id_ in "012"], 10: [("1", 2, 0), ("2", 2, 0)]}
    scheduler = Scheduler(steps, {"spark.cores.max": "4", "spark.executor.cores": "2"})
    placement = placed(scheduler, subtasks=6)
    assert placement.place(1)
    assert len(placement.executors) == 3
    scheduler.now = 10
    assert placement.place(2)
    assert scheduler.now == 10


def test_executors_are_those_of_the_scheduler_in_the_order_of_their_numbers() -> None:
    scheduler = Scheduler({0: [("10", 3, 0), ("9", 1, 0)]}, {"spark.task.cpus": "2"})
    scheduler.gone = [("8", 4, 0)]
    placement = placed(scheduler, subtasks=2)
    assert placement.place(1)
    assert placement.executors == [Executor("9", "10.0.0.9", 1), Executor("10", "10.0.0.10", 1)]
    assert not Wanted(0, 1).suffices([])


@pytest.mark.parametrize(
    ("conf", "there", "expected"),
    [
        ({}, [], None),
        ({}, [("0", 2, 0), ("1", 1, 0)], 3),
        (DYNAMIC, [("0", 2, 0)], None),
        ({**DYNAMIC, MOST: "3", "spark.executor.cores": "2"}, [("0", 2, 0)], 6),
        ({**DYNAMIC, MOST: "1", "spark.executor.cores": "2"}, [("0", 2, 0), ("1", 2, 0)], 4),
    ],
)
def test_how_many_tasks_run_at_a_time(
    conf: dict[str, str], there: list[tuple[str, int, int]], expected: int | None
) -> None:
    assert placed(Scheduler({0: there}, conf)).slots() == expected


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"spark.dynamicAllocation.initialExecutors": "9"}, 9),
        ({"spark.executor.cores": "4", "spark.task.cpus": "2"}, 4),
        ({"spark.executor.cores": "2", MOST: "3"}, 3),
        ({"spark.scheduler.maxRegisteredResourcesWaitingTime": "20 parsecs"}, 8),
    ],
)
def test_executors_that_come_and_go_are_asked_for(conf: dict[str, str], expected: int) -> None:
    scheduler = Scheduler({0: [], 1: [(str(number), 4, 0) for number in range(8)]}, DYNAMIC | conf)
    assert placed(scheduler, subtasks=8).place(1)
    assert scheduler.requested == expected


def test_executors_that_idle_while_others_are_waited_for_do_not_go() -> None:
    initial = {
        "spark.dynamicAllocation.initialExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "9",
    }
    scheduler = Scheduler(
        {0: [("0", 1, 0)], 100: [("0", 1, 0), ("1", 1, 0)], 200: [("1", 1, 0)]}, DYNAMIC | initial
    )
    placement = placed(scheduler, subtasks=2)
    assert placement.place(1)
    assert 4 < scheduler.now < 5
    scheduler.now = 100
    assert placement.place(2)
    scheduler.now = 200
    assert placement.place(2)
    assert 204 < scheduler.now < 205


def test_executors_for_more_subtasks_come_while_epochs_run() -> None:
    one, two = [("0", 2, 0)], [("0", 2, 0), ("1", 2, 0)]
    conf = DYNAMIC | {"spark.executor.cores": "2"}
    scheduler = Scheduler({0: one, 5: [*one, ("9", 2, 0)], 10: two}, conf)
    scheduler.about_to_go = {"9"}
    placement = placed(scheduler, subtasks=2)
    assert placement.place(1)
    scheduler.about_to_go = {"0", "9"}  # one that has subtasks does not go
    assert placement.come(2, lambda: False) == placement.executors
    assert scheduler.now == scheduler.requested == 0
    came = placement.come(4, lambda: False)
    assert scheduler.requested == 2
    assert 10 <= scheduler.now < 11
    assert [placement.location(n, 4, came)[-1] for n in range(4)] == list("0011")
    assert placement.location(1, 2)[-1] == "0", "the epochs go on where they are"
    scheduler.about_to_go = {"9"}
    placement.resize([4])
    assert placement.place(2)
    assert placement.executors == came
    assert len(placement.come(8, lambda: scheduler.now > 15)) == 2, "the job has ended"
    assert scheduler.now < 16
    asked = scheduler.requests
    assert len(placement.come(8, lambda: False)) == 2, "the cluster has no room"
    assert 75 <= scheduler.now < 77
    assert scheduler.requests - asked < 15, "not at each look"
    without = Scheduler({0: one}, {"spark.executor.cores": "2"})
    assert len(placed(without, subtasks=2).come(8, lambda: False)) == 1
    assert without.now == 0


def test_a_rescaled_job_asks_for_executors_and_waits_for_none() -> None:
    scheduler = Scheduler({0: [("0", 2, 0)]}, DYNAMIC | {"spark.executor.cores": "2"})
    placement = placed(scheduler, subtasks=2)
    assert placement.place(1)
    assert scheduler.requested == 0
    placement.resize([6])
    assert not placement.place(2)
    assert scheduler.requested == 3
    assert scheduler.now == 0
    assert [placement.location(subtask, 6)[-1] for subtask in range(6)] == list("000000")


def test_no_executor_at_all_is_an_error_and_waiting_can_be_cancelled() -> None:
    scheduler = Scheduler({0: []}, DYNAMIC | {"spark.executor.cores": "2"})
    with pytest.raises(
        EpochFailedError,
        match=r"no executor registered within 300 s on spark://host:7077: see there.*; or the master has ended",
    ):
        placed(scheduler).place(1)
    assert scheduler.requested == 2
    with pytest.raises(EpochFailedError, match="stopped"):
        placed(scheduler, cancelled=lambda: "stopped").place(1)


def test_an_epoch_whose_executor_is_lost_is_cancelled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_watch, "_LOOK_S", 0.001)
    gone = ["executor_10.0.0.1_1"]
    looks = iter([[], [], gone, gone])
    twice, cancelled = threading.Event(), []

    def cancel() -> None:
        cancelled.append(1)
        if len(cancelled) == 2:  # Spark had not heard of the epoch's job before
            twice.set()

    watch = EpochWatch(cancel, lambda: next(looks, gone))
    with watch.over(1000):
        assert twice.wait(60)
    assert watch.reason == "executors were lost: executor_10.0.0.1_1"
    twice.clear()
    cancelled.clear()
    watch = EpochWatch(cancel, None, lambda: ": 'count' runs in 1 of 2 subtasks")
    with watch.over(0.001):
        assert twice.wait(60)
    assert watch.reason == (
        "the epoch took longer than 0 s: 'count' runs in 1 of 2 subtasks. Look whether what its functions and sinks call "
        "stands still, as a service that does not answer; if it is only slow, set execution.checkpointing.timeout longer"
    )
    looked, ended = threading.Event(), threading.Event()

    def lost() -> list[str]:
        looked.set()
        assert ended.wait(60)
        return gone

    watch = EpochWatch(mock.Mock(), lost)
    before = set(threading.enumerate())
    with watch.over(1000):
        (watcher,) = set(threading.enumerate()) - before
        assert looked.wait(60)
    ended.set()
    watcher.join(60)
    assert watch.reason is None, "the epoch had ended: the next one is not cancelled for it"


def test_what_spark_ran_a_second_time_or_lost_fails_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have taken what a subtask gave the first time, and state would be folded without what is missing."""
    stage_task = StageTask(mock.Mock(), [b"no order that may be looked at"], 1, 0, 2, False, None)
    monkeypatch.setattr(TaskContext, "get", lambda: mock.Mock(attemptNumber=lambda: 1))
    _, refused, *more = list(stage_task(0, []))
    assert more[1] == refused, "each receiver is told"
    assert isinstance(failure_of(refused), StateLostError)
    assert (
        list(stage_task(0, [b"", describe_failure(EpochFailedError("the cause"))]))[1::2]
        == [describe_failure(EpochFailedError("the cause"))] * 2
    )

    def epoch(collected: list[bytes], lost: tuple[str, ...] = ()) -> list[EpochReport]:
        runner = SparkEpochRunner.__new__(SparkEpochRunner)
        vars(runner).update(
            dict.fromkeys(("context", "_watch", "_errands", "_workers", "_rdds", "_ahead"), mock.MagicMock()),
            plan=mock.Mock(stages=[mock.Mock(id=0, parallelism=2)]), _epochs=0, _ended={}, _printed=None,
            _placement=mock.Mock(lost=lambda: list(lost)), _build=mock.Mock(), _reads_ahead=False,
        )  # fmt: skip
        runner._rdds.collect.return_value = collected  # type: ignore[attr-defined]
        return runner.run(mock.Mock(), 1.0)

    monkeypatch.setattr(epoch_job, "spark_ended", lambda context, error: None)
    both = [encode_report(EpochReport(0, subtask)) for subtask in (1, 0)]
    assert [report.subtask for report in epoch(both)] == [0, 1]
    with pytest.raises(EpochFailedError, match="executors were lost: executor_a_1"):
        epoch(both, ("executor_a_1",))
    for wrong in (both[:1], [*both, both[0]]):
        with pytest.raises(EpochFailedError, match="gave reports of"):
            epoch(wrong)
    with pytest.raises(EpochFailedError, match="the cause"):
        epoch([refused, describe_failure(EpochFailedError("the cause"))])


def test_an_epoch_that_a_stopped_process_holds_up_names_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(epoch_watch, "_LONG_S", 0.001)
    command = ["sh", "-c", "sh -c 'echo $$; kill -STOP $$'; :"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            while not is_stopped(pid):
                assert process.poll() is None
            watch = EpochWatch(mock.Mock(), None)
            with watch.over(1000):
                while not caplog.messages:
                    time.sleep(0.001)
            assert watch.reason is None
            cancelled = threading.Event()
            watch = EpochWatch(cancelled.set, None)
            with watch.over(0.001):
                assert cancelled.wait(60)
        finally:
            os.kill(pid, signal.SIGKILL)
    told = f"; process {pid} of it on this machine is stopped: let it go on (kill -CONT {pid}), or end it (kill -KILL {pid})"
    assert caplog.messages[0] == f"the epoch does not end{told}"
    assert watch.reason == f"the epoch took longer than 0 s{told}"


@pytest.mark.parametrize("cause", ["an executor is lost", "the job ended"])
def test_processes_for_a_rescale_are_not_waited_for_in_vain(
    cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tasks would wait half a minute for the executor that is gone, and the rescale with them."""
    monkeypatch.setattr(early_workers, "_LOOK_S", 0.001)
    context = mock.Mock()
    looks, ended = iter([{"1", "2"}] * 3 + [{"2"}] * 9), threading.Event()
    placement = mock.Mock(alive=lambda: {"1", "2", "3"} if cause == "the job ended" else next(looks))
    over = iter([False, False, cause == "the job ended"] + [False] * 9)
    context.cancelJobGroup.side_effect = lambda group: ended.set()
    workers = early_workers.EarlyWorkers(context, "run", mock.Mock(), placement, mock.Mock())
    workers._watch(ended, lambda: next(over), {"1", "2"})
    context.cancelJobGroup.assert_called_once_with("run rescale")


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_case_12_what_workers_need_has_no_room_on_the_drivers_disk(master: str) -> None:
    """PySpark writes a file and raises a PicklingError, which no restart strategy knows."""
    told = "Could not serialize broadcast: OSError: [Errno 28] No space left on device"
    runner = epoch_job.SparkEpochRunner.__new__(epoch_job.SparkEpochRunner)
    runner.context = mock.Mock(master=master, _temp_dir="/small/spark-1/pyspark-2")
    runner.context._gateway.proc.poll.return_value = None
    runner.context.broadcast.side_effect = pickle.PicklingError(told)
    where = "/small/spark-1 for" if master.startswith("local") else "the folders of Spark on the driver's"
    with pytest.raises(
        EpochFailedError, match=f"disk full: there is no room in {where}.*Spark says: {re.escape(told)}"
    ):
        runner._broadcast(mock.Mock())


def test_a_snapshot_whose_executor_goes_for_good_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its task would wait for one to the job's end, and no other snapshot be made."""
    monkeypatch.setattr(own_executors, "_LOOK_S", 0.001)
    context, given_up = mock.MagicMock(master="spark://host:7077"), threading.Event()
    context.getConf().get.side_effect = DYNAMIC.get
    executors = own_executors.OwnExecutors(context, own_executors.ExecutorsWanted(), "upkeep", 0.01)
    executors._profile = mock.Mock(id=lambda: 1)
    profiles = [1, 0]

    def listed(active: bool) -> mock.Mock:
        found = profiles[:]
        return mock.Mock(
            size=lambda: len(found), apply=lambda n: mock.Mock(resourceProfileId=lambda: found[n])
        )

    context._jsc.sc().statusStore().executorList = listed
    tasks = BackgroundTasks(context, "upkeep", executors=executors)
    assert tasks.ready()
    context.cancelJobGroup.side_effect = lambda group: given_up.set()

    def answer(tasks: BackgroundTasks, command: bytes, task: int) -> bool:
        return given_up.wait(task)

    monkeypatch.setattr(BackgroundTasks, "_run", answer)
    assert tasks.map(str, [0.2]) == [False]
    profiles.remove(1)
    assert tasks.map(str, [60]) == [True]
    context.cancelJobGroup.assert_called_once_with(tasks._group)
    assert not tasks.ready(), "another runner makes the next one"


@pytest.mark.parametrize(
    ("given", "master"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2, 1]", "local[2, 1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_spark_runs_a_task_of_the_command_again_whose_worker_is_lost(
    monkeypatch: pytest.MonkeyPatch, given: str, master: str
) -> None:
    opened = mock.Mock(return_value=mock.MagicMock(defaultParallelism=2))
    monkeypatch.setattr(background, "spark_context", opened)
    background.tasks_on(given, "upkeep")
    opened.assert_called_once_with({"spark.master": master, "spark.task.maxFailures": "4"})


@pytest.mark.parametrize(
    ("conf", "plain"),
    [
        ({}, True),
        ({"spark.shuffle.sort.bypassMergeThreshold": "3", "spark.shuffle.manager": "sort"}, True),
        ({"spark.shuffle.push.enabled": "true"}, False),
        ({"spark.shuffle.manager": "org.apache.spark.shuffle.celeborn.SparkShuffleManager"}, False),
    ],
)
def test_blocks_go_without_kryo_where_streams_are_left_as_they_are(conf: dict[str, str], plain: bool) -> None:
    """Java's serializer cannot read two streams that somebody made one of."""
    assert streams_are_plain(conf.get) is plain


@pytest.mark.parametrize(
    ("most", "conf", "may"),
    [
        (1, DYNAMIC, True),
        (1, {}, False),
        (0, DYNAMIC, False),
        (1, {**DYNAMIC, LEAST: "2"}, False),
        (2, {**DYNAMIC, LEAST: "2"}, True),
    ],
)
def test_which_sessions_have_executors_for_snapshots(most: int, conf: dict[str, str], may: bool) -> None:
    """Spark has ``minExecutors`` of each profile, and never takes those away."""
    context = mock.MagicMock()
    context.getConf().get.side_effect = conf.get
    assert own_executors.OwnExecutors.may_come(context, own_executors.ExecutorsWanted(most)) == may


def test_what_the_installation_says_counts_unless_the_job_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.master local[9]\nspark.master   spark://host:7077\nspark.driver.memory=3g\nspark.task.maxFailures 4\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    conf = session_options({"spark.driver.memory": "2g"}, JvmSettings())
    assert conf.get("spark.master") == "spark://host:7077"
    assert conf.get("spark.driver.memory") == "2g"
    assert conf.get("spark.task.maxFailures") == "1"  # what an epoch needs stays
    assert session_options({"spark.master": "local[3]"}, JvmSettings())["spark.master"] == "local[3]"


def test_sockets_on_yarn_lie_where_their_paths_are_short() -> None:
    """A container's temporary folder has a path of some 130 characters; that of a Unix socket has 108 at most."""
    key = "spark.python.unix.domain.socket.dir"
    assert session_options({"spark.master": "yarn"}, JvmSettings())[key] == "/tmp"
    assert session_options({"spark.master": "yarn", key: "/run"}, JvmSettings())[key] == "/run"
    assert key not in session_options({"spark.master": "spark://host:7077"}, JvmSettings())


@pytest.mark.parametrize(
    ("slots", "spare"),
    [((4,), "0"), ((3, 2), "0"), ((2, 3), "1"), ((2, 2), "1"), ((3,), None), ((2, 1), None), ((), None)],
)
def test_background_tasks_go_where_epochs_leave_a_slot(slots: tuple[int, ...], spare: str | None) -> None:
    """A source and a keyed stage, one after the other, of three subtasks each."""
    plan = plan_job(keyed_job([], Count(), key_type=Types.LONG(), parallelism=3))
    assert [[stage.id for stage in stages] for stages in concurrent_stages(plan)] == [[0], [1]]
    assert [[stage.id for stage in stages] for stages in concurrent_stages(plan, {0})] == [[0, 1], [0, 1]]
    there = [(str(number), count, 0) for number, count in enumerate(slots)]
    placement = Placement(Scheduler({0: there}, {}), [3], lambda: None)  # type: ignore[arg-type]
    placement.executors = [Executor(str(number), "host", count) for number, count in enumerate(slots)]
    found = spare_location(placement, plan)
    assert found == (None if spare is None else f"executor_host_{spare}")
    placement.executors.append(Executor("gone", "host", 1))
    assert spare_location(placement, plan) != "executor_host_gone"


def test_local_masters_say_how_many_cores_they_were_given() -> None:
    masters = (
        "local",
        "local[3]",
        "local[ 2 , 4 ]",
        "local[*]",
        "local[*,2]",
        "local-cluster[1,2,1024]",
        "yarn",
    )
    assert [local_cores(master) for master in masters] == [1, 3, 2, 0, 0, None, None]


@pytest.mark.parametrize(("cpus", "master"), [(None, "local[3,4]"), ("2", "local[4,4]")])
def test_the_slot_more_is_one_of_a_task(
    cpus: str | None, master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_jvm", None)
    conf = SparkConf(loadDefaults=False).set("spark.master", "local[2,4]")
    if cpus is not None:
        conf.set("spark.task.cpus", cpus)
    _add_slot(conf)
    assert conf.get("spark.master") == master
    assert conf.get("spark.default.parallelism") == "2"
    assert conf.contains(BACKGROUND_SLOTS)


@pytest.mark.parametrize(("most", "told"), [(256, True), (1024, False), (resource.RLIM_INFINITY, False)])
def test_a_spark_that_did_not_start_with_few_files_says_so(
    monkeypatch: pytest.MonkeyPatch, most: int, told: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (most, most))
    failure = _not_started(SparkConf(loadDefaults=False), "Spark says: failed to create a child event loop")
    assert ("may open 256 files at once" in str(failure)) == told


@pytest.mark.parametrize(
    ("user", "most", "pids", "told"),
    [
        (1000, 98, "max", "only 98 processes and threads are allowed at once (ulimit -u)"),
        (1000, 98, "64", "only 64 processes and threads are allowed at once ({path})"),
        (0, 98, "64", "only 64 processes and threads are allowed at once ({path})"),
        (0, 98, "max", None),  # does not hold for root
        (1000, resource.RLIM_INFINITY, "4096", None),
    ],
)
def test_few_processes_are_told_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    user: int,
    most: int,
    pids: str,
    told: str | None,
) -> None:
    """With 98 a library waited for a thread for good, and with it the job."""
    path = tmp_path / "pids.max"
    path.write_text(f"{pids}\n")
    monkeypatch.setattr(session, "_PIDS_MAX", (str(tmp_path / "not here"), str(path)))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (most, most))
    session._tell_of_few_processes()
    assert [message.partition(", and")[0] for message in caplog.messages] == (
        [] if told is None else [told.format(path=path)]
    )


@pytest.mark.parametrize("cpus", ["x", "0", "-1", "1.5"])
def test_the_cores_of_a_task_are_a_number(cpus: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'spark.task.cpus': expected a whole number .*{cpus}"):
        task_cpus({"spark.task.cpus": cpus}.get)


def test_a_background_task_runs_where_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "lock"
    path.touch()
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", no_locks)
        assert not _locked(str(path)).held
    path.unlink()
    with pytest.raises(StorageError, match="lock file"):  # the job has ended
        _locked(str(path))


def test_threads_of_pyspark_that_are_not_pinned_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "False")
    with pytest.raises(ConfigurationError, match=r"PYSPARK_PIN_THREAD is not true: .* Unset the variable"):
        spark_context({})
