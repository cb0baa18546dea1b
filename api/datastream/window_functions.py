"""Functions that are called when a window fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from ._function import Function
from .runtime_context import KeyedStateStore

__all__ = ["AllWindowFunction", "ProcessAllWindowFunction", "ProcessWindowFunction", "WindowFunction"]

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes any number of elements of a key's window.

    Example:
        >>> class Total(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield key, window.end, sum(inputs)
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            key: the window's key.
            inputs: its elements, in the order of arrival; after ``reduce`` or ``aggregate`` their result alone.
        """


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes any number of elements of a window over all keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            inputs: its elements, in the order of arrival; after ``reduce`` or ``aggregate`` their result alone.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Makes any number of elements of a key's window, and sees time and state."""

    class Context(ABC, Generic[W2]):
        """The window, time and state; valid during the call only."""

        @abstractmethod
        def window(self) -> W2:
            """The window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The machine's time in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The watermark in ms; -9223372036854775808 before the first one."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this key and window.

            What is put there must be cleared in ``clear``. Sessions and other windows that merge have none.
            """

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of this key, the same for all its windows."""

    @abstractmethod
    def process(
        self, key: KEY, content: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            key: the window's key.
            content: the window, time and state.
            elements: its elements, in the order of arrival; after ``reduce`` or ``aggregate`` their result alone.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Called when the window goes: clear what is in its ``window_state``. Does nothing by default.

        Args:
            context: the window, time and state.
        """


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Makes any number of elements of a window over all keys, and sees time and state."""

    class Context(ABC, Generic[W2]):
        """The window and its state; valid during the call only."""

        @abstractmethod
        def window(self) -> W2:
            """The window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this window; see ``ProcessWindowFunction.Context.window_state``."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State that is the same for all windows."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """The new elements: a generator or other iterable, or None for no elements.

        Args:
            context: the window and its state.
            elements: its elements, in the order of arrival; after ``reduce`` or ``aggregate`` their result alone.
        """

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Called when the window goes: clear what is in its ``window_state``. Does nothing by default."""


def is_window_function(function: Any) -> bool:
    """Whether it is one of this module's functions."""
    kinds = (WindowFunction, AllWindowFunction, ProcessWindowFunction, ProcessAllWindowFunction)
    return isinstance(function, kinds)
