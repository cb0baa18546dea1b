"""Stateless functions one after another: what they may give, and what travels between them."""

from __future__ import annotations

import functools
import operator

from pyflink.common import Row, Types
from pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
)

from corners.how import unordered


def none_between_typed_maps(env):
    """A map gives None for what it can't parse, and a filter drops it: the element never leaves the chain."""

    def parsed(text):
        return int(text) if text.isdigit() else None

    texts = env.from_collection(["1", "x", "3"], Types.STRING())
    return texts.map(parsed, Types.INT()).filter(lambda n: n is not None)


def wrong_class_between_typed_maps(env):
    """What the declared type could not carry is no matter while it stays in the chain."""
    return (
        env.from_collection([1, 2], Types.INT())
        .map(lambda n: {"n": n}, Types.INT())
        .map(lambda d: d["n"] * 10, Types.INT())
    )


def filter_keeps_what_is_true(env):
    """A filter's result is taken by its truth."""
    return env.from_collection([0, 1, 2, 3], Types.INT()).filter(lambda n: n % 2)


def filter_by_text(env):
    """A filter that gives texts: an empty one drops, another keeps."""
    return env.from_collection(["a", "", "b"], Types.STRING()).filter(lambda text: text)


def flat_map_gives_none(env):
    """A flat_map without a result for an element gives nothing."""

    def split(text):
        if text:
            return text.split()

    return env.from_collection(["a b", "", "c"], Types.STRING()).flat_map(split, Types.STRING())


def flat_map_gives_iterables(env):
    """Ranges, sets of one, generators and dicts are all iterated."""

    def give(n):
        return [range(2), {7}, (x for x in "ab"), {"k": 1}, "xy"][n]

    return env.from_collection([0, 1, 2, 3, 4], Types.INT()).flat_map(give)


def flat_map_gives_an_int(env):
    """A flat_map must give something that can be iterated."""
    return env.from_collection([1], Types.INT()).flat_map(lambda n: n, Types.INT())


def map_without_a_type_changes_kind(env):
    """Without declared types each element may be of another class."""
    return env.from_collection([1, 2, 3, 4]).map(lambda n: [n, str(n), float(n), (n, None)][n - 1])


def map_gives_a_generator(env):
    """A generator can't be pickled, so it can't leave the chain."""
    return env.from_collection([1]).map(lambda n: (x for x in range(n)))


def map_gives_an_exception_object(env):
    """An exception that is returned, not raised, is a value like any other."""
    return env.from_collection([1]).map(lambda n: ValueError("no")).map(lambda e: repr(e), Types.STRING())


class _Counting(MapFunction):
    def open(self, runtime_context):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        return f"{value} is number {self.seen}"


def open_before_map(env):
    """What open() sets up counts on from element to element."""
    return env.from_collection(["a", "b"], Types.STRING()).map(_Counting(), Types.STRING())


def one_function_object_twice(env):
    """The same function object in two operators is two functions."""
    function = _Counting()
    texts = env.from_collection(["a", "b"], Types.STRING())
    return texts.map(function, Types.STRING()).map(function, Types.STRING())


class _Words(FlatMapFunction):
    def flat_map(self, value):
        yield from value.split()


class _Long(FilterFunction):
    def __init__(self, least):
        self.least = least

    def filter(self, value):
        return len(value) >= self.least


def function_classes_in_a_row(env):
    """FlatMapFunction, FilterFunction with an argument, and a lambda."""
    lines = env.from_collection(["to be or", "not to be"], Types.STRING())
    return lines.flat_map(_Words(), Types.STRING()).filter(_Long(3)).map(lambda w: w.upper(), Types.STRING())


def bound_methods_and_builtins(env):
    """Callables that are no lambdas: a class, a builtin, a method."""
    texts = env.from_collection(["3", "1"], Types.STRING())
    return (
        texts.map(int, Types.INT())
        .map(abs, Types.INT())
        .map(Row(5).__class__)
        .map(lambda r: r[0], Types.INT())
    )


