"""What a file format promises to the source of files, and the format of text lines."""

from __future__ import annotations

import codecs
import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from changelog_engine.connectors.files.compression import decompressor
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.text_lines import ByteLineReader, CountedLineReader
from changelog_engine.connectors.protocols import Position, SplitReader
from changelog_engine.errors import ConfigurationError, NotSupportedError
from changelog_engine.types import TypeInformation, Types


class FileFormat(ABC):
    """How the records of a file are read. Pickled and shipped; holds no open files.

    Attributes:
        start: the position of a file's first record.
        bad_tag: id of the side output of records that cannot be decoded; None lets the job fail at them.
        skips_bad_records: whether it can go on after one.
    """

    output_type: TypeInformation | None = None
    start: Position = 0
    bad_tag: str | None = None
    skips_bad_records: ClassVar[bool] = False

    @abstractmethod
    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file; its positions are the format's own."""

    def with_bad_records_tag(self, tag: str) -> Self:
        """A format like this one that sends records that cannot be decoded to a side output, each as a `bad_record`.

        Raises:
            NotSupportedError: it cannot go on after a bad record.
        """
        if not self.skips_bad_records:
            raise NotSupportedError(
                f"{type(self).__name__}: only CSV and JSON lines can go on after a bad record"
            )
        found = copy.copy(self)
        found.bad_tag = tag
        return found


class TextLines(FileFormat):
    r"""The lines of a file, as str without their ends (``\n``, ``\r\n`` or ``\r``).

    Empty lines and a last line without an end are elements. Bytes that the charset cannot decode become U+FFFD, as
    they do in Java. The position is a byte offset; in a compressed file, or with a charset such as UTF-16 whose line
    ends are not single bytes, it is a count of lines.

    Args:
        charset_name: any encoding that Python knows.
        errors: what becomes of bytes that the charset cannot decode, by the names that Python has for it.

    Raises:
        ConfigurationError: an unknown charset.
    """

    def __init__(self, charset_name: str = "UTF-8", errors: str = "replace") -> None:
        self.errors = errors
        try:
            self.charset = codecs.lookup(charset_name).name
        except (LookupError, TypeError):
            raise ConfigurationError(
                f"unknown charset {charset_name!r}; use a name such as 'UTF-8'"
            ) from None
        self.output_type = Types.STRING()

    def reader(self, file: InputFile) -> SplitReader:
        if decompressor(file.name) is None and _ends_lines_with_single_bytes(self.charset):
            return ByteLineReader(file, self.charset, errors=self.errors)
        return CountedLineReader(file, self.charset, self.errors)


def _ends_lines_with_single_bytes(charset: str) -> bool:
    # Holds for UTF-8 and all that extend ASCII; not for UTF-16, UTF-32, UTF-8 with a signature and EBCDIC.
    return "\r\n".encode(charset) == b"\r\n"
