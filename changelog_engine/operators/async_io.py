"""The operator of an async function: many elements wait for an outside system at a time.

The function's coroutines run in an event loop in a thread of its own (`event_loop.py`); what is under way belongs to that
thread (`async_calls.py`, `async_queue.py`). The task's thread hands elements over, takes what may leave, and pushes it on.

Invariants:
    * At the end of an epoch nothing is under way, so a barrier needs no state of this operator: what was asked before it is
      answered before it, and after a restore what came behind the checkpoint is asked again.
    * After a failed epoch no call goes on.
    * Elements wait for their start in bounded number, ``capacity`` of them and those of one batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any

from changelog_engine.clock import monotonic_s
from changelog_engine.errors import UserFunctionError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import AsyncSpec
from changelog_engine.operators import async_calls
from changelog_engine.operators.async_calls import ALL_OVER, AsyncCalls, Waiter
from changelog_engine.operators.async_queue import QueueEntry, Signal
from changelog_engine.operators.event_loop import EventLoop
from changelog_engine.operators.failures import UsersCode
from changelog_engine.operators.stateless import FunctionOperator
from changelog_engine.types import TypeInformation

_MUCH = 16_384  # results that wait to be pushed on
_WATCH_S = 1.0


class AsyncOperator(FunctionOperator):
    """See the module."""

    def __init__(self, name: str, output: TypeInformation | None, spec: AsyncSpec, context: Any) -> None:
        super().__init__(name, output, spec.function, context)
        self.spec = spec
        self.waited_s = (
            0.0  # for the last answers of epochs, which takes as long however few elements there are
        )
        self._handed = 0
        self._taken = 0
        self._open = False  # whether something may be under way
        self._loop: Any = None
        self._calls: Any = None

    def open(self) -> None:
        self._loop = EventLoop(f"async {self.name}")
        self._calls = AsyncCalls(self.name, self.spec, self._loop)
        try:
            self._live("open", self.context)
        except BaseException:
            self._loop.stop()
            self._loop = None
            raise

    def _live(self, method: str, *arguments: Any) -> None:
        """Call open() or close(); one that is a coroutine runs in the event loop, as async_invoke does."""
        function = hook_of(self.function, method)
        if function is None:
            return
        with UsersCode(self.name, method):
            result = function(*arguments)
            failure = self._loop.submit(_caught(result)).result() if inspect.iscoroutine(result) else None
            if failure is not None:
                raise failure

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        entries = (
            [QueueEntry(value, None) for value in values]
            if times is None
            else [QueueEntry(value, time) for value, time in zip(values, times, strict=True)]
        )
        self._hand(entries)
        if self._handed - self._calls.started > self.spec.capacity or self._handed - self._taken > _MUCH:
            self._wait(self.spec.capacity // 2)

    def process_keyed(
        self, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        """Take elements of a keyed stream; the function does not see their keys."""
        self.process(values, times)

    def watermark(self, watermark: int) -> None:
        self._signal(Signal(partial(super().watermark, watermark)))

    def idleness(self, idle: bool) -> None:
        self._signal(Signal(partial(super().idleness, idle)))

    def _signal(self, signal: Signal) -> None:
        if self._open:
            self._hand([signal])
        else:
            signal.act()

    def _hand(self, items: list[Any]) -> None:
        self._open = True
        self._handed += len(items)
        self._loop.call(self._calls.take, items)

    def end_epoch(self, now_ms: int) -> None:
        if self._open:
            self._wait(0)
            began = monotonic_s()
            self._wait(ALL_OVER)
            self.waited_s += monotonic_s() - began
            self._open = False

    def _wait(self, level: int) -> None:
        """Push on what leaves until few elements wait for their start; see Waiter."""
        while True:
            waiter = Waiter(level)
            self._loop.call(self._calls.wait, waiter)
            self._watch(waiter)
            if self._calls.failure is not None:
                raise self._calls.failure
            self._push(waiter.ready)
            if waiter.reached:
                return

    def _watch(self, waiter: Waiter) -> None:
        """Wait; a loop that a call keeps from turning cannot end the call by its timeout, so that is seen from here.

        Raises:
            UserFunctionError: it was kept from turning for longer than the timeout and the time of grace.
        """
        if waiter.event.wait(_WATCH_S):
            return
        limit_s = async_calls.GRACE_S + self.spec.timeout_ms / 1000
        answered, since = self._loop.answers(), monotonic_s()
        while not waiter.event.wait(_WATCH_S):
            if answered():
                answered, since = self._loop.answers(), monotonic_s()
            elif self.spec.timeout_ms > 0 and monotonic_s() - since > limit_s:
                raise UserFunctionError(
                    f"async_invoke of operator {self.name!r} keeps the event loop from turning for more than {limit_s:g} s: "
                    "no other element goes on and no timeout comes meanwhile. Await what takes long; what cannot be "
                    f"awaited goes through asyncio.to_thread(). It is here:\n{self._loop.where()}"
                )

    def _push(self, items: list[Any]) -> None:
        out: list[Any] = []
        times: list[Any] = []
        self._taken += len(items)
        for item in items:
            if type(item) is QueueEntry:
                results = item.results
                out += results
                if len(results) == 1:
                    times.append(item.time)
                else:
                    times += [item.time] * len(results)
            else:
                self._emit(out, times)
                out, times = [], []
                item.act()
        self._emit(out, times)

    def _emit(self, out: list[Any], times: list[Any]) -> None:
        if None in times:
            known = [NO_TIMESTAMP if time is None else time for time in times]
            self.emit(out, None if times.count(None) == len(times) else known)
        else:
            self.emit(out, times)

    def abandon(self) -> None:
        """End what is under way: its epoch failed."""
        self._handed = self._taken = 0
        if not self._open or self._loop is None:
            return
        self._open = False
        ended: Future[None] = self._loop.submit(self._calls.abandon())
        try:
            ended.result(async_calls.GRACE_S + _WATCH_S)
        except FutureTimeoutError:  # a call blocks the thread: its loop is of no use any more
            self._loop.stop(0)
            self._loop = EventLoop(f"async {self.name}")
            self._calls = AsyncCalls(self.name, self.spec, self._loop)

    def close(self) -> None:
        if self._loop is None:
            return
        self.abandon()
        try:
            self._live("close")
        finally:
            loop, self._loop = self._loop, None
            ended = loop.stop()
        if not ended:
            raise UserFunctionError(
                f"operator {self.name!r} was closed, and its event loop does not end: a call blocks it, here:\n"
                f"{loop.where()}"
            )


async def _caught(coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
    """How a coroutine failed; an exception such as SystemExit must not end the loop."""
    try:
        await coroutine
    except BaseException as error:
        return error
    return None
