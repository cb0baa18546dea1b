"""Keys of all types, and what surrounds keyed functions."""

from __future__ import annotations

import datetime

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, KeySelector, MapFunction, ProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

from corners.how import unordered


class _Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        key = ctx.get_current_key()
        yield f"{type(key).__name__} {key!r} {self.count.value()}"


def _counted(env, elements, selector, *key_type):
    return env.from_collection(elements).key_by(selector, *key_type).process(_Count(), Types.STRING())


def tuple_keys(env):
    """A selector that gives tuples, declared."""
    return _counted(
        env,
        [(1, "a", 1.0), (1, "b", 2.0), (1, "a", 3.0)],
        lambda v: (v[0], v[1]),
        Types.TUPLE([Types.INT(), Types.STRING()]),
    )


def tuple_keys_undeclared(env):
    """A selector that gives tuples, undeclared."""
    return _counted(env, [(1, "a"), (1, "b"), (1, "a")], lambda v: (v[0], v[1]))


def float_keys_of_32_bits(env):
    """FLOAT as keys."""
    return _counted(env, [1.5, 0.1, 0.1], lambda v: v, Types.FLOAT())


def date_keys(env):
    """Dates as keys, declared."""
    return _counted(
        env,
        [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)],
        lambda v: v,
        Types.SQL_DATE(),
    )


def list_keys_declared(env):
    """Lists as keys, declared."""
    return _counted(env, [[1, 2], [1], [1, 2]], lambda v: v, Types.LIST(Types.INT()))


def dict_keys(env):
    """Dicts as keys, undeclared."""
    return _counted(env, [{"a": 1}, {"a": 2}, {"a": 1}], lambda v: v)


def bool_keys(env):
    """Booleans as keys, declared."""
    return _counted(env, [1, 2, 3], lambda v: v > 1, Types.BOOLEAN())


def key_of_wrong_type(env):
    """A text where the key is declared INT."""
    return _counted(env, ["a"], lambda v: v, Types.INT())


def selector_class(env):
    """A KeySelector of one's own."""

    class First(KeySelector):
        def get_key(self, value):
            return value[0]

    return _counted(env, [("a", 1), ("b", 2), ("a", 3)], First(), Types.STRING())


def selector_that_changes_the_element(env):
    """A selector that changes a mutable element."""

    def pop(value):
        return value.pop("key")

    class Shows(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f"{ctx.get_current_key()} {sorted(value.items())}"

    return env.from_collection([{"key": "a", "v": 1}]).key_by(pop).process(Shows(), Types.STRING())


def selector_that_gives_random_keys(env):
    """A selector is called once for each element."""
    calls = []

    def select(value):
        calls.append(value)
        return len(calls)

    class Shows(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value} {ctx.get_current_key()}"

    return env.from_collection(["x", "x", "x"]).key_by(select, Types.INT()).process(Shows(), Types.STRING())


def key_by_in_a_row(env):
    """key_by, map, key_by: each process function has its own keys."""
    first = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda v: v[0], Types.STRING())
    second = first.map(lambda v: (v[1] % 2, v[0])).key_by(lambda v: v[0], Types.INT())
    return second.process(_Count(), Types.STRING())


@unordered("two subtasks")
def printed_by_two_with_an_identifier(env):
    """print("id") of a stream of parallelism 2."""
    env.from_collection([1, 2, 3, 4], Types.INT()).rebalance().map(
        lambda v: v % 2, Types.INT()
    ).set_parallelism(2).print("id").set_parallelism(2)
    env.execute()


def metrics(env):
    """Counters, gauges, distributions, meters and groups in a function."""

    class Measured(MapFunction):
        def open(self, runtime_context):
            group = runtime_context.get_metrics_group()
            self.counter = group.counter("counter")
            self.same = group.add_group("g").add_group("key", "value").counter("inner")
            self.distribution = group.distribution("distribution")
            self.meter = group.meter("meter", time_span_in_seconds=120)
            group.gauge("gauge", lambda: 5)

        def map(self, value):
            self.counter.inc()
            self.counter.inc(5)
            self.counter.dec()
            self.counter.dec(2)
            self.same.inc(value)
            self.distribution.update(value)
            self.meter.mark_event()
            self.meter.mark_event(2)
            return f"{self.counter.get_count()} {self.same.get_count()} {self.meter.get_count()}"

    return env.from_collection([1, 2], Types.INT()).map(Measured(), Types.STRING())


def lifecycle_without_elements(env):
    """open() and close() of a function that gets no element."""

    class Life(ProcessFunction):
        def open(self, runtime_context):
            print("open")

        def close(self):
            print("close")

        def process_element(self, value, ctx):
            yield value

    return env.from_collection([1], Types.INT()).filter(lambda v: False).process(Life(), Types.INT())


def failing_key_selector_of_none(env):
    """A selector that gives None where a type is declared."""
    return _counted(env, ["a", "b"], lambda v: None, Types.INT())


def selector_of_whole_numbers_in_doubles(env):
    """A key selector behind a map that gives whole numbers where a DOUBLE is declared."""
    numbers = env.from_collection([2, 0.5, 2.0]).map(lambda value: value, Types.DOUBLE())
    return numbers.key_by(lambda value: value).process(_Count(), Types.STRING())
