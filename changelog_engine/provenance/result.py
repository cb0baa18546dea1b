"""What an explanation says: plain, frozen values, which have no more to do with the replay they came from."""

from __future__ import annotations

import json
import linecache
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.config.numbers import whole_number
from changelog_engine.display import MOST_ROWS, Displayed, Document, Grid, Literal, printable
from changelog_engine.types.foreign import fields_of
from changelog_engine.types.typeinfo import cut, shown

_WIDTH = 80  # of notes
_LONGEST = 160  # characters of a line that says one thing
_SHOWN_READS = 8


@dataclass(frozen=True)
class CodeLine:
    """A line of the user's code."""

    file: str
    line: int  # number, from 1
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} {self.function}()"

    @property
    def text(self) -> str:
        """The line itself, where its file can still be read."""
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True)
class SourceRecord:
    """A record that a source gave.

    Args:
        source: uid of the source's operator.
        position: of the record in the split: reading from there gives it first.
        value: the record; None when the source doesn't give it any more.
        through: names of the operators without keyed state that it passed since.
    """

    source: str
    name: str
    split: str
    position: Any
    value: Any
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"record {shown(self.value, 60)} at {self.position} of split {self.split!r}, source {self.source!r}"


@dataclass(frozen=True)
class KeyedElement:
    """An element that a keyed operator gave, for an element of its own or for a timer.

    Args:
        operator: uid of the operator.
        key: at which its function ran.
        element: what the function got; None for a timer.
        cause: of the call: where that element came from, or the timer.
        read: what the call read of its state, as far as it was asked for.
        through: names of the operators without keyed state that it passed since.
    """

    operator: str
    key: Any
    element: Any
    cause: Cause
    read: tuple[ExplainedMutation | HeldEntry, ...] = ()
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = "" if isinstance(self.cause, FiredTimer) else f" for {shown(self.element, 60)}"
        return f"{self.operator!r} at key {shown(self.key, 40)} gave it{what}"


@dataclass(frozen=True)
class FiredTimer:
    """A timer that fired.

    Args:
        operator: uid of the operator.
        domain: ``event time`` or ``processing time``.
        timestamp: for which it was set, in ms.
    """

    operator: str
    domain: str
    timestamp: int
    set_by: Cause
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.domain} timer {self.timestamp} of {self.operator!r}"


@dataclass(frozen=True)
class UnknownCause:
    """What is not known, and why."""

    reason: str
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.reason


Cause = SourceRecord | KeyedElement | FiredTimer | UnknownCause


@dataclass(frozen=True)
class HeldEntry:
    """An entry of a state that was there before the replayed range began.

    Args:
        operator: uid of the operator.
        map_key: of an entry of a map; None for all of them and for other states.
    """

    operator: str
    state: str
    key: Any
    map_key: Any = None

    def __str__(self) -> str:
        entry = "" if self.map_key is None else f"[{shown(self.map_key, 40)}]"
        return f"{self.state}{entry} of {self.operator!r}, as it was before the replayed range"


@dataclass(frozen=True)
class ExplainedMutation:
    """A mutation and what brought it about.

    Args:
        number: place in the real order of the replay's mutations, over states and operators.
        checkpoint: with which it became durable.
        operator: uid of the operator.
        state: the state's name; ``(event time timers)`` or ``(processing time timers)`` for timers.
        operation: put, remove, clear, append, replace, register_timer or delete_timer.
        value: the value, as in the log; None where the operation has none.
        map_key: in a map state, the entry's key.
        namespace: in state of windows, the window's text.
        element: what the function was called with; None for a timer.
        line: of the user's code; None where the engine itself wrote, as reduce() and windows do.
        cause: the record or timer.
        read: mutations and entries that the call had read before, as deep as was asked for.
    """

    number: int
    checkpoint: int
    operator: str
    state: str
    key: Any
    operation: str
    value: Any
    map_key: Any
    namespace: str | None
    element: Any
    line: CodeLine | None
    cause: Cause
    read: tuple[ExplainedMutation | HeldEntry, ...] = ()

    def __str__(self) -> str:
        entry = "" if self.map_key is None else f"[{shown(self.map_key, 40)}]"
        window = "" if self.namespace is None else f" in window {self.namespace}"
        value = "" if self.operation in ("remove", "clear") else f" {shown(self.value, 60)}"
        return f"{self.operator}.{self.state}{entry}{window}: {self.operation}{value}"


@dataclass(frozen=True)
class ExplainedOutput:
    """An element that reached a sink, and what brought it about.

    Args:
        sink: uid of the sink.
        timestamp: its timestamp in ms; None where it has none.
        checkpoint: in which it was given.
        cause: the record, or the keyed operator that gave it.
    """

    sink: str
    value: Any
    timestamp: int | None
    checkpoint: int
    cause: Cause

    def __str__(self) -> str:
        return f"{self.sink}: {shown(self.value, 60)}"


