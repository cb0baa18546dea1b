# topic: value state
# checks: a ValueState gives back what was put in for every state type (tuple, row, list, map, pickled
#         object, decimal, date, bytes); writing a mutated copy counts, values are per key.
import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

KINDS = {
    "tuple": (Types.TUPLE([Types.STRING(), Types.INT()]), lambda n: ("t", n)),
    "row": (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), lambda n: Row(a=n, b="x%d" % n)),
    "list": (Types.LIST(Types.INT()), lambda n: [n, n + 1]),
    "map": (Types.MAP(Types.STRING(), Types.INT()), lambda n: {"k": n}),
    "pickled": (Types.PICKLED_BYTE_ARRAY(), lambda n: {n, "set"} - {"set"}),
    "decimal": (Types.BIG_DEC(), lambda n: Decimal("1.50") + n),
    "date": (Types.SQL_DATE(), lambda n: datetime.date(2024, 2, 28 + n % 2)),
    "stamp": (Types.SQL_TIMESTAMP(), lambda n: datetime.datetime(2024, 2, 28, 1, 2, 3, 4000 * n)),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), lambda n: bytes([n, 255])),
    "floats": (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), lambda n: [n + 0.5]),
    "strings": (Types.BASIC_ARRAY(Types.STRING()), lambda n: ["a", "b" * n]),
    "bool": (Types.BOOLEAN(), lambda n: n % 2 == 0),
    "double": (Types.DOUBLE(), lambda n: n / 4),
}


class Remember(KeyedProcessFunction):
    def open(self, runtime_context):
        self.states = {
            name: runtime_context.get_state(ValueStateDescriptor("state of " + name, kind[0]))
            for name, kind in KINDS.items()
        }

    def process_element(self, value, ctx):
        for name, state in self.states.items():
            before = state.value()
            state.update(KINDS[name][1](value[1]))
            yield "%s %d %s before=%r type=%s" % (value[0], value[1], name, before, type(before).__name__)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("x", 1), ("y", 2), ("x", 3), ("y", 4), ("x", 5)],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = ds.key_by(lambda v: v[0], key_type=Types.STRING()).process(Remember(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
