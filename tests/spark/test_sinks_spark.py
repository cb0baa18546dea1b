"""Exactly once from files and then a topic into every sink with Spark: kill -9 of drivers, workers, broker and database.

One job for all of them: a driver costs four CPU seconds, and a sink beside others commits with them or not at all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest
from driver_process import Driver, often_killed
from servers.kafka import KafkaServer
from sinks_job import KEYS, LINES
from support.chance import chosen_seed

pytestmark = pytest.mark.slow

RECORDS = 6_000
Counted = tuple[int, int, int]  # key, count, number


def test_each_count_is_there_once(kafka: KafkaServer, postgres: Any, tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    read, written = kafka.create_topic(partitions=3), kafka.create_topic(partitions=2)
    kafka.produce(read, map(str, range(LINES, LINES + RECORDS)))
    database = postgres.create_database()
    postgres.execute("CREATE TABLE counts (k BIGINT, c BIGINT, n BIGINT)", database=database)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for part in range(4):
        (folder / f"{part}.txt").write_text("".join(f"{number}\n" for number in range(part, LINES, 4)))
    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log"),
        "work": tmp_path / "work",
        "environment": {"TEST_PASSWORD": postgres.password},
    }
    url = postgres.jdbc_url(database)
    arguments = ("sinks_job.py", folder, out, kafka.bootstrap_servers, read, written, url, postgres.user)

    def in_kafka() -> list[Counted]:
        return _parsed(record.value.decode() for record in kafka.consume_committed(written) if record.value)

    def in_postgres() -> list[Counted]:
        return list(map(tuple, postgres.execute("SELECT k, c, n FROM counts", database=database)))

    def wait_for_more(driver: Driver, after: str) -> None:
        for seen in (in_kafka, in_postgres):
            before = len(seen())
            driver.wait_for(lambda seen=seen, before=before: len(seen()) > before, what=f"more after {after}")
        time.sleep(chance.uniform(0, 0.5))

    with Driver(*arguments, **settings) as driver:
        wait_for_more(driver, "the start")
        driver.kill_a_worker(chance)
        driver.wait_for(lambda: len(in_kafka()) > LINES * 9 // 10, what="nearly all lines")
        time.sleep(chance.uniform(0, 2))
        driver.kill()
        driver.wait_gone()
    in_delta = _in_delta(out / "delta")
    assert len(set(in_delta)) == len(in_delta), "seen twice"
    with Driver(*arguments, **settings) as driver:
        driver.wait_for(lambda: len(in_kafka()) > LINES, what="records of the topic")
        kafka.kill()
        kafka.start()
        wait_for_more(driver, "the broker's end")
        postgres.kill()
        postgres.start()
        wait_for_more(driver, "the database's end")
        driver.kill_a_worker(chance)
        driver.hurry()
        assert driver.end() == 0, driver.output

    found = sorted(in_kafka())
    _check(found)
    assert kafka.end_offsets(written, committed=True) == kafka.end_offsets(written), "an open transaction"
    assert sum(kafka.group_offsets(f"group of {read}", read).values()) == RECORDS
    assert sorted(in_postgres()) == found
    assert sorted(_in_delta(out / "delta")) == found
    texts = _finished(out / "text")
    assert sorted(_parsed(line for path in texts for line in path.read_text().splitlines())) == found
    assert len(texts) > 1, "files rolled"
    parquet = _finished(out / "parquet")
    rows = (tuple(row.values()) for path in parquet for row in pq.read_table(path).to_pylist())
    assert sorted(rows) == found
    assert all(path.name.startswith("compacted-part-") for path in parquet)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert postgres.password.encode() not in path.read_bytes(), path


def test_a_job_that_failed_for_good_leaves_no_transaction_open_and_closes_its_functions(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    """An open one holds back all who read behind it, for up to a quarter of an hour."""
    topic, closed = kafka.create_topic(), tmp_path / "closed"
    closed.mkdir()
    options = {
        "spark.master": "local[2]",
        "parallelism.default": 1,
        "state.changelog.enabled": True,
        "state.changelog.dstl.dfs.base-path": tmp_path / "log",
        "execution.checkpointing.interval": "10 min",
        "changelog.epoch.target": "50 ms",
        "restart-strategy.type": "none",
    }
    arguments = ("failing_kafka_job.py", kafka.bootstrap_servers, topic, closed)
    with Driver(*arguments, options=options, work=tmp_path / "work") as driver:
        assert driver.end() == 1, driver.output
        assert "1500 is refused" in driver.output
        driver.wait_gone()
    assert kafka.end_offsets(topic)[0] > 0, "it wrote before it failed"
    assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic), "an open transaction"
    assert len(list(closed.iterdir())) == 1


def _check(found: list[Counted]) -> None:
    """Each number and each count is there once; of a key, all lines come before all records."""
    for key in range(KEYS):
        of_key = [each[1:] for each in found if each[0] == key]
        assert [count for count, _ in of_key] == list(range(1, len(of_key) + 1))
        numbers = [number for _, number in of_key]
        assert sorted(numbers) == list(range(key, LINES + RECORDS, KEYS))
        assert max(numbers[: LINES // KEYS]) < LINES, "all lines before all records"


def _parsed(lines: Iterable[str]) -> list[Counted]:
    return [(int(key), int(count), int(number)) for key, count, number in (line.split(":") for line in lines)]


def _in_delta(path: Path) -> list[Counted]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=["key", "count", "number"]).to_pylist()
    return [(row["key"], row["count"], row["number"]) for row in rows]


def _finished(folder: Path) -> list[Path]:
    """The files that are not hidden."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
