"""Reliability case 18, for ever: a job that runs for a simulated year, and the disk of one that keeps no history.

Time is simulated: a clock of the job's own, moved from epoch to epoch. What a start costs is counted in files, not measured.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow.parquet as pq
from support.disks import trusted
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import TestJob
from support.materialized import merging_few
from support.script import Script
from support.window_jobs import graph, spec

from api.common import Time
from api.common.typeinfo import Types
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.driver.journal import JobJournal
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.storage import delta_checkpoints, delta_log
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.verify import verify
from materializer import truncation
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

HOUR_S, DAY_S = 3_600, 86_400
WEEK = Retention(history_ms=7 * DAY_S * 1_000, retained=1, grace_ms=HOUR_S * 1_000)


class Clock:
    """Simulated seconds since 1970."""

    def __init__(self) -> None:
        self.seconds = 1_900_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def ms(self) -> int:
        """The same in milliseconds."""
        return int(self.seconds * 1_000)


class Counts(NamedTuple):
    """What must not grow."""

    listed: int  # files in the two tables
    on_disk: int
    delta_log: int  # files in the Delta logs
    opened: int  # files of rows and parts that a start opens
    looked_at: int  # listings of folders and files of the Delta logs that a start reads


def count(folder: JobFolder, base: Path) -> Counts:
    tables = (folder.changelog, folder.snapshots)
    listed = sum(table().files().num_rows for table in (folder.open_changelog, folder.open_snapshots))
    on_disk = sum(len([e for e in table.list() if not e.is_folder]) for table in tables)
    logs = sum(len(table.list("_delta_log")) for table in tables)
    return Counts(listed, on_disk, logs, *start_reads(str(base)))


def start_reads(base: str) -> tuple[int, int]:
    """Files that a driver and its subtasks open to start from the newest checkpoint; names in the Delta logs it looks at."""
    opened: list[str] = []
    looked: list[int] = []
    read, listing = LocalDisk.read, LocalDisk.list

    def noted_read(storage: Storage, path: str, size: int | None = None) -> Any:
        opened.append(path)
        return read(storage, path)

    def noted_list(storage: Storage, path: str = "") -> Any:
        found = listing(storage, path)
        looked.append(len(found))
        return found

    folder = find_job_folder(base, "job")
    with mock.patch.object(LocalDisk, "read", noted_read), mock.patch.object(LocalDisk, "list", noted_list):
        decision = decide_restore(Lineage(folder.open_changelog()), "latest")
        assert decision.checkpoint is not None
        state_at(folder.changelog.root, decision.checkpoint.id)
    return len([path for path in opened if path.endswith(".parquet")]), sum(looked)


class KeptJob(TestJob):
    """A job with a clock of its own that is materialized and truncated as time goes."""

    def __init__(
        self,
        base: Path,
        clock: Clock,
        steps_s: tuple[int, ...],
        every_s: int,
        retention: Retention,
        **more: Any,
    ) -> None:
        super().__init__(base, Script(sizes=(more.pop("size", 5),)), clock=clock.ms, **more)
        self.now = clock
        self.steps_s = steps_s
        self.every_s = every_s
        self.retention = retention
        self.materialized_at = clock()
        self.folder = find_job_folder(str(base), "job")
        self.look: Callable[[], None] = lambda: None

    def on_commit(self, checkpoint: Any) -> None:
        """See TestJob."""
        self.now.seconds += self.steps_s[checkpoint.id % len(self.steps_s)]
        self.look()
        if self.now() - self.materialized_at >= self.every_s:
            self.materialized_at = self.now()
            truncation.sweep_expired(self.folder, self.retention, self.now)
            materialize(self.folder)
            self.look()
            truncate(self.folder, self.retention, self.now)
            self.look()


def run_simulated(job: KeptJob, elements: list[Any]) -> None:
    """Run to the end; checkpoints have the time of the job's clock. The disk is trusted: nothing is killed here."""
    inner = JobJournal.commit

    def commit(journal: JobJournal, checkpoint: Any, parts: Any) -> None:
        inner(journal, replace(checkpoint, time_ms=job.now.ms()), parts)

    with (
        mock.patch.object(JobJournal, "commit", commit),
        mock.patch.object(truncation, "_PAUSE_S", 0),
        mock.patch.object(delta_checkpoints, "KEPT_S", 0),
        mock.patch.object(
            delta_log.DeltaLog, "maintain", partialmethod(delta_log.DeltaLog.maintain, every=20)
        ),
        trusted(job.settings.base_path),
    ):
        job.run(keyed_job(elements, Count(), key_type=Types.LONG()))


