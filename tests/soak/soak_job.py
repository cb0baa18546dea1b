"""The job of the soak: a stream without an end over a fixed set of keys, so that everything it needs stays the same.

python soak_job.py ELEMENTS_A_SECOND KEYS. Configuration comes from the file. With SOAK_TRACE the driver writes every minute
which lines of Python hold more memory than a while ago, and which classes have more objects.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import tracemalloc
from collections import Counter

from api.common import Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from api.datastream.window import TumblingEventTimeWindows

END = 2**53
ELEMENT_MS = 10
TRACE_EVERY_S = 60


class Pace(MapFunction):
    """Lets through so many elements a second."""

    def __init__(self, per_second):
        self.per_second = per_second

    def open(self, runtime_context):
        self.began, self.seen = time.monotonic(), 0

    def map(self, value):
        self.seen += 1
        ahead = self.seen / self.per_second - (time.monotonic() - self.began)
        if ahead > 0:
            time.sleep(ahead)
        return value


class At(TimestampAssigner):
    """A number's time."""

    def extract_timestamp(self, value, record_timestamp):
        return value % (END // 2) * ELEMENT_MS


class Follow(KeyedProcessFunction):
    """A count, a bounded map and a timer for each key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.LONG(), Types.STRING()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.last.put(count % 10, f"element {value}")
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000)
        yield count

    def on_timer(self, timestamp, ctx):
        self.last.remove(timestamp // ELEMENT_MS % 10)
        return ()


def trace():
    """See the module's docstring."""
    tracemalloc.start(8)
    time.sleep(2 * TRACE_EVERY_S)
    before, objects = tracemalloc.take_snapshot(), _objects()
    while True:
        time.sleep(TRACE_EVERY_S)
        gc.collect()
        now, counts = tracemalloc.take_snapshot(), _objects()
        print(f"TRACE {tracemalloc.get_traced_memory()[0]:,} bytes", flush=True)
        for line in now.compare_to(before, "traceback")[:10]:
            print(f"TRACE {line.size_diff:+,} bytes, {line.count_diff:+,} blocks")
            print("\n".join(line.traceback.format()), flush=True)
        more = {name: count - objects[name] for name, count in counts.items() if count > objects[name]}
        print("TRACE objects", sorted(more.items(), key=lambda item: -item[1])[:15], flush=True)


def _objects():
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())


def main(per_second, keys):
    if os.environ.get("SOAK_TRACE"):
        threading.Thread(target=trace, daemon=True).start()
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(
        NumberSequenceSource(0, END - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    keyed = (
        numbers.map(Pace(per_second / env.get_parallelism()), Types.LONG())
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
        )
        .key_by(lambda number: number % keys, Types.LONG())
    )
    counts = keyed.process(Follow(), Types.LONG()).uid("follow")
    sums = (
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(lambda a, b: a + b).uid("windows")
    )
    counts.union(sums).filter(lambda value: value < 0).print()
    env.execute("soak")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
