"""The calls of an async function that are under way: starting, retrying, timing out, ending.

Invariants:
    * Everything here happens in the event loop's thread, so nothing is locked. Other threads read `started` and `failure`.
    * Never more than ``capacity`` calls run, those that were cancelled and have not ended included; nor are more elements
      between their start and their leaving.
    * An element has an end: its results, those of the user's ``timeout``, or a failure that names it.
    * The first failure is kept; nothing is started after it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from changelog_engine.errors import ChangelogEngineError, UserFunctionError
from changelog_engine.graph.nodes import AsyncSpec
from changelog_engine.operators.async_queue import OrderedQueue, Queue, QueueEntry, Signal, UnorderedQueue
from changelog_engine.operators.event_loop import EventLoop
from changelog_engine.operators.failures import user_failure
from changelog_engine.types import Row
from changelog_engine.types.copies import separate
from changelog_engine.types.typeinfo import shown

ALL_OVER = -1
GRACE_S = 30.0  # for a cancelled call to end
_EMIT_AT = 16_384


class Waiter:
    """Another thread that waits until few elements wait for their start.

    Args:
        level: how few; ALL_OVER: no element is under way and no call runs.
    """

    __slots__ = ("event", "level", "reached", "ready")

    def __init__(self, level: int) -> None:
        self.level = level
        self.event = threading.Event()
        self.ready: list[QueueEntry | Signal] = []  # what left meanwhile
        self.reached = False


class AsyncCalls:
    """See the module."""

    def __init__(self, name: str, spec: AsyncSpec, loop: EventLoop) -> None:
        self.name = name
        self.spec = spec
        self.started = 0  # entries and signals that wait no longer
        self.failure: ChangelogEngineError | None = None
        self._loop = loop
        self._invoke = spec.function.async_invoke
        self._call = self._call_once if spec.retry is None else self._call_with_retries
        self._timeout_s = max(0, spec.timeout_ms) / 1000
        self._clear()

    def _clear(self) -> None:
        self._queue: Queue = OrderedQueue() if self.spec.ordered else UnorderedQueue()
        self._backlog: deque[QueueEntry | Signal] = deque()
        self._running: set[QueueEntry] = set()
        self._deadlines: deque[tuple[float, QueueEntry]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._waiter: Waiter | None = None

    def take(self, items: Iterable[QueueEntry | Signal]) -> None:
        """Let elements and signals in, in their order."""
        self._backlog.extend(items)
        self._start()

    def wait(self, waiter: Waiter) -> None:
        """Tell the waiter when what it waits for is so, or much has left, or a call failed."""
        self._waiter = waiter
        self._look()

    def _start(self) -> None:
        """Begin as many calls as there is room for."""
        backlog, queue, running = self._backlog, self._queue, self._running
        capacity, timeout_s = self.spec.capacity, self._timeout_s
        while backlog and self.failure is None:
            item = backlog[0]
            if isinstance(item, Signal):
                queue.signal(item)
            elif queue.size >= capacity or len(running) >= capacity:
                break
            else:
                queue.add(item)
                running.add(item)
                if timeout_s:
                    self._deadlines.append((self._loop.time() + timeout_s, item))
                    if self._alarm is None:
                        self._alarm = self._loop.call_at(self._deadlines[0][0], self._ring)
                item.task = self._loop.create_task(self._call(item))
            backlog.popleft()
            self.started += 1
        self._look()

    def _look(self) -> None:
        waiter = self._waiter
        if waiter is None:
            return
        if waiter.level == ALL_OVER:
            waiter.reached = not (self._backlog or self._running or self._queue.size)
        else:
            waiter.reached = len(self._backlog) <= waiter.level
        if waiter.reached or self.failure is not None or len(self._queue.ready) >= _EMIT_AT:
            waiter.ready, self._queue.ready = self._queue.ready, []
            self._waiter = None
            waiter.event.set()

    async def _call_once(self, entry: QueueEntry) -> None:
        try:
            results = await self._invoke(entry.value)
            results = results_of_call(results, "async_invoke")
        except BaseException as error:  # whatever it is, it must not end the loop
            self._broken(entry, error)
        else:
            self._over(entry, results)

    async def _call_with_retries(self, entry: QueueEntry) -> None:
        strategy: Any = self.spec.retry
        attempt = 1
        call = "async_invoke"
        try:
            predicates = strategy.get_retry_predicate()
            again, again_after = predicates.result_predicate(), predicates.exception_predicate()
            while True:
                failure: Exception | None = None
                results: Any = None
                try:
                    results = await self._invoke(entry.value)
                except Exception as error:
                    failure = error
                call = "the retry strategy"
                if failure is not None:
                    wanted = again_after is not None and again_after(failure)
                else:
                    if results is not None and type(results) is not list:
                        results = results_of_call(results, "async_invoke")
                    wanted = results is not None and again is not None and again(results)
                if not wanted or not strategy.can_retry(attempt):
                    break
                pause_ms = strategy.get_backoff_time_millis(attempt)
                await asyncio.sleep(pause_ms / 1000)
                call = "async_invoke"
                attempt += 1
            call = "async_invoke" if attempt == 1 else f"async_invoke (attempt {attempt})"
            if failure is not None:
                raise failure
            results = results_of_call(results, "async_invoke")
        except BaseException as error:
            self._broken(entry, error, call)
        else:
            self._over(entry, results)

    def _over(self, entry: QueueEntry, results: Any) -> None:
        """A call has ended well; nobody wants its results any more if its time was over."""
        self._running.discard(entry)
        if not entry.done:
            entry.results = results
            entry.done = True
            self._queue.completed(entry)
        if self._backlog:
            self._start()
        else:
            self._look()

    def _broken(self, entry: QueueEntry, error: BaseException, call: str = "async_invoke") -> None:
        """A call has ended badly, which matters unless it was cancelled because its time was over."""
        self._running.discard(entry)
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
            error = error.__cause__  # as it was raised, before Python replaced it
        if not entry.done:
            self._fail_by(error, call, entry)
        self._start()

    def _fail_by(self, error: BaseException, call: str, entry: QueueEntry) -> None:
        """The user's function raised."""
        try:
            self._fail(user_failure(error, self.name, call, element=entry.value), error)
        except ChangelogEngineError as own:
            self._fail(own, own.__cause__)

    def _fail(self, failure: ChangelogEngineError, cause: BaseException | None) -> None:
        if self.failure is None:
            failure.__cause__ = cause
            self.failure = failure

    def _ring(self) -> None:
        """The time of the first one under way is over."""
        self._alarm = None
        deadlines, now = self._deadlines, self._loop.time()
        while deadlines and self.failure is None and (deadlines[0][1].done or deadlines[0][0] <= now):
            _, entry = deadlines.popleft()
            if not entry.done:
                self._time_out(entry)
        if deadlines and self._alarm is None:
            self._alarm = self._loop.call_at(deadlines[0][0], self._ring)
        self._start()

    def _time_out(self, entry: QueueEntry) -> None:
        try:
            results = results_of_call(self.spec.function.timeout(entry.value), "timeout")
        except BaseException as error:
            self._fail_by(error, "timeout", entry)
            return
        entry.results = results
        entry.done = True
        self._queue.completed(entry)
        entry.task.cancel()
        self._loop.call_at(self._loop.time() + GRACE_S, self._insist, entry)

    def _insist(self, entry: QueueEntry) -> None:
        """A call that does not end when it is cancelled would hold its place for ever."""
        if entry in self._running:
            self._fail(self._unending([entry]), None)
            self._look()

    def _unending(self, entries: list[QueueEntry]) -> UserFunctionError:
        elements = ", ".join(shown(entry.value) for entry in entries[:3])
        return UserFunctionError(
            f"async_invoke of operator {self.name!r}, element {elements}: the call goes on {GRACE_S:g} s after it was "
            "cancelled. Let asyncio.CancelledError pass: do not catch it, or raise it again"
        )

    async def abandon(self) -> None:
        """Cancel all that is under way, wait for its end, and forget it."""
        running = list(self._running)
        for entry in running:
            entry.done = True
            entry.task.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
        self._clear()
        self.started = 0
        self.failure = None
        if running:
            await asyncio.wait([entry.task for entry in running], timeout=GRACE_S)


def results_of_call(given: Any, call: str) -> list[Any]:
    """What a call gave, as a list of its own: the function may go on changing its list, and what is in it.

    Raises:
        TypeError: it is not a collection of results.
    """
    if type(given) is list:
        return [*separate(given)]
    wanted = f"{call} must return a list of results, [] for none"
    if given is None:
        raise TypeError(f"{call} returned None; {wanted}")
    if isinstance(given, (str, bytes, bytearray, Mapping, Row)):
        raise TypeError(f"{call} returned {shown(given)}, which is one value; {wanted}: write return [value]")
    try:
        elements = iter(given)
    except TypeError:
        raise TypeError(f"{call} returned {shown(given)}, which is not iterable; {wanted}") from None
    return [*separate(list(elements))]
