"""A Delta table as a sink, exactly once.

1. Rows are written to Parquet files in the table's folder, at a barrier the last of them. No commit refers to them yet.
2. The checkpoint keeps the files' names, and on a local disk their checksums.
3. Once it is durable, the driver makes one Delta commit with the files of all subtasks. The commit carries a transaction id
   for each writer, with the number of its newest files: who comes second finds the number there, and adds nothing.

Invariants:
    * A row is in the table only if the checkpoint that covers it is durable.
    * A checkpoint's rows appear at once. Readers see the table as it was at some checkpoint.
    * A file that a restart adds has the bytes that were written: they are read once more.
"""

from __future__ import annotations

import contextlib
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.clock import wall_ms
from changelog_engine.config.paths import absolute_path
from changelog_engine.connectors.delta.tables import user_tables
from changelog_engine.connectors.delta.types import (
    checked_partitions,
    longest_text,
    needs_values,
    null_in,
    plain_type,
    table_schema,
)
from changelog_engine.connectors.files.arrow_types import columns_of
from changelog_engine.connectors.protocols import (
    Committable,
    CommittingSink,
    CommittingWriter,
    Prepared,
    RestoredSink,
    SinkContext,
)
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    RefusedForGoodError,
    TypeMismatchError,
)
from changelog_engine.storage.delta_commits import NewFile, text_of
from changelog_engine.storage.opening import open_storage
from changelog_engine.types import RowTypeInfo, TypeInformation
from changelog_engine.types.row import Row, columns_of_rows, field_names_of, values_of

if TYPE_CHECKING:
    from changelog_engine.storage.delta_tables import UserTable

_BATCH_ROWS = 8_192
_FILE_BYTES = 128 << 20
_ALL_BYTES = 256 << 20
_TRANSACTION = "changelog-engine/"

Partition = tuple[tuple[str, str | None], ...]


