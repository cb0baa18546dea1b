"""A source of one's own: the lines of the files of a folder. The position is the number of bytes before the next line."""

from __future__ import annotations

import os

from changelog_engine.connectors import Range, Source, Split, SplitReader
from changelog_engine.types import Types


class LinesSource(Source):
    """One split is one file; a reader gives its lines as str."""

    bounded = True  # it ends; the default is that it does not
    output_type = Types.STRING()

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def splits(self, parallelism: int) -> list[Split]:
        """On the driver, once: every file, from its beginning."""
        return [Split(os.path.join(self.folder, name), 0) for name in sorted(os.listdir(self.folder))]

    def reader(self, split: Split) -> LinesReader:
        """In a worker."""
        return LinesReader(split.id)


class LinesReader(SplitReader):
    """Reads one file."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "rb")  # noqa: SIM115 # close() closes it

    def read(self, position: int, max_records: int) -> Range:
        self.file.seek(position)
        lines = [line.rstrip(b"\n").decode() for _, line in zip(range(max_records), self.file, strict=False)]
        at = self.file.tell()
        return Range(lines, at, finished=at == os.fstat(self.file.fileno()).st_size)

    def close(self) -> None:
        self.file.close()
