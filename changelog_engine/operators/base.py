"""The operator's contract: batches of elements in, batches out.

Invariants:
    * Operators of a stage form a tree in topological order; each pushes to its receivers at once.
    * A batch is never changed by the one who receives it.
    * A watermark comes after all elements it stands behind; operators pass it on after acting on it.
    * Elements have their declared type where they leave a chain, as in Flink: for an exchange, a sink or a side output,
      where several read them, behind a union and timestamps, and where the program ends a chain. Between chained
      functions they are what the function gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import itemgetter
from sys import getrefcount
from types import NoneType
from typing import Any, Protocol

from changelog_engine.changelog.small_state import KeptBroadcast
from changelog_engine.errors import InvalidJobError, TypeMismatchError
from changelog_engine.event_time import MIN_WATERMARK
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.graph.tags import OutputTag
from changelog_engine.nearest import did_you_mean
from changelog_engine.operators.failures import NotIterableError, UsersCode
from changelog_engine.types import TypeInformation
from changelog_engine.types.copies import own, own_tested, separate
from changelog_engine.types.row_loops import classes_of
from changelog_engine.types.typeinfo import shown


class Receiver(Protocol):
    """Whatever elements are pushed to: a chained operator or an exchange."""

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements, in order; times are ms, None when the stream has no timestamps."""

    def watermark(self, watermark: int) -> None:
        """No element at or before this time will follow."""

    def idleness(self, idle: bool) -> None:
        """Say that no watermark is to be waited for from now on; or that there are some again."""

    def resume(self, watermark: int) -> None:
        """After a restore: the watermark stood here; nothing fires."""

    @property
    def typed(self) -> bool:
        """Elements leave the chain here: it gets them as their declared type wants them."""

    @property
    def as_given(self) -> bool:
        """Of a typed receiver that is its sender's only one: elements are checked, and it gets what the function gave."""

    @property
    def takes_none(self) -> bool:
        """Of a typed receiver: an element of any type may be None."""

    @property
    def passive(self) -> bool:
        """It neither changes elements nor shows them to users' code: it needs no copies of its own."""


class Union:
    """The chained inputs of one receiver: what reaches it is the smallest watermark of those that are not idle.

    Args:
        receiver: what all of them push to.
    """

    def __init__(self, receiver: Receiver, count: int) -> None:
        self.receiver = receiver
        self.watermarks = [MIN_WATERMARK] * count
        self.idle = [False] * count
        self.current = MIN_WATERMARK
        self.inputs = [UnionInput(self, index) for index in range(count)]

    def advance(self) -> None:
        """Tell the receiver when the watermark moved."""
        active = [mark for mark, idle in zip(self.watermarks, self.idle, strict=True) if not idle]
        if active and min(active) > self.current:
            self.current = min(active)
            self.receiver.watermark(self.current)


class UnionInput:
    """One of several chained inputs of a receiver."""

    def __init__(self, union: Union, index: int) -> None:
        self._union = union
        self._index = index
        self.process = union.receiver.process
        self.passive = union.receiver.passive
        self.typed = union.receiver.typed
        self.as_given = union.receiver.as_given
        self.takes_none = union.receiver.takes_none

    def watermark(self, watermark: int) -> None:
        self._union.watermarks[self._index] = watermark
        self._union.advance()

    def idleness(self, idle: bool) -> None:
        union = self._union
        before = all(union.idle)
        union.idle[self._index] = idle
        if all(union.idle) != before:
            union.receiver.idleness(not before)
        union.advance()

    def resume(self, watermark: int) -> None:
        union = self._union
        union.watermarks[self._index] = watermark
        union.current = max(union.current, min(union.watermarks))
        union.receiver.resume(union.current)


_FIRST = itemgetter(0)
# Types whose elements may be None where they leave a chain, as in Flink. Inside an element None is a field without a value.
_NULLABLE = frozenset(("STRING", "BIG_INT", "BIG_DEC", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "INSTANT"))


