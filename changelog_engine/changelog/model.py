"""The words of checkpointing as data: parts, checkpoints, lineage.

Invariants:
    * Checkpoint ids grow by one from commit to commit, over all attempts of a job: no id is ever used twice.
    * A lineage is the chain of ancestors of one checkpoint, as runs of ids: (attempt, first, last). State at a checkpoint
      is the fold of the rows of its lineage, never of all rows up to it.
    * A row says in which format it was written; of one that this engine reads, fields that it does not know are left out.
    * A part belongs to one attempt, one stage and one subtask; its sequence numbers are contiguous, and follow on those
      of the previous part of the same three.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from changelog_engine.changelog.figures import CorrectionNote, Figures
from changelog_engine.changelog.small_state import KeptBroadcast, SmallState, StageState
from changelog_engine.changelog.split_ends import SplitEnds, split_ends
from changelog_engine.display import Displayed, Document, Grid, text_of
from changelog_engine.errors import FormatVersionError
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.readable import counted, iso

FORMAT_VERSION = 1


def check_format(written: object, where: str) -> None:
    """Refuse what a newer engine wrote.

    Args:
        written: the number of the format, or its digits.
        where: what was written in it, for the message.

    Raises:
        FormatVersionError: it is not a format that this engine reads.
    """
    digits = str(written)
    if (
        isinstance(written, bool)
        or not (digits.isascii() and digits.isdecimal())
        or int(digits) > FORMAT_VERSION
    ):
        raise FormatVersionError(
            f"{where} has changelog format {written}, this engine reads up to {FORMAT_VERSION}: use the newer engine that "
            "wrote it, or another base path"
        )


def _fields_of(row: type[Checkpoint] | type[Attempt], text: str) -> dict[str, Any]:
    """The fields of a row's JSON document that this engine knows."""
    document = json.loads(text)
    check_format(document["format"], f"the row of {row.__name__.lower()} {document.get('id')}")
    known = {each.name for each in fields(row)}
    return {name: value for name, value in document.items() if name in known}


class Part(NamedTuple):
    """A durable file of mutations that nothing refers to until a checkpoint commits it.

    The file's name carries the crc32 of its bytes: ``part-<checkpoint>-<attempt>-<stage>-<subtask>-<n>-<crc>.parquet``.
    Or it is in a pack with others, and path is the pack's.
    """

    path: str  # relative to the table
    size: int  # bytes
    rows: int
    checkpoint_id: int
    attempt: int
    stage: int
    subtask: int
    first_sequence: int
    first_key_group: int
    last_key_group: int  # inclusive
    pack_size: int = 0  # bytes of the pack that has it; 0: it is a file of its own


class CheckpointMark(NamedTuple):
    """A checkpoint and the attempt that made it; of attempts that did not end well several may have used one number."""

    checkpoint: int
    attempt: int


class Segment(NamedTuple):
    """A run of checkpoints of one attempt on a lineage, both ends inclusive."""

    attempt: int
    first: int
    last: int


