"""Further measured jobs: windows, sessions, maps in state, a broadcast join. As keyed_count.py, one program for two engines.

``python workloads.py PACKAGE WORKLOAD RECORDS [KEY=VALUE ...]``; the last line printed is the result as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

from keyed_count import MULTIPLIER, leave_own_folder, report

KEYS = 10_000
RECORDS_PER_MS = 10
RULES = 1_000
ENTRIES = 100


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
        self.pairs = self.common.Types.TUPLE([self.common.Types.LONG(), self.common.Types.LONG()])

    def numbers(self, env: Any, timed: bool) -> Any:
        """The source; its two halves are read side by side and have the same timestamps."""
        half, strategies = self.records // 2, self.common.WatermarkStrategy
        source = self.number_seq.NumberSequenceSource(0, self.records - 1)
        numbers = env.from_source(source, strategies.no_watermarks(), "numbers", self.common.Types.LONG())
        if not timed:
            return numbers
        base = importlib.import_module(strategies.__module__).TimestampAssigner

        class Assigner(base):  # type: ignore[misc]
            """The number's place in its half, some numbers a millisecond."""

            def extract_timestamp(self, value: int, record_timestamp: int) -> int:
                return value % half * 2 // RECORDS_PER_MS

        # Not in from_source(): PyFlink calls no Python assigner there.
        strategy = strategies.for_monotonous_timestamps().with_timestamp_assigner(Assigner())
        return numbers.assign_timestamps_and_watermarks(strategy)

    def keyed_pairs(self, env: Any) -> Any:
        """(key, 1) by key, with keys in no order."""
        pairs = self.numbers(env, timed=True).map(
            lambda x: (x * MULTIPLIER % 2**32 * KEYS >> 32, 1), self.pairs
        )
        return pairs.key_by(lambda pair: pair[0], self.common.Types.LONG())

    def tumbling(self, env: Any) -> Any:
        """Sums over windows of ten seconds of event time: ten numbers a key and window."""
        windows = self.window.TumblingEventTimeWindows.of(self.common.Time.seconds(10))
        return self.keyed_pairs(env).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]))

    def session(self, env: Any) -> Any:
        """Sums over sessions: a key's numbers come a second apart on average, and a second of silence ends one."""
        windows = self.window.EventTimeSessionWindows.with_gap(self.common.Time.seconds(1))
        return self.keyed_pairs(env).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]))

    def map_state(self, env: Any) -> Any:
        """Counts in a map of a hundred entries for each key."""
        types, descriptor = self.common.Types, self.state.MapStateDescriptor

        class CountInMap(self.datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
            """Counts by map key."""

            def open(self, runtime_context: Any) -> None:
                self.counts = runtime_context.get_map_state(descriptor("counts", types.LONG(), types.LONG()))

            def process_element(self, value: int, ctx: Any) -> Any:
                entry = value // KEYS % ENTRIES
                count = (self.counts.get(entry) or 0) + 1
                self.counts.put(entry, count)
                if count % 1_000 == 0:
                    yield entry, count

        keyed = self.numbers(env, timed=False).key_by(lambda x: x % KEYS, types.LONG())
        return keyed.process(CountInMap(), self.pairs)

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
        types = self.common.Types
        fields = [types.LONG(), types.LONG(), types.DOUBLE(), types.STRING(), types.BOOLEAN()]
        return types.ROW_NAMED(["id", "account", "amount", "currency", "large"], fields)

    def _chain(self, env: Any, between: Any) -> Any:
        row = self.common.Row

        def order(number: int) -> Any:
            return row(
                id=number, account=number % KEYS, amount=float(number % 1_000), currency="EUR", large=False
            )

        def same(each: Any) -> Any:
            return each

        def assessed(each: Any) -> Any:
            each["large"] = each.amount > 900.0
            return each

        stream = self.numbers(env, timed=False).map(order, between)
        for _ in range(4):
            stream = stream.map(same, between)
        stream = stream.map(assessed, self.orders()).key_by(
            lambda each: each.account, self.common.Types.LONG()
        )
        return stream.process(self._count_large(), self.pairs)

    def _count_large(self) -> Any:
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


OF_ROWS = ("chain", "untyped_chain")
WORKLOADS = ("tumbling", "session", "map_state", "broadcast", *OF_ROWS)


def run(package: str, workload: str, records: int, settings: dict[str, str]) -> dict[str, Any]:
    """Build a job and run it to its end; returns records, seconds of execute() and records a second."""
    jobs = Workloads(package, records)
    configuration = jobs.common.Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = jobs.datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    getattr(jobs, workload)(env).filter(lambda pair: pair[0] == KEYS).print()
    started = time.perf_counter()
    env.execute(workload)
    seconds = time.perf_counter() - started
    return {"records": records, "seconds": seconds, "records_per_s": records / seconds}


def main() -> None:
    """Command line: package, workload, records, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=["api", "pyflink"])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("records", type=int)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    report(run(arguments.package, arguments.workload, arguments.records, settings))


if __name__ == "__main__":
    leave_own_folder()
    main()
