# topic: runtime context and life cycle
# checks: the metric group of a runtime context: counter, gauge, distribution, meter and sub groups can be made and
#         used in open without changing the result; counters count.
from pyflink.common import Types
from pyflink.datastream import MapFunction, StreamExecutionEnvironment


class Metrics(MapFunction):
    def __init__(self):
        self.last = 0

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.counter = group.add_group("mine").counter("seen")
        group.add_group("key", "value").gauge("last", lambda: self.last)
        self.distribution = group.distribution("sizes")
        self.meter = group.meter("rate")

    def map(self, value):
        self.last = value
        self.counter.inc()
        self.counter.inc(2)
        self.counter.dec()
        self.distribution.update(value)
        self.meter.mark_event()
        self.meter.mark_event(2)
        return "%d counted %d" % (value, self.counter.get_count())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([5, 6, 7], type_info=Types.INT())
with ds.map(Metrics(), Types.STRING()).execute_and_collect() as it:
    for r in it:
        print(r)