@dataclass(frozen=True)
class Checkpoint(Displayed):
    """The row that makes parts, positions and watermarks durable together.

    Args:
        parent: the checkpoint before it on its lineage, or None.
        lineage: its ancestors and itself, oldest first.
        time_ms: when its barrier was reached, epoch milliseconds; never below its parent's.
        clock_ms: what the wall clock said then, where that was below ``time_ms``: it had been set back.
        duration_ms: barrier to the writing of this row, which the commit follows.
        parent_acknowledged_ms: barrier to the end of the commit of its parent, None if another attempt made that.
        restored_ms: the longest time in which a subtask of this attempt took its state from the restore point.
        snapshot: id of the checkpoint whose full snapshot restore starts from, or None for the log alone.
        sources: how far each was read, by uid.
        operator_state: small state of each stage, by uid.
        finished: True when the job's input ended with this checkpoint.
        stopped: True when the user stopped or cancelled the job after it.
        figures: what the job did since its parent. Empty in rows of older engines.
    """

    id: int
    attempt: int
    parent: int | None
    lineage: tuple[Segment, ...]
    time_ms: int
    duration_ms: int = 0
    parent_acknowledged_ms: float | None = None
    restored_ms: float | None = None
    rows: int = 0
    bytes: int = 0
    parts: int = 0
    snapshot: int | None = None
    sources: dict[str, SplitEnds] = field(default_factory=dict)
    operator_state: dict[str, StageState] = field(default_factory=dict)
    operators: list[DescribedOperator] = field(default_factory=list)
    finished: bool = False
    stopped: bool = False
    figures: Figures = field(default_factory=Figures)
    clock_ms: int | None = None

    @property
    def wall_clock_ms(self) -> int:
        """What the wall clock said at its barrier: by it time to live has ended, and timers of processing time fire."""
        return self.time_ms if self.clock_ms is None else self.clock_ms

    @property
    def ends(self) -> bool:
        """Whether it is its attempt's last: the input had ended, or the job was stopped."""
        return self.finished or self.stopped

    def small_states(self) -> Iterator[tuple[str, int, SmallState]]:
        """Stage uid, subtask and small state of each subtask, without what all have alike."""
        for uid, stage in self.operator_state.items():
            for subtask, state in stage.subtasks.items():
                yield uid, subtask, state

    def small_state(self, stage: str, subtask: int) -> SmallState:
        """The small state of one subtask; empty where it has none."""
        return self.operator_state.get(stage, StageState()).subtasks.get(subtask, SmallState())

    def shared_state(self, stage: str) -> Mapping[str, KeptBroadcast]:
        """What all subtasks of a stage have alike: uid -> broadcast state."""
        return self.operator_state.get(stage, StageState()).shared

    @property
    def rows_are(self) -> str:
        """What it committed rows of: "mutations", or "entries of state" where it is a full snapshot."""
        return "entries of state" if self.rows and self.snapshot == self.id else "mutations"

    @property
    def rows_in_words(self) -> str:
        """How many rows it committed, and of what."""
        return f"{self.rows:,} {self.rows_are}"

    def display(self) -> Document:
        """What is shown of it; ``repr`` has all fields."""
        after = "the first" if self.parent is None else f"after checkpoint {self.parent}"
        marks = [mark for mark, is_so in (("finished", self.finished), ("stopped", self.stopped)) if is_so]
        facts = [
            f"{iso(self.time_ms)} UTC, {self.duration_ms:,} ms, {self.rows_in_words}, {self.bytes:,} bytes in "
            f"{counted(self.parts, 'part')}"
        ]
        operators = [
            (
                each.uid,
                each.name,
                each.kind,
                each.parallelism,
                ", ".join([state.name for state in each.states]),
            )
            for each in self.operators
        ]
        return Document(
            ", ".join([f"checkpoint {self.id}", f"attempt {self.attempt}", after, *marks]),
            facts,
            [Grid(("operator", "name", "kind", "parallelism", "states"), operators)],
        )

    def __str__(self) -> str:
        return text_of(self.display())

    @property
    def mark(self) -> CheckpointMark:
        """It and its attempt."""
        return CheckpointMark(self.id, self.attempt)

    def of_parts(self, parts: Sequence[Part]) -> Checkpoint:
        """It with the figures of its parts."""
        rows, size = sum(part.rows for part in parts), sum(part.size for part in parts)
        return replace(self, rows=rows, bytes=size, parts=len(parts))

    @property
    def correction(self) -> CorrectionNote | None:
        """Who made the mutations of this checkpoint, and why, where a person did."""
        return self.figures.get("correction")

    def to_json(self) -> str:
        """The row's JSON document."""
        small = {uid: stage.to_json() for uid, stage in self.operator_state.items()}
        operators = [each.to_json() for each in self.operators]
        document = {"format": FORMAT_VERSION, **vars(self), "operator_state": small, "operators": operators}
        if self.clock_ms is None:
            del document["clock_ms"]
        return json.dumps(document, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Checkpoint:
        """Read a row's JSON document back.

        Raises:
            FormatVersionError: a newer engine wrote it.
            CorruptChangelogError: what it says of an operator is damaged.
        """
        document = _fields_of(Checkpoint, text)
        document["lineage"] = tuple(Segment(*segment) for segment in document["lineage"])
        document["sources"] = {uid: split_ends(splits) for uid, splits in document.get("sources", {}).items()}
        small = document.get("operator_state", {})
        document["operator_state"] = {uid: StageState.from_json(stage) for uid, stage in small.items()}
        document["operators"] = [DescribedOperator.from_json(each) for each in document.get("operators", ())]
        return Checkpoint(**document)


@dataclass(frozen=True)
class Attempt:
    """The row with which a driver takes the job over; newer attempts fence older ones."""

    id: int  # one more than the newest attempt of the job
    parent: int | None  # the checkpoint it starts from, or None for empty
    owner: str  # unique to this driver process and run
    host: str
    pid: int
    time_ms: int
    engine: str

    def to_json(self) -> str:
        """The row's JSON document."""
        return json.dumps({"format": FORMAT_VERSION, **vars(self)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Attempt:
        """Read a row's JSON document back.

        Raises:
            FormatVersionError: a newer engine wrote it.
        """
        return Attempt(**_fields_of(Attempt, text))


class RestorePoint(NamedTuple):
    """Where a worker finds the state of a checkpoint."""

    table: str  # the changelog table's folder or URI
    checkpoint: int | None  # the checkpoint, None for empty state
    lineage: tuple[Segment, ...]
    snapshot: int | None  # see Checkpoint.snapshot
