"""Which record changed this key? Answered from the log by a replay that keeps where each element came from.

Invariants:
    * The job's folder is only read; its sinks are not written to.
    * An answer is given only when the replay's mutations are those of the log: of the key, and of everything before it that
      the answer may rest on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.segments import ids_after
from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.config.numbers import whole_number
from changelog_engine.errors import ConfigurationError, NotSupportedError, RestoreError, UserFunctionError
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.graph.plan import JobPlan
from changelog_engine.in_process.capture import capture_job
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.points import At, checkpoint_at
from changelog_engine.provenance.answers import Answers
from changelog_engine.provenance.result import Explanation
from changelog_engine.provenance.stages import traced
from changelog_engine.provenance.touched import Touched
from changelog_engine.provenance.trace import Tracker
from changelog_engine.provenance.wanted_keys import ComparedRows, KeyRows, WantedKey, shown_key, wanted_keys
from changelog_engine.replay.compare import differences, types_of
from changelog_engine.replay.job import FAILED, notes_of
from changelog_engine.replay.recorded import RecordedRange, recorded_folder
from changelog_engine.replay.run import ReplayRun, plan_of
from changelog_engine.state.local_folder import temporary_folder


def explain(
    program: Callable[[], Any],
    key: Any,
    *,
    operator: str | None = None,
    state: str | None = None,
    at: At = None,
    start: At = None,
    depth: int = 1,
    job: str | None = None,
    path: str | None = None,
) -> Explanation:
    """Which records and timers changed a key, and how: every mutation of it in one checkpoint, in the real order.

    The state of the checkpoint before is restored, the recorded input of the range is read again, and what the program's
    code does to the key is kept with what brought it about. It runs in this process, without Spark; the job's folder is
    only read, and nothing goes to its sinks. The job itself writes nothing for it.

    Args:
        program: builds the job and executes it; ``execute()`` does not return from it.
        key: the key; or as text, as it is shown.
        operator: uid of the operator with the state; None for all that have the key.
        state: only mutations of the state of this name; None for all.
        at: the checkpoint: its id, or a text such as ``-2`` or ``12:00:05``; None for the newest one that changed the key.
        start: the checkpoint before the first that is replayed, as ``at``; 0: the empty state; None: the one before ``at``.
        depth: 1 gives the mutations with their causes; 2 also what their calls had read, 3 what those had read, and so on.
        job: the job's name, in a program that executes several; None for the first.
        path: the job's folder; None for where the program's settings say.

    Raises:
        ConfigurationError: the program executes no such job, or ``depth`` is below 1.
        RestoreError: the replay cannot work, or nothing is known of the key.
        NotSupportedError: the job has an operator or a mode that cannot be explained.

    Example:
        >>> found = explain(main, "ann", at=7)  # doctest: +SKIP
        >>> print(found.mutations[-1].cause)  # doctest: +SKIP
    """
    whole_number(depth, "depth", 1)
    return _asked(program, job, at, start, path, lambda replays: replays.key(key, operator, state, depth))


def explain_output(
    program: Callable[[], Any],
    sink: str,
    where: Callable[[Any], Any] = lambda value: True,
    *,
    at: At = None,
    start: At = None,
    depth: int = 2,
    job: str | None = None,
    path: str | None = None,
) -> Explanation:
    """Which records and which state made the elements that reached a sink.

    Arguments are those of `explain`, and:

    Args:
        sink: uid or name of the sink.
        where: which of its elements are meant; all by default.
        at: the checkpoint; None for the newest.

    Raises:
        ConfigurationError, RestoreError, NotSupportedError: see `explain`.
    """
    whole_number(depth, "depth", 1)
    return _asked(program, job, at, start, path, lambda replays: replays.output(sink, where, depth))


def impact(
    program: Callable[[], Any],
    source: str,
    position: Any,
    *,
    split: str | None = None,
    through_state: bool = False,
    at: At = None,
    start: At = None,
    job: str | None = None,
    path: str | None = None,
) -> Explanation:
    """Which mutations and outputs a record had a part in: by itself, and by timers that were set for it.

    Arguments are those of `explain`, and:

    Args:
        source: uid or name of the source.
        split: id of the split; None for any.
        through_state: also what was changed or given by calls that had read a mutation in which it had a part.
        at: the last checkpoint that is looked at; None for the one with which the record was read.
        start: the checkpoint before the one with which the record was read; None to find it.

    Raises:
        ConfigurationError, RestoreError, NotSupportedError: see `explain`.
    """

    def ask(replays: Replays) -> Explanation:
        return replays.impact(source, position, split, through_state)

    return _asked(program, job, at, start, path, ask)


def _asked(
    program: Callable[[], Any],
    job: str | None,
    at: At,
    start: At,
    path: str | None,
    ask: Callable[[Replays], Explanation],
) -> Explanation:
    def action(graph: JobGraph, settings: JobSettings) -> Explanation:
        return ask(Replays(graph, settings, at, start, path))

    return capture_job(program, action, job, asked_by="explain")


class Replays:
    """A job as the engine has it, its folder, and the range of checkpoints that is replayed to answer a question.

    Args:
        at, start, path: see `explain`.
    """

    def __init__(
        self, graph: JobGraph, settings: JobSettings, at: At = None, start: At = None, path: str | None = None
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._folder = recorded_folder(graph, settings, "explain") if path is None else open_job(path)
        self._at = at
        self._start = start
        self._end = _checkpoint(self._folder, at)
        self._plan = plan_of(graph, self._end)

    def key(
        self, key: Any, operator: str | None = None, state: str | None = None, depth: int = 1
    ) -> Explanation:
        wanted = wanted_keys(self._end, key, operator)
        rows = KeyRows(self._folder, self._end)
        end = self._end
        if self._at is None:
            end = _checkpoint(self._folder, rows.last_change(wanted, state))
        history = self._history(self._start, end)
        found = rows.of(wanted, history)
        targets = {each.operator: each for each in wanted if each in found}
        about = f"key {shown_key(key)}" + (f" of {operator!r}" if operator else "")
        result = self._result(history, about + (f", state {state!r}" if state else ""))
        if not targets:
            result.notes.append(f"the log has no mutation of this key in {_between(history)}")
            return result
        result.notes += [
            f"{key!r} also means the key {each.text} of {each.operator!r}, whose mutations in this range are not explained"
            for each in wanted
            if each in found and targets[each.operator] != each
        ]
        keys = self._stages_of(targets)
        before = {stage: self._plan.upstream(stage) for stage in keys}
        # What other stages need of a stage is all its keys.
        narrow = {
            stage: identity
            for stage, identity in keys.items()
            if not any(stage in each for each in before.values())
        }
        tracker = Tracker(narrow, reads=depth > 1, keeps_all=len(narrow) < len(keys))
        with self._replayed(
            history, tracker, frozenset(keys).union(*before.values()), result, targets
        ) as equal:
            events = [
                event
                for event in tracker.events
                if event.mutation is not None
                and event.operator in targets
                and _plain_key(event.key) == targets[event.operator].identity
                and (state is None or event.mutation.state == state)
            ]
            answers = Answers(_codecs(self._plan), result.start, depth)
            result.mutations = [answers.mutation(event) for event in events if equal]
        return result

    def output(self, sink: str, where: Callable[[Any], Any], depth: int = 2) -> Explanation:
        uids = _named(self._plan, sink, NodeKind.SINK)
        needed: frozenset[int] = frozenset()
        for stage in self._plan.stages:
            if any(self._plan.uids[node] in uids for node in stage.nodes):
                needed |= {stage.id} | self._plan.upstream(stage.id)
        history = self._history(self._start, self._end)
        result = self._result(history, f"output of {sink!r}")
        tracker = Tracker(
            {}, reads=depth > 1, wants_output=lambda uid, value: uid in uids and bool(where(value))
        )
        with self._replayed(history, tracker, needed, result) as equal:
            answers = Answers(_codecs(self._plan), result.start, depth)
            result.outputs = [answers.output(output) for output in tracker.outputs if equal]
        return result

    def impact(
        self, source: str, position: Any, split: str | None = None, through_state: bool = False
    ) -> Explanation:
        sources = _named(self._plan, source, NodeKind.SOURCE)
        start, end = self._start, self._end
        if start is None:
            start, read_with = _read_between(self._folder, end, sources, position, split)
            if self._at is None:
                end = _checkpoint(self._folder, read_with)
        history = self._history(start, end)
        result = self._result(
            history, f"what the record at {shown_key(position)} of source {source!r} had a part in"
        )
        tracker = Tracker({}, reads=through_state, wants_output=lambda uid, value: True, keeps_all=True)
        needed = frozenset(stage.id for stage in self._plan.stages)
        with self._replayed(history, tracker, needed, result) as equal:
            if not equal:
                return result
            touched = Touched(sources, position, split)
            answers = Answers(_codecs(self._plan), result.start, 1)
            events = [
                event for event in tracker.events if event.mutation is not None and touched.mutation(event)
            ]
            result.mutations = [answers.mutation(event) for event in events]
            result.outputs = [answers.output(each) for each in tracker.outputs if touched.origin(each.origin)]
            if not touched.seen:
                result.notes.append("no record at this position was read in the replayed range")
            result.notes.append(
                f"followed up to checkpoint {history.end.id}: later, timers of it may have fired, and its state been read"
            )
        return result

    def _history(self, start: At, end: Checkpoint) -> RecordedRange:
        """The range from a checkpoint, by default the one before the last, to the last."""
        if start is None:
            ids = list(ids_after(end.lineage))
            start = ids[-2] if len(ids) > 1 else 0
        return RecordedRange(self._folder, start, end.id)

    def _result(self, history: RecordedRange, about: str) -> Explanation:
        return Explanation(self._graph.name, history.start_id, history.end.id, about)

    def _stages_of(self, targets: dict[str, WantedKey]) -> dict[int, Any]:
        """The identity of the key in each stage that has it."""
        there = _uids(self._plan, range(len(self._plan.stages)))
        missing = sorted(set(targets) - there)
        if missing:
            raise RestoreError(
                f"the job no longer has the operator {missing[0]!r}, whose state it was: give operators the uid() that "
                "they had"
            )
        keys: dict[int, Any] = {}
        for stage in self._plan.stages:
            for uid in (self._plan.uids[node] for node in stage.nodes):
                if uid in targets:
                    keys.setdefault(stage.id, targets[uid].identity)
        return keys

    @contextlib.contextmanager
    def _replayed(
        self,
        history: RecordedRange,
        tracker: Tracker,
        needed: frozenset[int],
        result: Explanation,
        targets: Mapping[str, WantedKey] = MappingProxyType({}),
    ) -> Iterator[bool]:
        """Replay a range and compare it; what differs first is put into the result.

        Yields:
            Whether nothing differs. Within it, sources give their records once more.
        """
        if self._settings.batch:
            raise NotSupportedError(
                "a job in BATCH mode cannot be explained: it processes the elements of each key at the end of its input"
            )
        before = list(history.pieces())[:-1]
        if before:
            result.notes.append(
                f"up to checkpoint {before[-1].checkpoints[-1].id} the job had another parallelism than is replayed, so "
                "elements of a key may come in another order than recorded; end there, or begin there, to rule that out"
            )
        result.notes += notes_of(self._graph, history.checkpoints)[:-1]

        def runner(job: Any, clock: Any) -> InProcessRunner:
            return InProcessRunner(job, clock, stages=needed, assemble=traced(tracker))

        with temporary_folder("explain") as scratch:
            point = history.point(history.start)
            run = _TracedRun(self._graph, self._settings, point, history.start, history.end, scratch, runner)
            run.needed = needed
            narrowed = _uids(run.plan, tracker.keys)
            compared = ComparedRows(
                _uids(run.plan, needed) - narrowed,
                {uid: wanted for uid, wanted in targets.items() if uid in narrowed},
            )
            recorded = compared.recorded(history)
            with contextlib.closing(run):
                try:
                    for checkpoint in history.checkpoints:
                        tracker.checkpoint = checkpoint.id
                        replayed = [compared.among(table) for table in run.run(checkpoint)]
                        differing = differences(
                            recorded[checkpoint.id],
                            replayed,
                            types_of(checkpoint.operators),
                            run.types(),
                            checkpoint.id,
                        )
                        if differing:
                            result.difference = str(differing[0])
                            break
                except UserFunctionError as error:
                    result.difference = f"{FAILED}:\n{error}"
                yield result.equal


class _TracedRun(ReplayRun):
    """A replay in which stages that don't matter do not run."""

    needed: frozenset[int] = frozenset()  # ids of the stages that run

    def _run_epoch(self, checkpoint: Checkpoint, ends: Any, barrier: bool) -> bool:
        for stage in self.plan.stages:
            if stage.id not in self.needed:
                for node in stage.nodes:
                    uid = self.plan.uids[node]
                    if uid in ends:
                        self._progress.advance({uid: ends[uid]})
        return super()._run_epoch(checkpoint, ends, barrier)


