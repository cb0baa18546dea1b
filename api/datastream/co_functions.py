"""Functions over two connected streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from changelog_engine.graph.hooks import does_nothing

from ._function import Function
from .process_function import KeyedProcessFunction
from .timerservice import TimerService


class CoMapFunction(Function):
    """Makes one element of each element of two connected streams.

    One object sees both streams, so they can share what it holds.

    Example:
        >>> class Texts(CoMapFunction):
        ...     def map1(self, value):
        ...         return str(value)
        ...     def map2(self, value):
        ...         return value
        >>> Texts().map1(1), Texts().map2("a")
        ('1', 'a')
    """

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The new element; None for no element.

        Args:
            value: an element of the first stream.
        """

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The new element; None for no element.

        Args:
            value: an element of the second stream.
        """


class CoFlatMapFunction(Function):
    """Makes any number of elements of each element of two connected streams.

    Example:
        >>> class Words(CoFlatMapFunction):
        ...     def flat_map1(self, value):
        ...         yield from value.split()
        ...     def flat_map2(self, value):
        ...         yield value
        >>> list(Words().flat_map1("to be")), list(Words().flat_map2("to be"))
        (['to', 'be'], ['to be'])
    """

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the first stream.
        """

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the second stream.
        """


class CoProcessFunction(Function):
    """Makes any number of elements of each element of two connected streams, and sees time."""

    class Context(ABC):
        """What ``process_element1`` and ``process_element2`` are given; valid during the call only."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time; timers need keyed streams and a `KeyedCoProcessFunction`."""

        @abstractmethod
        def timestamp(self) -> int:
            """The element's event time in ms; -9223372036854775808 when it has none."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the first stream.
            ctx: its time.
        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the second stream.
            ctx: its time.
        """


class KeyedCoProcessFunction(Function):
    """Makes any number of elements of each element of two keyed streams, with keyed state and timers.

    Elements of both streams with the same key see the same state.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream.state import ValueStateDescriptor
        >>> class Latest(KeyedCoProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.rate = runtime_context.get_state(ValueStateDescriptor("rate", Types.DOUBLE()))
        ...     def process_element1(self, value, ctx):
        ...         yield ctx.get_current_key(), value[1] * (self.rate.value() or 1.0)
        ...     def process_element2(self, value, ctx):
        ...         self.rate.update(value[1])
    """

    class Context(KeyedProcessFunction.Context):
        """What ``process_element1`` and ``process_element2`` are given; valid during the call only."""

    class OnTimerContext(KeyedProcessFunction.OnTimerContext, Context):
        """What ``on_timer`` is given; valid during the call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the first stream.
            ctx: its key and time.
        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the second stream.
            ctx: its key and time.
        """

    @does_nothing
    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer fires; the state is that of the timer's key. Does nothing by default.

        Args:
            timestamp: the time it was registered for, in ms.
            ctx: the key and the clock.

        Returns:
            New elements as those of ``process_element1``.
        """
        return None
