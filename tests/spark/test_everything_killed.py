"""Drivers of a job that has everything are killed after a first checkpoint, and one is stopped and replaced: all is exact.

Reliability cases 62 and 63. ``KILLS=20`` kills so many drivers (a quarter of an hour on two cores), ``WAKES`` says when the
stopped one wakes; the suite kills one and takes one of the times.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import everything_job as job
import pytest
from driver_process import Driver, checkpoints
from servers.kafka import KafkaServer
from support.chance import chosen_seed

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.verification.verify import verify
from materializer.fold import state_at

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 120 * int(os.environ.get("KILLS", "1")))]

KILLS = int(os.environ.get("KILLS", "1"))
# A driver that crawls lives for 20 s before it has used up its share.
NUMBERS = 2_000 * KILLS + 6_000
WAKES = ["while the second runs", "after the second ended"]
LONGEST_START_S = 900  # of a machine that has other things to do

Row = tuple[str, int, int, int]


class Everything:
    """The job with its servers, in folders of its own.

    Args:
        kafka, postgres: the servers.
        folder: for the log, the files and the output.
        numbers: how many the job reads.
    """

    def __init__(self, kafka: KafkaServer, postgres: Any, folder: Path, numbers: int) -> None:
        self.kafka, self.postgres, self.out, self.numbers = kafka, postgres, folder / "out", numbers
        self.topic, self.database = kafka.create_topic(partitions=2), postgres.create_database()
        postgres.execute(
            "CREATE TABLE rows (what TEXT, k BIGINT, a BIGINT, b BIGINT)", database=self.database
        )
        self.job = find_job_folder(str(folder / "log"), "everything")
        self.table = folder / "log" / "everything" / "changelog"
        self.options = {
            "spark.master": "local[2]",
            "state.backend.type": "rocksdb",
            "state.changelog.enabled": True,
            "state.changelog.dstl.dfs.base-path": folder / "log",
            "state.changelog.periodic-materialize.interval": "5 s",
            "changelog.history.retention": "0 ms",
            "changelog.truncation.grace": "2 s",
            "execution.checkpointing.interval": "500 ms",
        }

    def driver(self, work: Path, **environment: str) -> Driver:
        """A process that runs it."""
        arguments = (
            "everything_job.py", self.numbers, self.out, self.kafka.bootstrap_servers, self.topic,
            self.postgres.jdbc_url(self.database), self.postgres.user,
        )  # fmt: skip
        variables = {"TEST_PASSWORD": self.postgres.password, **environment}
        return Driver(*arguments, options=self.options, work=work, environment=variables)

    def wait_for_a_checkpoint(self, driver: Driver) -> None:
        before = checkpoints(self.table)
        driver.wait_for(lambda: checkpoints(self.table) > before, LONGEST_START_S, "checkpoint")

    def seen(self) -> list[list[Row]]:
        """The rows in each sink, as its own readers see them."""
        records = self.kafka.consume_committed(self.topic)
        return [
            sorted(_rows_of_delta(self.out / "delta")),
            sorted(self.postgres.execute("SELECT what, k, a, b FROM rows", database=self.database)),
            sorted(_rows_of_lines(_lines_of_files(self.out / "files"))),
            sorted(_rows_of_lines([r.value.decode() for r in records if r.value is not None])),
        ]

    def check(self, attempts: int) -> None:
        """All is there once, and nothing is open."""
        assert verify(self.job).faults == []
        expected = job.expected(self.numbers)
        _check_state(self.table, expected, attempts)
        for rows in self.seen():
            _check_rows(rows, expected)
        ends = [self.kafka.end_offsets(self.topic, committed=committed) for committed in (True, False)]
        assert ends[0] == ends[1], "an open transaction"
        prepared = self.postgres.execute("SELECT COUNT(*) FROM pg_prepared_xacts", database=self.database)
        assert prepared[0][0] == 0, "an open transaction"


def test_case_62_and_63_all_is_exact_after_drivers_were_killed_or_stopped_and_replaced(
    kafka: KafkaServer, postgres: Any, tmp_path: Path
) -> None:
    """Some are killed after a checkpoint, then one is stopped with all of its processes, at whatever they are doing."""
    seed = chosen_seed()
    chance = random.Random(seed)
    everything = Everything(kafka, postgres, tmp_path, NUMBERS)
    snapshots = set()
    for number in range(KILLS):
        with everything.driver(tmp_path / "killed") as driver:
            everything.wait_for_a_checkpoint(driver)
            time.sleep(chance.uniform(0, 2))
            assert driver.process.poll() is None, f"driver {number} ended too early:\n{driver.output}"
            driver.kill()
            driver.wait_gone()
        assert verify(everything.job).faults == [], f"after driver {number}"
        snapshots |= set(complete_snapshots(everything.job))
    wakes = os.environ.get("WAKES", WAKES[seed % len(WAKES)])
    print(f"it wakes {wakes}")
    _stopped_and_replaced(everything, tmp_path, wakes, snapshots)


def _stopped_and_replaced(everything: Everything, work: Path, wakes: str, snapshots: set[int]) -> None:
    with everything.driver(work / "first") as first:
        everything.wait_for_a_checkpoint(first)
        first.stop()
        with everything.driver(work / "second", ELSEWHERE="1") as second:
            everything.wait_for_a_checkpoint(second)
            if wakes == "while the second runs":
                first.go_on()
                assert first.end(LONGEST_START_S) != 0, "it was told that it was replaced"
                everything.wait_for_a_checkpoint(second)
            second.wait_for(
                lambda: set(complete_snapshots(everything.job)) - snapshots, LONGEST_START_S, "snapshot"
            )
            second.hurry()
            assert second.end(LONGEST_START_S) == 0, second.output
            second.wait_gone()
        everything.check(KILLS + 2)
        seen, attempts = everything.seen(), checkpoints(everything.table)
        if wakes == "after the second ended":
            first.go_on()
            assert first.end(LONGEST_START_S) != 0, "it was told that it was replaced"
        assert "took the job" in first.output, first.output
        first.wait_gone()
    assert everything.seen() == seen
    assert checkpoints(everything.table) == attempts
    everything.check(KILLS + 2)


def _check_state(table: Path, expected: job.Expected, attempts: int) -> None:
    folded = state_at(str(table))
    assert folded.checkpoint.finished
    assert folded.checkpoint.attempt >= attempts
    assert not any(folded.timers.values()), "every timer has fired"
    assert folded.states["follow", "count"] == expected.counts
    assert folded.states["follow", "sum"] == expected.sums
    found: dict[int, dict[int, int]] = dict(folded.states["follow", "digits"].items())
    assert found == expected.digits
    fired = folded.states["follow", "fired"]
    assert {(key, at) for key, times in fired.items() for at in times} == expected.timers
    assert sum(len(times) for times in fired.values()) == len(expected.timers), "none fired twice"
    windows = {name: entries for name, entries in folded.states.items() if name[0] == "windows"}
    assert not any(len(entries) for entries in windows.values()), "every window is done"
    stages = folded.checkpoint.operator_state.values()
    rules = [stage.shared["follow"].rows["rules"] for stage in stages if stage.shared]
    assert [sorted((int(key), int(value)) for key, value, _ in rows) for rows in rules] == [
        [(rule, rule * rule) for rule in range(job.RULES)]
    ]


def _check_rows(found: list[Row], expected: job.Expected) -> None:
    counts = sorted((key, count, rules) for what, key, count, rules in found if what == "count")
    assert [(key, count) for key, count, _ in counts] == [
        (key, count) for key in sorted(expected.counts) for count in range(1, expected.counts[key] + 1)
    ]
    for (key, _, rules), (next_key, _, next_rules) in itertools.pairwise(counts):
        assert key != next_key or rules <= next_rules, "broadcast state went back"
    timers = Counter((key, at) for what, key, at, _ in found if what == "timer")
    assert timers == Counter(expected.timers)
    windows = Counter(
        (key, end, int(what.split()[1]), total) for what, key, end, total in found if " " in what
    )
    assert windows == Counter(expected.windows)


def _rows_of_delta(path: Path) -> list[Row]:
    table = deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=["what", "k", "a", "b"])
    return [tuple(row.values()) for row in table.to_pylist()]


def _lines_of_files(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return [line for path in files for line in path.read_text().splitlines()]


def _rows_of_lines(lines: list[str]) -> list[Row]:
    rows = (line.rsplit(" ", 3) for line in lines)
    return [(what, int(key), int(a), int(b)) for what, key, a, b in rows]
