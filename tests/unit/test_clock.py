"""Where time comes from: one module asks the machine for the wall clock, everything else asks it."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from changelog_engine.clock import CautiousWall, MonotonicMs, WallMs
from changelog_engine.connectors.protocols import Range, SplitReader
from changelog_engine.errors import RestoreError
from changelog_engine.replay.source import ReplayReader

ROOT = Path(__file__).parents[2]
PACKAGES = ("changelog_engine", "materializer", "api")
# Besides the clock's own module: nobody.
ALLOWED = {"changelog_engine/clock.py"}
WALL = {"time", "time_ns"}
_NAMED = re.compile(r"\b(from time|import .*\btime)\b|\.(now|today|utcnow)\b")


def uses_of_the_wall_clock(source: str) -> list[int]:
    """Lines in which the module `time` is asked for the wall clock, called or handed on."""
    if not _NAMED.search(source):  # not parsed in vain: all files are two seconds
        return []
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "time"
    }
    found = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "time"
        and not node.level
        and any(alias.name in WALL for alias in node.names)
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        asks = node.value.id in names and node.attr in WALL
        if asks or (node.value.id in ("datetime", "date") and node.attr in ("now", "today", "utcnow")):
            found.append(node.lineno)
    return found


def test_case_50_the_wall_clock_is_asked_for_in_one_place() -> None:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name not in ALLOWED:
                lines = uses_of_the_wall_clock(path.read_text(encoding="utf-8"))
                found += [f"{name}:{line}" for line in lines]
    assert not found, "use changelog_engine.clock"


def test_what_measures_does_so_with_its_monotonic_clock() -> None:
    """So what waits can be given another one."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    asking = {path.relative_to(ROOT).as_posix() for path in paths if "time.monotonic" in path.read_text()}
    users = {"changelog_engine/demo/scripts/payments.py"}  # a program as a user would write it
    assert asking - users <= ALLOWED, "use changelog_engine.clock"


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nf = t.time_ns",
        "from time import time",
        "from datetime import datetime\ndatetime.now()",
    ],
)
def test_the_search_finds_it(source: str) -> None:
    assert uses_of_the_wall_clock(source)


@pytest.mark.parametrize(
    "source",
    ["import time\ntime.monotonic()", "import datetime\ndatetime.time(1)", "from api.time import time"],
)
def test_the_search_finds_nothing_else(source: str) -> None:
    assert not uses_of_the_wall_clock(source)


class Clocks:
    def __init__(self) -> None:
        self.wall, self.passed = 1_700_000_000_000, 5_000

    def wall_ms(self) -> WallMs:
        return WallMs(self.wall)

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(float(self.passed))


def test_case_50_what_is_deleted_by_age_does_not_age_by_a_jump() -> None:
    clocks = Clocks()
    cautious, began = CautiousWall(clocks), clocks.wall / 1000
    for jump_s, passed_s in ((3600, 10), (-7200, 10), (3600, 10)):
        clocks.wall += (jump_s + passed_s) * 1000
        clocks.passed += passed_s * 1000
        assert cautious() <= began + (clocks.passed - 5_000) / 1000
    assert cautious() == began + 30


class Silent(SplitReader):
    """A reader that has nothing to give, for ever."""

    def read(self, position: Any, max_records: int) -> Range:
        return Range([], position, False)


def test_a_replay_waits_by_the_clock_that_it_is_given() -> None:
    clock = itertools.count(0, 10)
    reader = ReplayReader(Silent(), "split 'a'", lambda: next(clock))
    with pytest.raises(RestoreError, match=r"split 'a' .*: for 30 s it gives nothing after 0"):
        reader.read((0, 1, False), 10)
    assert next(clock) == 50
