"""None: as an element, in fields, in state, as a key."""

from __future__ import annotations

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor


def _none_as(env, type_info):
    return env.from_collection([1], Types.INT()).map(lambda n: None, type_info)


def _none_seen_as(env, type_info):
    """As a function behind a shuffle sees it: PyFlink neither collects nor prints a null."""
    nones = env.from_collection([1], Types.INT()).map(lambda n: None, type_info)
    return nones.key_by(lambda value: 0).map(lambda value: repr(value), Types.STRING())


def none_as_string(env):
    """None leaves as a STRING."""
    return _none_seen_as(env, Types.STRING())


def none_as_int(env):
    """None can't leave as an INT."""
    return _none_as(env, Types.INT())


def none_as_long(env):
    """None can't leave as a LONG."""
    return _none_as(env, Types.LONG())


def none_as_double(env):
    """None can't leave as a DOUBLE."""
    return _none_as(env, Types.DOUBLE())


def none_as_boolean(env):
    """None can't leave as a BOOLEAN: a null is no truth value."""
    return _none_as(env, Types.BOOLEAN())


def none_as_big_decimal(env):
    """None leaves as a BIG_DEC."""
    return _none_seen_as(env, Types.BIG_DEC())


def none_as_date(env):
    """None leaves as a SQL_DATE."""
    return _none_seen_as(env, Types.SQL_DATE())


def none_as_row(env):
    """None can't leave as a ROW."""
    return _none_as(env, Types.ROW([Types.INT()]))


def none_as_tuple(env):
    """None can't leave as a TUPLE."""
    return _none_as(env, Types.TUPLE([Types.INT()]))


def none_as_list(env):
    """None can't leave as a LIST."""
    return _none_as(env, Types.LIST(Types.INT()))


def none_as_map(env):
    """None can't leave as a MAP."""
    return _none_as(env, Types.MAP(Types.INT(), Types.INT()))


def none_as_long_through_key_by(env):
    """None as a LONG on its way to a keyed function."""
    return _none_seen_as(env, Types.LONG())


class _Now(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 5


def none_ahead_of_timestamps(env):
    """PyFlink writes the element beside its timestamp, with no place for a None."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Now())
    return _none_as(env, Types.STRING()).assign_timestamps_and_watermarks(strategy).map(repr, Types.STRING())


def none_ahead_of_a_strategy_alone(env):
    """Without an assigner no function of Python's is there."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return _none_as(env, Types.INT()).assign_timestamps_and_watermarks(strategy).map(repr, Types.STRING())


def none_collected(env):
    """None as a STRING among others, collected."""
    return env.from_collection([1, 2], Types.INT()).map(lambda n: None if n == 1 else "two", Types.STRING())


def none_undeclared(env):
    """None without a type is an element, and a sink has it."""
    return env.from_collection([1, 2]).map(lambda n: None if n == 1 else n)


def none_in_rows(env):
    """A row's fields may be None, of any type, as a function behind a shuffle sees them."""
    kinds = [Types.INT(), Types.DOUBLE(), Types.STRING(), Types.BOOLEAN(), Types.LIST(Types.INT())]
    row = Types.ROW_NAMED(["i", "d", "s", "b", "l"], kinds)
    rows = env.from_collection([1], Types.INT()).map(
        lambda n: Row(i=None, d=None, s=None, b=None, l=None), row
    )
    return rows.key_by(lambda r: 0).map(lambda r: repr(sorted(r.as_dict().items())), Types.STRING())


def none_in_tuples(env):
    """A tuple's INT may not be None."""
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    return env.from_collection([1], Types.INT()).map(lambda n: ("a", None), pair)


def none_as_a_text_in_tuples(env):
    """A tuple's STRING may be None."""
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    return env.from_collection([1], Types.INT()).map(lambda n: (None, n), pair)


def none_in_arrays(env):
    """A BASIC_ARRAY may hold None."""
    return env.from_collection([1], Types.INT()).map(lambda n: ["a", None], Types.BASIC_ARRAY(Types.STRING()))


def none_as_a_key_undeclared(env):
    """None as a key without a type is a key like any other."""
    values = env.from_collection([(None, 1), ("a", 2), (None, 3)])
    return values.key_by(lambda v: v[0]).reduce(lambda left, right: (left[0], left[1] + right[1]))


def none_as_a_string_key(env):
    """None as a key of type STRING."""
    values = env.from_collection([(None, 1), ("a", 2), (None, 3)])
    return values.key_by(lambda v: v[0], Types.STRING()).reduce(
        lambda left, right: (left[0], left[1] + right[1])
    )


class _Held(KeyedProcessFunction):
    def __init__(self, use):
        self.use = use

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.STRING()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.STRING()))

    def process_element(self, value, ctx):
        yield repr(self.use(self, value))


def _held(env, use):
    return (
        env.from_collection(["a", "a"], Types.STRING())
        .key_by(lambda v: v)
        .process(_Held(use), Types.STRING())
    )


def none_clears_a_value(env):
    """update(None) leaves nothing."""

    def use(held, value):
        before = held.value.value()
        held.value.update("x" if before is None else None)
        return before, held.value.value()

    return _held(env, use)


def none_into_a_list(env):
    """add(None) to a list of texts."""

    def use(held, value):
        held.list.add(None)
        return list(held.list.get())

    return _held(env, use)


def none_into_a_map(env):
    """put(key, None) is an entry."""

    def use(held, value):
        held.map.put("k", None)
        return held.map.get("k"), held.map.contains("k"), sorted(held.map.keys()), held.map.is_empty()

    return _held(env, use)


def missing_key_of_a_map(env):
    """get() and remove() of what isn't there."""

    def use(held, value):
        held.map.remove("no")
        return held.map.get("no"), held.map.contains("no"), held.map.is_empty()

    return _held(env, use)


def none_as_a_collection_element(env):
    """from_collection with None and a STRING type."""
    return env.from_collection(["a", None], Types.STRING())


def none_in_a_collection_of_rows(env):
    """from_collection with rows that have None."""
    row = Types.ROW_NAMED(["s", "i"], [Types.STRING(), Types.INT()])
    return env.from_collection([Row("a", None), Row(None, 1)], row)
