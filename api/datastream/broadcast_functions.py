"""Functions over a stream and a broadcast stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from changelog_engine.graph.hooks import does_nothing

from ._function import Function
from .time_domain import TimeDomain
from .timerservice import TimerService

if TYPE_CHECKING:
    from .state import BroadcastState, ReadOnlyBroadcastState
    from .state_descriptors import MapStateDescriptor

KEY = TypeVar("KEY")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class BaseBroadcastProcessFunction(Function):
    """What `BroadcastProcessFunction` and `KeyedBroadcastProcessFunction` have in common."""

    class BaseContext(ABC):
        """The time of an element."""

        @abstractmethod
        def timestamp(self) -> int:
            """The element's event time in ms, or the time of the timer.

            -9223372036854775808 when the element has none.
            """

        @abstractmethod
        def current_processing_time(self) -> int:
            """The machine's time in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The watermark in ms, the smaller one of both streams."""

    class Context(BaseContext):
        """What elements of the broadcast stream are processed with: the broadcast state may be changed."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """A broadcast state.

            Args:
                state_descriptor: one of those given to ``broadcast()``.

            Raises:
                InvalidJobError: the state is not one that was broadcast with the stream.
            """

    class ReadOnlyContext(BaseContext):
        """What elements of the other stream are processed with: the broadcast state may be read."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """A view of a broadcast state that cannot be changed.

            Args:
                state_descriptor: one of those given to ``broadcast()``.

            Raises:
                InvalidJobError: the state is not one that was broadcast with the stream.
            """


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Makes any number of elements of each element of a stream and of a broadcast stream.

    Elements of the broadcast stream come to every subtask and change the broadcast state; elements of the
    other stream read it. Which of two elements of different streams comes first is not determined.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream.state import MapStateDescriptor
        >>> prices = MapStateDescriptor("prices", Types.STRING(), Types.LONG())
        >>> class Price(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(prices).put(value[0], value[1])
        ...     def process_element(self, value, ctx):
        ...         yield value, ctx.get_broadcast_state(prices).get(value)
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What ``process_broadcast_element`` is given; valid during the call only."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What ``process_element`` is given; valid during the call only."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the stream that is not broadcast.
            ctx: its time, and the broadcast state to be read.
        """

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: BroadcastProcessFunction.Context
    ) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the broadcast stream.
            ctx: its time, and the broadcast state to be changed.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """As `BroadcastProcessFunction`, with a keyed stream: ``process_element`` has keyed state and timers.

    Elements of the broadcast stream have no key: they must not touch keyed state.
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What ``process_broadcast_element`` is given; valid during the call only."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What ``process_element`` is given; valid during the call only."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Time, and the timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The element's key."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """What ``on_timer`` is given; valid during the call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer follows."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The timer's key."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the keyed stream.
            ctx: its key and time, timers, and the broadcast state to be read.
        """

    @abstractmethod
    def process_broadcast_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[Any] | None:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            value: an element of the broadcast stream.
            ctx: its time, and the broadcast state to be changed.
        """

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Called when a timer fires; the state is that of the timer's key. Does nothing by default.

        Args:
            timestamp: the time it was registered for, in ms.
            ctx: the key, the clock, and the broadcast state to be read.

        Returns:
            New elements as those of ``process_element``.
        """
        return None
