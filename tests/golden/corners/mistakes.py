"""Mistakes, and what lies next to them."""

from __future__ import annotations

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
)
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])


_RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _pairs(env):
    return env.from_collection([("a", 1), ("b", 2), ("a", 3)], _PAIRS)


def _keyed(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    return _pairs(env).assign_timestamps_and_watermarks(strategy).key_by(lambda p: p[0], Types.STRING())


def _each(env, *builds):
    """Runs a job for each; 'error', or what it gives."""
    seen = []
    for build in builds:
        try:
            with build().execute_and_collect() as results:
                seen.append(str(list(results)))
        except Exception:
            seen.append("error")
    return seen


def imports_from_the_wrong_place(env):
    """Imports of names and modules that are elsewhere, or are not there any more: all are ImportErrors."""
    statements = (
        "from pyflink.datastream.state import HashMapStateBackend",
        "from pyflink.datastream.window import TumblingWindow",
        "from pyflink.common.serialization import SimpleStringEncoder",
        "from pyflink.datastream.watermark_strategy import WatermarkStrategy",
        "from pyflink.dataset import ExecutionEnvironment",
    )
    seen = []
    for statement in statements:
        try:
            exec(statement, {})
            seen.append("imported")
        except ImportError:
            seen.append("ImportError")
    return seen


def stop_iteration(env):
    """StopIteration out of functions of all kinds fails the job."""

    def stop(*values):
        raise StopIteration("ours")

    class Stops(KeyedProcessFunction):
        def process_element(self, value, ctx):
            raise StopIteration("ours")

    class StopsLater(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield "x"
            raise StopIteration("ours")

    return _each(
        env,
        lambda: _pairs(env).map(stop, Types.INT()),
        lambda: _pairs(env).flat_map(stop, Types.INT()),
        lambda: _pairs(env).filter(stop),
        lambda: _keyed(env).process(Stops(), Types.STRING()),
        lambda: _keyed(env).process(StopsLater(), Types.STRING()),
        lambda: _pairs(env).key_by(stop).map(lambda v: v),
    )


def functions_with_wrong_signatures(env):
    """Lambdas and methods with too many or too few arguments."""

    class NoContext(ProcessFunction):
        def process_element(self, value):
            yield value

    class Static(MapFunction):
        @staticmethod
        def map(value):
            return value[1]

    class Callable:
        def __call__(self, value):
            return value[1]

    class NoMap(MapFunction):
        def map(self, value):
            return super().map(value)

    return _each(
        env,
        lambda: _pairs(env).map(lambda: 1, Types.INT()),
        lambda: _pairs(env).map(lambda a, b: 1, Types.INT()),
        lambda: _pairs(env).map(lambda a, b=5: b, Types.INT()),
        lambda: _pairs(env).map(lambda *a: len(a), Types.INT()),
        lambda: _pairs(env).process(NoContext(), _PAIRS),
        lambda: _pairs(env).map(Static(), Types.INT()),
        lambda: _pairs(env).map(Callable(), Types.INT()),
        lambda: _pairs(env).map(NoMap(), Types.INT()),
        lambda: _pairs(env).map(len, Types.INT()),
        lambda: _pairs(env).map(str, Types.STRING()),
        lambda: _pairs(env).map(str),
    )


def open_without_super(env):
    """Functions with __init__ that calls no super, open with a wrong signature, and close that returns."""

    class Init(MapFunction):
        def __init__(self, n):
            self.n = n

        def map(self, value):
            return value[1] + self.n

    class OpenNothing(MapFunction):
        def open(self):
            pass

        def map(self, value):
            return 1

    class Closes(MapFunction):
        def map(self, value):
            return 1

        def close(self):
            return 5

    return _each(
        env,
        lambda: _pairs(env).map(Init(5), Types.INT()),
        lambda: _pairs(env).map(OpenNothing(), Types.INT()),
        lambda: _pairs(env).map(Closes(), Types.INT()),
    )


def state_in_wrong_places(env):
    """Keyed state where there is no key."""
    descriptor = ValueStateDescriptor("v", Types.INT())

    class Plain(ProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(descriptor)

        def process_element(self, value, ctx):
            self.state.update(1)
            yield self.state.value()

    class Declares(ProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(descriptor)

        def process_element(self, value, ctx):
            yield 1

    class PlainTimer(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)
            yield 1

    class Both(CoMapFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(descriptor)

        def map1(self, value):
            self.state.update(1)
            return 1

        def map2(self, value):
            return 2

    return _each(
        env,
        lambda: _pairs(env).process(Plain(), Types.INT()),
        lambda: _pairs(env).process(Declares(), Types.INT()),
        lambda: _pairs(env).process(PlainTimer(), Types.INT()),
        lambda: _pairs(env).connect(_pairs(env)).map(Both(), Types.INT()),
    )


def rich_functions_with_state(env):
    """State in the open() of reduce, filter, flat_map and co-functions on keyed streams."""

    class Count:
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

        def next(self):
            self.count.update((self.count.value() or 0) + 1)
            return self.count.value()

    class Filter(Count, FilterFunction):
        def filter(self, value):
            return self.next() == 1

    class Flat(Count, FlatMapFunction):
        def flat_map(self, value):
            for _ in range(self.next()):
                yield value

    class Map(Count, MapFunction):
        def map(self, value):
            return value[0], self.next()

    class CoFlat(Count, CoFlatMapFunction):
        def flat_map1(self, value):
            yield value[0], self.next()

        def flat_map2(self, value):
            yield value[0], self.next()

    return [
        *_each(
            env,
            lambda: _keyed(env).filter(Filter()),
            lambda: _keyed(env).flat_map(Flat(), _PAIRS),
            lambda: _keyed(env).map(Map(), _PAIRS),
        ),
        str(
            sorted(
                _pairs(env)
                .connect(_pairs(env))
                .key_by(lambda p: p[0], lambda p: p[0], Types.STRING())
                .flat_map(CoFlat(), _PAIRS)
                .execute_and_collect()
            )
        ),
    ]


def reduce_function_with_state(env):
    """State in a ReduceFunction's open()."""

    class Sum(ReduceFunction):
        def open(self, runtime_context):
            self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

        def reduce(self, value1, value2):
            self.calls.update((self.calls.value() or 0) + 1)
            return value1[0], value1[1] + value2[1] + 100 * self.calls.value()

    return _each(env, lambda: _keyed(env).reduce(Sum()))


def timestamps_that_do_not_fit(env):
    """Assigners that give None, texts, fractions, and numbers beyond 64 bits."""

    def build(given):
        class Gives(TimestampAssigner):
            def extract_timestamp(self, value, record_timestamp):
                return given

        class Shows(ProcessFunction):
            def process_element(self, value, ctx):
                yield ctx.timestamp()

        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Gives())
        return _pairs(env).assign_timestamps_and_watermarks(strategy).process(Shows(), Types.LONG())

    return _each(
        env,
        lambda: build("5"),
        lambda: build(2**63),
        lambda: build(2**63 - 1),
        lambda: build(-5),
        lambda: build(True),
    )


def exceptions_of_all_classes(env):
    """SystemExit, KeyboardInterrupt, GeneratorExit and exceptions that don't pickle fail the job."""

    def raising(make):
        def function(value):
            raise make()

        return lambda: _pairs(env).map(function, Types.INT())

    class Unpicklable(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.lock = __import__("threading").Lock()

    class Texts(Exception):
        def __str__(self):
            raise ValueError("no text")

    return _each(
        env,
        raising(lambda: KeyboardInterrupt()),
        raising(lambda: GeneratorExit()),
        raising(lambda: Unpicklable(1, 2)),
        raising(lambda: RecursionError("x")),
        raising(lambda: Exception("é😀\n\x00")),
        raising(lambda: Texts()),
    )


def side_outputs_of_wrong_types(env):
    """Elements for tags that don't fit the tag's type; tags of one name and two types."""
    tag = OutputTag("side", Types.INT())

    class Gives(ProcessFunction):
        def __init__(self, given):
            self.given = given

        def process_element(self, value, ctx):
            yield tag, self.given

    return _each(
        env,
        lambda: _pairs(env).process(Gives(5), _PAIRS).get_side_output(tag),
        lambda: _pairs(env).process(Gives("x"), _PAIRS).get_side_output(tag),
        lambda: _pairs(env).process(Gives(2**40), _PAIRS).get_side_output(tag),
        lambda: _pairs(env).process(Gives(5), _PAIRS).get_side_output(OutputTag("side", Types.STRING())),
        lambda: _pairs(env).process(Gives(5), _PAIRS).get_side_output(OutputTag("other", Types.INT())),
    )


def descriptor_of_one_name_and_other_kinds(env):
    """A value and a map of one name; a list and a reduction of one name."""

    class Two(KeyedProcessFunction):
        def __init__(self, which):
            self.which = which

        def open(self, runtime_context):
            if self.which == 0:
                self.a = runtime_context.get_state(ValueStateDescriptor("v", Types.INT()))
                self.b = runtime_context.get_map_state(MapStateDescriptor("v", Types.INT(), Types.INT()))
            elif self.which == 1:
                self.a = runtime_context.get_list_state(ListStateDescriptor("v", Types.INT()))
                self.b = runtime_context.get_reducing_state(
                    ReducingStateDescriptor("v", lambda a, b: a, Types.INT())
                )
            else:
                self.a = runtime_context.get_list_state(ListStateDescriptor("v", Types.INT()))
                self.b = runtime_context.get_list_state(ListStateDescriptor("v", Types.INT()))

        def process_element(self, value, ctx):
            if self.which == 2:
                self.a.add(1)
                self.b.add(2)
                yield str((list(self.a.get()), list(self.b.get())))
            else:
                yield "declared"

    return _each(
        env,
        lambda: _keyed(env).process(Two(0), Types.STRING()),
        lambda: _keyed(env).process(Two(1), Types.STRING()),
        lambda: _keyed(env).process(Two(2), Types.STRING()),
    )
