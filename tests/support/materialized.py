"""Materializations and truncations in tests: at chosen commits of a job, killed at chosen steps, checked after each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from api.common.typeinfo import Types
from changelog_engine.errors import ChangelogEngineError, RestoreError
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.local_disk import LocalDisk
from materializer import truncation
from materializer.materialize import materialize
from materializer.merge import merge_small
from materializer.merge_rows import row_changes
from materializer.retention import Retention
from materializer.truncation import truncate
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.model import pictured
from support.script import DriverKilled, Failure, Fault, Script


class Killed(BaseException):
    """Stands for SIGKILL of the materializer: nothing in the engine catches it."""


@contextlib.contextmanager
def killed_after(steps: int | None, swallow: bool = True) -> Iterator[None]:
    """Let the process die before so many changes of the disk are made (None: never); ``Killed`` is seen outside or not."""
    left = [steps]
    with contextlib.ExitStack() as stack:
        for name in ("write_durable", "put_if_absent", "delete"):
            inner = getattr(LocalDisk, name)

            def counted(storage: LocalDisk, *args: Any, inner: Any = inner, **named: Any) -> Any:
                if left[0] is not None:
                    if left[0] == 0:
                        raise Killed
                    left[0] -= 1
                return inner(storage, *args, **named)

            stack.enter_context(mock.patch.object(LocalDisk, name, counted))
        with contextlib.suppress(*([Killed] if swallow else [])):
            yield


@contextlib.contextmanager
def perhaps_killed(steps: int | None) -> Iterator[list[bool]]:
    """Die before so many changes of the disk are made (None: never); gives a list that isn't empty then."""
    died: list[bool] = []
    with killed_after(steps, swallow=False):
        try:
            yield died
        except Killed:
            died.append(True)


@contextlib.contextmanager
def merging_few(files: int = 2) -> Iterator[None]:
    """Let truncations merge so few parts, and so few files of single rows."""
    with (
        mock.patch.object(truncation, "merge_small", partial(merge_small, least=files)),
        mock.patch.object(truncation, "row_changes", partial(row_changes, least=files)),
    ):
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
        with killed_after(now.killed), merging_few():
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


ELEMENTS = rounds(5, 40)
AT_ONCE = Retention(history_ms=0, retained=1, grace_ms=0)
LATER = Retention(history_ms=0, retained=1, grace_ms=60_000)


def stopped(
    tmp_path: Path, function: Any = None, epochs: int = 4, parallelism: int = 2, **more: Any
) -> tuple[TestJob, Any, JobFolder]:
    """A job of five elements an epoch whose driver was killed after some checkpoints."""
    script = Script(sizes=(5,), failures=(Failure(epochs, Fault.HANDED_OUT),))
    job = TestJob(tmp_path, script)
    graph = keyed_job(
        more.pop("elements", ELEMENTS),
        function or Count(),
        key_type=Types.LONG(),
        parallelism=parallelism,
        **more,
    )
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    return job, graph, find_job_folder(str(tmp_path), "job")


def states(tmp_path: Path, checkpoint: int | None = None) -> Any:
    return pictured(logged_state(str(tmp_path), checkpoint=checkpoint))


def rows_read(folder: JobFolder) -> list[str]:
    """Names of the parts of the changelog that are in the table."""
    return [p for p in folder.open_changelog().files()["path"].to_pylist() if p.startswith("part-")]


def finishes(job: TestJob, graph: Any) -> None:
    job.run_driver(graph)
    assert by_key(job.output) == by_key(counted(ELEMENTS))


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
