"""Opens a job's log at a point: a checkpoint, given in one of the forms that ``ledger.points`` reads.

Where two jobs can be compared, ``OTHER@POINT`` is a point of another job or savepoint, and a path by itself its newest
checkpoint.
"""

from __future__ import annotations

from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.display import Document, html_of, text_of
from changelog_engine.ledger.job_path import open_changelog
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.points import At, checkpoint_at
from changelog_engine.ledger.read_again import read_again


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


@read_again
def open_point(path: str, at: At = None) -> Point:
    """A point of a job.

    Args:
        at: see ``ledger.points``; None for the newest checkpoint.

    Raises:
        RestoreError: there is no such checkpoint; the error suggests the closest match.
        StorageError, ForeignPathError, FormatVersionError: see ``open_ledger``.
    """
    ledger = open_ledger(path)
    return Point(ledger, checkpoint_at(ledger.lineage, at))


def other_of(path: str, at: At) -> tuple[str | None, str]:
    """The path of the other job that a point is of, None where it is of the job itself; and the point there.

    Args:
        at: a point, or ``OTHER@POINT``, where OTHER is a path or the name of a folder beside the job's; None for the newest.
    """
    text = "latest" if at is None else str(at)
    other, sign, point = text.rpartition("@")
    if not sign and "/" in text:
        other, point = text, "latest"
    if other and "/" not in other:
        base = path.rstrip("/").removesuffix("/changelog").rpartition("/")[0]
        other = f"{base}/{other}" if base else other
    return other or None, point


def open_other(path: str, at: At, known: Ledger) -> Point:
    """A point of a job, or of another one, see ``other_of``.

    Args:
        known: the job's log.

    Raises:
        RestoreError, StorageError, ForeignPathError, FormatVersionError: as ``open_point``.
    """
    other, point = other_of(path, at)
    return Point(known, checkpoint_at(known.lineage, point)) if other is None else open_point(other, point)
