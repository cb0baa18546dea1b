"""The files that a program's functions need: from its calls and from options by Flink's keys."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from typing import Any

from changelog_engine.config import Option, local_path, program_options
from changelog_engine.errors import ConfigurationError, NotSupportedError
from changelog_engine.graph.files import Archive, CachedFile, JobFiles, Requirements

from .. import _arguments

_LOG = logging.getLogger("changelog_engine")
# Connectors, formats and state backends of Flink, jars of these for PyFlink, clients of Kafka, and drivers of JDBC.
_NEEDLESS_JAR = re.compile(
    r"((?:py)?flink|kafka-clients|postgresql|mysql-connector|mariadb-java-client|ojdbc|mssql-jdbc|sqlite-jdbc|h2|derby|db2jcc)"
    r"[0-9]*([-_.].*)?\.jar",
    re.IGNORECASE,
)
_ARCHIVE_ENDINGS = (".zip", ".jar", ".whl", ".egg", ".tar", ".tar.gz", ".tgz")


class Dependencies:
    """What a program added, besides what its configuration says."""

    def __init__(self) -> None:
        self._python_files: list[str] = []
        self._archives: list[Archive] = []
        self._requirements: Requirements | None = None
        self._jars: list[str] = []
        self._cached: dict[str, CachedFile] = {}

    def add_python_file(self, path: str, what: str) -> None:
        """Take a file onto the workers' import path."""
        self._python_files.append(existing(path, what))

    def add_archive(self, path: str, target: str | None, what: str) -> None:
        """Take an archive to be unpacked on the workers."""
        self._archives.append(archive(path, target, what))

    def set_requirements(self, path: str, cache: str | None, what: str) -> None:
        """Take packages to be installed for the workers."""
        self._requirements = Requirements(
            existing(path, what), None if cache is None else existing(cache, what)
        )

    def add_jar(self, path: str, what: str) -> None:
        """Take a jar."""
        self._jars += jars([(path, what)])

    def add_cached(self, path: str, name: str, executable: bool, what: str) -> None:
        """Take a file under a name."""
        if os.path.basename(name) != name or name in (".", ".."):
            raise ConfigurationError(f"{what}: name must be a plain file name, got {name!r}")
        if name in self._cached:
            raise ConfigurationError(
                f"{what}: there is a cached file {name!r} already; give this one another name"
            )
        if os.path.isdir(existing(path, what)):
            raise NotSupportedError(
                f"{what}: {path!r} is a folder; use add_python_archive() with its zip file"
            )
        self._cached[name] = CachedFile(existing(path, what), name, executable)

    def cached(self) -> list[CachedFile]:
        """The cached files, in the order in which they were registered."""
        return list(self._cached.values())

    def job_files(self, get: Callable[[Option], Any]) -> JobFiles:
        """Everything that the job needs.

        Args:
            get: gives an option's value, such as paths that the configuration names.

        Raises:
            ConfigurationError: something that the configuration names is not there.
            NotSupportedError: it lies on another file system.
        """
        configured = [existing(path, what) for path, what in _listed(get, program_options.PYTHON_FILES, ",")]
        archives = [
            archive(*_named(item), what) for item, what in _listed(get, program_options.PYTHON_ARCHIVES, ",")
        ]
        named = [
            item
            for option in (program_options.JARS, program_options.CLASSPATHS)
            for item in _listed(get, option, ";")
        ]
        made = [*archives, *self._archives]
        _refuse_same_target(made)
        return JobFiles(
            python_files=tuple(dict.fromkeys([*configured, *self._python_files])),
            archives=tuple(dict.fromkeys(made)),
            requirements=self._requirements or _configured_requirements(get),
            python_executable=get(program_options.PYTHON_EXECUTABLE),
            cached=tuple(self._cached.values()),
            jars=tuple(dict.fromkeys([*jars(named), *self._jars])),
        )


def _configured_requirements(get: Callable[[Option], Any]) -> Requirements | None:
    text = get(program_options.PYTHON_REQUIREMENTS)
    if not text:
        return None
    path, _, cache = text.partition("#")
    what = f"option {program_options.PYTHON_REQUIREMENTS.key!r}"
    return Requirements(existing(path, what), existing(cache, what) if cache else None)


def _listed(get: Callable[[Option], Any], option: Option, separator: str) -> list[tuple[str, str]]:
    """The items of an option, each with what errors call it."""
    items = (get(option) or "").split(separator)
    return [(item.strip(), f"option {option.key!r}") for item in items if item.strip()]


def _named(item: str) -> tuple[str, str | None]:
    path, _, target = item.partition("#")
    return path, target or None


def existing(path: str, what: str) -> str:
    """The absolute path of a file or folder of this machine.

    Args:
        path: plain, or a ``file:`` URI.
        what: names method and parameter in errors.

    Raises:
        ConfigurationError: the file or folder does not exist.
        NotSupportedError: a URI of another file system.
    """
    found = local_path(_arguments.text(path, what))
    if found is None:
        raise NotSupportedError(
            f"{what}: {path!r} lies on another file system; copy it to this machine and name the copy"
        )
    if not os.path.exists(found):
        here = "" if os.path.isabs(found) else f" in {os.getcwd()}, where the program runs"
        raise ConfigurationError(f"{what}: there is no file or folder {found!r}{here}")
    return found


def jars(named: list[tuple[str, str]]) -> list[str]:
    """The absolute paths of jar files. Flink's, Kafka's and JDBC's may be missing: the engine needs none of them.

    Args:
        named: paths, plain or ``file:`` URIs, each with what names method and parameter in errors.

    Raises:
        ConfigurationError: there is no such file.
    """
    found = []
    for path, what in named:
        _arguments.text(path, what)
        try:
            jar = existing(path, what)
        except (ConfigurationError, NotSupportedError):
            if not _NEEDLESS_JAR.fullmatch(path.replace("\\", "/").rpartition("/")[2]):
                raise
            _LOG.warning(
                "%s: there is no file %r on this machine, and the engine needs none: its connectors and formats are written "
                "in Python. Without the jar the job runs as it is; you can leave out the call.",
                what,
                path,
            )
            continue
        if not os.path.isfile(jar):
            raise ConfigurationError(f"{what}: {jar!r} is a folder; name the jar files in it")
        found.append(jar)
    return found


def archive(path: str, target: str | None, what: str) -> Archive:
    """An archive and where it goes: the target, else a folder of its own name.

    Args:
        path: plain, or a ``file:`` URI.
        target: a relative path, or None.
        what: names method and parameter in errors.

    Raises:
        ConfigurationError: the file does not exist or is not an archive, or the target is outside the working folder.
    """
    found = existing(path, what)
    if not os.path.isfile(found) or not found.lower().endswith(_ARCHIVE_ENDINGS):
        raise ConfigurationError(
            f"{what}: {path!r} is not an archive; it may end in {', '.join(_ARCHIVE_ENDINGS)}"
        )
    name = os.path.basename(found) if target is None else _arguments.text(target, f"{what}: target_dir")
    plain = os.path.normpath(name)
    if plain in (".", "..") or os.path.basename(plain) != plain or "#" in plain:
        raise ConfigurationError(f"{what}: target_dir must be the name of a folder, got {target!r}")
    return Archive(found, plain)


def _refuse_same_target(archives: list[Archive]) -> None:
    seen: dict[str, str] = {}
    for each in archives:
        if seen.setdefault(each.target, each.path) != each.path:
            raise ConfigurationError(
                f"two archives are to be unpacked to {each.target!r}: {seen[each.target]} and {each.path}; give one "
                "of them another target_dir"
            )
