"""Triggers that count, never fire, or change what another trigger says."""

from __future__ import annotations

import operator
from typing import Any

from changelog_engine.config.numbers import whole_number
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.nodes import StateKind
from changelog_engine.types import Types
from changelog_engine.windowing.assigner import milliseconds
from changelog_engine.windowing.reserved import ReservedState
from changelog_engine.windowing.trigger import QuietTrigger, Trigger, TriggerResult
from changelog_engine.windowing.windows import Window

_CONTINUE, _FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


class CountTrigger(QuietTrigger):
    """Fires each time a window has got a number of elements more, and keeps them.

    Args:
        window_size: number of elements, at least 1.

    Raises:
        ConfigurationError: another number.
    """

    def __init__(self, window_size: int) -> None:
        self.window_size = whole_number(window_size, "CountTrigger: the number of elements", 1)
        self._count = ReservedState("__count", StateKind.REDUCING, Types.LONG(), operator.add)

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """A new trigger; see the class."""
        return CountTrigger(window_size)

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        if (count.get() or 0) + 1 >= self.window_size:
            count.clear()
            return _FIRE
        count.add(1)
        return _CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class NeverTrigger(QuietTrigger):
    """Never fires."""

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        return None

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        return None


class PurgingTrigger(Trigger[Any, Any]):
    """Fires when another trigger does, and drops the elements.

    Args:
        nested_trigger: the other trigger.

    Raises:
        ConfigurationError: it is not a trigger.
    """

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = _trigger(nested_trigger, "PurgingTrigger: nested_trigger")

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        """A new trigger; see the class."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


class ProcessingTimeoutTrigger(Trigger[Any, Any]):
    """Fires when another trigger does, and when the machine's clock has gone on for a while since an element.

    Args:
        nested_trigger: the other trigger.
        interval: the while, in ms.
        reset_timer_on_new_record: count from the newest element, not from the first one.
        should_clear_on_timeout: forget what the other trigger remembers when the while is over.

    Raises:
        ConfigurationError: an argument that cannot be used.

    Source: org.apache.flink.streaming.api.windowing.triggers.ProcessingTimeoutTrigger
    """

    def __init__(
        self,
        nested_trigger: Trigger[Any, Any],
        interval: int,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> None:
        self.nested_trigger = _trigger(nested_trigger, "ProcessingTimeoutTrigger: nested_trigger")
        self.interval = whole_number(interval, "ProcessingTimeoutTrigger: the interval in ms", 1)
        self.reset_timer_on_new_record = reset_timer_on_new_record
        self.should_clear_on_timeout = should_clear_on_timeout
        self._timeout = ReservedState("__timeout", StateKind.VALUE, Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger[Any, Any],
        timeout: Any,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """A new trigger; see the class.

        Args:
            nested_trigger: the other trigger.
            timeout: a Duration or Time.
            reset_timer_on_new_record: count from the newest element.
            should_clear_on_timeout: clear the other trigger at the timeout.
        """
        return ProcessingTimeoutTrigger(
            nested_trigger,
            milliseconds(timeout, "ProcessingTimeoutTrigger.of: timeout"),
            reset_timer_on_new_record,
            should_clear_on_timeout,
        )

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        state = ctx.get_partitioned_state(self._timeout)
        pending = state.value()
        if pending is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(pending)
            pending = None
        if pending is None:
            timeout = ctx.get_current_processing_time() + self.interval
            state.update(timeout)
            ctx.register_processing_time_timer(timeout)
        return result

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else _FIRE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_event_time(time, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
        return result

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        return None

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._timeout)
        pending = state.value()
        if pending is not None:
            ctx.delete_processing_time_timer(pending)
            state.clear()
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


def _trigger(trigger: Any, what: str) -> Trigger[Any, Any]:
    if not isinstance(trigger, Trigger):
        raise ArgumentTypeError(f"{what} must be a Trigger, got {trigger!r}")
    return trigger
