"""Compressed files, told by their endings."""

from __future__ import annotations

import bz2
import gzip
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
    ".zst": lambda stream: pa.CompressedInputStream(stream, "zstd"),
}
_UNREADABLE = (".deflate", ".zip", ".7z", ".lz4", ".snappy")
_SKIP_BYTES = 1 << 20


def decompressor(name: str) -> Callable[[Any], Any] | None:
    """What decompresses a stream of a file with this name; None for plain ones.

    Raises:
        NotSupportedError: a compression that this engine cannot read.
    """
    lowered = name.lower()
    if lowered.endswith(_UNREADABLE):
        raise NotSupportedError(f"cannot decompress {name}: use .gz, .bz2, .xz or .zst, or unpack it")
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
