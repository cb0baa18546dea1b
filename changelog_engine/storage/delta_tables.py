"""Delta tables of users: read by version, and appended to exactly once.

Invariants:
    * An append is one commit: all of its files and its transaction ids, or nothing.
    * A version, once read, is read the same again, for as long as the table keeps its log and files.
"""

from __future__ import annotations

import copy
import json
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from changelog_engine.clock import wall_ms
from changelog_engine.config.names import names_of
from changelog_engine.errors import (
    ConfigurationError,
    ConnectorError,
    ForbiddenError,
    NotSupportedError,
    RefusedForGoodError,
)
from changelog_engine.storage.checksums import crc32_of
from changelog_engine.storage.damaged import delta_rs
from changelog_engine.storage.delta_commits import Layout, NewFile, TableFile, deletion_vectors, text_of
from changelog_engine.storage.delta_names import (
    CHECKPOINT_NAME,
    LAST_CHECKPOINT,
    LAST_CHECKPOINT_NAME,
    LOG,
    NUMBERED,
    checkpoint_path,
    commit_path,
)
from changelog_engine.storage.delta_place import delta_place
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.new_table import FIRST_COMMIT, first_commit
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage

_CONFLICTS = 100
_FAILURES = 3
_PAUSE_S = 0.05
_OLD_MS = 3_600_000  # a VACUUM deletes what no commit refers to after some days, or hours
_FORGETS = "delta.setTransactionRetentionDuration"
_LENGTH = re.compile(r"(\d+)\s*(week|day|hour|minute|second|millisecond)", re.IGNORECASE)
_UNIT_MS = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "millisecond": 1,
}
_RULES = ("delta.generationExpression", "delta.identity.", "delta.invariants")  # in a column's metadata
_TYPES = names_of("string long integer short byte float double boolean binary date timestamp timestamp_ntz")


