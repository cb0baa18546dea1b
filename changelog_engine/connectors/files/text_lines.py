r"""Reading lines from a position in a file, fast.

Invariants:
    * The bytes between two positions given out hold whole lines, and nothing else.
    * A line ends at ``\n``, ``\r\n`` or ``\r``; the end of the file ends a last line that is not empty.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from typing import Any

from changelog_engine.connectors.files.compression import BROKEN_ERRORS, decompressor
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.errors import StorageError

CHUNK_BYTES = 4 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r")


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
        self._lines: list[bytes] = []
        self._widths: list[int] | None = (
            None  # bytes of each line with its end; None: one more than the line's
        )
        self._next_line = 0
        self._position = 0  # of the next line
        self._chunk_end = 0
        self._read_to = 0
        self._at_end = False

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records lines from a byte offset on.

        Raises:
            StorageError: the file cannot be read, or is shorter than the position.
        """
        if position != self._position or self._file is None:
            self._seek(position)
        lines: list[bytes] = []
        while len(lines) < max_records:
            if self._next_line == len(self._lines) and not self._fill():
                break
            lines += self._take(max_records - len(lines))
        finished = self._at_end and self._next_line == len(self._lines)
        return Range(_decode(lines, self._charset, self._errors), self._position, finished)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _seek(self, position: int) -> None:
        if self._file is None:
            self._file = self._source.open()
        if self._source.size < position:
            self.close()
            raise StorageError(
                f"the input file {self._source.name} has {self._source.size} bytes and reading must go on at byte "
                f"{position}: it was cut or replaced; put the earlier file back, or start the job "
                "without its checkpoints"
            )
        with self._source.reading():
            self._file.seek(position)
        self._lines, self._widths, self._next_line = [], None, 0
        self._position = self._chunk_end = self._read_to = position
        self._at_end = False

    def _fill(self) -> bool:
        """Load the next chunk's lines; False at the end of the file."""
        if self._at_end or self._file is None:
            return False
        data = b""
        while True:
            more = self._read(self._chunk_bytes)
            data += more
            self._at_end = len(more) < self._chunk_bytes
            cut = len(data) if self._at_end else last_line_end(data)
            if cut or self._at_end:
                break
        if cut < len(data):
            self._read_to += cut - len(data)
            self._file.seek(self._read_to)
        self._chunk_end += cut
        self._lines, self._widths = _split(data[:cut])
        self._next_line = 0
        return bool(self._lines)

    def _read(self, size: int) -> bytes:
        # What was appended since the file was found is not read: a restore could not tell it from what was there.
        wanted = min(size, self._source.size - self._read_to)
        with self._source.reading():
            data: bytes = self._file.read(wanted)
        self._read_to += len(data)
        if len(data) < wanted:
            self.close()
            raise StorageError(
                f"cannot read the input file {self._source.name}: it was cut while it was read: it has {self._read_to} "
                f"bytes, and had {self._source.size}"
            )
        return data

    def _take(self, count: int) -> list[bytes]:
        begin, end = self._next_line, min(self._next_line + count, len(self._lines))
        taken = self._lines[begin:end]
        self._next_line = end
        if end == len(self._lines):
            self._position = self._chunk_end  # exact also when the last line has no end
        elif self._widths is None:
            self._position += sum(map(len, taken)) + len(taken)
        else:
            self._position += sum(self._widths[begin:end])
        return taken


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
        try:
            stream = self._at(position)
            lines = list(itertools.islice(stream, max_records))
        except StorageError:
            raise
        except BROKEN_ERRORS as error:
            self.close()
            raise StorageError(f"cannot read the input file {self._source.name}: {error}") from error
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
            raise StorageError(
                f"the input file {self._source.name} has {self._given} lines and reading must go on after line "
                f"{position}: it was cut or replaced; put the earlier file back, or start the job "
                "without its checkpoints"
            )
        return self._stream


def last_line_end(data: bytes) -> int:
    """Bytes up to the end of the last line that is known to be whole; 0 for none."""
    newline = data.rfind(b"\n")
    if newline >= 0:
        return newline + 1
    # A file of lone \r: the last byte may be the first half of \r\n.
    return data.rfind(b"\r", 0, len(data) - 1) + 1


def _split(data: bytes) -> tuple[list[bytes], list[int] | None]:
    if b"\r" not in data:
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines, None
    lines, widths, begin = [], [], 0
    for match in _LINE_END.finditer(data):
        lines.append(data[begin : match.start()])
        widths.append(match.end() - begin)
        begin = match.end()
    if begin < len(data):
        lines.append(data[begin:])
        widths.append(len(data) - begin)
    return lines, widths


def _decode(lines: list[bytes], charset: str, errors: str) -> Sequence[str]:
    # One call for all lines: no line holds a line end, so joining and splitting is exact.
    return b"\n".join(lines).decode(charset, errors).split("\n") if lines else []
