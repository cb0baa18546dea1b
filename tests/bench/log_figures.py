"""Figures read out of the changelog table itself: each checkpoint row says when its barrier was and how long it took."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

LOG_COLUMNS = ["operation", "value"]


@dataclass(frozen=True)
class Log:
    """The checkpoints and attempts of one job, as the documents of their rows, in order."""

    checkpoints: list[dict[str, Any]]
    attempts: list[dict[str, Any]]

    @property
    def rows(self) -> int:
        """Mutations that the checkpoints made durable."""
        return sum(checkpoint["rows"] for checkpoint in self.checkpoints)

    def after(self, seconds: float) -> Log:
        """The checkpoints whose barriers came so long after the first one's."""
        first_ms = min((checkpoint["time_ms"] for checkpoint in self.checkpoints), default=0)
        since_ms = first_ms + 1000 * seconds
        return Log([each for each in self.checkpoints if each["time_ms"] >= since_ms], self.attempts)


def table_of(base: Path) -> Path | None:
    """The one changelog table under a base path; None before it is there."""
    found = sorted(base.glob("*/changelog/_delta_log"))
    return found[0].parent if found else None


def read_log(base: Path) -> Log:
    """Checkpoint and attempt rows of the one job under a base path; empty before there are any."""
    table = table_of(base)
    if table is None:
        return Log([], [])
    condition = pc.field("operation").isin(["checkpoint", "attempt"])
    rows = (
        DeltaTable(str(table))
        .to_pyarrow_dataset()
        .to_table(columns=LOG_COLUMNS, filter=condition)
        .to_pylist()
    )
    documents: dict[str, list[dict[str, Any]]] = {"checkpoint": [], "attempt": []}
    for row in rows:
        documents[row["operation"]].append(json.loads(row["value"]))
    return Log(
        *(sorted(documents[kind], key=lambda document: document["id"]) for kind in ("checkpoint", "attempt"))
    )


def checkpoints_on_disk(changelog: Path) -> Log:
    """All checkpoints whose files are there, those included that a truncation took out of the table."""
    rows = [
        pq.read_table(path, columns=["value"])["value"] for path in changelog.glob("checkpoint-*.parquet")
    ]
    checkpoints = [json.loads(value) for row in rows for value in row.to_pylist()]
    return Log(sorted(checkpoints, key=lambda checkpoint: checkpoint["id"]), [])


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    place = math.ceil(round(share * len(ordered), 6))  # 0.07 of 100 is the seventh, not the eighth
    return ordered[min(len(ordered), max(1, place)) - 1]


def steady_records_per_s(log: Log) -> float:
    """Median, over the checkpoints after the warm-up, of mutations a second (the count makes one for each record).

    Raises:
        ValueError: the run was too short for a rate.
    """
    rates = [
        1000 * after["rows"] / (after["time_ms"] - before["time_ms"])
        for before, after in pairwise(_behind_warm_up(log))
        if after["time_ms"] > before["time_ms"]
    ]
    return _median(rates, log)


def records_read_per_s(log: Log) -> float:
    """Median, over the checkpoints after the warm-up, of the numbers that a number sequence gave a second.

    Raises:
        ValueError: the run was too short for a rate.
    """
    rates = []
    for before, after in pairwise(_behind_warm_up(log)):
        earlier, later = _positions(before), _positions(after)
        read = sum(later[split] - earlier[split] for split in later.keys() & earlier.keys())
        if after["time_ms"] > before["time_ms"] and read:
            rates.append(1000 * read / (after["time_ms"] - before["time_ms"]))
    return _median(rates, log)


def _behind_warm_up(log: Log) -> list[dict[str, Any]]:
    """Without the first fifth, whose epochs are small on purpose, and the last; all, where two are not left."""
    checkpoints = log.checkpoints[len(log.checkpoints) // 5 : -1]
    return checkpoints if len(checkpoints) > 1 else log.checkpoints


def _median(rates: list[float], log: Log) -> float:
    if not rates:  # 0 would be taken for a measurement
        raise ValueError(
            f"a rate needs two checkpoints, and the run made {len(log.checkpoints)}: it needs more records"
        )
    return statistics.median(rates)


def _positions(checkpoint: dict[str, Any]) -> dict[str, int]:
    """Position of each split whose position is a number."""
    return {
        split: position
        for splits in checkpoint["sources"].values()
        for split, (position, _) in splits.items()
        if isinstance(position, int) and split != "collection"
    }


def acknowledgement_ms(log: Log) -> list[float]:
    """Barrier to the end of the commit of each checkpoint, the first one (start-up) left out.

    The row of the next one has it; the last one's is not known.
    """
    times = [checkpoint.get("parent_acknowledged_ms") for checkpoint in log.checkpoints[2:]]
    return [float(time_ms) for time_ms in times if time_ms is not None]


def epoch_ms(log: Log) -> list[float]:
    """Barrier to barrier, where every epoch ends with a checkpoint; the first tenth is warm-up."""
    times = [checkpoint["time_ms"] for checkpoint in log.checkpoints]
    times = times[max(1, len(times) // 10) : -1]
    return [float(after - before) for before, after in pairwise(times)]
