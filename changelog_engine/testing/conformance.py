"""Checks that a source or a sink keeps its promises, for whoever writes one.

They play the engine's part without the engine: reading again from every position, crashes between any two steps of a
commit, restores with another parallelism, writers of a dead attempt that are still there. Each raises AssertionError with
what was seen and what was expected. Elements are compared exactly: 1 is not 1.0, nor is it True.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.connectors.kept_values import kept_copy
from changelog_engine.connectors.protocols import (
    CommittingSink,
    CommittingWriter,
    Connector,
    DiscoveringSource,
    Position,
    Prepared,
    RestoredSink,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    SourceOfParts,
    Split,
    SplitReader,
)
from changelog_engine.errors import NotSerializableError
from changelog_engine.event_time import MIN_WATERMARK, NO_TIMESTAMP
from changelog_engine.testing.exact import exactly
from changelog_engine.types import TypeInformation

_MOST_READS = 100_000


def check_source(
    source: Source, elements: Iterable[Any] | None = None, parallelism: int = 2, seed: int = 0
) -> list[Any]:
    """Read a bounded source in every way that the engine may.

    Checked are: it inherits `Source`, its readers `SplitReader`, and its attributes are what they are to be; it can be
    pickled; split ids are unique str; positions stay what they are as JSON; no read gives more than asked for; every
    position can be read from again, by another reader, in steps of another size, and gives the same elements and timestamps;
    a split that ended gives nothing more; timestamps and records for a side output come only if it says so; a reader's
    watermark never falls, and no element comes at or before it; the members that it overrides can be called as the engine
    calls them: ``with_options``, ``check_before_start``, ``begin_epoch``, ``at_barrier``, ``acknowledged``, ``discover``,
    ``job_ended``.

    Args:
        source: what is checked; it is `Source.replayable`, and all its splits must end.
        elements: what it is to give, in any order; None compares it with itself only.
        parallelism: for which its splits are planned.
        seed: of the step sizes.

    Returns:
        The elements that it gave.

    Raises:
        AssertionError: a promise is broken; says which.

    Example:
        >>> from changelog_engine.connectors import NumberSequenceSource
        >>> sorted(check_source(NumberSequenceSource(1, 5), range(1, 6)))
        [1, 2, 3, 4, 5]
    """
    randomly = random.Random(seed)
    _check_before_start(source, Source)
    _check_attributes(source)
    if not source.replayable:
        raise AssertionError(f"{type(source).__name__} says itself that it cannot be read again")
    splits = source.splits(parallelism)
    _check_splits(splits)
    shipped: Source = pickle.loads(pickle.dumps(source))
    given: list[Any] = []
    ends: dict[str, tuple[Position, bool]] = {}
    for split in splits:
        whole = _read_split(shipped, split.id, split.start, lambda: 1)
        read = [pair for step in whole for pair in step.elements]
        given += [value for value, _ in read]
        ends[split.id] = (whole[-1].after, True)
        for place in randomly.sample(range(len(whole)), min(len(whole), 20)):
            start = whole[place]
            rest = read[start.before :]
            again = _read_split(shipped, split.id, start.position, lambda: randomly.randint(1, 50))
            found = [pair for step in again for pair in step.elements]
            if exactly(found) != exactly(rest):
                raise AssertionError(
                    f"split {split.id!r} gives something else when it is read again from {start.position!r}: "
                    f"{_first_difference(rest, found)}"
                )
            put = [sum(step.aside for step in steps) for steps in (whole[place:], again)]
            if put[0] != put[1]:
                raise AssertionError(
                    f"split {split.id!r} puts {put[1]} records aside when it is read again from {start.position!r}, "
                    f"not {put[0]}"
                )
    _check_discovery(source, ends)
    source.job_ended()
    if elements is not None:
        expected, found_all = _counted(elements), _counted(given)
        if found_all != expected:
            raise AssertionError(f"missing: {expected - found_all}, not expected: {found_all - expected}")
    return given


def _check_before_start(connector: Connector, base: type) -> None:
    """What the engine does with a connector before the job starts."""
    if not isinstance(connector, base):
        raise AssertionError(f"{type(connector).__name__} does not inherit {base.__name__}")
    configured: Any = connector.with_options({})
    if not isinstance(configured, base):
        raise AssertionError(f"with_options() gives {configured!r}, which does not inherit {base.__name__}")
    connector.check_before_start()


def _check_attributes(source: Source) -> None:
    declared: list[tuple[str, Any, type | tuple[type, ...]]] = [
        ("bounded", source.bounded, bool),
        ("parallel", source.parallel, bool),
        ("timed", source.timed, bool),
        ("acknowledges", source.acknowledges, bool),
        ("replayable", source.replayable, bool),
        ("watermarks_by_split", source.watermarks_by_split, bool),
        ("output_type", source.output_type, (TypeInformation, type(None))),
        ("bad_tag", source.bad_tag, (str, type(None))),
    ]
    if isinstance(source, DiscoveringSource):
        declared.append(("discovery_interval_ms", source.discovery_interval_ms, (int, type(None))))
    for name, value, kinds in declared:
        if not isinstance(value, kinds):
            raise AssertionError(f"{name} is {value!r}")
    if isinstance(source, SourceOfParts):
        if not source.parts:
            raise AssertionError("parts is empty")
        for part in source.parts:
            _check_before_start(part, Source)
            _check_attributes(part)


def _check_splits(splits: list[Split]) -> None:
    ids = [split.id for split in splits]
    if len(set(ids)) != len(ids):
        raise AssertionError(f"split ids are not unique: {ids}")
    if not all(isinstance(name, str) for name in ids):
        raise AssertionError(f"split ids are not all str: {ids}")


def _check_discovery(source: Source, known: dict[str, tuple[Position, bool]]) -> None:
    """What the engine asks for between epochs: nothing that is known comes up again."""
    if isinstance(source, SourceOfParts):
        for part, each in enumerate(source.parts):
            if isinstance(each, DiscoveringSource):
                _check_splits(source.discover_in(part, known))
    elif isinstance(source, DiscoveringSource):
        _check_splits(source.discover(known))


@dataclass
class _Step:
    before: int  # elements of the split before it
    position: Position
    elements: list[tuple[Any, int | None]]
    aside: int  # how many records for the side output
    after: Position


def _read_split(source: Source, name: str, start: Position, size: Callable[[], int]) -> list[_Step]:
    reader, position = source.reader(Split(name, None)), start
    if not isinstance(reader, SplitReader):
        raise AssertionError(f"{type(reader).__name__} does not inherit SplitReader")
    steps: list[_Step] = []
    count, finished, watermark = 0, False, MIN_WATERMARK
    try:
        for number in range(_MOST_READS):
            reader.begin_epoch(durable=number % 2 == 0)
            most = size()
            position = _as_json(position, f"a position of split {name!r}")
            found = reader.read(position, most)
            if len(found.values) > most:
                raise AssertionError(f"split {name!r}: asked for {most}, read gave {len(found.values)}")
            times = [None] * len(found.values) if found.timestamps is None else list(found.timestamps)
            if len(times) != len(found.values):
                raise AssertionError(f"split {name!r}: {len(found.values)} values, {len(times)} timestamps")
            if len(found.values) and not source.timed and found.timestamps is not None:
                raise AssertionError(f"split {name!r} gives timestamps, and timed is False")
            if source.bad_tag is None and found.aside:
                raise AssertionError(f"split {name!r} gives records for a side output, and bad_tag is None")
            early = [at for at in times if at is not None and NO_TIMESTAMP < at <= watermark]
            if early:
                raise AssertionError(
                    f"split {name!r} gives an element of {early[0]} after the watermark {watermark}"
                )
            if reader.watermark is not None:
                if reader.watermark < watermark:
                    raise AssertionError(
                        f"split {name!r}: the watermark falls from {watermark} to {reader.watermark}"
                    )
                watermark = reader.watermark
            pairs = list(zip(found.values, times, strict=True))
            steps.append(_Step(count, position, pairs, len(found.aside or ()), found.next))
            count += len(found.values)
            position, finished = reader.at_barrier(found.next), found.finished
            if source.acknowledges:
                reader.acknowledged(_as_json(position, f"a position of split {name!r}"))
            if finished:
                break
        if not finished:
            raise AssertionError(f"split {name!r} did not end after {_MOST_READS} reads")
        beyond = reader.read(_as_json(position, "the last position"), 10)
        more = [*beyond.values[:3], *(beyond.aside or ())[:3]]
        if more:
            raise AssertionError(f"split {name!r} gives {more} after it said that it ended")
    finally:
        reader.close()
    return steps


def check_sink(
    sink: Sink,
    visible: Callable[[], Iterable[Any]],
    element: Callable[[int], Any] = str,
    runs: int = 10,
    seed: int = 0,
) -> None:
    """Write through crashes and changes of the parallelism with a sink that writes at least once.

    Checked are: it inherits `Sink`, its writers `SinkWriter`; it can be pickled; what was flushed is visible, at least once,
    whatever becomes of the writers; nothing is visible that was not written.

    Args:
        sink: what is checked.
        visible: every element that the outside world sees at the moment, in any order.
        element: number -> element. Elements are compared as ``visible`` gives them.
        runs: how many attempts, one after the other.
        seed: of what happens.

    Raises:
        AssertionError: a promise is broken; says which, and after what.
    """
    randomly = random.Random(seed)
    _check_before_start(sink, Sink)
    shipped: Sink = pickle.loads(pickle.dumps(sink))
    there = _counted(visible())
    flushed = Counter[Any]()
    written = Counter[Any]()
    at = 0
    for run in range(runs):
        parallelism = randomly.randint(1, 3)
        writers = [shipped.writer(subtask, parallelism) for subtask in range(parallelism)]
        for writer in writers:
            if not isinstance(writer, SinkWriter):
                raise AssertionError(f"{type(writer).__name__} does not inherit SinkWriter")
        for epoch in range(randomly.randint(1, 5)):
            values = [element(at + index) for index in range(randomly.randint(0, 10))]
            written += _counted(values)
            for position, value in enumerate(values):
                writers[position % parallelism].write_timed([value], None, MIN_WATERMARK)
            if randomly.random() < 0.3:  # a crash: they are written again
                break
            for writer in writers:
                writer.flush()
            at += len(values)
            flushed += _counted(values)
            found = _counted(visible()) - there
            if flushed - found:
                raise AssertionError(
                    f"after the flush of epoch {epoch} of run {run} these elements are not visible: "
                    f"{dict(flushed - found)}"
                )
        for writer in writers:
            writer.close()
        found = _counted(visible()) - there
        if flushed - found:
            raise AssertionError(f"after run {run} was closed these are gone: {dict(flushed - found)}")
        strange = set(found) - set(written)
        if strange:
            raise AssertionError(
                f"after run {run} elements are visible that were not written: {sorted(strange, key=repr)}"
            )


def check_committing_sink(
    sink: CommittingSink,
    visible: Callable[[], Iterable[Any]],
    element: Callable[[int], Any] = str,
    runs: int = 10,
    seed: int = 0,
) -> None:
    """Write through crashes, restores and changes of the parallelism, and look at what the world sees.

    Checked are: it inherits `CommittingSink`, its writers `CommittingWriter`; it can be pickled; what is not committed is
    not visible; what is committed is, once; what was prepared in a checkpoint that became durable is committed by whoever
    comes after, even when it had been before; what was prepared in one that did not is never seen; a writer whose attempt is
    dead changes nothing when it is closed late, or late commits what was durable; committables and state are JSON.

    Args:
        sink: what is checked.
        visible: every element that the outside world sees at the moment, in any order.
        element: number -> element. Elements are compared as ``visible`` gives them.
        runs: how many jobs, one after the other.
        seed: of what happens.

    Raises:
        AssertionError: a promise is broken; says which, and after what.
    """
    _check_before_start(sink, CommittingSink)
    shipped: CommittingSink = pickle.loads(pickle.dumps(sink))
    before = _counted(visible())
    for number in range(runs):
        job = _SinkJob(
            shipped, visible, before, element, f"job-{seed}-{number}", random.Random(f"{seed}/{number}")
        )
        job.run()
        before = job.expected


@dataclass
class _SinkJob:
    """One job that writes to the sink, driven at random."""

    sink: CommittingSink
    visible: Callable[[], Iterable[Any]]
    expected: Counter[Any]
    element: Callable[[int], Any]
    name: str
    random: random.Random
    durable: list[RestoredSink] = field(default_factory=list)
    read: int = 0  # elements covered by the durable checkpoint
    attempt: int = 0
    writers: list[CommittingWriter] = field(default_factory=list)
    waiting: list[list[Any]] = field(default_factory=list)  # of each writer: prepared, not committed
    told: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Some epochs, then the end."""
        self._start()
        at = self.read
        for _ in range(self.random.randint(3, 12)):
            at = self._write(at)
            step = self.random.choice(
                ["epoch", "checkpoint", "checkpoint", "lost", "failed", "torn", "crash"]
            )
            self.told.append(step)
            if step == "epoch":
                for writer in self.writers:
                    writer.end_epoch()
            elif step == "crash":
                at = self._crash()
            else:
                prepared = self._prepare(final=False)
                self._see(f"a barrier ({step})")
                if step == "failed":  # tolerated: the next checkpoint takes it along
                    continue
                if step == "lost":
                    at = self._crash()
                    continue
                self._acknowledge(prepared, at)
                if step == "torn":
                    self._commit(self.writers[: self.random.randint(0, len(self.writers))])
                    at = self._crash()
                else:
                    self._commit(self.writers)
                    self._see("a commit")
        at = self._write(at)
        self._acknowledge(self._prepare(final=True), at)
        if self.random.random() < 0.5:
            self.told.append("crash at the end")
            self._crash()
        self._commit(self.writers)
        for writer in self.writers:
            writer.close()
        self._see("the end")

    def _start(self) -> None:
        self.attempt += 1
        parallelism = self.random.randint(1, 3)
        run, kept = uuid.uuid4().hex, tuple(self.durable)
        context = SinkContext(self.name, "sink", -1, parallelism, run, self.attempt, True, kept)
        self._commit_all(context)
        self.writers = []
        for subtask in range(parallelism):
            mine = [kept for kept in self.durable if kept.subtask % parallelism == subtask]
            beside = [kept for kept in self.durable if kept.subtask % parallelism != subtask]
            here = context._replace(subtask=subtask, restored=mine, beside=beside)
            writer = self.sink.committing_writer(here)
            if not isinstance(writer, CommittingWriter):
                raise AssertionError(f"{type(writer).__name__} does not inherit CommittingWriter")
            self.writers.append(writer)
        self.waiting = [[] for _ in self.writers]

    def _write(self, at: int) -> int:
        for _ in range(self.random.randint(0, 3)):
            count = self.random.randint(1, 5)
            values = [self.element(at + index) for index in range(count)]
            self.random.choice(self.writers).write_timed(values, None, MIN_WATERMARK)
            at += count
        return at

    def _prepare(self, final: bool) -> list[RestoredSink]:
        kept = []
        for subtask, (writer, waiting) in enumerate(zip(self.writers, self.waiting, strict=True)):
            writer.end_epoch()
            prepared = writer.prepare(final)
            waiting.extend(_as_json(list(prepared.committables), "committables"))
            state = _as_json(prepared.state, "a writer's state")
            kept.append(RestoredSink(subtask, Prepared(list(waiting), state)))
        return kept

    def _acknowledge(self, prepared: list[RestoredSink], at: int) -> None:
        self.expected = self.expected + _counted(self.element(number) for number in range(self.read, at))
        self.durable, self.read = prepared, at
        self._commit_all(SinkContext(self.name, "sink", -1, len(self.writers), "", self.attempt, True, ()))

    def _commit_all(self, context: SinkContext) -> None:
        committables = [each for kept in self.durable for each in kept.prepared.committables]
        if committables:
            self.sink.commit_all(context, committables)

    def _commit(self, writers: Sequence[CommittingWriter]) -> None:
        for writer, waiting in zip(writers, self.waiting, strict=False):
            if waiting:
                writer.commit(list(waiting))
                waiting.clear()

    def _crash(self) -> int:
        """The processes are gone, or seem to be: one of them may wake up when its place has been taken."""
        durable = [each for kept in self.durable for each in kept.prepared.committables]
        zombies = []
        for writer, waiting in zip(self.writers, self.waiting, strict=True):
            if self.random.random() < 0.4:  # it failed, and its process closes it
                writer.close()
            else:
                zombies.append((writer, [each for each in waiting if each in durable]))
        self._start()
        for zombie, due in zombies:
            if due and self.random.random() < 0.5:  # it was told before
                with contextlib.suppress(Exception):  # it may be refused, and nobody hears of it
                    zombie.commit(due)
            if self.random.random() < 0.3:
                zombie.close()
        self._see("a restore")
        return self.read

    def _see(self, after: str) -> None:
        found = _counted(self.visible())
        if found != self.expected:
            raise AssertionError(
                f"after {after} of {self.name} (steps: {', '.join(self.told)}) the world sees other elements than the "
                f"durable checkpoints have: missing {dict(self.expected - found)}, too many {dict(found - self.expected)}"
            )


def _as_json(value: Any, what: str) -> Any:
    """The value as a checkpoint gives it back."""
    try:
        return kept_copy(value, what)
    except NotSerializableError as error:
        raise AssertionError(str(error)) from None


def _counted(elements: Iterable[Any]) -> Counter[Any]:
    return Counter(exactly(elements))


def _first_difference(expected: Sequence[Any], found: Sequence[Any]) -> str:
    for index, (one, other) in enumerate(zip(exactly(expected), exactly(found), strict=False)):
        if one != other:
            return f"element {index} is {other!r} and was {one!r}"
    return f"{len(found)} elements, not {len(expected)}"
