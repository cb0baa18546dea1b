"""Whether and when async functions are tried again: the contract, and ready-made strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Generic

from changelog_engine.config.numbers import above_zero
from changelog_engine.errors import ArgumentTypeError

from .._arguments import Whole, checked
from .async_functions import OUT, AsyncRetryPredicate, ExceptionPredicate, ResultPredicate

__all__ = [
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NO_RETRY_STRATEGY",
    "NoRetryStrategy",
    "RetryPredicate",
]


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Says whether and when an async function is tried again. All attempts share the element's timeout."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another attempt.

        Args:
            current_attempts: how many there were for the element, at least 1.
        """

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> float:
        """How long to wait before the next attempt, in ms.

        Args:
            current_attempts: how many there were for the element, at least 1.
        """

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """What calls for another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """No attempt but the first."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Attempts with the same pause before each; see `FixedDelayRetryStrategy`."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: Annotated[int, Whole(1)],
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Attempts with growing pauses; see `ExponentialBackoffDelayRetryStrategy`."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """Two functions as an `AsyncRetryPredicate`.

    Args:
        result_predicate: of the list of results; None for none.
        exception_predicate: of the exception; None for none.

    Raises:
        ConfigurationError: neither a function nor None.
    """

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        for name, predicate in (("result", result_predicate), ("exception", exception_predicate)):
            if predicate is not None and not callable(predicate):
                raise ArgumentTypeError(f"{name}_predicate must be a function or None, got {predicate!r}")
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """The function of the results that was given."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """The function of the exception that was given."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """No attempt but the first."""

    def can_retry(self, current_attempts: int) -> bool:
        """Never."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> float:
        """-1: there is no other attempt."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Nothing calls for another attempt."""
        return RetryPredicate(None, None)


_Above = Annotated[float, above_zero]


class _Limited(AsyncRetryStrategy[OUT]):
    """A limited number of attempts, whatever the pauses between them."""

    def __init__(
        self,
        max_attempts: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        self._max_attempts = max_attempts
        self._predicate: RetryPredicate[OUT] = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """While there were no more retries than ``max_attempts``."""
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """What calls for another attempt."""
        return self._predicate


@checked
class FixedDelayRetryStrategy(_Limited[OUT]):
    """Another attempt after the same pause, a limited number of times.

    Args:
        max_attempts: attempts after the first, at least 1, as in PyFlink.
        backoff_time_millis: the pause in ms, more than 0.
        result_predicate: of the list of results: which are tried again; None for none.
        exception_predicate: of the exception: which are tried again; None for none.

    Example:
        >>> strategy = FixedDelayRetryStrategy(2, 100, None, lambda error: isinstance(error, OSError))
        >>> [strategy.can_retry(attempts) for attempts in (1, 2, 3)]
        [True, True, False]
    """

    def __init__(
        self,
        max_attempts: Annotated[int, Whole(1)],
        backoff_time_millis: _Above,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._backoff_time_millis = backoff_time_millis

    def get_backoff_time_millis(self, current_attempts: int) -> float:
        """The pause in ms."""
        return self._backoff_time_millis


@checked
class ExponentialBackoffDelayRetryStrategy(_Limited[OUT]):
    """Another attempt after a pause that grows from one to the next, a limited number of times.

    Args:
        max_attempts: attempts after the first, at least 1, as in PyFlink.
        initial_delay: the first pause in ms, more than 0.
        max_retry_delay: the longest pause in ms, more than 0.
        multiplier: from one pause to the next, more than 0.
        result_predicate: of the list of results: which are tried again; None for none.
        exception_predicate: of the exception: which are tried again; None for none.

    Example:
        >>> strategy = ExponentialBackoffDelayRetryStrategy(9, 100, 500, 2.0, None, None)
        >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4)]
        [100, 200, 400, 500]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: _Above,
        max_retry_delay: _Above,
        multiplier: _Above,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier

    def get_backoff_time_millis(self, current_attempts: int) -> float:
        """The pause in ms. Elements do not lengthen each other's, as they do in PyFlink."""
        delay = self._initial_delay
        for _ in range(1, current_attempts):
            longer = int(min(delay * self._multiplier, self._max_retry_delay))
            if longer == delay:
                break
            delay = longer
        return delay


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
