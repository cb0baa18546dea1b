"""Open a job's changelog in a Spark session: its states as typed views, at any checkpoint, with all their changes.

Invariants:
    * It only reads the job's tables, so it works beside the job that runs.
    * State at a checkpoint is the fold of that checkpoint's lineage; rows of other branches are never mixed in.
    * Nothing is unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.display import Displayed, Document, Grid
from changelog_engine.errors import ConfigurationError, RestoreError, TypeMismatchError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    keyed_operators,
)
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS, key_group
from changelog_engine.history import log_views
from changelog_engine.history.catalog import CHANGELOG_TABLE, SNAPSHOTS_TABLE, Catalog, Frames
from changelog_engine.history.changes_sql import history_sql
from changelog_engine.history.fold_sql import difference_sql, state_sql
from changelog_engine.history.names import literal
from changelog_engine.history.rows_sql import Times, rows_sql
from changelog_engine.history.state_columns import StateColumns
from changelog_engine.history.tables import Selection, Tables, When
from changelog_engine.history.views import is_many, state_views
from changelog_engine.ledger.described import described_operator, described_state
from changelog_engine.ledger.read_again import read_again

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANY_KEY: Any = object()
_Described = tuple[DescribedOperator, DescribedState | None]  # None: its timers


class History(Displayed):
    """A job's changelog in a Spark session. Made by ``open``.

    The database holds ``mutations``, ``checkpoints``, ``snapshots``, ``lineage`` and ``states``, and for each state
    ``<operator>_<state>`` and ``<operator>_<state>_history``; ``<operator>_timers`` and ``<operator>_timers_history`` for
    each operator with keys. They show the job at one moment; ``refresh`` moves on.

    Attributes:
        database: its name in the session.
        checkpoint_id: the checkpoint that the views show.
        states: the views of each state.
        timers: the views of each operator's timers.
    """

    def __init__(self, spark: SparkSession, path: str, at: When) -> None:
        self._spark = spark
        self._path = path
        self._catalog = Catalog(spark, Tables(path))
        self.database = self._catalog.database
        self._show(path, at)

    def display(self) -> Document:
        """What is shown of it in a notebook; ``repr`` is one line."""
        states = [
            (
                each.operator,
                each.state,
                each.kind,
                each.view,
                each.history_view,
                each.key_type,
                each.value_type,
            )
            for each in self.states
        ]
        timers = [(each.operator, each.view, each.history_view) for each in self.timers]
        columns = ("operator", "state", "kind", "view", "view of its changes", "key", "value")
        return Document(
            f"database {self.database}: checkpoint {self.checkpoint_id} of {self._path}",
            (),
            [Grid(columns, states), Grid(("timers of", "view", "view of what happened to them"), timers)],
        )

    def __repr__(self) -> str:
        return f"History(database={self.database!r}, checkpoint_id={self.checkpoint_id})"

    def refresh(self, at: When = None) -> int:
        """Let the views show the job as it is now.

        Args:
            at: a checkpoint's id on any branch, or a time; the newest checkpoint by default.

        Returns:
            The checkpoint that they show.

        Raises:
            RestoreError: there is no such checkpoint; the views stay as they were.
        """
        self._show(self._path, at)
        return self.checkpoint_id

    def close(self) -> None:
        """Drop the database. The job's files stay."""
        self._catalog.drop()

    def state(self, operator: str, state: str, at: When = None, *, key: Any = _ANY_KEY) -> DataFrame:
        """A state as of a checkpoint or time.

        Args:
            operator: uid of the operator.
            state: name of the state.
            at: a checkpoint's id on any branch, or a time (datetime or ISO text; without a zone: UTC), for the newest
                checkpoint then; default: the checkpoint that the views show.
            key: only this key, of its declared type; default: all. Files without its key group are not opened.

        Raises:
            RestoreError: no such checkpoint, operator or state; says what there is.
            CorruptChangelogError: parts that it needs are gone.
        """
        checkpoint = self._at(at)
        return self._state(checkpoint, described_state(checkpoint, operator, state), key)

    def changes(self, operator: str, state: str, at: When = None, *, key: Any = _ANY_KEY) -> DataFrame:
        """All changes of a state on the lineage of a checkpoint. Arguments are those of ``state``.

        Returns:
            The columns of the state's history view, one row a mutation.

        Raises:
            RestoreError, CorruptChangelogError: see ``state``.
        """
        checkpoint = self._at(at)
        return self._changes(checkpoint, described_state(checkpoint, operator, state), key)

    def timers_of(self, operator: str, at: When = None, *, key: Any = _ANY_KEY) -> DataFrame:
        """The timers of an operator as of a checkpoint or time. Arguments are those of ``state``.

        Returns:
            The columns of the operator's view of timers.

        Raises:
            RestoreError: no such checkpoint or operator with keys; says what there is.
            CorruptChangelogError: see ``state``.
        """
        checkpoint = self._at(at)
        return self._state(checkpoint, (described_operator(checkpoint, operator), None), key)

    def timer_changes(self, operator: str, at: When = None, *, key: Any = _ANY_KEY) -> DataFrame:
        """What happened to the timers of an operator, on the lineage of a checkpoint. Arguments are those of ``state``.

        Returns:
            The columns of the operator's history view of timers, one row a mutation.

        Raises:
            RestoreError, CorruptChangelogError: see ``timers_of``.
        """
        checkpoint = self._at(at)
        return self._changes(checkpoint, (described_operator(checkpoint, operator), None), key)

    def difference(self, operator: str, state: str, before: When, after: When = None) -> DataFrame:
        """What two points of a state do not share, also on different branches.

        Args:
            before: the one point, as ``at`` of ``state``.
            after: the other; default: the checkpoint that the views show.

        Returns:
            One row a key (and window, and map key) whose value differs: ``change`` (added, removed, changed) and
            both values.

        Raises:
            RestoreError: no such checkpoint, operator or state; or its declared types differ between the two.
            CorruptChangelogError: see ``state``.
        """
        first, second = self._at(before), self._at(after)
        described = [described_state(point, operator, state) for point in (first, second)]
        shapes = [StateColumns.of(*each) for each in described]
        names = [
            [shape.kind, *(t.name for t in (shape.key, shape.map_key, shape.window, shape.value) if t)]
            for shape in shapes
        ]
        if names[0] != names[1]:
            raise RestoreError(
                f"state {state!r} of operator {operator!r} was declared {' '.join(names[0])} at checkpoint {first.id} and "
                f"{' '.join(names[1])} at checkpoint {second.id}: compare what state() gives for each"
            )
        with Frames(self._spark) as frames:
            queries = [
                self._state_query(frames, point, each, _ANY_KEY, fingerprint=True)
                for point, each in zip((first, second), described, strict=True)
            ]
            return self._spark.sql(difference_sql(shapes[1], *queries))

    def key(self, key: Any, at: When = None) -> DataFrame:
        """All changes of one key, in all states and timers of all operators whose keys can be this one.

        Args:
            key: the key, as the program's key selector gave it.

        Returns:
            One row a mutation: operator, state, kind (``timer`` for timers), the JSON texts of key, window, map key and
            of the value before and after, and when it was valid. In the order of checkpoints; of one checkpoint, those of
            each state in the order in which they were made.

        Raises:
            ConfigurationError: no operator has keys of its type.
            RestoreError, CorruptChangelogError: see ``state``.
        """
        checkpoint = self._at(at)
        times = self._times(checkpoint)
        queries: list[str] = []
        with Frames(self._spark) as frames:
            for operator, groups, where in self._holders(checkpoint, key):
                selection = self._tables.history(checkpoint, operator.uid, groups)
                rows = self._frame_rows(frames, selection)
                queries += [
                    f"({history_sql(StateColumns.of(operator, state), rows, times, where, texts_only=True)})"
                    for state in (*operator.states, None)
                ]
            order = "valid_from_checkpoint, operator, sequence"
            return self._spark.sql(f"SELECT * FROM ({' UNION ALL '.join(queries)}) ORDER BY {order}")

    def files_of_key(self, key: Any, at: When = None) -> list[str]:
        """The parts that ``key`` opens: those that may hold its key group, by the table's list of files."""
        checkpoint = self._at(at)
        found: dict[str, None] = {}
        for operator, groups, _ in self._holders(checkpoint, key):
            selection = self._tables.history(checkpoint, operator.uid, groups)
            found.update(dict.fromkeys((*selection.base, *selection.log)))
        return list(found)

    def _at(self, at: When) -> Checkpoint:
        return self._tables.checkpoint(self.checkpoint_id if at is None else at)

    def _times(self, checkpoint: Checkpoint) -> Times:
        return Times(*self._tables.times(checkpoint))

    def _holders(self, checkpoint: Checkpoint, key: Any) -> list[tuple[DescribedOperator, range, str]]:
        """Operators with state whose keys can be this one, with its key group and the condition on rows."""
        found, faults = [], []
        for operator in keyed_operators(checkpoint.operators):
            try:
                found.append((operator, *_key_filter(operator, key)))
            except TypeMismatchError as error:
                faults.append(f"{operator.uid!r}: {error}")
        if not found:
            raise ConfigurationError(
                f"History.key(key): no operator with state has such keys ({'; '.join(faults) or 'none has state'})"
            )
        return found

    def _state_query(
        self,
        frames: Frames,
        checkpoint: Checkpoint,
        described: _Described,
        key: Any,
        fingerprint: bool = False,
    ) -> str:
        groups, where = _key_filter(described[0], key)
        selection = self._tables.state(checkpoint, described[0].uid, groups)
        rows = self._frame_rows(frames, selection)
        many = key is _ANY_KEY and is_many(selection, checkpoint)
        return state_sql(
            StateColumns.of(*described), rows, checkpoint.wall_clock_ms, where, fingerprint, many
        )

    def _state(self, checkpoint: Checkpoint, described: _Described, key: Any) -> DataFrame:
        with Frames(self._spark) as frames:
            return self._spark.sql(self._state_query(frames, checkpoint, described, key))

    def _changes(self, checkpoint: Checkpoint, described: _Described, key: Any) -> DataFrame:
        groups, where = _key_filter(described[0], key)
        selection = self._tables.history(checkpoint, described[0].uid, groups)
        with Frames(self._spark) as frames:
            rows = self._frame_rows(frames, selection)
            return self._spark.sql(
                history_sql(StateColumns.of(*described), rows, self._times(checkpoint), where)
            )

    def _frame_rows(self, frames: Frames, selection: Selection) -> str:
        folder = self._tables.folder
        base = frames.rows_of(folder.snapshots, selection.base) if selection.base else None
        log = frames.rows_of(folder.changelog, selection.log)
        return rows_sql(base, log, selection.snapshot, selection.lineage)

    def _view_rows(self, selection: Selection) -> str:
        base = self._catalog.rows_of(SNAPSHOTS_TABLE, selection.base) if selection.base else None
        log = self._catalog.rows_of(CHANGELOG_TABLE, selection.log)
        return rows_sql(base, log, selection.snapshot, selection.lineage)

    def _show(self, path: str, at: When) -> None:
        def show(path: str) -> None:
            tables = Tables(path)
            checkpoint = tables.checkpoint(at)
            self._tables = tables
            self._register(checkpoint)

        read_again(show)(path)

    def _register(self, checkpoint: Checkpoint) -> None:
        """Make the views. All that can fail comes first: what there was stays as it was then."""
        catalog, tables = self._catalog, self._tables
        states, timers, queries = state_views(tables, checkpoint, self._times(checkpoint), self._view_rows)
        queries |= log_views.queries(
            catalog, tables, checkpoint, [vars(views) for views in (*states, *timers)]
        )
        catalog.begin(tables)
        for view, query in queries.items():
            catalog.view(view, query)
        catalog.keep_views(queries)
        tables.refuse_gone()  # Spark listed the folders just now, and would leave out what it did not find
        self.checkpoint_id = checkpoint.id
        self.states, self.timers = tuple(states), tuple(timers)


