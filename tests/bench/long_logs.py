"""What a start and a Delta checkpoint cost the driver after many checkpoints, where nothing was truncated: CPU, memory.

``python long_logs.py [CHECKPOINTS ...]``; each has two parts and its row. Parts are listed, not written.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from changelog_engine.changelog.part_stats import delta_stats
from changelog_engine.ledger.job_folder import find_job_folder, open_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import begin_attempt
from changelog_engine.storage.delta_actions import AddFile
from wide_commits import footer

_AT_ONCE = 10_000  # in a commit, which the driver would make one by one


def make(base: str, checkpoints: int) -> None:
    """A log that lists so many checkpoints, with a Delta checkpoint at its end."""
    folder = open_job_folder(base, "job")
    log, stats = folder.open_changelog(), delta_stats(footer(Path(base, "part.parquet")))
    begin_attempt(log, 0, None)
    for first in range(1, checkpoints + 1, _AT_ONCE):
        adds = []
        for checkpoint in range(first, min(first + _AT_ONCE, checkpoints + 1)):
            names = [
                f"part-{checkpoint:012}-1-1-{subtask}-{checkpoint}-0badcafe.parquet" for subtask in (0, 1)
            ]
            names.append(f"checkpoint-{checkpoint:012}-1-0badcafe.parquet")
            adds += [AddFile(name, 3_000, 1_700_000_000_000 + checkpoint, stats) for name in names]
        log.commit(adds)
    log.maintain(every=1)


def start(base: str) -> None:
    """Open it as a new driver does, in a process of its own, and print what that took."""
    folder, before = find_job_folder(base, "job"), _peak_mib()
    cpu = time.process_time()
    log = folder.open_changelog()
    count = log.files().num_rows
    listed, cpu = time.process_time() - cpu, time.process_time()
    newest = Lineage(log).newest_checkpoint_id
    found = time.process_time() - cpu
    log.commit([AddFile("part-more.parquet", 1, 1, {"numRecords": 1})])
    cpu = time.process_time()
    log.maintain(every=1)
    size = max(
        path.stat().st_size for path in Path(log.storage.root, "_delta_log").glob("*.checkpoint.parquet")
    )
    print(
        f"{newest:,} checkpoints, {count:,} files: list {listed:.2f} s, lineage {found:.2f} s, the next Delta checkpoint "
        f"{time.process_time() - cpu:.2f} s of CPU; {_peak_mib() - before} MiB; {size:,} bytes of it"
    )


def _peak_mib() -> int:
    """Of this process; getrusage has that of the one that started it, too."""
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) // 1024


def main(arguments: list[str]) -> None:
    """Make and start each."""
    if arguments[:1] == ["start"]:
        start(arguments[1])
        return
    for checkpoints in map(int, arguments or ["1000", "10000", "100000"]):
        with tempfile.TemporaryDirectory() as base:
            make(base, checkpoints)
            subprocess.run([sys.executable, __file__, "start", base], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