class OutputType:
    """Checks elements against an operator's declared output type, in bulk where the type allows."""

    def __init__(self, what: str, declared: TypeInformation | None) -> None:
        self.what = what
        self.declared = declared
        self.exact = declared.exact if declared is not None else None
        self.flat = declared is not None and declared.flat
        self.frozen: type | None = None  # what elements are that are not copied, though the type takes others
        self.pickled = declared is None or declared.spec().get("type") == "PICKLED_BYTE_ARRAY"

    def check(self, values: Sequence[Any], with_none: bool = False) -> Sequence[Any]:
        """The elements as the declared type wants them.

        Args:
            with_none: they may be None, whatever the type.

        Raises:
            TypeMismatchError: one does not fit; the message names the operator.
        """
        declared = self.declared
        if self.pickled or declared is None or not values:
            return values
        if not isinstance(values, list):
            values = list(values)
        kinds = classes_of(values)
        try:
            if self.exact is int and kinds == {int}:
                declared.check(min(values))  # the smallest and largest stand for the range of all
                declared.check(max(values))
                return values
            if self.exact is not None and kinds == {self.exact}:
                return values
            if declared.fits_all(values):
                return values
            if NoneType in kinds and not with_none and declared.kind not in _NULLABLE:
                raise TypeMismatchError(
                    f"None is not a {declared.name}, as an element. Leave it out before it gets here, with "
                    "filter(lambda value: value is not None), or give a value that stands for none"
                )
            if self.frozen is not None:
                self._refuse_held(values, self.frozen)
            return [declared.check(value) for value in values]
        except TypeMismatchError as error:
            raise TypeMismatchError(
                f"{self.what}: {error}. Declare the type it has in output_type, or convert the value"
            ) from None

    @staticmethod
    def _refuse_held(values: list[Any], frozen: type) -> None:
        for value, count in zip(values, _counts(values), strict=True):
            if count > _HELD_HERE and type(value) is not frozen and value is not None:
                raise TypeMismatchError(
                    f"{shown(value)} is a {type(value).__name__}, which something else holds and may have changed since, "
                    f"among elements that are a {frozen.__name__}. Give a copy"
                )


def side_output_text(tag: str, operator: str) -> str:
    """What messages call a side output."""
    return f"side output {tag!r} of operator {operator!r}"


def _counts(values: list[Any]) -> list[int]:
    """How often each is held. One call of C for all: what loops of Python hold differs between its versions."""
    return list(map(getrefcount, values))


_HELD_HERE = _counts([object()])[0]  # of one that its list alone holds
UNCHECKED = OutputType("", None)  # of elements that have their type already


