"""The job that wrote the tables in tests/reliability/older, and what makes one of them.

python older_job.py TABLE.tar.xz, in an environment of the commit that is to be kept: it runs the job in parts, each ended as
by kill -9, makes snapshots and merged files, a savepoint and a branch, and has that engine say what the states
are at each checkpoint. Functions and names of states stay as they are, so that later engines go on with the table.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from changelog_engine.api.common import Configuration, Encoder, Row, Time, Types, WatermarkStrategy
from changelog_engine.api.common.watermark_strategy import TimestampAssigner
from changelog_engine.api.datastream import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from changelog_engine.api.datastream.connectors.file_system import FileSink
from changelog_engine.api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.api.datastream.functions import ProcessWindowFunction
from changelog_engine.api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.api.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from changelog_engine.in_process.capture import without_spark
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.states import entries_at

LAST = 44
NOW_MS = 1_800_000_000_000  # the wall clock stands still, so that times of access are the same in each run
FAR_MS = 4_102_444_800_000
BASE, SINK, SAVEPOINTS, ANSWERS = "base", "out", "save", "answers.json"
JOB = "older"
DAY = datetime.date(2026, 1, 1)
MORNING = datetime.datetime(2026, 1, 1, 6)
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
ROW = Types.ROW_NAMED(["n", "text", "at"], [Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP()])
ANYTHING = Types.PICKLED_BYTE_ARRAY()
RULES = MapStateDescriptor("rules", Types.LONG(), Types.STRING())
VALUES = {
    "row": (ROW, lambda n: Row(n=n, text=f"né {n}", at=MORNING + datetime.timedelta(milliseconds=n))),
    "text": (Types.STRING(), lambda n: f'"{n}"\n' if n % 3 else None),
    "double": (Types.DOUBLE(), lambda n: [float("inf"), 0.1, -0.0, n / 7][n % 4]),
    "truth": (Types.BOOLEAN(), lambda n: n % 2 == 0),
    "large": (Types.BIG_INT(), lambda n: n << 70),
    "decimal": (Types.BIG_DEC(), lambda n: Decimal(n) / 8),
    "date": (Types.SQL_DATE(), lambda n: DAY + datetime.timedelta(days=n)),
    "time": (Types.SQL_TIME(), lambda n: datetime.time(n % 24, n, 1)),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), lambda n: bytes([n, 0, 255])),
    "lists": (Types.LIST(Types.MAP(Types.STRING(), Types.LONG())), lambda n: [{"n": n}, {}]),
    "anything": (ANYTHING, lambda n: [{n}, (n, None), b"\0", Decimal("1.50"), Row(n, "x"), {n: DAY}][n % 6]),
}


class At(TimestampAssigner):
    """A number's time."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 100


class Total(AggregateFunction):
    """Of numbers, and how many they are."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class Kinds(KeyedBroadcastProcessFunction):
    """All kinds of state, each with values of other types."""

    def open(self, runtime_context: Any) -> None:
        get, long = runtime_context, Types.LONG()
        self.values = {
            name: get.get_state(ValueStateDescriptor(name, kind)) for name, (kind, _) in VALUES.items()
        }
        self.pairs = get.get_list_state(ListStateDescriptor("pairs", PAIR))
        self.prices = get.get_map_state(MapStateDescriptor("prices", Types.STRING(), Types.BIG_DEC()))
        self.by_pair = get.get_map_state(MapStateDescriptor("by_pair", PAIR, ANYTHING))
        self.sum = get.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, long))
        self.total = get.get_aggregating_state(AggregatingStateDescriptor("total", Total(), PAIR_OF_LONGS))
        self.fired = get.get_list_state(ListStateDescriptor("fired", long))
        brief, kept = ValueStateDescriptor("brief", long), MapStateDescriptor("kept", Types.STRING(), long)
        brief.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        kept.enable_time_to_live(StateTtlConfig.new_builder(Time.days(3650)).build())
        self.brief, self.kept = get.get_state(brief), get.get_map_state(kept)

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, f"rule {value}")

    def process_element(self, n: int, ctx: Any) -> Any:
        before = self.values["row"].value()
        for name, (_, made) in VALUES.items():
            self.values[name].update(made(n))
        if n % 4 == 0:
            self.values["text"].clear()
        self.pairs.add((n, str(n)))
        if n % 7 == 0:
            self.pairs.update([(0, "begin"), (n, "again")])
        self.prices.put(f"p{n % 5}", Decimal(n) / 4)
        if n % 11 == 0:
            self.prices.remove("p1")
        if n % 13 == 0:
            self.by_pair.clear()
        self.by_pair.put((n % 3, "k"), {n})
        self.sum.add(n)
        self.total.add(n)
        brief, rules = self.brief.value(), ctx.get_broadcast_state(RULES)
        self.brief.update(n)
        self.kept.put(f"k{n % 3}", n)
        timers = ctx.timer_service()
        timers.register_event_time_timer(n * 100 + 1_500)
        timers.register_processing_time_timer(FAR_MS + n)
        if n % 5 == 0:
            timers.delete_event_time_timer(n * 100 + 1_500)
        rules_seen = [rules.get(number) for number in range(3)] if n > 20 else None  # all were read by then
        yield f"{n}: {before} {self.sum.get()} {self.total.get()} {[*self.pairs.get()]} {brief} {rules_seen}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.fired.add(timestamp)
        yield f"timer of {ctx.get_current_key()}: {timestamp}"


PAIR_OF_LONGS = Types.TUPLE([Types.LONG(), Types.LONG()])


class Contents(ProcessWindowFunction):
    """What a window holds."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield f"{context.window()} of {key}: {[*elements]}"


