"""The five kinds of keyed state, and state in every function that may have it."""

from __future__ import annotations

from pyflink.common import Row, Types
from pyflink.datastream import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])


def _pairs(env):
    return env.from_collection([("a", 1), ("b", 10), ("a", 2), ("a", 3), ("b", 20)], _PAIRS).key_by(
        lambda p: p[0]
    )


class _Using(KeyedProcessFunction):
    """Calls ``use(state, value)`` with the state of a descriptor, and gives what it returns."""

    def __init__(self, getter, descriptor, use):
        self.getter = getter
        self.descriptor = descriptor
        self.use = use

    def open(self, runtime_context):
        self.state = getattr(runtime_context, self.getter)(self.descriptor)

    def process_element(self, value, ctx):
        yield f"{ctx.get_current_key()} {self.use(self.state, value[1])}"


def _using(env, getter, descriptor, use):
    return _pairs(env).process(_Using(getter, descriptor, use), Types.STRING())


def value_of_each_key(env):
    """A value is its key's own, and None at first."""

    def use(state, n):
        before = state.value()
        state.update((before or 0) + n)
        return before, state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.INT()), use)


def value_cleared(env):
    """clear() leaves nothing, for this key alone."""

    def use(state, n):
        before = state.value()
        state.update(n)
        if n == 2:
            state.clear()
        return before, state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.INT()), use)


def value_of_a_tuple(env):
    """A tuple as a value comes back as a tuple."""

    def use(state, n):
        count, total = state.value() or (0, 0.0)
        state.update((count + 1, total + n))
        return state.value()

    return _using(
        env, "get_state", ValueStateDescriptor("v", Types.TUPLE([Types.INT(), Types.DOUBLE()])), use
    )


def value_of_a_row(env):
    """A row as a value, changed and put back."""
    row = Types.ROW_NAMED(["n", "total"], [Types.INT(), Types.INT()])

    def use(state, n):
        held = state.value() or Row(n=0, total=0)
        held["n"] += 1
        held["total"] += n
        state.update(held)
        return state.value().n, state.value().total

    return _using(env, "get_state", ValueStateDescriptor("v", row), use)


def value_of_a_pickled_dict(env):
    """A dict as a value of any class."""

    def use(state, n):
        held = state.value() or {}
        held[n] = held.get(n, 0) + 1
        state.update(held)
        return sorted(state.value().items())

    return _using(env, "get_state", ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()), use)


def int_into_a_double_value(env):
    """update(1) of a DOUBLE."""

    def use(state, n):
        state.update(n)
        return state.value() == n

    return _using(env, "get_state", ValueStateDescriptor("v", Types.DOUBLE()), use)


def list_added_and_updated(env):
    """add, add_all, update and clear of a list."""

    def use(state, n):
        state.add(n)
        state.add_all([n * 10, n * 100])
        found = list(state.get())
        if n == 2:
            state.update([7])
        if n == 10:
            state.clear()
        return found

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def empty_list(env):
    """An empty list is iterated without elements; update([]) clears."""

    def use(state, n):
        first = list(state.get())
        state.update([n])
        state.update([])
        return first, list(state.get())

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def list_of_rows(env):
    """Rows in a list keep their names."""
    row = Types.ROW_NAMED(["n"], [Types.INT()])

    def use(state, n):
        state.add(Row(n=n))
        return [each.n for each in state.get()]

    return _using(env, "get_list_state", ListStateDescriptor("l", row), use)


def list_while_iterating(env):
    """Adding to a list while it is read: what was there is read."""

    def use(state, n):
        state.add(n)
        seen = []
        for each in list(state.get()):
            seen.append(each)
            if len(seen) < 5:
                state.add(-each)
        return seen, sorted(state.get())

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def map_of_all_methods(env):
    """put, get, contains, remove, keys, values, items, is_empty, clear."""

    def use(state, n):
        empty = state.is_empty()
        state.put(str(n), n)
        state.put("last", n)
        found = sorted(state.items()), sorted(state.keys()), sorted(state.values()), state.contains("1")
        state.remove(str(n))
        left = sorted(state.keys())
        if n == 2:
            state.clear()
        return empty, found, left, state.is_empty()

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_put_all(env):
    """put_all of a dict's items."""

    def use(state, n):
        state.put_all({"a": n, "b": n + 1}.items())
        return sorted(state.items())

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_iterated_and_removed(env):
    """Entries removed after a pass over copies of the keys."""

    def use(state, n):
        for k in range(n % 4):
            state.put(k, k)
        for k in list(state.keys()):
            if k % 2:
                state.remove(k)
        return sorted(state.items())

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.INT(), Types.INT()), use)


