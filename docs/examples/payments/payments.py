"""Payments of 200 accounts: one that spends too much is blocked, and one is blocked that should not be."""

from changelog_engine.api.common import Types, WatermarkStrategy
from changelog_engine.api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from changelog_engine.api.datastream.state import ValueStateDescriptor
from changelog_engine.testing import At, Checkpoint, ScriptedSource, without_spark

NOON = 1_767_960_000_000  # 2026-01-09 12:00:00 UTC, in milliseconds


class Guard(KeyedProcessFunction):
    """Adds up what an account spends, and blocks it above 1,000."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.blocked = runtime_context.get_state(ValueStateDescriptor("blocked", Types.BOOLEAN()))

    def process_element(self, payment, ctx):
        account, amount = payment
        total = (self.total.value() or 0) + abs(amount)
        self.total.update(total)
        if total > 1000 and not self.blocked.value():
            self.blocked.update(True)
            yield f"{account} is blocked: {total} spent"


# One payment of each account, a checkpoint, then a few more; a negative amount is money that came back.
payments = [At((f"acc-{n:03}", 10 + n), NOON + n) for n in range(200)] + [
    Checkpoint(),
    At(("acc-007", 1200), NOON + 2_000),
    At(("acc-042", 700), NOON + 3_000),
    Checkpoint(),
    At(("acc-042", -700), NOON + 5_000),
    At(("acc-150", 60), NOON + 6_000),
    Checkpoint(),
    At(("acc-101", 2000), NOON + 9_000),
]

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(10)
env.enable_changelog_state_backend(True)
source = env.from_source(ScriptedSource(payments), WatermarkStrategy.no_watermarks(), "payments")
accounts = source.uid("payments").key_by(lambda payment: payment[0], Types.STRING())
accounts.process(Guard(), Types.STRING()).uid("guard").print()
with without_spark():  # leave it out to run on Spark
    env.execute("payments")
