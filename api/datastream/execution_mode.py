"""RuntimeExecutionMode: how a program is executed."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a program is executed.

    STREAMING handles elements as they come. BATCH needs bounded sources: it gives the final result of each key and
    makes no checkpoints. AUTOMATIC is BATCH when all sources are bounded, else STREAMING.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
