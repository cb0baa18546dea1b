"""What was asked for against what was measured, as one table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

Results = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Goal:
    """One line of the table.

    Args:
        what: the figure, in words.
        parts: names of the measurements it needs.
        figure: computes it from the results.
        unit: printed after it.
        limit: the target, None for a figure that only informs.
        at_least: whether the figure must reach the limit (else: stay under it).
    """

    what: str
    parts: tuple[str, ...]
    figure: Callable[[Results], float]
    unit: str
    limit: float | None = None
    at_least: bool = True

    def met(self, value: float) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.limit is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit


def _field(part: str, name: str) -> Callable[[Results], float]:
    return lambda results: float(results[part][name])


def _file_field(what: str, name: str) -> Callable[[Results], float]:
    return lambda results: float(results["files"][what][name])


def _shape(shape: str, name: str) -> Callable[[Results], float]:
    return lambda results: float(results["epoch_cost"][shape][name])


def _latency(part: str, way: str, name: str) -> Callable[[Results], float]:
    return lambda results: float(results[part][way][f"{name}_ms"])


def _times(part: str, factor: float = 1.0) -> Callable[[Results], float]:
    return lambda results: (
        results["engine"]["steady_records_per_s"] / (factor * results[part]["records_per_s"])
    )


def _against(results: Results, part: str, other: str) -> float:
    """Both at their steady rates."""
    return float(results[part]["steady_records_per_s"] / results[other]["steady_records_per_s"])


def _against_pyflink(workload: str) -> Callable[[Results], float]:
    return lambda results: _against(results, workload, f"pyflink_{workload}")


def _ratio(part: str, above: str, below: str) -> Callable[[Results], float]:
    return lambda results: results[part][above] / results[part][below]


def _us_per_flight(results: Results, part: str) -> float:
    return 1e6 * float(results[part]["cpu_s"]) / float(results[part]["flights"])


def _of_two_loops(workload: str) -> Callable[[Results], float]:
    return lambda results: (
        results[workload]["steady_records_per_s"] / results[f"loop_{workload}"]["records_per_s"] / 2
    )


# What a job does; the share of two plain loops that it should reach, and how many times PyFlink's rate.
_WORKLOADS: dict[str, tuple[str, float | None, float | None]] = {
    "string_keys": ("count, string keys of 20 characters", 0.25, None),
    "rows": ("last Row of five fields by key", 0.25, None),
    "list_append": ("list state, append", 0.2, 50),
    "map_state": ("map state, 100 entries a key", 0.2, 50),
    "reducing": ("reducing state", 0.2, 50),
    "aggregating": ("aggregating state", 0.2, 50),
    "timer": ("a timer a record", 0.2, 50),
    "expiring": ("state with time to live", 0.2, 50),
    "tumbling": ("tumbling windows, reduce", None, 60),
    "tumbling_aggregate": ("tumbling windows, aggregate", None, 60),
    "tumbling_process": ("tumbling windows, process", None, 60),
    "sliding_aggregate": ("sliding windows, aggregate", None, 60),
    "sliding_process": ("sliding windows, process", None, 60),
    "session": ("sessions of some two elements, reduce", None, 60),
    "session_aggregate": ("sessions of many elements, aggregate", None, 60),
    "session_process": ("sessions of some two elements, process", None, 60),
    "single_sessions": ("sessions of one element, aggregate", None, 60),
    "two_stages": ("two keyed stages", None, 60),
    "union": ("union of three sources", None, 60),
    "broadcast": ("broadcast join", None, 60),
    "chain": ("six typed functions of Rows in a chain", None, 10),
    "untyped_chain": ("the same, only the last one typed", None, 10),
    "payments": ("card payments, Kafka to Kafka", None, 15),
}

GOALS = (
    Goal(
        "(a) keyed count, steady",
        ("engine",),
        _field("engine", "steady_records_per_s"),
        "records/s",
        1_000_000,
    ),
    Goal(
        "(a) whole run, Spark's start included", ("engine",), _field("engine", "records_per_s"), "records/s"
    ),
    Goal(
        "(b) plain Python loop, one core", ("dict_loop",), _field("dict_loop", "records_per_s"), "records/s"
    ),
    Goal("(c) PyFlink, thread mode", ("pyflink",), _field("pyflink", "records_per_s"), "records/s"),
    Goal("(d) Spark transformWithState", ("spark",), _field("spark", "records_per_s"), "records/s"),
    Goal("(e) prototype of the design", ("prototype",), _field("prototype", "records_per_s"), "records/s"),
    Goal("(a) against 2 x (b)", ("engine", "dict_loop"), _times("dict_loop", 2), "x", 0.38),
    Goal(
        "(a) against (c)",
        ("engine", "pyflink"),
        lambda results: _against(results, "engine", "pyflink"),
        "x",
        100,
    ),
    Goal("(a) against (d)", ("engine", "spark"), _times("spark"), "x", 250),
    Goal("(a) against (e)", ("engine", "prototype"), _times("prototype"), "x", 1),
    Goal(
        "Kafka to count to Kafka, exactly once, steady",
        ("kafka",),
        _field("kafka", "steady_records_per_s"),
        "records/s",
        500_000,
    ),
    Goal("the same against PyFlink", ("kafka",), _field("kafka", "ratio"), "x", 20),
    Goal("its processes, their start included, CPU", ("kafka",), _field("kafka", "cpu_us"), "us a record"),
    Goal("the broker's CPU beside it", ("kafka",), _field("kafka", "broker_cpu_us"), "us a record"),
    Goal(
        "Kafka to Kafka, a plain loop in transactions, steady",
        ("loop_kafka",),
        _field("loop_kafka", "steady_records_per_s"),
        "records/s",
    ),
    Goal("its processes, CPU", ("loop_kafka",), _field("loop_kafka", "cpu_us"), "us a record"),
    Goal("the broker's CPU beside it", ("loop_kafka",), _field("loop_kafka", "broker_cpu_us"), "us a record"),
    Goal("checkpoint, p50", ("engine",), _field("engine", "acknowledgement_p50_ms"), "ms", 60, False),
    Goal("checkpoint, p99", ("engine",), _field("engine", "acknowledgement_p99_ms"), "ms", 250, False),
    Goal("checkpoint of PyFlink, p50", ("pyflink",), _field("pyflink", "acknowledgement_p50_ms"), "ms"),
    Goal("checkpoint of PyFlink, p99", ("pyflink",), _field("pyflink", "acknowledgement_p99_ms"), "ms"),
    Goal("checkpoint, many keys against few", ("growth",), _field("growth", "ratio"), "x", 1.3, False),
    Goal("small epoch, p50", ("small_epochs",), _field("small_epochs", "p50_ms"), "ms", 120, False),
    Goal("epoch of 4 subtasks", ("epoch_cost",), _shape("2x2", "epoch_ms"), "ms", 110, False),
    Goal("epoch of 16 subtasks", ("epoch_cost",), _shape("2x8", "epoch_ms"), "ms", 180, False),
    Goal("epoch of 64 subtasks", ("epoch_cost",), _shape("2x32", "epoch_ms"), "ms", 400, False),
    Goal("restore of the state", ("restore",), _field("restore", "restore_s"), "s", 3, False),
    Goal("memory of workers, late / early", ("memory",), _field("memory", "workers_growth"), "x", 1.1, False),
    Goal("memory of driver, late / early", ("memory",), _field("memory", "driver_growth"), "x", 1.1, False),
    Goal("memory of JVM, late / early", ("memory",), _field("memory", "jvm_growth"), "x"),
    Goal("fold of the log, 2 processes", ("fold",), _field("fold", "mutations_per_s"), "rows/s", 10_000_000),
    Goal("the same, their start included", ("fold",), _field("fold", "cold_mutations_per_s"), "rows/s"),
    Goal("fold of the log, one core", ("fold",), _field("fold", "mutations_per_cpu_s"), "rows/s", 5_000_000),
    Goal(
        "made log, bytes a mutation", ("fold",), _field("fold", "log_bytes_per_mutation"), "bytes", 12, False
    ),
    Goal("snapshot of 1 M changed keys", ("snapshot",), _field("snapshot", "seconds"), "s", 5, False),
    Goal(
        "restore of 1 M keys, snapshot, one core",
        ("snapshot",),
        _field("snapshot", "restore_s"),
        "s",
        2,
        False,
    ),
    Goal(
        "the same with a log of 1/4 of them, against it alone",
        ("snapshot",),
        _ratio("snapshot", "restore_with_log_s", "restore_s"),
        "x",
        1.25,
        False,
    ),
    Goal(
        "restore from 15 M mutations of 100 k keys",
        ("snapshot",),
        _field("snapshot", "restore_from_log_s"),
        "s",
    ),
    Goal("flights job, unpaced", ("flights",), _field("flights", "flights_per_s"), "flights/s"),
    Goal(
        "the same, sources read ahead",
        ("flights_ahead",),
        _field("flights_ahead", "flights_per_s"),
        "flights/s",
    ),
    Goal(
        "flights job, of two plain references",
        ("flights", "flights_reference"),
        lambda results: results["flights_reference"]["cpu_s"] / results["flights"]["seconds"] / 2,
        "x",
        0.13,
    ),
    Goal(
        "the same, of two loops over its own functions",
        ("flights", "loop_flights"),
        lambda results: results["loop_flights"]["cpu_s"] / results["flights"]["seconds"] / 2,
        "x",
    ),
    Goal(
        "the same job in PyFlink, thread mode",
        ("pyflink_flights",),
        _field("pyflink_flights", "flights_per_s"),
        "flights/s",
    ),
    Goal(
        "flights job, against PyFlink",
        ("flights", "pyflink_flights"),
        lambda results: results["flights"]["flights_per_s"] / results["pyflink_flights"]["flights_per_s"],
        "x",
        25,
    ),
    Goal(
        "the same, both without their starts",
        ("flights", "pyflink_flights"),
        lambda results: (
            results["flights"]["running_flights_per_s"] / results["pyflink_flights"]["running_flights_per_s"]
        ),
        "x",
    ),
    Goal(
        "CPU of all processes of the flights job, from their start to their end",
        ("flights",),
        lambda results: _us_per_flight(results, "flights"),
        "us a flight",
    ),
    Goal(
        "the same, PyFlink",
        ("pyflink_flights",),
        lambda results: _us_per_flight(results, "pyflink_flights"),
        "us a flight",
    ),
    Goal(
        "subtasks of the flights job, CPU",
        ("flights_cpu",),
        lambda results: _us_per_flight(results, "flights_cpu"),
        "us a flight",
    ),
    Goal(
        "its plain reference, CPU",
        ("flights_reference",),
        lambda results: _us_per_flight(results, "flights_reference"),
        "us a flight",
    ),
    Goal(
        "a loop over its own functions, CPU",
        ("loop_flights",),
        lambda results: _us_per_flight(results, "loop_flights"),
        "us a flight",
    ),
    Goal("snapshot of 10 M keys", ("restore10m",), _field("restore10m", "snapshot_s"), "s"),
    Goal("its fold process, at most", ("restore10m",), _field("restore10m", "fold_process_peak_mb"), "MB"),
    Goal("restore of 10 M keys, one core", ("restore10m",), _field("restore10m", "restore_s"), "s"),
    Goal("its memory, at most", ("restore10m",), _field("restore10m", "peak_bytes_per_key"), "bytes/key"),
    Goal(
        "restore of 10 M keys into RocksDB", ("restore10m",), _field("restore10m", "rocksdb_restore_s"), "s"
    ),
    Goal("memory of that, at most", ("restore10m",), _field("restore10m", "rocksdb_peak_mb"), "MB"),
    Goal("throughput beside snapshots every 10 s", ("beside",), _field("beside", "ratio"), "x", 0.85),
    Goal("throughput beside snapshots and merges", ("beside",), _field("beside", "merging_ratio"), "x", 0.85),
    Goal(
        "throughput beside a process that makes snapshots",
        ("beside",),
        _field("beside", "process_ratio"),
        "x",
    ),
    Goal(
        "checkpoint beside snapshots, p99 by that without",
        ("beside",),
        _field("beside", "p99_ratio"),
        "x",
        1.05,
        False,
    ),
    Goal("the same, a process makes the snapshots", ("beside",), _field("beside", "process_p99_ratio"), "x"),
    Goal(
        "checkpoint beside snapshots, p99",
        ("beside",),
        _field("beside", "with_acknowledgement_p99_ms"),
        "ms",
        250,
        False,
    ),
    Goal(
        "checkpoint beside snapshots and merges, p99",
        ("beside",),
        _field("beside", "merging_with_acknowledgement_p99_ms"),
        "ms",
        250,
        False,
    ),
    Goal(
        "first record after a restore, less a fresh start",
        ("first_record",),
        _field("first_record", "restore_s"),
        "s",
    ),
    Goal("the same, PyFlink", ("pyflink_restore",), _field("pyflink_restore", "restore_s"), "s"),
    *(
        Goal(f"pause after {words}, {place}, {way}", (part,), _field(part, f"{failure}_{key}_s"), "s")
        for part, place in (("recover", "10 M keys"), ("recover_rocksdb", "RocksDB, 2 M keys"))
        for failure, words in (("raise", "an exception"), ("kill", "a killed worker"))
        for key, way in (("whole", "all is read"), ("local", "local recovery"))
    ),
    *(
        Goal(
            f"PyFlink's after an exception, {backend}, 500 k keys, {way}",
            ("pyflink_recover",),
            _field("pyflink_recover", f"{backend}_{key}_s"),
            "s",
        )
        for backend in ("hashmap", "rocksdb")
        for key, way in (("whole", "local recovery off"), ("local", "on"))
    ),
    *(
        Goal(
            f"acknowledgement, {words}, {share}",
            ("barrier",),
            _field("barrier", f"{name}_{share}_ms"),
            "ms",
            most,
            False,
        )
        for name, words in (
            ("few_without", "few keys"),
            ("few_with", "few keys, snapshots beside"),
            ("many_without", "many keys"),
            ("many_with", "many keys, snapshots beside"),
        )
        for share, most in (("p50", 40), ("p99", None), ("p999", 250))
    ),
    *(
        Goal(
            f"files of snapshots that were made beside, {name} keys",
            ("barrier",),
            _field("barrier", f"{name}_with_snapshot_files"),
            "files",
            1,
        )
        for name in ("few", "many")
    ),
    Goal(
        "acknowledgement, p50, many keys against few",
        ("barrier",),
        _field("barrier", "keys_ratio"),
        "x",
        1.2,
        False,
    ),
    *(
        Goal(
            f"acknowledgement, p99, with snapshots against without, {name} keys",
            ("barrier",),
            _field("barrier", f"{name}_p99_ratio"),
            "x",
            1.05,
            False,
        )
        for name in ("few", "many")
    ),
    *(
        Goal(f"latency, {words}, {share}", (part,), _latency(part, way, share), "ms", most, False)
        for part, way, words, limits in (
            ("latency", "plain", "no broker", (100, 250, 400)),
            ("latency", "at_least_once", "Kafka, at least once", (100, 250, 400)),
            ("latency", "exactly_once", "Kafka, exactly once", (1_100, 1_100, 1_100)),
            ("loop_latency", "at_least_once", "plain loop, Kafka, at least once", (None, None, None)),
            ("loop_latency", "exactly_once", "plain loop, Kafka, exactly once", (None, None, None)),
            ("pyflink_latency", "at_least_once", "PyFlink, Kafka, at least once", (None, None, None)),
            ("pyflink_latency", "exactly_once", "PyFlink, Kafka, exactly once", (None, None, None)),
        )
        for share, most in zip(("p50", "p99", "p999"), limits, strict=True)
    ),
    Goal("smallest epoch, one stage", ("epoch_cost",), _shape("1x2", "epoch_ms"), "ms", 40, False),
    Goal(
        "RocksDB, 1 M keys, steady",
        ("rocksdb",),
        _field("rocksdb", "steady_records_per_s"),
        "records/s",
        400_000,
    ),
    Goal(
        "the same against PyFlink with RocksDB",
        ("rocksdb", "pyflink_rocksdb"),
        lambda results: _against(results, "rocksdb", "pyflink_rocksdb"),
        "x",
        10,
    ),
    Goal(
        "RocksDB, 1 M keys, checkpoint, p99",
        ("rocksdb",),
        _field("rocksdb", "acknowledgement_p99_ms"),
        "ms",
        300,
        False,
    ),
    Goal(
        "RocksDB, 5 GB, steady",
        ("rocksdb_large",),
        _field("rocksdb_large", "steady_records_per_s"),
        "records/s",
    ),
    Goal("the same, late / early", ("rocksdb_large",), _field("rocksdb_large", "late_by_early"), "x", 0.9),
    Goal(
        "its workers, at most",
        ("rocksdb_large",),
        _field("rocksdb_large", "workers_peak_mb"),
        "MB",
        1_536,
        False,
    ),
    Goal(
        "its checkpoint, p99",
        ("rocksdb_large",),
        _field("rocksdb_large", "acknowledgement_p99_ms"),
        "ms",
        300,
        False,
    ),
    Goal("rescale 2 -> 4, pause", ("rescale",), _field("rescale", "up_s"), "s", 2, False),
    Goal("rescale 4 -> 2, pause", ("rescale",), _field("rescale", "down_s"), "s", 2, False),
    Goal(
        "log, bytes a mutation", ("engine",), _field("engine", "log_bytes_per_mutation"), "bytes", 12, False
    ),
    Goal("console: changes of a key, large log", ("console",), _field("console", "history_s"), "s", 2, False),
    Goal("console: difference of two points", ("console",), _field("console", "diff_s"), "s", 5, False),
    Goal("console: status", ("console",), _field("console", "status_s"), "s", 1, False),
    Goal("words.py, first line", ("words",), _field("words", "now_first_s"), "s", 6, False),
    Goal("words.py, whole run", ("words",), _field("words", "now_whole_s"), "s", 8, False),
    Goal("words.py, CPU of all processes", ("words",), _field("words", "now_cpu_s"), "s"),
    Goal("the JVM's of it", ("words",), _field("words", "now_cpu_jvm_s"), "s"),
    Goal(
        "words.py, CPU with Java by itself / now",
        ("words",),
        _ratio("words", "plain_java_cpu_s", "now_cpu_s"),
        "x",
    ),
    Goal("page: first paint", ("page",), _field("page", "log_paint_s"), "s", 1, False),
    Goal("page: first look at 10 M mutations", ("page",), _field("page", "log_first_look_s"), "s"),
    Goal(
        "page: the same, with a snapshot", ("page",), _field("page", "snapshot_first_look_s"), "s", 2, False
    ),
    Goal("page: a step of the slider", ("page",), _field("page", "log_step_s"), "s", 0.2, False),
    Goal("page: search of keys", ("page",), _field("page", "log_search_s"), "s", 1, False),
    Goal("page: a key's life", ("page",), _field("page", "log_key_s"), "s", 1, False),
    Goal("explain a key, 1 M records", ("explain",), _field("explain", "count_s"), "s", 10, False),
    Goal("the same, three deep", ("explain",), _field("explain", "count_deep_s"), "s", 10, False),
    Goal(
        "explain a key, 1 M records in windows", ("explain",), _field("explain", "windows_s"), "s", 10, False
    ),
    Goal("the job after it / before it was loaded", ("explain",), _field("explain", "ratio"), "x"),
    Goal("1,000 requests of 50 ms, 100 at a time", ("async",), _field("async", "seconds"), "s", 1, False),
    Goal("the same, a plain asyncio loop", ("async",), _field("async", "plain_seconds"), "s"),
    Goal("async function that does not wait", ("async",), _field("async", "us_per_element"), "us an element"),
    Goal(
        "the same, a plain asyncio loop", ("async",), _field("async", "plain_us_per_element"), "us an element"
    ),
    *(
        goal
        for name in (
            "read text",
            "read JSON",
            "read CSV",
            "read Parquet",
            "write text",
            "write CSV",
            "write Parquet",
            "write Delta",
        )
        for goal in (
            Goal(f"files: {name}", ("files",), _file_field(name, "records_per_s"), "records/s"),
            Goal(f"files: {name}, against a plain loop", ("files",), _file_field(name, "of_plain"), "x"),
        )
    ),
    *(
        goal
        for way, words in (("sink", "at least once"), ("exact", "exactly once"))
        for goal in (
            Goal(f"JDBC: {words}", ("jdbc",), _field("jdbc", f"{way}_records_per_s"), "records/s"),
            Goal(f"JDBC: {words}, against a plain loop", ("jdbc",), _field("jdbc", f"{way}_of_plain"), "x"),
        )
    ),
    *(
        goal
        for name, (words, share, times) in _WORKLOADS.items()
        for goal in (
            Goal(words, (name,), _field(name, "steady_records_per_s"), "records/s"),
            Goal(f"{words}, of two plain loops", (name, f"loop_{name}"), _of_two_loops(name), "x", share),
            Goal(f"{words}, against PyFlink", (name, f"pyflink_{name}"), _against_pyflink(name), "x", times),
            Goal(f"{words}, subtasks' CPU", (f"cpu_{name}",), _field(f"cpu_{name}", "us_per_record"), "us"),
        )
    ),
    Goal(
        "types are checked where elements leave a chain: typed against untyped",
        ("chain", "untyped_chain"),
        lambda results: _against(results, "chain", "untyped_chain"),
        "x",
        0.9,
    ),
)


def evaluate(rounds: Sequence[Results]) -> list[dict[str, Any]]:
    """Every goal whose measurements are there: median and spread of the rounds, the target and whether it is met.

    A ratio is one of figures of the same round, so that what the machine did meanwhile touches both.
    """
    lines = []
    for goal in GOALS:
        values = [value for results in rounds if (value := _figure(goal, results)) is not None]
        if not values:
            continue
        median = statistics.median(values)
        sign = ">=" if goal.at_least else "<="
        lines.append(
            {
                "what": goal.what,
                "value": median,
                "least": min(values),
                "most": max(values),
                "rounds": len(values),
                "unit": goal.unit,
                "target": None if goal.limit is None else f"{sign} {_number(goal.limit)}",
                "met": goal.met(median),
            }
        )
    return lines


def _figure(goal: Goal, results: Results) -> float | None:
    """A goal's figure of one round; None without the measurements it needs."""
    try:
        return goal.figure(results)
    except (KeyError, ZeroDivisionError):
        return None


def print_table(lines: list[dict[str, Any]], console: Console) -> None:
    """The one table."""
    rounds = max((line["rounds"] for line in lines), default=1)
    of_rounds = "one run" if rounds == 1 else f"medians of {rounds} rounds"
    table = Table(title=f"changelog-engine against its peers, one machine, {of_rounds}")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    if rounds > 1:
        table.add_column("least to most", justify="right")
    table.add_column("unit")
    table.add_column("target", justify="right")
    table.add_column("")
    for line in lines:
        verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[line["met"]]
        spread = [f"{_number(line['least'])} to {_number(line['most'])}"] if rounds > 1 else []
        table.add_row(
            line["what"], _number(line["value"]), *spread, line["unit"], line["target"] or "", verdict
        )
    console.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
