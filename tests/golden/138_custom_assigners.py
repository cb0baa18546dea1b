# topic: count windows and custom assigners
# checks: a custom WindowAssigner over TimeWindow with EventTimeTrigger that puts an element into several windows;
#         a custom MergingWindowAssigner; the context's current processing time; TimeWindow functions.
from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import (
    EventTimeTrigger,
    MergingWindowAssigner,
    TimeWindow,
    TimeWindowSerializer,
    WindowAssigner,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        w = context.window()
        yield "%s [%d, %d) %s" % (key, w.start, w.end, sorted(e[1] for e in elements))


class Twice(WindowAssigner):
    """A window of 100 and one of 1000, both with the element."""

    def assign_windows(self, element, timestamp, context):
        assert context.get_current_processing_time() > 1600000000000
        return [
            TimeWindow(timestamp - timestamp % size, timestamp - timestamp % size + size)
            for size in (100, 1000)
        ]

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class Touching(MergingWindowAssigner):
    """Windows of the element's own length; those that overlap are merged."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + element[2])]

    def merge_windows(self, windows, callback):
        windows = sorted(windows, key=lambda w: w.start)
        groups = []
        for w in windows:
            if groups and groups[-1][0].intersects(w):
                groups[-1] = (groups[-1][0].cover(w), groups[-1][1] + [w])
            else:
                groups.append((w, [w]))
        for covered, members in groups:
            if len(members) > 1:
                callback.merge(members, covered)

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [
        ("a", 10, 20),
        ("a", 120, 30),
        ("b", 15, 500),
        ("a", 25, 10),
        ("b", 400, 1),
        ("a", 1140, 5),
        ("a", 145, 1000),
    ],
    type_info=Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]),
)
keyed = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
).key_by(lambda v: v[0], key_type=Types.STRING())
twice = keyed.window(Twice()).process(Tell(), Types.STRING()).map(lambda t: "twice " + t, Types.STRING())
touching = (
    keyed.window(Touching()).process(Tell(), Types.STRING()).map(lambda t: "touching " + t, Types.STRING())
)
with twice.union(touching).execute_and_collect() as it:
    for r in it:
        print(r)
a, b = TimeWindow(0, 10), TimeWindow(5, 15)
print(
    a.intersects(b), a.cover(b), a == TimeWindow(0, 10), hash(a) == hash(TimeWindow(0, 10)), a.max_timestamp()
)
print(
    TimeWindow.get_window_start_with_offset(1234, 100, 1000),
    TimeWindow.get_window_start_with_offset(-1, 0, 1000),
)
print(TimeWindow(0, 5).intersects(TimeWindow(5, 6)), TimeWindow(0, 5).intersects(TimeWindow(6, 7)))
