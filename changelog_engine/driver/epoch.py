"""An epoch as the driver sees it."""

from __future__ import annotations

from dataclasses import dataclass

from changelog_engine.clock import MonotonicMs
from changelog_engine.operators.messages import EpochKind


@dataclass(frozen=True)
class Epoch:
    """One epoch."""

    number: int  # in the attempt, from 1
    kind: EpochKind
    drains: bool  # the input ends with it although the sources have more
    began_ms: MonotonicMs
