"""Measurement (a) and what follows from it: throughput, acknowledgement, small epochs, restore, memory."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from first_records import Notes
from flights import cut
from log_figures import (
    acknowledgement_ms,
    epoch_ms,
    percentile,
    read_log,
    records_read_per_s,
    steady_records_per_s,
)
from processes import Outcome, measure, result_line
from sizes import Sizes
from workloads import FAST, LONGER

HERE = Path(__file__).parent
SHAPES = ((1, 2), (2, 2), (3, 2), (6, 2), (2, 8), (2, 32), (2, 128))  # stages, and subtasks of each
EPOCH_RECORDS = "python.fn-execution.bundle.size"  # of one source subtask; there are two


class EngineBench:
    """Runs the keyed count on this engine, each time in a fresh folder and a process of its own.

    Args:
        work: folder for tables and logs.
        sizes: how much to do.
        tree: the checkout whose engine runs; None for this one.
    """

    def __init__(self, work: Path, sizes: Sizes, tree: Path | None = None) -> None:
        self.work = work
        self.sizes = sizes
        self.environment = None if tree is None else {"PYTHONPATH": str(tree)}

    def throughput(self) -> dict[str, Any]:
        """The main run: 1 s checkpoints, changelog on."""
        outcome = self._run("engine", self.sizes.engine, self.sizes.keys)
        log = read_log(self.base_of("engine"))
        acknowledgement = acknowledgement_ms(log)
        if log.rows != self.sizes.engine:
            raise RuntimeError(f"the log has {log.rows} mutations for {self.sizes.engine} records")
        return {
            **outcome.result,
            "steady_records_per_s": steady_records_per_s(log),
            "checkpoints": len(log.checkpoints),
            "acknowledgement_p50_ms": percentile(acknowledgement, 0.5),
            "acknowledgement_p99_ms": percentile(acknowledgement, 0.99),
            "log_bytes_per_mutation": sum(checkpoint["bytes"] for checkpoint in log.checkpoints) / log.rows,
        }

    def growth(self) -> dict[str, Any]:
        """Acknowledgement with few and with many keys, everything else the same."""
        medians = {}
        for name, keys in (("few", self.sizes.few_keys), ("many", self.sizes.many_keys)):
            self._run(f"{name}-keys", self.sizes.growth, keys)
            medians[name] = percentile(acknowledgement_ms(read_log(self.base_of(f"{name}-keys"))), 0.5)
        return {
            **{f"{name}_p50_ms": ms for name, ms in medians.items()},
            "ratio": medians["many"] / medians["few"],
        }

    def small_epochs(self) -> dict[str, Any]:
        """Epochs of a fixed small size, a checkpoint at the end of each."""
        records = self.sizes.small_epoch * self.sizes.small_epochs
        self._run("small-epochs", records, self.sizes.keys, self.epochs_of(self.sizes.small_epoch))
        times = epoch_ms(read_log(self.base_of("small-epochs")))
        return {"epochs": len(times), "p50_ms": statistics.median(times), "p99_ms": percentile(times, 0.99)}

    def epoch_cost(self) -> dict[str, Any]:
        """What an epoch costs that has next to nothing to do, by stages and subtasks; see epoch_cost.py."""
        found = {}
        for stages, subtasks in SHAPES:
            name = f"{stages}x{subtasks}"
            epochs = max(20, self.sizes.cost_subtasks // (stages * subtasks))
            command = [sys.executable, str(HERE / "epoch_cost.py"), str(stages), str(subtasks), str(epochs)]
            settings = {EPOCH_RECORDS: "5", "execution.checkpointing.interval": "1ms"}
            found[name] = self.run_program(f"epoch-cost-{name}", command, settings).result
        return found

    def restore(self) -> dict[str, Any]:
        """Kill a job when its log has a mutation for each of a million keys, start it again, see when it goes on.

        Measured from the attempt's row (Spark is up) to the barrier of its first checkpoint, so a first epoch is in it.
        """
        base = self.base_of("restore")
        wanted = self.sizes.restore
        settings = self.epochs_of(max(2, wanted // 20))
        self._run(
            "restore", wanted * 3 // 2, wanted, settings, stop_when=lambda: read_log(base).rows >= wanted
        )
        before = read_log(base)
        if before.checkpoints[-1]["finished"]:
            raise RuntimeError("the job ended before it could be killed; make BENCH_RESTORE larger")
        self._run("restore", wanted * 3 // 2, wanted, settings, keep=True)
        after = read_log(base)
        first, second = after.attempts[0], after.attempts[1]
        began = {
            attempt["id"]: next(c["time_ms"] for c in after.checkpoints if c["attempt"] == attempt["id"])
            - attempt["time_ms"]
            for attempt in (first, second)
        }
        return {
            "mutations": before.rows,
            "fresh_start_s": began[first["id"]] / 1000,
            "restored_start_s": began[second["id"]] / 1000,
            "restore_s": next(c["restored_ms"] for c in after.checkpoints if c["attempt"] == second["id"])
            / 1000,
            "exact": after.rows == wanted * 3 // 2,
        }

    def first_record(self) -> dict[str, Any]:
        """As Peers.pyflink_restore, here: killed with all keys in a checkpoint, started again, time to the first record."""
        name = "first-record"
        base, notes = self.base_of(name), self.work / "notes" / name
        program = [str(HERE / "restored_count.py"), "api", str(self.sizes.restore), str(notes)]
        began = Notes(notes)

        def grown() -> bool:
            at = began.grown()
            return at is not None and any(c["time_ms"] > 1000 * at for c in read_log(base).checkpoints)

        self.run_program(name, [sys.executable, *program], stop_when=grown)
        fresh_s = began.seconds_to_first()
        rows = read_log(base).rows
        restored = Notes(notes)
        self.run_program(name, [sys.executable, *program], keep=True, stop_when=restored.all_began)
        restored_s = restored.seconds_to_first()
        return {
            "fresh_s": fresh_s,
            "restored_s": restored_s,
            "restore_s": restored_s - fresh_s,
            "mutations": rows,
        }

    def rescale(self) -> dict[str, Any]:
        """The job of first_record with all keys in a checkpoint, rescaled from outside while it runs: how long it paused."""
        name = "rescale"
        base, notes = self.base_of(name), self.work / "notes" / name
        program = [str(HERE / "restored_count.py"), "api", str(self.sizes.restore), str(notes)]
        began, pauses = Notes(notes), {}

        def rescaled() -> bool:
            if began.grown() is None:
                return False
            for step, wanted in (("up_s", 4), ("down_s", 2)):
                told = _console("rescale", str(base / "restored-count"), str(wanted))
                pauses[step] = float(told.rpartition("paused for ")[2].split()[0])
            return True

        self.run_program(name, [sys.executable, *program], stop_when=rescaled)
        log = read_log(base)
        return {**pauses, "mutations": log.rows, "attempts": len(log.attempts)}

    def memory(self) -> dict[str, Any]:
        """Resident memory over many epochs of the same keys: its last quarter against its second."""
        records = self.sizes.memory_epoch * self.sizes.memory_epochs
        settings = self.epochs_of(self.sizes.memory_epoch)
        outcome = self._run("memory", records, self.sizes.memory_epoch, settings)
        result: dict[str, Any] = {"epochs": len(read_log(self.base_of("memory")).checkpoints)}
        for role in ("driver", "workers", "jvm"):
            early, late = outcome.memory.median(role, 0.25, 0.5), outcome.memory.median(role, 0.75, 0.95)
            if early and late:
                result |= {f"{role}_mb": late / 2**20, f"{role}_growth": late / early}
        return result

    def run_count(self, name: str, records: int, settings: dict[str, str]) -> Path:
        """The main run again with other settings; gives the folder of its tables."""
        self._run(name, records, self.sizes.keys, settings)
        return self.base_of(name)

    def workload(self, name: str) -> dict[str, Any]:
        """One of workloads.py."""
        records = self.sizes.workload * (LONGER if name in FAST else 1)
        result = self.measured_workload(name, records).result
        result["steady_records_per_s"] = records_read_per_s(read_log(self.base_of(name)))
        return result

    def workload_cpu(self, name: str) -> dict[str, Any]:
        """One of workloads.py without Spark: the CPU time of its subtasks."""
        command = [sys.executable, str(HERE / "workloads.py"), "in_process", name]
        return self.run_program(f"cpu-{name}", [*command, str(self.sizes.workload // 4)]).result

    def flights(self, how: str, read_ahead: bool = False) -> dict[str, Any]:
        """The demo's job, unpaced; see flights.py."""
        path = cut(self.work, self.sizes.flights)
        name = f"flights-{how}{'-ahead' if read_ahead else ''}"
        program = [sys.executable, str(HERE / "flights.py")]
        ahead = {"changelog.epoch.read-ahead": "true"} if read_ahead else None
        outcome = self.run_program(name, [*program, how, str(path)], ahead)
        result = outcome.result
        if how in ("reference", "loop"):
            return result
        result["flights_per_s"] = result["flights"] / result["seconds"]
        if how == "spark":
            result["cpu_s"] = outcome.cpu_s
            log = read_log(self.base_of(name))
            running_ms = log.checkpoints[-1]["time_ms"] - log.attempts[0]["time_ms"]
            result["running_flights_per_s"] = result["flights"] * 1000 / running_ms
        there = {"state.changelog.dstl.dfs.base-path": str(self.base_of(name))}
        compared = self.run_program(f"{name}-compared", [*program, "compare", str(path)], there)
        return {**result, "values_compared": compared.result["values_compared"]}

    def keyed_count(self, records: int) -> Outcome:
        """The keyed count with so many records, for a comparison."""
        return self._run("keyed-count", records, self.sizes.keys)

    def measured_workload(self, name: str, records: int) -> Outcome:
        """One of workloads.py with so many records, for a comparison."""
        return self.run_program(name, [sys.executable, str(HERE / "workloads.py"), "api", name, str(records)])

    def _run(
        self,
        name: str,
        records: int,
        keys: int,
        settings: dict[str, str] | None = None,
        keep: bool = False,
        stop_when: Any = None,
    ) -> Outcome:
        command = [sys.executable, str(HERE / "keyed_count.py"), "api", str(records), str(keys)]
        return self.run_program(name, command, settings, keep, stop_when)

    def run_program(
        self,
        name: str,
        command: list[str],
        settings: dict[str, str] | None = None,
        keep: bool = False,
        stop_when: Any = None,
        read: Callable[[str], dict[str, Any] | None] = result_line,
        watch_memory: bool = True,
    ) -> Outcome:
        """Run a program that takes KEY=VALUE settings last, in a fresh base path.

        Args:
            name: names its base path and log.
            command: the program, without settings.
            settings: more of them.
            keep: whether what is in the base path stays.
            stop_when: see `measure`.
            read: see `measure`.
            watch_memory: see `measure`.
        """
        base = self.base_of(name)
        if not keep:
            shutil.rmtree(base, ignore_errors=True)
        merged = {
            "spark.master": "local[2]",
            "spark.driver.memory": "4g",
            "state.backend.type": "hashmap",
            "state.changelog.enabled": "true",
            "state.changelog.dstl.dfs.base-path": str(base),
            "execution.checkpointing.interval": "1s",
            **(settings or {}),
        }
        command += [f"{key}={value}" for key, value in merged.items()]
        return measure(
            name,
            command,
            self.work / "logs",
            self.environment,
            stop_when=stop_when,
            read=read,
            watch_memory=watch_memory,
        )

    def epochs_of(self, records: int) -> dict[str, str]:
        """Settings for epochs of a fixed size, a checkpoint at the end of each."""
        return {EPOCH_RECORDS: str(max(1, records // 2)), "execution.checkpointing.interval": "1ms"}

    def base_of(self, name: str) -> Path:
        """The base path of a run."""
        return self.work / "tables" / name


def _console(*arguments: str) -> str:
    """What a command of the console prints.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    program = [sys.executable, "-c", "from changelog_engine.cli import main; main()", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout
