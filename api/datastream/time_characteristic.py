"""TimeCharacteristic: the notion of time of a program."""

from __future__ import annotations

from enum import Enum

from .._unsupported import module_getattr


class TimeCharacteristic(Enum):
    """The notion of time of a program. Event time is always on; timers name the domain they mean.

    Source: pyflink.datastream.TimeCharacteristic
    """

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2


__getattr__ = module_getattr(__name__)
