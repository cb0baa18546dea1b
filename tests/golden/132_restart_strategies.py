# topic: checkpoints and recovery
# checks: no_restart fails at the first error; fixed_delay_restart(2) survives two failures and no third one;
#         without checkpoints a restart begins from the start with empty state; without any
#         setting (no checkpoints) there is no restart.
import os
import tempfile

from pyflink.common import RestartStrategies, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

folder = tempfile.mkdtemp()


class Fails(KeyedProcessFunction):
    def __init__(self, name, failures):
        self.path = os.path.join(folder, name)
        self.failures = failures

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))
        with open(self.path, "a") as f:
            f.write("attempt %d\n" % self.attempt)

    def process_element(self, value, ctx):
        self.n.update((self.n.value() or 0) + value)
        if value == 3 and self.attempt < self.failures:
            raise RuntimeError("failure of attempt %d" % self.attempt)
        if value == 4:
            with open(self.path, "a") as f:
                f.write("sum %d in attempt %d\n" % (self.n.value(), self.attempt))
        yield self.n.value()


cases = [
    ("none", RestartStrategies.no_restart(), 1),
    ("twice", RestartStrategies.fixed_delay_restart(2, 10), 2),
    ("thrice", RestartStrategies.fixed_delay_restart(2, 10), 3),
    ("rate", RestartStrategies.failure_rate_restart(5, 60000, 10), 2),
    ("unset", None, 1),
]
for name, strategy, failures in cases:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    if strategy is not None:
        env.set_restart_strategy(strategy)
    ds = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
    ds.key_by(lambda v: 0, key_type=Types.INT()).process(Fails(name, failures), Types.INT()).filter(
        lambda v: False
    ).print()
    try:
        env.execute()
        print(name, "finished")
    except Exception as e:
        print(name, "failed", "failure of attempt" in str(e))
    with open(os.path.join(folder, name)) as f:
        for line in f:
            print(name, line.rstrip())
