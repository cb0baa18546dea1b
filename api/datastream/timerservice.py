"""TimerService: time and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Time and timers, from ``ctx.timer_service()``.

    Timers need a keyed stream and belong to the current key.

    Times are milliseconds since 1970-01-01 UTC. A timer is set once however often it is registered for the
    same time, and fires by ``on_timer``.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The machine's time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark.

        -9223372036854775808 before the first one, 9223372036854775807 after the end of the input.
        """

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Set a timer that fires when the machine's time passes the given one.

        Those still pending when a bounded input has ended are dropped.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Set a timer that fires when the watermark passes the given time.

        One that lies below the current watermark fires when the watermark advances next.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Remove a timer of the current key; nothing happens when there is none or it has fired.

        Args:
            timestamp: the time it was registered for.
        """

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Remove a timer of the current key; nothing happens when there is none or it has fired.

        Args:
            timestamp: the time it was registered for.
        """
