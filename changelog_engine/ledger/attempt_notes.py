"""What a driver notes of each of its attempts beside the log: how its operators are connected, and the error that ended it.

Of a start that ended before an attempt began it notes the error, too.

Invariants:
    * A note is for people. A run that begins asks it one thing, whether an attempt whose input ended has also finished, so
      that its sinks have committed; without a note it begins anew, and has the sinks commit.
    * An attempt's note is written by the driver that owns the attempt, and by nobody else: two drivers never write one file.
    * It is bounded: each text is cut, and an attempt's note takes that of the one KEPT before it away.
    * A failed start counts until an attempt begins: it names the newest attempt there was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from changelog_engine.errors import StorageError
from changelog_engine.graph.rescaling import ParallelismChange
from changelog_engine.storage.protocol import Storage
from changelog_engine.storage.side_by_side import side_by_side

KEPT = 50
"""So many attempts, the newest, have notes."""

FINISHED, STOPPED, RESCALED = "finished", "stopped", "rescaled"
START_FILE = "_start.json"

_FORMAT = 1
_MOST_BYTES = {"message": 4_000, "traceback": 16_000}
_MOST_OTHER_BYTES = 1_000
_MOST_EDGES = 2_000
_MOST_CHANGES = 200
_CUT = "\n[...]\n"


@dataclass(frozen=True)
class OperatorEdge:
    """A way that elements take from an operator to another.

    Args:
        stage: uid of the stage of the receiving operator, which is that of the stage's first operator.
        source: uid of the operator that gives elements.
        target: uid of the one that gets them.
        exchange: how the receiving subtask is chosen (``hash``, ``forward``, ``rebalance``, ...); ``chain`` within a stage.
    """

    stage: str
    source: str
    target: str
    exchange: str


@dataclass(frozen=True)
class AttemptFailure:
    """The error that ended an attempt, or a start before there was one."""

    time_ms: int
    error: str
    message: str  # what it says, without the traceback
    traceback: str  # the lines of code that it came through, the user's own where there are some
    cancelled: bool = False  # somebody stopped the job at once; nothing had failed
    operator: str | None = None  # the operator's name, where a user's function raised
    call: str | None = None
    key: str | None = None  # the key that it ran for, as messages show it
    element: str | None = None  # what it was called with, likewise


@dataclass(frozen=True)
class AttemptNote:
    """What is noted of an attempt.

    Args:
        edges: between its operators, in the order of stages.
        failure: the error that ended it. None while it runs, when it came to its end, and when it was killed.
        ended: ``finished``, ``stopped`` or ``rescaled`` (the next one has another parallelism), when it came to its end;
            None otherwise.
        rescaled: what differs in parallelism from the attempt before, when it was begun for that.
        fault: why it can't be read; nothing is known of the attempt then.
    """

    attempt: int
    edges: tuple[OperatorEdge, ...] = ()
    failure: AttemptFailure | None = None
    ended: str | None = None
    rescaled: tuple[ParallelismChange, ...] = ()
    fault: str | None = None

    @property
    def final(self) -> bool:
        """Whether nothing more will be noted of the attempt."""
        return self.failure is not None or self.ended is not None


def note_file(attempt: int) -> str:
    """The name of an attempt's note in the folder of the changelog."""
    return f"_attempt-{attempt}.json"


def write_note(changelog: Storage, note: AttemptNote) -> None:
    """Write an attempt's note, over the one that it may have; texts that are too long are cut."""
    document = {
        "format": _FORMAT,
        "attempt": note.attempt,
        "edges": [asdict(edge) for edge in note.edges[:_MOST_EDGES]],
        "failure": note.failure and _cut_failure(note.failure),
        "ended": note.ended,
        "rescaled": [_cut_change(change) for change in note.rescaled[:_MOST_CHANGES]],
    }
    changelog.write_durable(note_file(note.attempt), json.dumps(document).encode())


def write_failed_start(changelog: Storage, newest_attempt: int, failure: AttemptFailure) -> None:
    """Write why a start ended before an attempt began, over what was noted of the one before.

    Args:
        newest_attempt: the newest that there is; 0 for none.
    """
    document = {"format": _FORMAT, "after": newest_attempt, "failure": _cut_failure(failure)}
    changelog.write_durable(START_FILE, json.dumps(document).encode())


def read_failed_start(changelog: Storage, newest_attempt: int) -> AttemptFailure | None:
    """Why the last start ended before an attempt began; None where none did since the newest attempt.

    Args:
        newest_attempt: the newest that there is; 0 for none.
    """
    with suppress(StorageError):  # nothing hangs on it
        document = changelog.read_document(START_FILE)
        if document.get("format") == _FORMAT and document.get("after") == newest_attempt:
            return _made(AttemptFailure, document.get("failure"))
    return None


def drop_old_note(changelog: Storage, attempt: int) -> None:
    """Delete the note for which there is no room any more when an attempt begins."""
    if attempt > KEPT:
        changelog.delete(note_file(attempt - KEPT))


def read_notes(
    changelog: Storage, attempts: Iterable[int], known: dict[int, AttemptNote] | None = None
) -> dict[int, AttemptNote]:
    """The notes of attempts, as far as there are any; one that can't be read says so in ``fault``.

    Args:
        attempts: their numbers; the newest KEPT of them are looked at.
        known: final notes of this changelog that were read before and are not read again; those that are read now come to
            them.
    """
    wanted = sorted(attempts)[-KEPT:]
    known = {} if known is None else known

    def read(attempt: int) -> AttemptNote | None:
        if attempt in known:
            return known[attempt]
        try:
            note = _note_in(changelog.read_document(note_file(attempt)), attempt)
        except StorageError as error:
            return AttemptNote(attempt, fault=str(error))
        if note is not None and note.final:
            known[attempt] = note
        return note

    found = side_by_side(changelog, read, wanted)
    return {note.attempt: note for note in found if note is not None}


def _note_in(document: dict[str, Any], attempt: int) -> AttemptNote | None:
    if document.get("format") != _FORMAT or document.get("attempt") != attempt:
        return None
    return AttemptNote(
        attempt,
        _all_made(OperatorEdge, document.get("edges"), _MOST_EDGES),
        _made(AttemptFailure, document.get("failure")),
        ended if (ended := document.get("ended")) in (FINISHED, STOPPED, RESCALED) else None,
        _all_made(ParallelismChange, document.get("rescaled"), _MOST_CHANGES),
    )


def _cut_failure(failure: AttemptFailure) -> dict[str, Any]:
    """An error as it is kept."""
    return {
        name: _cut(value, _MOST_BYTES.get(name, _MOST_OTHER_BYTES)) if isinstance(value, str) else value
        for name, value in asdict(failure).items()
    }


def _cut_change(change: ParallelismChange) -> dict[str, Any]:
    """A change of parallelism as it is kept."""
    operator, name = _cut(change.operator, _MOST_OTHER_BYTES), _cut(change.name, _MOST_OTHER_BYTES)
    return change._replace(operator=operator, name=name)._asdict()


Made = TypeVar("Made", OperatorEdge, AttemptFailure, ParallelismChange)


def _made(cls: type[Made], document: Any) -> Made | None:
    """What a document says; None where it has not all that it must have, or something else in a field."""
    if not isinstance(document, dict):
        return None
    kinds = get_type_hints(cls)
    given = {name: document[name] for name in kinds if name in document}
    if not all(type(value) in (get_args(kinds[name]) or (kinds[name],)) for name, value in given.items()):
        return None
    try:
        return cls(**given)
    except TypeError:
        return None


def _all_made(cls: type[Made], documents: Any, most: int) -> tuple[Made, ...]:
    """What each document of a list says, as far as it says anything."""
    found = [_made(cls, document) for document in (documents if isinstance(documents, list) else [])[:most]]
    return tuple([each for each in found if each is not None])


def _cut(text: str, most_bytes: int) -> str:
    """A text cut to a number of bytes of UTF-8: its beginning and, for the most part, its end, where an error is told."""
    data = text.encode(errors="backslashreplace")
    if len(data) <= most_bytes:
        return data.decode()
    room = most_bytes - len(_CUT)
    first = room // 4
    return f"{data[:first].decode(errors='ignore')}{_CUT}{data[first - room :].decode(errors='ignore')}"