@unordered("two branches are united")
def two_branches_of_one_map(env):
    """A stream read twice: each branch has all elements."""
    doubled = env.from_collection([1, 2], Types.INT()).map(lambda n: n * 2, Types.INT())
    left = doubled.map(lambda n: f"left {n}", Types.STRING())
    return left.union(doubled.map(lambda n: f"right {n}", Types.STRING()))


class _Twice(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield value


def process_between_maps(env):
    """A process function chained between maps gives its elements one by one."""
    ints = env.from_collection([1, 2], Types.INT())
    return ints.map(lambda n: n + 1).process(_Twice(), Types.INT()).map(lambda n: n * 10, Types.INT())


def process_gives_a_list(env):
    """process_element may return a list in place of being a generator."""

    class Listed(ProcessFunction):
        def process_element(self, value, ctx):
            return [value, -value]

    return env.from_collection([1, 2], Types.INT()).process(Listed(), Types.INT())


def process_gives_nothing(env):
    """A process function without a result gives nothing."""

    class Silent(ProcessFunction):
        def process_element(self, value, ctx):
            pass

    return env.from_collection([1, 2], Types.INT()).process(Silent(), Types.INT())


def stop_iteration_in_a_map(env):
    """StopIteration out of a map fails the job; it doesn't end the stream in silence."""
    return env.from_collection([1, 2], Types.INT()).map(lambda n: next(iter([])), Types.INT())


def mutated_after_yield(env):
    """An element that is changed after it was given, with a sink of pickles: each is as it was when it was given."""

    class Growing(FlatMapFunction):
        def flat_map(self, value):
            grown = []
            for n in range(value):
                grown.append(n)
                yield grown

    return env.from_collection([3], Types.INT()).flat_map(Growing()).map(lambda held: list(held))


def nested_functions_and_closures(env):
    """A closure over a variable has its value at the time the job is built."""
    factor = 2
    scaled = env.from_collection([1, 2], Types.INT()).map(lambda n: n * factor, Types.INT())
    factor = 100
    return scaled


@unordered("three streams are united")
def functions_made_in_a_loop(env):
    """Each function has the loop's variable as it was when the operator was built."""
    ints = env.from_collection([1, 2], Types.INT())
    streams = []
    for factor in (1, 10, 100):
        streams.append(ints.map(lambda n: n * factor, Types.INT()))  # noqa: B023 - that is the point
    return streams[0].union(*streams[1:])


class _Adding(MapFunction):
    def __init__(self, amount):
        self.amount = amount

    def map(self, value):
        return value + self.amount


def object_changed_between_uses(env):
    """A function object that is changed after its first use: each use has it as it was then."""
    function = _Adding(1)
    first = env.from_collection([1, 2], Types.INT()).map(function, Types.INT())
    function.amount = 1000
    return first.map(function, Types.INT())


def key_selector_of_a_changed_variable(env):
    """A key selector and a reduce function, too, are what they were."""
    divisor, shift = 2, 0
    keyed = env.from_collection([1, 2, 3, 4], Types.INT()).key_by(lambda n: n % divisor)
    reduced = keyed.reduce(lambda left, right: left + right + shift)
    divisor, shift = 1, 1000
    return reduced


def project_of_tuples(env):
    """project() picks fields of tuples by number, in the given order."""
    triple = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
    return env.from_collection([("a", 1, 1.5), ("b", 2, 2.5)], triple).project(2, 0)


def project_of_rows(env):
    """project() of rows with names gives rows."""
    pair = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])
    return env.from_collection([Row("a", 1), Row("b", 2)], pair).project(1)


