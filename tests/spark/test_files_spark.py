"""Exactly once in files with Spark: kill -9 of a driver and a worker while they are written."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from driver_process import Driver, often_killed
from jdbc_job import KEYS
from support.chance import chosen_seed

pytestmark = pytest.mark.slow

NUMBERS, FILES = 10_000, 8


def finished(folder: Path) -> list[Path]:
    """The files that are not hidden."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


def test_each_count_is_there_once(tmp_path: Path) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    numbers, text, parquet = tmp_path / "in", tmp_path / "text", tmp_path / "parquet"
    numbers.mkdir()
    for index in range(FILES):
        lines = "\n".join(map(str, range(index, NUMBERS, FILES)))
        (numbers / f"{index}.txt").write_text(lines)
    settings: dict[str, Any] = {
        "options": often_killed(tmp_path / "log", interval="1 s"),
        "work": tmp_path / "work",
    }
    arguments = ("files_job.py", numbers, text, parquet)

    def wait_for_files(driver: Driver) -> None:
        before = len(finished(parquet)) if parquet.exists() else 0
        driver.wait_for(lambda: parquet.exists() and len(finished(parquet)) > before, what="files")

    with Driver(*arguments, **settings) as driver:
        wait_for_files(driver)
        driver.kill_a_worker(chance)
        wait_for_files(driver)
        time.sleep(chance.uniform(0, 0.3))
        driver.kill()
        driver.wait_gone()
    with Driver(*arguments, **settings) as driver:
        driver.hurry()
        assert driver.end() == 0, driver.output

    expected = Counter((key, count) for key in range(KEYS) for count in range(1, NUMBERS // KEYS + 1))
    lines = (line for path in finished(text) for line in path.read_text().splitlines())
    assert Counter(tuple(map(int, line.strip("()").split(","))) for line in lines) == expected
    assert len(finished(text)) > 1, "files rolled"
    assert all(path.name.startswith("compacted-part-") for path in finished(parquet))
    rows = (row for path in finished(parquet) for row in pq.read_table(path).to_pylist())
    assert Counter((row["key"], row["count"]) for row in rows) == expected
