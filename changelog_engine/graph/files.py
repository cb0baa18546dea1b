"""The files that a job needs on its workers, as they were named; the engine ships them when the job starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Archive(NamedTuple):
    """An archive and the folder, under the workers' working directory, that it is unpacked to."""

    path: str
    target: str


class Requirements(NamedTuple):
    """A list of packages for pip, and a folder that has them; None lets pip ask its index."""

    path: str
    cache: str | None


class CachedFile(NamedTuple):
    """A file under a name of its own."""

    path: str
    name: str
    executable: bool


@dataclass(frozen=True)
class JobFiles:
    """What workers need. Paths are absolute and local; they were there when the job was built.

    Args:
        python_files: modules, packages, folders and archives for the workers' import path.
        requirements: installed for the workers' import path.
        python_executable: the workers' interpreter; relative to the unpacked archives, absolute, or None for the
            driver's.
        jars: jar files and folders for Java's class path.
    """

    python_files: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    requirements: Requirements | None = None
    python_executable: str | None = None
    cached: tuple[CachedFile, ...] = ()
    jars: tuple[str, ...] = ()
