"""A job's driver as a process of its own: started, watched from outside, killed, and started again.

Only processes of the session that a test started are ever looked at or killed: the driver leads a session, and its JVM,
Spark's executors and the Python workers stay in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from changelog_engine.changelog.log_files import parse_row
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from patience import Patience, session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLIGHTS = ROOT / "docs" / "examples" / "flights"
PIN = b"CHANGELOG_ENGINE_SUBTASK="
_BACKGROUND = "background/"
NAMED = "task "
LONGEST_WAIT_S = 180
_ASKS_EVERY_S, _ASKS_AT_LEAST_EVERY_S = 0.05, 0.5
_counted: dict[Path, tuple[list[str], int]] = {}  # a table's commits, and how many checkpoints they make


def often_killed(log: Path, interval: str = "500 ms") -> dict[str, object]:
    """The configuration of a job whose workers are killed while it runs.

    Args:
        log: base path of its changelog.
        interval: between two checkpoints.
    """
    return {
        "spark.master": "local[2]",
        "parallelism.default": 2,
        "state.changelog.enabled": True,
        "state.changelog.dstl.dfs.base-path": log,
        "execution.checkpointing.interval": interval,
        "changelog.epoch.read-ahead": True,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 50,
        "restart-strategy.fixed-delay.delay": "0 s",
    }


class Process(NamedTuple):
    """A live process as /proc shows it."""

    pid: int
    parent: int
    session: int
    command: str
    # "slot/stage" of the daemon that forked it; of PySpark's daemon "slot/stage/subtask"; "background/niceness" beside them
    pin: str | None
    name: str  # a pinned worker's has the subtask


class Driver:
    """The driver of a job, in a session of its own.

    Args:
        script: the program; below tests/spark unless it is absolute.
        arguments: its command line.
        options: configuration, handed over in a file.
        work: folder of its output and configuration.
        environment: added to this process's.
    """

    def __init__(
        self,
        script: str | Path,
        *arguments: object,
        options: Mapping[str, object] | None = None,
        work: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        work.mkdir(parents=True, exist_ok=True)
        conf = work / "conf.yaml"
        conf.write_text(json.dumps({key: str(value) for key, value in (options or {}).items()}))
        self.work = work
        self.log = work / "driver.log"
        self._began_at = self.log.stat().st_size if self.log.exists() else 0
        # A checkout is found by its path; an installed engine would be found anyway.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / script), *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=work,
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "CHANGELOG_ENGINE_CONF": str(conf),
                    **(environment or {}),
                },
                start_new_session=True,
            )
        self.pid = self.process.pid

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def output(self) -> str:
        """What this driver has printed so far."""
        return self.log.read_bytes()[self._began_at :].decode(errors="replace")

    def processes(self) -> list[Process]:
        """The live processes of the driver's session."""
        return list(processes_of(self.pid))

    def pinned(self) -> dict[str, list[int]]:
        """The pinned worker processes: "slot/stage/subtask" to pids; their daemons are not among them."""
        return pinned_of(self.processes())

    def background(self) -> list[int]:
        """The workers that make snapshots beside the job."""
        return background_of(self.processes())

    def kill_a_worker(self, chance: random.Random) -> None:
        """SIGKILL for one of the pinned worker processes, once there are some."""
        self.wait_for(self.pinned, what="worker")
        os.kill(chance.choice([pid for pids in self.pinned().values() for pid in pids]), signal.SIGKILL)

    def hurry(self) -> None:
        """Let a job that crawls run as fast as it can, and later ones in the same folder too: see counting_job.py."""
        (self.work / "hurry").touch()

    def stop(self) -> None:
        """SIGSTOP for the driver, its JVM and its workers, the one that makes new ones first."""
        for process in sorted(self.processes()):
            os.kill(process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT for all that was stopped."""
        for process in self.processes():
            os.kill(process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL for the driver alone; returns when it is gone. The rest of the session must end by itself."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()

    def wait_gone(self, timeout_s: float = 30) -> None:
        """Wait until no process of the session is left."""
        left = lambda: [process.pid for process in self.processes()]  # noqa: E731
        wait_for(lambda: not left(), timeout_s, lambda: f"still there: {self.processes()}", left)

    def wait_for(
        self, condition: Callable[[], object], timeout_s: float = LONGEST_WAIT_S, what: str = ""
    ) -> None:
        """Wait for a condition while the driver lives, and works: ``timeout_s`` without that are too long."""

        def check() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, (
                f"the driver ended before {what or 'the condition'}:\n{self.output}"
            )
            return False

        wait_for(check, timeout_s, lambda: f"no {what or 'condition'} yet:\n{self.output}", self._works)

    def end(self, timeout_s: float = LONGEST_WAIT_S) -> int:
        """Wait for the driver's end, as long as it works; returns its exit status."""
        message = f"the driver does nothing for {timeout_s} s and has not ended"
        wait_for(
            lambda: self.process.poll() is not None,
            timeout_s,
            lambda: f"{message}:\n{self.output}",
            self._works,
        )
        return self.process.returncode

    def _works(self) -> object:
        """What changes while the driver, its JVM and its workers do something."""
        found = session(self.pid)
        return found.processes, found.effort, self.log.stat().st_size


def wait_for(
    condition: Callable[[], object],
    timeout_s: float = LONGEST_WAIT_S,
    message: Callable[[], str] = str,
    works: Callable[[], object] = bool,
) -> None:
    """Ask until it is true, 20 times a second; give up when what ``works`` gives has been the same for ``timeout_s``.

    Who asks leaves three quarters of its core to what it waits for: what takes long to find out is asked less often.
    """
    patience = Patience(timeout_s)
    looks_again = 0.0
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        if now >= looks_again:
            assert not patience.has_run_out(works()), f"waited {timeout_s} s in vain. {message()}"
            looks_again = now + 1
        time.sleep(min(max(_ASKS_EVERY_S, 3 * (now - began)), _ASKS_AT_LEAST_EVERY_S))


def checkpoints(table: Path) -> int:
    """How many checkpoints a job has committed, those that were truncated included; 0 before there is a table.

    Those who wait ask 20 times a second: the log is read again when there is a file more in it, or one less.
    """
    try:
        commits = sorted(os.listdir(table / "_delta_log"))
        known = _counted.get(table)
        if known is None or known[0] != commits:
            paths = DeltaLog(open_storage(str(table))).files()["path"].to_pylist()
            names = [parse_row(path) for path in paths]
            most = max((name.checkpoint for name in names if name is not None), default=0)
            known = _counted[table] = commits, most
        return known[1]
    except (ChangelogEngineError, OSError):
        return 0


def newest_checkpoint(base: str, name: str) -> int:
    """Id of a job's newest checkpoint; 0 before there is one. On S3 each time costs ten requests."""
    time.sleep(0.5)
    try:
        found = Lineage(find_job_folder(base, name).open_changelog()).newest_checkpoint()
    except ChangelogEngineError:
        return 0
    return 0 if found is None else found.id


def pinned_of(processes: list[Process]) -> dict[str, list[int]]:
    """The pinned workers among processes; see Driver.pinned."""
    return {pin: pids for pin, pids in _workers(processes).items() if not pin.startswith(_BACKGROUND)}


def background_of(processes: list[Process]) -> list[int]:
    """The workers among processes that run tasks beside epochs."""
    return [pid for pin, pids in _workers(processes).items() if pin.startswith(_BACKGROUND) for pid in pids]


def _workers(processes: list[Process]) -> dict[str, list[int]]:
    by_pid = {process.pid: process for process in processes}
    found: dict[str, list[int]] = {}
    for process in processes:
        daemon = by_pid.get(process.parent)
        if process.pin is not None and daemon is not None and daemon.pin == process.pin:
            named = process.name.startswith((NAMED, _BACKGROUND))  # else by a daemon of its own
            pin = process.name.removeprefix(NAMED) if named else process.pin
            if pin.count("/") == 2 or pin.startswith(_BACKGROUND):  # else it was forked this moment
                found.setdefault(pin, []).append(process.pid)
    return found


def own_descendants() -> list[Process]:
    """The live processes that this process started, and those that they started."""
    processes = list(all_processes())
    found, known = [], {os.getpid()}
    while new := [p for p in processes if p.parent in known and p.pid not in known]:
        found += new
        known.update(p.pid for p in new)
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def processes_of(session: int) -> Iterator[Process]:
    """The live processes of a session."""
    return _processes(lambda found: found == session)


def all_processes() -> Iterator[Process]:
    """The live processes of this machine."""
    return _processes(lambda _: True)


def _processes(wanted: Callable[[int], bool]) -> Iterator[Process]:
    """Those whose session is wanted: of the others, which are many, only that is read."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = _read(pid, "stat").rpartition(b")")[2].split()
            if fields[0] == b"Z" or not wanted(int(fields[3])):
                continue
            command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
            variables = _read(pid, "environ").split(b"\0")
            name = _read(pid, "comm").decode().strip()
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
        pin = next((v.removeprefix(PIN).decode() for v in variables if v.startswith(PIN)), None)
        yield Process(int(pid), int(fields[1]), int(fields[3]), command, pin, name)


def _read(pid: str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
