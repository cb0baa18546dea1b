"""Union, partitioning, parallelism and side outputs: where elements go."""

from __future__ import annotations

from typing import NamedTuple

from pyflink.common import Types
from pyflink.datastream import MapFunction, OutputTag, Partitioner, ProcessFunction

from corners.how import unordered

_UNITED = "united streams have no order between them"
_PARALLEL = "subtasks have no order between them"


@unordered(_UNITED)
def union_of_three(env):
    """All elements of all streams."""
    streams = [env.from_collection([n, -n], Types.INT()) for n in (1, 2, 3)]
    return streams[0].union(*streams[1:])


@unordered(_UNITED)
def union_with_itself(env):
    """A stream united with itself: every element twice."""
    ints = env.from_collection([1, 2], Types.INT())
    return ints.union(ints)


def union_of_different_types(env):
    """Streams of different declared types."""
    return env.from_collection([1], Types.INT()).union(env.from_collection(["a"], Types.STRING()))


def union_of_nothing(env):
    """union() without streams is the stream itself."""
    return env.from_collection([1, 2], Types.INT()).union()


@unordered(_UNITED)
def union_and_key_by(env):
    """Keys of united streams are one."""
    left = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    right = env.from_collection([("a", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
    united = left.union(right).key_by(lambda v: v[0]).reduce(lambda x, y: (x[0], x[1] + y[1]))
    return united.filter(lambda v: v[1] == 3)


@unordered(_PARALLEL)
def rebalance(env):
    """Every element once, over three subtasks."""
    return env.from_collection(list(range(6)), Types.INT()).rebalance().map(lambda n: n).set_parallelism(3)


@unordered(_PARALLEL)
def broadcast_to_subtasks(env):
    """broadcast() without a descriptor: every subtask has every element."""
    return env.from_collection([1, 2], Types.INT()).broadcast().map(lambda n: n * 10).set_parallelism(3)


@unordered(_PARALLEL)
def shuffle_and_rescale(env):
    """shuffle() and rescale() lose nothing."""
    ints = env.from_collection(list(range(5)), Types.INT())
    shuffled = ints.shuffle().map(lambda n: n, Types.INT()).set_parallelism(2)
    return shuffled.rescale().map(lambda n: n + 1, Types.INT()).set_parallelism(3)


def forward(env):
    """forward() keeps the order."""
    return env.from_collection([3, 1, 2], Types.INT()).forward().map(lambda n: n * 2, Types.INT())


def _print(env, stream):
    """PyFlink can't collect behind partition_custom()."""
    stream.print().set_parallelism(1)
    env.execute("printed")


class _ByRest(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class _Where(ProcessFunction):
    def open(self, runtime_context):
        self.context = runtime_context

    def process_element(self, value, ctx):
        yield f"{self.context.get_index_of_this_subtask()} of {self.context.get_number_of_parallel_subtasks()}: {value}"


@unordered(_PARALLEL)
def partition_by_a_partitioner(env):
    """partition_custom() with a Partitioner."""
    ints = env.from_collection([1, 2, 3, 4], Types.INT())
    _print(
        env,
        ints.partition_custom(_ByRest(), lambda n: n).process(_Where(), Types.STRING()).set_parallelism(2),
    )


@unordered(_PARALLEL)
def partition_by_a_lambda(env):
    """partition_custom() with a function."""
    ints = env.from_collection([1, 2, 3], Types.INT())
    parted = ints.partition_custom(lambda key, count: (key + 1) % count, lambda n: n)
    _print(env, parted.process(_Where(), Types.STRING()).set_parallelism(2))


def partition_out_of_range(env):
    """A partitioner that names a subtask that isn't there."""
    ints = env.from_collection([1], Types.INT())
    _print(env, ints.partition_custom(lambda key, count: 5, lambda n: n).map(lambda n: n).set_parallelism(2))


def task_names(env):
    """Names of the task that runs a function: one with a name, and one without."""

    class Tell(MapFunction):
        def open(self, runtime_context):
            self.told = f"{runtime_context.get_task_name()} / {runtime_context.get_task_name_with_subtasks()}"

        def map(self, value):
            return f"{self.told} / {value}"

    ints = env.from_collection([1], Types.INT()).key_by(lambda n: n, Types.INT())
    told = ints.map(Tell(), Types.STRING()).name("told").key_by(lambda text: text, Types.STRING())
    return told.map(Tell(), Types.STRING())


@unordered(_PARALLEL)
def runtime_context(env):
    """What the runtime context says of task and subtask."""

    class Tell(ProcessFunction):
        def open(self, runtime_context):
            self.told = (
                runtime_context.get_number_of_parallel_subtasks(),
                runtime_context.get_max_number_of_parallel_subtasks(),
                runtime_context.get_attempt_number(),
                runtime_context.get_index_of_this_subtask(),
            )

        def process_element(self, value, ctx):
            yield str(self.told)

    return env.from_collection([1], Types.INT()).process(Tell(), Types.STRING())


_SIDE = OutputTag("side", Types.STRING())


class _Split(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield _SIDE, f"odd {value}"
        else:
            yield value


def main_output_without_the_side(env):
    """The main output has nothing of the tag."""
    return env.from_collection([1, 2, 3], Types.INT()).process(_Split(), Types.INT())


def side_output(env):
    """The tag's elements, in order."""
    return env.from_collection([1, 2, 3], Types.INT()).process(_Split(), Types.INT()).get_side_output(_SIDE)


def side_output_mapped_on(env):
    """A side output is a stream like any other: mapped, filtered, keyed."""
    side = env.from_collection([1, 2, 3], Types.INT()).process(_Split(), Types.INT()).get_side_output(_SIDE)
    mapped = side.map(lambda s: (s[-1], len(s)), Types.TUPLE([Types.STRING(), Types.INT()]))
    return mapped.filter(lambda v: v[0] != "1").key_by(lambda v: v[1]).sum(1)


def side_output_twice(env):
    """get_side_output() twice with equal tags."""
    split = env.from_collection([1, 2, 3], Types.INT()).process(_Split(), Types.INT())
    again = split.get_side_output(OutputTag("side", Types.STRING()))
    return split.get_side_output(_SIDE).union(again)


def two_tags(env):
    """Two tags of different types, one read."""
    big = OutputTag("big", Types.INT())

    class Both(ProcessFunction):
        def process_element(self, value, ctx):
            yield _SIDE, str(value)
            yield big, value * 100

    return env.from_collection([1, 2], Types.INT()).process(Both(), Types.INT()).get_side_output(big)


def side_output_of_wrong_class(env):
    """An element that the tag's type can't carry."""

    class Wrong(ProcessFunction):
        def process_element(self, value, ctx):
            yield _SIDE, value

    return env.from_collection([1], Types.INT()).process(Wrong(), Types.INT()).get_side_output(_SIDE)


def side_output_of_a_map(env):
    """get_side_output() of an operator that gives to no tag."""
    return env.from_collection([1], Types.INT()).map(lambda n: n, Types.INT()).get_side_output(_SIDE)


def tag_without_a_type(env):
    """A tag without a type carries anything."""
    tag = OutputTag("any")

    class Any(ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, {"n": value}

    return env.from_collection([1], Types.INT()).process(Any(), Types.INT()).get_side_output(tag)


def tuple_that_looks_like_a_side_output(env):
    """A pair whose first is no tag stays in the stream."""

    class Pair(ProcessFunction):
        def process_element(self, value, ctx):
            yield "side", value

    return env.from_collection([1], Types.INT()).process(Pair())


def empty_tag(env):
    """A tag must have a name."""
    return [OutputTag("", Types.INT()).tag_id]


def side_output_of_a_side_output(env):
    """A process function over a side output has tags of its own."""

    class Again(ProcessFunction):
        def process_element(self, value, ctx):
            yield _SIDE, value + "!"

    side = env.from_collection([1, 3], Types.INT()).process(_Split(), Types.INT()).get_side_output(_SIDE)
    return side.process(Again(), Types.STRING()).get_side_output(_SIDE)


def max_parallelism_of_one(env):
    """A keyed operator with max parallelism 1."""
    keyed = env.from_collection(["a", "b", "a"], Types.STRING()).key_by(lambda v: v)
    return keyed.map(lambda v: v + v, Types.STRING()).set_max_parallelism(1)


class _Pair(NamedTuple):
    tag: OutputTag
    value: int


def named_tuple_to_a_side_output(env):
    """A pair of tag and element may be a named tuple."""

    class Sided(ProcessFunction):
        def process_element(self, value, ctx):
            yield _Pair(OutputTag("side", Types.INT()), value)

    side = OutputTag("side", Types.INT())
    return env.from_collection([1], Types.INT()).process(Sided(), Types.INT()).get_side_output(side)


def three_to_a_side_output(env):
    """A tag with two values."""

    class Sided(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("side", Types.INT()), value, value + 1

    side = OutputTag("side", Types.INT())
    return env.from_collection([1], Types.INT()).process(Sided(), Types.INT()).get_side_output(side)


def tag_alone(env):
    """A tuple of a tag and nothing."""

    class Sided(ProcessFunction):
        def process_element(self, value, ctx):
            yield (OutputTag("side", Types.INT()),)

    side = OutputTag("side", Types.INT())
    return env.from_collection([1], Types.INT()).process(Sided(), Types.INT()).get_side_output(side)
