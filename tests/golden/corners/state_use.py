"""Keyed state in uses that are seldom seen."""

from __future__ import annotations

from pyflink.common import Instant, Row, Time, Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, ReduceFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

from corners.how import in_threads

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])


def _pairs(env):
    return env.from_collection([("a", 1), ("b", 10), ("a", 2), ("a", 3), ("b", 20)], _PAIRS).key_by(
        lambda p: p[0], Types.STRING()
    )


def _attempt(call, *arguments):
    """What a call gives, or the class of what it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__


class _Using(KeyedProcessFunction):
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


def value_of_nothing_like_its_type(env):
    """update('text') of an INT."""

    def use(state, n):
        state.update("text")
        return state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.INT()), use)


def value_too_large(env):
    """update(2**40) of an INT."""

    def use(state, n):
        state.update(2**40)
        return state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.INT()), use)


def value_past_a_long(env):
    """update(2**63) of a LONG."""

    def use(state, n):
        state.update(2**63)
        return state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.LONG()), use)


def value_is_falsy(env):
    """0, False, empty texts and empty tuples are values, not nothing."""

    def use(state, n):
        seen = [state.value()]
        for falsy in (0, False, "", (), [], {}, 0.0, b""):
            state.update(falsy)
            seen.append(state.value())
        state.clear()
        return seen

    return _using(env, "get_state", ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()), use)


@in_threads("its process mode shows the change for as long as Python caches the state")
def value_changed_in_place(env):
    """A list in a value, changed after value(), without another update()."""

    def use(state, n):
        if state.value() is None:
            state.update([])
        state.value().append(n)
        return state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()), use)


def row_changed_in_place(env):
    """A row in a value, changed after value(), without another update(), in PyFlink's processes."""

    def use(state, n):
        if state.value() is None:
            state.update(Row(n=n))
        state.value()["n"] = n
        return state.value()["n"]

    return _using(env, "get_state", ValueStateDescriptor("v", Types.ROW_NAMED(["n"], [Types.INT()])), use)


def value_cleared_then_updated(env):
    """clear() and update() in one element."""

    def use(state, n):
        state.update(n)
        state.clear()
        nothing = state.value()
        state.update(n + 1)
        state.clear()
        state.clear()
        state.update(n + 2)
        return nothing, state.value()

    return _using(env, "get_state", ValueStateDescriptor("v", Types.LONG()), use)


def value_of_a_list_type(env):
    """A LIST, a MAP and an array as types of values."""

    class Held(KeyedProcessFunction):
        def open(self, runtime_context):
            self.list = runtime_context.get_state(ValueStateDescriptor("l", Types.LIST(Types.INT())))
            self.map = runtime_context.get_state(
                ValueStateDescriptor("m", Types.MAP(Types.STRING(), Types.LIST(Types.INT())))
            )
            self.array = runtime_context.get_state(
                ValueStateDescriptor("a", Types.PRIMITIVE_ARRAY(Types.LONG()))
            )
            self.objects = runtime_context.get_state(
                ValueStateDescriptor("o", Types.OBJECT_ARRAY(Types.STRING()))
            )

        def process_element(self, value, ctx):
            held = list(self.list.value() or [])
            held.append(value[1])
            self.list.update(held)
            many = dict(self.map.value() or {})
            many.setdefault("k", []).append(value[1])
            self.map.update(many)
            self.array.update([*(self.array.value() or []), value[1]])
            self.objects.update([*(self.objects.value() or []), str(value[1])])
            yield (
                f"{self.list.value()} {self.map.value()} {list(self.array.value())} {list(self.objects.value())}"
            )

    return _pairs(env).process(Held(), Types.STRING())


