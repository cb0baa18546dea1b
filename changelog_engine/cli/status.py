"""``changelog-engine jobs`` and ``status``: how jobs are, without Spark. They only read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.metrics import details_of, measured
from changelog_engine.cli.options import PATH
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.clock import wall_ms, wall_s
from changelog_engine.display import Grid, Size, When
from changelog_engine.inspection.jobs import (
    NOT_BEGUN,
    JobStatus,
    SourcePosition,
    Upkeep,
    job_status,
    list_jobs,
)
from changelog_engine.inspection.timeline import NOT_RUN, UNTOLD
from changelog_engine.ledger.attempt_notes import AttemptFailure
from changelog_engine.ledger.job_path import base_path_in
from changelog_engine.ledger.ownership import SIGN_EVERY_S, SILENT_S, Driver
from changelog_engine.ledger.restore_decision import RestoreDecision
from changelog_engine.readable import counted, duration, iso, size_text
from changelog_engine.savepoints.unfinished_forks import unfinished_forks
from changelog_engine.storage.locks import go_on
from changelog_engine.storage.opening import open_storage
from changelog_engine.types.typeinfo import cut
from materializer.retention import Retention

_FAILURES = 5
_RESCALES = 3
_SPLITS = 20  # of sources
_STATES = 20
_MESSAGE = 600  # characters of an error
_TRACEBACK = 8  # lines of it


@click.command()
@click.argument("base", type=PATH)
@shows
def jobs(base: str) -> Answer:
    """List the jobs and savepoints below a base path.

    BASE is the folder or URI in which the folders of jobs lie. A job that is `killed` left no error; one that is `ended`
    was killed or has failed. Whether a job on an object store or on another machine is running is told by its driver's signs
    of life, which come each 10 s: one without any for 40 s, that noted no end, is `killed or running`.
    """
    found = list_jobs(base)
    columns = ("attempts", "checkpoints", "newest", "size", "time (UTC)", "state", "job")
    rows = [
        (job.attempts, job.checkpoints, job.newest, Size(job.bytes), When(job.time_ms), job.state, _name(job))
        for job in found
    ]
    storage = open_storage(base)
    notes = [f"{job.name}: {job.fault}" for job in found if job.fault]
    left = [each for each in unfinished_forks(storage) if each.ended]
    said = [
        f"{each.folder.root}: a fork by {each.who}, that was not finished; the next fork here takes it away"
        for each in left
    ]
    grid = Grid(columns, rows, right=4, spare=("attempts", "checkpoints", "size", "newest", "time (UTC)"))
    none = [] if found else [f"no jobs below {base}{base_path_in(storage)}"]
    return Answer(found, [grid], notes=[*none, *notes, *said], status=bool(notes))


@click.command()
@click.argument("path", type=PATH)
@shows
def status(path: str) -> Answer:
    """Show how a job is: who runs it, how far it has come, what a restore would read, what is kept.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it.
    """
    found = job_status(path)
    facts = [("job", found.summary.name), ("state", _state(found)), *_does(found.driver), *_facts(found)]
    grids = [Grid(("what", "found"), facts)]
    shown, left_out = _splits(found)
    rows = [(p.source, p.split, str(p.position), "yes" if p.finished else "") for p in shown]
    grids.append(Grid(("source", "split", "position", "finished"), rows))
    marks = [
        (m.operator, "the end" if m.ended else "none yet" if m.time_ms is None else When(m.time_ms), m.idle)
        for m in found.watermarks
    ]
    grids.append(Grid(("operator", "watermark (UTC)", "idle inputs"), marks))
    states, *others = details_of(found.metrics)
    grids += [states._replace(rows=states.rows[:_STATES]), *others]
    if len(states.rows) > _STATES:
        left_out.append(f"{len(states.rows) - _STATES} states more: changelog-engine metrics PATH shows all")
    failures: list[tuple[int | str, When, str]] = [
        (each.attempt, When(each.failure.time_ms), _said(each.failure))
        for each in found.failures[-_FAILURES:]
    ]
    if found.failed_start is not None and not found.failed_start.cancelled:
        failures.append(("start", When(found.failed_start.time_ms), _said(found.failed_start)))
    grids.append(Grid(("attempt", "failed (UTC)", "with"), failures, right=1))
    stopped = found.stopped_upkeep(wall_ms())
    notes = [
        *found.faults,
        *found.unreadable,
        *([stopped] if stopped else []),
        *left_out,
        *_what_to_do(found),
    ]
    return Answer(_document(found), grids, notes=notes, status=bool(found.faults))


def _splits(found: JobStatus) -> tuple[Sequence[SourcePosition], list[str]]:
    """The splits to show, and a line about the rest."""
    shown = found.first_splits(_SPLITS)
    left = len(found.sources) - len(shown)
    if not left:
        return shown, []
    ended = sum(each.finished for each in found.sources) - sum(each.finished for each in shown)
    ends = "all" if ended == left else f"{ended:,} of them"
    return shown, [f"{counted(left, 'split')} more, {ends} finished; --json has each"]


def _name(job: Any) -> str:
    folder = job.path.rpartition("/")[2]
    name = job.name if job.name == folder else f"{job.name} in {folder}"
    return f"{name} (savepoint)" if job.kind == "savepoint" else name


def _state(found: JobStatus) -> str:
    driver = found.driver
    who = "" if driver.host is None else f" process {driver.pid} on {driver.host}, since {_since(driver)}"
    if driver.running:
        between = found.newest_failure
        waits = "" if between is None else f"; attempt {between.attempt} failed, and the next has not begun"
        waits = waits if found.attempts else "; the first attempt has not begun"
        return f"running:{who}{waits}{_doubt(driver)}"
    if driver.running is None and (who or found.summary.state in ("ended", UNTOLD)):
        state = found.summary.state.removesuffix(" or running")
        return f"{state}, or running elsewhere{f' (the last driver known here:{who}{_doubt(driver)})' if who else ''}"
    if found.summary.state == NOT_RUN:
        return "a fork that was not run yet"
    if not found.attempts:
        return f"no attempt has begun{f' (the last driver known here:{who})' if who else ''}"
    if found.failed_start is not None and not found.failed_start.cancelled:
        return "failed: the last start ended before an attempt began"
    return "killed or failed" if found.summary.state == "ended" else found.summary.state


def _does(driver: Driver) -> list[tuple[str, str]]:
    """What a driver that runs does, as of its last sign of life."""
    if not driver.running or driver.doing is None or driver.signed_ms is None:
        return []
    ago_ms = max(0, wall_s() * 1000 - driver.signed_ms)
    return [("does", f"{driver.doing} [{duration(ago_ms)} ago]")]


def _since(driver: Driver) -> str:
    """When the driver began, written as all other moments."""
    try:
        return f"{datetime.fromisoformat(driver.since or '').astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:  # a note of another hand
        return str(driver.since)


def _doubt(driver: Driver) -> str:
    """That a driver which is there, or may be, does nothing."""
    if driver.stopped:
        return f"; that process is stopped: {go_on(driver.pid)}"
    if driver.signed_ms is None:
        return ""
    ago_ms = wall_s() * 1000 - driver.signed_ms
    if driver.gone:
        return f"; no process here has that number: it was killed, unless it is in a container; {_last_sign(ago_ms)}"
    if driver.by_sign:
        return f"; {_last_sign(ago_ms)}"
    if ago_ms < -SILENT_S * 1000:
        return (
            f"; its last sign of life is {duration(-ago_ms)} ahead of the clock here: set the clocks, until then nobody can "
            "tell whether it runs"
        )
    return "" if driver.silent_s() is None else f"; no sign of life for {duration(ago_ms)}"


def _last_sign(ago_ms: float) -> str:
    return f"its last sign of life, of which one comes each {SIGN_EVERY_S:.0f} s, is {duration(max(0, ago_ms))} old"


def _what_to_do(found: JobStatus) -> list[str]:
    """Of a job that nobody stopped and that does not run: the last lines of its error, and the next step."""
    state, next_run = found.summary.state, found.next_run
    if state not in ("failed", "killed", "killed or running", "ended", NOT_BEGUN) or next_run is None:
        return []
    again = (
        f"by default it {_begins(next_run)}. `changelog-engine help runbook` goes from symptoms to commands."
    )
    if (failed := found.failed_start) is not None:
        if failed.cancelled:
            return [f"Its last start was stopped before an attempt began. Start the job again: {again}"]
        lines = _last_lines(failed, "the error of the last start")
        return [*lines, f"Do what the error of the last start says, then start the job again: {again}"]
    if state == NOT_BEGUN:
        return [
            "Its driver ended before the first attempt, as where Spark does not start: the last line that it wrote on "
            f"standard error says why. Do what that says, then start the job again: {again}"
        ]
    last = found.failures[-1] if found.failures else None
    if state != "failed" or last is None:
        elsewhere = "" if state == "killed" else "if no driver runs it elsewhere, "
        return [
            "No error was noted, as after kill -9, a full memory, a full disk or a power cut: "
            f"{elsewhere}start the job again, and {again}"
        ]
    lines = _last_lines(last.failure, f"the error of attempt {last.attempt}")
    return [*lines, f"Do what the error says, then start the job again: {again}"]


def _last_lines(failure: AttemptFailure, what: str) -> list[str]:
    """Those of an error of the user's own code; nothing of others, whose message says it all."""
    if failure.call is None:
        return []
    lines = [cut(line, _MESSAGE) for line in failure.traceback.splitlines()[-_TRACEBACK:]]
    return [f"{what} (--json has all of it):", *lines]


