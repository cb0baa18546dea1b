"""Rolling aggregations and reduce on keyed streams."""

from __future__ import annotations

from pyflink.common import Row, Types
from pyflink.datastream import KeySelector, ReduceFunction

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])
_ROWS = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])
_SOME = [("a", 3), ("b", 10), ("a", 1), ("a", 2), ("b", 20)]


def _pairs(env):
    return env.from_collection(_SOME, _PAIRS).key_by(lambda v: v[0])


def _rows(env):
    return env.from_collection([Row(*each) for each in _SOME], _ROWS).key_by(lambda v: v.name)


def rolling_sum(env):
    """sum() by number: every element gives the sum so far."""
    return _pairs(env).sum(1)


def rolling_sum_of_a_named_field(env):
    """sum() by name."""
    return _rows(env).sum("n")


def rolling_sum_without_a_field(env):
    """sum() takes field 0 where none is named."""
    return (
        env.from_collection([(1, "a"), (2, "b")], Types.TUPLE([Types.INT(), Types.STRING()]))
        .key_by(lambda v: 0)
        .sum()
    )


def rolling_min(env):
    """min() keeps the first element's other fields."""
    triples = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
    found = env.from_collection([("a", 3, "x"), ("a", 1, "y"), ("a", 2, "z")], triples)
    return found.key_by(lambda v: v[0]).min(1)


def rolling_min_by(env):
    """min_by() takes the whole element; of equals the first."""
    triples = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
    found = env.from_collection([("a", 3, "x"), ("a", 1, "y"), ("a", 1, "z")], triples)
    return found.key_by(lambda v: v[0]).min_by(1)


def rolling_max_by(env):
    """max_by() takes the whole element; of equals the first."""
    triples = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
    found = env.from_collection([("a", 3, "x"), ("a", 1, "y"), ("a", 3, "z")], triples)
    return found.key_by(lambda v: v[0]).max_by(1)


def rolling_max_of_texts(env):
    """max() of texts, by name."""
    return env.from_collection([Row("a", 1), Row("c", 2), Row("b", 3)], _ROWS).key_by(lambda v: 0).max("name")


def sum_of_texts(env):
    """sum() of a field that can't be added to."""
    return _pairs(env).sum(0)


def sum_of_a_missing_field(env):
    """sum() of a field that isn't there."""
    return _pairs(env).sum(5)


def sum_of_doubles(env):
    """Sums of floats are Python's."""
    found = env.from_collection([("a", 0.1), ("a", 0.2)], Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    return found.key_by(lambda v: v[0]).sum(1)


def sum_past_the_type(env):
    """A sum that an INT can't hold."""
    return env.from_collection([("a", 2**31 - 1), ("a", 1)], _PAIRS).key_by(lambda v: v[0]).sum(1)


def sum_past_a_long(env):
    """A sum that a LONG can't hold, which a function turns into a string."""
    numbers = env.from_collection([2**63 - 1, 5], Types.LONG())
    return numbers.key_by(lambda n: 1, Types.INT()).sum().map(str, Types.STRING())


def sum_of_ints_without_a_type(env):
    """sum() of undeclared tuples."""
    return env.from_collection([("a", 1), ("a", 2.5)]).key_by(lambda v: v[0]).sum(1)


def reduce_with_a_lambda(env):
    """reduce(): the first element of a key as it is."""
    return _pairs(env).reduce(lambda left, right: (left[0] + right[0], left[1] * right[1]))


def reduce_with_a_class(env):
    """reduce() with a ReduceFunction."""

    class Longer(ReduceFunction):
        def reduce(self, value1, value2):
            return value1 if value1[1] >= value2[1] else value2

    return _pairs(env).reduce(Longer())


def reduce_changes_the_class(env):
    """reduce() whose result is of another class than the elements."""
    return _pairs(env).reduce(lambda left, right: f"{left[1]}{right[1]}")


def reduce_int_to_double(env):
    """A whole number out of reduce() where a DOUBLE is declared."""
    found = env.from_collection([1.5, 2.5, 3.0], Types.DOUBLE())
    return found.key_by(lambda v: 0).reduce(lambda left, right: int(left + right))


class _FirstLetter(KeySelector):
    def get_key(self, value):
        return value[0][0]


def key_selector_class(env):
    """key_by() with a KeySelector."""
    found = env.from_collection([("ab", 1), ("ac", 2), ("b", 3)], _PAIRS)
    return found.key_by(_FirstLetter(), Types.STRING()).reduce(
        lambda left, right: (left[0] + right[0], left[1] + right[1])
    )


def key_of_a_wrong_type(env):
    """A key that the declared type can't carry."""
    return (
        env.from_collection(_SOME, _PAIRS)
        .key_by(lambda v: v[0], Types.INT())
        .reduce(lambda left, right: right)
    )


def changing_the_key_in_reduce(env):
    """What reduce() gives may have another key; the state stays the first key's."""
    return _pairs(env).reduce(lambda left, right: ("z", left[1] + right[1]))


def aggregations_in_a_row(env):
    """sum() of sum()."""
    return _pairs(env).sum(1).key_by(lambda v: 0).sum(1)


def min_of_equal_ints_and_floats(env):
    """max() of numbers of different classes, undeclared."""
    return env.from_collection([("a", 1), ("a", 1.0), ("a", True)]).key_by(lambda v: v[0]).max(1)


def reduce_without_keys(env):
    """reduce() of a stream without keys isn't there."""
    return env.from_collection([1, 2], Types.INT()).reduce(lambda left, right: left + right)


def reduce_gives_none(env):
    """A reduce function that forgot to return."""
    return _pairs(env).reduce(lambda left, right: None)


def reduce_gives_none_without_a_type(env):
    """The same, undeclared."""
    pairs = env.from_collection([("a", 1), ("a", 2), ("a", 3)]).key_by(lambda v: v[0])
    return pairs.reduce(lambda left, right: None).map(repr, Types.STRING())


@unordered("streams are united")
def aggregations_of_equal_values(env):
    """Of equal values the first counts, with all its fields; by name and by number."""
    fields = Types.ROW_NAMED(["k", "n", "which"], [Types.STRING(), Types.INT(), Types.STRING()])
    rows = [Row("a", 1, "first"), Row("a", 1, "second"), Row("a", 2, "third"), Row("a", 2, "fourth")]
    keyed = env.from_collection(rows, fields).key_by(lambda v: v.k)
    found = [keyed.max_by("n"), keyed.min_by(1), keyed.max(1), keyed.min("n"), keyed.max_by("which")]
    named = [
        each.map(lambda v, number=number: f"{number} {v}", Types.STRING())
        for number, each in enumerate(found)
    ]
    return named[0].union(*named[1:])


def floats_are_combined_with_all_their_bits(env):
    """Running results of FLOATs are rounded where they leave the chain, not where they are kept."""
    numbers = [("a", 0.1), ("b", 0.7), ("a", 0.2), ("a", 0.3), ("b", 0.1)]
    pairs = env.from_collection(numbers, Types.TUPLE([Types.STRING(), Types.FLOAT()]))
    keyed = pairs.key_by(lambda v: v[0], Types.STRING())
    seen = []
    for combined in (
        keyed.reduce(lambda a, b: (a[0], a[1] + b[1])),
        keyed.sum(1),
        keyed.count_window(2).reduce(lambda a, b: (a[0], a[1] + b[1])),
    ):
        with combined.map(lambda v: repr(v), Types.STRING()).execute_and_collect() as results:
            seen += list(results)
    return seen
