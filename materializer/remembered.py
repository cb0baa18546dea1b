"""What a job keeps, written down in its folder: whoever truncates without the job's settings asks there."""

from __future__ import annotations

import json

from changelog_engine.ledger.job_folder import JobFolder
from materializer.retention import Retention

RETENTION = "_retention.json"  # in the folder of the changelog


def remember(folder: JobFolder, retention: Retention) -> None:
    """Write a job's retention down, unless that is what stands there."""
    if folder.changelog.read_document(RETENTION) != retention._asdict():
        folder.changelog.write_durable(RETENTION, json.dumps(retention._asdict()).encode())


def recall(folder: JobFolder) -> Retention:
    """The retention that the job ran with last; the defaults when it did not say, or can't be read."""
    found = folder.changelog.read_document(RETENTION)
    known = {
        name: found[name] for name in Retention._fields
        if isinstance(found.get(name), int) and not isinstance(found[name], bool) and found[name] >= 0
    }  # fmt: skip
    return Retention(**known)
