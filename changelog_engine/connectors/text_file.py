"""A source of the lines of text files: plain or compressed, one file or whole folders."""

from __future__ import annotations

import codecs
import os

from changelog_engine.config import local_path
from changelog_engine.connectors.protocols import Split, SplitReader
from changelog_engine.connectors.text_lines import ByteLineReader, CountedLineReader, decompressor
from changelog_engine.errors import ConfigurationError, NotSupportedError
from changelog_engine.types import TypeInformation, Types

_HIDDEN = (".", "_")


class TextFileSource:
    r"""The lines of files, as str without their line ends (``\n``, ``\r\n`` or ``\r``).

    Empty lines and a last line without an end are elements. A folder stands for all its files, however deep;
    files and folders whose names begin with ``.`` or ``_`` are left out. One split is one file. ``.gz``,
    ``.gzip``, ``.bz2`` and ``.xz`` are decompressed. Bytes that the charset cannot decode become U+FFFD, as
    they do in Java.

    The position is a byte offset; in a compressed file, or with a charset such as UTF-16 whose line ends are
    not single bytes, it is a count of lines.

    Args:
        paths: files or folders of the local file system, plain or as ``file:`` URIs.
        charset_name: any encoding that Python knows.

    Raises:
        ConfigurationError: no path, or an unknown charset.
        NotSupportedError: a URI of another file system.
    """

    bounded = True
    parallel = True

    def __init__(self, paths: list[str], charset_name: str = "UTF-8") -> None:
        if not paths:
            raise ConfigurationError("a text file source needs at least one path")
        self.paths = [_local(path) for path in paths]
        try:
            self.charset = codecs.lookup(charset_name).name
        except (LookupError, TypeError):
            raise ConfigurationError(
                f"unknown charset {charset_name!r}; use a name such as 'UTF-8'"
            ) from None
        self.output_type: TypeInformation | None = Types.STRING()

    def splits(self, parallelism: int) -> list[Split]:
        """One split per file, in the order of their names; the folders are listed now.

        Raises:
            ConfigurationError: a path does not exist or cannot be read.
        """
        found: dict[str, None] = {}
        for path in self.paths:
            found.update(dict.fromkeys(_files_under(path)))
        return [Split(path, 0) for path in found]

    def reader(self, split: Split) -> SplitReader:
        """A reader of one file."""
        if decompressor(split.id) is None and _ends_lines_with_single_bytes(self.charset):
            return ByteLineReader(split.id, self.charset)
        return CountedLineReader(split.id, self.charset)


def _local(path: str) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigurationError(f"a path must be a str, got {path!r}")
    local = local_path(os.fspath(path))
    if local is None:
        raise NotSupportedError(
            f"cannot read {path}: this version reads local files only (a path or a file: URI)"
        )
    return local


def _files_under(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise ConfigurationError(f"the input path {path} does not exist")
    files: list[str] = []
    for folder, subfolders, names in os.walk(path, onerror=_refuse_unreadable):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith(_HIDDEN))
        files += (os.path.join(folder, name) for name in sorted(names) if not name.startswith(_HIDDEN))
    return files


def _refuse_unreadable(error: OSError) -> None:
    raise ConfigurationError(f"cannot list the input folder {error.filename}: {error.strerror}") from error


def _ends_lines_with_single_bytes(charset: str) -> bool:
    # Holds for UTF-8 and all that extend ASCII; not for UTF-16, UTF-32, UTF-8 with a signature and EBCDIC.
    return "\r\n".encode(charset) == b"\r\n"
