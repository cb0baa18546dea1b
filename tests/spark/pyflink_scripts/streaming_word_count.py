"""Counts words by windows of five seconds of event time, late ones apart."""

from collections.abc import Iterable

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import TimeWindow, TumblingEventTimeWindows


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return value[1]


class Count(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


def streaming_word_count():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    words = env.from_collection(
        [("to", 0), ("be", 1000), ("to", 4999), ("or", 5000), ("be", 5001), ("be", 9000)],
        type_info=Types.TUPLE([Types.STRING(), Types.LONG()]),
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    counts = (
        words.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda value: value[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .side_output_late_data(late)
        .process(Count(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()]))
    )
    counts.print()
    counts.get_side_output(late).map(lambda value: f"late: {value}", Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    streaming_word_count()