def unused_side_tag(env):
    """Elements for a tag that nobody reads go nowhere."""
    tag = OutputTag("unread", Types.STRING())

    class Sided(ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, "gone"
            yield value

    return env.from_collection([1], Types.INT()).process(Sided(), Types.INT())


def process_gives_false(env):
    """A condition and a list: False stands for nothing."""

    class Large(ProcessFunction):
        def process_element(self, value, ctx):
            return value > 1 and [value]

    return env.from_collection([1, 2], Types.INT()).process(Large(), Types.INT())


def keyed_process_gives_false(env):
    """The same with keys."""

    class Large(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return value > 1 and [value]

    return env.from_collection([1, 2], Types.INT()).key_by(lambda v: 0).process(Large(), Types.INT())


def timer_gives_false(env):
    """A timer must give something to iterate, or None."""

    class Large(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

        def on_timer(self, timestamp, ctx):
            return timestamp > 1 and [timestamp]

    return env.from_collection([1, 2], Types.INT()).key_by(lambda v: 0).process(Large(), Types.INT())


def flat_map_gives_false(env):
    """flat_map() must give something to iterate."""
    return env.from_collection([1], Types.INT()).flat_map(lambda v: False, Types.INT())


def a_cached_function_of_a_function(env):
    """A function under lru_cache that is local to another cannot be pickled: the AttributeError is caught."""

    @functools.lru_cache(None)
    def square(value):
        return value * value

    try:
        return list(env.from_collection([2, 2]).map(square).execute_and_collect())
    except AttributeError:
        return ["AttributeError"]


def generators_of_all_kinds(env):
    """flat_map by a generator function, an expression, a str, a view of a dict, an iterator and a partial map."""

    def below(value):
        yield from range(value)

    return [
        str(list(env.from_collection(given).flat_map(function).execute_and_collect()))
        for given, function in (
            ([1, 3], below),
            (["a b", "c"], lambda line: (word for word in line.split())),
            (["ab", "c"], lambda line: line),
            ([{"k": 1, "l": 2}], lambda entries: entries.items()),
            ([[3, 1]], iter),
            ([[3, 1]], functools.partial(map, str)),
        )
    ]


def callables_of_the_library(env):
    """operator's and functools' callables, unbound and bound methods, class and static methods."""

    class Holder:
        @staticmethod
        def more(value):
            return value + 1

        @classmethod
        def named(cls, value):
            return cls.__name__ + str(value)

        def double(self, value):
            return value * 2

    def pairs():
        given = env.from_collection([("a", 1), ("b", 2)])
        return given.map(operator.itemgetter(1)).key_by(operator.neg).map(operator.pos)

    def words():
        return env.from_collection(["a", "B1", "C"]).map(str.upper).filter(str.isalpha).map("{}!".format)

    def numbers():
        given = env.from_collection([1, 2]).map(functools.partial(operator.mul, 5), Types.INT())
        return given.map(Holder.more).map(Holder().double).map(Holder.named)

    def flags():
        given = env.from_collection([True, False], Types.BOOLEAN())
        return given.key_by(lambda _: 0).reduce(operator.and_)

    return [str(list(build().execute_and_collect())) for build in (pairs, words, numbers, flags)]


def _ints_as_doubles(env):
    return env.from_collection([1, 2], Types.INT()).map(lambda n: n, Types.DOUBLE())


@unordered("four sinks")
def chains_that_end_by_wish(env):
    """A chain ends before start_new_chain() and on both sides of disable_chaining(): what comes there has its type."""
    _ints_as_doubles(env).map(repr, Types.STRING()).start_new_chain().print("new")
    _ints_as_doubles(env).disable_chaining().map(repr, Types.STRING()).print("behind")
    _ints_as_doubles(env).map(repr, Types.STRING()).disable_chaining().print("before")
    _ints_as_doubles(env).start_new_chain().map(repr, Types.STRING()).print("begun")
    env.execute()


def rows_with_names_where_a_chain_ends(env):
    """A row without names gets those of its type there."""
    person = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    rows = env.from_collection([("ann", 1)]).map(lambda pair: Row(*pair), person).disable_chaining()
    return rows.map(lambda row: f"{row.name} {row.age}", Types.STRING())


def none_where_a_chain_ends(env):
    """None is not an INT there."""
    given = env.from_collection([1, 2], Types.INT()).map(lambda n: None, Types.INT())
    return given.disable_chaining().map(str, Types.STRING())


def chaining_of_the_job_is_java_s(env):
    """disable_operator_chaining() parts no functions of Python's."""
    env.disable_operator_chaining()
    return _ints_as_doubles(env).map(repr, Types.STRING())
