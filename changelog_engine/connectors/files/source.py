"""A source of the records of files: a set that stays, or folders that are watched.

Invariants:
    * A split is one file; its id is the file's path or URI without keys.
    * Positions hold size and time of the file as it was found, so that a restore reads the same file or says why not.
    * Every file is found once: one that changes later is not read again.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from changelog_engine.config.names import writable
from changelog_engine.config.paths import absolute_path
from changelog_engine.connectors.files.formats import FileFormat, TextLines
from changelog_engine.connectors.files.input_files import Found, InputFile, InputFolder
from changelog_engine.connectors.protocols import (
    DiscoveringSource,
    Position,
    Range,
    Source,
    Split,
    SplitReader,
)
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, StorageError
from changelog_engine.storage.file_systems import FileSystems

log = logging.getLogger("changelog_engine")


class FileSource(Source):
    """The records of files that are there when the job starts.

    A folder stands for all its files, however deep; files and folders whose names begin with ``.`` or ``_`` are left out.
    Text is decompressed by its ending: ``.gz``, ``.gzip``, ``.bz2``, ``.xz``, ``.deflate``, ``.zst``.

    Args:
        file_format: how a file is read; text lines by default.
        paths: files or folders, plain or as URIs that pyarrow.fs opens.
        subfolders: whether those of a folder are read, too; where not, a warning says that there are some.

    Raises:
        ConfigurationError: no path, or one that is not a str.
    """

    bounded = True
    parallel = True

    def __init__(
        self,
        paths: Sequence[str],
        file_format: FileFormat | None = None,
        file_systems: FileSystems | None = None,
        *,
        subfolders: bool = True,
    ) -> None:
        if not paths:
            raise ConfigurationError("a source of files needs at least one path")
        path: Any
        for path in paths:
            if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
                raise ArgumentTypeError(f"a path must be a str that is not empty, got {path!r}")
        self._paths = [
            absolute_path(writable(str(os.fspath(path)), "the path of a source of files")) for path in paths
        ]
        self._format = TextLines() if file_format is None else file_format
        self._file_systems = file_systems or FileSystems()
        self._subfolders = subfolders
        self.output_type = self._format.output_type
        self.bad_tag = self._format.bad_tag
        self._opened: list[InputFolder] | None = None
        self._has_listed = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def with_options(self, options: Mapping[str, str]) -> Self:
        source = copy.copy(self)
        source._file_systems, source._opened = FileSystems(options), None
        return source

    def splits(self, parallelism: int) -> list[Split]:
        """One split per file, in the order of their names; the folders are listed now.

        Raises:
            ConfigurationError: a path does not exist, or cannot be listed the first time.
            StorageError: it cannot be listed now.
        """
        try:
            found, missing = self._find()
        except StorageError as error:
            if self._has_listed:  # by an attempt before: the job restarts until they can be listed again
                raise
            # This ends the job, so that its user hears of it at once.
            raise ConfigurationError(str(error)) from None
        self._has_listed = True
        if missing:
            raise ConfigurationError(f"the input path {missing[0]} does not exist")
        return [self._split(file) for file in found]

    def reader(self, split: Split) -> SplitReader:
        return _FileReader(self._format, self._folders(), split.id)

    def check_before_start(self) -> None:
        """Raise if a path cannot be opened, before the job starts.

        A path need not exist: a job that goes on may have read all that was there.
        """
        self._folders()

    def _folders(self) -> list[InputFolder]:
        if self._opened is None:
            self._opened = [InputFolder(path, self._file_systems) for path in self._paths]
        return self._opened

    def _find(self) -> tuple[Collection[Found], list[str]]:
        """Each file once, and the paths that do not exist."""
        files: dict[str, Found] = {}
        missing = []
        for folder in self._folders():
            found = folder.find()
            if found is None:
                missing.append(folder.shown)
            else:
                files.update(
                    (file.id, file) for file in (found if self._subfolders else folder.direct(found))
                )
        return files.values(), missing

    def _split(self, found: Found) -> Split:
        return Split(found.id, [self._format.start, found.size, found.changed_us])


class MonitoringFileSource(FileSource, DiscoveringSource):
    """The records of files that are there and of those that come while the job runs; never ends.

    Files that came between two looks are read in the order of their times. A path need not exist at first; a warning says
    that it does not.
    """

    bounded = False

    def __init__(
        self, paths: Sequence[str], file_format: FileFormat | None = None, interval_ms: int | None = 10_000
    ) -> None:
        super().__init__(paths, file_format)
        self.discovery_interval_ms = interval_ms
        self._told: set[str] = set()

    def splits(self, parallelism: int) -> list[Split]:
        """None: the first look finds what is there."""
        return []

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        new = []
        files, missing = self._find()
        for path in missing:
            if path not in self._told:
                self._told.add(path)
                log.warning("the input path %s does not exist yet: the job waits for it", path)
        for found in files:
            if found.id not in known:
                new.append(found)
            elif found.id not in self._told and list(known[found.id][0][1:]) != [
                found.size,
                found.changed_us,
            ]:
                self._told.add(found.id)
                log.warning("the input file %s has changed; it is not read again", found.id)
        return [self._split(found) for found in sorted(new, key=lambda found: (found.changed_us, found.id))]

    def start_of(self, split: str, position: Position) -> Position:
        """The beginning of the file, as it was when it was found."""
        return [self._format.start, *position[1:]]


class _FileReader(SplitReader):
    """Reads one file with the format's reader; keeps the file's size and time in the positions."""

    def __init__(self, file_format: FileFormat, folders: list[InputFolder], name: str) -> None:
        self._format = file_format
        self._name = name
        self._folder = next((folder for folder in folders if folder.has(name)), None)
        self._file: InputFile | None = None
        self._reader: SplitReader | None = None

    def read(self, position: Position, max_records: int) -> Range:
        inner, size, changed_us = position
        if self._reader is None:
            if self._folder is None:
                raise StorageError(
                    f"the input file {self._name} of the checkpoint lies under none of the source's paths: "
                    "start the job without its checkpoints, or give the path back"
                )
            self._file = self._folder.file(self._name, size, changed_us)
            self._reader = self._format.reader(self._file)
        assert self._file is not None
        found = self._reader.read(inner, max_records)
        self._file.check(found.finished)
        if found.finished:
            self.close()  # thousands of files need not be open at once
        return found._replace(next=[found.next, size, changed_us])

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
