# topic: union and partitioning
# checks: what DataStream getters and setters give: get_name, get_type, chaining of
#         setters; a stream used several times; union with itself and of three; DataStreamSink setters.
from pyflink.common import Types
from pyflink.datastream import DataStream, DataStreamSink, KeyedStream, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2], type_info=Types.INT())
print(type(ds).__name__, ds.get_type() == Types.INT())
mapped = ds.map(lambda v: (v, str(v)), Types.TUPLE([Types.INT(), Types.STRING()]))
print(mapped.get_type() == Types.TUPLE([Types.INT(), Types.STRING()]), isinstance(mapped, DataStream))
print(mapped.name("a name").get_name(), mapped.set_parallelism(1) is mapped, mapped.uid("u") is mapped)
print(mapped.force_non_parallel() is mapped, mapped.set_uid_hash("a" * 32) is mapped)
keyed = mapped.key_by(lambda v: v[1], key_type=Types.STRING())
print(isinstance(keyed, KeyedStream), isinstance(keyed.map(lambda v: v), KeyedStream))
print(mapped.map(lambda v: v).get_type() == Types.PICKLED_BYTE_ARRAY())
print(ds.filter(lambda v: True).get_type() == Types.INT(), ds.rebalance().get_type() == Types.INT())
print(ds.map(lambda v: v).name("x").set_description("d").disable_chaining().start_new_chain().get_name())
print(
    mapped.project(1).get_type() == Types.TUPLE([Types.STRING()]),
    keyed.sum(0).get_type() == mapped.get_type(),
)
for name in [
    "set_parallelism(0)",
    "set_max_parallelism(0)",
    "set_uid_hash('short')",
    "set_buffer_timeout(-5)",
]:
    try:
        eval("ds.map(lambda v: v).%s" % name)
        print(name, "no error")
    except Exception:
        print(name, "error")
sink = ds.union(ds, ds).print()
print(isinstance(sink, DataStreamSink), sink.name("s") is sink, sink.uid("sink") is sink)
print(sink.set_parallelism(1) is sink, sink.set_description("text") is sink, sink.disable_chaining() is sink)
env.execute()
