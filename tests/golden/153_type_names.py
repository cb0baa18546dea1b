# ordered
# topic: types
# checks: equality and field getters of type information.
from pyflink.common import Types

row = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
print(row.get_field_names(), row.get_field_types() == [Types.INT(), Types.STRING()])
print(Types.ROW([Types.INT(), Types.STRING()]).get_field_names())
print(Types.INT() == Types.INT(), Types.INT() == Types.LONG(), Types.STRING() == Types.STRING())
print(
    Types.TUPLE([Types.INT()]) == Types.TUPLE([Types.INT()]),
    Types.TUPLE([Types.INT()]).get_field_types() == [Types.INT()],
)
print(Types.LIST(Types.INT()) == Types.LIST(Types.INT()), Types.LIST(Types.INT()) == Types.LIST(Types.LONG()))
print(Types.MAP(Types.INT(), Types.STRING()) == Types.MAP(Types.INT(), Types.STRING()))
print(Types.ROW([Types.INT()]) == Types.ROW([Types.INT()]), row == Types.ROW([Types.STRING(), Types.INT()]))
print(Types.PRIMITIVE_ARRAY(Types.INT()) == Types.PRIMITIVE_ARRAY(Types.INT()))
print(Types.PICKLED_BYTE_ARRAY() == Types.PICKLED_BYTE_ARRAY())
for name, t in [
    ("int", Types.INT()), ("string", Types.STRING()), ("row", row), ("tuple", Types.TUPLE([Types.INT(), Types.STRING()])),
    ("list", Types.LIST(Types.INT())), ("map", Types.MAP(Types.INT(), Types.STRING())),
    ("pickled", Types.PICKLED_BYTE_ARRAY()),
    ("array", Types.PRIMITIVE_ARRAY(Types.INT())), ("texts", Types.BASIC_ARRAY(Types.STRING())), ("date", Types.SQL_DATE()),
    ("stamp", Types.SQL_TIMESTAMP()), ("decimal", Types.BIG_DEC()), ("bool", Types.BOOLEAN()), ("instant", Types.INSTANT()),
]:  # fmt: skip
    print(name, t, repr(t))