@dataclass(repr=False)
class Explanation(Displayed):
    """Answers about a replayed range of a job's history.

    Args:
        start: checkpoint whose state the replay began with; None for the empty state.
        mutations: in the order in which they happened.
        outputs: in the order in which they were given.
        difference: how the replay differs from the log, and the answer is withheld; None when it is equal.
        notes: what may limit the answer.
    """

    job: str
    start: int | None
    end: int
    about: str
    mutations: list[ExplainedMutation] = field(default_factory=list)
    outputs: list[ExplainedOutput] = field(default_factory=list)
    difference: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the replay gave what the log has."""
        return self.difference is None

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON; values that JSON does not have are given as their repr."""
        found = {"equal": self.equal, **_plain(self)}
        return found

    def text(self, limit: int | None = None) -> str:
        """The explanation for people.

        Args:
            limit: most mutations and outputs shown, the last ones; None for all. Below 0 is a ConfigurationError.
        """
        begin = "the start" if self.start is None else f"checkpoint {self.start}"
        lines = [f"{self.about}", f"replayed: job {self.job!r} from {begin} to checkpoint {self.end}"]
        if self.difference is not None:
            lines += [
                "NOT EXPLAINED: the replay is not what the log has. The job is not deterministic,",
                "or its code or input has changed since. The first difference:",
                self.difference,
            ]
            return "\n".join([*lines, *self._noted()])
        seen: set[int] = set()
        for found in (self.mutations, self.outputs):
            shown = found if limit is None else found[max(0, len(found) - whole_number(limit, "limit", 0)) :]
            if len(shown) < len(found):
                lines.append(f"({len(found) - len(shown)} earlier ones are not shown)")
            for each in shown:
                lines += ["", *_tree(each, seen)]
        if not self.mutations and not self.outputs:
            lines.append("nothing was found; --at and --from choose other checkpoints")
        return "\n".join([*lines, *self._noted()])

    def _noted(self) -> Iterator[str]:
        for note in self.notes:
            yield from textwrap.wrap(f"note: {note}", _WIDTH, subsequent_indent="  ")

    def display(self) -> Document:
        about, replayed, *lines = self.text(MOST_ROWS).splitlines()
        if self.difference is not None:
            return Document(about, [replayed], text="\n".join(lines))
        mutations = [
            (
                f"#{each.number}",
                str(each.checkpoint),
                f"{each.operator}.{each.state}",
                Literal(each.key),
                each.operation,
                Literal(each.value),
                "the engine" if each.line is None else str(each.line),
                str(each.cause),
            )
            for each in self.mutations[-MOST_ROWS:]
        ]
        outputs = [
            (str(each.checkpoint), each.sink, Literal(each.value), str(each.cause))
            for each in self.outputs[-MOST_ROWS:]
        ]
        columns = ("", "checkpoint", "state", "key", "operation", "value", "written by", "because of")
        return Document(
            about,
            [replayed],
            [
                Grid(columns, mutations, len(self.mutations), newest=True),
                Grid(
                    ("checkpoint", "sink", "element", "because of"), outputs, len(self.outputs), newest=True
                ),
            ],
            "\n".join(lines),
        )

    def __str__(self) -> str:
        return printable(self.text())

    def __repr__(self) -> str:
        return printable(self.text(MOST_ROWS))


def _tree(found: ExplainedMutation | ExplainedOutput, seen: set[int]) -> Iterator[str]:
    if isinstance(found, ExplainedOutput):
        yield _cut(f"{found}  (checkpoint {found.checkpoint})")
        yield from _cause(found.cause, "  ", seen)
        return
    seen.add(found.number)
    yield _cut(f"#{found.number} {found}  (checkpoint {found.checkpoint})")
    if found.line is not None:
        code = f": {found.line.text}" if found.line.text else ""
        yield _cut(f"  at {found.line}{code}")
    else:
        yield "  written by the engine, for the operator"
    yield from _cause(found.cause, "  ", seen)
    yield from _reads(found.read, "  ", seen)


def _cause(cause: Cause, indent: str, seen: set[int]) -> Iterator[str]:
    while True:
        yield _cut(f"{indent}<- {cause}")
        if cause.through:
            yield _cut(f"{indent}   through {', '.join(cause.through)}")
        if isinstance(cause, KeyedElement):
            yield from _reads(cause.read, indent + "   ", seen)
            cause = cause.cause
        elif isinstance(cause, FiredTimer):
            yield f"{indent}   set by:"
            cause = cause.set_by
        else:
            return
        indent += "   "


def _reads(reads: Sequence[ExplainedMutation | HeldEntry], indent: str, seen: set[int]) -> Iterator[str]:
    for each in reads[-_SHOWN_READS:]:
        if isinstance(each, HeldEntry):
            yield _cut(f"{indent}read {each}")
        elif each.number in seen:
            yield _cut(f"{indent}read #{each.number} (above): {each}")
        else:
            lines = list(_tree(each, seen))
            yield _cut(f"{indent}read {lines[0]}")
            for line in lines[1:]:
                yield _cut(f"{indent}  {line}")
    if len(reads) > _SHOWN_READS:
        yield f"{indent}and {len(reads) - _SHOWN_READS} earlier ones"


def _cut(line: str) -> str:
    return cut(line, _LONGEST)


def _plain(value: Any) -> Any:
    if (found := fields_of(value)) is not None:
        if isinstance(value, (SourceRecord, KeyedElement, FiredTimer, UnknownCause)):
            kind = {"kind": _KINDS[type(value)]}
        else:
            kind = {}
        if isinstance(value, CodeLine):
            kind = {"text": value.text}
        return kind | {name: _plain(each) for name, each in found.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return shown(value, 10_000)
    return value


_KINDS = {SourceRecord: "record", KeyedElement: "operator", FiredTimer: "timer", UnknownCause: "unknown"}
