"""Whose state a subtask keeps, and how it is logged."""

from __future__ import annotations

from dataclasses import dataclass

from changelog_engine.types import TypeInformation


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """What a subtask's store is told when it is made.

    Args:
        folder: the table's folder where parts go; None when nothing is logged (checkpointing is off).
        changelog: log mutations (True), or write full snapshots (False).
        key_groups: the range this subtask owns.
        part_max_bytes: a part of the log that grows past it is closed ahead of the checkpoint; parts of full snapshots are
            eight times as large.
        operators: uids of the stage's operators; rows of others are not read.
        packs: parts are written together with those of other subtasks of the machine.
        local_recovery: the state may be left to the next attempt of this process.
        max_state_bytes: bound of one state in a full snapshot; None for none.
    """

    folder: str | None
    changelog: bool
    stage: int
    subtask: int
    key_groups: range
    key_type: TypeInformation | None
    timed: bool
    max_parallelism: int
    part_max_bytes: int
    operators: frozenset[str]
    max_state_bytes: int | None = None
    local_recovery: bool = False
    packs: bool = False

    @property
    def logs(self) -> bool:
        """Whether mutations are logged."""
        return self.changelog and self.folder is not None
