# topic: map, flat_map, filter
# checks: MapFunction, FlatMapFunction and FilterFunction classes with open and close; flat_map may give
#         a list, a tuple, a generator or an empty list; filter keeps the type; functions with default
#         arguments, partials and callable objects work; map without output type keeps Python objects.
import functools

from pyflink.common import Types
from pyflink.datastream import FilterFunction, FlatMapFunction, MapFunction, StreamExecutionEnvironment


class Add(MapFunction):
    def __init__(self, n):
        self.n = n
        self.opened = 0

    def open(self, runtime_context):
        self.opened += 1

    def map(self, value):
        return "add %d opened %d" % (value + self.n, self.opened)


class Repeat(FlatMapFunction):
    def flat_map(self, value):
        if value == 1:
            return []
        if value == 2:
            return ["list", "of two"]
        if value == 3:
            return ("tuple", "of", "three")
        return ("made %d" % i for i in range(value))


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


class Callable:
    def __call__(self, value):
        return "called %s" % value


def minus(value, by=1):
    return "minus %d" % (value - by)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
streams = [
    ds.map(Add(10), Types.STRING()),
    ds.flat_map(Repeat(), Types.STRING()),
    ds.filter(Odd()).map(lambda v: "odd %d" % v, Types.STRING()),
    ds.filter(lambda v: v > 1).filter(lambda v: v < 4).map(lambda v: "between %d" % v, Types.STRING()),
    ds.map(minus, Types.STRING()),
    ds.map(functools.partial(minus, by=3), Types.STRING()),
    ds.map(lambda v: {"v": v}).map(lambda d: "dict %s" % d, Types.STRING()),
    ds.flat_map(lambda v: range(v)).map(lambda v: "range %s" % v, Types.STRING()),
    ds.flat_map(lambda v: "ab" * v if v < 3 else "").map(lambda v: "char %s" % v, Types.STRING()),
    ds.map(Callable(), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
