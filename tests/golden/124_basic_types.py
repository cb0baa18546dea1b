# ordered
# topic: types
# checks: values of every basic type but BIG_INT (real PyFlink fails) between two functions: what comes out
#         has the declared Python type and value, extremes of the integer types, float precision, dates, times, time
#         stamps (real PyFlink cuts them to milliseconds, so they have no more), arrays, Instant.
import datetime
from decimal import Decimal

from pyflink.common import Instant, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


def show(name, elements, type_info):
    # rebalance() makes sure that the values travel: real PyFlink passes them on as they are between chained functions
    ds = env.from_collection(list(range(len(elements))), type_info=Types.INT())
    travelled = ds.map(lambda i: elements[i], type_info).rebalance()
    with travelled.map(lambda v: "%s %r" % (type(v).__name__, v), Types.STRING()).execute_and_collect() as it:
        for r in it:
            print(name, r)


show("byte", [-128, 127], Types.BYTE())
show("short", [-32768, 32767], Types.SHORT())
show("int", [-(2**31), 2**31 - 1], Types.INT())
show("long", [-(2**63), 2**63 - 1], Types.LONG())
show("float", [0.5, 0.1, 1e30], Types.FLOAT())
show("double", [0.1, float("inf"), -0.0], Types.DOUBLE())
show("big_dec", [Decimal("1.10"), Decimal("-123456789012345678901234567890.5")], Types.BIG_DEC())
show(
    "stamp",
    [datetime.datetime(2020, 1, 1, 1, 2, 3, 456000), datetime.datetime(1969, 12, 31, 23)],
    Types.SQL_TIMESTAMP(),
)
show("string", ["", "ümläut \N{SNOWMAN}", "line\nbreak"], Types.STRING())
show("boolean", [True, False], Types.BOOLEAN())
show(
    "date",
    [datetime.date(1970, 1, 1), datetime.date(1969, 12, 31), datetime.date(2400, 2, 29)],
    Types.SQL_DATE(),
)
show("time", [datetime.time(1, 2, 3, 4000)], Types.SQL_TIME())
show("bytes", [b"", b"\x00\xff"], Types.PRIMITIVE_ARRAY(Types.BYTE()))
show("ints", [[1, 2], []], Types.PRIMITIVE_ARRAY(Types.INT()))
show("bools", [[True, False]], Types.PRIMITIVE_ARRAY(Types.BOOLEAN()))
show("texts", [["a", "b"], []], Types.BASIC_ARRAY(Types.STRING()))
show(
    "objects",
    [[(1, "a")], [(2, "b"), (3, "c")]],
    Types.OBJECT_ARRAY(Types.TUPLE([Types.INT(), Types.STRING()])),
)
show("map", [{"a": 1}, {}], Types.MAP(Types.STRING(), Types.LONG()))
show("instant", [Instant(0, 5), Instant.of_epoch_milli(1500)], Types.INSTANT())
