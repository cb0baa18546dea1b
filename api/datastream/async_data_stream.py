"""AsyncDataStream: asks an outside system about the elements of a stream."""

from __future__ import annotations

from typing import Annotated, Any

from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import AsyncSpec, NodeKind

from .. import _arguments
from .._arguments import OutputType, SuchAs, Whole, checked
from ..common.time import Duration, Time
from . import _wrappers
from .async_functions import AsyncFunction
from .async_retry_strategies import NO_RETRY_STRATEGY, AsyncRetryStrategy
from .data_stream import DataStream

__all__ = ["AsyncDataStream"]


_Capacity = Annotated[int, Whole(1)]
_Strategy = Annotated[AsyncRetryStrategy[Any], SuchAs("AsyncRetryStrategy.fixed_delay(...)")]


@checked
class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream.

    Every element's call is under way at the same time as those of others, up to ``capacity`` in each subtask. What was asked
    before a checkpoint is answered before it; after a failure, elements since the checkpoint are asked again.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: _Capacity = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Ask about each element; results leave as they come, but none passes a watermark.

        Args:
            data_stream: the stream. Of a keyed one each key's elements are asked in its subtask; the function has no state.
            timeout: how long an element may take before ``AsyncFunction.timeout`` answers for it; 0 for ever.
            capacity: how many elements may be under way in a subtask, at least 1.

        Returns:
            The stream of the results, each with its element's timestamp.
        """
        arguments = (data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type)
        return _async_stream("unordered_wait", False, *arguments)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: _Strategy,
        capacity: _Capacity = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """As `unordered_wait`, with more attempts for what the strategy wants to be tried again.

        Args:
            timeout: how long an element may take, all attempts and pauses together; more than 0.
            async_retry_strategy: what is tried again, when, and how often.
            capacity: how many elements may be under way in a subtask; one that waits for its next attempt is.
            output_type: type of the results.
        """
        arguments = (data_stream, async_function, timeout, async_retry_strategy, capacity, output_type)
        return _async_stream("unordered_wait_with_retry", False, *arguments)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        capacity: _Capacity = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """Ask about each element; results leave in the order of the elements.

        Args:
            data_stream: the stream; as for `unordered_wait`.
            timeout: as for `unordered_wait`.
            capacity: how many elements may be under way in a subtask; one whose results wait for those before it is.

        Returns:
            The stream of the results, each with its element's timestamp.
        """
        arguments = (data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type)
        return _async_stream("ordered_wait", True, *arguments)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: _Strategy,
        capacity: _Capacity = 100,
        output_type: OutputType = None,
    ) -> DataStream:
        """As `ordered_wait`, with more attempts for what the strategy wants to be tried again.

        Args:
            timeout: as for `unordered_wait_with_retry`.
            async_retry_strategy: what is tried again, when, and how often.
            capacity: as for `ordered_wait`.
            output_type: type of the results.
        """
        arguments = (data_stream, async_function, timeout, async_retry_strategy, capacity, output_type)
        return _async_stream("ordered_wait_with_retry", True, *arguments)


def _async_stream(
    method: str,
    ordered: bool,
    data_stream: DataStream,
    async_function: Any,
    timeout: Any,
    strategy: Any,
    capacity: Any,
    output_type: Any,
) -> DataStream:
    what = f"AsyncDataStream.{method}"
    function = _wrappers.as_async_function(async_function, what)
    timeout_ms = timeout.to_milliseconds()
    retry = _retry(strategy, timeout_ms, what)
    spec = AsyncSpec(function, timeout_ms, capacity, retry, ordered)
    declared = _arguments.output_type(output_type, f"{what}: output_type")
    return data_stream._then(NodeKind.ASYNC, "async wait operator", spec, declared)


def _retry(strategy: Any, timeout_ms: int, what: str) -> Any:
    """The strategy, None where nothing can be tried again."""
    if strategy is NO_RETRY_STRATEGY:
        return None
    if timeout_ms <= 0:
        raise ConfigurationError(
            f"{what}: with retries the timeout must be more than 0; all attempts share it"
        )
    predicate = strategy.get_retry_predicate()
    if predicate is None:
        raise ConfigurationError(
            f"{what}: get_retry_predicate() of {type(strategy).__name__} returned None; it must return an "
            "AsyncRetryPredicate"
        )
    if predicate.result_predicate() is None and predicate.exception_predicate() is None:
        return None
    return strategy
