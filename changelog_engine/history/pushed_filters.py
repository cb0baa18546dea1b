"""What filters that Spark pushes down say of keys and of checkpoints.

Invariant: they only choose files, for Spark looks at the rows again; so a filter that is not understood leaves all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import eq, ge, gt, le, lt
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from changelog_engine.changelog import segments
from changelog_engine.changelog.model import Segment
from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.descriptions import DescribedOperator, key_type_of
from changelog_engine.types import IntegerTypeInfo

_MOST_KEYS = 1_000  # of an IN that chooses files
_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
    In: lambda own, values: own in values,
}


def missing_checkpoints(
    line: Sequence[Segment], after: int, there: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The checkpoints of a lineage after one of it that are not there, as first and last of each range."""
    for run in segments.after(line, after):
        begin = run.first
        for number in (*there[bisect_left(there, begin) : bisect_right(there, run.last)], run.last + 1):
            if begin < number:
                yield begin, number - 1
            begin = number + 1


def tried_checkpoints(filters: Sequence[Filter], first: int, last: int) -> set[int]:
    """Some checkpoints of a range: when filters leave any of it, they leave one of these."""
    found = {first, last}
    for each in filters:
        if type(each) in _COMPARED and each.attribute == ("checkpoint_id",):
            for value in each.value if isinstance(each, In) else (each.value,):
                if isinstance(value, int):
                    found |= {value - 1, value, value + 1}
    return {number for number in found if first <= number <= last}


def leaves(condition: Filter, checkpoint: int, time_ms: int | None) -> bool:
    """Whether a filter may leave rows of a checkpoint."""
    compare = _COMPARED.get(type(condition))
    if compare is None or condition.attribute not in (("checkpoint_id",), ("checkpoint_time",)):
        return True
    own: Any = checkpoint
    if condition.attribute == ("checkpoint_time",):
        if time_ms is None:
            return True
        try:
            own = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)
        except OverflowError:
            return True
    try:
        return bool(compare(own, condition.value))
    except TypeError:  # another kind of value: Spark finds out
        return True


def key_texts(condition: Filter, operator: DescribedOperator) -> frozenset[str] | None:
    """The texts of the keys that a filter leaves; None where it says nothing of keys, or not exactly."""
    if isinstance(condition, (EqualTo, EqualNullSafe)):
        values: Sequence[Any] = [condition.value]
    elif isinstance(condition, In):
        values = condition.value
    else:
        return None
    if isinstance(condition, EqualNullSafe) and None in values:
        return None  # rows whose key is null, or does not fit its type
    values = [value for value in values if value is not None]
    if condition.attribute not in (("key",), ("key_json",)) or len(values) > _MOST_KEYS:
        return None
    key_type = key_type_of(operator)
    codec = key_codec_for(key_type)
    try:
        with refusing_objects():
            if condition.attribute == ("key_json",):
                codec.from_texts(list(values))
                return frozenset(values)
            if isinstance(key_type, IntegerTypeInfo) or (key_type is not None and key_type.kind == "STRING"):
                return frozenset(codec.text(codec.identity(value)) for value in values)
    except (ChangelogEngineError, ValueError, TypeError, KeyError, IndexError):
        pass  # not a key of the state: Spark finds out that no row has it
    return None
