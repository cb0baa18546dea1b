"""A job's page as one file: no server, nothing from elsewhere, made of the page's own templates and pictures.

Invariants:
    * The file is bounded however large the job is: what is left out is counted where it is missing.
    * Without entries it has no text in which a key or value may stand, what errors say included.
    * The browser is told to run no script and use no style but those that the file was made with, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from changelog_engine import clock
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.inspection.differences import differences
from changelog_engine.inspection.jobs import JobStatus, job_status
from changelog_engine.inspection.live import state_samples
from changelog_engine.ledger.attempt_notes import AttemptFailure
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ui.commands import commands_at, timeline_command
from changelog_engine.ui.drawing import timeline_values
from changelog_engine.ui.now import Now, now_of
from changelog_engine.ui.opened_job import OpenedJob
from changelog_engine.ui.rendering import HERE, templates

_WIDTH = 1160
_MOST_STATES = 200
_DIFFERENCES = 200
_WITHHELD = "what it says is left out, as keys and values are"


class Asset(NamedTuple):
    """A file of the page's own that is put into the report as it is."""

    text: Markup
    hash: str


@dataclass(frozen=True)
class JobReport:
    """A report, made."""

    job: str
    checkpoint: int  # id of the checkpoint whose state it shows
    html: str
    faults: tuple[str, ...] = ()  # what could not be read, as it says


@read_again
def make_report(
    path: str,
    *,
    at: str | None = None,
    compare: tuple[str, str] | None = None,
    entries: int = 10,
    checkpoints: int = 100,
) -> JobReport:
    """The report of a job.

    Args:
        at: whose state is shown, see ``ledger.points``; None for the newest checkpoint.
        compare: two points whose differences are shown; also of other jobs.
        entries: the most entries of each state; with 0 the report has no keys and values at all, and of errors no words.
        checkpoints: how many of the newest are listed.

    Raises:
        RestoreError: there is no such checkpoint; the error suggests the closest match. Or there is none at all.
        CorruptChangelogError: the list of files, or what is compared, can't be read; of other damage the report tells.
    """
    job = OpenedJob(path)
    if not job.rows:
        raise RestoreError(f"there is no checkpoint in {job.root} yet, so there is nothing to report")
    moment = job.checkpoint(at)
    status = job_status(job.root)
    now = now_of(job, status)
    if not entries:
        status, now = _without_words(status, now)
    samples, unread = [], None
    try:
        samples = state_samples(job.ledger, moment, entries)
    except CorruptChangelogError as error:
        unread = f"the state at checkpoint {moment.id} can't be read: {error}"
    before, after = (None, None) if compare is None else compare
    found = (
        None
        if before is None or after is None
        else differences(job.root, before, after, limit=_DIFFERENCES if entries else 0)
    )
    html = (
        templates()
        .get_template("report.html")
        .render(
            **timeline_values(job, moment.id, 0, len(job.rows) - 1, _WIDTH),
            job=job.name,
            root=job.root,
            made_ms=clock.wall_ms(),
            moment=moment,
            rows=list(reversed(job.timeline.checkpoints(limit=checkpoints, details=True))),
            samples=samples[:_MOST_STATES],
            unread=unread,
            states=len(samples),
            entries=entries,
            found=found,
            limit=_DIFFERENCES,
            status=status,
            stopped_upkeep=status.stopped_upkeep(clock.wall_ms()),
            now=now,
            commands=commands_at(job.root, job.name, moment.id),
            timeline_command=timeline_command(job.root, len(job.rows)),
            style=_asset("page.css"),
            script=_asset("page.js"),
        )
    )
    faults = [*status.faults, *job.timeline.faults, *([] if unread is None else [unread])]
    return JobReport(job.name, moment.id, html, tuple(faults))


def _without_words(status: JobStatus, now: Now) -> tuple[JobStatus, Now]:
    """The same without what errors say: that has keys, elements and whatever a user's function tells of them."""
    failures = tuple(replace(each, failure=_withheld(each.failure)) for each in status.failures)
    attempts = tuple(replace(each, failure=each.failure and _withheld(each.failure)) for each in now.attempts)
    start = status.failed_start and _withheld(status.failed_start)
    return replace(status, failures=failures, failed_start=start), replace(now, attempts=attempts)


def _withheld(failure: AttemptFailure) -> AttemptFailure:
    return replace(failure, message=_WITHHELD, traceback="", key=None, element=None)


def _asset(name: str) -> Asset:
    text = (HERE / "static" / name).read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).digest()
    return Asset(Markup(text), f"sha256-{base64.b64encode(digest).decode()}")