class _Total(AggregateFunction):
    def create_accumulator(self):
        return 0.0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def floats_are_not_rounded(env):
    """A FLOAT in state keeps what it was given."""

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            c, single = runtime_context, Types.FLOAT()
            self.value = c.get_state(ValueStateDescriptor("v", single))
            self.pair = c.get_state(ValueStateDescriptor("p", Types.TUPLE([single, Types.STRING()])))
            self.row = c.get_state(ValueStateDescriptor("w", Types.ROW([single])))
            self.list = c.get_list_state(ListStateDescriptor("l", single))
            self.map = c.get_map_state(MapStateDescriptor("m", Types.STRING(), single))
            self.reduced = c.get_reducing_state(ReducingStateDescriptor("r", lambda a, b: a + b, single))
            self.sum = c.get_aggregating_state(AggregatingStateDescriptor("a", _Total(), single))

        def process_element(self, value, ctx):
            x = value[1]
            self.value.update((self.value.value() or 0.0) + x)
            self.pair.update(((self.pair.value() or (0.0,))[0] + x, "s"))
            self.row.update(Row((self.row.value() or Row(0.0))[0] + x))
            self.list.add(x)
            self.map.put(str(x), x)
            self.reduced.add(x)
            self.sum.add(x)
            yield (
                f"{value[0]} {self.value.value()} {self.pair.value()[0]} {self.row.value()[0]} {list(self.list.get())} "
                f"{sorted(self.map.values())} {self.reduced.get()} {self.sum.get()}"
            )

    numbers = [("a", 0.1), ("b", 0.7), ("a", 0.2), ("a", 0.3), ("b", 0.1)]
    pairs = env.from_collection(numbers, Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    return pairs.key_by(lambda v: v[0], Types.STRING()).process(Keep(), Types.STRING())


def ints_in_doubles(env):
    """An int in states of DOUBLE."""

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            self.value = runtime_context.get_state(ValueStateDescriptor("v", Types.DOUBLE()))
            self.list = runtime_context.get_list_state(ListStateDescriptor("l", Types.DOUBLE()))

        def process_element(self, value, ctx):
            self.value.update((self.value.value() or 0) + value[1])
            self.list.add(value[1])
            yield f"{value[0]} {self.value.value()} {list(self.list.get())}"

    return _pairs(env).process(Keep(), Types.STRING())


def list_of_lists_methods(env):
    """add_all of nothing, of a tuple, of a generator; update of a tuple; get() twice."""

    def use(state, n):
        seen = [list(state.get())]
        state.add_all([])
        seen.append(list(state.get()))
        state.add_all((n, n + 1))
        seen.append(list(state.get()))
        state.update([])
        seen.append(list(state.get()))
        state.update((n,))
        state.add(n)
        first, second = list(state.get()), list(state.get())
        return seen, first, second

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def list_add_all_of_a_generator(env):
    """add_all() of a generator."""

    def use(state, n):
        state.add_all(each for each in (n, n + 1))
        return list(state.get())

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def list_update_with_none(env):
    """update(None) and add_all(None) of a list."""

    def use(state, n):
        state.add(n)
        return _attempt(state.update, None), _attempt(state.add_all, None)

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def list_iterator_goes_on_after_clear(env):
    """An iterator of a list that is cleared meanwhile."""

    def use(state, n):
        state.add_all([n, n + 1, n + 2])
        iterator = iter(state.get())
        first = next(iterator)
        state.clear()
        return first, list(iterator), list(state.get())

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def list_cleared_then_added(env):
    """clear() then add() in one element, and in the next ones."""

    def use(state, n):
        before = list(state.get())
        if n in (2, 20):
            state.clear()
        state.add(n)
        return before, list(state.get())

    return _using(env, "get_list_state", ListStateDescriptor("l", Types.INT()), use)


def map_of_missing_without_none(env):
    """get(), [], in and remove() of a key that isn't there."""

    def use(state, n):
        seen = [state.get("x"), state.contains("x"), state.is_empty(), "x" in state]
        seen.append(_attempt(lambda: state["x"]))
        seen.append(_attempt(state.remove, "y"))
        seen.append(_attempt(lambda: state.__delitem__("y")))
        seen.append(state.is_empty())
        state.put("x", 1)
        seen += [state["x"], state.contains("x"), "x" in state, state.is_empty()]
        seen.append(_attempt(lambda: len(state)))
        seen.append(_attempt(lambda: list(state)))
        state.clear()
        return seen

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_len(env):
    """len() of a map."""

    def use(state, n):
        state.put(str(n), n)
        return len(state)

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_remove_while_iterating(env):
    """remove() while keys() is read."""

    def use(state, n):
        for key, value in {f"k{n}": n, "x": 1, "y": 2}.items():
            state.put(key, value)
        for key in state.keys():  # noqa: SIM118  # a MapState is no dict
            if key != "x":
                state.remove(key)
        return sorted(state.items())

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_iterators(env):
    """items(), keys() and values() can be read twice, have next(), and show what is there at the time."""

    def use(state, n):
        state.put("a", n)
        state.put("b", n + 1)
        keys, values, items = state.keys(), state.values(), state.items()
        seen = sorted(keys), sorted(values), sorted(items)
        again = _attempt(lambda: next(iter(state.keys())) in ("a", "b"))
        return seen, again, dict(state.items()), sorted(set(state.keys()) | {"z"})

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


@in_threads("its process mode finds them")
def map_of_pickled_keys(env):
    """Entries of a map whose keys are pickled are found again, read and removed."""

    def use(state, n):
        key = (n % 2, "k")
        state.put(key, n)
        found = [key in state, state.get(key), sorted(state.items())]
        state.remove(key)
        return [*found, state.is_empty()]

    descriptor = MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), Types.INT())
    return _using(env, "get_map_state", descriptor, use)


