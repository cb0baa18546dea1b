"""Windows of counted elements, and the window of all elements."""

from __future__ import annotations

from typing import Any

from changelog_engine.config.numbers import whole_number
from changelog_engine.graph.nodes import StateKind
from changelog_engine.types import Types
from changelog_engine.windowing.assigner import WindowAssigner
from changelog_engine.windowing.other_triggers import CountTrigger, NeverTrigger, PurgingTrigger
from changelog_engine.windowing.reserved import ReservedState
from changelog_engine.windowing.serializers import CountWindowSerializer, GlobalWindowSerializer
from changelog_engine.windowing.windows import CountWindow, GlobalWindow


class CountWindows(WindowAssigner[Any, CountWindow]):
    """What count windows share: windows of one number of elements start at regular counts; a key's count is state."""

    size: int
    slide: int

    def __init__(self) -> None:
        self._count = ReservedState("__assigned", StateKind.VALUE, Types.LONG())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        state = context.get_runtime_context().get_state(self._count)
        count = state.value() or 0
        state.update(count + 1)
        last = count // self.slide
        first = max(0, -((self.size - 1 - count) // self.slide))
        return [CountWindow(id) for id in range(last, first - 1, -1)]

    def get_default_trigger(self, env: Any) -> PurgingTrigger:
        """Fires when a window is full, and drops its elements: none will follow."""
        return PurgingTrigger(CountTrigger(self.size))

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(CountWindows):
    """Windows of a fixed number of elements of a key, one after the other. One that does not fill up never fires.

    Args:
        window_size: number of elements, at least 1.

    Raises:
        ConfigurationError: another number.
    """

    def __init__(self, window_size: int) -> None:
        super().__init__()
        self.size = self.slide = whole_number(window_size, "CountTumblingWindowAssigner: the size", 1)

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """New windows; see the class."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.size})"


class CountSlidingWindowAssigner(CountWindows):
    """Windows of a fixed number of elements of a key, which may overlap. One that does not fill up never fires.

    Args:
        window_size: number of elements, at least 1.
        window_slide: how many elements lie between the starts of windows, at least 1.

    Raises:
        ConfigurationError: another number.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__()
        self.size = whole_number(window_size, "CountSlidingWindowAssigner: the size", 1)
        self.slide = whole_number(window_slide, "CountSlidingWindowAssigner: the slide", 1)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """New windows; see the class."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.size}, {self.slide})"


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """One window for all elements of a key. It never fires unless the program sets a trigger."""

    @staticmethod
    def create() -> GlobalWindows:
        """New windows."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> NeverTrigger:
        return NeverTrigger()

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