def _begins(next_run: RestoreDecision) -> str:
    point = next_run.checkpoint
    return "begins empty" if point is None else f"goes on from checkpoint {point.id}"


def _said(failure: AttemptFailure) -> str:
    """An error in one cell; ``--json`` has all of it, with the traceback."""
    return cut(f"{failure.error}: {failure.message}", _MESSAGE)


def _facts(found: JobStatus) -> list[tuple[str, str]]:
    branches = f"; {counted(len(found.branches), 'branch', 'branches')}" if found.branches else ""
    facts = [
        (
            "attempts",
            f"{counted(len(found.attempts), 'attempt')}, {found.restarts:,} of them from a checkpoint{branches}",
        )
    ]
    facts += [("rescaled", each.removeprefix("rescaled ")) for each in found.rescales[-_RESCALES:]]
    if (next_run := found.next_run) is not None and not found.driver.running:
        facts.append(("the next run", f"{_begins(next_run)}: {next_run.reason}"))
    newest, upkeep = found.newest, found.upkeep
    if newest is None or upkeep is None:
        return [*facts, ("checkpoints", "none yet")]
    facts += [
        (
            "checkpoints",
            f"{found.summary.checkpoints:,}, from {upkeep.oldest} ({_iso(upkeep.oldest_time_ms)} UTC)",
        ),
        ("newest", f"{newest.id} of attempt {newest.attempt}, at {iso(newest.time_ms)} UTC"),
        (
            "",
            f"{newest.rows_in_words}, {size_text(newest.bytes)}, {counted(newest.parts, 'part')}, {newest.duration_ms:,} ms",
        ),
        ("log", f"{counted(found.log_files, 'file')}, {size_text(found.log_bytes)}"),
        ("snapshots", _snapshots(found)),
        ("a restore reads", _read(upkeep)),
        ("kept", _kept(upkeep.retention)),
    ]
    figures = found.metrics
    if "records_in" in figures:
        said = f"{figures['records_in']:,} in, {figures.get('records_out', 0):,} out, in {figures.get('elapsed_ms', 0):,} ms"
        facts.append(("records", f"{said} before the newest checkpoint"))
    if times := figures.get("times_ms"):
        spent = [f"{part} {ms:,.0f} ms" for part, ms in times.items()]
        facts.append(("time went to", ", ".join(spent)))
    return facts


