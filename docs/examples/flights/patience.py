"""When to stop waiting for a program: when it makes no progress, never because it is slow."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PIN = b"CHANGELOG_ENGINE_SUBTASK="
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CPU_STEP_S = 10  # less is what programs use that wait for nothing: 3 % of a core in five minutes


class Patience:
    """Runs out when the signs of life have stayed the same for a time.

    Args:
        seconds: that time.
        clock: monotonic seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._signs: object = None
        self._since = clock()

    def has_run_out(self, *signs: object) -> bool:
        """Whether the signs are those of so long ago."""
        now = self._clock()
        if signs != self._signs:
            self._signs, self._since = signs, now
        return now - self._since > self.seconds


@dataclass(frozen=True)
class Session:
    """The processes of a session as /proc shows them at one moment.

    Args:
        processes: how many there are.
        java: whether Spark's JVM is one of them.
        workers: how many are workers of the job's subtasks.
        cpu_s: processor time that they have used.
    """

    processes: int = 0
    java: bool = False
    workers: int = 0
    cpu_s: float = 0.0

    @property
    def effort(self) -> int:
        """Grows with the work that is done; not by what idle processes use."""
        return int(self.cpu_s / _CPU_STEP_S)


def session(leader: int) -> Session:
    """Look at a session.

    Args:
        leader: process id of the one that began it.
    """
    pins: dict[int, tuple[int, bytes | None]] = {}
    java, cpu = False, 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) != leader or fields[0] == "Z":
                continue
            cpu += int(fields[11]) + int(fields[12])
            java = java or (entry / "cmdline").read_bytes().split(b"\0")[0].endswith(b"java")
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        pins[int(entry.name)] = (int(fields[1]), next((v for v in variables if v.startswith(_PIN)), None))
    # A daemon of PySpark's has the variable too; its workers are its children.
    workers = [
        pin for parent, pin in pins.values() if pin is not None and pins.get(parent, (0, None))[1] == pin
    ]
    return Session(len(pins), java, len(workers), cpu / _TICKS_PER_S)
