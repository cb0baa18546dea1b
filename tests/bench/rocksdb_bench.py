"""State in RocksDB: the keyed count, and state that is larger than the workers' memory."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from large_values import CHARACTERS
from log_figures import Log, acknowledgement_ms, percentile, read_log, steady_records_per_s
from peers import BesidePeers
from processes import result_line

HERE = Path(__file__).parent
_BACKEND = {"state.backend.type": "rocksdb"}
_BOUNDED = {"state.backend.rocksdb.memory.fixed-per-slot": "256mb", "changelog.rocksdb.cache-size": "64mb"}


class RocksDBBench(BesidePeers):
    """Runs it here, and the keyed count in PyFlink."""

    def count(self) -> dict[str, Any]:
        """The keyed count, its state in RocksDB."""
        sizes, name = self.sizes, "rocksdb"
        command = [
            sys.executable,
            str(HERE / "keyed_count.py"),
            "api",
            str(sizes.rocksdb),
            str(sizes.rocksdb_keys),
        ]
        result = self.engine.run_program(name, command, _BACKEND).result
        log = read_log(self.engine.base_of(name))
        if log.rows != sizes.rocksdb:
            raise RuntimeError(f"the log has {log.rows} mutations for {sizes.rocksdb} records")
        return {**result, "steady_records_per_s": steady_records_per_s(log), **_acknowledgement(log)}

    def pyflink(self) -> dict[str, Any]:
        """The keyed count in PyFlink, its state in RocksDB, its changelog on, thread mode."""
        return self.peers.keyed_count(
            "pyflink-rocksdb", self.sizes.pyflink_rocksdb, self.sizes.rocksdb_keys, _BACKEND
        )

    def large(self) -> dict[str, Any]:
        """Values that are replaced while there are more of them than the workers' memory holds.

        Rates: mutations a second while they are set, and while they are replaced, medians over checkpoints; what the last
        third of the latter has of its first third.
        """
        keys, name = self.sizes.rocksdb_large_keys, "rocksdb-large"
        command = [sys.executable, str(HERE / "large_values.py"), str(keys)]
        outcome = self.engine.run_program(name, command, _BACKEND | _BOUNDED)
        base = self.engine.base_of(name)
        log = read_log(base)
        shutil.rmtree(base)  # some gigabytes
        if log.rows != outcome.result["records"]:
            raise RuntimeError(f"the log has {log.rows} mutations for {outcome.result['records']} records")
        setting, replacing = _phases(log, outcome.result["set"])
        third = max(1, len(replacing) // 3)
        peak = max((sample.get("workers", 0) for _, sample in outcome.memory.samples), default=0)
        return {
            **outcome.result,
            "state_bytes": outcome.result["set"] * CHARACTERS,
            "workers_peak_mb": peak / 2**20,
            "setting_records_per_s": statistics.median(setting),
            "steady_records_per_s": statistics.median(replacing),
            "late_by_early": statistics.median(replacing[-third:]) / statistics.median(replacing[:third]),
            **_acknowledgement(log),
        }

    def large_loop(self) -> dict[str, Any]:
        """RocksDB alone under the same values: two processes without a job, a log or an exchange."""
        folder = self.engine.base_of("loop-rocksdb-large")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [
            sys.executable,
            str(HERE / "large_values_loop.py"),
            str(self.sizes.rocksdb_large_keys),
            str(folder),
        ]
        found = result_line(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        shutil.rmtree(folder)
        if found is None:
            raise RuntimeError("the loop printed no result")
        return found


def _acknowledgement(log: Log) -> dict[str, float]:
    times = acknowledgement_ms(log)
    return {f"acknowledgement_p{share}_ms": percentile(times, share / 100) for share in (50, 99)}


def _phases(log: Log, first: int) -> tuple[list[float], list[float]]:
    """Mutations a second between two checkpoints: of those up to so many mutations, and of those after."""
    phases: tuple[list[float], list[float]] = ([], [])
    rows = log.checkpoints[0]["rows"]
    for before, after in pairwise(log.checkpoints[:-1]):
        began, rows = rows, rows + after["rows"]
        seconds = (after["time_ms"] - before["time_ms"]) / 1000
        if seconds > 0 and (rows <= first or began >= first):
            phases[began >= first].append(after["rows"] / seconds)
    if not all(phases):
        raise RuntimeError("the run was too short to tell its rates; make BENCH_ROCKSDB_LARGE_KEYS larger")
    return phases