def map_by_item_syntax(env):
    """state[k], ``in`` and ``del``, as with a dict."""

    def use(state, n):
        state["k"] = n
        return "k" in state, state["k"], list(state)

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_with_tuple_keys(env):
    """A tuple as a key of a map."""

    def use(state, n):
        state.put((n % 2, "x"), n)
        return sorted(state.items())

    keys = Types.TUPLE([Types.INT(), Types.STRING()])
    return _using(env, "get_map_state", MapStateDescriptor("m", keys, Types.INT()), use)


class _Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def reducing_state(env):
    """The first element as it is, then reduced; clear begins anew."""

    def use(state, n):
        before = state.get()
        state.add(n)
        found = state.get()
        if n == 2:
            state.clear()
        return before, found

    return _using(env, "get_reducing_state", ReducingStateDescriptor("r", _Sum(), Types.INT()), use)


def reducing_state_of_a_lambda(env):
    """A lambda in place of a ReduceFunction."""

    def use(state, n):
        state.add(n)
        return state.get()

    return _using(
        env, "get_reducing_state", ReducingStateDescriptor("r", lambda a, b: max(a, b), Types.INT()), use
    )


class _Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def aggregating_state(env):
    """The result of what was added; None before the first."""

    def use(state, n):
        before = state.get()
        state.add(n)
        return before, state.get()

    accumulator = Types.TUPLE([Types.INT(), Types.INT()])
    return _using(env, "get_aggregating_state", AggregatingStateDescriptor("a", _Mean(), accumulator), use)


class _Counting(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return f"{value[0]} {self.count.value()}"


def state_in_a_map(env):
    """A MapFunction on a keyed stream has state."""
    return _pairs(env).map(_Counting(), Types.STRING())


def state_in_a_flat_map(env):
    """A FlatMapFunction on a keyed stream has state: every second element of each key."""

    class Second(FlatMapFunction):
        def open(self, runtime_context):
            self.odd = runtime_context.get_state(ValueStateDescriptor("odd", Types.BOOLEAN()))

        def flat_map(self, value):
            if self.odd.value():
                yield value
            self.odd.update(not self.odd.value())

    return _pairs(env).flat_map(Second(), _PAIRS)


def state_in_a_filter(env):
    """A FilterFunction on a keyed stream has state: the first of each key."""

    class First(FilterFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

        def filter(self, value):
            first = self.seen.value() is None
            self.seen.update(True)
            return first

    return _pairs(env).filter(First())


def state_without_keys(env):
    """A map with state on a stream without keys is an error."""
    return env.from_collection([("a", 1)], _PAIRS).map(_Counting(), Types.STRING())


def two_states_of_one_name(env):
    """A value and a list of one name."""

    class Both(KeyedProcessFunction):
        def open(self, runtime_context):
            self.value = runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))
            self.list = runtime_context.get_list_state(ListStateDescriptor("s", Types.INT()))

        def process_element(self, value, ctx):
            self.value.update(1)
            self.list.add(2)
            yield self.value.value()

    return _pairs(env).process(Both(), Types.INT())


def state_touched_in_open(env):
    """There is no key in open(): reading state is an error."""

    class Early(KeyedProcessFunction):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("s", Types.INT())).update(1)

        def process_element(self, value, ctx):
            yield 1

    return _pairs(env).process(Early(), Types.INT())


def state_declared_late(env):
    """State asked for in process_element."""

    class Late(KeyedProcessFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def process_element(self, value, ctx):
            state = self.context.get_state(ValueStateDescriptor("s", Types.INT()))
            state.update((state.value() or 0) + 1)
            yield state.value()

    return _pairs(env).process(Late(), Types.INT())


def keys_of_all_kinds(env):
    """Keys without a type: numbers, texts, tuples, None, booleans, each apart where Python has them apart."""
    values = env.from_collection([1, "1", (1,), None, "1", (1,), None])
    return values.key_by(lambda v: v).map(_CountingAny())


class _CountingAny(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


def rows_as_keys(env):
    """A row as a declared key."""
    row = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])
    keyed = _pairs(env).map(lambda p: p, _PAIRS).key_by(lambda p: Row(a=p[0], b=p[1] % 2), row)

    class Tell(KeyedProcessFunction):
        def process_element(self, value, ctx):
            key = ctx.get_current_key()
            yield f"{key.a} {key.b} {value[1]}"

    return keyed.process(Tell(), Types.STRING())


def key_of_the_key(env):
    """key_by of a keyed stream: the last one counts."""
    return _pairs(env).key_by(lambda p: p[1] % 2).reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]))


def list_as_a_key(env):
    """A list as a key, without a type."""
    values = env.from_collection([[1, 2], [1, 2], [3]])
    return values.key_by(lambda v: v).map(_CountingAny())
