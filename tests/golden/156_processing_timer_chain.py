# topic: processing-time timers
# checks: on_timer can set the next processing-time timer; a deleted one does not fire; timers fire while input
#         still arrives; those due after the end of bounded input are dropped.
import time

from pyflink.common import Configuration, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

pair = Types.TUPLE([Types.STRING(), Types.STRING()])


class Chain(KeyedProcessFunction):
    def open(self, runtime_context):
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.INT()))
        self.doomed = runtime_context.get_state(ValueStateDescriptor("doomed", Types.LONG()))

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        now = service.current_processing_time()
        if value[1] == "start":
            service.register_processing_time_timer(now + 200)
            self.doomed.update(now + 2500)
            service.register_processing_time_timer(now + 2500)
        elif value[1] == "stop":
            service.delete_processing_time_timer(self.doomed.value())
            service.register_processing_time_timer(now + 3600000)
        yield "%s %s fired %s" % (value[0], value[1], self.fired.value())

    def on_timer(self, timestamp, ctx):
        n = (self.fired.value() or 0) + 1
        self.fired.update(n)
        yield "%s timer number %d" % (ctx.get_current_key(), n)
        if n < 3:
            ctx.timer_service().register_processing_time_timer(timestamp + 200)


def slow(value):
    time.sleep(1.2 if value[1] == "stop" else 3 if value[1] == "last" else 0)
    return value


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
ds = env.from_collection([("a", "start"), ("a", "stop"), ("b", "last"), ("a", "look")], type_info=pair)
result = (
    ds.rebalance()
    .map(slow, pair)
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .process(Chain(), Types.STRING())
)
with result.execute_and_collect() as it:
    for r in it:
        print(r)
