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

BROKEN_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error, pa.ArrowException)
_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".gzip": lambda stream: gzip.GzipFile(fileobj=stream),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".deflate": lambda stream: _Inflated(stream),
    ".zst": lambda stream: pa.CompressedInputStream(stream, "zstd"),
}
_UNREADABLE = (".zip", ".7z", ".lz4", ".snappy")
_SKIP_BYTES = 1 << 20


class _Inflated(io.RawIOBase):
    """Streams that zlib compressed, one after the other as in other compressed files."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._zlib = zlib.decompressobj()
        self._ready = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Decompress into a buffer."""
        while not self._ready:
            ended = self._zlib.eof
            left = self._zlib.unused_data if ended else self._zlib.unconsumed_tail
            data = left or self._stream.read(_SKIP_BYTES)
            if ended:
                if not data:
                    break
                self._zlib = zlib.decompressobj()
            elif not data:
                raise EOFError("the compressed data end too early")
            self._ready = self._zlib.decompress(data, _SKIP_BYTES)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


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
    """Read so many bytes and let them go; returns how many there were."""
    left = count
    while left > 0:
        data = stream.read(min(left, _SKIP_BYTES))
        if not data:
            break
        left -= len(data)
    return count - left
