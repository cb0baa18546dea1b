"""A job for tests: windows, timers, broadcast state, and every sink that commits exactly once, side by side.

python everything_job.py NUMBERS OUT BOOTSTRAP_SERVERS TOPIC JDBC_URL USER, with the password in TEST_PASSWORD.
Configuration comes from the file. With ELSEWHERE=1 it runs as on another machine, where no lock of a driver here is seen.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from counting_job import Crawl

from api.common import Encoder, Time, Types, WatermarkStrategy
from api.common.serialization import SimpleStringSchema
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import AggregateFunction, KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from api.datastream.connectors import (
    DeliveryGuarantee,
    DeltaSink,
    FileSink,
    JdbcConnectionOptions,
    JdbcSink,
    NumberSequenceSource,
    RollingPolicy,
)
from api.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from api.datastream.functions import ProcessWindowFunction
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.ledger.ownership import DriverLock

KEYS = 10
RULES = 300
DIGITS = 7
NUMBER_MS, RULE_MS = 10, 200  # how far event time moves from one to the next
WINDOW_MS, TIMER_MS = 1_000, 500
PARALLELISM = 2
NUMBERS_A_SECOND, RULES_A_SECOND = 50, 5  # in each subtask, while the job crawls
ROW = Types.ROW_NAMED(["what", "k", "a", "b"], [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
RULE_STATE = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


def time_of(number: int, numbers: int) -> int:
    """Both halves of the numbers begin at 0: one is each source subtask's."""
    return number % (numbers // PARALLELISM) * NUMBER_MS


def has_timer(number: int) -> bool:
    return number // KEYS % 10 == 0


class Expected(NamedTuple):
    """What an undisturbed run leaves.

    Args:
        counts: key to how many numbers it has.
        digits: key to how often which remainder came.
        sums: key to the sum of its numbers.
        timers: pairs of key and time.
        windows: key, end, how many, their sum.
    """

    counts: Counter[int]
    digits: dict[int, Counter[int]]
    sums: Counter[int]
    timers: set[tuple[int, int]]
    windows: set[tuple[int, int, int, int]]


def expected(numbers: int) -> Expected:
    """The model of the job."""
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    digits: dict[int, Counter[int]] = {key: Counter() for key in range(KEYS)}
    timers, many, total = set(), Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for number in range(numbers):
        key, time = number % KEYS, time_of(number, numbers)
        counts[key] += 1
        sums[key] += number
        digits[key][number % DIGITS] += 1
        if has_timer(number):
            timers.add((key, time + TIMER_MS))
        end = time // WINDOW_MS * WINDOW_MS + WINDOW_MS
        many[key, end] += 1
        total[key, end] += number
    windows = {(*where, n, total[where]) for where, n in many.items()}
    return Expected(counts, digits, sums, timers, windows)


class Paced(Crawl):
    """Lets through so many elements a second until told to hurry."""

    def __init__(self, per_second: int) -> None:
        super().__init__()
        self.per_second = per_second


class NumberTime(TimestampAssigner):
    """Of a number."""

    def __init__(self, numbers: int) -> None:
        self.numbers = numbers

    def extract_timestamp(self, value, record_timestamp):
        return time_of(value, self.numbers)


class RuleTime(TimestampAssigner):
    """Of a rule."""

    def extract_timestamp(self, value, record_timestamp):
        return value * RULE_MS


class Follow(KeyedBroadcastProcessFunction):
    """All kinds of state by key, timers, and how many rules there are by now."""

    def open(self, runtime_context):
        long = Types.LONG()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", long))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, long)
        )
        self.digits = runtime_context.get_map_state(MapStateDescriptor("digits", long, long))
        self.fired = runtime_context.get_list_state(ListStateDescriptor("fired", long))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULE_STATE).put(value, value * value)

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.sum.add(value)
        self.digits.put(value % DIGITS, (self.digits.get(value % DIGITS) or 0) + 1)
        if has_timer(value):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + TIMER_MS)
        rules = sum(1 for _ in ctx.get_broadcast_state(RULE_STATE).items())
        yield ("count", ctx.get_current_key(), count, rules)

    def on_timer(self, timestamp, ctx):
        self.fired.add(timestamp)
        yield ("timer", ctx.get_current_key(), timestamp, 0)


class CountAndSum(AggregateFunction):
    """How many, and their sum."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Window(ProcessWindowFunction):
    """A window with its end."""

    def process(self, key, context, elements) -> Iterator[tuple[str, int, int, int]]:
        for count, total in elements:
            yield (f"window {count}", key, context.window().end, total)


def line(row) -> str:
    return " ".join(str(row[field]) for field in range(4))


def main(numbers, out, servers, topic, url, user):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(PARALLELISM)
    by_number = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberTime(numbers))
    by_rule = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(RuleTime())
    none = WatermarkStrategy.no_watermarks()
    rules = (
        env.from_source(NumberSequenceSource(0, RULES - 1), none, "rules", Types.LONG())
        .set_parallelism(1)
        .map(Paced(RULES_A_SECOND), Types.LONG())
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(by_rule)
        .set_parallelism(1)
    )
    keyed = (
        env.from_source(NumberSequenceSource(0, numbers - 1), none, "numbers", Types.LONG())
        .map(Paced(NUMBERS_A_SECOND), Types.LONG())
        .assign_timestamps_and_watermarks(by_number)
        .key_by(lambda number: number % KEYS, Types.LONG())
    )
    followed = keyed.connect(rules.broadcast(RULE_STATE)).process(Follow(), ROW).uid("follow")
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    windows = (
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .aggregate(CountAndSum(), Window(), accumulator_type=pair, output_type=ROW)
        .uid("windows")
    )
    rows = followed.union(windows)
    lines = rows.map(line, Types.STRING()).uid("lines")
    lines.sink_to(
        FileSink.for_row_format(f"{out}/files", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=20_000))
        .build()
    ).uid("files")
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    kafka = KafkaSink.builder().set_bootstrap_servers(servers)
    kafka.set_record_serializer(record.set_value_serialization_schema(SimpleStringSchema()).build())
    kafka.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("everything")
    lines.sink_to(kafka.build()).uid("kafka")
    rows.sink_to(DeltaSink.for_row_data(f"{out}/delta", ROW).build()).uid("delta")
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name(user)
    options = builder.with_password(os.environ["TEST_PASSWORD"]).build()
    rows.add_sink(JdbcSink.exactly_once_sink("INSERT INTO rows VALUES (?, ?, ?, ?)", ROW, options)).uid(
        "jdbc"
    )
    env.execute("everything")


if __name__ == "__main__":
    if os.environ.get("ELSEWHERE"):
        DriverLock.acquire = lambda self: None  # type: ignore[method-assign]
    main(int(sys.argv[1]), *sys.argv[2:7])
    print("THE JOB ENDED")
