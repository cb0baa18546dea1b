"""CheckpointingMode: the guarantee asked for."""

from __future__ import annotations

from enum import Enum


class CheckpointingMode(Enum):
    """The guarantee that a job gives after a failure.

    This engine always gives EXACTLY_ONCE for state; AT_LEAST_ONCE is accepted and given back.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
