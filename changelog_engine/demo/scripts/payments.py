"""Payments by account: how many, their sum, and the payment with which an account passed the limit.

    changelog-engine run --without-spark payments.py      in this process
    changelog-engine run payments.py                      by Spark, which needs Java

It reads payments.csv beside it, and leaves its changelog in the folder jobs beside it.
"""

import sys
import time
from pathlib import Path

from changelog_engine.api.common import Configuration, Row, Types, WatermarkStrategy
from changelog_engine.api.common.watermark_strategy import TimestampAssigner
from changelog_engine.api.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from changelog_engine.api.datastream.connectors.file_system import FileSource, StreamFormat
from changelog_engine.api.datastream.state import ValueStateDescriptor

HERE = Path(__file__).resolve().parent
LIMIT_CENTS = 100_000

PAYMENT = Types.ROW_NAMED(
    ["time_ms", "number", "account", "cents"], [Types.LONG(), Types.LONG(), Types.STRING(), Types.LONG()]
)


class Slowly(MapFunction):
    """Lets a number of lines through each second, so that there is something to watch. A job of yours does without."""

    def __init__(self, per_second):
        self.per_second = per_second

    def open(self, runtime_context):
        self.began, self.seen = time.monotonic(), 0

    def map(self, value):
        self.seen += 1
        if self.seen % 50 == 0:
            ahead = self.seen / self.per_second - (time.monotonic() - self.began)
            if ahead > 0:
                time.sleep(ahead)
            elif ahead < -1:  # held up for a while: don't hurry after it
                self.began, self.seen = time.monotonic(), 0
        return value


def parse(line):
    """One line of the file."""
    time_ms, number, account, cents = line.split(",")
    return Row(time_ms=int(time_ms), number=int(number), account=account, cents=int(cents))


class PaidAt(TimestampAssigner):
    """Event time is when the payment was made; the file is in that order."""

    def extract_timestamp(self, value, record_timestamp):
        return value.time_ms


class Account(KeyedProcessFunction):
    """One account."""

    def open(self, runtime_context):
        self.payments = runtime_context.get_state(ValueStateDescriptor("payments", Types.LONG()))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.blocked_by = runtime_context.get_state(ValueStateDescriptor("blocked by", Types.LONG()))

    def process_element(self, value, ctx):
        self.payments.update((self.payments.value() or 0) + 1)
        total = (self.total.value() or 0) + value.cents
        self.total.update(total)
        if total > LIMIT_CENTS and self.blocked_by.value() is None:
            self.blocked_by.update(value.number)
            yield f"{value.account} is blocked: payment {value.number} took its total to {total / 100:,.2f}"


def main(per_second=1_000_000):
    """Run the job to its end, or on from its last checkpoint where an earlier run didn't come to its end."""
    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", str(HERE / "jobs"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(500)
    env.enable_changelog_state_backend(True)
    lines = env.from_source(
        FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), str(HERE / "payments.csv")
        ).build(),
        WatermarkStrategy.no_watermarks(),
        "payments.csv",
    ).uid("payments.csv")
    payments = (
        lines.map(Slowly(per_second), Types.STRING())
        .map(parse, PAYMENT)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PaidAt())
        )
    )
    payments.key_by(lambda payment: payment.account, Types.STRING()).process(Account(), Types.STRING()).uid(
        "accounts"
    ).print()
    env.execute("payments")


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:]])
