"""Timestamps and watermarks of a stream."""

from __future__ import annotations

import abc
import copy
import inspect
import itertools
import logging
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Self

from changelog_engine.errors import ArgumentTypeError, TypeMismatchError
from changelog_engine.graph.hooks import hook_of, refuse_async, refuse_deferred
from changelog_engine.graph.nodes import WatermarkSpec
from changelog_engine.types.typeinfo import shown

from .._arguments import SuchAs, checked, checked_later
from .._kept_settings import kept
from .._unsupported import NamesOfPyFlink
from .time import AtLeast, Duration

_LOG = logging.getLogger("changelog_engine")
_Span = Annotated[Duration, AtLeast(1)]
_NO_ASSIGNER = (
    "WatermarkStrategy.with_timestamp_assigner needs an instance of a TimestampAssigner, of a class that inherits it and "
    "has extract_timestamp(self, value, record_timestamp)"
)


class TimestampAssigner(abc.ABC):
    """Gives each element its event time."""

    @abc.abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The event time of an element.

        Args:
            record_timestamp: the time it had so far, in ms; -9223372036854775808 for none.

        Returns:
            Milliseconds since 1970-01-01 UTC.
        """


@checked
class WatermarkStrategy(NamesOfPyFlink):
    """Says how a stream gets timestamps and watermarks; made by its static methods.

    Watermarks are periodic: they are emitted at the end of each epoch, so a small bounded input sees none
    before its end. The end of a bounded input brings the largest watermark, 9223372036854775807.

    Example:
        >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    """

    _not_here: Mapping[str, str] = {
        "for_generator": "takes a generator of Java's: use for_bounded_out_of_orderness() or for_monotonous_timestamps()"
    }

    def __init__(self, out_of_orderness_ms: int | None) -> None:
        self._out_of_orderness_ms = out_of_orderness_ms
        self._timestamp_assigner: TimestampAssigner | None = None
        self._idle_timeout_ms: int | None = None
        self._given_to_from_source = False

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never go back: the watermark is the largest timestamp - 1 ms."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(
        max_out_of_orderness: Annotated[Duration, AtLeast(0)],
    ) -> WatermarkStrategy:
        """For timestamps that go back by a bounded time.

        The watermark is the largest timestamp - the bound - 1 ms.

        Args:
            max_out_of_orderness: the bound.
        """
        return WatermarkStrategy(max_out_of_orderness.to_milliseconds())

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks before the end of the input."""
        return WatermarkStrategy(None)

    def with_timestamp_assigner(
        self, timestamp_assigner: Annotated[TimestampAssigner, checked_later]
    ) -> Self:
        """Take timestamps from an assigner; without one, elements keep those they have.

        Args:
            timestamp_assigner: called for each element.

        Raises:
            ConfigurationError: it has no ``extract_timestamp``.
        """
        if not isinstance(
            timestamp_assigner, types.FunctionType
        ):  # `from_source` takes those, `_spec` does not
            if isinstance(timestamp_assigner, type) or not hook_of(timestamp_assigner, "extract_timestamp"):
                raise ArgumentTypeError(f"{_NO_ASSIGNER}, got {timestamp_assigner!r}")
            refuse_async(
                hook_of(timestamp_assigner, "extract_timestamp"),
                f"extract_timestamp of {type(timestamp_assigner).__name__}",
                "WatermarkStrategy.with_timestamp_assigner",
            )
        self._timestamp_assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: _Span) -> WatermarkStrategy:
        """Stop waiting for a channel that gives nothing for some time.

        Args:
            idle_timeout: after how long it no longer holds back the watermark.

        Raises:
            ConfigurationError: no Duration, or none above zero.
        """
        changed = copy.copy(self)
        changed._idle_timeout_ms = idle_timeout.to_milliseconds()
        return changed

    @kept
    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: _Span,
        update_interval: _Span | None = None,
    ) -> WatermarkStrategy:
        """Hold back sources whose event time is ahead. Kept without effect: results do not depend on it.

        Args:
            watermark_group: of the sources that wait for each other.
            max_allowed_watermark_drift: how far a source may be ahead.
            update_interval: of the group's watermark.
        """
        return copy.copy(self)

    def _in_from_source(self) -> WatermarkStrategy:
        """The strategy as `from_source` uses it: there PyFlink calls no assigner, so functions and what yields pass."""
        changed = copy.copy(self)
        changed._given_to_from_source = True
        given = self._timestamp_assigner
        function = given if isinstance(given, types.FunctionType) else None
        extract = function or hook_of(given, "extract_timestamp")
        yields = inspect.isgeneratorfunction(extract)
        if extract is None or (function is None and not yields):
            return changed
        if function is not None:
            refuse_async(function, "the function", "WatermarkStrategy.with_timestamp_assigner")
            _LOG.warning(
                "PyFlink takes a function as a timestamp assigner in from_source only, and never calls it there: here it is "
                "called. Write a class that inherits TimestampAssigner"
            )
            extract = _OfFunction(function).extract_timestamp
        if yields:
            _LOG.warning(
                "extract_timestamp of %s is a generator function, and PyFlink never calls it in from_source: here the value "
                "that it yields is taken. Write return instead of yield",
                type(given).__name__,
            )
        changed._timestamp_assigner = _Yielded(extract) if yields else _OfFunction(extract)
        return changed

    def _spec(self) -> WatermarkSpec:
        if isinstance(self._timestamp_assigner, types.FunctionType):
            raise ArgumentTypeError(f"{_NO_ASSIGNER}, got {self._timestamp_assigner!r}")
        if (
            self._timestamp_assigner is not None
        ):  # one that yields works in `from_source`, which has wrapped it
            refuse_deferred(
                hook_of(self._timestamp_assigner, "extract_timestamp"),
                f"extract_timestamp of {type(self._timestamp_assigner).__name__}",
                "WatermarkStrategy.with_timestamp_assigner",
            )
        return WatermarkSpec(
            self._timestamp_assigner,
            self._out_of_orderness_ms,
            self._idle_timeout_ms,
            self._given_to_from_source,
        )

    def _does_nothing(self) -> bool:
        return self._timestamp_assigner is None and self._out_of_orderness_ms is None


class _OfFunction(TimestampAssigner):
    """Takes timestamps from a function of the element and its timestamp so far, or of the element alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._alone = len(inspect.signature(function).parameters) == 1

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        found: int = self._function(value) if self._alone else self._function(value, record_timestamp)
        return found


class _Yielded(TimestampAssigner):
    """Takes the timestamps that a generator function yields, one for each element."""

    def __init__(self, extract: Callable[[Any, int], Iterator[int]]) -> None:
        self._extract = extract

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        found = list(itertools.islice(self._extract(value, record_timestamp), 2))
        if len(found) != 1:
            raise TypeMismatchError(
                f"extract_timestamp is a generator function and yielded {'nothing' if not found else 'several values'} for "
                f"the element {shown(value)}; it must return one timestamp"
            )
        return found[0]


Strategy = Annotated[WatermarkStrategy, SuchAs("WatermarkStrategy.no_watermarks()")]
