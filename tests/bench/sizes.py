"""How much each measurement does. Every size can be set by an environment variable, ``BENCH_SCALE`` shrinks them all."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Sizes:
    """Records unless the name says otherwise; ``BENCH_<FIELD>`` overrides a field."""

    engine: int = 40_000_000  # (a)
    keys: int = 100_000
    loop: int = 5_000_000  # (b)
    pyflink: int = 3_000_000  # (c)
    spark_batch: int = 300_000  # (d)
    spark_batches: int = 2
    prototype_epoch: int = 1_000_000  # (e)
    prototype_epochs: int = 15
    growth: int = 20_000_000  # (a) again, with few and with many keys
    few_keys: int = 10_000
    many_keys: int = 2_000_000
    small_epoch: int = 2_000
    small_epochs: int = 200
    cost_subtasks: int = 800  # so many run in all epochs of a shape, or 20 epochs
    restore: int = 1_000_000
    restore_many: int = 10_000_000
    recover: int = 10_000_000  # keys
    recover_rocksdb: int = 2_000_000  # keys
    pyflink_recover: int = 500_000  # keys
    fold: int = 15_000_000
    beside: int = 60_000_000
    memory_epoch: int = 50_000
    memory_epochs: int = 200
    workload: int = 4_000_000  # each of workloads.py
    workload_loop: int = 1_000_000  # each of them as a plain loop
    flights: int = 336_776  # a year; its job, unpaced
    pyflink_flights: int = 100_000
    payments: int = 300_000  # the second real job
    latency_per_s: int = 10_000  # at this pace
    pyflink_latency_per_s: int = 4_000  # it does some 10,000 as fast as it goes
    latency_seconds: int = 25
    barrier_seconds: int = 45  # of each of four runs, from its first checkpoint on
    barrier_interval_ms: int = 150  # so that p99 is not the longest of a few
    barrier_few_keys: int = 10_000
    barrier_many_keys: int = 10_000_000
    rocksdb: int = 20_000_000
    rocksdb_keys: int = 1_000_000
    pyflink_rocksdb: int = 1_000_000
    rocksdb_large_keys: int = 2_500_000  # of 2,000 bytes each
    pyflink_workload: int = 150_000
    pyflink_sessions: int = 30_000  # its session windows need time by the square


def sizes_from_environment() -> Sizes:
    """The defaults, scaled by ``BENCH_SCALE`` (0.1: a tenth of the records) and overridden one by one."""
    scale = float(os.environ.get("BENCH_SCALE", "1"))
    values = {}
    for field in fields(Sizes):
        default = field.default if isinstance(field.default, int) else 0
        scaled = (
            max(1, int(default * scale))
            if default >= 1_000_000
            or field.name
            in (
                "spark_batch",
                "pyflink_recover",
                "flights",
                "pyflink_flights",
                "payments",
                "pyflink_workload",
                "pyflink_sessions",
            )
            else default
        )
        values[field.name] = int(os.environ.get(f"BENCH_{field.name.upper()}", scaled))
    return Sizes(**values)
