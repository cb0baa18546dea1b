"""Trigger: decides when a window fires."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(enum.Enum):
    """What a trigger wants done with a window; the value is (fire, purge). A window without elements never fires.

    CONTINUE does nothing, FIRE calls the window's function and keeps the elements, PURGE drops the elements, and
    FIRE_AND_PURGE does both.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window's function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window's elements are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window of a key fires.

    One object serves all keys and windows of a subtask: what it has to remember belongs into state, from
    ``ctx.get_partitioned_state``.
    """

    class TriggerContext(ABC):
        """Clocks, timers and state of the window at hand; valid during the call only."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The machine's time in ms."""

        @abstractmethod
        def get_metric_group(self) -> Any:
            """The metric group, as in ``RuntimeContext``."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The watermark in ms; -9223372036854775808 before the first one."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have ``on_processing_time`` called for this window when the machine's time reaches a time.

            Args:
                time: ms.
            """

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have ``on_event_time`` called for this window when the watermark passes a time.

            Args:
                time: ms.
            """

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Remove this window's timer; nothing happens when there is none.

            Args:
                time: the ms it was registered for.
            """

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Remove this window's timer; nothing happens when there is none.

            Args:
                time: the ms it was registered for.
            """

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: Any) -> Any:
            """State of this key and window.

            Args:
                state_descriptor: declares it.
            """

    class OnMergeContext(TriggerContext):
        """What ``on_merge`` is given."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: Any) -> None:
            """Move the state of the windows that were merged into that of the new one.

            Args:
                state_descriptor: a list, a reducing or an aggregating state.

            Raises:
                InvalidJobError: a kind of state that cannot be merged.
            """

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called for each element that was added to a window.

        Args:
            timestamp: its time in ms.
            ctx: clocks, timers and state of the window.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer fires.

        Args:
            time: the ms it was registered for.
            ctx: clocks, timers and state of the window.
        """

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer fires.

        Args:
            time: the ms it was registered for.
            ctx: clocks, timers and state of the window.
        """

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge; False by default. If True, ``on_merge`` must do so."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows have become one.

        Args:
            window: the new one.
            ctx: clocks, timers and state of the new window.
        """

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Called when a window goes: delete its timers and state.

        Args:
            ctx: clocks, timers and state of the window.
        """


class QuietTrigger(Trigger[Any, Any]):
    """A trigger that does not fire: what triggers of the API say otherwise, they say themselves."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE
