r"""Reading lines from a position in a file, fast.

Invariants:
    * The bytes between two positions given out hold whole lines, and nothing else.
    * A line ends at ``\n``, ``\r\n`` or ``\r``; the end of the file ends a last line that is not empty.
"""

from __future__ import annotations

import io
import itertools
from typing import Any

from changelog_engine.connectors.files.compression import decompressor
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.line_chunks import LineChunks
from changelog_engine.connectors.protocols import Position, Range, SplitReader

CHUNK_BYTES = 4 << 20


class ByteLineReader(SplitReader):
    """Lines of a plain file; the position is a byte offset. Holds one chunk of the file."""

    def __init__(
        self, file: InputFile, charset: str, chunk_bytes: int = CHUNK_BYTES, errors: str = "replace"
    ) -> None:
        self._source = file
        self._charset = charset
        self._errors = errors
        self._chunk_bytes = chunk_bytes
        self._file: Any = None
        self._lines = LineChunks(None, 0, -1)

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records lines from a byte offset on.

        Raises:
            StorageError: the file cannot be read, or is shorter than the position.
        """
        if position != self._lines.position or self._file is None:
            self._seek(position)
        lines, left = self._lines, max_records
        values: list[str] = []
        while left and not lines.ended:
            with self._source.reading(self.close):
                data, count = lines.block(left)
            lines.taken += count
            left -= count
            values += _decode(data, count, self._charset, self._errors)
        return Range(values, lines.position, lines.ended)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _seek(self, position: int) -> None:
        if self._file is None:
            self._file = self._source.open()
        left = self._source.size - position
        if left < 0:
            self.close()
            raise self._source.too_short(f"{self._source.size} bytes", f"at byte {position}")
        with self._source.reading():
            self._source.seek(self._file, position)
        # What was appended since the file was found is not read: a restore could not tell it from what was there.
        self._lines = LineChunks(self._file, left, position, chunk_bytes=self._chunk_bytes)


class CountedLineReader(SplitReader):
    """Lines of a file that can only be read from its beginning; the position is a count of lines."""

    def __init__(self, file: InputFile, charset: str, errors: str = "replace") -> None:
        self._source = file
        self._charset = charset
        self._errors = errors
        self._decompress = decompressor(file.name)
        self._opened: Any = None
        self._stream: io.TextIOWrapper | None = None
        self._given = 0

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records lines; the position is how many lines come before them.

        Raises:
            StorageError: the file cannot be read or decompressed, or has fewer lines than the position.
        """
        with self._source.reading(self.close):
            stream = self._at(position)
            lines = list(itertools.islice(stream, max_records))
        self._given += len(lines)
        values = [line[:-1] if line[-1] == "\n" else line for line in lines]
        return Range(values, self._given, len(lines) < max_records)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._opened is not None:
            self._opened.close()
        self._stream = self._opened = None

    def _at(self, position: int) -> io.TextIOWrapper:
        if self._stream is None or position < self._given:
            self.close()
            self._opened = self._source.open()
            plain = self._opened if self._decompress is None else self._decompress(self._opened)
            self._stream = io.TextIOWrapper(plain, encoding=self._charset, errors=self._errors, newline=None)
            self._given = 0
        self._given += sum(1 for _ in itertools.islice(self._stream, position - self._given))
        if self._given < position:
            self.close()
            raise self._source.too_short(f"{self._given} lines", f"after line {position}")
        return self._stream


def _decode(data: bytes, count: int, charset: str, errors: str) -> list[str]:
    """The lines of whole lines' bytes, in one call: no character of the charset has the byte of a line end."""
    text = data
    if b"\r" in text:
        text = b"\n".join(text.splitlines()) + b"\n"
    values = text.decode(charset, errors).split("\n")
    if text.endswith(b"\n"):
        values.pop()
    if len(values) != count:  # some decoders pass over a line end behind half a character
        return [line.decode(charset, errors) for line in data.splitlines()]
    return values
