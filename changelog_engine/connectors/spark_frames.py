"""DataFrames of Spark as sources, by way of staged Parquet files that can be read again exactly.

A DataFrame may give its rows in another order, or other rows, each time it is computed. So Spark computes it once, into
files that belong to the stream: a batch DataFrame into one version, a streaming DataFrame into one version a micro-batch.
The job reads the files by ranges, and so do its restores.

    <staging>/<32 hex digits>/part-....parquet   what one write of a version gave
    <staging>/<8 digits of the version>          names the folder with its rows, then its files, one a line
    <staging>/_query/      the streaming query's own checkpoint
    <staging>/_ended       of a query that ends: the number of versions

Invariants:
    * A version is there when its file is, and does not change any more: what was written is published last, and at once.
    * A micro-batch that Spark runs again finds its version there, and leaves it. A write that Spark has given up may still
      go on: each has a folder of its own, and the first to be published counts.

This module gets DataFrames handed and calls their methods; it imports nothing of PySpark.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from changelog_engine.clock import monotonic_s
from changelog_engine.config import ConfigLayers, absolute_path
from changelog_engine.connectors.delta.reader import Columns, File, VersionsReader, splits_of
from changelog_engine.connectors.delta.tables import schema_of_json
from changelog_engine.connectors.delta.types import row_type_of
from changelog_engine.connectors.protocols import DiscoveringSource, Position, Source, Split, SplitReader
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, ConnectorError, StorageError
from changelog_engine.storage.delta_commits import TableFile
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage

_ENDED = "_ended"
_FOLDER = "spark-staging"  # in the base path, for DataFrames without a folder of their own
_DISCOVERY_MS = 1_000
_LEASE_S = 300.0
# In the plan of a DataFrame that loses what it gave.
_NO_REPLAY = re.compile(r"format: socket,|TextSocketSource")


@dataclass
class StagedVersions:
    """The versions in a staging folder."""

    root: str
    only: bool  # there is one version; else versions come until ``_ended`` says how many there are

    def begun(self, position: Position) -> StagedVersions:
        return self

    def files(self, version: int) -> Sequence[File] | None:
        if self.ended(version):
            return None
        storage = open_storage(self.root)
        try:
            folder, *names = storage.read(name_of(version)).to_pybytes().decode().split("\n")
        except FileNotFoundError:
            return None
        if not names:  # of an earlier version of the engine
            names = _files_in(storage, folder)
        return [TableFile(f"{folder}/{name}", {}) for name in names if name]

    def stage(self, dataframe: Any, version: int) -> None:
        """Let Spark write the rows of a version, unless it is there."""
        storage = open_storage(self.root)
        if storage.exists(name_of(version)):
            return
        folder = uuid.uuid4().hex
        try:
            dataframe.write.parquet(f"{self.root}/{folder}")
        except BaseException:
            with contextlib.suppress(StorageError):  # what stays behind is never read
                storage.delete_tree(folder)
            raise
        # Where publishing fails the folder stays: its name may have been written all the same.
        if not _published(storage, version, folder):
            storage.delete_tree(folder)

    def ended(self, version: int) -> bool:
        if self.only:
            return version > 0
        try:
            return version >= int(open_storage(self.root).read(_ENDED).to_pybytes())
        except FileNotFoundError:
            return False


class DataFrameSource(Source):
    """Rows of a batch DataFrame.

    Args:
        staging: folder or URI for its rows, which all workers reach; None for one in the job's base path.

    Raises:
        ConfigurationError: no batch DataFrame.
        NotSupportedError: a column that rows cannot hold.
    """

    bounded = True
    parallel = True

    def __init__(self, dataframe: Any, staging: str | None = None) -> None:
        self.dataframe = dataframe
        self.staging = None if staging is None else absolute_path(staging)
        self.columns = _columns_of(dataframe)
        self.output_type = self.columns.row_type
        self._staged: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "dataframe": None}  # it stays in the driver

    def with_options(self, options: Mapping[str, str]) -> Self:
        """A source like this one whose folder lies in the configuration's base path, unless it was given."""
        if self.staging is not None:
            return self
        base = absolute_path(ConfigLayers(code=options).base_path())
        return type(self)(self.dataframe, f"{base}/{_FOLDER}")

    def splits(self, parallelism: int) -> list[Split]:
        """Compute the rows, once, and share out the files. Split ids name the folder: a restore finds it again."""
        if self._staged is None:
            name = uuid.uuid4().hex
            folder = f"{self.staging}/{name}"
            try:
                StagedVersions(folder, only=True).stage(self.dataframe, 0)
            except Exception as error:
                raise ConnectorError(f"Spark could not stage the DataFrame in {folder}: {error}") from error
            self._staged = name
        return [Split(f"{self._staged}: {split.id}", split.start) for split in splits_of(parallelism, 0)]

    def reader(self, split: Split) -> SplitReader:
        name, _, part = split.id.partition(": ")
        return VersionsReader(StagedVersions(f"{self.staging}/{name}", only=True), self.columns, part)


