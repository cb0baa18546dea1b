"""CompletableFuture: a value that is there later."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any


class CompletableFuture:
    """A value that is there later."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def cancel(self) -> bool:
        """Give up waiting, if it has not begun. Does not cancel the job."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was given up."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether the value, or the failure, is there."""
        return self._future.done()

    def result(self) -> Any:
        """Wait for the value.

        Raises:
            Exception: what made it fail.
        """
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Wait, and return what made it fail, or None."""
        return self._future.exception()

    def __repr__(self) -> str:
        """Its state: what it holds, if that is there; ``result()`` gives the value itself."""
        if not self.done():
            return "CompletableFuture(pending)"
        if self.cancelled():
            return "CompletableFuture(cancelled)"
        error = self.exception()
        if error is not None:
            return f"CompletableFuture(failed: {type(error).__name__}: {error})"
        return f"CompletableFuture(done: {self.result()})"
