# topic: runtime context and life cycle
# checks: open is called once per parallel instance before the first element, close after the last one; a
#         KeySelector, a filter and a reduce function are opened as well; what __init__ made is copied.
import os
import tempfile

from pyflink.common import Types
from pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)

folder = tempfile.mkdtemp()


def note(text):
    with open(os.path.join(folder, "%s" % text.split()[0]), "a") as f:
        f.write(text + "\n")


class Map(MapFunction):
    def __init__(self):
        self.seen = ["init"]

    def open(self, runtime_context):
        self.seen.append("open")
        note("map open")

    def close(self):
        note("map close " + ",".join(self.seen))

    def map(self, value):
        self.seen.append(str(value))
        return value


class Flat(FlatMapFunction):
    def open(self, runtime_context):
        note("flat open")

    def close(self):
        note("flat close")

    def flat_map(self, value):
        yield value


class Filter(FilterFunction):
    def open(self, runtime_context):
        note("filter open")

    def close(self):
        note("filter close")

    def filter(self, value):
        return True


class Process(ProcessFunction):
    def open(self, runtime_context):
        note("process open")

    def close(self):
        note("process close")

    def process_element(self, value, ctx):
        yield value


class Keyed(KeyedProcessFunction):
    def open(self, runtime_context):
        note("keyed open")

    def close(self):
        note("keyed close")

    def process_element(self, value, ctx):
        note("keyed %s" % value)
        yield value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
mapper = Map()
ds = env.from_collection([1, 2, 3], type_info=Types.INT())
result = (
    ds.map(mapper, Types.INT())
    .flat_map(Flat(), Types.INT())
    .filter(Filter())
    .process(Process(), Types.INT())
    .key_by(lambda v: v % 2, key_type=Types.INT())
    .process(Keyed(), Types.INT())
)
with result.execute_and_collect() as it:
    print("result", sorted(it))
print("kept outside", mapper.seen)
for name in sorted(os.listdir(folder)):
    with open(os.path.join(folder, name)) as f:
        for i, line in enumerate(f):
            print("%d %s" % (i, line.rstrip()))