@in_threads("its process mode shows the change for as long as Python caches the state")
def map_value_changed_in_place(env):
    """A list in a map, changed after get(), without put()."""

    def use(state, n):
        if not state.contains("k"):
            state.put("k", [])
        state.get("k").append(n)
        return list(state.get("k"))

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.LIST(Types.INT())), use)


def map_clear_then_put(env):
    """clear() and put() in one element; a removed key is put again."""

    def use(state, n):
        state.put("a", n)
        state.put("b", n)
        state.clear()
        nothing = state.is_empty()
        state.put("a", n + 1)
        state.remove("a")
        gone = state.contains("a")
        state.put("a", n + 2)
        return nothing, gone, sorted(state.items())

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_put_all_of_pairs(env):
    """put_all() of a list of pairs."""

    def use(state, n):
        state.put_all([("a", n), ("b", n)])
        return sorted(state.items())

    return _using(env, "get_map_state", MapStateDescriptor("m", Types.STRING(), Types.INT()), use)


def map_with_row_keys(env):
    """Rows as keys of a map."""

    def use(state, n):
        state.put(Row(1, "x"), n)
        state.put(Row(2, "y"), n + 1)
        return state.get(Row(1, "x")), state.contains(Row(2, "z")), sorted(state.values())

    row = Types.ROW([Types.INT(), Types.STRING()])
    return _using(env, "get_map_state", MapStateDescriptor("m", row, Types.INT()), use)


class _Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def reducing_methods(env):
    """get() before the first add(), add(), clear()."""

    def use(state, n):
        before = state.get()
        state.add(n)
        state.add(n)
        after = state.get()
        if n == 2:
            state.clear()
            return before, after, state.get()
        return before, after

    return _using(env, "get_reducing_state", ReducingStateDescriptor("r", _Sum(), Types.INT()), use)


def reducing_to_none(env):
    """A reduction that gives None."""

    def use(state, n):
        state.add(n)
        return state.get()

    return _using(
        env, "get_reducing_state", ReducingStateDescriptor("r", lambda a, b: None, Types.INT()), use
    )


