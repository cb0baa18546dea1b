"""Replay tests: the code of today over the input of a piece of a job's history, compared with what the log has.

Invariants:
    * The job's folder is only read; its sinks are not written to.
    * Code that is deterministic and unchanged is found equal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.config.numbers import whole_number
from changelog_engine.display import MOST_ROWS, Displayed, Document, Grid, Literal, printable
from changelog_engine.errors import UserFunctionError
from changelog_engine.graph.descriptions import states_of
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind, Partitioner, StateId
from changelog_engine.in_process.capture import capture_job
from changelog_engine.ledger.points import At
from changelog_engine.ledger.reading import read_parts
from changelog_engine.readable import counted
from changelog_engine.replay.compare import Difference, StateTypes, differences, states_named, types_of
from changelog_engine.replay.recorded import RecordedPiece, RecordedRange, recorded_folder
from changelog_engine.replay.run import ReplayRun
from changelog_engine.state.local_folder import temporary_folder

FAILED = "the code failed, and did not when it was recorded"
_SHUFFLING = (Partitioner.REBALANCE, Partitioner.RESCALE, Partitioner.SHUFFLE)


@dataclass(repr=False)
class ReplayReport(Displayed):
    """What a replay found.

    Args:
        start: the checkpoint whose state it began with; None for the empty state.
        mutations: keys whose mutations differ, checkpoint by checkpoint.
        state: keys whose final state differs.
        keys: how many keys have final state, recorded or replayed, each counted once for every operator that has it.
        failure: how the job's code failed, where the recorded run did not; None when it did not fail.
        notes: why differences may come from elsewhere than the code.
        left_out: the states that were not compared, as they were named.
    """

    job: str
    start: int | None
    end: int
    checkpoints: int = 0
    recorded: int = 0
    replayed: int = 0
    mutations: list[Difference] = field(default_factory=list)
    state: list[Difference] = field(default_factory=list)
    keys: int = 0
    failure: str | None = None
    notes: list[str] = field(default_factory=list)
    left_out: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether mutations and final state are those of the log."""
        return not (self.mutations or self.state or self.failure)

    def counts(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(operator, state) to how many keys differ in their mutations, and in their final state; those that differ."""
        found: dict[tuple[str, str], list[set[Any]]] = {}
        for index, differing in enumerate((self.mutations, self.state)):
            for each in differing:
                sets = found.setdefault((each.operator, each.state), [set(), set()])
                sets[index].add((repr(each.key), each.namespace))
        return {name: (len(sets[0]), len(sets[1])) for name, sets in found.items()}

    @property
    def equal_keys(self) -> int:
        """Of `keys`, those whose final state is that of the log; 0 when the code failed before there was one."""
        return self.keys - len({(each.operator, repr(each.key)) for each in self.state})

    def text(self, limit: int = 5) -> str:
        """The report for people.

        Args:
            limit: how many differing keys are shown in full, of mutations and of the final state each; default 5. Below 0
                is a ConfigurationError.
        """
        whole_number(limit, "limit", 0)
        begin = "the start" if self.start is None else f"checkpoint {self.start}"
        what = f"replay of {self.job!r} from {begin} to checkpoint {self.end}"
        recorded = counted(self.recorded, "mutation")
        size = f"{counted(self.checkpoints, 'checkpoint')}, {recorded} recorded, {self.replayed:,} replayed"
        if self.left_out:
            size += f", without {', '.join(self.left_out)}"
        if self.equal:
            return f"{what}: equal ({size})"
        lines = [f"{what}: DIFFERENT ({size})"]
        if self.failure:
            lines += [f"{FAILED}:", self.failure]
        for (operator, state), (mutations, final) in self.counts().items():
            lines.append(
                f"{state!r} of {operator!r}: mutations of {counted(mutations, 'key')} differ, final state of {final}"
            )
        if not self.failure:
            lines.append(f"final state of {self.equal_keys:,} of {self.keys:,} keys is equal")
        for differing, words in ((self.mutations, "mutations"), (self.state, "final state")):
            lines += [str(each) for each in differing[:limit]]
            if len(differing) > limit:
                lines.append(f"... and {len(differing) - limit} more differences of {words}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def display(self) -> Document:
        first = self.text(0).partition("\n")[0]
        if self.equal:
            return Document(first, [f"note: {note}" for note in self.notes])
        counts = [(*name, *keys) for name, keys in self.counts().items()]
        rows = []
        for each in [*self.mutations, *self.state][:MOST_ROWS]:
            where = "final state" if each.checkpoint is None else f"checkpoint {each.checkpoint}"
            recorded, replayed = each.sides()
            rows.append(
                (where, each.operator, each.state, Literal(each.key), each.namespace, recorded, replayed)
            )
        return Document(
            first,
            [FAILED] if self.failure else [],
            [
                Grid(
                    ("operator", "state", "keys whose mutations differ", "keys whose final state differs"),
                    counts,
                ),
                Grid(
                    ("where", "operator", "state", "key", "window", "recorded", "replayed"),
                    rows,
                    len(self.mutations) + len(self.state),
                    name="Differences",
                ),
            ],
            "\n".join([*([self.failure] if self.failure else []), *(f"note: {note}" for note in self.notes)]),
        )

    def __str__(self) -> str:
        return printable(self.text())

    def __repr__(self) -> str:
        return printable(self.text())


def replay_job(
    program: Callable[[], Any],
    start: At,
    end: At = None,
    job: str | None = None,
    leave_out: Sequence[str] = (),
) -> ReplayReport:
    """Run a program's job over a piece of its recorded history, and compare.

    The state of checkpoint ``start`` is restored, the program's code as it is now reads what the recorded run read from
    there to checkpoint ``end``, and its mutations and final state are compared with the log. It runs in this process,
    without Spark; the job's folder is only read, and nothing goes to its sinks.

    The program may have another parallelism by now: the recorded one is used. Where it changed within the range, each piece
    is replayed with its own, and begins with the recorded state. The wall clock stands at the time of each recorded
    checkpoint, so what comes from processing time may differ.

    Args:
        program: builds the job and executes it; ``execute()`` does not return from it.
        start: a checkpoint's id, or a text such as ``-2`` or ``12:00:05``; None or 0 for the empty state.
        end: a later checkpoint of the same branch, likewise; None, the default, for the newest.
        job: the job's name, in a program that executes several; None, the default, for the first.
        leave_out: states that are not compared: ``total``, ``count.total`` for that of one operator, or
            ``(processing time timers)``.

    Returns:
        The report; ``report.equal`` is True for code that is deterministic and unchanged.

    Raises:
        ConfigurationError: the program executes no such job.
        RestoreError: the replay cannot work: no such checkpoint, a state's type changed, the source's data are gone.
        CorruptChangelogError: a file of the log is damaged or was truncated.

    Example:
        >>> report = replay_job(main, start=3, end=7)  # doctest: +SKIP
        >>> assert report.equal, report.text()  # doctest: +SKIP
    """

    def replay(graph: JobGraph, settings: JobSettings) -> ReplayReport:
        return replay_graph(graph, settings, start, end, leave_out)

    return capture_job(program, replay, job, asked_by="replay_job")


def replay_graph(
    graph: JobGraph, settings: JobSettings, start: At, end: At = None, leave_out: Sequence[str] = ()
) -> ReplayReport:
    """As `replay_job`, for a job as the engine has it, whose settings say where its folder lies."""
    history = RecordedRange(recorded_folder(graph, settings, "replay"), start, end)
    report = ReplayReport(graph.name, history.start_id, history.end.id)
    pieces = list(history.pieces())
    report.notes = notes_of(graph, history.checkpoints)
    left_out = states_named(leave_out, history.end.operators)
    report.left_out = tuple(leave_out)
    if len(pieces) > 1:
        first = pieces[-1].checkpoints[0].id
        report.notes.insert(
            0,
            f"the job's parallelism changed in the range, last with checkpoint {first}: each piece is replayed with its "
            "own, from the state that was recorded, so differences of the final state are those that came since then",
        )
    recorded = history.mutations()
    try:
        for piece in pieces:
            with (
                temporary_folder("replay") as scratch,
                contextlib.closing(
                    ReplayRun(
                        graph,
                        settings,
                        history.point(piece.start),
                        piece.start,
                        piece.checkpoints[-1],
                        scratch,
                    )
                ) as run,
            ):
                _compare_mutations(run, piece, recorded, report, left_out)
                if piece is pieces[-1]:
                    _compare_state(run, history, report, left_out)
    except UserFunctionError as error:
        report.failure = str(error)
    return report


def _compare_mutations(
    run: ReplayRun,
    piece: RecordedPiece,
    recorded: dict[int, list[pa.Table]],
    report: ReplayReport,
    left_out: frozenset[StateId],
) -> None:
    for checkpoint in piece.checkpoints:
        rows = recorded.pop(checkpoint.id)
        report.checkpoints += 1
        report.recorded += sum(table.num_rows for table in rows)
        replayed = run.run(checkpoint)
        report.replayed += sum(table.num_rows for table in replayed)
        types, now = types_of(checkpoint.operators), run.types()
        report.mutations += differences(rows, replayed, types, now, checkpoint.id, left_out)


def _compare_state(
    run: ReplayRun, history: RecordedRange, report: ReplayReport, left_out: frozenset[StateId]
) -> None:
    expected = live_rows(list(read_parts(history.point(history.end), ALL_KEY_GROUPS)))
    types, declared = types_of(history.end.operators), run.types()
    # What the job no longer declares is as it was.
    now = StateTypes({**types.specs, **declared.specs}, declared.keys)
    replayed_state = list(run.live_rows())
    report.state = differences(expected.values(), replayed_state, types, now, None, left_out)
    report.keys = _count_keys([*expected.values(), *replayed_state])


def _count_keys(tables: list[pa.Table]) -> int:
    """How many keys of operators have rows; the columns may be dictionaries or not."""
    schema = pa.schema([("operator", pa.string()), ("key", SCHEMA.field("key").type)])
    rows = pa.concat_tables([schema.empty_table(), *[t.select(schema.names).cast(schema) for t in tables]])
    return int(rows.group_by(schema.names).aggregate([]).num_rows)


def notes_of(graph: JobGraph, checkpoints: list[Checkpoint]) -> list[str]:
    """Why a replay may differ though the code did not change."""
    notes, end = [], checkpoints[-1]
    if any(state.ttl_ms is not None for _, state in states_of(end.operators).values()):
        notes.append(
            "state with a time to live: the clock of a replay stands at the time of each checkpoint, so entries may expire "
            "earlier or later than recorded"
        )
    partitioned = [
        node for node in graph.nodes
        if node.kind is NodeKind.PARTITION and node.function.partitioner in _SHUFFLING
    ]  # fmt: skip
    if partitioned:
        notes.append(
            "rebalance(), rescale() and shuffle() begin their turns anew at a restore, so elements of a key may come in "
            "another order than recorded; replay from the start of an attempt to rule that out"
        )
    asking = [node.name for node in graph.nodes if node.kind is NodeKind.ASYNC]
    if asking:
        names = ", ".join([repr(each) for each in asking])
        notes.append(
            f"async functions ask again ({names}): other answers than recorded make a difference, "
            "and so does another order of them where results come unordered"
        )
    notes.append(
        "functions that read the clock, random numbers or anything outside of their input and state may differ by themselves"
    )
    return notes
