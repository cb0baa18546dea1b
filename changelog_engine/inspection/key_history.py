"""Every change of one key, in every state that has it: when, by which checkpoint, from what to what.

Only files that can hold the key's key group are opened, and in these only the row groups that can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, starmap
from typing import Any, NamedTuple

import pyarrow as pa

from changelog_engine.changelog.figures import CorrectionNote
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.row_filter import OfKeys
from changelog_engine.changelog.rows import milliseconds_of
from changelog_engine.changelog.segments import segment_of
from changelog_engine.codec.keys import KeyIdentity, key_codec_for
from changelog_engine.display import MOST_ROWS, Displayed, Document, Grid, When
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    keyed_operators,
    map_key_type_of,
    states_of,
)
from changelog_engine.graph.key_groups import key_group
from changelog_engine.history.held_entries import held_entries
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.ranges import PointRange, range_of
from changelog_engine.inspection.states import entries_at, no_such_key
from changelog_engine.inspection.values import (
    EntryName,
    Withheld,
    below_keys,
    key_identities,
    keys_of,
    value_cell,
    values_of,
)
from changelog_engine.ledger.described import check_names
from changelog_engine.ledger.ledger import Base, Ledger
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.points import At
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import read_history
from changelog_engine.operators.windows_merging import MERGING_WINDOWS
from changelog_engine.readable import counted, iso
from changelog_engine.state import mutation_log
from changelog_engine.state.backend import TIMER_DOMAINS, TIMER_STATES
from changelog_engine.types import TypeInformation, type_from_spec
from changelog_engine.types.typeinfo import shown
from changelog_engine.windowing.namespaces import TimeWindows
from changelog_engine.windowing.reserved import CONTENTS
from materializer.entries import StateEntries

SNAPSHOT = "snapshot"  # the operation of what was there before the oldest mutation
_THREADS = 2
TIME_TO_LIVE = "time to live"
ORDER = "within a checkpoint, states stand one after the other; explain tells the order of all changes"


@dataclass(frozen=True)
class KeyChange(EntryName):
    """One mutation of a key; timers have the state ``(event time timers)`` or ``(processing time timers)``.

    Args:
        operation: as in the log, or ``snapshot``: what was there when the log that is kept begins.
        before, after: typed; None for nothing. Of a list the whole list, of a cleared map the whole map as
            ``materializer.entries.StateEntries``, of a timer its time in epoch milliseconds.
        checkpoint, attempt, sequence: by which checkpoint and attempt, and its place among those of its subtask.
        time_ms: when the checkpoint's barrier was.
        event_time_ms: of the element or timer that caused it; None in streams without timestamps.
        cause: ``element``, ``element or timer`` (timers of the key fired or were deleted in the same checkpoint, at the
            same time, or at any where no time is known; of windows, which log their timers by net changes, also where one
            of theirs may have fired), ``time to live`` for the removal of what had expired by the
            checkpoint before, ``... or time to live`` for that of what expired by its own, ``snapshot``, ``timer`` for the
            end of a timer at its own time, or ``correction`` by a person.
        who, why: made the correction, and why; None for other changes.
    """

    operation: str
    before: Any
    after: Any
    checkpoint: int
    attempt: int
    sequence: int
    time_ms: int | None
    event_time_ms: int | None
    cause: str
    who: str | None = None
    why: str | None = None


@dataclass(frozen=True, repr=False)
class KeyHistory(Displayed):
    """The changes of one key.

    Args:
        checkpoint: the newest on whose lineage they are.
        changes: in the order of checkpoints; of one checkpoint, those of each state in the order in which they were made.
        outside: how many more changes the key has, which lie outside of the range that was asked for; None: not known, since
            what is older than the newest snapshot before the range was not read.
        begins: the checkpoint of the snapshot with which the history begins; None: it begins with the job, or the range.
        files, of_files: how many files were opened, of how many.
    """

    checkpoint: Checkpoint
    changes: tuple[KeyChange, ...]
    begins: int | None
    files: int
    of_files: int
    outside: int | None = 0

    def beginning(self) -> list[str]:
        """What to say of a history that does not begin with the job."""
        if self.begins is None:
            return []
        if self.begins == self.checkpoint.id == self.checkpoint.snapshot:
            return [
                f"checkpoint {self.begins} has entries of state and no log of changes: a job keeps each change when it runs "
                "with state.changelog.enabled=true"
            ]
        return [
            f"mutations before checkpoint {self.begins} were truncated: the history begins with its snapshot"
        ]

    def order(self) -> list[str]:
        """What to say of the order, where a checkpoint has changes of several states: the log keeps that of each alone."""
        states = {(each.checkpoint, each.operator, each.state) for each in self.changes if each.sequence >= 0}
        checkpoints = {checkpoint for checkpoint, *_ in states}
        return [ORDER] if len(checkpoints) < len(states) else []

    def grid(self, most: int = MOST_ROWS) -> Grid:
        """A row for each of the newest changes, at most ``most`` of them."""
        changes = self.changes[-most:]
        several = len({change.operator for change in changes}) > 1
        below, belows = below_keys(changes)
        rows = []
        for change, cells_below in zip(changes, belows, strict=True):
            at_ms = None if change.cause == TIME_TO_LIVE else change.event_time_ms
            moment = "" if at_ms is None else f" at {iso(at_ms)}"
            by = "" if change.who is None else f" by {change.who}: {change.why}"
            rows.append(
                (
                    change.checkpoint,
                    When(change.time_ms),
                    *([change.operator] if several else []),
                    change.state,
                    *cells_below,
                    change.operation,
                    value_cell(change.kind, change.before),
                    value_cell(change.kind, change.after),
                    f"{change.cause}{by}{moment}",
                )
            )
        columns = ["checkpoint", "time (UTC)", *(["operator"] if several else []), "state", *below]
        columns += ["operation", "before", "after", "cause"]
        spare = ("operation", "time (UTC)")
        return Grid(columns, rows, len(self.changes), newest=True, right=1, spare=spare)

    def display(self) -> Document:
        key = f" of key {shown(self.changes[0].key)}" if self.changes else ""
        facts = [f"{self.files:,} of {counted(self.of_files, 'file')} opened"]
        if self.outside:
            facts.append(f"{counted(self.outside, 'more change')} outside of the range")
        elif self.outside is None:
            facts.append("changes before the range were not counted")
        facts += self.beginning()
        facts += self.order()
        title = f"{counted(len(self.changes), 'change')}{key} up to checkpoint {self.checkpoint.id}"
        return Document(title, facts, [self.grid()])


@read_again
def key_history(
    path: str,
    key: str,
    *,
    operator: str | None = None,
    state: str | None = None,
    at: At = None,
    start: At = None,
    end: At = None,
    allow_pickle: bool = False,
) -> KeyHistory:
    """All changes of a key.

    Args:
        key: as text, see ``values.key_identities``.
        operator: only in the one with this uid.
        state: only in the state of this name, which may be that of timers.
        at: on whose lineage, see ``ledger.points``; None for the newest checkpoint's.
        start, end: only from this point on, only up to this one; see ``inspection.ranges.range_of``.
        allow_pickle: load pickled values, which runs what is in them.

    Raises:
        RestoreError: there is no such checkpoint, operator or state, and the error suggests the closest match; no
            operator has such keys; or the range ends before it begins.
        CorruptChangelogError: a file is missing or damaged.
    """
    ledger, checkpoint = open_point(path, at)
    check_names(checkpoint, operator, state, timers=True)
    wanted = range_of(ledger.lineage, start, end)
    everywhere = keyed_operators(checkpoint.operators)
    keyed = [each for each in everywhere if operator in (None, each.uid)]
    meant = {each.uid: key_identities(key, key_type_of(each)) for each in keyed}
    oldest, times = ledger.oldest(checkpoint), _Times(ledger.lineage, checkpoint)
    search = _Search(ledger, checkpoint, oldest, times, state, allow_pickle)
    if wanted.start is not None:
        nearest = ledger.nearest(checkpoint, lambda each: wanted.is_after(each, times.of(each)))
        if nearest.checkpoint != oldest.checkpoint:
            near = _Search(ledger, checkpoint, nearest, times, state, allow_pickle)
            near.look_for(keyed, meant)
            history = near.history(wanted, oldest)
            if history.changes:
                return history
    search.look_for(keyed, meant)
    # As it is shown: that may be of an object, or of another class for which the text makes no key.
    if not search.found and any(
        allow_pickle or not meant[each.uid] or key_type_of(each) is None for each in keyed
    ):
        there = entries_at(
            path, checkpoint.id, operator=operator, state=state, key=key, allow_pickle=allow_pickle
        ).entries
        for described in keyed:
            codec = key_codec_for(key_type_of(described))
            search.look(
                described, {codec.identity(entry.key) for entry in there if entry.operator == described.uid}
            )
    if not search.found and keyed and keyed == everywhere and not any(meant.values()):
        raise no_such_key(repr(key), keyed)
    return search.history(wanted, oldest)


class _Search:
    """Looks for changes of one key, which may be meant in several ways; several operators share files.

    Args:
        base: with which the changes that are looked at begin.
        state: only in the state of this name; None for all.
    """

    def __init__(
        self,
        ledger: Ledger,
        checkpoint: Checkpoint,
        base: Base,
        times: _Times,
        state: str | None,
        allow_pickle: bool,
    ) -> None:
        self._ledger = ledger
        self._checkpoint = checkpoint
        self._base = base
        self._times = times
        self._state = state
        self._allow_pickle = allow_pickle
        self._opened: set[str] = set()
        self.found: list[KeyChange] = []

    def look_for(
        self, operators: Iterable[DescribedOperator], meant: Mapping[str, Iterable[KeyIdentity]]
    ) -> None:
        """Find the changes of keys of operators, which are by uid."""
        for described in operators:
            self.look(described, meant[described.uid])

    def look(self, described: DescribedOperator, identities: Iterable[KeyIdentity]) -> None:
        """Find the changes of keys of one operator."""
        for identity in identities:
            reader = _Reader(self._ledger, self._checkpoint, described, self._allow_pickle, self._times)
            table, files = reader.rows(self._base, identity)
            self._opened.update(files)
            self.found.extend(reader.changes(table, self._state))

    def history(self, wanted: PointRange, oldest: Base) -> KeyHistory:
        """What was found, of a range.

        Args:
            oldest: with which all changes that are known begin.
        """
        shown = [change for change in self.found if wanted.holds(change.checkpoint, change.time_ms)]
        shown.sort(key=lambda change: (change.checkpoint, change.operator, change.sequence))
        whole = self._base is oldest
        files = {file.path for base in (oldest, self._base) for file in base.files}
        return KeyHistory(
            self._checkpoint,
            tuple(shown),
            oldest.checkpoint if whole else None,
            len(self._opened),
            len(files),
            len(self.found) - len(shown) if whole else None,
        )


class _Times:
    """Times of checkpoints, and who corrected something with one, each looked up once."""

    def __init__(self, lineage: Lineage, checkpoint: Checkpoint) -> None:
        self._lineage = lineage
        self._rows = lineage.checkpoints
        self._known: dict[int, int | None] = {}
        self._runs = checkpoint.lineage
        # The checkpoint of corrections is the only one of its attempt.
        self._single = {run.first for run in checkpoint.lineage if run.first == run.last}
        self._corrections: dict[int, CorrectionNote | None] = {}

    def correction(self, checkpoint: int) -> CorrectionNote | None:
        """Who and why, where it has corrections."""
        if checkpoint not in self._single or checkpoint not in self._rows:
            return None
        if checkpoint not in self._corrections:
            self._corrections[checkpoint] = self._lineage.checkpoint(checkpoint).correction
        return self._corrections[checkpoint]

    def before(self, checkpoint: int) -> int | None:
        """The time of the checkpoint before it on the lineage; None where that is not known."""
        parents = [min(run.last, checkpoint - 1) for run in self._runs if run.first < checkpoint]
        return self.of(max(parents)) if parents else None

    def of(self, checkpoint: int) -> int | None:
        if checkpoint not in self._known:
            entry = self._rows.get(checkpoint)
            self._known[checkpoint] = None if entry is None else self._rows.time_of(entry)
        return self._known[checkpoint]


class _Row(NamedTuple):
    """One row of the key, of the log or, as ``is_base`` says, of a snapshot."""

    checkpoint: int
    attempt: int
    sequence: int
    state: str
    namespace: str | None
    map_key: str | None
    operation: str
    value: Any
    payload: bytes | None
    event_ms: int | None
    is_base: bool


def _rows_of(table: pa.Table) -> Iterator[_Row]:
    names = ["checkpoint_id", *_Row._fields[1:-2]]
    columns = [table[name].to_pylist() for name in names]
    times, bases = milliseconds_of(table["event_time"]), table["is_base"].to_pylist()
    return starmap(_Row, zip(*columns, times, bases, strict=True))  # drives our own code


class _Expiry:
    """Tells what a state's time to live may have removed, by the last accesses that its values have."""

    def __init__(self, ttl_ms: int, times: _Times) -> None:
        self._ttl_ms = ttl_ms
        self._times = times
        self._accessed: dict[str | None, dict[str | None, list[int | None]]] = {}  # by namespace and map key

    def cause(self, row: _Row, accessed: int | None, otherwise: str) -> str:
        """The cause of a mutation.

        Args:
            accessed: the last access that its value has; None for none.
            otherwise: the cause where it was not the time to live.
        """
        operation, map_key, checkpoint = row.operation, row.map_key, row.checkpoint
        held = self._accessed.setdefault(row.namespace, {})
        if operation == mutation_log.PUT:
            held[map_key] = [accessed]
            return otherwise
        if operation == mutation_log.APPEND:
            held.setdefault(map_key, []).append(accessed)
            return otherwise
        if operation == mutation_log.CLEAR:
            gone = [each for times in held.values() for each in times]
            held.clear()
        else:
            gone = held.pop(map_key, [])
        either = f"{otherwise} or {TIME_TO_LIVE}"
        by_now = self._expired(gone, self._times.of(checkpoint))
        # Replaced by a list that a function gave, or by what is left of the list.
        if operation == mutation_log.REPLACE:
            held[map_key] = [accessed]
            return either if any(by_now) else otherwise
        if gone and all(self._expired(gone, self._times.before(checkpoint))):
            return TIME_TO_LIVE
        return either if gone and all(by_now) else otherwise

    def _expired(self, accessed: list[int | None], time_ms: int | None) -> list[bool]:
        return [
            each is not None and time_ms is not None and each + self._ttl_ms <= time_ms for each in accessed
        ]


