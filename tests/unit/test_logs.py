"""Levels and format of ``logging`` go with a job to its workers, which are processes that know nothing of the program's."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import pytest

from changelog_engine.spark.logs import Format, LoggingSetup, _format_of, logging_here

ROOT = Path(__file__).resolve().parents[2]
WORKER = """
import logging, pickle, sys
pickle.loads(sys.stdin.buffer.read()).use()
exec(sys.argv[1])
log = logging.getLogger("mine")
for level in ("debug", "info", "warning", "error"):
    getattr(log, level)("%s of mine", level)
logging.getLogger("other").info("info of another")
"""


def written(setup: LoggingSetup, first: str = "") -> list[str]:
    """What a worker writes."""
    command = [sys.executable, "-c", WORKER, first]
    ended = subprocess.run(command, input=pickle.dumps(setup), capture_output=True, cwd=ROOT, check=True)
    assert ended.stdout == b""
    return ended.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("levels", "disabled", "style", "first", "lines"),
    [
        ({"root": 30}, 0, None, "", ["warning of mine", "error of mine"]),
        ({"root": 20}, 0, None, "", ["info of mine", "warning of mine", "error of mine", "info of another"]),
        ({"root": 30, "mine": 10}, 0, None, "", [f"{each} of mine" for each in ("debug", "info", "warning", "error")]),
        ({"root": 20}, 30, None, "", ["error of mine"]),
        (
            {"root": 30}, 0, Format("%(levelname)s/%(name)s: %(message)s"), "",
            ["WARNING/mine: warning of mine", "ERROR/mine: error of mine"],
        ),
        ({"root": 40}, 0, Format("{levelname[0]} {message}", None, "{"), "", ["E error of mine"]),
        # A function that sets it by itself, as in open():
        (
            {"root": 30}, 0, None, "logging.basicConfig(level=40, format='%(name)s %(message)s')",
            ["mine error of mine"],
        ),
        # The job before had a format, this one has none:
        (
            {"root": 40}, 0, Format("old %(message)s"),
            "from changelog_engine.spark.logs import LoggingSetup; LoggingSetup({'root': 40}, 0, None).use()",
            ["error of mine"],
        ),
    ],
)  # fmt: skip
def test_a_worker(
    levels: dict[str, int], disabled: int, style: Format | None, first: str, lines: list[str]
) -> None:
    assert written(LoggingSetup(levels, disabled, style), first) == lines


def test_what_a_process_has() -> None:
    log = logging.getLogger("test_logs.mine")
    log.setLevel(logging.DEBUG)
    try:
        setup = logging_here()
    finally:
        log.setLevel(logging.NOTSET)
    assert setup.levels["test_logs.mine"] == logging.DEBUG
    assert setup.levels["root"] == logging.getLogger().level
    assert "test_logs" not in setup.levels
    assert setup.disabled == logging.root.manager.disable
    assert pickle.loads(pickle.dumps(setup)) == setup


def test_the_engine_s_own_way_is_the_program_s(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = logging.getLogger("changelog_engine")
    monkeypatch.setattr(engine, "level", logging.INFO)
    assert logging_here().levels["changelog_engine"] == logging.INFO
    monkeypatch.setattr(engine, "propagate", False)
    assert "changelog_engine" not in logging_here().levels


class Odd(logging.Formatter):
    """Holds what cannot be pickled."""

    def __init__(self, fmt: str) -> None:
        super().__init__(fmt)
        self.held = open
        self.also = lambda: None


class Bare(logging.Formatter):
    """Has nothing of its base class but its methods."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("formatter", "found"),
    [
        (None, Format()),
        (logging.Formatter("%(message)s!", "%H"), Format("%(message)s!", "%H")),
        (logging.Formatter("$message", style="$"), Format("$message", None, "$")),
        (Odd("odd %(message)s"), Format("odd %(message)s")),
        (logging.Formatter("%(request)s %(message)s"), Format(logging.BASIC_FORMAT)),
        (Bare(), Format()),
    ],
    ids=["plain", "format", "dollars", "odd", "own fields", "bare"],
)
def test_the_format_of_a_handler(formatter: logging.Formatter | None, found: Format) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    assert _format_of([handler, logging.NullHandler()]) == found
    assert _format_of([]) is None
    handler.setStream(sys.stdout)
    assert _format_of([handler]) == replace(found, to_stdout=True)


def test_standard_output() -> None:
    setup = LoggingSetup({"root": 40}, 0, Format(to_stdout=True))
    first = "sys.stdout = sys.stderr; print('moved')"
    assert written(setup, first) == ["moved", "error of mine"]


def test_a_level_of_an_enum_of_the_programs_is_shipped_as_a_number() -> None:
    class Level(IntEnum):
        LOUD = 40

    logging.getLogger("loud").setLevel(Level.LOUD)
    try:
        assert type(logging_here().levels["loud"]) is int
    finally:
        logging.getLogger("loud").setLevel(logging.NOTSET)
