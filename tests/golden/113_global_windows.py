# topic: lateness and triggers
# checks: GlobalWindows with the default trigger never fires; with CountTrigger it fires with everything so
#         far, inside PurgingTrigger with the elements since the last firing; reduce in a global window;
#         a custom trigger with FIRE, PURGE and state.
from pyflink.common import Types
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment, Trigger, TriggerResult
from pyflink.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger


class Tell(ProcessWindowFunction):
    def __init__(self, name):
        self.name = name

    def process(self, key, context, elements):
        yield "%s %s %s max=%d" % (
            self.name,
            key,
            [e[1] for e in elements],
            context.window().max_timestamp(),
        )


class SumOverTen(Trigger):
    """Fires once the sum of the numbers is over ten; a zero purges; -1 fires and purges."""

    def __init__(self):
        self.total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT())
        self.fired = ValueStateDescriptor("fired", Types.INT())

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(self.total)
        fired = ctx.get_partitioned_state(self.fired)
        if element[1] == 0:
            total.clear()
            return TriggerResult.PURGE
        if element[1] == -1:
            return TriggerResult.FIRE_AND_PURGE
        total.add(element[1])
        if total.get() > 10 and (fired.value() or 0) < 2:
            fired.update((fired.value() or 0) + 1)
            total.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.total).clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [
        ("a", 5), ("a", 4), ("b", 11), ("a", 3), ("a", 0), ("a", 6), ("b", 1), ("a", 7), ("a", 20), ("b", 2),
        ("a", -1), ("a", 8),
    ],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)  # fmt: skip
keyed = ds.key_by(lambda v: v[0], key_type=Types.STRING())
windowed = keyed.window(GlobalWindows.create())
streams = [
    windowed.process(Tell("default"), Types.STRING()),
    windowed.trigger(CountTrigger.of(2)).process(Tell("count"), Types.STRING()),
]
purging = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
streams.append(purging.process(Tell("purging"), Types.STRING()))
purging = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
streams.append(
    purging.reduce(lambda x, y: (x[0], x[1] + y[1])).map(lambda v: "purging sum %s %d" % v, Types.STRING())
)
streams.append(
    keyed.window(GlobalWindows.create()).trigger(SumOverTen()).process(Tell("custom"), Types.STRING())
)
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
