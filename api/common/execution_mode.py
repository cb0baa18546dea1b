"""ExecutionMode: how exchanges of a program were to be performed."""

from __future__ import annotations

from enum import Enum


class ExecutionMode(Enum):
    """How exchanges were to be performed. Kept without effect: here they always are those of epochs."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
