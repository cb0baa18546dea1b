"""The others, on the same machine in the same run: (b) a plain loop, (c) PyFlink, (d) Spark, (e) the design's prototype."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from engine import EngineBench
from first_records import Notes
from flights import JOB, cut, expected_lines
from log_figures import percentile
from processes import Outcome, measure, result_line
from sizes import Sizes
from workloads import MERGING

HERE = Path(__file__).parent
PYFLINK = "apache-flink==2.3.0"
COMPLETED = re.compile(r"Completed checkpoint \d+ for .*checkpointDuration=(\d+) ms")
# Where a process cut a log that another goes on with, the system fills the gap with zeros.
_TASK_SWITCHED = re.compile(
    r"^\0*(\d\S+ \S+) .* switched from (INITIALIZING to RUNNING|RUNNING to FINISHED)\.$", re.MULTILINE
)
_LINE_EVERY = 100  # flights or pauses, so that what is printed says much of the state
PROTOTYPE_RATE = re.compile(r"throughput (\d+) rec/s")


class Peers:
    """Runs each peer in a process of its own, one at a time.

    Args:
        work: folder for environments, tables and logs.
        sizes: how much to do.
        shared: folder that may hold ``prototypes/epoch.py``.
    """

    def __init__(self, work: Path, sizes: Sizes, shared: Path) -> None:
        self.work = work
        self.logs = work / "logs"
        self.sizes = sizes
        self.shared = shared

    def dict_loop(self) -> dict[str, Any]:
        """(b) the pure Python loop that calls the same function over a dictionary."""
        command = [
            sys.executable,
            str(HERE / "dict_loop.py"),
            "api",
            str(self.sizes.loop),
            str(self.sizes.keys),
        ]
        return measure("dict-loop", command, self.logs).result

    def pyflink(self) -> dict[str, Any]:
        """(c) the same program with PyFlink's package, thread mode, its changelog on."""
        return self.keyed_count("pyflink", self.sizes.pyflink, self.sizes.keys)

    def keyed_count(
        self, name: str, records: int, keys: int, settings: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The keyed count with PyFlink's package. Checkpoint durations are what its own coordinator logs.

        Args:
            name: names its folder and log.
            records, keys: how many.
            settings: more of them than (c) has.
        """
        program = ["keyed_count.py", "pyflink", str(records), str(keys)]
        outcome, folder = self.run_pyflink(name, program, settings=settings)
        result = {**outcome.result, "steady_records_per_s": records / running_s(folder / "log")}
        durations = [
            float(found)
            for log in (folder / "log").glob("*.log")
            for found in COMPLETED.findall(log.read_text(errors="replace"))
        ]
        if durations:
            result |= {
                "checkpoints": len(durations),
                "acknowledgement_p50_ms": percentile(durations, 0.5),
                "acknowledgement_p99_ms": percentile(durations, 0.99),
            }
        return result

    def workload_loop(self, name: str) -> dict[str, Any]:
        """One of workloads.py as a plain loop; see plain_loops.py."""
        command = [sys.executable, str(HERE / "workloads.py"), "loop", name, str(self.sizes.workload_loop)]
        return measure(f"loop-{name}", command, self.logs).result

    def pyflink_workload(self, name: str) -> dict[str, Any]:
        """One of workloads.py with PyFlink, set up as in (c). Its thread mode fails on windows that merge."""
        merging = name in MERGING
        records = self.sizes.pyflink_sessions if merging else self.sizes.pyflink_workload
        program = ["workloads.py", "pyflink", name, str(records)]
        outcome, folder = self.run_pyflink(f"pyflink-{name}", program, "process" if merging else "thread")
        steady = records / running_s(folder / "log")
        return {**outcome.result, "steady_records_per_s": steady}

    def pyflink_flights(self) -> dict[str, Any]:
        """The flights job in PyFlink, set up as in (c); only its lines of progress come more often, to be compared.

        Raises:
            RuntimeError: it printed other lines than the plain computation.
        """
        path = cut(self.work, self.sizes.pyflink_flights)
        program = self.in_pyflink(JOB / "flights_job.py")
        often = program.read_text().replace("PROGRESS_EVERY = 10_000\n", f"PROGRESS_EVERY = {_LINE_EVERY}\n")
        program.write_text(often)
        arguments = ["flights.py", "pyflink", str(path)]
        settings = {"python.files": str(program)}
        outcome, folder = self.run_pyflink("pyflink-flights", arguments, settings=settings)
        wanted = expected_lines(path, _LINE_EVERY)
        printed = (self.logs / "pyflink-flights.log").read_text().splitlines()
        found = sorted(line[3:] for line in printed if line[1:3] == "> ")  # behind the subtask's number
        if found != wanted:
            others = sorted(set(found) ^ set(wanted)) or ["a line came twice"]
            raise RuntimeError(
                f"{len(found)} lines instead of {len(wanted)}; the first that differs: {others[0]}"
            )
        flights, seconds = outcome.result["flights"], outcome.result["seconds"]
        return {
            **outcome.result,
            "flights_per_s": flights / seconds,
            "running_flights_per_s": flights / running_s(folder / "log"),
            "cpu_s": outcome.cpu_s,
            "lines_compared": len(wanted),
        }

    def pyflink_restore(self) -> dict[str, Any]:
        """Time to the first record with the state of a checkpoint to restore, less that of a start without.

        The first job is killed after a checkpoint that holds its keys; the second starts from it.
        """
        folder = self.work / "tables" / "pyflink-restore"
        shutil.rmtree(folder, ignore_errors=True)
        program = ["restored_count.py", "pyflink", str(self.sizes.restore), str(folder / "notes")]
        began, held = Notes(folder / "notes"), folder / "checkpoints"

        def grown() -> bool:
            return (at := began.grown()) is not None and newest_checkpoint(held, at) is not None

        retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
        self.run_pyflink("pyflink-restore", program, settings=retained, stop_when=grown, keep=True)
        fresh_s = began.seconds_to_first()
        checkpoint = newest_checkpoint(held, began.grown() or 0)
        restored = Notes(folder / "notes")
        retained |= {"execution.state-recovery.path": f"file://{checkpoint}"}
        self.run_pyflink(
            "pyflink-restored", program, settings=retained, stop_when=restored.all_began, keep=True
        )
        restored_s = restored.seconds_to_first()
        return {"fresh_s": fresh_s, "restored_s": restored_s, "restore_s": restored_s - fresh_s}

    def run_pyflink(
        self,
        name: str,
        program: list[str],
        mode: str = "thread",
        settings: dict[str, str] | None = None,
        stop_when: Callable[[], bool] | None = None,
        keep: bool = False,
        read: Callable[[str], dict[str, Any] | None] = result_line,
    ) -> tuple[Outcome, Path]:
        """Run a program that takes KEY=VALUE settings last in PyFlink's environment.

        Args:
            name: names its folder and log.
            program: a script, beside this one unless it is absolute, and its arguments.
            mode: PyFlink's execution mode.
            settings: more of them.
            stop_when: see `measure`.
            keep: whether what is in its folder stays.
            read: see `measure`.

        Returns:
            What was measured, and the folder with PyFlink's logs.
        """
        python = self._pyflink_python()
        folder = self.work / "tables" / name
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        (folder / "log").mkdir(parents=True, exist_ok=True)
        merged = {
            "python.execution-mode": mode,
            "restart-strategy.type": "none",
            "python.state.cache-size": "200000",
            "python.executable": str(python),
            "state.backend.type": "hashmap",
            "state.changelog.enabled": "true",
            "state.changelog.storage": "filesystem",
            "state.changelog.dstl.dfs.base-path": f"file://{folder}/changelog",
            "execution.checkpointing.interval": "1s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            **(settings or {}),
        }
        command = [str(python), str(HERE / program[0]), *program[1:]]
        command += [f"{key}={value}" for key, value in merged.items()]
        # Thread mode finds its interpreter library only in an activated environment.
        environment = {
            "VIRTUAL_ENV": str(python.parent.parent),
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "FLINK_LOG_DIR": str(folder / "log"),
        }
        return measure(name, command, self.logs, environment, 1800, stop_when, read), folder

    def in_pyflink(self, job: Path) -> Path:
        """The program of a job as PyFlink's, in the work folder: only the package that it imports is another."""
        program = self.work / job.name
        program.write_text(job.read_text().replace("changelog_engine.api", "pyflink"))
        return program

    def spark(self) -> dict[str, Any]:
        """(d) Spark's transformWithState in Python."""
        folder = self.work / "tables" / "spark"
        shutil.rmtree(folder, ignore_errors=True)
        sizes = [self.sizes.spark_batch, self.sizes.spark_batches, self.sizes.keys]
        command = [sys.executable, str(HERE / "spark_state.py"), *map(str, sizes), str(folder)]
        return measure("spark", command, self.logs, _workers_of_this_python(), timeout_s=1800).result

    def prototype(self) -> dict[str, Any] | None:
        """(e) the design's prototype, called where it lies; None when that folder is not at hand."""
        folder = self.shared / "prototypes"
        if not (folder / "epoch.py").exists():
            return None
        tables = self.work / "tables" / "prototype"
        environment = _workers_of_this_python() | {
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PROTO_DIR": str(tables),
            "N": str(self.sizes.prototype_epoch),
            "E": str(self.sizes.prototype_epochs),
            "K": str(self.sizes.keys),
        }
        try:
            command = [sys.executable, str(folder / "epoch.py")]
            return measure("prototype", command, self.logs, environment, read=_prototype_result).result
        finally:
            shutil.rmtree(tables, ignore_errors=True)

    def _pyflink_python(self) -> Path:
        """The interpreter of PyFlink's environment, which is made when it isn't there."""
        environment = self.work / "pyflink"
        python = environment / "bin" / "python"
        ready = environment / ".set-up"
        if not ready.exists() or ready.read_text() != PYFLINK:
            print(f"Making an environment for {PYFLINK} (about 1.5 GB) ...", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", PYFLINK], check=True)
            ready.write_text(PYFLINK)
        return python


def running_s(logs: Path) -> float:
    """From when the last task of a job ran to when the last one ended, as PyFlink logs it: without its start and its end."""
    text = "".join(log.read_text(errors="replace") for log in logs.glob("*.log"))
    ran, ended = (
        max(
            datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f")
            for at, how in _TASK_SWITCHED.findall(text)
            if how == wanted
        )
        for wanted in ("INITIALIZING to RUNNING", "RUNNING to FINISHED")
    )
    return (ended - ran).total_seconds()


def newest_checkpoint(folder: Path, after: float) -> Path | None:
    """The newest complete checkpoint that began after a time, in seconds."""
    found = [
        path.parent
        for path in folder.glob("*/chk-*/_metadata")
        if path.parent.stat().st_ctime >= after and path.stat().st_mtime > after + 1
    ]
    return max(found, key=lambda path: int(path.name.removeprefix("chk-")), default=None)


def _prototype_result(output: str) -> dict[str, Any] | None:
    """It prints its figures in its own words."""
    found = PROTOTYPE_RATE.search(output)
    return {"records_per_s": float(found[1])} if found else None


def _workers_of_this_python() -> dict[str, str]:
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


class BesidePeers:
    """A measurement that is made here and in PyFlink.

    Args:
        engine: runs it here.
        peers: have PyFlink's environment.
    """

    def __init__(self, engine: EngineBench, peers: Peers) -> None:
        self.engine = engine
        self.peers = peers
        self.sizes = engine.sizes
