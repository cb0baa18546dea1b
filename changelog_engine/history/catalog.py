"""The database in a Spark session: two tables over the job's folders, and views upon them.

Invariants:
    * A database that was not made for the same job is left alone; another name is taken.
    * The tables are external: dropping them, and the database, leaves the job's files where they are.
    * Views read files that the Delta log lists, and no others; the file names are part of the view. Where one is gone, a
      query of the view is an error, in whatever session.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from changelog_engine.history.names import digest, literal, quoted, sql_name
from changelog_engine.history.rows_sql import COLUMN_NAMES, COLUMNS
from changelog_engine.history.tables import Tables
from changelog_engine.storage.protocol import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGELOG_TABLE, SNAPSHOTS_TABLE = "__changelog", "__snapshots"
_OWNER = "changelog.path"
_TAKEN = ("default", "global_temp", "session", "system", "builtin", "information_schema")
_TYPED_NULLS = ", ".join(
    "CAST(NULL AS {1}) AS {0}".format(*column.split(" ")) for column in COLUMNS.split(", ")
)
_NOTHING = f"SELECT {_TYPED_NULLS} WHERE false"
# Whatever the session's settings are.
_ALL_OR_NONE = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
_GONE = (
    "files that this view names have been deleted since it was made (a truncation of the job's log): "
    "history.open(spark, path) makes it anew"
)


class Catalog:
    """A job's database in one session."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self.spark = spark
        self.database = _database(spark, tables)
        self._views: set[str] = set()
        self._locations: list[str] = []

    def begin(self, tables: Tables) -> None:
        """Make the database and the tables, or let the tables see the files that came since."""
        self._create_database(tables)
        folders = [(CHANGELOG_TABLE, tables.folder.changelog)]
        if tables.snapshots:
            folders.append((SNAPSHOTS_TABLE, tables.folder.snapshots))
        for name, folder in folders:
            full = f"{self.database}.{name}"
            if self.spark.catalog.tableExists(full):
                self.spark.catalog.refreshTable(full)
            else:
                schema = self.spark.sql(_NOTHING).schema
                self.spark.catalog.createTable(
                    full, path=_spark_path(folder), source="parquet", schema=schema, **_ALL_OR_NONE
                )

    def view(self, name: str, query: str) -> None:
        """Make a view, or replace it."""
        self.spark.sql(f"CREATE OR REPLACE VIEW {self.database}.{name} AS {query}")
        self._views.add(name)

    def keep_views(self, names: Iterable[str]) -> None:
        """Drop the views that this object made before and that are not among these."""
        for name in self._views - set(names):
            self.spark.sql(f"DROP VIEW IF EXISTS {self.database}.{name}")
            self._views.discard(name)

    def drop(self) -> None:
        """Drop the database and all that is in it; the job's files stay."""
        self.spark.sql(f"DROP DATABASE IF EXISTS {self.database} CASCADE")
        self._views.clear()
        for location in self._locations:
            shutil.rmtree(location, ignore_errors=True)

    def rows_of(self, table: str, files: Iterable[str]) -> str:
        """A query of the rows of some files of a table, for views."""
        named = [literal(file) for file in dict.fromkeys(files)]
        if not named:
            return _NOTHING
        columns = ", ".join(COLUMN_NAMES)
        # Spark lists the folder when the view is used, and leaves out what is gone: that is counted, a row of each file.
        rows = f"FROM {self.database}.{table} WHERE _metadata.file_name IN ({', '.join(named)})"
        whole = f"SELECT if(count(*) < {len(named)}, raise_error({literal(_GONE)}), true) {rows}"
        return f"SELECT {columns} {rows} AND ({whole} AND _metadata.row_index = 0)"

    def _create_database(self, tables: Tables) -> None:
        if self.spark.catalog.databaseExists(self.database):
            return
        location = ""
        if self.spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
            # Spark makes a folder for every database; this one stays empty, so not in the working directory.
            folder = tempfile.mkdtemp(prefix="changelog-history-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            self._locations.append(folder)
            location = f"LOCATION {_quoted_text('file:' + folder)} "
        self.spark.sql(
            f"CREATE DATABASE {self.database} {location}WITH DBPROPERTIES ('{_OWNER}' = '{_owner(tables)}')"
        )


class Frames:
    """Queries over files, without the catalog: each opens the files that it names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._names: list[str] = []

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *error: Any) -> None:
        for name in self._names:
            with suppress(Exception):
                self._spark.catalog.dropTempView(name)

    def rows_of(self, folder: Storage, files: Iterable[str]) -> str:
        """A query of the rows of some files of a folder; a DataFrame of it lives on when this object is closed."""
        paths = [_spark_path(folder, file) for file in files]
        if not paths:
            return _NOTHING
        name = f"changelog_history_{uuid.uuid4().hex}"
        self._spark.read.options(**_ALL_OR_NONE).schema(COLUMNS).parquet(*paths).createOrReplaceTempView(name)
        self._names.append(name)
        return f"SELECT {', '.join(COLUMN_NAMES)} FROM {name}"


def inline_rows(rows: list[dict[str, Any]], types: str) -> str:
    """A query of rows that are in its text.

    Args:
        rows: column -> value that JSON can hold.
        types: of the columns, as in DDL.
    """
    return f"SELECT inline(from_json({literal(json.dumps(rows))}, {literal(f'array<struct<{types}>>')}))"


def _database(spark: SparkSession, tables: Tables) -> str:
    """A name that is free, or that of the database which was made for this job before."""
    name = sql_name(tables.folder.slug)
    if name.lower() not in _TAKEN and _free_or_ours(spark, name, tables):
        return name
    return f"{name}_{digest(tables.folder.storage.root)}"


def _free_or_ours(spark: SparkSession, name: str, tables: Tables) -> bool:
    if not spark.catalog.databaseExists(name):
        return True
    described = spark.sql(f"DESCRIBE DATABASE EXTENDED {quoted(name)}").collect()
    return any(f"({_OWNER},{_owner(tables)})" in (row[1] or "") for row in described)


def _owner(tables: Tables) -> str:
    return digest(tables.folder.storage.root)


def _quoted_text(text: str) -> str:
    """A literal where SQL takes no expression."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _spark_path(folder: Storage, file: str = "") -> str:
    path = folder.place(file)
    return path if folder.local is None else f"file:{path}"
