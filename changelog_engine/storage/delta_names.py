"""Names of the files in a Delta table's log."""

from __future__ import annotations

import re

from changelog_engine.storage.protocol import Storage

LOG = "_delta_log"
SNAPSHOTS = "snapshots"  # the folder of a job's table of snapshots, beside the changelog's
LAST_CHECKPOINT_NAME = "_last_checkpoint"
LAST_CHECKPOINT = f"{LOG}/{LAST_CHECKPOINT_NAME}"
COMMIT_NAME = re.compile(r"^(\d{20})\.json$")
CHECKPOINT_NAME = re.compile(r"^(\d{20})\.checkpoint\.")
NUMBERED = re.compile(r"^(\d{20})\.(json$|checkpoint\.)")
OF_VERSION = re.compile(r"^(?:\.|_checksum-)?(\d{20})[.-]")
"""All that is of a version: its commit and Delta checkpoint, and their checksums by this engine, Delta and Hadoop."""


def commit_path(version: int) -> str:
    """The commit that made a version; relative to the table."""
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """The Delta checkpoint of a version, where it is one file; relative to the table."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def last_checkpoint_version(storage: Storage) -> int:
    """The version of the newest Delta checkpoint, as the table's hint has it; -1 for none."""
    version = storage.read_document(LAST_CHECKPOINT).get("version")
    return version if isinstance(version, int) else -1
