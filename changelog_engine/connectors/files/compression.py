"""Compressed files, told by their endings."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from changelog_engine.errors import NotSupportedError
from changelog_engine.readable import counted

BROKEN_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error, pa.ArrowException)
_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=_begun(stream)),
    ".gzip": lambda stream: gzip.GzipFile(fileobj=_begun(stream)),
    ".bz2": lambda stream: _Pieces(stream, bz2.BZ2Decompressor),
    ".xz": lambda stream: _Pieces(stream, lzma.LZMADecompressor, padding=4),
    ".deflate": lambda stream: _Pieces(stream, _Inflate),
    ".zst": lambda stream: pa.CompressedInputStream(_begun(stream), "zstd"),
}
_UNREADABLE = (".zip", ".7z", ".lz4", ".snappy")
_READ_BYTES = 1 << 20


class _Inflate:
    """zlib's decompressor as those of ``bz2`` and ``lzma`` are."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj()

    @property
    def eof(self) -> bool:
        """Whether the end was reached."""
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out of what it was given."""
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What it was given behind the end."""
        return self._zlib.unused_data

    def decompress(self, data: bytes, most: int) -> bytes:
        """Up to this many bytes; the data are empty where it needs no input."""
        return self._zlib.decompress(data or self._zlib.unconsumed_tail, most)


class _Pieces(io.RawIOBase):
    """What was compressed in pieces, one after the other.

    If what follows a piece is neither another piece nor padding, that is an error, as in gzip and zstd. Python's own readers
    of ``bz2`` and ``lzma`` ignore it, and with it every piece behind one whose first bytes are damaged.

    Args:
        stream: of the compressed bytes.
        begin: gives what decompresses one piece.
        padding: zeros may follow a piece, in multiples of this number; 0 for none.
    """

    def __init__(self, stream: Any, begin: Callable[[], Any], padding: int = 0) -> None:
        self._stream = stream
        self._begin = begin
        self._padding = padding
        self._piece = begin()
        self._pieces_read = 0
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Decompress into a buffer."""
        while not self._ready:
            data = b""
            if self._piece.eof:
                data = self._behind(self._piece.unused_data)
                if not data:
                    break
                self._piece = self._begin()
                self._pieces_read += 1
            elif self._piece.needs_input:
                data = self._stream.read(_READ_BYTES)
                if not data:
                    raise EOFError(f"the compressed data end too early{self._place()}")
            self._ready = memoryview(self._decompressed(data))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _behind(self, data: bytes) -> bytes:
        """What follows a piece, without its padding."""
        zeros = 0
        while True:
            data = data or self._stream.read(_READ_BYTES)
            rest = data.lstrip(b"\0") if self._padding else data
            zeros += len(data) - len(rest)
            if rest or not data:
                break
            data = b""
        if zeros and zeros % self._padding:
            raise EOFError(
                f"{zeros} zeros, and not a multiple of {self._padding}, follow a part of the compressed data"
            )
        return rest

    def _decompressed(self, data: bytes) -> bytes:
        try:
            found: bytes = self._piece.decompress(data, _READ_BYTES)
        except BROKEN_ERRORS as error:
            raise OSError(f"the compressed data are damaged{self._place()} ({error})") from error
        return found

    def _place(self) -> str:
        if not self._pieces_read:
            return ""
        return f" behind {counted(self._pieces_read, 'whole part')}"


def _begun(stream: Any) -> Any:
    """A stream from its beginning, which must have bytes: what is compressed has some, even if there is nothing in it."""
    if not stream.seek(0, 2):
        raise EOFError("it has 0 bytes, and so is not a compressed file")
    stream.seek(0)
    return stream


def decompressor(name: str) -> Callable[[Any], Any] | None:
    """What decompresses a stream of a file with this name; None for plain ones.

    Raises:
        NotSupportedError: a compression that this engine cannot read.
    """
    lowered = name.lower()
    if lowered.endswith(_UNREADABLE):
        raise NotSupportedError(
            f"cannot decompress {name}: use .gz, .bz2, .xz, .deflate or .zst, or unpack it"
        )
    return next((opened for ending, opened in _OPENERS.items() if lowered.endswith(ending)), None)


def skip(stream: Any, count: int) -> int:
    """Read up to this many bytes and drop them; returns how many there were."""
    left = count
    while left > 0:
        data = stream.read(min(left, _READ_BYTES))
        if not data:
            break
        left -= len(data)
    return count - left
