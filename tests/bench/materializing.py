"""Materialization: how fast the log is folded, how fast its state is restored, and what it costs the job beside it."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from engine import EngineBench
from log_figures import Log, acknowledgement_ms, checkpoints_on_disk, percentile
from made_logs import SUBTASKS, make_log
from materializer.materialize import materialize
from materializer.processes import FoldProcesses
from processes import measure

HERE = Path(__file__).parent
_SMALL_EPOCH = 100_000  # its parts are small enough to be merged
_EVERY = "state.changelog.periodic-materialize.interval"
_SCHEDULES = {
    "without": {"state.changelog.periodic-materialize.enabled": "false"},
    "with": {_EVERY: "10s"},
    "process": {_EVERY: "10s", "changelog.materialization.runner": "process"},
}


class MaterializerBench:
    """Folds logs that it writes itself, restores from them, and runs the keyed count with and without a schedule.

    Args:
        engine: runs the keyed count.
    """

    def __init__(self, engine: EngineBench) -> None:
        self.engine = engine
        self.tables = engine.work / "tables"

    def fold(self) -> dict[str, Any]:
        """A log of 150 mutations a key, in two processes: once while they start, once in the same ones, once in this."""
        sizes = self.engine.sizes
        folder = make_log(self.tables / "fold", sizes.fold, sizes.keys, 15)
        log_bytes = sum(part.stat().st_size for part in Path(folder.changelog.root).glob("part-*"))
        run = FoldProcesses(SUBTASKS, niceness=0, keep=True)
        seconds = []
        try:
            for _ in range(4):
                done = materialize(folder, run=run)
                assert done is not None
                seconds.append(done.seconds)
                shutil.rmtree(folder.snapshots.root)
        finally:
            run.stop()
        cpu = time.process_time()
        materialize(folder)
        cpu = time.process_time() - cpu
        return {
            "mutations": done.log_rows,
            "cold_seconds": seconds[0],
            "seconds": min(seconds[1:]),
            "mutations_per_s": done.log_rows / min(seconds[1:]),
            "cold_mutations_per_s": done.log_rows / seconds[0],
            "mutations_per_cpu_s": done.log_rows / cpu,
            "log_bytes_per_mutation": log_bytes / done.log_rows,
        }

    def snapshot(self) -> dict[str, Any]:
        """A snapshot of keys that all changed once; restores from it, with a quarter changed since, and from a long log."""
        keys = self.engine.sizes.restore
        alone, after = self.tables / "snapshot", self.tables / "snapshot-and-log"
        make_log(alone, keys, keys, 4)
        done = self._materialized("snapshot", alone)
        materialize(make_log(after, keys * 5 // 4, keys, 5), 4)
        long = self.tables / "long-log"
        make_log(long, self.engine.sizes.fold, self.engine.sizes.keys, 15)
        found = self._restored("restores", 5, alone, after, long)["restores"]
        return {
            "keys": keys,
            "seconds": done["seconds"],
            "bytes": done["bytes"],
            "restore_s": found[alone.name]["seconds"],
            "restore_with_log_s": found[after.name]["seconds"],
            "restore_from_log_s": found[long.name]["seconds"],
            "restored_keys": [restored["keys"] for restored in found.values()],
        }

    def restore10m(self) -> dict[str, Any]:
        """A snapshot of many keys, its restore on one core, and the memory of both."""
        keys = self.engine.sizes.restore_many
        base = self.tables / "restore-many"
        make_log(base, keys, keys, 10)
        done = self._materialized("materialize-many", base)
        found = self._restored("restore-many", 1, base)
        on_disk = self._restored("restore-many-rocksdb", 1, base, backend="rocksdb")
        restored = found["restores"][base.name]
        shutil.rmtree(base)
        return {
            "keys": restored["keys"],
            "snapshot_s": done["seconds"],
            "snapshot_bytes": done["bytes"],
            "fold_process_peak_mb": done["process_peak_bytes"] / 2**20,
            "restore_s": restored["seconds"],
            "peak_bytes_per_key": (found["peak_bytes"] - found["empty_bytes"]) / restored["keys"],
            "rocksdb_keys": on_disk["restores"][base.name]["keys"],
            "rocksdb_restore_s": on_disk["restores"][base.name]["seconds"],
            "rocksdb_peak_mb": (on_disk["peak_bytes"] - on_disk["empty_bytes"]) / 2**20,
        }

    def beside(self) -> dict[str, Any]:
        """The keyed count with a materialization and truncation every 10 s against the same without, by turns.

        With the schedule in a slot of the job's Spark, and in a process. Once with checkpoints every second and no history,
        so that the log is truncated at once; once with small epochs, a checkpoint after each, and the default history, so
        that parts are merged. Ratios are of whole runs' means: a median over checkpoints would not see a short pause.
        """
        records = self.engine.sizes.beside
        found = self._beside("", records, {"changelog.history.retention": "0"})
        found |= self._beside("merging_", records // 2, self.engine.epochs_of(_SMALL_EPOCH))
        return found

    def _beside(self, prefix: str, records: int, settings: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for word, schedule in _SCHEDULES.items():
            setting = {
                **schedule,
                "changelog.truncation.grace": "1h",  # rows of checkpoints are read from the disk at the end
            }
            base = self.engine.run_count(f"beside-{prefix}{word}", records, settings | setting)
            tables = base / "keyed-count"
            log = checkpoints_on_disk(tables / "changelog")
            found[f"{prefix}{word}_records_per_s"] = _mean_records_per_s(log)
            for share in (50, 99):
                found[f"{prefix}{word}_acknowledgement_p{share}_ms"] = percentile(
                    acknowledgement_ms(log), share / 100
                )
            found[f"{prefix}{word}_checkpoints"] = len(log.checkpoints)
            found[f"{prefix}{word}_snapshots"] = len(list((tables / "snapshots").glob("snapshot-*")))
            found[f"{prefix}{word}_merged_files"] = len(list((tables / "changelog").glob("merged-*")))
        for figure, name in (("records_per_s", "ratio"), ("acknowledgement_p99_ms", "p99_ratio")):
            without = found[f"{prefix}without_{figure}"]
            found[f"{prefix}{name}"] = found[f"{prefix}with_{figure}"] / without
            found[f"{prefix}process_{name}"] = found[f"{prefix}process_{figure}"] / without
        return found

    def _materialized(self, name: str, base: Path) -> dict[str, Any]:
        command = [sys.executable, str(HERE / "restoring.py"), "materialize", str(base)]
        return measure(name, command, self.engine.work / "logs").result

    def _restored(self, name: str, times: int, *bases: Path, backend: str = "hashmap") -> dict[str, Any]:
        command = [
            sys.executable,
            str(HERE / "restoring.py"),
            "restore",
            backend,
            str(times),
            *map(str, bases),
        ]
        return measure(name, command, self.engine.work / "logs").result


def _mean_records_per_s(log: Log) -> float:
    """Mutations a second from the end of the warm-up, a fifth of the checkpoints, to the last checkpoint but one."""
    checkpoints = log.checkpoints[len(log.checkpoints) // 5 : -1]
    if len(checkpoints) < 2:
        raise RuntimeError("the run was too short to tell its throughput; make BENCH_BESIDE larger")
    rows = sum(checkpoint["rows"] for checkpoint in checkpoints[1:])
    return 1000 * rows / (checkpoints[-1]["time_ms"] - checkpoints[0]["time_ms"])
