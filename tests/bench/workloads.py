"""Further measured jobs: all kinds of state, timers, windows, Rows, joins. As keyed_count.py, one program for two engines.

``python workloads.py api|pyflink|in_process|loop WORKLOAD RECORDS [KEY=VALUE ...]``; the last line printed is the result as
JSON. ``in_process`` is this engine without Spark, where the CPU time of the subtasks' threads counts, and ``loop`` the same
functions in a plain loop over dictionaries: see plain_loops.py.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from keyed_count import MULTIPLIER, leave_own_folder, report
from plain_loops import run_loop
from state_functions import KEYED_JOBS, KEYS, RULES, KeyedJob, StateFunctions
from subtasks_cpu import subtasks_cpu

RECORDS_PER_MS = 10
WINDOW_MS = 10_000
SLIDE_MS = 5_000
FAST, LONGER = ("union", "broadcast"), 3  # times as many records, or they end before there is a rate


class Workloads:
    """The jobs, written against one package.

    Args:
        package: "api" or "pyflink".
        records: how many numbers the source gives.
    """

    def __init__(self, package: str, records: int) -> None:
        self.records = records
        self.common = importlib.import_module(f"{package}.common")
        self.datastream = importlib.import_module(f"{package}.datastream")
        self.window = importlib.import_module(f"{package}.datastream.window")
        self.state = importlib.import_module(f"{package}.datastream.state")
        self.number_seq = importlib.import_module(f"{package}.datastream.connectors.number_seq")
        self.functions = StateFunctions(package)

    @property
    def pairs(self) -> Any:
        """The type of pairs of numbers: a new object each time, as PyFlink pickles no type that it has used."""
        types = self.common.Types
        return types.TUPLE([types.LONG(), types.LONG()])

    def numbers(self, env: Any, timed: bool) -> Any:
        """The source; its two halves are read side by side and have the same timestamps."""
        strategies, at = self.common.WatermarkStrategy, self.timestamp
        source = self.number_seq.NumberSequenceSource(0, self.records - 1)
        numbers = env.from_source(source, strategies.no_watermarks(), "numbers", self.common.Types.LONG())
        if not timed:
            return numbers
        base = importlib.import_module(strategies.__module__).TimestampAssigner

        class Assigner(base):  # type: ignore[misc]
            """The number's place in its half, some numbers a millisecond."""

            def extract_timestamp(self, value: int, record_timestamp: int) -> int:
                return at(value)

        # Not in from_source(): PyFlink calls no Python assigner there.
        strategy = strategies.for_monotonous_timestamps().with_timestamp_assigner(Assigner())
        return numbers.assign_timestamps_and_watermarks(strategy)

    @property
    def pair_of(self) -> Callable[[int], tuple[int, int]]:
        """Gives a number's key, in no order, and 1."""
        return lambda number: (number * MULTIPLIER % 2**32 * KEYS >> 32, 1)

    @property
    def timestamp(self) -> Callable[[int], int]:
        """Gives a number's time in ms: its place in its half, some numbers a millisecond."""
        half = self.records // 2
        return lambda number: number % half * 2 // RECORDS_PER_MS

    def by_time(self) -> Iterator[int]:
        """The numbers in the order of their times, as the halves are read side by side."""
        half = self.records // 2
        return (number for place in range(half) for number in (place, place + half))

    def keyed_pairs(self, env: Any) -> Any:
        """(key, 1) by key, with keys in no order."""
        pairs = self.numbers(env, timed=True).map(self.pair_of, self.pairs)
        return pairs.key_by(lambda pair: pair[0], self.common.Types.LONG())

    def tumbling(self, env: Any) -> Any:
        """Sums over windows of ten seconds of event time: ten numbers a key and window."""
        return self._windowed(env, self.tumbling_windows()).reduce(added)

    def tumbling_aggregate(self, env: Any) -> Any:
        """The same with an aggregate function."""
        return self._aggregated(env, self.tumbling_windows())

    def tumbling_process(self, env: Any) -> Any:
        """The same with a function that gets all elements of a window."""
        return self._processed(env, self.tumbling_windows())

    def sliding_aggregate(self, env: Any) -> Any:
        """Sums over windows of ten seconds that start every five."""
        return self._aggregated(env, self.sliding_windows())

    def sliding_process(self, env: Any) -> Any:
        """The same with a function that gets all elements of a window."""
        return self._processed(env, self.sliding_windows())

    def session(self, env: Any) -> Any:
        """Sums over sessions: a key's numbers come a second apart on average, and a second of silence ends one."""
        return self._windowed(env, self.session_windows()).reduce(added)

    def session_aggregate(self, env: Any) -> Any:
        """The same with an aggregate function, and seven seconds of silence: a thousand numbers a session on average."""
        return self._aggregated(env, self.session_windows(7_000))

    def session_process(self, env: Any) -> Any:
        """Sessions of a second's silence, with a function that gets all elements of one."""
        return self._processed(env, self.session_windows())

    def single_sessions(self, env: Any) -> Any:
        """Sessions of one element each, nearly all: a millisecond of silence ends one."""
        return self._aggregated(env, self.session_windows(1))

    def tumbling_windows(self) -> Any:
        """Windows of ten seconds."""
        return self.window.TumblingEventTimeWindows.of(self.common.Time.milliseconds(WINDOW_MS))

    def sliding_windows(self) -> Any:
        """Windows of ten seconds, every five."""
        time_of = self.common.Time.milliseconds
        return self.window.SlidingEventTimeWindows.of(time_of(WINDOW_MS), time_of(SLIDE_MS))

    def session_windows(self, gap_ms: int = 1_000) -> Any:
        """Sessions that end after such a silence."""
        return self.window.EventTimeSessionWindows.with_gap(self.common.Time.milliseconds(gap_ms))

    def _windowed(self, env: Any, windows: Any) -> Any:
        return self.keyed_pairs(env).window(windows)

    def _aggregated(self, env: Any, windows: Any) -> Any:
        return self._windowed(env, windows).aggregate(
            self.sum_of_pairs(), accumulator_type=self.pairs, output_type=self.pairs
        )

    def _processed(self, env: Any, windows: Any) -> Any:
        class SumElements(self.datastream.ProcessWindowFunction):  # type: ignore[name-defined, misc]
            """Adds up what a window holds."""

            def process(self, key: int, context: Any, elements: Any) -> Any:
                yield key, sum([number for _, number in elements])

        return self._windowed(env, windows).process(SumElements(), self.pairs)

    def sum_of_pairs(self) -> Any:
        """An aggregate function: the key, and the sum of the numbers."""

        class SumPairs(self.datastream.AggregateFunction):  # type: ignore[name-defined, misc]
            """Adds the second fields up."""

            def create_accumulator(self) -> tuple[int, int]:
                return 0, 0

            def add(self, value: tuple[int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
                return value[0], accumulator[1] + value[1]

            def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
                return accumulator

            def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
                return a[0], a[1] + b[1]

        return SumPairs()

    def keyed_job(self, name: str) -> KeyedJob:
        """What a job of one keyed process function is made of."""
        types = self.common.Types
        function = getattr(self.functions, name)()
        if name == "string_keys":
            return KeyedJob(function, lambda x: f"{x % KEYS:020d}", types.STRING())
        if name == "rows":
            return KeyedJob(function, lambda order: order.account, types.LONG())
        return KeyedJob(function, lambda x: x % KEYS, types.LONG())

    def keyed(self, env: Any, name: str) -> Any:
        """A job of one keyed process function."""
        job = self.keyed_job(name)
        stream = self.numbers(env, timed=name == "timer")
        if name == "rows":
            stream = stream.map(self.order, self.orders())
        return stream.key_by(job.key, job.key_type).process(job.function, self.pairs)

    def two_stages(self, env: Any) -> Any:
        """A count by key, and of each of these a count by a tenth as many keys."""
        types = self.common.Types
        first = self.numbers(env, timed=False).key_by(lambda x: x % KEYS, types.LONG())
        counted = first.process(self.functions.each_count(), self.pairs)
        second = counted.map(lambda pair: pair[0], types.LONG()).key_by(
            lambda x: x % (KEYS // 10), types.LONG()
        )
        return second.process(self.functions.count(), self.pairs)

    def union(self, env: Any) -> Any:
        """A count by key of what three sources give."""
        source, strategies = self.number_seq.NumberSequenceSource, self.common.WatermarkStrategy
        third, types = self.records // 3, self.common.Types
        streams = [
            env.from_source(
                source(part * third, (part + 1) * third - 1),
                strategies.no_watermarks(),
                f"numbers {part}",
                types.LONG(),
            )
            for part in range(3)
        ]
        job = self.keyed_job("union")
        return streams[0].union(*streams[1:]).key_by(job.key, job.key_type).process(job.function, self.pairs)

    def broadcast(self, env: Any) -> Any:
        """Joins each number with one of a thousand rules that were broadcast."""
        types = self.common.Types
        rules = self.state.MapStateDescriptor("rules", types.LONG(), types.LONG())
        table = env.from_collection([(number, number * number) for number in range(RULES)], self.pairs)

        class Join(self.datastream.BroadcastProcessFunction):  # type: ignore[name-defined, misc]
            """Looks each number up."""

            def process_element(self, value: int, ctx: Any) -> Any:
                rule = ctx.get_broadcast_state(rules).get(value % RULES)
                yield value, rule or 0

            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                ctx.get_broadcast_state(rules).put(value[0], value[1])

        return self.numbers(env, timed=False).connect(table.broadcast(rules)).process(Join(), self.pairs)

    def chain(self, env: Any) -> Any:
        """Six functions of Rows with declared types in one chain, then a count by key."""
        return self._chain(env, self.orders())

    def untyped_chain(self, env: Any) -> Any:
        """The same; only the last function, after which elements leave the chain, declares a type."""
        return self._chain(env, None)

    def orders(self) -> Any:
        """Rows of five fields."""
        return self.functions.order_type()

    @property
    def order(self) -> Any:
        """Makes a Row of five fields of a number."""
        row = self.common.Row

        def order(number: int) -> Any:
            return row(
                id=number, account=number % KEYS, amount=float(number % 1_000), currency="EUR", large=False
            )

        return order

    def _chain(self, env: Any, between: Any) -> Any:
        def same(each: Any) -> Any:
            return each

        def assessed(each: Any) -> Any:
            each["large"] = each.amount > 900.0
            return each

        stream = self.numbers(env, timed=False).map(self.order, between)
        for _ in range(4):
            stream = stream.map(same, between)
        stream = stream.map(assessed, self.orders()).key_by(
            lambda each: each.account, self.common.Types.LONG()
        )
        return stream.process(self.count_large(), self.pairs)

    def count_large(self) -> Any:
        """A function that counts the large orders of an account."""
        types, descriptor = self.common.Types, self.state.ValueStateDescriptor

        class CountLarge(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts the large orders of an account."""

            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(descriptor("large", types.LONG()))

            def process_element(self, value: Any, ctx: Any) -> Any:
                count = (self.count.value() or 0) + value.large
                self.count.update(count)
                if count and count % 1_000 == 0:
                    yield value.account, count

        return CountLarge()


ALIGNED = ("tumbling", "tumbling_aggregate", "tumbling_process", "sliding_aggregate", "sliding_process")
MERGING = ("session", "session_aggregate", "session_process", "single_sessions")
WORKLOADS = (*ALIGNED, *MERGING, *KEYED_JOBS, "broadcast", "two_stages", "union", "chain", "untyped_chain")


def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The key, and the sum of both numbers."""
    return one[0], one[1] + other[1]


def run(package: str, workload: str, records: int, settings: dict[str, str]) -> dict[str, Any]:
    """Build a job and run it to its end; returns records, seconds of execute() and records a second."""
    jobs = Workloads(package, records)
    configuration = jobs.common.Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = jobs.datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    results = jobs.keyed(env, workload) if workload in KEYED_JOBS else getattr(jobs, workload)(env)
    results.filter(lambda pair: pair[0] == -1).print()
    started = time.perf_counter()
    env.execute(workload)
    seconds = time.perf_counter() - started
    return {"records": records, "seconds": seconds, "records_per_s": records / seconds}


def run_in_process(workload: str, records: int, settings: dict[str, str]) -> dict[str, Any]:
    """The same without Spark: CPU seconds of the subtasks, by stage."""
    with subtasks_cpu() as by_stage:
        result = run("api", workload, records, settings)
    cpu_s = sum(by_stage.values())
    return {
        **result,
        "cpu_s": cpu_s,
        "us_per_record": 1e6 * cpu_s / records,
        "cpu_s_by_stage": dict(by_stage),
    }


def main() -> None:
    """Command line: how, workload, records, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["api", "pyflink", "in_process", "loop"])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("records", type=int)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    if arguments.how == "in_process":
        report(run_in_process(arguments.workload, arguments.records, settings))
    elif arguments.how == "loop":
        report(run_loop(Workloads("api", arguments.records), arguments.workload))
    else:
        report(run(arguments.how, arguments.workload, arguments.records, settings))


if __name__ == "__main__":
    leave_own_folder()
    main()
