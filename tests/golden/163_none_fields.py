# topic: types
# checks: None inside rows and pickled lists (in tuples of basic types real PyFlink fails); a row's fields of every basic
#         type as None; nested rows and arrays of rows; rows as map values.
import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
names = ["i", "l", "d", "s", "b", "dec", "day", "at", "raw", "list", "map", "row"]
inner = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
types = [
    Types.INT(), Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.BIG_DEC(), Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.STRING()),
    Types.MAP(Types.STRING(), inner), inner,
]  # fmt: skip
full = [
    1, 2**40, 0.25, "text", True, Decimal("3.140"), datetime.date(2000, 1, 1),
    datetime.datetime(2000, 1, 1, 12, 30, 0, 250000), b"\x01\x02", ["p", "q"], {"k": Row(x=1, y=None)}, Row(x=None, y="z"),
]  # fmt: skip
rows = [Row(**dict(zip(names, full))), Row(**dict.fromkeys(names))]
for i in range(0, len(names), 4):
    rows.append(Row(**{n: (v if i <= j < i + 4 else None) for j, (n, v) in enumerate(zip(names, full))}))
row_type = Types.ROW_NAMED(names, types)


def tell(row):
    return " ".join("%s=%r" % (n, getattr(row, n)) for n in names)


ds = (
    env.from_collection([1, 2, 3, 4, 5], type_info=Types.INT())
    .map(lambda n: rows[n - 1], row_type)
    .rebalance()
)
streams = [
    ds.map(tell, Types.STRING()),
    ds.map(lambda r: [r.row, r.row] if r.row is not None else [], Types.LIST(inner)).map(
        lambda rs: "rows %s" % [None if r is None else r.y for r in rs], Types.STRING()
    ),
    env.from_collection([[None, 1], []]).map(lambda v: "untyped %s" % (v,), Types.STRING()),
]
with streams[0].union(*streams[1:]).execute_and_collect() as it:
    for r in it:
        print(r)
