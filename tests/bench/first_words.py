"""The README's first example as a user runs it: until its first line is out, until it has ended, and whose the CPU time is.

Twice, one after the other, in each round: as jobs start, and with Java as it is by itself.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from processes import MeasurementError, kill_session, session_members

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
WAYS = {"now": "{}\n", "plain_java": 'changelog.jvm.options: ""\nchangelog.jvm.class-archive: false\n'}
_TIMEOUT_S = 300
_SAMPLE_S = 0.05


class StartBench:
    """Starts of ``words.py``.

    Args:
        work: a folder for what is measured.
    """

    def __init__(self, work: Path) -> None:
        self._folder = work / "words"

    def words(self) -> dict[str, Any]:
        """Medians of the runs' seconds and CPU seconds, with what each run had."""
        self._folder.mkdir(parents=True, exist_ok=True)
        program = re.search(r"```python run=words.py\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        if program is None:
            raise MeasurementError("README.md has no words.py")
        (self._folder / "words.py").write_text(program[1])
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}
        environment["CHANGELOG_ENGINE_CACHE"] = str(self._folder / "cache")
        # It is made once for each Java and Spark, so the first run of all is not what is measured here.
        subprocess.run(
            [sys.executable, "-m", "changelog_engine", "class-archive"],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, configuration in WAYS.items():
                (self._folder / "conf.yaml").write_text(configuration)
                conf = {"CHANGELOG_ENGINE_CONF": str(self._folder / "conf.yaml")}
                runs[way].append(self._run({**environment, **conf}))
        result: dict[str, Any] = {"runs": runs}
        for way, figures in runs.items():
            for name in figures[0]:
                result[f"{way}_{name}"] = statistics.median(run[name] for run in figures)
        return result

    def _run(self, environment: dict[str, str]) -> dict[str, float]:
        shutil.rmtree(self._folder / "changelog-data", ignore_errors=True)
        used: dict[tuple[int, str], float] = {}
        first = None
        with (self._folder / "words.log").open("w+") as output:
            started = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-u", "words.py"],
                cwd=self._folder,
                env=environment,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                while process.poll() is None and time.monotonic() - started < _TIMEOUT_S:
                    used |= cpu_seconds(process.pid)
                    if first is None and os.path.getsize(output.name):
                        first = time.monotonic() - started
                    time.sleep(_SAMPLE_S)
                whole = time.monotonic() - started
                while session_members(process.pid) and time.monotonic() - started < _TIMEOUT_S:
                    used |= cpu_seconds(process.pid)
                    time.sleep(_SAMPLE_S)
            finally:
                kill_session(process.pid)
                process.wait()
            printed = Path(output.name).read_text().split("\n")
        if process.returncode or first is None or sorted(printed) != sorted([*_EXPECTED, ""]):
            raise MeasurementError(f"words.py ended with status {process.returncode}; it printed {printed}")
        roles: dict[str, float] = defaultdict(float)
        for (_, role), seconds in used.items():
            roles[role] += seconds
        cpu = {f"cpu_{role}_s": roles[role] for role in ("jvm", "driver", "workers")}
        return {"first_s": first, "whole_s": whole, "cpu_s": sum(roles.values()), **cpu}


_EXPECTED = ("to 1", "be 1", "or 1", "not 1", "to 2", "be 2")


def cpu_seconds(session: int) -> dict[tuple[int, str], float]:
    """CPU seconds of a session's processes so far, by their id and role: jvm, driver, workers."""
    found = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for process in session_members(session):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue  # it ended meanwhile
        role = "jvm" if command.endswith(b"java") else "driver" if process == session else "workers"
        found[process, role] = (int(fields[11]) + int(fields[12])) / ticks
    return found
