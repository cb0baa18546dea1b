"""Serializers of windows. The engine asks an assigner for one to tell its windows apart and to write them to the log."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from changelog_engine.windowing.windows import CountWindow, GlobalWindow, TimeWindow

_TIMES = struct.Struct(">qq")
_ID = struct.Struct(">q")


class TimeWindowSerializer:
    """Writes a `TimeWindow` as 16 bytes: start and end.

    Example:
        >>> from io import BytesIO
        >>> stream = BytesIO()
        >>> TimeWindowSerializer().serialize(TimeWindow(0, 1000), stream)
        >>> TimeWindowSerializer().deserialize(BytesIO(stream.getvalue()))
        TimeWindow(start=0, end=1000)
    """

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        """Write a window."""
        stream.write(_TIMES.pack(element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        """Read a window.

        Args:
            stream: a binary stream that stands before one.
        """
        start, end = _TIMES.unpack(stream.read(_TIMES.size))
        return TimeWindow(start, end)


class CountWindowSerializer:
    """Writes a `CountWindow` as 8 bytes: its id."""

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        """Write a window; see `TimeWindowSerializer.serialize`."""
        stream.write(_ID.pack(element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        """Read a window; see `TimeWindowSerializer.deserialize`."""
        return CountWindow(_ID.unpack(stream.read(_ID.size))[0])


class GlobalWindowSerializer:
    """Writes the `GlobalWindow` as one byte."""

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        """Write the window; see `TimeWindowSerializer.serialize`."""
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        """Read the window; see `TimeWindowSerializer.deserialize`."""
        stream.read(1)
        return GlobalWindow.get()


WindowSerializer = Any  # serialize(window, stream) and deserialize(stream), or dumps(window) and loads(data)
