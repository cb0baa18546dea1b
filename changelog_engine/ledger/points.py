"""Which checkpoint a text means: the one rule for all commands, options and restores.

    12                     the checkpoint with this id, on whichever branch
    -1, -2                 counted from the end of the newest checkpoint's lineage: -1 is the newest, -2 the one before
    latest                 the newest
    attempt:3              the newest of this attempt, that is: the end of a branch
    12:00:05               a time of day (UTC), on the one day on which the job has checkpoints before and after it; else on
                           the day of the newest checkpoint
    2026-01-31T12:00:05    a time; without a zone it is UTC. ``as-of:`` may stand before it

A time means the newest checkpoint whose barrier was at or before it, on the branch on which the job was then. A time of day
that lies among the checkpoints of several days is an error that names them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.segments import segment_of
from changelog_engine.errors import RestoreError, RetiredError
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.readable import iso

FORMS = (
    "an id such as 12, latest, -2 (the one before the latest), attempt:3 (its last), or a time such as 12:00:05 or "
    "2026-01-31T12:00:05 (UTC)"
)
_ID = re.compile(r"\d{1,18}")
_FROM_END = re.compile(r"-\d{1,18}")
_ATTEMPT = re.compile(r"attempt:\d{1,9}")
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")

_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

At = str | int | None


def moment(text: str) -> datetime:
    """A time out of ISO text; without a zone it is UTC.

    Raises:
        ValueError: it is not ISO text of a time.
    """
    when = datetime.fromisoformat(text.strip())
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def checkpoint_at(lineage: Lineage, at: At = None) -> Checkpoint:
    """The checkpoint that a text means.

    Args:
        at: see above; None for the newest checkpoint.

    Raises:
        RestoreError: there is no such checkpoint; the error suggests the closest match.
    """
    text = "latest" if at is None else str(at).strip()
    if not is_point(text):
        raise RestoreError(f"{text!r} is not a point of a job: give {FORMS}")
    if not lineage.newest_checkpoint_id:
        raise RestoreError(f"there is no checkpoint in {lineage.root} yet")
    if _ID.fullmatch(text):  # also where the newest one's row is damaged
        return _by_id(lineage, int(text))
    if text == "latest" or _FROM_END.fullmatch(text):
        newest = lineage.checkpoint(lineage.newest_checkpoint_id)
        return newest if text == "latest" else _from_end(lineage, newest, int(text))
    if _ATTEMPT.fullmatch(text):
        return _end_of(lineage, int(text.partition(":")[2]))
    when = time_of(text, lineage)
    assert when is not None  # there are checkpoints, and it is a time
    found = lineage.at_or_before(when)
    if found is None:
        first = lineage.checkpoint(lineage.checkpoints.ids()[0])
        raise RestoreError(
            f"there is no checkpoint at or before {iso(when)} in {lineage.root}: the nearest is checkpoint {first.id} "
            f"({iso(first.time_ms)})"
        )
    return found


def time_of(text: str, lineage: Lineage) -> int | None:
    """The epoch milliseconds that a text means; None when it is not a time.

    Args:
        text: a time of day, or ISO text.
        lineage: of the job, whose checkpoints say on which day a time of day is.

    Raises:
        RestoreError: a time of day lies among the checkpoints of several days; names them.
    """
    found = _time(text)
    if found is None:
        return None
    ms, of_day = found
    return _on_its_day(ms, lineage) if of_day else ms


def is_point(text: str) -> bool:
    """Whether a text has one of the forms in which a point can be given."""
    counted = any(form.fullmatch(text) for form in (_ID, _FROM_END, _ATTEMPT))
    return counted or text == "latest" or _time(text) is not None


def _time(text: str) -> tuple[int, bool] | None:
    """The milliseconds a text means, and whether they count from midnight (else from 1970); None if it is not a time."""
    text = text.strip().removeprefix("as-of:")
    try:
        if _TIME_OF_DAY.fullmatch(text):
            of_day = text.zfill(len(text) + (text.index(":") == 1))
            return _milliseconds(f"1970-01-01T{of_day}"), True
        if "-" in text[1:]:  # ISO text without separators would be taken for a number
            return _milliseconds(text), False
    except (ValueError, OverflowError):
        pass
    return None


def _on_its_day(of_day: int, lineage: Lineage) -> int | None:
    """The epoch milliseconds of a time of day, on the day on which the job made its checkpoints."""
    ids = lineage.checkpoints.ids()
    if not ids:
        return None
    first, last = (lineage.checkpoints.time_of(lineage.checkpoints[each]) for each in (ids[0], ids[-1]))
    # Days on which that time is within first to last.
    days = range(-((of_day - first) // _DAY_MS), (last - of_day) // _DAY_MS + 1)
    if len(days) > 1:
        named = [iso(day * _DAY_MS).partition(" ")[0] for day in (days[0], days[-1])]
        raise RestoreError(
            f"{iso(of_day)[11:]} may be on any of {len(days)} days, {named[0]} to {named[1]}, on which {lineage.root} has "
            f"checkpoints: say which, such as {iso(days[-1] * _DAY_MS + of_day).replace(' ', 'T')}"
        )
    return (days[0] if days else last // _DAY_MS) * _DAY_MS + of_day


def _milliseconds(text: str) -> int:
    return (moment(text) - _EPOCH) // timedelta(milliseconds=1)  # a float's would be one less for some times


def _by_id(lineage: Lineage, wanted: int) -> Checkpoint:
    if wanted in lineage.checkpoints:
        return lineage.checkpoint(wanted)
    ids = lineage.checkpoints.ids()
    place = bisect_left(ids, wanted)
    near = " and ".join([str(each) for each in ids[max(0, place - 1) : place + 1]])
    raise (RetiredError if wanted < ids[-1] else RestoreError)(
        f"there is no checkpoint {wanted} in {lineage.root}: the nearest: {near} (of {ids[0]} to {ids[-1]})"
    )


def _from_end(lineage: Lineage, newest: Checkpoint, back: int) -> Checkpoint:
    line = [each for each in lineage.checkpoints.ids() if segment_of(newest.lineage, each) is not None]
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
