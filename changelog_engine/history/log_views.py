"""The views about the log itself: mutations, checkpoints, snapshots, lineage and states."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.rows import CHECKPOINT
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.history.catalog import CHANGELOG_TABLE, Catalog, inline_rows
from changelog_engine.history.pickles import pickled_type
from changelog_engine.history.rows_sql import on_lineage_sql
from changelog_engine.history.sql_types import time_of
from changelog_engine.history.tables import Tables
from changelog_engine.history.views import StateViews

_DOCUMENT = (
    "id BIGINT, attempt INT, parent BIGINT, time_ms BIGINT, duration_ms BIGINT, parts BIGINT, rows BIGINT, bytes BIGINT, "
    "snapshot BIGINT, sources STRING, finished BOOLEAN, stopped BOOLEAN"
)
_POSITION = (
    "named_struct('position', get(from_json(p, 'array<string>'), 0), "
    "'finished', try_cast(get(from_json(p, 'array<string>'), 1) AS BOOLEAN))"
)
_SOURCES = (
    f"transform_values(from_json(d.sources, 'map<string,map<string,string>>'), "
    f"(u, splits) -> transform_values(splits, (s, p) -> {_POSITION}))"
)


def queries(
    catalog: Catalog, tables: Tables, checkpoint: Checkpoint, states: Iterable[dict[str, Any]]
) -> dict[str, str]:
    """View -> its query.

    Args:
        tables: the job's tables.
        checkpoint: the one that the views show; rows of its lineage are marked.
    """
    named = ", ".join(f"{each.name} STRING" for each in fields(StateViews))
    return {
        "mutations": _mutations(catalog, tables, checkpoint),
        "checkpoints": _checkpoints(catalog, tables, checkpoint),
        "snapshots": _snapshots(tables, checkpoint),
        "lineage": _lineage(tables, checkpoint),
        "states": inline_rows(list(states), named),
    }


def _mutations(catalog: Catalog, tables: Tables, checkpoint: Checkpoint) -> str:
    rows = catalog.rows_of(CHANGELOG_TABLE, tables.log_files())
    return (
        "SELECT checkpoint_id, attempt, sequence, operator, state, key_group, key, namespace, map_key, operation, value, "
        f"{pickled_type('payload')} AS pickled_type, length(payload) AS pickled_bytes, event_time, "
        f"{on_lineage_sql(checkpoint.lineage, 'checkpoint_id')} AS on_lineage FROM ({rows}) WHERE sequence IS NOT NULL"
    )


def _checkpoints(catalog: Catalog, tables: Tables, checkpoint: Checkpoint) -> str:
    rows = catalog.rows_of(CHANGELOG_TABLE, tables.row_files())
    documents = f"SELECT from_json(value, '{_DOCUMENT}') AS d FROM ({rows}) WHERE operation = '{CHECKPOINT}'"
    return (
        f"SELECT *, {on_lineage_sql(checkpoint.lineage, 'id')} AS on_lineage FROM (SELECT d.id, d.attempt, d.parent, "
        f"{time_of('d.time_ms')} AS time, d.duration_ms, d.parts, d.rows, d.bytes, d.snapshot, {_SOURCES} AS sources, "
        f"d.finished, d.stopped FROM ({documents}))"
    )


def _snapshots(tables: Tables, checkpoint: Checkpoint) -> str:
    rows = []
    for number, attempt, time_ms, text in tables.snapshot_rows():
        document = json.loads(text)
        shown = {name: document.get(name) for name in ("parts", "rows", "bytes")}
        there = on_lineage(checkpoint.lineage, attempt, number)
        rows.append(
            {"checkpoint_id": number, "attempt": attempt, "ms": time_ms, **shown, "on_lineage": there}
        )
    types = "checkpoint_id BIGINT, attempt INT, ms BIGINT, parts BIGINT, rows BIGINT, bytes BIGINT, on_lineage BOOLEAN"
    return (
        f"SELECT checkpoint_id, attempt, {time_of('ms')} AS time, parts, rows, bytes, on_lineage "
        f"FROM ({inline_rows(rows, types)})"
    )


def _lineage(tables: Tables, checkpoint: Checkpoint) -> str:
    """One row an attempt: where it starts, what it made, and what of it the lineage has."""
    made: dict[int, list[int]] = {}
    index = tables.lineage.checkpoints.index()
    for number, by in zip(index.ids.tolist(), index.attempts.tolist(), strict=True):
        made.setdefault(by, []).append(number)
    runs = {run.attempt: run for run in checkpoint.lineage}
    rows = []
    for attempt in tables.attempts():
        ids, run = made.get(attempt.id, []), runs.get(attempt.id)
        rows.append(
            {
                "attempt": attempt.id,
                "parent": attempt.parent,
                "first_checkpoint": min(ids, default=None),
                "last_checkpoint": max(ids, default=None),
                "lineage_first": None if run is None else run.first,
                "lineage_last": None if run is None else run.last,
                "ms": attempt.time_ms,
                "host": attempt.host,
                "pid": attempt.pid,
                "engine": attempt.engine,
            }
        )
    types = (
        "attempt INT, parent BIGINT, first_checkpoint BIGINT, last_checkpoint BIGINT, lineage_first BIGINT, "
        "lineage_last BIGINT, ms BIGINT, host STRING, pid BIGINT, engine STRING"
    )
    return (
        "SELECT attempt, parent, first_checkpoint, last_checkpoint, lineage_first, lineage_last, "
        f"{time_of('ms')} AS started, host, pid, engine FROM ({inline_rows(rows, types)})"
    )