class Operator:
    """Base of all operators: holds the receivers.

    Attributes:
        own: what each result of its function goes through when it is given, unless its class is immutable; None: nothing.
    """

    ports: Sequence[Any] = ()

    def __init__(self, name: str, output: TypeInformation | None) -> None:
        self.name = name
        self.receivers: list[Receiver] = []
        self.side_outputs: dict[str, list[Receiver]] = {}  # by tag id
        self._listeners: list[Receiver] = []  # all of them
        self.output_type = OutputType(f"output of operator {name!r}", output)
        self.current_watermark = MIN_WATERMARK
        # Elements can be changed, and objects are not reused.
        self.copies = output is None or not (output.immutable and output.firm)
        self._frozen = None if output is None or not output.immutable else output.frozen
        self._reuses = False
        self.own = self._own()
        self.passive = False
        self.typed = self.as_given = self.takes_none = False

    def reuse_objects(self) -> None:
        """Copy nothing: the user has promised to change nothing that was given."""
        self._reuses, self.copies = True, False
        self.own = None

    def link(self, receiver: Receiver, tag: str | None = None) -> None:
        """Add a receiver of the output, or of a side output."""
        if tag is not None and not self._reuses:
            self.copies, self._frozen = True, None  # what goes aside is of another type
        (self.receivers if tag is None else self.side_outputs.setdefault(tag, [])).append(receiver)
        self._listeners.append(receiver)
        self.own = self._own()

    def _own(self) -> Callable[..., Any] | None:
        if not self.copies:
            return None
        tested = all(receiver.typed and not receiver.as_given for receiver in self.receivers)
        return own_tested if tested and self.output_type.flat else own

    def open(self) -> None:
        """Called once, before anything else."""

    def close(self) -> None:
        """Called once, at the end."""

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements; see Receiver."""
        raise TypeError(f"{type(self).__name__} takes no plain elements")

    def watermark(self, watermark: int) -> None:
        """Take a watermark and pass it on."""
        self.current_watermark = watermark
        for receiver in self._listeners:
            receiver.watermark(watermark)

    def idleness(self, idle: bool) -> None:
        for receiver in self._listeners:
            receiver.idleness(idle)

    def resume(self, watermark: int) -> None:
        self.current_watermark = watermark
        for receiver in self._listeners:
            receiver.resume(watermark)

    def end_epoch(self, now_ms: int) -> None:
        """The epoch's elements have all been seen."""

    def abandon(self) -> None:
        """The epoch failed: let go of what is under way. Must not raise."""

    def snapshot(self) -> Any:
        """Small non-keyed state for the checkpoint, as JSON; None for none."""
        return None

    def restore(self, state: Any) -> None:
        """Take back what snapshot() gave."""

    def has_timers(self) -> bool:
        """Whether any timers are registered."""
        return False

    def process_keyed(
        self, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        """Take elements with the identities of their keys, at the head of a keyed stage."""
        raise TypeError(f"{type(self).__name__} is not the head of a keyed stage")

    def snapshot_shared(self) -> KeptBroadcast | None:
        """State for the checkpoint that is the same in all subtasks; None for none."""
        return None

    def restore_shared(self, state: KeptBroadcast) -> None:
        """Take back what snapshot_shared() gave."""

    def emit(self, values: list[Any], times: Sequence[int] | None) -> None:
        """Push elements on; those that leave the chain are checked against the declared type."""
        if values:
            self.push(self.receivers, values, times)

    def emit_tagged(self, values: list[Any], times: Sequence[int] | None) -> None:
        """As emit, for functions that may give pairs of OutputTag and element: those go to the tag's side output."""
        if _may_be_tagged(values):
            values, times = self._without_tagged(values, times)
        self.emit(values, times)

    def emit_aside(self, tag: str, values: list[Any], times: Sequence[int] | None) -> None:
        """Push elements on to a side output; that nobody reads it, so that they go nowhere, is told once."""
        receivers = self.side_outputs.get(tag)
        if receivers is None:
            warn(
                f"tag {tag!r} of {self.name!r}",
                "operator %r gives elements for the tag %r, and nobody reads it, so they go nowhere: "
                "get_side_output(OutputTag(%r)) reads them%s",
                self.name,
                tag,
                tag,
                did_you_mean(tag, self.side_outputs),
            )
            receivers = self.side_outputs[tag] = []
        self.push(receivers, values, times)

    def push(self, receivers: Sequence[Receiver], values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Give elements to receivers; of several, those that may change them get their own."""
        self.trust(values)
        if len(receivers) == 1:
            receiver = receivers[0]
            if receiver.typed:
                fitting = self.output_type.check(values, receiver.takes_none)
                values = values if receiver.as_given else fitting
            receiver.process(values, times)
            return
        checked = None
        with_none = all(receiver.takes_none for receiver in receivers)
        left = sum(not receiver.passive for receiver in receivers) if self.copies else 0
        if left == len(receivers):
            left -= 1  # the last one may have the elements themselves: nobody else keeps them
        for receiver in receivers:
            given = values
            if receiver.typed:
                given = checked = self.output_type.check(values, with_none) if checked is None else checked
            if left and not receiver.passive:
                left -= 1
                given = separate(given)
            receiver.process(given, times)

    def trust(self, values: Sequence[Any]) -> None:
        """Look no longer into what the function gives, if it gives what the type has: there is nothing that can be changed.

        A function that gives lists where tuples are declared may fill the same list each time.
        """
        if (
            self._frozen is not None
            and self.copies
            and values
            and {self._frozen}.issuperset(classes_of(values))
        ):
            self.copies, self.own = False, None
            self.output_type.frozen = self._frozen

    def _without_tagged(
        self, values: list[Any], times: Sequence[int] | None
    ) -> tuple[list[Any], Sequence[int] | None]:
        mine = [
            not (isinstance(value, tuple) and value and isinstance(value[0], OutputTag)) for value in values
        ]
        if all(mine):
            return values, times
        aside: dict[str, tuple[list[Any], list[int] | None]] = {}
        for index, value in enumerate(values):
            if not mine[index]:
                if len(value) != 2:
                    raise InvalidJobError(
                        f"operator {self.name!r}: what begins with an OutputTag must be a pair of tag and element, got "
                        f"{shown(value)}; put the element's fields into a tuple of their own: (tag, (a, b))"
                    )
                elements, own_times = aside.setdefault(value[0].tag_id, ([], None if times is None else []))
                elements.append(value[1])
                if own_times is not None and times is not None:
                    own_times.append(times[index])
        for tag, (elements, own_times) in aside.items():
            self.emit_aside(tag, elements, own_times)
        kept = list(compress(values, mine))
        return kept, None if times is None else list(compress(times, mine))


def _may_be_tagged(values: list[Any]) -> bool:
    """Whether there may be pairs of OutputTag and element among these: true of tuples that a quick look does not tell."""
    kinds = classes_of(values)
    if kinds == {tuple} and all(values):
        kinds = set(map(type, map(_FIRST, values)))  # drives our own code
        return any(issubclass(kind, OutputTag) for kind in kinds)
    return any(issubclass(kind, tuple) for kind in kinds)


def results_of(result: Any) -> Iterable[Any]:
    """What a flat_map returned, which must be iterable."""
    try:
        elements: Iterable[Any] = iter(result)
        return elements
    except TypeError:
        if isinstance(result, Iterable):  # its own __iter__ failed
            raise
        raise NotIterableError(result) from None


def call_hook(function: Any, hook: str, name: str, *arguments: Any, call: str | None = None) -> None:
    """Call a function's open() or close(), if it has it; messages name it by ``call``, or by the hook."""
    method = hook_of(function, hook)
    if method is not None:
        with UsersCode(name, call or hook):
            method(*arguments)
