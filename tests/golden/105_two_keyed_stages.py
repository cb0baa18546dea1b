# topic: several states and stages
# checks: two keyed stages with states of the same name keep them apart; a stage keyed differently sees
#         the first one's output; rich functions (map, flat_map, filter) on a keyed stream have keyed state.
from pyflink.common import Types
from pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def process_element(self, value, ctx):
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        yield ctx.get_current_key(), n


class CountMap(MapFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def map(self, value):
        n = (self.n.value() or 0) + 1
        self.n.update(n)
        return "map %s seen %d" % (value, n)


class FirstOnly(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class Pairs(FlatMapFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.STRING()))

    def flat_map(self, value):
        self.waiting.add(value)
        both = list(self.waiting.get())
        if len(both) == 2:
            self.waiting.clear()
            yield "pair %s %s" % tuple(both)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
words = ["ant", "bee", "ape", "ant", "cat", "bat", "ant", "bee", "asp", "cow"]
ds = env.from_collection(words, type_info=Types.STRING())
by_word = ds.key_by(lambda w: w, key_type=Types.STRING())
by_letter = ds.key_by(lambda w: w[0], key_type=Types.STRING())
counted = by_word.process(Count(), Types.TUPLE([Types.STRING(), Types.INT()]))
again = (
    counted.key_by(lambda v: v[1], key_type=Types.INT())
    .process(Count(), Types.TUPLE([Types.INT(), Types.INT()]))
    .map(lambda v: "count %d reached by %d" % v, Types.STRING())
)
mapped = by_word.map(CountMap(), Types.STRING())
first = by_letter.filter(FirstOnly()).map(lambda w: "first " + w, Types.STRING())
pairs = by_letter.flat_map(Pairs(), Types.STRING())
with again.union(mapped, first, pairs).execute_and_collect() as it:
    for r in it:
        print(r)