class DeltaSink(CommittingSink):
    """Appends rows to a Delta table, which is made when it is not there.

    Args:
        path: of the table, or its URI.
        partition_by: fields whose values part the table's files; only for a new table, else they must be the table's.

    Raises:
        ConfigurationError: no row type, or fields that cannot part a table.
        NotSupportedError: a field that Delta has no type for.
    """

    def __init__(
        self,
        path: str,
        type_info: TypeInformation | None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(type_info, RowTypeInfo):
            raise ArgumentTypeError(
                "a Delta sink needs rows with named fields: give the stream a type such as "
                f"Types.ROW_NAMED(['id'], [Types.LONG()]), it has {type_info!r}"
            )
        self.path = absolute_path(path)
        self.type_info = type_info
        self.schema = table_schema(type_info)
        self.partition_by = checked_partitions(partition_by, type_info)
        self.properties = dict(properties or {})

    def committing_writer(self, context: SinkContext) -> DeltaWriter:
        kept = [*context.restored, *(context.beside or ())]
        if _committed_to(open_storage(self.path).root, kept) and not user_tables().exists(self.path):
            raise RefusedForGoodError(
                f"the Delta table {self.path}, to which this job has committed, is gone. Put it back, or give the sink "
                "another uid(), to go on without the rows that it had"
            )
        self.table()
        return DeltaWriter(self, context)

    def commit_all(self, context: SinkContext, committables: Sequence[Committable]) -> None:
        self.commit(committables, anew=bool(context.restored))

    def commit(self, committables: Iterable[Committable], anew: bool = False) -> None:
        """Add the files that are not in the table yet, in one commit.

        Args:
            anew: an attempt before has written them.
        """
        files: dict[str, dict[int, list[NewFile]]] = {}
        for one in committables:
            new = NewFile(
                one["path"], one["size"], one["time_ms"], one["rows"], one["partition"], one.get("crc")
            )
            files.setdefault(_TRANSACTION + one["writer"], {}).setdefault(one["number"], []).append(new)
        self.table().append(files, anew)

    def check_before_start(self) -> None:
        """Before the job starts: a table on a local disk that is there must fit.

        Raises:
            ConfigurationError: the table does not fit.
        """
        storage = open_storage(self.path)
        if storage.local is None:
            return
        if storage.exists() and storage.is_file():
            raise ConfigurationError(f"the Delta table {self.path} is a file: name a folder")
        if user_tables().exists(self.path):
            self.table()

    def table(self) -> UserTable:
        """The table, which is made or must fit.

        Raises:
            ConfigurationError: the table has other columns or partitions, or rules that this sink does not keep.
        """
        if not user_tables().exists(self.path):
            user_tables().create(self.path, self.schema, self.partition_by, self.properties)
        table = user_tables()(self.path)
        table.layout()  # raises where columns are mapped
        ours = {field.name: field.type for field in self.schema}
        theirs = {field.name: plain_type(field.type) for field in table.schema()}
        if ours != theirs:
            raise ConfigurationError(
                f"the Delta table {self.path} has other columns than the stream: it has {_shown(theirs, ours)}, "
                f"where the stream has {_shown(ours, theirs)}. Give the rows the table's columns, or name another table"
            )
        if self.partition_by and table.partition_columns() != self.partition_by:
            raise ConfigurationError(
                f"the Delta table {self.path} is partitioned by {table.partition_columns()}, not {self.partition_by}"
            )
        rules = table.rules()
        if rules:
            raise ConfigurationError(
                f"the Delta table {self.path} has rules ({', '.join(rules)}), which this sink does not keep"
            )
        return table


class DeltaWriter(CommittingWriter):
    """Writes the files of one subtask."""

    def __init__(self, sink: DeltaSink, context: SinkContext) -> None:
        self._sink = sink
        self._commits = not context.checkpoints  # nobody commits for all
        self._storage = open_storage(sink.path)
        table = user_tables()(sink.path)
        self._partition_by = table.partition_columns()
        self._required = [field for field in table.schema() if needs_values(field)]
        self._longest = {
            field.name: most for field in table.schema() if (most := longest_text(field)) is not None
        }
        names = sink.type_info.get_field_names()
        self._names = names
        self._kept = [name for name in names if name not in self._partition_by]
        self._positions = [(name, names.index(name)) for name in self._partition_by]
        self._id = uuid.uuid4().hex
        self._number = 1
        # (writer, number of its newest files)
        self._committed = _committed_to(self._storage.root, context.restored)
        for writer, number in self._committed:
            table.refuse_lost(_TRANSACTION + writer, number)
        self._rows: dict[Partition, list[Any]] = {}
        self._batches: dict[Partition, list[pa.RecordBatch]] = {}
        self._bytes: dict[Partition, int] = {}
        self._files: list[dict[str, Any]] = []  # not prepared

    def write(self, values: Sequence[Any]) -> None:
        fitted = list(values)
        found = columns_of_rows(fitted)
        if found is None or found[0] != self._names:
            fitted = [self._fields(value) for value in fitted]
        elif self._positions:
            fitted = list(zip(*found[1], strict=True))
        for partition, rows in self._parted(fitted).items():
            waiting = self._rows.setdefault(partition, [])
            waiting += rows
            if len(waiting) >= _BATCH_ROWS:
                self._pack(partition)
        if sum(self._bytes.values()) >= _ALL_BYTES:
            self._write_all()

    def prepare(self, final: bool) -> Prepared:
        self._write_all()
        files, self._files = self._files, []
        if files:
            self._committed = [(self._id, self._number)]
            self._number += 1
        return Prepared(files, {"table": self._storage.root, "committed": self._committed})

    def commit(self, committables: Sequence[Committable]) -> None:
        """The driver has committed for all; without checkpoints each writer commits for itself."""
        if self._commits:
            self._sink.commit(committables)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(Exception):  # VACUUM finds it
                self._storage.delete(file["path"])
        self._files = []

    def _fields(self, value: Any) -> Sequence[Any]:
        if type(value) is Row and field_names_of(value) == self._names:
            return values_of(value)
        row: Row = self._sink.type_info.check(value, "a row for a Delta table")
        if row is None:
            raise ConfigurationError("a Delta sink cannot write None as a row")
        return values_of(row)

    def _parted(self, rows: list[Any]) -> dict[Partition, list[Any]]:
        if not self._positions:
            return {(): rows}
        parted: dict[Partition, list[Any]] = {}
        for row in rows:
            texts = tuple(
                (name, None if row[position] is None else text_of(row[position]))
                for name, position in self._positions
            )
            parted.setdefault(texts, []).append(row)
        return parted

    def _pack(self, partition: Partition) -> None:
        rows = self._rows.pop(partition, None)
        if not rows:
            return
        whole = columns_of(rows, self._sink.schema)
        self._refuse_nulls(whole, partition)
        self._refuse_long(whole)
        batch = whole.select(self._kept)
        self._batches.setdefault(partition, []).append(batch)
        self._bytes[partition] = self._bytes.get(partition, 0) + batch.nbytes
        if self._bytes[partition] >= _FILE_BYTES:
            self._write_file(partition)

    def _refuse_nulls(self, batch: pa.RecordBatch, partition: Partition) -> None:
        """Refuse nulls where the table has none: its readers would trust that there are none."""
        texts = dict(partition)
        for field in self._required:
            if not field.nullable and texts.get(field.name) == "":
                raise TypeMismatchError(
                    f"a row for the Delta table {self._sink.path} has '' in {field.name!r}, by which the table is "
                    "partitioned, so that it is null to its readers, and which the table declares NOT NULL"
                )
            missing = null_in(batch.column(field.name), field)
            if missing is not None:
                raise TypeMismatchError(
                    f"a row for the Delta table {self._sink.path} has None in {missing}, which the table declares NOT NULL"
                )

    def _refuse_long(self, batch: pa.RecordBatch) -> None:
        """Refuse texts that a query engine would not have written."""
        for name, most in self._longest.items():
            longest = pc.max(pc.utf8_length(batch.column(name))).as_py() or 0
            if longest > most:
                raise TypeMismatchError(
                    f"a row for the Delta table {self._sink.path} has a string of {longest} characters in {name!r}, which "
                    f"the table declares to have at most {most}"
                )

    def _write_all(self) -> None:
        for partition in list(self._rows):
            self._pack(partition)
        for partition in list(self._batches):
            self._write_file(partition)

    def _write_file(self, partition: Partition) -> None:
        batches = self._batches.pop(partition)
        self._bytes.pop(partition)
        table = pa.Table.from_batches(batches)
        stream = pa.BufferOutputStream()
        pq.write_table(table, stream, compression="zstd")
        data = stream.getvalue()
        path = f"part-{uuid.uuid4()}.zstd.parquet"
        self._storage.write_durable(path, data)
        file = {
            "writer": self._id,
            "number": self._number,
            "path": path,
            "size": data.size,
            "rows": table.num_rows,
            "time_ms": wall_ms(),
            "partition": dict(partition),
        }
        if not self._storage.keeps_checksums:
            file["crc"] = zlib.crc32(data)
        self._files.append(file)


def _committed_to(root: str, restored: Iterable[RestoredSink]) -> list[tuple[str, int]]:
    """What writers before had committed to the table by the checkpoint, of which it may have lost something since."""
    return [
        (writer, number)
        for state in (sink.prepared.state for sink in restored)
        if state is not None and state["table"] == root
        for writer, number in state["committed"]
    ]


def _shown(columns: Mapping[str, pa.DataType], others: Mapping[str, pa.DataType]) -> str:
    """Those that others do not have, or have otherwise."""
    alone = [f"{name} {kind}" for name, kind in columns.items() if others.get(name) != kind]
    return ", ".join(alone) or "none of these"
