# topic: lateness and triggers
# checks: processing-time windows: a window that is still open when bounded input ends is not emitted;
#         with a CountTrigger it fires by count; processing-time session windows with slow input fire.
import time

from pyflink.common import Configuration, Time, Types
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import (
    CountTrigger,
    ProcessingTimeSessionWindows,
    TumblingProcessingTimeWindows,
)


class Tell(WindowFunction):
    def apply(self, key, window, inputs):
        yield "%s %s" % (key, [v[1] for v in inputs])


def slow(value):
    time.sleep(3 if value[1] == 3 else 0)
    return value


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.INT()])
ds = env.from_collection([("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5)], type_info=pair)
keyed = ds.rebalance().map(slow, pair).key_by(lambda v: v[0], key_type=Types.STRING())
open_at_end = keyed.window(TumblingProcessingTimeWindows.of(Time.days(1))).apply(Tell(), Types.STRING())
counted = (
    keyed.window(TumblingProcessingTimeWindows.of(Time.days(1)))
    .trigger(CountTrigger.of(2))
    .apply(Tell(), Types.STRING())
)
sessions = keyed.window(ProcessingTimeSessionWindows.with_gap(Time.seconds(1))).apply(Tell(), Types.STRING())
result = open_at_end.map(lambda t: "never " + t, Types.STRING()).union(
    counted.map(lambda t: "counted " + t, Types.STRING()),
    sessions.map(lambda t: "session " + t, Types.STRING()),
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