def test_a_simulated_year_is_bounded(tmp_path: Path) -> None:
    """Reliability case 18: days of checkpoints and days of quiet, a week of history. Counts stay what they were."""
    clock, weeks, a_week = Clock(), 52, 6
    steps = (4 * HOUR_S,) * (a_week - 1) + (7 * DAY_S - (a_week - 1) * 4 * HOUR_S,)
    job = KeptJob(tmp_path, clock, steps, 12 * HOUR_S, WEEK)
    began = clock()
    counts: dict[int, list[Counts]] = {quarter: [] for quarter in range(4)}

    def look() -> None:
        week = int((clock() - began) / (7 * DAY_S))
        if week % 13 >= 11:  # the last two weeks of each quarter
            counts[week // 13].append(count(job.folder, tmp_path))

    job.look = look
    elements = [(number % 7, number) for number in range(5 * a_week * weeks)]
    with merging_few(4):
        run_simulated(job, elements)
    most = {quarter: Counts(*map(max, zip(*seen, strict=True))) for quarter, seen in counts.items()}
    print(most)
    # A week has six checkpoints and two snapshots, and a bit more than a week of them is there.
    for found in most.values():
        assert found.listed <= 40
        assert found.on_disk <= 50
        assert found.delta_log <= 2 * (2 * 20 + 6)  # commits, Delta checkpoints and their checksums
        assert found.opened <= 12
        assert found.looked_at <= 440  # nine listings of logs of up to 46 files
    assert most[3].listed <= most[0].listed + 4
    assert most[3].on_disk <= most[0].on_disk + 4
    assert most[3].opened <= most[0].opened + 2
    there = sorted(Lineage(job.folder.open_changelog()).checkpoints)
    assert there[-1] == len(job.commits)
    assert len(there) <= 3 * a_week
    found = verify(job.folder)
    assert found.faults == []
    assert found.lost == []
    assert found.restorable == there
    assert state_at(job.table()).states["process", "count"] == dict(
        collections.Counter(key for key, _ in elements)
    )


def test_the_disk_of_a_job_without_history_is_bounded(tmp_path: Path) -> None:
    """20 minutes of load with a materialization every 30 s: never more than two snapshots and the log of two intervals.

    Everything on the disk counts, the files that wait for the end of their grace time included. Beside these there are the
    rows of the attempt and of the snapshots' checkpoints.
    """
    clock, every_s, keys, epoch, a_few_rows = Clock(), 30, 1_000, 1_500, 3 * 4_096
    checkpoints = (
        80  # four times as many as the Delta log keeps commits, and twenty times what may be on the disk
    )
    began = clock()
    at_once = Retention(history_ms=0, retained=1, grace_ms=every_s * 1_000 // 2)
    job = KeptJob(tmp_path, clock, (every_s // 2,), every_s, at_once, size=epoch)
    written: list[tuple[float, int]] = []
    full = [0]
    known: set[str] = set()
    looks = [0]

    def look() -> None:
        looks[0] += 1
        log, kept = (
            {e.name: e.size for e in table.list() if e.name.endswith(".parquet")}
            for table in (job.folder.changelog, job.folder.snapshots)
        )
        written.append((clock(), sum(log[name] for name in log.keys() - known)))
        known.update(log)
        sizes: dict[str, int] = collections.Counter()
        for name, size in kept.items():
            sizes[name.split("-")[1]] += size
        full[0] = max(full[0], *sizes.values()) if sizes else full[0]
        of_two_intervals = sum(size for at, size in written if at > clock() - 2 * every_s)
        at_most = 2 * full[0] + of_two_intervals + a_few_rows
        assert sum(log.values()) + sum(kept.values()) <= at_most, clock() - began

    job.look = look
    elements = [(number * 7 % keys, number) for number in range(checkpoints * epoch)]
    run_simulated(job, elements)
    assert looks[0] > 150
    assert full[0] > 1_000
    assert complete_snapshots(job.folder).keys() == {max(complete_snapshots(job.folder))}
    assert state_at(job.table()).states["process", "count"] == dict.fromkeys(
        range(keys), checkpoints * epoch // keys
    )


def test_a_mutation_takes_at_most_12_bytes(tmp_path: Path) -> None:
    """LONG keys and LONG counters; checkpoints' rows and the Delta log count, too."""
    job = TestJob(tmp_path, Script(sizes=(50_000,)))
    elements = [(number * 7919 % 20_000, number) for number in range(200_000)]
    job.run(keyed_job(elements, Count(), key_type=Types.LONG()))
    on_disk = sum(path.stat().st_size for path in (tmp_path / "job").rglob("*") if path.is_file())
    assert sum(checkpoint.rows for checkpoint in job.commits) == len(elements)
    assert on_disk / len(elements) <= 12


def test_what_a_window_purged_never_reaches_a_snapshot(tmp_path: Path) -> None:
    """Each epoch ends one window of ten keys and begins another: a snapshot holds what is open, whatever went through."""
    epochs = 12
    elements = [(number % 10, number * 10, "x") for number in range(100 * epochs)]
    at_once = Retention(history_ms=0, retained=1, grace_ms=0)
    job = KeptJob(tmp_path, Clock(), (1,), 1, at_once, size=100)
    open_windows: list[set[str]] = []
    rows: list[int] = []

    def look() -> None:
        for path in Path(job.folder.snapshots.root).glob("part-*.parquet"):
            if int(path.name.split("-")[1]) == len(job.commits):
                table = pq.read_table(path)
                open_windows.append(set(filter(None, table["namespace"].to_pylist())))
                rows.append(table.num_rows)

    job.look = look
    with mock.patch.object(truncation, "_PAUSE_S", 0), trusted(tmp_path):
        job.run(
            graph(
                elements, spec(TumblingEventTimeWindows.of(Time.milliseconds(1_000))), key_type=Types.LONG()
            )
        )
    assert len(job.output) == 10 * epochs
    assert len(open_windows) > epochs
    assert {len(windows) for windows in open_windows} == {1}
    assert len(set.union(*open_windows)) == epochs - 1
    assert max(rows) == 10 * 10
