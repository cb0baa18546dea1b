"""Files and then a topic with Spark: kill -9 of workers and drivers around the switch; each record counts once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from driver_process import Driver, often_killed
from hybrid_job import KEYS
from servers.kafka import KafkaServer
from support.chance import chosen_seed

pytestmark = pytest.mark.slow

LINES = 3_000
RECORDS = 3_000


def test_each_count_is_there_once(kafka: KafkaServer, tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    read, written = kafka.create_topic(partitions=3), kafka.create_topic(partitions=2)
    kafka.produce(read, map(str, range(LINES, LINES + RECORDS)))
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(4):
        numbers = range(part, LINES, 4)
        (folder / f"{part}.txt").write_text("".join(f"{number}\n" for number in numbers))
    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log"),
        "work": tmp_path,
    }
    arguments = ("hybrid_job.py", folder, kafka.bootstrap_servers, read, written)

    def seen() -> int:
        return len(kafka.consume_committed(written))

    with Driver(*arguments, **settings) as driver:
        driver.wait_for(lambda: seen() > LINES // 3, what="lines")
        driver.kill_a_worker(chance)
        driver.wait_for(lambda: seen() > LINES * 9 // 10, what="nearly all lines")
        time.sleep(chance.uniform(0, 2))
        driver.kill()
        driver.wait_gone()
    with Driver(*arguments, **settings) as driver:
        driver.wait_for(lambda: seen() > LINES, what="records of the topic")
        driver.kill_a_worker(chance)
        driver.hurry()
        assert driver.end() == 0, driver.output
    counts: dict[int, dict[int, int]] = {key: {} for key in range(KEYS)}
    for record in kafka.consume_committed(written):
        key, count, number = map(int, record.value.decode().split(":"))
        assert count not in counts[key], f"count {count} of key {key} is there twice"
        counts[key][count] = number
    for key, numbers in counts.items():
        in_order = [numbers[count] for count in sorted(numbers)]
        assert sorted(in_order) == list(range(key, LINES + RECORDS, KEYS))
        assert max(in_order[: LINES // KEYS]) < LINES, "all lines before all records"