def open(spark: SparkSession, path: str, at: When = None) -> History:
    """Show a job's changelog as a database of views in a Spark session.

    It needs nothing of the session but Spark itself, and changes neither its current database nor its settings.

    Args:
        spark: a running session.
        path: the job's folder, ``<base path>/<job>``, or the changelog folder in it.
        at: a checkpoint's id on any branch, or a time (datetime or ISO text; without a zone: UTC) for the newest checkpoint
            then; default: the newest checkpoint.

    Returns:
        The database's name, the states' views, and functions for other points in time.

    Raises:
        StorageError: there is no changelog.
        ForeignPathError: it is a Delta table of somebody else.
        FormatVersionError: a newer engine wrote it.
        RestoreError: there is no such checkpoint.
        CorruptChangelogError: parts that the state needs are gone.

    Example:
        >>> history = open(spark, "changelog-data/visits")  # doctest: +SKIP
        >>> spark.sql("SELECT key, value FROM visits.visit_clicks").show()  # doctest: +SKIP
    """
    return History(spark, path, at)


def _key_filter(operator: DescribedOperator, key: Any) -> tuple[range, str]:
    """The key groups and the condition on rows of one key of an operator.

    Raises:
        TypeMismatchError: the operator's keys are of another type.
    """
    if key is _ANY_KEY:
        return ALL_KEY_GROUPS, "true"
    codec = key_codec_for(key_type_of(operator))
    identity = codec.identity(key)
    group = key_group(identity, operator.max_parallelism)
    return range(group, group + 1), f"key_group = {group} AND key = {literal(codec.text(identity))}"