def reducing_add_none(env):
    """add(None) to a reduction."""

    def use(state, n):
        state.add(n)
        state.add(None)
        return state.get()

    return _using(env, "get_reducing_state", ReducingStateDescriptor("r", _Sum(), Types.INT()), use)


class _Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else -1.0

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


def aggregating_methods(env):
    """get() before the first add(), add(), clear()."""

    def use(state, n):
        before = state.get()
        state.add(n)
        after = state.get()
        if n == 2:
            state.clear()
            return before, after, state.get()
        return before, after

    descriptor = AggregatingStateDescriptor("g", _Average(), Types.TUPLE([Types.INT(), Types.INT()]))
    return _using(env, "get_aggregating_state", descriptor, use)


def aggregating_add_none(env):
    """add(None) where the function takes it."""

    class Count(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + (value is None)

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return a + b

    def use(state, n):
        state.add(None)
        return state.get()

    return _using(env, "get_aggregating_state", AggregatingStateDescriptor("g", Count(), Types.INT()), use)


def aggregating_with_a_mutable_accumulator(env):
    """An accumulator that add() changes in place and gives back."""

    class Collect(AggregateFunction):
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            accumulator.append(value)
            return accumulator

        def get_result(self, accumulator):
            return list(accumulator)

        def merge(self, a, b):
            return a + b

    def use(state, n):
        state.add(n)
        return state.get()

    descriptor = AggregatingStateDescriptor("g", Collect(), Types.PICKLED_BYTE_ARRAY())
    return _using(env, "get_aggregating_state", descriptor, use)


def one_descriptor_twice(env):
    """The same descriptor asked for twice is one state."""

    class Twice(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("v", Types.INT())
            self.first = runtime_context.get_state(descriptor)
            self.second = runtime_context.get_state(descriptor)
            self.third = runtime_context.get_state(ValueStateDescriptor("v", Types.INT()))

        def process_element(self, value, ctx):
            self.first.update(value[1])
            yield str((self.first.value(), self.second.value(), self.third.value()))

    return _pairs(env).process(Twice(), Types.STRING())


def one_name_of_two_types(env):
    """Two value states of one name and two types."""

    class Two(KeyedProcessFunction):
        def open(self, runtime_context):
            self.first = runtime_context.get_state(ValueStateDescriptor("v", Types.INT()))
            self.second = runtime_context.get_state(ValueStateDescriptor("v", Types.STRING()))

        def process_element(self, value, ctx):
            self.first.update(value[1])
            yield str((self.first.value(), self.second.value()))

    return _pairs(env).process(Two(), Types.STRING())


def one_name_in_two_operators(env):
    """States of one name in two operators are two states."""

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("v", Types.INT()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield value[0], self.count.value() + value[1]

    first = _pairs(env).process(Count(), _PAIRS)
    return first.key_by(lambda p: p[0], Types.STRING()).process(Count(), _PAIRS)


def empty_state_name(env):
    """A state whose name is empty, or has spaces and dots."""

    class Names(KeyedProcessFunction):
        def open(self, runtime_context):
            self.states = [
                runtime_context.get_state(ValueStateDescriptor(name, Types.INT()))
                for name in ("with space", "a.b/c", "ünïcode", "UPPER", "upper")
            ]

        def process_element(self, value, ctx):
            for number, state in enumerate(self.states):
                state.update(value[1] + number)
            yield str([state.value() for state in self.states])

    return _pairs(env).process(Names(), Types.STRING())


def descriptors(env):
    """What descriptors say of themselves."""
    value = ValueStateDescriptor("v", Types.INT())
    many = MapStateDescriptor("m", Types.STRING(), Types.INT())
    several = ListStateDescriptor("l", Types.INT())
    reducing = ReducingStateDescriptor("r", _Sum(), Types.INT())
    aggregating = AggregatingStateDescriptor("g", _Average(), Types.INT())
    seen = [
        (value.get_name(), str(value.type_info)),
        (many.get_name(), str(many.type_info)),
        (several.get_name(), str(several.type_info)),
        (reducing.get_name(), type(reducing.get_reduce_function()).__name__),
        (aggregating.get_name(), type(aggregating.get_agg_function()).__name__),
        value.name,
    ]
    return [str(each) for each in seen]


def ttl_configuration(env):
    """What a configuration of time to live says of itself."""
    config = (
        StateTtlConfig.new_builder(Time.milliseconds(5))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .never_return_expired()
        .cleanup_incrementally(10, True)
        .build()
    )
    strategies = config.get_cleanup_strategies()
    default = StateTtlConfig.new_builder(Time.days(1)).build()
    return [
        str(each)
        for each in (
            config.get_ttl().to_milliseconds(),
            config.get_update_type(),
            config.get_state_visibility(),
            config.get_ttl_time_characteristic(),
            config.is_enabled(),
            strategies.is_cleanup_in_background(),
            strategies.in_full_snapshot(),
            strategies.get_incremental_cleanup_strategy().get_cleanup_size(),
            strategies.get_incremental_cleanup_strategy().run_cleanup_for_every_record(),
            default.get_update_type(),
            default.get_state_visibility(),
            default.get_cleanup_strategies().is_cleanup_in_background(),
            default.get_cleanup_strategies().get_incremental_cleanup_strategy() is None,
            default.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is None,
            StateTtlConfig.new_builder(Time.days(1))
            .disable_cleanup_in_background()
            .build()
            .get_cleanup_strategies()
            .is_cleanup_in_background(),
        )
    ]


class _HoldsAll(KeyedProcessFunction):
    """Each value in a value state, a list state and a map state of its type; tells what was there before."""

    def __init__(self, kinds):
        self.values = [value for _, value in kinds]
        self.types = [type_info for type_info, _ in kinds]

    def open(self, runtime_context):
        numbered = list(enumerate(self.types))
        self.cells = [runtime_context.get_state(ValueStateDescriptor(f"cell-{i}", t)) for i, t in numbered]
        self.lists = [
            runtime_context.get_list_state(ListStateDescriptor(f"list-{i}", t)) for i, t in numbered
        ]
        self.maps = [
            runtime_context.get_map_state(MapStateDescriptor(f"map-{i}", Types.LONG(), t))
            for i, t in numbered
        ]

    def process_element(self, value, ctx):
        for held, cell, items, entries in zip(self.values, self.cells, self.lists, self.maps, strict=True):
            yield f"{cell.value()!r} {list(items.get())!r} {list(entries.items())!r}"
            cell.update(held)
            items.add(held)
            entries.put(value[1], held)


def states_of_rarer_types(env):
    """INSTANT, CHAR, arrays, lists of lists and rows of tuples in value, list and map states."""
    kinds = [
        (Types.INSTANT(), Instant(-1, 999_999_999)),
        (Types.CHAR(), "x"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, -2]),
        (Types.BASIC_ARRAY(Types.STRING()), ["", "é"]),
        (Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])), [(1,), (2,)]),
        (Types.LIST(Types.LIST(Types.INT())), [[1], []]),
        (
            Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.TUPLE([Types.INT(), Types.INT()])]),
            Row(a=1, b=(2, 3)),
        ),
    ]
    pairs = env.from_collection([("a", 1), ("a", 2)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    return pairs.key_by(lambda v: v[0], Types.STRING()).process(_HoldsAll(kinds), Types.STRING())


class _NumberedReduce(ReduceFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def reduce(self, value1, value2):
        self.count.update((self.count.value() or 0) + 1)
        return f"{value1[0]}{self.count.value()}", value1[1] + value2[1]


def a_reduce_function_with_state_of_its_own(env):
    """A ReduceFunction has state of the key beside the reduction."""
    type_info = Types.TUPLE([Types.STRING(), Types.LONG()])
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)], type_info)
    return pairs.key_by(lambda v: v[0][0], Types.STRING()).reduce(_NumberedReduce())
