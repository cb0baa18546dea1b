"""Exactly once from Kafka to Kafka with Spark: kill -9 of drivers, workers and the broker while records are written."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from driver_process import Driver, often_killed
from kafka_job import KEYS
from servers.kafka import KafkaServer
from support.chance import chosen_seed

pytestmark = pytest.mark.slow

NUMBERS = 15_000


def test_each_count_is_there_once(kafka: KafkaServer, tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    read, written = kafka.create_topic(partitions=3), kafka.create_topic(partitions=2)
    kafka.produce(read, map(str, range(NUMBERS)))
    arguments = ("kafka_job.py", kafka.bootstrap_servers, read, written)
    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log"),
        "work": tmp_path,
    }

    def seen() -> int:
        return len(kafka.consume_committed(written))

    def wait_for_records(driver: Driver, after: str) -> None:
        before = seen()
        driver.wait_for(lambda: seen() > before, what=f"records after {after}")

    with Driver(*arguments, **settings) as driver:
        wait_for_records(driver, "the start")
        time.sleep(chance.uniform(0, 0.5))
        driver.kill_a_worker(chance)
        wait_for_records(driver, "a worker's end")
        time.sleep(chance.uniform(0, 0.5))
        kafka.kill()
        kafka.start()
        wait_for_records(driver, "the broker's end")
        time.sleep(chance.uniform(0, 0.5))
        driver.kill()
        driver.wait_gone()
    with Driver(*arguments, **settings) as driver:
        driver.hurry()
        assert driver.end() == 0, driver.output
    found = Counter(record.value.decode() for record in kafka.consume_committed(written) if record.value)
    expected = [f"{key}:{count}" for key in range(KEYS) for count in range(1, NUMBERS // KEYS + 1)]
    assert found == Counter(expected)
    assert kafka.end_offsets(written, committed=True) == kafka.end_offsets(written), "an open transaction"
    assert sum(kafka.group_offsets(f"group of {read}", read).values()) == NUMBERS
