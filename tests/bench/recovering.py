"""How long a job pauses after a failure, with local recovery and without: here, and in PyFlink."""

from __future__ import annotations

import functools
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from first_records import Notes
from log_figures import read_log
from peers import BesidePeers, newest_checkpoint
from processes import Outcome
from restored_count import FAILURES

HERE = Path(__file__).parent
_RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "10",
    "restart-strategy.fixed-delay.delay": "0 s",
}
_LOCALLY = re.compile(r"restored in ([0-9.]+) s(?:, of (\d+) subtasks locally)?$", re.MULTILINE)


class Pauses:
    """Makes a job fail, once in each way, when a checkpoint has all that came before.

    Args:
        notes: of the job.
        durable: whether there is a checkpoint that began after a time, in epoch seconds.
        failures: ways to fail, in turn.

    Attributes:
        seconds: by failure, from it to the first record of the subtask that came to one last.
    """

    def __init__(self, notes: Notes, durable: Callable[[float], bool], failures: tuple[str, ...]) -> None:
        self.seconds: dict[str, float] = {}
        self._notes = notes
        self._durable = durable
        self._left = list(failures)
        self._asked: str | None = None
        self._before: float | None = None

    def over(self) -> bool:
        """Take the next step, if it is time for it; whether a checkpoint came after the last failure."""
        failed = self._notes.failed()
        if self._asked is not None and failed == self._before:
            return False  # nobody has looked yet
        since = self._notes.grown() if failed is None else self._notes.first_after(failed)
        if since is None:
            return False
        if self._asked is not None and failed is not None:
            self.seconds[self._asked] = since - failed
        if not self._durable(since):
            return False
        if not self._left:
            return True
        self._asked, self._before = self._left.pop(0), failed
        self._notes.fail(self._asked)
        return False


class RecoveryBench(BesidePeers):
    """Runs restored_count.py, of whose keys an interval changes a hundredth."""

    def heap(self) -> dict[str, Any]:
        """State on the heap."""
        return self._both("recover", self.sizes.recover, {})

    def rocksdb(self) -> dict[str, Any]:
        """State in RocksDB."""
        settings = {"state.backend.type": "rocksdb", "changelog.rocksdb.cache-size": "256mb"}
        return self._both("recover-rocksdb", self.sizes.recover_rocksdb, settings)

    def pyflink(self) -> dict[str, Any]:
        """PyFlink after an exception, in its thread mode, without its changelog; to kill a worker is to kill all of it."""
        found: dict[str, Any] = {"keys": self.sizes.pyflink_recover}
        for backend in ("hashmap", "rocksdb"):
            for local in (False, True):
                found |= self._pyflink(backend, local)
        return found

    def _both(self, name: str, keys: int, settings: dict[str, str]) -> dict[str, Any]:
        """Both ways, each in a job of its own that fails in every way; seconds."""
        found: dict[str, Any] = {"keys": keys}
        for way, local in (("whole", "false"), ("local", "true")):
            base, notes = self.engine.base_of(name), Notes(self.engine.work / "notes" / name)
            pauses = Pauses(notes, functools.partial(_durable, base), FAILURES)
            command = [sys.executable, str(HERE / "restored_count.py"), "--touched", str(keys // 100)]
            command += ["api", str(keys), str(notes.folder)]
            chosen = {**_RESTARTS, "execution.state-recovery.from-local": local, **settings}
            outcome = self.engine.run_program(name, command, chosen, stop_when=pauses.over)
            restored = _LOCALLY.findall(
                (self.engine.work / "logs" / f"{name}.log").read_text(errors="replace")
            )
            shutil.rmtree(base)
            for failure, (seconds, kept) in zip(FAILURES, restored[-len(FAILURES) :], strict=True):
                found |= {
                    f"{failure}_{way}_s": pauses.seconds[failure],
                    f"{failure}_{way}_restored_s": float(seconds),
                    f"{failure}_{way}_kept": int(kept or 0),
                }
            found |= {f"{way}_workers_peak_mb": _peak_mb(outcome, "workers")}
        return found

    def _pyflink(self, backend: str, local: bool) -> dict[str, Any]:
        name, keys = "pyflink-recover", self.sizes.pyflink_recover
        notes = Notes(self.peers.work / "notes" / name)
        held = self.peers.work / "tables" / name / "checkpoints"
        pauses = Pauses(notes, lambda since: newest_checkpoint(held, since) is not None, FAILURES[:1])
        program = [
            "restored_count.py",
            "--touched",
            str(keys // 100),
            "pyflink",
            str(keys),
            str(notes.folder),
        ]
        settings = {
            **_RESTARTS,
            "state.backend.type": backend,
            "state.changelog.enabled": "false",
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.local-backup.enabled": str(local).lower(),
            "execution.state-recovery.from-local": str(local).lower(),
        }
        self.peers.run_pyflink(name, program, settings=settings, stop_when=pauses.over)
        return {f"{backend}_{'local' if local else 'whole'}_s": pauses.seconds[FAILURES[0]]}


def _durable(base: Path, since: float) -> bool:
    return any(checkpoint["time_ms"] > 1000 * since for checkpoint in read_log(base).checkpoints)


def _peak_mb(outcome: Outcome, role: str) -> float:
    return max((sample.get(role, 0) for _, sample in outcome.memory.samples), default=0) / 2**20
