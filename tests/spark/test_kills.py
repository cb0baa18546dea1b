"""kill -9 of drivers and workers at random moments on the demo's job: the result is that of an undisturbed run.

Reliability cases 9, 22 and 33.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from driver_process import FLIGHTS, Driver, checkpoints
from support.chance import chosen_seed

from compare import differences
from materializer.fold import state_at
from prepare import prepare
from watch import progress

pytestmark = pytest.mark.slow

LINES = 20_000
DRIVER_KILLS = 2
WORKER_KILLS_A_DRIVER = 2
# Slow enough that no driver reaches the end before it is killed: a minute's work and more for the lot of them.
LINES_PER_SECOND_WHILE_KILLED = 100


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    whole, part = tmp_path / "year.csv", tmp_path / "flights.csv"
    prepare(whole)
    with whole.open() as lines, part.open("w") as output:
        output.writelines(itertools.islice(lines, LINES))
    return part


def test_drivers_and_workers_killed_at_random_leave_the_exact_state(flights: Path, tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    table = tmp_path / "log" / "flights" / "changelog"
    job = (FLIGHTS / "flights_job.py", flights, tmp_path / "log")
    options = {"changelog.epoch.read-ahead": True}
    workers_killed = 0
    for _ in range(DRIVER_KILLS):
        with Driver(*job, LINES_PER_SECOND_WHILE_KILLED, options=options, work=tmp_path) as driver:
            # At least one new checkpoint a driver, so that the job gets on.
            _wait_for_checkpoint(driver, table)
            for _ in range(WORKER_KILLS_A_DRIVER):
                time.sleep(chance.uniform(0, 1))
                workers_killed += _kill_a_worker(driver, chance)
            _wait_for_checkpoint(driver, table)
            time.sleep(chance.uniform(0, 1))
            assert driver.process.poll() is None, f"the job ended too early:\n{driver.output}"
            assert "\tat " not in driver.output, "pages of Java"
            driver.kill()
            driver.wait_gone()
    events = tmp_path / "events"
    with Driver(*job, options={**options, **event_log(events)}, work=tmp_path) as driver:
        assert driver.end() == 0, driver.output
    source, aircraft, everything = 1, 2, 3  # stages of a Spark job: those that it waits for, and its own
    assert _begun_beside(events, source, everything) > 0, "nothing was read ahead"
    assert _begun_beside(events, aircraft, everything) > 0, "no keyed stage ran ahead"

    assert workers_killed == DRIVER_KILLS * WORKER_KILLS_A_DRIVER
    compared, wrong = differences(table, flights)
    assert compared > 5_000
    assert wrong == []
    folded = state_at(str(table))
    assert folded.checkpoint.finished
    assert not any(folded.timers.values()), "every timer has fired"
    assert folded.checkpoint.attempt > DRIVER_KILLS
    seen = progress(table)  # as the demo watches it
    assert (seen.checkpoint, seen.attempt) == (folded.checkpoint.id, folded.checkpoint.attempt)
    assert (seen.position, seen.finished) == (flights.stat().st_size, True)


def _begun_beside(events: Path, stages: int, of_others: int) -> int:
    """How many Spark jobs with so many stages began while one with so many others ran."""
    running: set[int] = set()
    found = 0
    for job in events_of(events, "SparkListenerJobStart", "SparkListenerJobEnd"):
        if job["Event"] == "SparkListenerJobEnd":
            running.discard(job["Job ID"])
            continue
        found += bool(running) and len(job["Stage IDs"]) == stages
        if len(job["Stage IDs"]) == of_others:
            running.add(job["Job ID"])
    return found


def event_log(folder: Path) -> dict[str, object]:
    """Configuration that has Spark write down its events."""
    folder.mkdir()
    return {
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": False,
        "spark.eventLog.rolling.enabled": False,
    }


def events_of(folder: Path, *names: str) -> list[dict[str, Any]]:
    """The events with these names, in order."""
    (log,) = folder.iterdir()
    lines = log.read_text().splitlines()
    return [json.loads(line) for line in lines if any(f'"{name}"' in line for name in names)]


def _wait_for_checkpoint(driver: Driver, table: Path) -> None:
    before = checkpoints(table)
    driver.wait_for(lambda: checkpoints(table) > before, what="checkpoint")


def _kill_a_worker(driver: Driver, chance: random.Random) -> int:
    """SIGKILL for one pinned worker, or for the daemon that forked it."""
    driver.wait_for(driver.pinned, what="worker")
    pinned = [pid for pids in driver.pinned().values() for pid in pids]
    victim = chance.choice(pinned)
    if chance.random() < 0.3:
        victim = next(p.parent for p in driver.processes() if p.pid == victim)
    os.kill(victim, signal.SIGKILL)
    return 1


def reading_ahead(folder: Path, **more: object) -> dict[str, object]:
    """Configuration of a job whose sources read ahead, and which makes no checkpoint for a minute."""
    return {
        "spark.master": "local[4]",
        "parallelism.default": 1,
        "state.changelog.enabled": True,
        "state.changelog.dstl.dfs.base-path": folder / "log",
        "execution.checkpointing.interval": "60 s",
        "changelog.epoch.target": "300 ms",
        "changelog.epoch.read-ahead": True,
        **more,
    }


def test_a_source_that_dies_while_it_reads_ahead_is_told_and_leaves_spark_to_another(tmp_path: Path) -> None:
    """The epoch is given up while it reads: were what it sends forgotten before Spark stops to expect it, the output of its
    task could end the whole SparkContext. Where it dies for good, it is told as that: that its state is gone, which the next
    epoch finds, is what follows."""
    options = reading_ahead(
        tmp_path,
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 2,
            "restart-strategy.fixed-delay.delay": "0 s",
            "spark.scheduler.mode": "FAIR",
            **event_log(tmp_path / "events"),
        },
    )
    with Driver("dying_source_job.py", 1_000, tmp_path / "mark", options=options, work=tmp_path) as driver:
        assert driver.end() == 1, driver.output
    once, for_good = driver.output.split("THE JOB ENDED")
    assert (tmp_path / "mark").exists()
    counts = state_at(str(tmp_path / "log" / "dying-once" / "changelog")).states["count", "count"]
    assert counts == dict.fromkeys(range(3), 2_000)
    jobs = [each["Properties"] for each in events_of(tmp_path / "events", "SparkListenerJobStart")]
    pools = [
        each.get("spark.scheduler.pool") for each in jobs if "dying-once" in each["spark.job.description"]
    ]
    assert set(pools) == {"mine"}, "all threads of the job submit to the pool of the thread that made it"
    assert "does not hold the state" not in once
    assert "a Python worker ended without an error" in for_good
    assert "Python worker exited unexpectedly (crashed)" in for_good
    assert "does not hold the state" not in for_good
