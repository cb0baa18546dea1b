"""How long checkpoints take under full load, with few keys and with many, with snapshots made beside them and without."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from engine import EngineBench
from log_figures import acknowledgement_ms, checkpoints_on_disk, percentile, steady_records_per_s

HERE = Path(__file__).parent
_EVERY = "state.changelog.periodic-materialize.interval"
_SCHEDULES = {
    "without": {"state.changelog.periodic-materialize.enabled": "false"},
    "with": {_EVERY: "10s"},
}
_ENDLESS = 10**12  # records: the run is stopped
_SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


class _Stop:
    """Whether a job has run for so long since its first checkpoint.

    Args:
        changelog: folder of its log.
        seconds: how long.
    """

    def __init__(self, changelog: Path, seconds: float) -> None:
        self._changelog = changelog
        self._seconds = seconds
        self._began_s: float | None = None

    def __call__(self) -> bool:
        """Whether to stop now."""
        if self._began_s is None and any(self._changelog.glob("checkpoint-*.parquet")):
            self._began_s = time.monotonic()
        return self._began_s is not None and time.monotonic() - self._began_s > self._seconds


class BarrierBench:
    """Runs the keyed count for a time, for each number of keys with a schedule of snapshots and without, in turns.

    Args:
        engine: runs it.
    """

    def __init__(self, engine: EngineBench) -> None:
        self.engine = engine

    def acknowledgements(self) -> dict[str, Any]:
        """Percentiles in ms by number of keys and schedule, of the checkpoints after the first third of each run's time.

        Ratios: the schedule's p99 by that without, for each number of keys; the largest number's p50 by the smallest's.
        """
        sizes = self.engine.sizes
        found: dict[str, Any] = {}
        for turn, keys in enumerate((sizes.barrier_few_keys, sizes.barrier_many_keys)):
            name = ("few", "many")[turn]
            ways = list(_SCHEDULES) if turn % 2 else list(_SCHEDULES)[::-1]
            for way in ways:
                found |= self._run(f"{name}_{way}", keys, _SCHEDULES[way])
            found[f"{name}_p99_ratio"] = found[f"{name}_with_p99_ms"] / found[f"{name}_without_p99_ms"]
        found["keys_ratio"] = found["many_with_p50_ms"] / found["few_with_p50_ms"]
        return found

    def _run(self, name: str, keys: int, schedule: dict[str, str]) -> dict[str, Any]:
        run, seconds = f"barrier-{name.replace('_', '-')}", self.engine.sizes.barrier_seconds
        tables = self.engine.base_of(run) / "keyed-count"
        # Rows of checkpoints that a truncation took out are read from the disk.
        often = {"execution.checkpointing.interval": f"{self.engine.sizes.barrier_interval_ms}ms"}
        settings = {
            **schedule,
            **often,
            "changelog.history.retention": "0",
            "changelog.truncation.grace": "1h",
        }
        command = [sys.executable, str(HERE / "keyed_count.py"), "api", str(_ENDLESS), str(keys)]
        stop = _Stop(tables / "changelog", seconds)
        self.engine.run_program(run, command, settings, stop_when=stop, watch_memory=False)
        log = checkpoints_on_disk(tables / "changelog").after(seconds / 3)
        times = acknowledgement_ms(log)
        if not times:
            raise RuntimeError(
                f"{run}: no checkpoint after {seconds / 3:.0f} s; make BENCH_BARRIER_SECONDS larger"
            )
        snapshots = len(list((tables / "snapshots").glob("snapshot-*")))
        if snapshots and schedule is _SCHEDULES["without"]:
            raise RuntimeError(f"{run}: {snapshots} files of snapshots, which the run was to be without")
        return {
            f"{name}_checkpoints": len(times),
            f"{name}_records_per_s": steady_records_per_s(log),
            f"{name}_snapshot_files": snapshots,
            **{f"{name}_{word}_ms": percentile(times, share) for word, share in _SHARES.items()},
        }