class UserTable:
    """A Delta table of a user's.

    Raises:
        ConfigurationError: there is no Delta table.
        ConnectorError: its log cannot be read.
    """

    def __init__(self, root: str) -> None:
        self.storage = open_storage(root)
        self._table = _open(self.storage)

    @staticmethod
    def exists(root: str) -> bool:
        """Whether there is one.

        Raises:
            ConnectorError: it cannot be found out.
        """
        storage = open_storage(root)
        try:
            with delta_rs():
                return bool(DeltaTable.is_deltatable(delta_place(storage), storage_options=_options(storage)))
        except (DeltaError, OSError) as error:
            raise ConnectorError(
                f"could not look whether {storage.root} is a Delta table: {error}"
            ) from error

    @staticmethod
    def create(
        root: str, schema: pa.Schema, partition_by: Sequence[str], properties: Mapping[str, str]
    ) -> None:
        """Make an empty table, unless somebody else does."""
        storage = open_storage(root)
        if UserTable.exists(root):
            return
        try:
            storage.make_dirs(LOG)
            storage.put_if_absent(FIRST_COMMIT, first_commit(schema, properties, partition_by))
        except ForbiddenError:
            raise
        except (DeltaError, OSError) as error:
            raise ConnectorError(f"could not make the Delta table {storage.root}: {error}") from error

    @property
    def version(self) -> int:
        """The version that was opened."""
        return int(self._table.version())

    @property
    def table_id(self) -> str:
        """Stands for the table: another one where it was made anew."""
        return str(self._table.metadata().id)

    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema(self._table.schema().to_arrow())

    def partition_columns(self) -> list[str]:
        """The columns whose values are not in the files."""
        return list(self._table.metadata().partition_columns)

    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return dict(self._table.metadata().configuration)

    def rules(self) -> list[str]:
        """What rows have to fulfil that nothing but a query engine checks or computes, by column or name."""
        found = [name for name in self.properties() if name.startswith("delta.constraints.")]
        for field in json.loads(self._table.schema().to_json())["fields"]:
            found += [f"{name} of {field['name']}" for name in field["metadata"] if name.startswith(_RULES)]
        return found

    def layout(self) -> Layout:
        """The columns of its files.

        Raises:
            ConfigurationError: column mapping.
        """
        found = _layout_of(self._table)
        found.refuse_mapped(self.storage.root)
        return found

    def at(self, version: int) -> UserTable:
        """The table as it was at a version.

        Raises:
            ConnectorError: the version is gone.
        """
        earlier = copy.copy(self)
        earlier._table = _open_at(self.storage, version)
        return earlier

    def files_at(self, version: int, layout: Layout) -> list[TableFile]:
        """All files of a version, in the order of their paths.

        Raises:
            ConnectorError: the version is gone, has rows that are marked as deleted, or other columns.
            ConfigurationError: column mapping.
        """
        table = _open_at(self.storage, version)
        layout.refuse_other(self.storage.root, _layout_of(table))
        try:
            with delta_rs():
                marked = pa.table(table.deletion_vectors()).num_rows if _may_mark(table) else 0
                actions = pa.table(table.get_add_actions())
        except (DeltaError, OSError) as error:
            raise _unreadable(self.storage, version, error) from error
        if marked:
            raise RefusedForGoodError(deletion_vectors(self.storage.root, version))
        found = []
        for action in actions.to_pylist():
            partition = action.get("partition") or action.get("partition_values") or {}
            found.append(
                TableFile(
                    unquote(action["path"]),
                    {name: None if value is None else text_of(value) for name, value in partition.items()},
                )
            )
        return sorted(found, key=lambda file: file.path)

    def transaction(self, application: str) -> int | None:
        """The newest version that was committed under a transaction id, or None."""
        try:
            with delta_rs():
                found = self._table.transaction_version(application)
        except (DeltaError, OSError) as error:
            raise _unreadable(self.storage, self.version, error) from error
        return None if found is None else int(found)

    def append(self, files: Mapping[str, Mapping[int, Sequence[NewFile]]], compare: bool = False) -> int:
        """Add files under transaction ids, in one commit; what was added before is left out.

        Args:
            files: transaction id -> number -> files. Numbers under one id are committed in order.
            compare: read them once more and compare their checksums.

        Returns:
            How many files this call added.

        Raises:
            ConnectorError: it failed; it may be tried again. Or files or committed numbers before these are gone,
                or files are not what was written.
            StorageError: the commit could not be made durable; it may be tried again.
        """
        failures = conflicts = 0
        tried = 0  # files of the try before, whose answer may have been lost
        while True:
            new = self._not_committed(files)
            if compare:
                self._refuse_changed(
                    file for numbers in new.values() for some in numbers.values() for file in some
                )
                compare = False
            adds: list[AddAction | RemoveAction] = [
                _added(file) for numbers in new.values() for some in numbers.values() for file in some
            ]
            if not adds:
                if files:
                    self._make_newest_durable()
                return tried
            tried = len(adds)
            # Without it Spark forgets them at once where the table forgets transactions at all
            now_ms = wall_ms()
            marks = [
                Transaction(application, max(numbers), now_ms)
                for application, numbers in new.items()
                if numbers
            ]
            before = self.version  # the commit follows this one or fails
            try:
                with delta_rs():
                    self._table.create_write_transaction(
                        adds,
                        "append",
                        self._table.schema(),
                        self.partition_columns(),
                        commit_properties=CommitProperties(app_transactions=marks, max_commit_retries=0),
                    )
            except CommitFailedError as error:
                conflicts += 1  # somebody else was faster
                if conflicts >= _CONFLICTS:
                    raise ConnectorError(
                        f"{conflicts} commits of others came first at the Delta table {self.storage.root}: {error}"
                    ) from error
                time.sleep(random.uniform(0, _PAUSE_S))
            except (DeltaError, OSError) as error:
                failures += 1  # or only the answer was lost: the table knows
                if failures >= _FAILURES:
                    raise ConnectorError(
                        f"could not commit to the Delta table {self.storage.root}: {error}"
                    ) from error
            else:
                self._make_durable(before + 1)
                return len(adds)
            self._table = _open(self.storage)

    def _not_committed(
        self, files: Mapping[str, Mapping[int, Sequence[NewFile]]]
    ) -> dict[str, dict[int, Sequence[NewFile]]]:
        """What of it the table does not have under its transaction ids."""
        new = {}
        for application, numbers in files.items():
            done = self.transaction(application) or 0
            new[application] = {number: some for number, some in numbers.items() if number > done}
            if not done and self._forgets_after_ms is not None:
                new[application] = self._not_listed(new[application], self._forgets_after_ms)
            waiting = [file for some in new[application].values() for file in some]
            self._refuse_gone(file for file in waiting if not done or self._may_be_gone(file))
            self.refuse_lost(application, min(new[application], default=1) - 1)
        return new

    def refuse_lost(self, application: str, committed: int) -> None:
        """Refuse a table without what was committed to it.

        Args:
            committed: the newest number that surely was, under this transaction id.

        Raises:
            ConnectorError: it is gone.
        """
        found = self.transaction(application)
        if (found or 0) < committed and (found is not None or self._forgets_after_ms is None):
            raise RefusedForGoodError(
                f"the Delta table {self.storage.root} has not got all that was committed to it: of the writer "
                f"{application} portion {found or 0} is its newest, and portion {committed} was committed. The table was "
                "made again, or put back from an older copy. Put it back as it was, or give the sink another uid(), "
                "to go on without those rows"
            )

    @property
    def _forgets_after_ms(self) -> float | None:
        """How old a transaction id must be before the table may forget it; None: it forgets none."""
        text = self.properties().get(_FORGETS)
        if text is None:
            return None
        found = _LENGTH.findall(text)
        return sum(int(count) * _UNIT_MS[unit.lower()] for count, unit in found)

    def _not_listed(
        self, numbers: Mapping[int, Sequence[NewFile]], forgets_after_ms: float
    ) -> dict[int, Sequence[NewFile]]:
        """What was not committed, of a writer that the table does not know or has forgotten.

        Raises:
            ConnectorError: it cannot be told.
        """
        now_ms = wall_ms()
        old = [
            file for some in numbers.values() for file in some if now_ms - file.time_ms >= forgets_after_ms
        ]
        if not old:
            return dict(numbers)
        listed = {file.path for file in self.files_at(self.version, self.layout())}
        unknown = [file.path for file in old if file.path not in listed]
        if unknown:
            raise RefusedForGoodError(
                f"the Delta table {self.storage.root} forgets who committed to it ({_FORGETS} is "
                f"{self.properties()[_FORGETS]!r}), and {len(unknown)} files that were written for a checkpoint before that "
                f"are not in it, such as {unknown[0]}: whether they were committed, and compacted since, cannot be told. If "
                "the table has their rows, give the sink another uid() and start from a savepoint with "
                "execution.state-recovery.ignore-unclaimed-state=true; if not, unset the property first"
            )
        return {
            number: some for number, some in numbers.items() if not all(file.path in listed for file in some)
        }

    def _may_be_gone(self, file: NewFile) -> bool:
        """Whether a file of a known table is looked for before it is added: a request each, where that costs something."""
        return self.storage.local is not None or wall_ms() - file.time_ms > _OLD_MS

    def _refuse_gone(self, files: Iterable[NewFile]) -> None:
        """Refuse files that are not there as they were written, as of a table that was made again: nobody could read it."""
        gone = [file.path for file in files if self.storage.size(file.path) != file.size]
        if gone:
            raise RefusedForGoodError(
                f"{len(gone)} files that were written to the Delta table {self.storage.root} for a checkpoint are gone or "
                f"cut, such as {gone[0]}: the table was deleted, or vacuumed. Put the table back, or give the sink another "
                "uid(), to go on without their rows"
            )

    def _refuse_changed(self, files: Iterable[NewFile]) -> None:
        """Refuse files whose bytes are not those that were written; object stores look at that themselves."""
        if self.storage.keeps_checksums:
            return
        for file in files:
            if file.crc is None:
                continue
            found = crc32_of(self.storage, file.path)
            if found != file.crc:
                raise RefusedForGoodError(
                    f"the file {self.storage.join(file.path)}, which was written for a checkpoint of a sink, is not what "
                    f"was written: its {file.size} bytes have the checksum {found:08x}, and the checkpoint has "
                    f"{file.crc:08x}. The disk damaged it, or somebody changed it; it was not added to the table. Put "
                    "it back as it was, or restore the checkpoint before"
                )

    def _make_durable(self, version: int) -> None:
        """Delta-rs leaves it to the kernel when a commit, and a Delta checkpoint that it makes of it, reach a local disk."""
        if self.storage.local is None:
            return
        self.storage.sync(commit_path(version))
        for path in (checkpoint_path(version), LAST_CHECKPOINT):
            if self.storage.exists(path):
                self.storage.sync(path)
        self.storage.sync(LOG)

    def _make_newest_durable(self) -> None:
        """The same for a commit that was made before, whichever it is: for all from the newest Delta checkpoint on."""
        if self.storage.local is None:
            return
        names = [entry.name for entry in self.storage.list(LOG)]
        oldest = max((name[:20] for name in names if CHECKPOINT_NAME.match(name)), default="")
        for name in names:
            if name == LAST_CHECKPOINT_NAME or (NUMBERED.match(name) and name[:20] >= oldest):
                self.storage.sync(f"{LOG}/{name}")
        self.storage.sync(LOG)