class StreamingDataFrameSource(DiscoveringSource):
    """Rows of a streaming DataFrame, of whatever source Spark has, a Python Data Source too.

    Args:
        staging: folder or URI of the stream, which all workers reach. It is the stream's memory: a job that starts from
            nothing reads it from its beginning.
        available_now: end when all is read that was there at the start.

    Raises:
        ConfigurationError: no streaming DataFrame, or one of a source that cannot give its rows again.
        NotSupportedError: a column that rows cannot hold.
    """

    parallel = True
    discovery_interval_ms = _DISCOVERY_MS

    def __init__(self, dataframe: Any, staging: str, available_now: bool = False) -> None:
        if _NO_REPLAY.search(str(dataframe._jdf.queryExecution().logical())):
            raise ConfigurationError(
                "a DataFrame that reads a socket cannot be read again after a failure; have what it gives written to files, "
                "a table or a topic first"
            )
        self.dataframe = dataframe
        self.staging = absolute_path(staging)
        self.bounded = self.available_now = available_now
        self.columns = _columns_of(dataframe)
        self.output_type = self.columns.row_type
        self.versions = StagedVersions(self.staging, only=False)
        self._query: Any = None
        self._asked = 0.0
        self._lapsed = threading.Event()
        self._writing = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        in_driver = ("dataframe", "_query", "_lapsed", "_writing")
        return {**self.__dict__, **dict.fromkeys(in_driver)}

    def splits(self, parallelism: int) -> list[Split]:
        """Let Spark stage what there is, and share out the files."""
        storage = open_storage(self.staging)
        storage.make_dirs()
        storage.delete(_ENDED)
        self._run_query()
        return splits_of(parallelism, 0)

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """Keep Spark staging; there are no new splits."""
        if not open_storage(self.staging).exists(_ENDED):
            self._run_query()
        return []

    def reader(self, split: Split) -> SplitReader:
        return VersionsReader(self.versions, self.columns, split.id)

    def _run_query(self) -> None:
        self._asked = monotonic_s()
        query = self._query
        if query is not None and query.isActive:
            return
        if query is not None:
            failure = query.exception()
            self._query = None
            if failure is not None and not self._lapsed.is_set():
                raise ConnectorError(f"Spark's query of the streaming DataFrame failed: {failure}")
            if failure is None and self.available_now and _read_all(query):
                self._end()
                return
            # Somebody else has stopped it: it goes on.
        self._lapsed.clear()
        writer = self.dataframe.writeStream.foreachBatch(self._stage)
        writer = writer.option("checkpointLocation", f"{self.staging}/_query")
        if self.available_now:
            writer = writer.trigger(availableNow=True)
        self._query = writer.start()

    def _stage(self, batch: Any, number: int) -> None:
        """Called by Spark for each micro-batch, again if it does not know that it was."""
        with self._writing:
            if monotonic_s() - self._asked > _LEASE_S:
                self._lapsed.set()
                raise ConnectorError("the job that read this stream has ended")
            self.versions.stage(batch, number)

    def _end(self) -> None:
        storage = open_storage(self.staging)
        count = 0
        while storage.exists(name_of(count)):
            count += 1
        storage.write_durable(_ENDED, str(count).encode())

    def job_ended(self) -> None:
        """Stop the query, and wait for a write that it leaves behind; started again it goes on from its checkpoint."""
        query, self._query = self._query, None
        if query is not None:
            with contextlib.suppress(Exception):
                query.stop()
        with self._writing:
            self._asked = -math.inf


def dataframe_source(
    dataframe: Any, staging: str | None, available_now: bool
) -> DataFrameSource | StreamingDataFrameSource:
    """A source of a DataFrame of either kind.

    Raises:
        ConfigurationError: no DataFrame, or a streaming one without a folder.
    """
    streaming = getattr(dataframe, "isStreaming", None)
    if streaming is None or not hasattr(dataframe, "schema"):
        raise ArgumentTypeError(f"from_spark needs a DataFrame of PySpark, got {dataframe!r}")
    if not streaming:
        if available_now:
            raise ConfigurationError(
                "from_spark: available_now is for streaming DataFrames, and this is none"
            )
        return DataFrameSource(dataframe, staging)
    if staging is None:
        raise ConfigurationError(
            "from_spark: a streaming DataFrame needs staging=, a folder of its own that stays the same from run to run: "
            "what Spark has read is kept there, so that it can be read again"
        )
    return StreamingDataFrameSource(dataframe, staging, available_now)


def name_of(version: int) -> str:
    """The name of the file that says where a version's rows are."""
    return f"{version:08d}"


def _published(storage: Storage, version: int, folder: str) -> bool:
    """Say where a version's rows are; whether nobody had said it before."""
    for entry in storage.list(folder):
        storage.sync(f"{folder}/{entry.name}")  # Spark leaves it to the kernel when its files reach a disk
    storage.sync(folder)
    told = "\n".join([folder, *_files_in(storage, folder), ""])
    return storage.put_if_absent(name_of(version), told.encode())


def _files_in(storage: Storage, folder: str) -> list[str]:
    names = sorted(entry.name for entry in storage.list(folder))
    return [name for name in names if not name.startswith((".", "_"))]


def _read_all(query: Any) -> bool:
    """Whether a query has ended because there was nothing left to read; one that was stopped looks the same to PySpark."""
    return bool(query._jsq.streamingQuery().noNewData())


def _columns_of(dataframe: Any) -> Columns:
    names = dataframe.schema.names
    if len(set(names)) != len(names) or not names:
        raise ConfigurationError(
            f"from_spark needs a DataFrame in which no two columns have the same name, got {names}"
        )
    schema = schema_of_json(dataframe.schema.json())
    return Columns(row_type_of(schema), schema, ())
