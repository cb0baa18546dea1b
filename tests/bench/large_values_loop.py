"""RocksDB alone under the values of large_values.py: the most that its job can do on this machine.

``python large_values_loop.py KEYS FOLDER``. Two processes each set half of the keys and then read and replace every second
one, in the job's order, through the engine's own store, with its options; what changed is written 10,000 keys at a time.
There is no job, log or exchange. The last line printed is the result as JSON; CPU is that of RocksDB's threads,
too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any

from changelog_engine.state.entry_bytes import dump, load
from changelog_engine.state.identity_bytes import encoder
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.rocksdb_options import rocksdb_options
from changelog_engine.state.rocksdb_store import BatchWriter, RocksStore
from keyed_count import MULTIPLIER, report
from large_values import value_of

_BATCH = 10_000
_OPTIONS = {"state.backend.rocksdb.memory.fixed-per-slot": "256mb"}


def _half(half: int, folder: str, begins: Any) -> dict[str, float]:
    """One process: half the keys; seconds and CPU seconds of setting and of replacing."""
    store, bytes_of = RocksStore(LocalFolder(folder, "loop"), rocksdb_options(_OPTIONS)), encoder(b"\0\0")
    found: dict[str, float] = {}
    try:
        for phase, numbers in (("set", range(half)), ("replace", range(half, half * 3 // 2))):
            begins.wait()  # both at once
            began, cpu = time.perf_counter(), time.process_time()
            for some in _batched(numbers):
                changed = {}
                for number in some:
                    key = number * MULTIPLIER % half
                    if phase == "replace":
                        data = store.get(bytes_of(key))
                        if data is None or int(load(data)[:16]) != number - half:
                            raise ValueError(f"number {number} did not find the one before")
                    changed[key] = value_of(number)
                writer = BatchWriter(store)
                for key in sorted(changed):
                    writer.put(bytes_of(key), dump(changed[key]))
                writer.finish()
            found[phase] = time.perf_counter() - began
            found[f"{phase}_cpu"] = time.process_time() - cpu
    finally:
        store.close()
    return found


def _batched(numbers: range) -> list[range]:
    return [numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH)]


def _run(half: int, folder: str, begins: Any, results: Any) -> None:
    results.put(_half(half, folder, begins))


def run(keys: int, folder: str) -> dict[str, Any]:
    """Both processes: records a second while keys are set and while they are replaced, and CPU us a record."""
    half = keys // 4 * 2
    context = multiprocessing.get_context("spawn")
    begins, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=_run, args=(half, folder, begins, results)) for _ in range(2)]
    for process in processes:
        process.start()
    halves = [results.get() for _ in processes]
    for process in processes:
        process.join()
    found: dict[str, Any] = {"keys": 2 * half}
    for phase, records in (("set", half), ("replace", half // 2)):
        found[f"{phase}_records_per_s"] = 2 * records / max(each[phase] for each in halves)
        found[f"{phase}_cpu_us"] = 1e6 * sum(each[f"{phase}_cpu"] for each in halves) / (2 * records)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("folder")
    given = parser.parse_args()
    report(run(given.keys, given.folder))
