"""One measurement, one process: start it in a session of its own, watch its memory, read its last word."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "RESULT "
SAMPLE_SECONDS = 0.25
# The kernel walks all pages of a process to count them, 10 ms for a gigabyte, and keeps it from mapping memory meanwhile.
_TIMES_AS_LONG = 100  # as counting took, until the next time


class MeasurementError(RuntimeError):
    """A measured process failed; the message has the end of its output."""


@dataclass
class Memory:
    """Resident bytes over time: (seconds since start, role -> bytes); roles: driver, workers, jvm."""

    samples: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def median(self, role: str, begin: float, end: float) -> float | None:
        """Median of a role's bytes between two fractions of the time, None without samples (no /proc here)."""
        if not self.samples:
            return None
        last = self.samples[-1][0]
        values = sorted(
            sample.get(role, 0)
            for at, sample in self.samples
            if begin * last <= at <= end * last and role in sample
        )
        return float(values[len(values) // 2]) if values else None


@dataclass
class Outcome:
    """What a measured process left.

    Its result, its memory, when it ran (epoch seconds), and the CPU seconds of it and of all that it started.
    """

    result: dict[str, Any]
    memory: Memory
    started: float
    ended: float
    cpu_s: float


def result_line(output: str) -> dict[str, Any] | None:
    """The last ``RESULT`` line of an output, as our own programs print it."""
    results = [line for line in output.splitlines() if line.startswith(PREFIX)]
    return json.loads(results[-1][len(PREFIX) :]) if results else None


def measure(
    name: str,
    command: list[str],
    logs: Path,
    environment: dict[str, str] | None = None,
    timeout_s: float = 900,
    stop_when: Callable[[], bool] | None = None,
    read: Callable[[str], dict[str, Any] | None] = result_line,
    watch_memory: bool = True,
) -> Outcome:
    """Run a command to its end and read the result that it prints.

    Args:
        name: names the log file.
        command: the command.
        logs: folder of its output.
        environment: added to this process's environment.
        timeout_s: the process and all it started are killed after this time.
        stop_when: asked about every quarter of a second; when it says True all are killed with SIGKILL, on purpose.
        read: finds the result in the output, or gives None.
        watch_memory: whether to count its pages, which disturbs what is measured to the millisecond.

    Returns:
        What was measured; an empty result when it was killed on purpose.

    Raises:
        MeasurementError: it failed, timed out or printed no result.
    """
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{name}.log"
    memory = Memory()
    cpu: dict[int, float] = {}
    started = due = time.time()
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=logs,
            start_new_session=True,
        )
        stopped = False
        try:
            while process.poll() is None:
                if time.time() - started > timeout_s:
                    raise MeasurementError(f"{name} took more than {timeout_s:.0f} s; its output is in {log}")
                if stop_when is not None and stop_when():
                    stopped = True
                    break
                if watch_memory and (began := time.time()) >= due:
                    sample = resident_bytes(process.pid)
                    due = time.time() + _TIMES_AS_LONG * (time.time() - began)
                    if sample:
                        memory.samples.append((time.time() - started, sample))
                cpu |= cpu_seconds(process.pid)
                threading.Event().wait(SAMPLE_SECONDS)
        finally:
            kill_session(process.pid)
            process.wait()
    ended = time.time()
    if stopped:
        return Outcome({}, memory, started, ended, sum(cpu.values()))
    text = log.read_text(errors="replace")
    result = read(text)
    if process.returncode != 0 or result is None:
        tail = "\n".join(text.splitlines()[-15:])
        raise MeasurementError(f"{name} ended with status {process.returncode}; the end of {log}:\n{tail}")
    return Outcome(result, memory, started, ended, sum(cpu.values()))


def session_members(session: int) -> list[int]:
    """Ids of the live processes of a session: PySpark's worker daemon leaves the process group, not the session."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[3]) == session and fields[0] != "Z":
            members.append(int(entry.name))
    return members


def cpu_seconds(session: int) -> dict[int, float]:
    """CPU seconds of each live process of a session so far; empty where there is no /proc."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    for process in session_members(session):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[process] = (int(fields[11]) + int(fields[12])) / ticks
    return found


def kill_session(session: int) -> None:
    """SIGKILL to every process of a session that `measure` started."""
    for process in session_members(session):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    try:
        os.killpg(session, signal.SIGKILL)  # where there is no /proc
    except (ProcessLookupError, PermissionError):
        return


def resident_bytes(session: int) -> dict[str, int]:
    """Resident bytes of a session's processes, by role; empty where there is no /proc.

    Pages that several processes share, as forks do, count once: each process has its share of them.
    """
    totals: dict[str, int] = {}
    for process in session_members(session):
        try:
            memory = Path(f"/proc/{process}/smaps_rollup").read_text()
            command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
        share = next((line.split()[1] for line in memory.splitlines() if line.startswith("Pss:")), None)
        if share is None:
            continue
        role = "jvm" if command.endswith(b"java") else "driver" if process == session else "workers"
        totals[role] = totals.get(role, 0) + int(share) * 1024
    return totals


def cpu_s_of(process: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
