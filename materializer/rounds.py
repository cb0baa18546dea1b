"""What a materializer that works at intervals notes after each round, so that others see that it stopped, or fails.

A job tells of the snapshots that it makes itself; of a materializer elsewhere only what it left in the folder is known.

Invariant: a note that can't be written or read is left out; it is for people only.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass
from typing import Any

from changelog_engine.clock import wall_ms
from changelog_engine.errors import StorageError
from changelog_engine.ledger.job_folder import JobFolder

ROUNDS = "_rounds.json"  # in the folder of the changelog
_MISSED = 3  # intervals without a round after which it is taken to have stopped
_SLACK_MS = 60_000  # a round takes its time, and clocks differ
_LONGEST = 1_000


@dataclass(frozen=True)
class Rounds:
    """The last round of ``changelog-engine materialize --every``.

    Args:
        time_ms: when it ended, whether it failed or not.
        every_ms: from one to the next.
        failed: what it failed with; None where it did not.
    """

    host: str
    pid: int
    time_ms: int
    every_ms: int
    failed: str | None = None

    @property
    def who(self) -> str:
        """Such as "process 71 on host-b, each 600 s"."""
        return f"process {self.pid} on {self.host}, each {self.every_ms / 1000:g} s"

    def has_stopped(self, now_ms: int) -> bool:
        """Whether rounds were missed."""
        return now_ms - self.time_ms > _MISSED * self.every_ms + _SLACK_MS


def note_round(folder: JobFolder, every_ms: int, failed: str | None = None) -> None:
    """Note that a round of this process has ended."""
    note = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time_ms": wall_ms(),
        "every_ms": every_ms,
        "failed": failed and failed[:_LONGEST],
    }
    with contextlib.suppress(StorageError):
        folder.changelog.write_durable(ROUNDS, json.dumps(note).encode())


def forget_rounds(folder: JobFolder) -> None:
    """This process has been told to stop: it makes no further rounds."""
    with contextlib.suppress(StorageError):
        folder.changelog.delete(ROUNDS)


def last_round(folder: JobFolder) -> Rounds | None:
    """The last round that anybody noted; None for none."""
    with contextlib.suppress(StorageError):
        found = folder.changelog.read_document(ROUNDS)
        host, failed = found.get("host"), found.get("failed")
        numbers: list[Any] = [found.get(name) for name in ("pid", "time_ms", "every_ms")]
        if isinstance(host, str) and all(type(each) is int and 0 <= each < 2**53 for each in numbers):
            pid, time_ms, every_ms = numbers
            return Rounds(host, pid, time_ms, every_ms, failed if isinstance(failed, str) else None)
    return None
