# topic: batch and streaming mode
# checks: AUTOMATIC is batch for bounded sources of the new kind and streaming for from_collection jobs is told by
#         the results of a rolling sum; reduce of one element per key; BATCH with parallelism 2; the final
#         order of events for keyed process functions does not matter here.
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor


class Running(KeyedProcessFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    def process_element(self, value, ctx):
        self.n.update((self.n.value() or 0) + value)
        yield "key %d running %d" % (ctx.get_current_key(), self.n.value())


def run(mode, parallelism, source):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    env.set_parallelism(parallelism)
    if source == "sequence":
        ds = env.from_source(NumberSequenceSource(1, 6), WatermarkStrategy.no_watermarks(), "n", Types.LONG())
    else:
        ds = env.from_collection([1, 2, 3, 4, 5, 6], type_info=Types.LONG())
    summed = ds.key_by(lambda v: v % 2, key_type=Types.LONG()).reduce(lambda a, b: a + b)
    name = "%s %d %s" % (mode.name, parallelism, source)
    with summed.execute_and_collect() as it:
        results = sorted(it)
        # at parallelism 2 the order of the sequence's two halves shows in the running sums: only the last count
        print(name, "reduce", results if mode.name == "BATCH" or parallelism == 1 else results[-2:])
    if parallelism == 1:
        with (
            ds.key_by(lambda v: v % 2, key_type=Types.LONG())
            .process(Running(), Types.STRING())
            .execute_and_collect() as it
        ):
            for r in it:
                print(name, r)


run(RuntimeExecutionMode.BATCH, 1, "sequence")
run(RuntimeExecutionMode.BATCH, 2, "sequence")
run(RuntimeExecutionMode.BATCH, 2, "collection")
run(RuntimeExecutionMode.STREAMING, 1, "sequence")
run(RuntimeExecutionMode.AUTOMATIC, 1, "sequence")
run(RuntimeExecutionMode.AUTOMATIC, 1, "collection")
