"""What in a function cannot be pickled is named as the program writes it."""

from __future__ import annotations

import functools
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from api.datastream import MapFunction
from changelog_engine.codec.unpicklable import holder


class Client:
    def __init__(self) -> None:
        self.session = {"retries": 3, "locks": [1, threading.Lock()]}


class Asks(MapFunction):
    def __init__(self, client: Any) -> None:
        self.limit, self.client = 5, client

    def map(self, value: Any) -> Any:
        return value


def over(held: Any, *more: Any) -> Callable[[Any], Any]:
    return lambda value: [(held, value) for _ in more]


@pytest.mark.parametrize(
    ("function", "held_by"),
    [
        (over(sqlite3.connect(":memory:")), "held"),
        (over(over(threading.Lock())), "held"),
        (over(1, threading.Lock()), "more[0]"),
        (Asks(Client()), "self.client.session['locks'][1]"),
        (Asks(Client()).map, "self.client.session['locks'][1]"),
        (Asks(threading.Lock()), "self.client"),
        (functools.partial(print, threading.Lock()), ""),
        (over(5, 6), ""),
        (len, ""),
    ],
)
def test_the_innermost_name(function: Any, held_by: str) -> None:
    assert holder(function) == held_by


def test_a_variable_of_the_script() -> None:
    script: dict[str, Any] = {"__name__": "__main__", "threading": threading, "sqlite3": sqlite3}
    exec(
        "LOCK = threading.Lock()\n"
        "def plain(value):\n    return [LOCK for _ in value]\n"
        "class Locked:\n    def map(self, value):\n        return LOCK\n",
        script,
    )
    assert holder(script["plain"]) == "LOCK"
    assert holder(script["Locked"]()) == "LOCK"


def test_what_holds_itself_and_what_is_large_come_to_an_end() -> None:
    loop: list[Any] = [threading.Lock()]
    loop.insert(0, loop)
    assert holder(over(loop)).startswith("held[")
    assert holder(over([*range(1000), threading.Lock()])) == "held"
