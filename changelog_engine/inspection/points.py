"""Which checkpoint a text means: the one rule for all commands.

    12                     the checkpoint with this id, on whichever branch
    -1, -2                 counted from the end of the newest checkpoint's lineage: -1 is the newest, -2 the one before
    latest                 the newest
    attempt:3              the newest of this attempt, that is: the end of a branch
    12:00:05               a time of day (UTC), on the day of the newest checkpoint
    2026-01-31T12:00:05    a time; without a zone it is UTC. ``as-of:`` may stand before it

A time means the newest checkpoint whose barrier was at or before it, on the branch on which the job was then. Where two jobs
can be compared, ``OTHER@POINT`` is a point of another job or savepoint, and a path by itself its newest checkpoint.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.display import Document, html_of, iso, text_of
from changelog_engine.errors import RestoreError
from changelog_engine.ledger.job_path import open_changelog
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.lineage import Lineage, moment

FORMS = "an id such as 12, -2 from the newest, latest, attempt:3, or a time such as 12:00:05 or 2026-01-31T12:00:05 (UTC)"
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")

At = str | int | None


class Point(NamedTuple):
    """A checkpoint and the log that it is in."""

    ledger: Ledger
    checkpoint: Checkpoint

    def display(self) -> Document:
        """What is shown of it."""
        shown = self.checkpoint.display()
        return shown._replace(facts=[*shown.facts, f"of {self.ledger.storage.root}"])

    def __repr__(self) -> str:
        return text_of(self.display())

    def _repr_html_(self) -> str:
        return html_of(self.display())


def open_ledger(path: str) -> Ledger:
    """The log of a job or savepoint.

    Args:
        path: its folder, or the changelog folder in it; a local path or a URI.

    Raises:
        StorageError, ForeignPathError, FormatVersionError: as ``ledger.job_path.open_changelog``.
    """
    return Ledger(open_changelog(path))


def open_point(path: str, at: At = None) -> Point:
    """A point of a job.

    Args:
        path: see ``open_ledger``.
        at: see above; None for the newest checkpoint.

    Raises:
        RestoreError: there is no such checkpoint; names the nearest.
        StorageError, ForeignPathError, FormatVersionError: see ``open_ledger``.
    """
    ledger = open_ledger(path)
    return Point(ledger, checkpoint_at(ledger.lineage, at))


def open_other(path: str, text: str, known: Ledger | None = None) -> Point:
    """A point of a job, or of another one: ``OTHER@POINT``, where OTHER is a path or the name of a folder beside the job's.

    Args:
        path: the job's folder.
        text: the point.
        known: the job's log, where it is open already.

    Raises:
        RestoreError, StorageError, ForeignPathError, FormatVersionError: as ``open_point``.
    """
    other, at, point = text.rpartition("@")
    if not at and "/" in text:
        other, point = text, "latest"
    if not other:
        ledger = known or open_ledger(path)
        return Point(ledger, checkpoint_at(ledger.lineage, point))
    if "/" not in other:
        base = path.rstrip("/").removesuffix("/changelog").rpartition("/")[0]
        other = f"{base}/{other}" if base else other
    return open_point(other, point)


def checkpoint_at(lineage: Lineage, at: At = None) -> Checkpoint:
    """The checkpoint that a text means.

    Args:
        lineage: of the job.
        at: see above; None for the newest checkpoint.

    Raises:
        RestoreError: there is none; names the nearest.
    """
    newest = lineage.newest_checkpoint()
    if newest is None:
        raise RestoreError(f"there is no checkpoint in {lineage.root} yet")
    text = "latest" if at is None else str(at).strip().removeprefix("as-of:")
    if text == "latest":
        return newest
    if text.isdecimal():
        return _by_id(lineage, int(text))
    if re.fullmatch(r"-\d{1,18}", text):
        return _from_end(lineage, newest, int(text))
    if re.fullmatch(r"attempt:\d{1,9}", text):
        return _end_of(lineage, int(text.partition(":")[2]))
    when = time_of(text, newest)
    if when is None:
        raise RestoreError(f"{text!r} is not a point of a job: give {FORMS}")
    found = lineage.at_or_before(when)
    if found is None:
        first = lineage.checkpoint(lineage.checkpoints.ids()[0])
        raise RestoreError(
            f"there is no checkpoint at or before {iso(when)} in {lineage.root}: the nearest is checkpoint {first.id} "
            f"({iso(first.time_ms)})"
        )
    return found


def time_of(text: str, newest: Checkpoint) -> int | None:
    """The epoch milliseconds of a text that is a time; None for other texts.

    Args:
        text: a time of day, or ISO text.
        newest: on whose day a time of day is.
    """
    text = text.strip().removeprefix("as-of:")
    try:
        if _TIME_OF_DAY.fullmatch(text):
            day = datetime.fromtimestamp(newest.time_ms / 1000, UTC).date()
            when = moment(f"{day.isoformat()}T{text.zfill(len(text) + (text.index(':') == 1))}")
        elif "-" in text[1:]:  # ISO text without separators would be taken for a number
            when = moment(text)
        else:
            return None
        return int(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _by_id(lineage: Lineage, wanted: int) -> Checkpoint:
    if wanted in lineage.checkpoints:
        return lineage.checkpoint(wanted)
    ids = lineage.checkpoints.ids()
    place = bisect_left(ids, wanted)
    near = " and ".join([str(each) for each in ids[max(0, place - 1) : place + 1]])
    raise RestoreError(
        f"there is no checkpoint {wanted} in {lineage.root}: the nearest: {near} (of {ids[0]} to {ids[-1]})"
    )


def _from_end(lineage: Lineage, newest: Checkpoint, back: int) -> Checkpoint:
    runs = newest.lineage
    line = [each for each in lineage.checkpoints.ids() if any(run.first <= each <= run.last for run in runs)]
    if not 0 < -back <= len(line):
        raise RestoreError(
            f"there is no checkpoint {back} in {lineage.root}: the newest one's lineage has {len(line)}, -1 is the newest "
            f"({line[-1]}), the nearest is {-len(line)} ({line[0]})"
        )
    return lineage.checkpoint(line[back])


def _end_of(lineage: Lineage, attempt: int) -> Checkpoint:
    found = lineage.newest_checkpoint(attempt)
    if found is None:
        raise RestoreError(
            f"there is no checkpoint of attempt {attempt} in {lineage.root}: its newest attempt is "
            f"{lineage.newest_attempt_id}"
        )
    return found
