# topic: broadcast state
# checks: at parallelism 2 process_broadcast_element runs in each instance, process_element once per element; side
#         output from both; state of a map descriptor with tuple values; items, in sorted order; clear; put_all.
#         (Thread mode: put_all of a dict fails in process mode.)
import time

from pyflink.common import Configuration, Types
from pyflink.datastream import BroadcastProcessFunction, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

names = MapStateDescriptor("names", Types.INT(), Types.TUPLE([Types.STRING(), Types.INT()]))
tag = OutputTag("tag", Types.STRING())


class Names(BroadcastProcessFunction):
    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(names)
        if value[1] == "clear":
            state.clear()
        elif value[1] == "all":
            state.put_all({value[0]: ("put", 0), value[0] + 1: ("all", 1)})
        else:
            state.put(value[0], (value[1], len(value[1])))
        yield tag, "rule %s: %s" % (value, sorted(state.items()))

    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(names)
        yield "%d is %s" % (value, state.get(value))
        if not state.contains(value):
            yield tag, "unknown %d" % value


def later(value):
    time.sleep(4 if value == 1 else 0)
    return value


config = Configuration()
config.set_string("python.execution-mode", "thread")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(2)
rules = env.from_collection(
    [(9, "gone"), (0, "clear"), (1, "one"), (2, "two"), (3, "all"), (2, "zwei")],
    type_info=Types.TUPLE([Types.INT(), Types.STRING()]),
)
data = env.from_collection([1, 2, 3, 4, 5], type_info=Types.INT()).map(later, Types.INT()).set_parallelism(1)
result = data.connect(rules.broadcast(names)).process(Names(), Types.STRING())
with result.union(result.get_side_output(tag)).execute_and_collect() as it:
    for r in it:
        print(r)
