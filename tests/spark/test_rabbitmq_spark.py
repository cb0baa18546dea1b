"""Exactly once from RabbitMQ with Spark: kill -9 of a worker and of the broker while messages are counted."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from driver_process import Driver, often_killed
from servers.rabbitmq import RabbitMQServer
from support.chance import chosen_seed
from support.live import logged_state

pytestmark = pytest.mark.slow

PORTION = 300


def test_each_message_counts_once(rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    read, written = rabbitmq.create_queue(), rabbitmq.create_queue()
    sent: list[str] = []
    seen: set[bytes] = set()

    def send() -> None:
        more = [str(number) for number in range(len(sent), len(sent) + PORTION)]
        rabbitmq.publish(read, more, more)
        sent.extend(more)

    def passed_on(count: int) -> bool:
        seen.update(rabbitmq.take(written))
        return len(seen) >= count

    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log"),
        "work": tmp_path,
    }
    arguments = ("rabbitmq_job.py", rabbitmq.uri(), read, written)
    with Driver(*arguments, **settings) as driver:
        for harm in ("worker", "broker", "nothing"):
            before = len(sent)
            send()
            driver.wait_for(lambda before=before: passed_on(before + 1), what=f"messages before the {harm}")
            time.sleep(chance.uniform(0, 0.5))
            if harm == "worker":
                driver.kill_a_worker(chance)
            elif harm == "broker":
                rabbitmq.kill()
                rabbitmq.start()
        driver.wait_for(lambda: passed_on(len(sent)), what="all messages")
        rabbitmq.publish(read, ["end"], ["end"])
        assert driver.end() == 0, driver.output
    assert "trying again" in driver.output, "while the broker was gone"
    assert sorted(map(bytes.decode, seen), key=int) == sent
    counts = logged_state(str(tmp_path / "log"), "rabbitmq")["count", "count"]
    assert list(counts.values()) == [1] * len(sent)
    assert rabbitmq.left(read) == 0
