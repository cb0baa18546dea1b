r"""The lines of a stream, a chunk at a time.

Invariants:
    * A line ends at ``\n``, ``\r\n`` or ``\r``; the end of the stream ends a last line.
    * What was taken is a count of lines. Whoever reads says how many it took: nothing else moves the position.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK_BYTES = 1 << 20


class LineChunks:
    """The lines of a stream from a byte on. Holds one chunk of it.

    Bytes that are not UTF-8 come as lone surrogates, which no UTF-8 gives, and set ``damaged``.

    Args:
        size: bytes that it has from there; None: nobody knows.
        comments: whether lines that begin with ``#`` are left out.
        chunk_bytes: how many bytes are read at a time.
    """

    def __init__(
        self, stream: Any, size: int | None, position: int, comments: bool = False, chunk_bytes: int = 0
    ) -> None:
        self.taken = 0  # lines, since the first
        self.damaged = False
        self.between_records = True  # the next line does not go on with a record; for comments
        self.longest = 0  # bytes of the chunk's longest line
        self._stream = stream
        self._size = size
        self._comments = comments
        self._chunk_bytes = chunk_bytes or CHUNK_BYTES
        self._data = self._rest = b""
        self._begin = position  # of the chunk
        self._before = 0  # lines before the chunk
        self._ends: npt.NDArray[np.int64] = np.empty(0, np.int64)  # of its lines

    @property
    def position(self) -> int:
        """The byte of the line after those that were taken."""
        return self._begin + self._end_of(self.taken - self._before)

    @property
    def ended(self) -> bool:
        """Whether all lines were taken of a stream whose size is known."""
        return self._size == 0 and not self._rest and self.taken - self._before == len(self._ends)

    def pass_over(self, mark: bytes) -> None:
        """Leave out what the stream begins with where it is this, before a line is taken.

        Raises:
            EOFError: see ``block``.
        """
        if self._fill() and self._data.startswith(mark):
            self._begin += len(mark)
            self._data = self._data[len(mark) :]
            ends = self._ends - len(mark)
            self._ends = ends[ends > 0]  # there may be nothing else

    def block(self, most: int) -> tuple[bytes, int]:
        """Whole lines of the chunk, at most this many, and their number; not yet taken. Nothing at the end of the stream.

        Raises:
            EOFError: the stream ends before it has given its bytes; so do the lines of ``texts``.
        """
        first = self.taken - self._before
        if first == len(self._ends):
            if not self._fill():
                return b"", 0
            first = 0
        last = min(first + most, len(self._ends))
        return self._data[self._end_of(first) : self._end_of(last)], last - first

    def texts(self, piece: int) -> Iterator[str]:
        """The lines with their ends.

        Where comments are passed over, ``taken`` is counted here. Else the caller adds to it the lines that it took.

        Args:
            piece: how many lines are decoded at a time.
        """
        lines = itertools.chain.from_iterable(self._pieces(piece))
        return self._uncommented(lines) if self._comments else lines

    def _uncommented(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            self.taken += 1
            if self.between_records and line.startswith("#"):
                continue
            self.between_records = False
            yield line

    def _pieces(self, count: int) -> Iterator[Iterator[str]]:
        first = self.taken - self._before
        while True:
            if first == len(self._ends):
                if not self._fill():
                    return
                first = 0
            last = min(first + count, len(self._ends))
            yield self._decoded(self._data[self._end_of(first) : self._end_of(last)])
            first = last

    def _decoded(self, data: bytes) -> Iterator[str]:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            self.damaged, text = True, data.decode("utf-8", "surrogateescape")
        return io.StringIO(text, newline="")

    def _end_of(self, lines: int) -> int:
        """Bytes of the next lines of the chunk, this many."""
        return int(self._ends[lines - 1]) if lines else 0

    def _fill(self) -> bool:
        """Load the next chunk, in place of one whose lines all went out; False at the end of the stream."""
        self._before += len(self._ends)
        self._begin += len(self._data)
        parts, cut = [self._rest], 0
        while not cut:
            more = self._read()
            parts.append(more)
            if not more:
                data = b"".join(parts)
                cut = len(data)
                break
            if b"\n" in more or b"\r" in more:
                data = b"".join(parts)
                parts = [data]
                cut = _last_line_end(data)
        self._data, self._rest = data[:cut], data[cut:]
        self._ends = _line_ends(self._data)
        self.longest = int(np.diff(self._ends, prepend=0).max()) if cut else 0
        return cut > 0

    def _read(self) -> bytes:
        size = self._size
        most = self._chunk_bytes
        data: bytes = self._stream.read(most if size is None else min(most, size))
        if size is not None:
            if size and not data:
                raise EOFError(f"it was cut while it was read: the last {size} bytes are gone")
            self._size = size - len(data)
        return data


def _last_line_end(data: bytes) -> int:
    """Bytes up to the end of the last line that is known to be whole; 0 for none."""
    newline = data.rfind(b"\n")
    if newline >= 0:
        return newline + 1
    # A file of lone \r: the last byte may be the first half of \r\n.
    return data.rfind(b"\r", 0, len(data) - 1) + 1


def _line_ends(data: bytes) -> npt.NDArray[np.int64]:
    """The byte behind each line."""
    if b"\r" in data:
        return np.cumsum([len(line) for line in data.splitlines(True)], dtype=np.int64)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    return ends if data.endswith(b"\n") or not data else np.append(ends, len(data))
