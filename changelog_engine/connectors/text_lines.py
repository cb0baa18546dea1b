r"""Reading lines from a position in a file, fast.

Invariants:
    * The bytes between two positions given out hold whole lines, and nothing else.
    * A line ends at ``\n``, ``\r\n`` or ``\r``; the end of the file ends a last line that is not empty.
"""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import re
import zlib
from collections.abc import Callable, Sequence
from typing import IO, Any

from changelog_engine.connectors.protocols import Position, Range
from changelog_engine.errors import NotSupportedError, StorageError

CHUNK_BYTES = 4 << 20
_LINE_END = re.compile(rb"\r\n|\n|\r")
_OPENERS: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_UNREADABLE = (".deflate", ".zst", ".zip", ".7z", ".lz4", ".snappy")


def decompressor(path: str) -> Callable[[str], Any] | None:
    """What opens a file by its ending: a function for compressed files, None for plain ones.

    Raises:
        NotSupportedError: a compression that this engine cannot read.
    """
    lowered = path.lower()
    if lowered.endswith(_UNREADABLE):
        raise NotSupportedError(f"cannot decompress {path}: use .gz, .bz2 or .xz, or unpack it")
    return next((opened for ending, opened in _OPENERS.items() if lowered.endswith(ending)), None)


class ByteLineReader:
    """Lines of a plain file; the position is a byte offset. Holds one chunk of the file."""

    def __init__(self, path: str, charset: str, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._path = path
        self._charset = charset
        self._chunk_bytes = chunk_bytes
        self._file: IO[bytes] | None = None
        self._lines: list[bytes] = []
        self._widths: list[int] | None = (
            None  # bytes of each line with its end; None: one more than the line's
        )
        self._next_line = 0
        self._position = 0  # of the next line
        self._chunk_end = 0
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
        return Range(_decode(lines, self._charset), self._position, finished)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _seek(self, position: int) -> None:
        try:
            if self._file is None:
                self._file = open(self._path, "rb")  # noqa: SIM115 - stays open between reads
            size = self._file.seek(0, io.SEEK_END)
        except OSError as error:
            raise StorageError(f"cannot read the input file {self._path}: {error.strerror}") from error
        if size < position:
            self.close()
            raise StorageError(
                f"the input file {self._path} has {size} bytes and reading must go on at byte "
                f"{position}: it was cut or replaced; put the earlier file back, or start the job "
                "without its checkpoints"
            )
        self._file.seek(position)
        self._lines, self._widths, self._next_line = [], None, 0
        self._position = self._chunk_end = position
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
            cut = len(data) if self._at_end else _last_line_end(data)
            if cut or self._at_end:
                break
        if cut < len(data):
            self._file.seek(cut - len(data), io.SEEK_CUR)
        self._chunk_end += cut
        self._lines, self._widths = _split(data[:cut])
        self._next_line = 0
        return bool(self._lines)

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size) if self._file is not None else b""
        except OSError as error:
            raise StorageError(f"cannot read the input file {self._path}: {error.strerror}") from error

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


class CountedLineReader:
    """Lines of a file that can only be read from its beginning; the position is a count of lines."""

    def __init__(self, path: str, charset: str) -> None:
        self._path = path
        self._charset = charset
        self._stream: io.TextIOWrapper | None = None
        self._given = 0

    def read(self, position: Position, max_records: int) -> Range:
        """Up to max_records lines after so many lines.

        Raises:
            StorageError: the file cannot be read or decompressed, or has fewer lines than the position.
        """
        try:
            stream = self._at(position)
            lines = list(itertools.islice(stream, max_records))
        except StorageError:
            raise
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            self.close()
            raise StorageError(f"cannot read the input file {self._path}: {error}") from error
        self._given += len(lines)
        values = [line[:-1] if line[-1] == "\n" else line for line in lines]
        return Range(values, self._given, len(lines) < max_records)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _at(self, position: int) -> io.TextIOWrapper:
        if self._stream is None or position < self._given:
            self.close()
            opened = (decompressor(self._path) or _open_plain)(self._path)
            self._stream = io.TextIOWrapper(opened, encoding=self._charset, errors="replace", newline=None)
            self._given = 0
        self._given += sum(1 for _ in itertools.islice(self._stream, position - self._given))
        if self._given < position:
            self.close()
            raise StorageError(
                f"the input file {self._path} has {self._given} lines and reading must go on after line "
                f"{position}: it was cut or replaced; put the earlier file back, or start the job "
                "without its checkpoints"
            )
        return self._stream


def _open_plain(path: str) -> Any:
    return open(path, "rb")


def _last_line_end(data: bytes) -> int:
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


def _decode(lines: list[bytes], charset: str) -> Sequence[str]:
    # One call for all lines: no line holds a line end, so joining and splitting is exact.
    return b"\n".join(lines).decode(charset, "replace").split("\n") if lines else []
