"""TimeCharacteristic: the notion of time of a program."""

from __future__ import annotations

from enum import Enum


class TimeCharacteristic(Enum):
    """The notion of time of a program. Event time is always on; timers name the domain they mean."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
