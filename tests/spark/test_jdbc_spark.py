"""Exactly once in PostgreSQL with Spark: kill -9 of drivers, workers and the server while rows are written."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from driver_process import Driver, often_killed
from jdbc_job import KEYS
from support.chance import chosen_seed

pytestmark = pytest.mark.slow

NUMBERS = 15_000


def test_each_count_is_there_once(postgres: Any, tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    database = postgres.create_database()
    postgres.execute("CREATE TABLE counts (k BIGINT, c BIGINT)", database=database)
    arguments = ("jdbc_job.py", postgres.jdbc_url(database), postgres.user, NUMBERS)
    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log"),
        "work": tmp_path,
        "environment": {"TEST_PASSWORD": postgres.password},
    }

    def written() -> int:
        return int(postgres.execute("SELECT COUNT(*) FROM counts", database=database)[0][0])

    def wait_for_rows(driver: Driver) -> None:
        before = written()
        driver.wait_for(lambda: written() > before, what="rows")

    with Driver(*arguments, **settings) as driver:
        wait_for_rows(driver)
        driver.kill_a_worker(chance)
        wait_for_rows(driver)
        time.sleep(chance.uniform(0, 0.3))
        postgres.kill()
        postgres.start()
        wait_for_rows(driver)
        time.sleep(chance.uniform(0, 0.3))
        driver.kill()
        driver.wait_gone()
    with Driver(*arguments, **settings) as driver:
        driver.hurry()
        assert driver.end(120) == 0, driver.output
    found = postgres.execute(
        "SELECT k, COUNT(*), COUNT(DISTINCT c), MAX(c) FROM counts GROUP BY k", database=database
    )
    assert sorted(found) == [(key, NUMBERS // KEYS, NUMBERS // KEYS, NUMBERS // KEYS) for key in range(KEYS)]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert postgres.password.encode() not in path.read_bytes(), path
