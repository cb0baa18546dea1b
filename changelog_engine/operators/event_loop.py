"""An asyncio event loop in a thread of its own, for as long as an operator lives.

Invariants:
    * The loop runs without a break while the operator's own thread works or waits: answers, pings and timeouts are never
      late because of what other operators do.
    * After ``stop()`` no task, asynchronous generator, executor, loop or thread of it is left, unless a call in it never
      gives way: then ``stop()`` says so, for nothing can end a thread from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from changelog_engine.operators.forked import ends_in_forked_children

_STOP_S = 10.0


class EventLoop:
    """A running event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.time = self._loop.time
        self.call = self._loop.call_soon_threadsafe
        self.call_at = self._loop.call_at
        self.create_task = self._loop.create_task
        self._thread.start()

    def _run(self) -> None:
        with ends_in_forked_children():
            self._run_loop()

    def _run_loop(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            while not self._stopping:  # whatever a user's task does: stop() the loop, or raise SystemExit
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    loop.run_forever()
            loop.run_until_complete(self._end_all())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _end_all(self) -> None:
        """End what the user's code began and left behind."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_S)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine; what it gives, or how it failed, comes through the future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def answers(self) -> Callable[[], bool]:
        """Ask the loop for a sign of life; the returned function says whether it came."""
        sign = threading.Event()
        self.call(sign.set)
        return sign.is_set

    def where(self) -> str:
        """What the loop's thread does now, as a traceback."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame)).rstrip()

    def stop(self, patience_s: float = 3 * _STOP_S) -> bool:
        """End everything in the loop, and the loop; returns whether its thread has ended."""
        self._stopping = True
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has just ended
                self.call(self._loop.stop)
            self._thread.join(patience_s)
        return not self._thread.is_alive()
