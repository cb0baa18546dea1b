"""How several part files become one: byte by byte, or record by record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from changelog_engine.connectors.files.encoders import BulkFactory, MergingFactory, RowEncoder
from changelog_engine.connectors.files.formats import FileFormat
from changelog_engine.connectors.files.input_files import InputFile
from changelog_engine.connectors.files.stores import Store
from changelog_engine.errors import ConfigurationError, StorageError

_CHUNK_BYTES = 4 << 20
_READ_RECORDS = 2048


class PendingFile(NamedTuple):
    """A part file that has ended and is hidden."""

    temporary: str
    final: str
    size: int  # bytes


class Compactor(ABC):
    """Makes one file of several. Pickled and shipped; several threads may use one at a time.

    Attributes:
        merges: False: every file stays by itself, under the name of a compacted one.
    """

    merges: bool = True

    @abstractmethod
    def check(self, encoder: RowEncoder | BulkFactory) -> None:
        """Raise if it cannot compact what this encoder writes.

        Raises:
            ConfigurationError: says what to use instead.
        """

    @abstractmethod
    def merge(
        self, store: Store, sources: Sequence[PendingFile], stream: Any, encoder: RowEncoder | BulkFactory
    ) -> None:
        """Write what the sources hold to a stream, in order; the stream stays open.

        Raises:
            StorageError: a source that cannot be read.
        """


class ConcatCompactor(Compactor):
    """The bytes of the files, one file after the other."""

    def __init__(self, delimiter: bytes = b"") -> None:
        self.delimiter = delimiter

    def check(self, encoder: RowEncoder | BulkFactory) -> None:
        if isinstance(encoder, MergingFactory) and not encoder.concatenates:
            raise ConfigurationError(
                f"{encoder.described} cannot be joined byte by byte, nobody could read the result: use "
                "FileCompactor.record_wise_file_compactor()"
            )

    def merge(
        self, store: Store, sources: Sequence[PendingFile], stream: Any, encoder: RowEncoder | BulkFactory
    ) -> None:
        for number, source in enumerate(sources):
            if number and self.delimiter:
                stream.write(self.delimiter)
            copied = 0
            with store.open(source.temporary, source.size) as read:
                while data := read.read(_CHUNK_BYTES):
                    stream.write(data)
                    copied += len(data)
            if copied != source.size:
                raise StorageError(f"the file {source.temporary} gave {copied} bytes, and has {source.size}")


class IdenticalCompactor(ConcatCompactor):
    """Every file stays as it is: it is given one at a time."""

    merges = False

    def check(self, encoder: RowEncoder | BulkFactory) -> None:
        """There is nothing that it cannot copy."""


class RecordWiseCompactor(Compactor):
    """Reads the records and writes them again, for bulk formats.

    Args:
        reader: how the records are read; None leaves it to the format that wrote them, which must be one of ours.
    """

    def __init__(self, reader: FileFormat | None = None) -> None:
        self.reader = reader

    def check(self, encoder: RowEncoder | BulkFactory) -> None:
        if isinstance(encoder, RowEncoder):
            raise ConfigurationError(
                "files of a row format are joined byte by byte: use FileCompactor.concat_file_compactor()"
            )
        if isinstance(encoder, MergingFactory) and self.reader is not None:
            raise ConfigurationError(
                f"{encoder.described} are read as they were written: call record_wise_file_compactor() without a reader"
            )
        if not isinstance(encoder, MergingFactory) and self.reader is None:
            raise ConfigurationError(
                f"the files of {type(encoder).__name__} are read to be compacted: give "
                f"record_wise_file_compactor() a StreamFormat, "
                "BulkFormat or InputFormat"
            )
        if self.reader is not None and self.reader.bad_tag is not None:
            raise ConfigurationError(
                "the reader of record_wise_file_compactor() sends bad records to a side output, which a compaction does not "
                "have: give a format without a tag for bad records, so that a bad record fails the job and stays in its file"
            )

    def merge(
        self, store: Store, sources: Sequence[PendingFile], stream: Any, encoder: RowEncoder | BulkFactory
    ) -> None:
        if isinstance(encoder, MergingFactory):
            encoder.merge(_opened(store, sources), stream)
            return
        assert self.reader is not None and isinstance(encoder, BulkFactory)
        writer = encoder.open(stream)
        for source in sources:
            reader = self.reader.reader(_StoredFile(store, source))
            try:
                position, finished = self.reader.start, False
                while not finished:
                    values, position, finished, _, aside = reader.read(position, _READ_RECORDS)
                    if aside:
                        raise StorageError(
                            f"compacting the file {source.temporary}: its reader sent {len(aside)} records to a side "
                            "output, which a compaction does not have; the file stays as it is"
                        )
                    if len(values):
                        writer.write(values)
            finally:
                reader.close()
        writer.finish()


class _StoredFile(InputFile):
    """A pending file as readers of formats want it."""

    def __init__(self, store: Store, source: PendingFile) -> None:
        self._store = store
        self._source = source
        # Formats look at the ending of a name for the compression.
        self.name = source.final
        self.size = source.size

    def open(self) -> Any:
        return self._store.open(self._source.temporary, self._source.size)


def _opened(store: Store, sources: Sequence[PendingFile]) -> Iterator[tuple[str, Any]]:
    for source in sources:
        with store.open(source.temporary, source.size) as stream:
            yield source.temporary, stream
