"""Functions of users who made a mistake."""

import threading
from typing import Any

from api.datastream import KeyedProcessFunction, MapFunction
from changelog_engine.errors import CorruptChangelogError


def helper_of_the_user(value: int) -> float:
    return 1 / (value - 3)


class FailsInMap(MapFunction):
    def map(self, value: int) -> float:
        return helper_of_the_user(value)


class FailsInOpen(MapFunction):
    def open(self, runtime_context: Any) -> None:
        raise OSError("no such database")

    def map(self, value: Any) -> Any:
        return value


class FailsInProcess(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Any:
        if value == 3:
            raise KeyError("colour")
        yield value


class FailsInTimer(KeyedProcessFunction):
    def process_element(self, value: int, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        raise RuntimeError("the timer rang")


class KeepsALock(MapFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def map(self, value: Any) -> Any:
        return value


def fails_in_key(value: int) -> int:
    return [1, 2][value]


class FindsDamage(MapFunction):
    """Stands for a worker that reads a damaged part of the log."""

    def map(self, value: int) -> int:
        raise CorruptChangelogError("a part is damaged", "/data/part-1.parquet")
