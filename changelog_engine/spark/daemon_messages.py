"""What the driver, a stage's daemon and its workers tell each other beside the tasks, and how a daemon knows its stage."""

from __future__ import annotations

import json
import struct

PIN_VARIABLE = "CHANGELOG_ENGINE_SUBTASK"
BACKGROUND = "background/"
"""What the variable begins with for tasks beside the epochs."""
INT = struct.Struct("!i")
NEWS = -(2**31)  # where a task begins with its partition
NEWS_BEGIN = struct.Struct("!ii")
# Between a daemon and a worker: a kind, and lines behind it.
LONGEST_MESSAGE = 65_536
TASK, DURABLE, HOLDS_STATE, HOLDS_NOTHING = b"task", b"durable", b"state", b"nothing"


def order_of_workers(count: int) -> bytes:
    """What tells a daemon to start the workers of this many subtasks, at least one: a partition that no task has."""
    return INT.pack(-count)


def news_of(durable: tuple[str, int, int]) -> bytes:
    """What tells a daemon's workers, between two tasks, that a checkpoint is durable: its run, attempt and epoch."""
    told = json.dumps(durable).encode()
    return NEWS_BEGIN.pack(NEWS, len(told)) + told