def schema_of_json(text: str) -> pa.Schema:
    """The columns of a schema as Delta and Spark write it.

    Raises:
        NotSupportedError: a type that Delta does not have.
    """
    _refuse_unknown(json.loads(text))
    try:
        return pa.schema(Schema.from_json(text).to_arrow())
    except Exception as error:  # of whatever class its reader has
        raise NotSupportedError(
            f"a column has a type that rows cannot hold; cast or drop it: {error}"
        ) from error


def _refuse_unknown(kind: Any) -> None:
    """Refuse types that the reader of schemas would take for others, such as intervals for numbers."""
    if isinstance(kind, dict) and kind.get("type") in ("struct", "array", "map"):
        for field in kind.get("fields", ()):
            _refuse_unknown(field["type"])
        for part in ("elementType", "keyType", "valueType"):
            if part in kind:
                _refuse_unknown(kind[part])
        return
    known = not isinstance(kind, dict) and (kind in _TYPES or kind.startswith("decimal"))
    if not known:
        name = kind.get("type") if isinstance(kind, dict) else kind
        raise NotSupportedError(f"a column has the type {name!r}, which rows cannot hold; cast or drop it")


def _may_mark(table: DeltaTable) -> bool:
    features = table.protocol().reader_features or []
    return "deletionVectors" in features