def until(stop: int, number: int) -> int:
    """Ends this process before a number, as kill -9 does."""
    if stop is not None and number >= stop:
        os._exit(9)
    return number


def run(stop: int | None = None, now_ms: int = NOW_MS, **options: str) -> None:
    """Run the job in the working directory, in this process.

    Args:
        stop: the number before which the process ends; None for the whole input.
        now_ms: what the wall clock shows.
        options: keys of the configuration, such as ``changelog.restore``.
    """
    given = Configuration()
    for key, value in {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": BASE,
        "execution.checkpointing.interval": "1 ms",
        "python.fn-execution.bundle.size": "15",
        "changelog.epoch.target": "1 ms",
        "restart-strategy.type": "none",
        **options,
    }.items():
        given.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(given).set_parallelism(1)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    untimed = WatermarkStrategy.no_watermarks()
    numbers = (
        env.from_source(NumberSequenceSource(0, LAST), untimed, "numbers", Types.LONG())
        .uid("numbers")
        .map(partial(until, stop), Types.LONG())
        .assign_timestamps_and_watermarks(timed)
    )
    rules = env.from_source(NumberSequenceSource(0, 2), untimed, "rules", Types.LONG()).uid("rules")
    kinds = (
        numbers.key_by(lambda n: n % 4, Types.LONG())
        .connect(rules.assign_timestamps_and_watermarks(timed).broadcast(RULES))
        .process(Kinds(), Types.STRING())
        .uid("kinds")
    )
    tumbling = (
        numbers.key_by(lambda n: (n % 2, "odd" if n % 2 else "even"), PAIR)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(700)))
        .aggregate(Total(), Contents(), accumulator_type=PAIR_OF_LONGS, output_type=Types.STRING())
        .uid("tumbling")
    )
    sessions = (
        numbers.filter(lambda n: n % 13 < 9)
        .key_by(lambda n: None if n % 2 else Decimal(n % 4))
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(450)))
        .process(Contents(), Types.STRING())
        .uid("sessions")
    )
    sink = FileSink.for_row_format(SINK, Encoder.simple_string_encoder()).build()
    kinds.union(tumbling, sessions).sink_to(sink).uid("files")
    with without_spark(clock=lambda: now_ms):
        env.execute(JOB)


def answers(path: str) -> dict[str, list[str]]:
    """What this engine says the states are: checkpoint to its entries."""
    found = {}
    for checkpoint in sorted(open_ledger(path).lineage.checkpoints.ids()):
        entries = entries_at(path, checkpoint, allow_pickle=True).entries
        found[str(checkpoint)] = sorted(
            f"{each.operator}.{each.state} {each.key!r} {each.namespace} {each.value!r}" for each in entries
        )
    return found


def main(target: str) -> None:
    command = str(Path(sys.executable).with_name("changelog-engine"))
    job, here = f"{BASE}/{JOB}", os.getcwd()

    def part(stop: int, **options: str) -> None:
        small = json.dumps({"python.fn-execution.bundle.size": "3", **options})
        assert subprocess.run([sys.executable, __file__, str(stop), small]).returncode == 9

    def ask(*arguments: str) -> None:
        subprocess.run([command, *arguments], check=True)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        part(19)
        ask("materialize", job, "--grace", "0")
        part(28)
        ask("materialize", job, "--grace", "0")  # merges what is before the snapshot before it
        part(34)
        ask("savepoint", "create", job, SAVEPOINTS)
        newest = max(map(int, answers(job)))
        part(40, **{"changelog.restore": str(newest - 1)})  # a branch
        savepoint = next(Path(SAVEPOINTS).iterdir()).as_posix()
        told = {path: answers(path) for path in (job, savepoint)}
        Path(ANSWERS).write_text(json.dumps(told, ensure_ascii=False, indent=0))
        with tarfile.open(f"{here}/{target}", "w:xz") as kept:
            kept.add(".")
        os.chdir(here)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        run(int(sys.argv[1]), **json.loads(sys.argv[2]))
