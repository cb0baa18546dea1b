# topic: types
# checks: Row: set_row_kind and get_row_kind, printing of the four kinds by print(), kinds kept through map,
#         key_by and reduce; Row equality, len, in, iteration, as_dict, setting of fields, Row with a list of names.
from pyflink.common import Row, RowKind, Types
from pyflink.datastream import StreamExecutionEnvironment


def kind(row, row_kind):
    row.set_row_kind(row_kind)
    return row


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
typed = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
rows = [kind(Row(k="a", n=i), k) for i, k in enumerate(RowKind)]
ds = env.from_collection(rows, type_info=typed)
ds.print("source")
ds.map(lambda r: r, typed).print("mapped")
ds.map(lambda r: kind(Row(k=r.k, n=r.n + 10), RowKind.DELETE), typed).print("deleted")
ds.map(lambda r: "%s %s" % (r.get_row_kind().name, r), Types.STRING()).print("kinds")
ds.key_by(lambda r: r.k, key_type=Types.STRING()).map(
    lambda r: "keyed %s" % r.get_row_kind().name, Types.STRING()
).print("text")
env.execute()
a, b = Row(1, "x"), Row(1, "x")
print(a == b, len(a), "x" in a, list(a), a)
named = Row(id=1, name="x")
named["id"] = 5
print(named, named.as_dict(), named == Row(5, "x"), named.id)
try:
    named.name = "y"
except AttributeError:
    print("no setting by attribute")
print(repr(Row("q")), str(RowKind.UPDATE_BEFORE), [k.name for k in RowKind])
with_names = Row(3, 4)
with_names.set_field_names(["p", "q"])
print(with_names, with_names.p, with_names[1])
print(a == kind(Row(1, "x"), RowKind.DELETE), a != Row(2, "x"))
Person = Row("name", "age")
print(Person("Bob", 20), Person("Bob", 20).age)
