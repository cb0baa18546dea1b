"""A timer two seconds of event time after each element."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class Sum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.sum.update((self.sum.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield f"{timestamp}: {ctx.get_current_key()} has {self.sum.value()}"


class First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return int(value[0])


def event_time_timer():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    elements = env.from_collection(
        collection=[(1000, "ada", 1), (1001, "emmy", 2), (3002, "ada", 3), (6003, "emmy", 4)],
        type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()]),
    )
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    timed = elements.assign_timestamps_and_watermarks(late.with_timestamp_assigner(First()))
    timed.key_by(lambda value: value[1]).process(Sum(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    event_time_timer()
