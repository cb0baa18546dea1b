"""Spark's data source ``changelog_state``: a state, or the timers of an operator, at a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.row_filter import OfKeys
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.graph.descriptions import key_type_of
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS, key_group
from changelog_engine.history.data_sources import (
    ColumnsSource,
    checked_options,
    described_view,
    key_group_ranges,
)
from changelog_engine.history.plain_rows import view_values
from changelog_engine.history.pushed_filters import key_texts
from changelog_engine.history.state_columns import StateColumns
from changelog_engine.history.tables import Tables
from changelog_engine.ledger.described import described_operator
from changelog_engine.ledger.job_path import refuse_another
from changelog_engine.ledger.reading import read_parts

STATE = "changelog_state"
_ROWS_OF_BATCH = 50_000


class StatePartition(InputPartition):
    """A range of key groups."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class StateReader(DataSourceReader):
    """Folds a state, range by range of key groups."""

    def __init__(
        self, path: str, table: str, checkpoint: int, operator: str, state: str, schema: StructType
    ) -> None:
        self._path = path
        self._table = table
        self._number = checkpoint
        self._operator = operator
        self._state = state
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._keys: frozenset[str] | None = None  # texts of the keys that are asked for; None for all

    def _tables(self) -> Tables:
        tables = Tables(self._path)
        remedy = "Make the DataFrame or view anew"
        refuse_another(self._path, tables.table, self._table, "the DataFrame or view was made of", remedy)
        return tables

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of key groups, as many as the rows are worth."""
        tables = self._tables()
        checkpoint = tables.lineage.checkpoint(self._number)
        operator = described_operator(checkpoint, self._operator)
        groups = operator.max_parallelism
        if self._keys is not None:
            codec = key_codec_for(key_type_of(operator))
            found = {key_group(codec.from_texts([text])[0], groups) for text in self._keys}
            return [StatePartition(group, group + 1) for group in sorted(found)] or [StatePartition(0, 0)]
        base = tables.ledger.base(checkpoint)
        uids = frozenset([self._operator])
        files = tables.ledger.log_files(base.suffix, ALL_KEY_GROUPS, uids)
        files += tables.ledger.snapshot_files(base, ALL_KEY_GROUPS, uids)
        rows = sum(file.rows or 0 for file in files)
        return [StatePartition(*pair) for pair in key_group_ranges(operator, rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The entries of a range of key groups."""
        assert isinstance(partition, StatePartition)
        if partition.first == partition.last:
            return
        tables = self._tables()
        checkpoint = tables.lineage.checkpoint(self._number)
        columns = StateColumns.of(*described_view(checkpoint, self._operator, self._state))
        for live in self._live(tables, checkpoint, range(partition.first, partition.last), columns.states):
            # A list's elements lie in one batch or not: those are made of all rows at once.
            step = live.num_rows if columns.kind == "list" else _ROWS_OF_BATCH
            for start in range(0, live.num_rows, step or 1):
                values = view_values([live.slice(start, step)], columns, checkpoint.wall_clock_ms)
                arrays = [pa.array(values[field.name], field.type) for field in self._schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _live(
        self, tables: Tables, checkpoint: Checkpoint, groups: range, states: Sequence[str]
    ) -> Iterator[pa.Table]:
        point, uids = tables.ledger.restore_point(checkpoint), frozenset([self._operator])
        wanted = None if self._keys is None else OfKeys(groups.start, sorted(self._keys))
        pieces = group_by_state(read_parts(point, groups, uids, tables.ledger, wanted=wanted))
        for state in states:
            if own := pieces.get((self._operator, state)):
                yield fold_state(own)


class PushingStateReader(StateReader):
    """As StateReader, where the session pushes filters: those on keys choose key groups."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # Spark's name
        """Take what filters say of the key. Spark looks at the rows again: nothing is left to this alone."""
        tables = self._tables()
        operator = described_operator(tables.lineage.checkpoint(self._number), self._operator)
        for each in filters:
            texts = key_texts(each, operator)
            if texts is not None:
                self._keys = texts if self._keys is None else self._keys & texts
        return filters


class StateDataSource(ColumnsSource):
    """``changelog_state``: a state, or the timers of an operator, at a checkpoint."""

    format = STATE
    reader_class = StateReader

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = checked_options(STATE, options, ("path", "operator", "state"), ("at",))
        self._path, self._operator, self._state = given["path"], given["operator"], given["state"]
        tables = Tables(self._path)
        checkpoint = tables.checkpoint(given.get("at"))
        self._checkpoint = checkpoint.id
        self._table = tables.table
        self.columns = StateColumns.of(*described_view(checkpoint, self._operator, self._state)).shown()

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the state."""
        self.check_schema(schema)
        return self.reader_class(
            self._path, self._table, self._checkpoint, self._operator, self._state, schema
        )


class PushingStateSource(StateDataSource):
    """As StateDataSource, where the session pushes filters."""

    reader_class = PushingStateReader
