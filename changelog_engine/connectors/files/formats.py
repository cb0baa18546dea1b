"""What a file format promises to the source of files, and the format of text lines."""

from __future__ import annotations

import codecs
from typing import Protocol, runtime_checkable

from changelog_engine.connectors.files.compression import decompressor
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.text_lines import ByteLineReader, CountedLineReader
from changelog_engine.connectors.protocols import Position, SplitReader
from changelog_engine.errors import ConfigurationError
from changelog_engine.types import TypeInformation, Types


@runtime_checkable
class FileFormat(Protocol):
    """How the records of a file are read. Pickled and shipped; holds no open files.

    One member more is optional: ``with_bad_records_tag(tag)``, a format like this one that sends records that cannot be
    decoded to a side output, each as a row of `bad_record`, and has its name as ``bad_tag``.

    Args:
        output_type: of the records.
        start: the position of a file's first record.
    """

    output_type: TypeInformation | None
    start: Position

    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file; its positions are the format's own."""


class TextLines:
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

    start: Position = 0

    def __init__(self, charset_name: str = "UTF-8", errors: str = "replace") -> None:
        self.errors = errors
        try:
            self.charset = codecs.lookup(charset_name).name
        except (LookupError, TypeError):
            raise ConfigurationError(
                f"unknown charset {charset_name!r}; use a name such as 'UTF-8'"
            ) from None
        self.output_type: TypeInformation | None = Types.STRING()

    def reader(self, file: InputFile) -> SplitReader:
        """A reader of one file."""
        if decompressor(file.name) is None and _ends_lines_with_single_bytes(self.charset):
            return ByteLineReader(file, self.charset, errors=self.errors)
        return CountedLineReader(file, self.charset, self.errors)


def _ends_lines_with_single_bytes(charset: str) -> bool:
    # Holds for UTF-8 and all that extend ASCII; not for UTF-16, UTF-32, UTF-8 with a signature and EBCDIC.
    return "\r\n".encode(charset) == b"\r\n"
