"""Functions that ask outside systems, and what calls for another attempt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ._function import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, Generic[IN, OUT]):
    """Asks an outside system about each element without making the others wait; see `AsyncDataStream`.

    The coroutines of a subtask run in one event loop. ``open`` and ``close`` may be coroutines too (in PyFlink they
    may not): then they run in that loop, where a client that belongs to it is made and closed.

    Example:
        >>> import asyncio
        >>> class Twice(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         await asyncio.sleep(0.001)
        ...         return [2 * value]
        >>> asyncio.run(Twice().async_invoke(2))
        [4]
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for an element, a list; [] for none. What it raises fails the job, or is retried.

        It must await whatever takes long: a call that does not give way keeps all others waiting.

        Args:
            value: an element of the stream.
        """

    def timeout(self, value: IN) -> list[OUT]:
        """The results for an element whose time is over, a list. The call is cancelled. By default an error.

        Raises:
            TimeoutError: always, unless it is overridden; it fails the job.
        """
        raise TimeoutError("Async function call has timed out for input: " + str(value))


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Says which results and exceptions of an async function call for another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """A function of the list of results that is true for those to try again; None for none."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """A function of the exception that is true for those to try again; None for none."""