def _snapshots(found: JobStatus) -> str:
    upkeep = found.upkeep
    assert upkeep is not None
    now = "; one is being made" if upkeep.running else ""
    if (rounds := upkeep.rounds) is not None:
        failed = "" if rounds.failed is None else f", and failed: {cut(rounds.failed, _MESSAGE)}"
        now += (
            f"; the last round of materialize --every ({rounds.who}) ended {iso(rounds.time_ms)} UTC{failed}"
        )
    if upkeep.snapshot is None:
        return f"none that the newest checkpoint can use{now}"
    of = f"the newest of checkpoint {upkeep.snapshot} ({_iso(upkeep.snapshot_time_ms)} UTC)"
    return f"{upkeep.snapshots:,}, {of}; {counted(found.snapshot_files, 'file')}, {size_text(found.snapshot_bytes)}{now}"


def _read(upkeep: Upkeep) -> str:
    if upkeep.log_rows is None:
        return "cannot be told"
    return f"{counted(upkeep.log_rows, 'mutation')}{', all of the log' if upkeep.snapshot is None else ' after it'}"


def _kept(retention: Retention | None) -> str:
    if retention is None:
        return "not known: the note of it is damaged. The next run of the job writes it anew"
    days = retention.history_ms / 86_400_000
    history = "no history" if not retention.history_ms else f"a history of {days:g} days"
    return f"{history}, {counted(retention.retained, 'checkpoint')} to restore; files {retention.grace_ms / 1000:g} s longer"


def _iso(time_ms: int | None) -> str:
    return "-" if time_ms is None else iso(time_ms)


def _document(found: JobStatus) -> dict[str, Any]:
    return {
        **vars(found.summary),
        "driver": found.driver._asdict(),
        "attempt_rows": found.attempts,
        "failures": found.failures,
        "failed_start": found.failed_start,
        "edges": found.edges,
        "restarts": found.restarts,
        "rescales": found.rescales,
        "branches": found.branches,
        "newest_checkpoint": None if found.newest is None else _checkpoint(found.newest),
        "sources": found.sources,
        "watermarks": found.watermarks,
        "next_run": None
        if found.next_run is None
        else {
            "checkpoint": None if found.next_run.checkpoint is None else found.next_run.checkpoint.id,
            "reason": found.next_run.reason,
        },
        "upkeep": None
        if found.upkeep is None
        else {**vars(found.upkeep), "retention": found.upkeep.retention and found.upkeep.retention._asdict()},
        "log": {"files": found.log_files, "bytes": found.log_bytes},
        "snapshots": {"files": found.snapshot_files, "bytes": found.snapshot_bytes},
        "faults": found.faults,
        "unreadable": found.unreadable,
        "metrics": found.metrics,
    }


def _checkpoint(row: Checkpoint) -> dict[str, Any]:
    shown = ("id", "attempt", "parent", "time_ms", "finished", "stopped")
    return {**{name: vars(row)[name] for name in shown}, **measured(row)}
