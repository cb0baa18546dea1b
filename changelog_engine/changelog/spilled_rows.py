"""Restored rows that wait on the local disk instead of in memory, for state that is larger than memory.

They are written to files and mapped: what is read of them lies in the system's cache of files, which gives way when memory
is needed. The files are removed at once; the kernel keeps their bytes as long as they are mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow as pa

from changelog_engine.changelog.fold import RowsByState, by_state
from changelog_engine.errors import ChangelogEngineError, StorageError
from changelog_engine.graph.nodes import StateId
from changelog_engine.state.local_folder import LocalFolder

_CHUNK_ROWS = 131_072  # a chunk is decoded at once


def spilled(tables: Iterable[pa.Table], folder: LocalFolder) -> RowsByState:
    """Rows by state, as ``group_by_state`` gives them, out of memory.

    Args:
        tables: rows in log order, all with one schema.
        folder: for the files; it is removed.

    Raises:
        StorageError: the disk is full or cannot be written.
    """
    writers: dict[StateId, pa.RecordBatchStreamWriter] = {}
    try:
        try:
            for table in tables:
                for name, part in by_state(table):
                    if name not in writers:
                        path = os.path.join(folder.path, str(len(writers)))
                        writers[name] = pa.ipc.new_stream(path, part.schema)
                    writers[name].write_table(part, _CHUNK_ROWS)
        finally:
            for writer in writers.values():
                writer.close()
        return {name: _mapped(os.path.join(folder.path, str(number))) for number, name in enumerate(writers)}
    except ChangelogEngineError:
        raise  # of reading the rows
    except OSError as error:
        raise StorageError(f"restored rows cannot be kept in {folder.path}: {error}") from error
    finally:
        folder.remove()


def _mapped(path: str) -> list[pa.Table]:
    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as reader:
        return [pa.Table.from_batches([batch]) for batch in reader]
