# topic: list state
# checks: ListState of tuples, rows and lists; get() of an empty list state is an empty iterable in
#         process mode (its type is not checked); add_all([]) leaves it empty, update([]) empties it; changing
#         the list that get() gave does not change the state; iterating twice is fine.
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Lists(KeyedProcessFunction):
    def open(self, runtime_context):
        self.tuples = runtime_context.get_list_state(
            ListStateDescriptor("tuples", Types.TUPLE([Types.STRING(), Types.INT()]))
        )
        self.rows = runtime_context.get_list_state(
            ListStateDescriptor("rows", Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()]))
        )
        self.lists = runtime_context.get_list_state(ListStateDescriptor("lists", Types.LIST(Types.INT())))
        self.objects = runtime_context.get_list_state(
            ListStateDescriptor("objects", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        key, n = value
        self.tuples.add((key, n))
        self.rows.add(Row(n=n, s=key * n))
        self.lists.add_all([[n], [n, n]])
        self.objects.add({"n": n})
        yield "%s tuples %s" % (value, list(self.tuples.get()))
        yield "%s rows %s" % (value, [(r.n, r["s"], len(r)) for r in self.rows.get()])
        yield "%s lists %s" % (value, sorted(self.lists.get()))
        yield "%s objects %s twice %s" % (
            value,
            list(self.objects.get()),
            [x["n"] for x in self.objects.get()] == [x["n"] for x in self.objects.get()],
        )
        if n == 3:
            given = list(self.tuples.get())
            given.append(("not", 0))
            self.tuples.add_all([])
            yield "%s after add_all([]) %s" % (value, list(self.tuples.get()))
            self.tuples.update([("new", 1), ("new", 1)])
            yield "%s after update %s" % (value, list(self.tuples.get()))
            self.rows.clear()
            self.rows.add_all([Row(n=1, s="p"), Row(n=2, s="q")])
            yield "%s rows anew %s" % (value, [tuple(r) for r in self.rows.get()])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1), ("b", 1), ("a", 3), ("a", 2), ("b", 3)], type_info=Types.TUPLE([Types.STRING(), Types.INT()])
)
result = ds.key_by(lambda v: v[0], key_type=Types.STRING()).process(Lists(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
