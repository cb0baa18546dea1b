"""RuntimeExecutionMode: how a program is executed."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a program is executed.

    This version runs STREAMING; AUTOMATIC is taken as STREAMING, BATCH is refused.

    Source: pyflink.datastream.RuntimeExecutionMode
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
