"""What a job keeps, written down in its folder: whoever truncates without the job's settings asks there."""

from __future__ import annotations

import json
import zlib
from typing import Any

from changelog_engine.errors import CorruptChangelogError
from changelog_engine.ledger.job_folder import JobFolder
from materializer.retention import Retention

RETENTION = "_retention.json"  # in the folder of the changelog
_CHECKSUM = "checksum"


def remember(folder: JobFolder, retention: Retention) -> None:
    """Write a job's retention down, unless that is what stands there."""
    document = {**retention._asdict(), _CHECKSUM: _checksum_of(retention)}
    if folder.changelog.read_document(RETENTION) != document:
        folder.changelog.write_durable(RETENTION, json.dumps(document).encode())


def recall(folder: JobFolder) -> Retention:
    """The retention that the job ran with last; the defaults when it did not say.

    Raises:
        CorruptChangelogError: what it said is damaged: by the defaults, history that it keeps might go.
    """
    found = folder.changelog.read_document(RETENTION)
    if not found and not folder.changelog.exists(RETENTION):
        return Retention()
    values: list[Any] = [found.get(name) for name in Retention._fields]
    if all(type(value) is int and value >= 0 for value in values):
        said = Retention(*values)
        if found.get(_CHECKSUM) in (None, _checksum_of(said)):  # earlier versions wrote none
            return said
    raise CorruptChangelogError(
        "is damaged: it has how much history the job keeps, so nothing was truncated. Run the job, which writes it anew, or "
        "say it yourself: --retention, --retained and --grace, all three; --no-truncate makes a snapshot only",
        folder.changelog.join(RETENTION),
    )


def _checksum_of(retention: Retention) -> str:
    return f"{zlib.crc32(json.dumps(retention).encode()):08x}"
