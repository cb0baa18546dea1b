"""``make bench``: every measurement, one after the other, then one table and ``.bench/results.json``.

``python tests/bench/bench.py [PART ...]`` runs some of them: engine, dict_loop, pyflink, spark, prototype, growth, fold,
snapshot, restore10m, beside, flights_reference, loop_flights, flights, flights_ahead, flights_cpu, pyflink_flights,
small_epochs, epoch_cost, restore, first_record, rescale, recover, recover_rocksdb, pyflink_recover, words,
pyflink_restore, memory, latency, pyflink_latency, barrier, rocksdb, rocksdb_large, loop_rocksdb_large,
pyflink_rocksdb, and the jobs of workloads.py and payments.py: by their names on Spark, with ``loop_`` before them as plain
loops, with ``pyflink_`` in PyFlink, and with ``cpu_`` in one process, where the CPU time of the subtasks counts. Sizes: see
sizes.py, ``BENCH_SCALE=0.1`` for a quick look. ``BENCH_ROUNDS=5`` runs all of them five times in turns, one round after the
other: each figure is taken of every round by itself, and the table has their medians and what they spread over.
``BENCH_WORK`` names another work folder than ``.bench``. The exit status is 1 when a measurement failed; a missed target is
for people to judge.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from async_requests import AsyncBench
from barriers import BarrierBench
from changelog_engine.state import handles_in_c
from changelog_engine.types import row_loops
from engine import EngineBench
from explaining import ExplainBench
from files import FilesBench
from first_words import StartBench
from history import HistoryBench
from jdbc import JdbcBench
from kafka_bench import KafkaBench
from latency import LatencyBench
from materializing import MaterializerBench
from page import PageBench
from payments import PaymentsBench
from peers import Peers
from recovering import RecoveryBench
from report import Results, evaluate, print_table
from rocksdb_bench import RocksDBBench
from sizes import sizes_from_environment
from workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    # Images of containers often set this: each process of a run would compile a checkout's modules anew, and pay for it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    work = Path(os.environ.get("BENCH_WORK", ROOT / ".bench")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    sizes = sizes_from_environment()
    engine = EngineBench(work, sizes)
    materializer = MaterializerBench(engine)
    state_history = HistoryBench(engine)
    peers = Peers(work, sizes, Path(os.environ.get("SHARED", ROOT.parent / "shared")))
    latency, rocksdb = LatencyBench(engine, peers), RocksDBBench(engine, peers)
    kafka = KafkaBench(peers, work, sizes)
    recovery = RecoveryBench(engine, peers)
    parts: dict[str, Callable[[], dict[str, Any] | None]] = {
        "dict_loop": peers.dict_loop,
        "engine": engine.throughput,
        "prototype": peers.prototype,
        "small_epochs": engine.small_epochs,
        "epoch_cost": engine.epoch_cost,
        "restore": engine.restore,
        "memory": engine.memory,
        "growth": engine.growth,
        "fold": materializer.fold,
        "snapshot": materializer.snapshot,
        "restore10m": materializer.restore10m,
        "beside": materializer.beside,
        "first_record": engine.first_record,
        "rescale": engine.rescale,
        "recover": recovery.heap,
        "recover_rocksdb": recovery.rocksdb,
        "words": StartBench(work).words,
        "history_key": state_history.key,
        "history_view": state_history.view,
        "console": state_history.console,
        "page": PageBench(engine).answers,
        "flights_reference": functools.partial(engine.flights, "reference"),
        "loop_flights": functools.partial(engine.flights, "loop"),
        "flights": functools.partial(engine.flights, "spark"),
        "flights_ahead": functools.partial(engine.flights, "spark", read_ahead=True),
        "flights_cpu": functools.partial(engine.flights, "in_process"),
        "explain": ExplainBench(work).key,
        "async": AsyncBench().rates,
        "files": FilesBench(work).rates,
        "jdbc": JdbcBench(work).rates,
        "kafka": kafka.run,
        "loop_kafka": kafka.loop,
        "barrier": BarrierBench(engine).acknowledgements,
        "rocksdb": rocksdb.count,
        "rocksdb_large": rocksdb.large,
        "loop_rocksdb_large": rocksdb.large_loop,
        "pyflink_rocksdb": rocksdb.pyflink,
        "latency": latency.here,
        "loop_latency": latency.loop,
        "pyflink_latency": latency.pyflink,
        "spark": peers.spark,
        "pyflink": peers.pyflink,
        "pyflink_restore": peers.pyflink_restore,
        "pyflink_recover": recovery.pyflink,
        "pyflink_flights": peers.pyflink_flights,
    }
    payments = PaymentsBench(engine, peers)
    parts |= {
        "payments": payments.spark,
        "loop_payments": payments.loop,
        "cpu_payments": payments.in_process,
        "pyflink_payments": payments.pyflink,
    }
    for name in WORKLOADS:
        parts[name] = functools.partial(engine.workload, name)
        parts[f"loop_{name}"] = functools.partial(peers.workload_loop, name)
        parts[f"cpu_{name}"] = functools.partial(engine.workload_cpu, name)
        parts[f"pyflink_{name}"] = functools.partial(peers.pyflink_workload, name)
    wanted = sys.argv[1:] or list(parts)
    count = int(os.environ.get("BENCH_ROUNDS", "1"))
    if count < 1:
        print(f"BENCH_ROUNDS is {count}; give 1 or more", file=sys.stderr)
        return 2
    unknown = sorted(set(wanted) - set(parts))
    if unknown:
        print(f"unknown part {', '.join(unknown)}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    console = Console()
    # An extension that was built of another source is not used, and the figures are those of Python alone.
    extensions = {"handles of state": handles_in_c.WHY_NOT, "loops over Rows": row_loops.WHY_NOT}
    without_c = {name: why for name, why in extensions.items() if why is not None}
    for name, why in without_c.items():
        console.print(
            f"[red]Not in C: {name}[/], for {why}. Build it: python -m pip install --no-deps -e .",
            highlight=False,
        )
    rounds: list[Results] = []
    failures: dict[str, str] = {}
    for turn in range(1, count + 1):
        results: Results = {}
        rounds.append(results)
        for name in wanted:
            of_round = name if count == 1 else f"{name}, round {turn} of {count}"
            started = time.monotonic()
            with console.status(f"{of_round} ..."):
                try:
                    result = parts[name]()
                except Exception as error:  # one measurement that fails must not lose the others
                    failures[of_round] = f"{type(error).__name__}: {error}"
                    result = None
            outcome = "failed" if of_round in failures else "not at hand" if result is None else "done"
            console.print(f"{of_round}: {outcome} after {time.monotonic() - started:.0f} s", highlight=False)
            if result is not None:
                results[name] = result
        # After each round: who stops the rest has the rounds that ended.
        lines = evaluate(rounds)
        document = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()},
            "not_in_c": without_c,
            "sizes": asdict(sizes),
            "rounds": rounds,
            "figures": lines,
            "failures": failures,
        }
        (work / "results.json").write_text(json.dumps(document, indent=2))
    print_table(lines, console)
    for name, message in failures.items():
        console.print(f"[red]{name} failed[/]: {message}", highlight=False)
    console.print(f"All figures: {work / 'results.json'}", highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
