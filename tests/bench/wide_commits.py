"""What checkpoints of very many subtasks cost the driver in the Delta log alone: CPU, bytes and memory a part.

``python wide_commits.py [SUBTASKS] [CHECKPOINTS] [PARTS IN A PACK]``. Parts are listed, not written: their verification is
the store's time.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.changelog.log_files import PackedPart, PartName, pack_name
from changelog_engine.changelog.part_stats import delta_stats
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.local_disk import LocalDisk


def main(subtasks: int, checkpoints: int, together: int = 1) -> None:
    """Commit, and print what a part costs."""
    with tempfile.TemporaryDirectory() as folder:
        stats = delta_stats(footer(Path(folder, "part.parquet")))
        log = DeltaLog.create(LocalDisk(folder).child("changelog"), SCHEMA, {})
        commits, upkeep, began = [], [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for checkpoint in range(1, checkpoints + 1):
            adds = [
                AddFile(
                    _name(checkpoint, range(subtask, min(subtask + together, subtasks))),
                    3_140_000 * together,
                    1_700_000_000_000,
                    stats,
                )
                for subtask in range(0, subtasks, together)
            ]
            cpu = time.process_time()
            log.commit(adds, metadata={"checkpoint": checkpoint})
            commits.append(time.process_time() - cpu)
            cpu = time.process_time()
            if log.maintain():
                upkeep.append((checkpoint, time.process_time() - cpu))
        sizes = [path.stat().st_size for path in Path(folder, "changelog", "_delta_log").glob("*.json")]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{subtasks} parts a commit, {together} of them in a file; {checkpoints} commits")
        print(f"CPU of a commit: {1000 * sorted(commits)[len(commits) // 2]:.1f} ms; bytes: {max(sizes):,}")
        for checkpoint, seconds in upkeep:
            print(
                f"Delta checkpoint at {checkpoint * -(-subtasks // together):,} live files: {seconds:.2f} s of CPU"
            )
        for path in sorted(Path(folder, "changelog", "_delta_log").glob("*.checkpoint.parquet")):
            print(f"  {path.stat().st_size:,} bytes")
        print(f"peak memory of the process: {began // 1024} MiB before, {peak // 1024} MiB after")


def _name(checkpoint: int, subtasks: range) -> str:
    if len(subtasks) == 1:
        return f"part-{checkpoint:012}-1-1-{subtasks[0]}-{checkpoint}-0badcafe.parquet"
    names = [PartName(checkpoint, 1, 1, subtask, checkpoint, 0xBADCAFE) for subtask in subtasks]
    return pack_name([PackedPart(name, 1_000_000, 0, 3_140_000) for name in names], 0xBADCAFE)


def footer(path: Path) -> pq.FileMetaData:
    """The footer of a part of a thousand rows, which is written there."""
    rows = 1_000
    values = {field.name: pa.array([_SAMPLE.get(field.name)] * rows, field.type) for field in SCHEMA}
    pq.write_table(pa.table(values, schema=SCHEMA), path)
    return pq.read_metadata(path)


_SAMPLE = {
    "checkpoint_id": 1,
    "attempt": 1,
    "sequence": 1,
    "operator": "count",
    "state": "count",
    "key_group": 7,
    "key": "12345678",
    "operation": "put",
    "value": "42",
}

if __name__ == "__main__":
    main(*[int(number) for number in sys.argv[1:]] or [1_000, 300])