class _Reader:
    """The rows of one key of one operator, and what they change."""

    def __init__(
        self,
        ledger: Ledger,
        checkpoint: Checkpoint,
        described: DescribedOperator,
        allow_pickle: bool,
        times: _Times,
    ) -> None:
        self._ledger = ledger
        self._checkpoint = checkpoint
        self._described = described
        self._allow_pickle = allow_pickle
        self._times = times
        self._specs: dict[tuple[str, int], DescribedState] = {}
        self._begins: int | None = None

    def rows(self, base: Base, identity: KeyIdentity) -> tuple[pa.Table | None, set[str]]:
        """Its rows, in log order, those of a snapshot first; and the files that were opened."""
        uid, self._begins = self._described.uid, base.checkpoint
        group = key_group(identity, self._described.max_parallelism)
        groups, operators = range(group, group + 1), frozenset([uid])
        text = key_codec_for(key_type_of(self._described)).text(identity)
        threads = max(_THREADS, self._ledger.storage.reads_at_once)
        held, logged = read_history(
            self._ledger, self._checkpoint, base, groups, operators, threads, wanted=OfKeys(group, [text])
        )
        tables = [
            table.append_column("is_base", pa.array([is_base] * table.num_rows, pa.bool_()))
            for is_base, some in ((True, held), (False, logged))
            for table in some
        ]
        first = self._ledger.snapshot_files(base, groups, operators)
        files = {file.path for file in (*first, *self._ledger.log_files(base.suffix, groups, operators))}
        return pa.concat_tables(tables, promote_options="permissive") if tables else None, files

    def changes(self, table: pa.Table | None, state: str | None) -> Iterator[KeyChange]:
        """What the rows change, state by state."""
        if table is None or not table.num_rows:
            return
        of_state: dict[str, list[_Row]] = {}
        for row in _rows_of(table):
            of_state.setdefault(row.state, []).append(row)
        described = {each.name: each for each in self._described.states}
        key = keys_of([table["key"][0].as_py()], key_type_of(self._described), self._allow_pickle)[0]
        fired = {  # a stream without timestamps does not tell when: any timer of the checkpoint may be the cause
            (row.checkpoint, time)
            for timers in TIMER_DOMAINS
            for row in of_state.get(timers, ())
            if row.operation == mutation_log.DELETE_TIMER
            for time in (int(row.value), None)
        }
        for name, rows in of_state.items():
            if name in TIMER_DOMAINS:
                if state in (None, TIMER_STATES[name]):
                    yield from self._timer_changes(rows, key, fired)
            elif state in (None, name) and name in described:
                yield from self._state_changes(rows, described[name], key, fired)

    def _timer_changes(
        self, rows: list[_Row], key: Any, fired: set[tuple[int, int | None]]
    ) -> Iterator[KeyChange]:
        windows = self._has_windows()
        for row in rows:
            time = int(row.value)
            added = row.operation == mutation_log.REGISTER_TIMER
            held = (None, time) if added else (time, None)
            if not added and row.event_ms == time:
                cause = "timer"
            elif windows or (row.checkpoint, row.event_ms) in fired:
                cause = "element or timer"
            else:
                cause = "element"
            yield self._change(row, TIMER_STATES[row.state], "timer", key, None, held, cause)

    def _has_windows(self) -> bool:
        """Whether the operator's timers are those of windows of time."""
        return any(each.namespace == TimeWindows.name for each in self._described.states)

    def _state_changes(
        self, rows: list[_Row], described: DescribedState, key: Any, fired: set[tuple[int, int | None]]
    ) -> Iterator[KeyChange]:
        values, accessed = self._values(rows, described)
        ttl_ms = described.ttl_ms
        expiry = None if ttl_ms is None else _Expiry(ttl_ms, self._times)
        map_key_type = map_key_type_of(described)
        map_keys = keys_of([row.map_key for row in rows], map_key_type, self._allow_pickle)
        named = {row.map_key: map_key for row, map_key in zip(rows, map_keys, strict=True)}
        held = held_entries(described.kind)
        windows = self._has_windows()
        for row, value, since, map_key in zip(rows, values, accessed, map_keys, strict=True):
            before, after = held.apply(row.operation, row.namespace, row.map_key, value)
            if before is not None and described.kind == "map" and row.operation == mutation_log.CLEAR:
                before = _whole(before, named, map_key_type)
            timer = (row.checkpoint, row.event_ms) in fired or (windows and _of_a_window_s_timer(row))
            cause = "element or timer" if timer else "element"
            if expiry is not None:
                cause = expiry.cause(row, since, cause)
            yield self._change(row, row.state, described.kind, key, map_key, (before, after), cause)

    def _change(
        self, row: _Row, state: str, kind: str, key: Any, map_key: Any, around: tuple[Any, Any], cause: str
    ) -> KeyChange:
        """A row as a change.

        Args:
            around: what there was before it, and after it.
        """
        correction = None if row.is_base else self._times.correction(row.checkpoint)
        if correction is not None:
            cause = "correction"
        return KeyChange(
            self._described.uid,
            state,
            kind,
            key,
            row.namespace,
            map_key,
            SNAPSHOT if row.is_base else row.operation,
            *around,
            row.checkpoint,
            row.attempt,
            -1 if row.is_base else row.sequence,
            self._times.of(row.checkpoint),
            row.event_ms,
            SNAPSHOT if row.is_base else cause,
            None if correction is None else str(correction.get("who")),
            None if correction is None else str(correction.get("why")),
        )

    def _values(self, rows: list[_Row], described: DescribedState) -> tuple[list[Any], list[int | None]]:
        """Typed values, each as the attempt that wrote it had declared the state; and last accesses, with a time to live."""
        found: list[Any] = []
        accessed: list[int | None] = []
        begins = self._begins

        def end_of(row: _Row) -> int:
            # A snapshot's rows are of the types that there were then.
            return begins if row.is_base and begins is not None else self._end_of(row.checkpoint)

        for end, some in groupby(rows, end_of):  # drives our own code
            run = list(some)
            texts, payloads = [row.value for row in run], [row.payload for row in run]
            gone = [text is None and payload is None for text, payload in zip(texts, payloads, strict=True)]
            spec = self._spec(described, end)
            since: list[int | None] = [None] * len(run)
            try:
                value_type = type_from_spec(spec.value_type)
                values = values_of(
                    ["null" if skip else text for text, skip in zip(texts, gone, strict=True)],
                    payloads,
                    value_type,
                    self._allow_pickle,
                )
                if spec.ttl_ms is not None:  # pairs of the last access and the user's value
                    since = [
                        None if isinstance(value, Withheld) or not value else value[0] for value in values
                    ]
                    values = [
                        value if isinstance(value, Withheld) else value[1] if value else None
                        for value in values
                    ]
            except (ChangelogEngineError, ValueError, TypeError, KeyError, IndexError):
                values = [Withheld(text, 0) for text in texts]  # of a type that the checkpoint does not tell
            found += [None if skip else value for value, skip in zip(values, gone, strict=True)]
            accessed += since
        return found, accessed

    def _end_of(self, checkpoint: int) -> int:
        """The newest checkpoint of the lineage that the same attempt wrote: its row says the types."""
        found = segment_of(self._checkpoint.lineage, checkpoint)
        return self._checkpoint.id if found is None else found.last

    def _spec(self, described: DescribedState, end: int) -> DescribedState:
        if end == self._checkpoint.id or end not in self._ledger.lineage.checkpoints:
            return described
        if (described.name, end) not in self._specs:
            row = self._ledger.lineage.checkpoint(end)
            there = states_of(row.operators).get((self._described.uid, described.name))
            self._specs[described.name, end] = described if there is None else there[1]
        return self._specs[described.name, end]


def _of_a_window_s_timer(row: _Row) -> bool:
    """Whether a timer of a window may have made a mutation of an operator with windows of time.

    One that was set and fired between two writings of the log is not in it, but none fires before its window ends.
    """
    taken_away = row.operation in (mutation_log.CLEAR, mutation_log.REMOVE)
    if row.state in (CONTENTS, MERGING_WINDOWS) and not taken_away:
        return False  # elements come into windows and make them longer; timers take them away
    if row.namespace is None or row.event_ms is None:
        return True
    return row.event_ms >= TimeWindows().from_text(row.namespace)[1] - 1


def _whole(
    entries: dict[str, Any], named: dict[str | None, Any], key_type: TypeInformation | None
) -> StateEntries:
    """A map as it is shown: keys that are equal to Python, such as 1 and True, stay two.

    Args:
        entries: by the texts of their keys.
        named: the keys that these and other texts stand for.
    """
    codec = key_codec_for(key_type)
    made = [(named[text], value) for text, value in entries.items()]
    return StateEntries.made(codec, dict(zip(codec.from_texts(list(entries)), made, strict=True)))
