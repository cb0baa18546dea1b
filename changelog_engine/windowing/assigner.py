"""WindowAssigner: says which windows an element belongs to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from changelog_engine.errors import ArgumentTypeError, InvalidJobError
from changelog_engine.event_time import MAX_WATERMARK, NO_TIMESTAMP
from changelog_engine.graph.hooks import hook_of
from changelog_engine.windowing.serializers import WindowSerializer
from changelog_engine.windowing.trigger import Trigger

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Says which windows an element belongs to."""

    class WindowAssignerContext(ABC):
        """What an assigner may ask; valid during the call only."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The machine's time in ms."""

        @abstractmethod
        def get_runtime_context(self) -> Any:
            """The operator's ``RuntimeContext``, with state of the element's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of an element, none at all included.

        Args:
            timestamp: its time in ms; -9223372036854775808 when it has none.
            context: the clock and the key's state.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger where the program sets none.

        Args:
            env: the program's StreamExecutionEnvironment.
        """

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer:
        """Writes and reads the assigner's windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether the windows follow the watermark; if not, they follow the machine's time or no time at all."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may become one."""

    class MergeCallback(ABC, Generic[W2]):
        """Is told which windows become one."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Make one window of several.

            Args:
                to_be_merged: windows that were given to ``merge_windows``.
                merge_result: what they become.
            """

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Find windows that should become one, and tell the callback.

        Args:
            windows: the key's windows and a new one.
            callback: is told each group of windows and what it becomes.
        """


class SessionWindowTimeGapExtractor(ABC):
    """Says how long after an element its session ends."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap in ms, more than 0."""


def timestamp_of(assigner: WindowAssigner[Any, Any], timestamp: int) -> int:
    """The timestamp, if the element has one that a window can lie behind.

    Raises:
        InvalidJobError: it has none, or that of the input's end.
    """
    if timestamp == NO_TIMESTAMP:
        raise InvalidJobError(
            f"{type(assigner).__name__} needs timestamps, and an element has none: call "
            "assign_timestamps_and_watermarks() with a timestamp assigner before the window, or use a window "
            "of processing time"
        )
    if timestamp == MAX_WATERMARK:
        raise InvalidJobError(
            f"{type(assigner).__name__} has no window for the timestamp 2^63 - 1. Results of the input's end have it: those "
            "of a timer at that time, in BATCH mode those of reduce(), sum(), min() and max(). Call "
            "assign_timestamps_and_watermarks() with a timestamp assigner before the window"
        )
    return timestamp


def milliseconds(span: Any, what: str) -> int:
    """The length of a Time or Duration.

    Raises:
        ConfigurationError: it is neither.
    """
    to_milliseconds = hook_of(span, "to_milliseconds")
    if to_milliseconds is None:
        raise ArgumentTypeError(f"{what} must be a Time such as Time.seconds(1), got {span!r}")
    return int(to_milliseconds())
