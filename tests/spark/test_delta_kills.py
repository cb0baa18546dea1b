"""Exactly once in a Delta table with Spark: kill -9 of drivers and workers while it is written."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import deltalake
import pytest
from driver_process import Driver, often_killed
from support.chance import chosen_seed

pytestmark = pytest.mark.slow

NUMBERS = 15_000


def numbers_of(path: Path) -> list[int]:
    try:
        return sorted(deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=["n"])["n"].to_pylist())
    except deltalake.exceptions.TableNotFoundError:
        return []


def test_each_number_is_there_once(tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    table = tmp_path / "table"
    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log"),
        "work": tmp_path,
    }

    def wait_for_rows(driver: Driver) -> None:
        before = len(numbers_of(table))
        driver.wait_for(lambda: len(numbers_of(table)) > before, what="rows")

    with Driver("delta_job.py", table, NUMBERS, **settings) as driver:
        wait_for_rows(driver)
        driver.kill_a_worker(chance)
        wait_for_rows(driver)
        time.sleep(chance.uniform(0, 0.5))
        driver.kill()
        driver.wait_gone()
    found = numbers_of(table)
    assert len(set(found)) == len(found), "seen twice"
    with Driver("delta_job.py", table, NUMBERS, **settings) as driver:
        driver.hurry()
        assert driver.end(120) == 0, driver.output
    assert numbers_of(table) == list(range(NUMBERS))
