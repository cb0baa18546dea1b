# topic: sum, min, max, min_by, max_by
# checks: min_by and max_by give the whole element with the extreme field, the first of equals; without an
#         argument position 0; by position and by name on rows; sum, min, max default to position 0 too.
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [
    ("a", 3, 1.0),
    ("a", 1, 2.0),
    ("b", 5, 3.0),
    ("a", 1, 4.0),
    ("b", 5, 5.0),
    ("b", 2, 6.0),
    ("a", 9, 7.0),
]
ds = env.from_collection(data, type_info=Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]))
keyed = ds.key_by(lambda v: v[0], key_type=Types.STRING())
rows = env.from_collection(
    [Row(*v) for v in data],
    type_info=Types.ROW_NAMED(["k", "n", "d"], [Types.STRING(), Types.INT(), Types.DOUBLE()]),
).key_by(lambda r: r.k, key_type=Types.STRING())
numbers = env.from_collection([(4,), (2,), (7,), (1,)], type_info=Types.TUPLE([Types.INT()])).key_by(
    lambda v: 0, key_type=Types.INT()
)
plain = env.from_collection([4, 2, 7, 1], type_info=Types.INT()).key_by(lambda v: 0, key_type=Types.INT())


def tell(name, stream):
    return stream.map(lambda v: "%s %s" % (name, v), Types.STRING())


streams = [
    tell("min_by", keyed.min_by(1)),
    tell("max_by", keyed.max_by(1)),
    tell("max_by double", keyed.max_by(2)),
    tell("row min_by", rows.min_by("n")),
    tell("row max_by", rows.max_by("n")),
    tell("row max", rows.max("n")),
    tell("row min", rows.min("n")),
    tell("row max by position", rows.max_by(1)),
    tell("default min_by", numbers.min_by()),
    tell("default max_by", numbers.max_by()),
    tell("default sum", numbers.sum()),
    tell("default min", numbers.min()),
    tell("plain max_by", plain.max_by()),
    tell("plain min_by", plain.min_by(0)),
    tell("sum of doubles", keyed.sum(2)),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
