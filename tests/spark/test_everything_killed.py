"""The driver of a job that has everything killed after each first checkpoint: state and every sink are exact.

Reliability case 62. ``KILLS=20`` kills so many drivers (a quarter of an hour on two cores); the suite kills a few.
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

from changelog_engine.checkpoint.compatibility import SHARED
from changelog_engine.checkpoint.job_folder import find_job_folder
from changelog_engine.checkpoint.restore_plan import complete_snapshots
from changelog_engine.checkpoint.verification import verify
from materializer.fold import state_at

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 120 * int(os.environ.get("KILLS", "2")))]

KILLS = int(os.environ.get("KILLS", "2"))
# A driver that crawls lives for 20 s before it has used up its share.
NUMBERS = 4_000 * (KILLS + 1)
LONGEST_START_S = 900  # of a machine that has other things to do

Row = tuple[str, int, int, int]


def test_case_62_every_state_and_sink_is_exact_after_each_driver_was_killed(
    kafka: KafkaServer, postgres: Any, tmp_path: Path
) -> None:
    seed = int(os.environ.get("KILL_SEED", time.time_ns() % 100_000))
    print(f"KILL_SEED={seed} repeats this run")
    chance = random.Random(seed)
    topic, database = kafka.create_topic(partitions=2), postgres.create_database()
    postgres.execute("CREATE TABLE rows (what TEXT, k BIGINT, a BIGINT, b BIGINT)", database=database)
    out = tmp_path / "out"
    arguments = (
        "everything_job.py", NUMBERS, out, kafka.bootstrap_servers, topic, postgres.jdbc_url(database), postgres.user,
    )  # fmt: skip
    settings: dict[str, Any] = {
        "options": {
            "spark.master": "local[2]",
            "state.backend.type": "rocksdb",
            "state.changelog.enabled": True,
            "state.changelog.dstl.dfs.base-path": tmp_path / "log",
            "state.changelog.periodic-materialize.interval": "5 s",
            "changelog.history.retention": "0 ms",
            "changelog.truncation.grace": "2 s",
            "execution.checkpointing.interval": "200 ms",
        },
        "work": tmp_path / "work",
        "environment": {"TEST_PASSWORD": postgres.password},
    }
    folder = find_job_folder(str(tmp_path / "log"), "everything")
    table = tmp_path / "log" / "everything" / "changelog"
    snapshots = set()
    for number in range(KILLS):
        with Driver(*arguments, **settings) as driver:
            before = checkpoints(table)
            driver.wait_for(lambda before=before: checkpoints(table) > before, LONGEST_START_S, "checkpoint")
            time.sleep(chance.uniform(0, 2))
            assert driver.process.poll() is None, f"driver {number} ended too early:\n{driver.output}"
            driver.kill()
            driver.wait_gone()
        assert verify(folder).faults == [], f"after driver {number}"
        snapshots |= set(complete_snapshots(folder))
    with Driver(*arguments, **settings) as driver:
        driver.wait_for(lambda: set(complete_snapshots(folder)) - snapshots, LONGEST_START_S, "snapshot")
        driver.hurry()
        assert driver.end(LONGEST_START_S) == 0, driver.output
        driver.wait_gone()

    assert verify(folder).faults == []
    expected = job.expected(NUMBERS)
    _check_state(table, expected)
    _check_rows(_rows_of_delta(out / "delta"), expected)
    _check_rows(postgres.execute("SELECT what, k, a, b FROM rows", database=database), expected)
    _check_rows(_rows_of_lines(_lines_of_files(out / "files")), expected)
    records = kafka.consume_committed(topic)
    _check_rows(_rows_of_lines([r.value.decode() for r in records if r.value is not None]), expected)
    assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic), "an open transaction"
    prepared = postgres.execute("SELECT COUNT(*) FROM pg_prepared_xacts", database=database)
    assert prepared[0][0] == 0, "an open transaction"


def _check_state(table: Path, expected: job.Expected) -> None:
    folded = state_at(str(table))
    assert folded.checkpoint.finished
    assert folded.checkpoint.attempt > KILLS
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
    shared = [state[SHARED] for state in folded.checkpoint.operator_state.values() if SHARED in state]
    rules = [rows for state in shared for rows in [state["follow"]["rules"]]]
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
