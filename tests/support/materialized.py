"""Materializations and truncations in tests: at chosen commits of a job, killed at chosen steps, checked after each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from changelog_engine.checkpoint.job_folder import JobFolder, find_job_folder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.errors import ChangelogEngineError, RestoreError
from changelog_engine.storage.filesystem import Storage
from materializer import merge
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.model import pictured
from support.script import Script


class Killed(BaseException):
    """Stands for SIGKILL of the materializer: nothing in the engine catches it."""


@contextlib.contextmanager
def killed_after(steps: int | None) -> Iterator[None]:
    """Let the process die before so many changes of the disk are made (None: never)."""
    left = [steps]
    with contextlib.ExitStack() as stack:
        for name in ("write_durable", "put_if_absent", "delete"):
            inner = getattr(Storage, name)

            def counted(storage: Storage, *args: Any, inner: Any = inner) -> Any:
                if left[0] is not None:
                    if left[0] == 0:
                        raise Killed
                    left[0] -= 1
                return inner(storage, *args)

            stack.enter_context(mock.patch.object(Storage, name, counted))
        with contextlib.suppress(Killed):
            yield


@dataclass(frozen=True)
class Upkeep:
    """What happens after a commit.

    Args:
        materializes, truncates: whether.
        killed: after how many changes of the disk the materializer dies; None: it lives.
        retention: what stays.
        later_ms: by how much the clock of the truncation is ahead.
    """

    materializes: bool
    truncates: bool
    killed: int | None
    retention: Retention
    later_ms: int


class MaintainedJob(TestJob):
    """A job with upkeep after its commits; after each, every checkpoint that is there gives what was held at it."""

    def __init__(
        self,
        base: str,
        script: Script,
        live: LiveStates,
        upkeep: list[Upkeep],
        piece_bytes: int,
        always_logged: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(base, script, **settings)
        self.live = live
        self.upkeep = upkeep
        self.piece_bytes = piece_bytes
        self.always_logged = always_logged

    def on_commit(self, checkpoint: Any) -> None:
        """See TestJob."""
        try:
            self._maintain(checkpoint)
        except ChangelogEngineError as error:  # the job would take it for a failure of its own
            raise AssertionError(f"after checkpoint {checkpoint.id}") from error

    def _maintain(self, checkpoint: Any) -> None:
        folder = find_job_folder(self.settings.base_path, "job")
        now = self.upkeep[checkpoint.id % len(self.upkeep)]
        with killed_after(now.killed), mock.patch.object(merge.merge_small, "__defaults__", (2,)):
            if now.materializes:
                materialize(folder, piece_bytes=self.piece_bytes)
            if now.truncates:
                truncate(folder, now.retention, lambda: (checkpoint.time_ms + now.later_ms) / 1000)
        self.check(folder, checkpoint.id)

    def check(self, folder: JobFolder, newest: int) -> None:
        """Compare all that can be restored with what was held."""
        there = Lineage(folder.open_changelog()).checkpoints
        assert newest in there
        for identity, entry in there.items():
            try:
                found = logged_state(self.settings.base_path, checkpoint=identity)
            except RestoreError:
                if self.always_logged or identity == newest:
                    raise
                continue  # without changelog, full snapshots are retired
            assert pictured(found) == pictured(self.live.of(entry.attempt, identity)), identity
