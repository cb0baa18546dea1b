"""Triggers that follow the watermark or the machine's clock."""

from __future__ import annotations

from typing import Any, Self

from changelog_engine.config.numbers import whole_number
from changelog_engine.event_time import MAX_WATERMARK
from changelog_engine.graph.nodes import StateKind
from changelog_engine.types import Types
from changelog_engine.windowing.assigner import milliseconds
from changelog_engine.windowing.reserved import ReservedState
from changelog_engine.windowing.trigger import QuietTrigger, Trigger, TriggerResult
from changelog_engine.windowing.windows import Window

_CONTINUE, _FIRE = TriggerResult.CONTINUE, TriggerResult.FIRE


class _Timed(QuietTrigger):
    """A trigger whose timers follow the watermark, where it is not `_ByMachine`."""

    def can_merge(self) -> bool:
        return True

    def _now(self, ctx: Trigger.TriggerContext) -> int:
        return ctx.get_current_watermark()

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class _ByMachine(_Timed):
    """Its timers follow the machine's clock."""

    def _now(self, ctx: Trigger.TriggerContext) -> int:
        return ctx.get_current_processing_time()

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


class _AtEnd(_Timed):
    """What both triggers share that fire at the end of the window."""

    @classmethod
    def create(cls) -> Self:
        """A new trigger."""
        return cls()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        end = window.max_timestamp()
        if end > self._now(ctx):
            self._register(end, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self._delete(window.max_timestamp(), ctx)


class EventTimeTrigger(_AtEnd):
    """Fires when the watermark passes the end of the window, and then for every late element."""

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(end)
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _FIRE if time == window.max_timestamp() else _CONTINUE


class ProcessingTimeTrigger(_AtEnd, _ByMachine):
    """Fires when the machine's clock passes the end of the window."""

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _FIRE


class _Continuous(_Timed):
    """What both continuous triggers share: the time of the next firing is state of the window."""

    def __init__(self, interval: int) -> None:
        self.interval = whole_number(interval, f"{type(self).__name__}: the interval in ms", 1)
        self._next = ReservedState("__fire_time", StateKind.REDUCING, Types.LONG(), min)

    @classmethod
    def of(cls, interval: Any) -> Self:
        """A new trigger.

        Args:
            interval: a Time.

        Raises:
            ConfigurationError: no Time, or less than 1 ms.
        """
        return cls(milliseconds(interval, f"{cls.__name__}.of: interval"))

    def _begin(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Set the first firing, if none is set: at the next multiple of the interval."""
        state = ctx.get_partitioned_state(self._next)
        if state.get() is None:
            self._set(time - time % self.interval, window, ctx)

    def _fires(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> bool:
        """Whether the timer is that of a firing; if so the next one is set."""
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return False
        state.clear()
        self._set(time, window, ctx)
        return True

    def _set(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        following, end = time + self.interval, window.max_timestamp()
        if time < end < following:
            following = end
        ctx.get_partitioned_state(self._next).add(following)
        self._register(following, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self._next)
        following = state.get()
        if following is not None:
            self._delete(following, ctx)
            state.clear()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next)
        following = ctx.get_partitioned_state(self._next).get()
        if following is not None:
            self._register(following, ctx)


class ContinuousEventTimeTrigger(_Continuous):
    """Fires whenever the watermark has gone on by an interval, and at the end of the window.

    A window without an end, as GlobalWindows has, fires for the last time when the input has ended.

    Args:
        interval: ms.

    Raises:
        ConfigurationError: an interval of less than 1 ms.
    """

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(end)
        self._begin(timestamp, window, ctx)
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp() or self._fires(time, window, ctx):
            return _FIRE
        return _CONTINUE

    def _set(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        end = window.max_timestamp()
        if end == MAX_WATERMARK == ctx.get_current_watermark():
            time = end - self.interval  # the input has ended: all firings before the last one would be alike
        super()._set(time, window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())


class ContinuousProcessingTimeTrigger(_Continuous, _ByMachine):
    """Fires whenever the machine's clock has gone on by an interval.

    Args:
        interval: ms.

    Raises:
        ConfigurationError: an interval of less than 1 ms.
    """

    def on_element(
        self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _FIRE if self._fires(time, window, ctx) else _CONTINUE
