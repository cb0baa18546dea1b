"""CRC-32 of files that are written and read as streams, where the storage keeps no checksums itself."""

from __future__ import annotations

import io
import zlib
from typing import Any

from changelog_engine.storage.protocol import Storage

_READ_BYTES = 4 << 20


class SummedStream(io.BufferedIOBase):
    """A binary stream to a new file that takes the checksum of what is written to it.

    Attributes:
        crc: of all bytes so far; None once somebody did something else than to write one after the other.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.crc: int | None = 0

    def write(self, data: Any) -> int:
        count = int(self.stream.write(data))
        if self.crc is not None:
            self.crc = zlib.crc32(data, self.crc)
        return count

    def tell(self) -> int:
        return int(self.stream.tell())

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        self.stream.close()

    @property
    def closed(self) -> bool:
        return bool(self.stream.closed)

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self.stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.crc = None
        return int(self.stream.seek(offset, whence))

    def truncate(self, size: int | None = None) -> int:
        self.crc = None
        return int(self.stream.truncate(size))

    def fileno(self) -> int:
        self.crc = None
        return int(self.stream.fileno())


def crc32_of(storage: Storage, path: str) -> int:
    """The checksum of a file's bytes, which are read piece by piece.

    Raises:
        FileNotFoundError: there is no such file.
    """
    crc = 0
    with storage.open(path) as stream:
        while data := stream.read(_READ_BYTES):
            crc = zlib.crc32(data, crc)
    return crc
