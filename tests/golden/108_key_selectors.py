# topic: key by and reduce
# checks: key_by with a KeySelector class, with and without key type; keys of type tuple, row, list in a
#         tuple, bool, double, bytes and None; ReduceFunction class; reduce keeps the first element as it is.
from pyflink.common import Row, Types
from pyflink.datastream import KeySelector, ReduceFunction, StreamExecutionEnvironment


class ByLength(KeySelector):
    def get_key(self, value):
        return len(value)


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return "%s,%s" % (value1, value2)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
words = ["a", "bb", "c", "dd", "eee", "f"]
ds = env.from_collection(words, type_info=Types.STRING())
join = Longest()
streams = [
    ds.key_by(ByLength(), key_type=Types.INT()).reduce(join).map(lambda v: "class " + v, Types.STRING()),
    ds.key_by(ByLength()).reduce(join).map(lambda v: "untyped " + v, Types.STRING()),
    ds.key_by(lambda v: (len(v), len(v) % 2), key_type=Types.TUPLE([Types.INT(), Types.INT()]))
    .reduce(join)
    .map(lambda v: "tuple " + v, Types.STRING()),
    ds.key_by(lambda v: Row(len(v)), key_type=Types.ROW([Types.INT()]))
    .reduce(join)
    .map(lambda v: "row " + v, Types.STRING()),
    ds.key_by(lambda v: len(v) > 1, key_type=Types.BOOLEAN())
    .reduce(join)
    .map(lambda v: "bool " + v, Types.STRING()),
    ds.key_by(lambda v: len(v) / 2, key_type=Types.DOUBLE())
    .reduce(join)
    .map(lambda v: "double " + v, Types.STRING()),
    ds.key_by(lambda v: None).reduce(join).map(lambda v: "none " + v, Types.STRING()),
    ds.key_by(lambda v: len(v))
    .key_by(lambda v: len(v) % 2)
    .reduce(join)
    .map(lambda v: "keyed twice " + v, Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
