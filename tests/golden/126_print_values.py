# topic: pickled objects and printing
# checks: print() of typed values: numbers, booleans, None in rows, nested rows, tuples, lists, maps, arrays, decimals,
#         dates and times, bytes; of untyped values; with a sink identifier.
import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


def show(name, element, type_info=None):
    env.from_collection([1], type_info=Types.INT()).map(lambda v: element, type_info).print(name)


show("int", 5, Types.INT())
show("double", 0.1, Types.DOUBLE())
show("double whole", 100.0, Types.DOUBLE())
show("double small", 1.5e-7, Types.DOUBLE())
show("double large", 123456789.125, Types.DOUBLE())
show("float", 0.1, Types.FLOAT())
show("bool", True, Types.BOOLEAN())
show("text", "a b", Types.STRING())
show("decimal", Decimal("10.500"), Types.BIG_DEC())
show("date", datetime.date(2024, 2, 29), Types.SQL_DATE())
show("time", datetime.time(1, 2, 3), Types.SQL_TIME())
show("stamp", datetime.datetime(2024, 2, 29, 1, 2, 3, 500000), Types.SQL_TIMESTAMP())
show("stamp whole", datetime.datetime(2024, 2, 29, 1, 2, 3), Types.SQL_TIMESTAMP())
show("list", [1, 2], Types.LIST(Types.INT()))
show("list of text", ["a", "b"], Types.LIST(Types.STRING()))
show("map", {"a": 1}, Types.MAP(Types.STRING(), Types.INT()))
show(
    "tuple",
    (1, "a", (True, 0.5)),
    Types.TUPLE([Types.INT(), Types.STRING(), Types.TUPLE([Types.BOOLEAN(), Types.DOUBLE()])]),
)
show("row", Row(1, None, Row(f0="x")), Types.ROW([Types.INT(), Types.STRING(), Types.ROW([Types.STRING()])]))
show("row named", Row(a=1, b=[1, 2]), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.INT())]))
show("row with map", Row({"k": [1]}), Types.ROW([Types.MAP(Types.STRING(), Types.LIST(Types.INT()))]))
show(
    "row with dates",
    Row(datetime.date(2024, 1, 2), Decimal("1.0")),
    Types.ROW([Types.SQL_DATE(), Types.BIG_DEC()]),
)
show(
    "tuple with list",
    ([1], {"k": 2}),
    Types.TUPLE([Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT())]),
)
show("untyped tuple", (1, "a", None))
show("untyped list", ["a", 1])
show("untyped dict", {"a": (1, 2)})
show("untyped none", None)
show("untyped float", 0.1)
show("untyped text", "it's")
show("untyped row", Row(a=1, b="x"))
show("untyped decimal", Decimal("1.50"))
show("untyped bool", False)
env.execute()
