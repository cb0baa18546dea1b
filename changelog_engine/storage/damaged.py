"""What libraries raise at a file that is damaged, and what the engine says instead: one list, one translation.

Invariants:
    * A damaged file is a ``CorruptChangelogError`` that names it, whatever a library raised: a flipped bit in a Parquet
      footer is an ``ArrowInvalid``, an ``OSError``, a ``UnicodeDecodeError`` or a ``KeyError``, as it happens.
    * delta-rs is called within ``delta_rs``: where its own code fails an assertion (Rust's panic), it raises what no
      ``except Exception`` catches, and its errors are drawn for a terminal, in colours and over several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError

from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.storage.retry import is_transient

# Arrow's own errors, and those of Python that its readers let through: bytes that are not text (a ValueError), names,
# places and types that are not there.
PARQUET_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError, EOFError)
DELTA_ERRORS = (DeltaError, *PARQUET_ERRORS)
_ARROW = re.compile(r"\s*\x1b\[[0-9;]*m\S*\x1b\[[0-9;]*m\s*")  # before what an error came from
_PANIC = "PanicException"  # the class derives from BaseException, and no module has it


@contextmanager
def delta_rs() -> Iterator[None]:
    """Call delta-rs in the block.

    Raises:
        DeltaError: it panicked; or the block raised it.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == _PANIC:
            raise DeltaError(f"delta-rs failed in its own code: {error}") from error
        told = str(error)
        plain = _ARROW.sub(": ", told)
        if plain == told or not isinstance(error, DeltaError | OSError):
            raise
        raise type(error)(plain.strip()) from error


@contextmanager
def reading(path: str, *, missing: str = "is missing", consequence: str = "") -> Iterator[None]:
    """Read one file of a table in the block.

    Args:
        path: of the file, in full; the error names it.
        missing: what is said when there is no such file.
        consequence: what follows from it, a sentence that ends the message.

    Raises:
        CorruptChangelogError: the file is missing or cannot be read, or the block raised it.
        StorageError: the disk failed while it was read, which does not mean that the file is damaged.
    """
    try:
        yield
    except CorruptChangelogError:
        raise
    except StorageError as error:
        if isinstance(error.__cause__, OSError) and is_transient(error.__cause__, remote=False):
            raise  # of a disk that failed for a moment: the file may be whole, and a restart helps
        raise _unreadable(error, path, consequence) from error
    except FileNotFoundError as error:
        raise CorruptChangelogError(missing, path) from error
    except PARQUET_ERRORS as error:
        raise _unreadable(error, path, consequence) from error


def _unreadable(error: BaseException, path: str, consequence: str) -> CorruptChangelogError:
    return CorruptChangelogError(f"can't be read: {error}{consequence and '. ' + consequence}", path)
