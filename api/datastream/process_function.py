"""Functions that see time: ProcessFunction, and KeyedProcessFunction with keyed state and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from changelog_engine.graph.hooks import does_nothing

from ._function import Function
from .time_domain import TimeDomain
from .timerservice import TimerService


class ProcessFunction(Function):
    """Makes any number of elements of each element, and sees time."""

    class Context(ABC):
        """What ``process_element`` is given; valid during the call only."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time; timers need a keyed stream."""

        @abstractmethod
        def timestamp(self) -> int:
            """The element's event time in ms; -9223372036854775808 when it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the stream.
            ctx: its time.
        """


class KeyedProcessFunction(Function):
    """Makes any number of elements of each element of a keyed stream, with keyed state and timers.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream.state import ValueStateDescriptor
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         yield ctx.get_current_key(), self.count.value()
    """

    class Context(ABC):
        """What ``process_element`` is given; valid during the call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The element's key."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time, and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int:
            """The element's event time in ms, or the time of the timer.

            -9223372036854775808 when the element has none.
            """

    class OnTimerContext(Context):
        """What ``on_timer`` is given; valid during the call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer follows."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the stream.
            ctx: its key and time.
        """

    @does_nothing
    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer fires; the state is that of the timer's key. Does nothing by default.

        Args:
            timestamp: the time it was registered for, in ms.
            ctx: the key and the clock.

        Returns:
            New elements as those of ``process_element``.
        """
        return None
