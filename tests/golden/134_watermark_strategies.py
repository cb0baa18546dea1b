# topic: timestamps and watermarks
# checks: with slow input the watermark of bounded out-of-orderness follows the largest time stamp less the bound
#         less one, monotonous the largest less one; it never goes back; no_watermarks stays at the smallest
#         long; a union has the smaller watermark of its inputs; with_idleness changes nothing while elements come.
import time

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Show(ProcessFunction):
    def __init__(self, name):
        self.name = name

    def process_element(self, value, ctx):
        yield "%s %d ts=%d wm=%d" % (
            self.name,
            value,
            ctx.timestamp(),
            ctx.timer_service().current_watermark(),
        )


def slow(value):
    time.sleep(1.2)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(50)
ds = env.from_collection([5000, 7000, 6000, 9000], type_info=Types.LONG()).rebalance().map(slow, Types.LONG())


def with_strategy(name, strategy):
    return ds.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(At())).process(
        Show(name), Types.STRING()
    )


streams = [
    with_strategy("monotonous", WatermarkStrategy.for_monotonous_timestamps()),
    with_strategy("bounded", WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))),
    with_strategy("bounded millis", WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))),
    with_strategy("none", WatermarkStrategy.no_watermarks()),
    with_strategy(
        "idle", WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(30))
    ),
]
one = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
)
never = ds.assign_timestamps_and_watermarks(
    WatermarkStrategy.no_watermarks().with_timestamp_assigner(At())
).filter(lambda v: False)
streams.append(one.union(never).process(Show("union with none"), Types.STRING()))
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
