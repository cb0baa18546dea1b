"""The functions that users write."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from .._arguments import refuse_java
from ._function import Function
from .async_functions import AsyncFunction, AsyncRetryPredicate
from .async_retry_strategies import AsyncRetryStrategy
from .broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from .co_functions import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from .process_function import KeyedProcessFunction, ProcessFunction
from .runtime_context import KeyedStateStore, RuntimeContext
from .timerservice import TimerService
from .window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "JavaFunctionWrapper",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "TimerService",
    "WindowFunction",
]


class MapFunction(Function):
    """Makes one element of each element."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The new element.

        Args:
            value: an element of the stream.
        """


class FlatMapFunction(Function):
    """Makes any number of elements of each element.

    Example:
        >>> class Words(FlatMapFunction):
        ...     def flat_map(self, value):
        ...         yield from value.split()
        >>> list(Words().flat_map("to be"))
        ['to', 'be']
    """

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """The new elements: a generator, list or other iterable. None is an error.

        Args:
            value: an element of the stream.
        """


class FilterFunction(Function):
    """Keeps some of the elements."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether the element stays.

        Args:
            value: an element of the stream.
        """


class ReduceFunction(Function):
    """Combines two elements into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The combination.

        Args:
            value1: what the earlier elements were combined into.
            value2: the new element.
        """


class AggregateFunction(Function):
    """Aggregates elements in an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new accumulator, for no elements."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with one more element.

        Args:
            accumulator: may be changed and returned.
        """

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result that an accumulator stands for."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """The accumulator of the elements of both; either may be changed and returned."""


class KeySelector(Function):
    """Gives each element its key."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key: the same for the same element, in every process.

        Args:
            value: an element of the stream.
        """


class NullByteKeySelector(KeySelector):
    """Gives all elements the same key: 0."""

    def get_key(self, value: Any) -> int:
        """The key: 0.

        Args:
            value: an element of the stream.
        """
        return 0


class Partitioner(Function):
    """Says which subtask gets the elements with a key, for ``DataStream.partition_custom``.

    Example:
        >>> class ByRemainder(Partitioner):
        ...     def partition(self, key, num_partitions):
        ...         return key % num_partitions
        >>> ByRemainder().partition(7, 4)
        3
    """

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The number of the subtask, from 0 to ``num_partitions`` - 1.

        Args:
            key: the key of an element.
            num_partitions: how many subtasks there are.
        """


class JavaFunctionWrapper:
    """Base of `SourceFunction` and `SinkFunction`. In PyFlink they wrap Java objects, here Python objects."""

    def __init__(self, j_function: Any) -> None:
        refuse_java(j_function, type(self).__name__, "object or function")
        self._function = j_function

    def get_java_function(self) -> Any:
        """What it was made of; a Python object or function, as there is no Java here."""
        return self._function


class SourceFunction(JavaFunctionWrapper):
    """A source written in Python, for ``env.add_source``.

    Args:
        source_func: a function without arguments that returns an iterable, such as a generator function,
            which gives the same elements each time it is called; or an object that inherits
            ``changelog_engine.connectors.Source``.

    Raises:
        NotSupportedError: the name of a Java class.
    """

    def __init__(self, source_func: Any) -> None:
        super().__init__(source_func)


class SinkFunction(JavaFunctionWrapper):
    """A sink written in Python, for ``DataStream.add_sink``.

    Args:
        sink_func: a function of one value; an object with ``invoke(value)``; or one that inherits
            ``changelog_engine.connectors.Sink``.

    Raises:
        NotSupportedError: the name of a Java class.
    """

    def __init__(self, sink_func: Any) -> None:
        super().__init__(sink_func)