def _uids(plan: JobPlan, stages: Container[int]) -> frozenset[str]:
    """The uids of the operators in some stages."""
    return frozenset(plan.uids[node] for stage in plan.stages if stage.id in stages for node in stage.nodes)


def _checkpoint(folder: JobFolder, at: At) -> Checkpoint:
    return checkpoint_at(folder.open_lineage(), at)


def _read_between(
    folder: JobFolder, end: Checkpoint, sources: set[str], position: Any, split: str | None
) -> tuple[int, int]:
    """The checkpoint before the one with which a position was read, 0 for the start; and that one."""
    if type(position) is not int:
        raise ConfigurationError(
            f"the position {shown_key(position)} is not a number, so it is not known where it lies: give the checkpoint "
            "before the record was read (--from)"
        )
    lineage = folder.open_lineage()
    ids = [n for n in ids_after(end.lineage) if n in lineage.checkpoints]

    def passed(number: int) -> bool:
        """Whether a checkpoint stands behind the position."""
        splits = [
            each.position
            for uid in sources
            for name, each in lineage.checkpoint(number).sources.get(uid, {}).items()
            if split in (None, name)
        ]
        return any(type(at) is int and at > position for at in splits)

    if split is None and any(len(end.sources.get(uid, {})) > 1 for uid in sources):
        raise ConfigurationError(
            f"the source has several splits, each with a position {position}: give the split, one of "
            f"{', '.join(sorted(name for uid in sources for name in end.sources.get(uid, {})))}"
        )
    if not passed(ids[-1]):
        raise RestoreError(
            f"checkpoint {ids[-1]} has not read position {position} of this source, or its positions are not numbers"
        )
    low, high = 0, len(ids) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passed(ids[middle]) else (middle + 1, high)
    return (ids[low - 1] if low else 0), ids[low]


def _codecs(plan: JobPlan) -> dict[str, KeyCodec]:
    """Operator to the codec of its keys; checkpoints tell the keys' type of operators with state only."""
    return {plan.uids[node]: key_codec_for(stage.key_type) for stage in plan.stages for node in stage.nodes}


def _named(plan: JobPlan, name: str, kind: NodeKind) -> set[str]:
    """The uids of the sources or sinks with a uid or a name."""
    nodes = [node for node in plan.graph.nodes if node.kind is kind]
    found = {plan.uids[node.id] for node in nodes if name in (plan.uids[node.id], node.name)}
    if not found:
        there = ", ".join(f"{plan.uids[node.id]!r} ({node.name})" for node in nodes) or "none"
        raise RestoreError(f"no {kind.value} has the uid or name {name!r}; there are {there}")
    return found


def _between(history: RecordedRange) -> str:
    ids = [row.id for row in history.checkpoints]
    return f"checkpoint {ids[0]}" if len(ids) == 1 else f"checkpoints {ids[0]} to {ids[-1]}"


def _plain_key(key: Any) -> Any:
    return key[0] if type(key) is tuple else key
