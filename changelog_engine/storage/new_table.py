"""The first commit of a Delta table, as delta-rs writes it: it is put into place by whoever makes the table, durably."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, Schema

from changelog_engine.storage.damaged import delta_rs
from changelog_engine.storage.delta_names import commit_path

FIRST_COMMIT = commit_path(0)
SCRATCH = "changelog-engine-"  # how folders for temporary files begin
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def first_commit(schema: pa.Schema, properties: Mapping[str, str], partition_by: Sequence[str] = ()) -> bytes:
    """The bytes of a table's first commit; no two are the same.

    Raises:
        DeltaError: Delta has no such columns or properties.
        OSError: there is no room for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix=SCRATCH) as scratch, delta_rs():
        DeltaTable.create(
            scratch,
            schema=Schema.from_arrow(schema),
            mode="error",
            partition_by=list(partition_by),
            configuration=dict(properties),
            raise_if_key_not_exists=False,
            post_commithook_properties=_NO_HOOKS,
        )
        return Path(scratch, FIRST_COMMIT).read_bytes()
