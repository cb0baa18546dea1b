# topic: event-time timers
# checks: a deleted timer does not fire; deleting one that was never set is nothing; setting twice fires
#         once; deleting in on_timer works for later ones; deletion is per key; on_timer output
#         can go to a side output. (Thread mode: process mode sends all due timers in one bundle, so
#         one that an earlier timer of the bundle deletes still fires.)
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment

side = OutputTag("fired", Types.STRING())


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        key, op, at = value
        service = ctx.timer_service()
        if op == "set":
            service.register_event_time_timer(at)
        elif op == "delete":
            service.delete_event_time_timer(at)
        yield "%s %s %d at %d" % (key, op, at, ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        yield "%s fired %d" % (ctx.get_current_key(), timestamp)
        yield side, "%s side %d" % (ctx.get_current_key(), timestamp)
        if timestamp == 100:
            ctx.timer_service().delete_event_time_timer(200)


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
ops = [
    ("a", "set", 100),
    ("a", "set", 200),
    ("a", "set", 300),
    ("a", "set", 300),
    ("b", "set", 300),
    ("b", "delete", 300),
    ("c", "delete", 50),
    ("c", "set", 50),
    ("c", "set", 60),
    ("c", "delete", 60),
    ("c", "set", 60),
    ("d", "set", 200),
    ("e", "set", -5),
    ("e", "set", 0),
]
ds = env.from_collection(ops, type_info=Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()]))
main = (
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    .key_by(lambda v: v[0], key_type=Types.STRING())
    .process(Timers(), Types.STRING())
)
with main.union(main.get_side_output(side)).execute_and_collect() as it:
    for r in it:
        print(r)
