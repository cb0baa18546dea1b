"""A job's figures in words, for one line."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import NamedTuple

from changelog_engine.changelog.figures import storage_share
from changelog_engine.clock import WallMs
from changelog_engine.driver.figures import JobFigures, SourceFigures
from changelog_engine.event_time import moment_of
from changelog_engine.ledger.reading import RestoreSize
from changelog_engine.readable import amount, counted, duration, iso, per_second, size_text

_LONG_MS = 86_400_000
_LONG_EPOCH_MS = 5_000
_MOST_OF_CHAIN = 3  # operators of the slowest stage that are named
_MOST_NAMED = 3  # operators with state, and sources; of more, the largest and those furthest behind
_RATE_MS = 500  # over less time a rate says nothing


class WorkersAtStart(NamedTuple):
    """How far the workers are in the first epoch of an attempt."""

    up: int
    all: int
    rows: int  # restored rows that they have read
    bytes: int  # of the files that these come from
    ready: int = 0  # subtasks that have all of their state
    reading_ms: float = 0.0  # since the first of them were seen
    closing: int = 0  # subtasks that are not up yet: they close what the attempt before had open


def first_words(
    job: str, folder: str | None, restored_from: int | None, empty_because: str = "", slower: bool = False
) -> str:
    """What a run begins with; of a job that ran before and begins empty, why.

    Args:
        slower: Python does what an extension in C would do.
    """
    end = "; slower than it could be, as changelog-engine doctor says" if slower else ""
    if folder is None:
        return f"job {job!r}: makes no checkpoints, begins empty{end}"
    begins = "begins empty" if restored_from is None else f"restored from checkpoint {restored_from}"
    begins += f", since {empty_because}" if empty_because else ""
    return f"job {job!r}: folder {folder}, {begins}{end}"


def starting_words(
    now: JobFigures,
    now_ms: float,
    workers: WorkersAtStart | str,
    size: RestoreSize | None,
    starting: str = "starting",
) -> str:
    """What a job does that processes nothing yet.

    Args:
        workers: how far they are; where that is not known what the first epoch waits for, "" once it goes on.
        starting: what it waits for before its first attempt.
    """
    seconds = (now_ms - now.status_ms) / 1000
    if now.status == "CREATED":  # it plans, and opens the job's folder
        return f"preparing ({seconds:.0f} s)"
    if now.status == "STARTING":
        return f"{starting} ({seconds:.0f} s)"
    if now.status == "RESCALING":
        return f"rescaling ({seconds:.0f} s)"
    if now.status == "RESTARTING":
        return f"waiting to restart, restart {now.restarts} ({seconds:.0f} s)"
    if isinstance(workers, str):
        up = f"waiting for executors: {workers}" if workers else "the first epoch is running"
    elif workers.up == workers.all and now.status != "RESTORING":
        up = f"all {workers.all} workers are up, the first epoch is running"
    else:
        up = f"workers {workers.up} of {workers.all}"
        if workers.closing:
            up += f", {workers.closing} still closing what the attempt before had open"
    if now.status != "RESTORING":
        return f"{up} ({seconds:.0f} s)"
    restored = not isinstance(workers, str) and workers.ready == workers.all
    if restored:  # what takes long is not the restore
        up = "the first epoch is running"
    text = f"{'restored' if restored else 'restoring'} checkpoint {now.restored_from}"
    if size is not None:
        rows, total_bytes = size.snapshot_rows + size.log_rows, size.snapshot_bytes + size.log_bytes
        text += f": {amount(rows)} rows ({size_text(total_bytes)})"
        if not isinstance(workers, str) and rows and workers.rows and not restored:
            text += f", {100 * min(workers.rows, rows) // rows} % read"
            if workers.ready < workers.up and workers.reading_ms >= _RATE_MS:
                text += f", {size_text(1000 * workers.bytes / workers.reading_ms)}/s"
    return f"{text}, {up} ({seconds:.0f} s)"


def running_words(now: JobFigures, before: JobFigures, wall_ms: WallMs, ago_ms: float = 0.0) -> str:
    """What a job does that processes.

    Args:
        before: the figures to take rates since.
        ago_ms: when these figures were taken. They come with epochs, so of a long one there are none yet.
    """
    seconds = (now.at_ms - before.at_ms) / 1000
    parts = []
    if ago_ms >= _LONG_EPOCH_MS:
        parts.append(
            f"epoch {now.epoch + 1} has been running for {ago_ms / 1000:.0f} s, {now.records_in:,} records so far"
        )
    elif seconds > 0:
        parts += [
            f"{per_second((now.records_in - before.records_in) / seconds)} records/s in",
            f"{per_second((now.records_out - before.records_out) / seconds)} out",
        ]
        if now.all_mutations is not None and before.all_mutations is not None:
            parts.append(f"{per_second((now.all_mutations - before.all_mutations) / seconds)} mutations/s")
    checkpoint = now.checkpoint
    if checkpoint is not None:
        parts.append(
            f"checkpoint {checkpoint.id} ({duration(checkpoint.acknowledged_ms)}, {size_text(checkpoint.bytes)})"
        )
    named = Counter(source.name for source in now.sources.values())
    lags = [(uid, source, lag) for uid, source in now.sources.items() if (lag := _lag(source, wall_ms))]
    if len(lags) > _MOST_NAMED:
        lags.sort(key=lambda each: _furthest(each[1]))
    for uid, source, lag in lags[:_MOST_NAMED]:
        name = source.name if named[source.name] == 1 else f"{source.name} ({uid})"
        parts.append(f"{name}: {lag}")
    if len(lags) > _MOST_NAMED:
        parts.append(f"{counted(len(lags) - _MOST_NAMED, 'more source')}")
    if slowest := _slowest(now, before):
        parts.append(slowest)
    parts += _states(now)
    if now.restarts:
        parts.append(counted(now.restarts, "restart"))
    if now.rescaled is not None:
        parts.append(now.rescaled.at)
    failed = now.upkeep.failed_in_a_row
    if failed:
        parts.append(f"the last {'snapshot' if failed == 1 else f'{failed} snapshots'} beside it failed")
    return ", ".join(parts)


def _furthest(source: SourceFigures) -> tuple[int, int]:
    """What sorts sources by how far they are behind, the furthest first."""
    return -(source.behind or 0), 0 if source.watermark is None else source.watermark


def _states(now: JobFigures) -> list[str]:
    """The sizes of state by operator: the largest, then how much the others have together."""
    sizes = []
    for uid, states in now.sizes.items():
        entries = sum(size.entries or 0 for size in states.values())
        size_bytes = sum(size.bytes or 0 for size in states.values())
        if entries:
            sizes.append((size_bytes, entries, uid))
    if len(sizes) > _MOST_NAMED:
        sizes.sort(key=lambda each: (-each[0], -each[1]))
    named, others = sizes[:_MOST_NAMED], sizes[_MOST_NAMED:]
    words = [f"state {uid} {amount(entries)} entries ({size_text(of_all)})" for of_all, entries, uid in named]
    if others:
        entries, of_all = sum(each[1] for each in others), sum(each[0] for each in others)
        more = counted(len(others), "more operator")
        words.append(f"{more} {amount(entries)} entries ({size_text(of_all)})")
    return words


def _slowest(now: JobFigures, before: JobFigures) -> str:
    """What the rest waits for: storage that takes longer than all the work, else a stage; "" for one stage alone."""
    ms = {part: total - before.times_ms.get(part, 0.0) for part, total in now.times_ms.items()}
    storage = storage_share(ms, now.at_ms - before.at_ms)
    if storage is not None:
        return f"storage takes {storage:.0%} of the time"
    if now.slowest is None or len(now.stages) < 2:
        return ""
    chain = now.slowest.operators
    shown = " -> ".join(chain[:_MOST_OF_CHAIN]) + (" -> ..." if len(chain) > _MOST_OF_CHAIN else "")
    return f"slowest {shown} ({now.slowest.share:.0%} of the work)"


def last_words(now: JobFigures) -> str:
    """How a run ended, and what may be done next."""
    how = {"FINISHED": "finished", "CANCELED": "stopped", "FAILED": "failed"}.get(now.status, "ended")
    seconds = (now.at_ms - now.began_ms) / 1000
    text = f"job {now.job!r} {how} after {seconds:.0f} s: {now.records_in:,} records"
    if now.records_again:
        text += f" ({now.records_again:,} of them read again)"
    if now.folder is None:
        return text
    text += f", {counted(now.checkpoints, 'checkpoint')}"
    if now.restarts:
        text += f", {counted(now.restarts, 'restart')}"
    if now.uncovered:
        least = "at least " if now.status == "FAILED" else ""
        since = "the start" if now.restored_from is None and not now.checkpoints else "the last checkpoint"
        text += f"; {least}{now.uncovered:,} records since {since} are read again by the next run"
    return (
        text
        if now.status == "CANCELED"
        else f"{text}. Next: changelog-engine status {shlex.quote(now.folder)}"
    )


def _lag(source: SourceFigures, wall_ms: WallMs) -> str:
    """How far a source is behind; "" when nothing is known."""
    parts = []
    if source.behind is not None:
        parts.append(f"{amount(source.behind)} records behind")
    watermark = moment_of(source.watermark)
    if watermark is not None:
        late_ms = wall_ms - watermark
        if 0 <= late_ms < _LONG_MS:
            parts.append(f"event time {late_ms / 1000:.1f} s behind")
        else:
            parts.append(f"event time {iso(watermark, 'seconds')}")
    return ", ".join(parts)