def _open(storage: Storage) -> DeltaTable:
    try:
        with delta_rs():
            return DeltaTable(delta_place(storage), storage_options=_options(storage))
    except TableNotFoundError as error:
        raise ConfigurationError(f"{storage.root} is not a Delta table") from error
    except (DeltaError, OSError) as error:
        raise ConnectorError(f"could not read the Delta log of {storage.root}: {error}") from error


def _open_at(storage: Storage, version: int) -> DeltaTable:
    try:
        with delta_rs():
            return DeltaTable(delta_place(storage), version=version, storage_options=_options(storage))
    except (DeltaError, OSError) as error:
        raise _unreadable(storage, version, error) from error


def _unreadable(storage: Storage, version: int, error: Exception) -> ConnectorError:
    return ConnectorError(f"version {version} of the Delta table {storage.root} cannot be read: {error}")


def _layout_of(table: DeltaTable) -> Layout:
    metadata = table.metadata()
    return Layout.of(
        table.version(), table.schema().to_json(), metadata.partition_columns, metadata.configuration
    )


def _options(storage: Storage) -> dict[str, str]:
    return FileSystems().delta_options(storage.root)


def _added(file: NewFile) -> AddAction:
    return AddAction(
        file.path, file.size, dict(file.partition), file.time_ms, True, json.dumps({"numRecords": file.rows})
    )
