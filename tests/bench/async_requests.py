"""Requests to an HTTP server on loopback, by an async function and by a plain asyncio loop with a semaphore.

``python async_requests.py`` prints the figures as JSON. The server is a process of its own. Spark is left out: it is the
operator that is measured, opening and closing included. Beside it the cost of an element that does not wait at all.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from support.http_service import Ask, HttpService, fetch

from api.datastream import AsyncFunction
from changelog_engine.graph.nodes import AsyncSpec
from changelog_engine.operators.async_io import AsyncOperator

REQUESTS = 1_000
DELAY_MS = 50
CAPACITY = 100
AT_ONCE = 200_000
_RUNS = 3


class AsyncBench:
    """See the module."""

    def rates(self) -> dict[str, Any]:
        """Seconds for all requests, and microseconds an element that does not wait; each the best of some runs."""
        command = [sys.executable, __file__, "serve"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            port = int(server.stdout.readline())
            paths = [f"/ok/{number}" for number in range(REQUESTS)]
            requests = _best(lambda: _through_operator(Ask(port), paths))
            plain = _best(lambda: asyncio.run(_plain(paths, lambda path: fetch(port, path))))
            server.stdin.close()
        numbers = list(range(AT_ONCE))
        element = _best(lambda: _through_operator(AtOnce(), numbers)) / AT_ONCE * 1e6
        plain_element = _best(lambda: asyncio.run(_plain(numbers, AtOnce().async_invoke))) / AT_ONCE * 1e6
        return {
            "seconds": requests,
            "plain_seconds": plain,
            "us_per_element": element,
            "plain_us_per_element": plain_element,
        }


class AtOnce(AsyncFunction[int, int]):
    """Does not wait."""

    async def async_invoke(self, value: int) -> list[int]:
        return [value]


class _Count:
    """Counts what comes out."""

    count = 0
    typed = False

    def process(self, values: Any, times: Any) -> None:
        self.count += len(values)


def _through_operator(function: Any, elements: list[Any]) -> None:
    operator = AsyncOperator("ask", None, AsyncSpec(function, 60_000, CAPACITY, None, False), None)
    counter: Any = _Count()
    operator.link(counter)
    operator.open()
    operator.process(elements, None)
    operator.end_epoch(0)
    operator.close()
    if counter.count != len(elements):
        raise RuntimeError(f"{counter.count} results came, of {len(elements)}")


async def _plain(elements: list[Any], call: Callable[[Any], Any]) -> None:
    """A task for each element, and a semaphore: what people write."""
    places = asyncio.Semaphore(CAPACITY)

    async def one(element: Any) -> Any:
        async with places:
            return await call(element)

    await asyncio.gather(*[one(element) for element in elements])


def _best(run: Callable[[], Any]) -> float:
    found = []
    for _ in range(_RUNS):
        began = time.monotonic()
        run()
        found.append(time.monotonic() - began)
    return min(found)


def _serve() -> None:
    with HttpService(DELAY_MS) as service:
        print(service.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        _serve()
    else:
        print(json.dumps(AsyncBench().rates(), indent=2))
