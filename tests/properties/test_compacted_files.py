"""Files that are compacted: a reader of the folder never sees an element twice, and at the end sees all of them.

What dies: any writer between any two steps that touch the disk. What follows: a restore of the newest checkpoint or of any
older one, of a branch that was left, or an empty start; with any parallelism. A writer that was replaced may commit late.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.part_files import bucket_of, hidden, lines

from changelog_engine.connectors import Prepared, RestoredSink, SinkContext
from changelog_engine.connectors.files import (
    BasePathBuckets,
    Compaction,
    CompactStrategy,
    ConcatCompactor,
    ElementBuckets,
    FileSink,
    IdenticalCompactor,
    Rolling,
    StringEncoder,
)
from changelog_engine.connectors.files import compaction as compaction_module
from changelog_engine.connectors.files import sink as sink_module
from changelog_engine.connectors.files.stores import Store, Tag
from changelog_engine.storage.local_disk import LocalDisk


class KilledError(BaseException):
    """The process is gone."""


class Disk:
    """What all writers share: when the next one dies, and who looks after each step."""

    def __init__(self, out: Path, look: Any) -> None:
        self.out = out
        self.left: int | None = None  # steps until the process is gone
        self.look = look
        self.streams: list[Any] = []  # of the dead nobody else closes them

    def step(self) -> None:
        self.look()
        if self.left is not None:
            if self.left == 0:
                raise KilledError
            self.left -= 1


class MortalStore(Store):
    """Dies before or after any step on the disk."""

    disk: Disk

    def create(self, path: str) -> Any:
        self.disk.step()
        self.disk.streams.append(super().create(path))
        return self.disk.streams[-1]

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        self.disk.step()
        super().persist(stream, path, closing)

    def finish(self, temporary: str, final: str) -> None:
        self.disk.step()
        super().finish(temporary, final)
        self.disk.step()

    def remove(self, path: str) -> bool:
        self.disk.step()
        return super().remove(path)


class MortalObjects(MortalStore):
    """As on an object store, a file is copied to its name before it is removed, and none is ever appended to."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.appends = False

    def temporary(self, bucket: str, name: str, tag: Tag) -> str:
        return os.path.join(bucket, f".{name}.inprogress.{tag}")

    def finish(self, temporary: str, final: str) -> None:
        source, target = self._storage.join(temporary), self._storage.join(final)
        self.disk.step()
        if os.path.exists(source):
            shutil.copyfile(source, f"{target}.copy")
            os.replace(f"{target}.copy", target)
            self.disk.step()
            os.unlink(source)
        self.disk.step()

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        super().persist(stream, path, True)


@dataclass
class Checkpoint:
    id: int
    parent: int | None
    attempt: int
    kept: list[RestoredSink]
    covered: frozenset[str]


@dataclass
class Job:
    """A job in place of the engine: gives writers what it would give them."""

    sink: FileSink
    disk: Disk
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    attempt: int = 0
    written: int = 0
    base: int | None = None  # the checkpoint that the attempt stands on
    covered: frozenset[str] = frozenset()
    elements: list[str] = field(default_factory=list)  # since the last checkpoint
    writers: list[Any] = field(default_factory=list)
    waiting: list[list[Any]] = field(default_factory=list)
    durable: bool = False  # whether what waits is in a durable checkpoint
    branches: frozenset[int] = frozenset()

    def start(self, restore: int | None, parallelism: int) -> None:
        self.attempt += 1
        lineage = set()
        at = restore
        while at is not None:
            lineage.add(at)
            at = self.checkpoints[at].parent
        self.branches = frozenset(c.attempt for c in self.checkpoints.values() if c.id not in lineage)
        self.base = restore
        kept = [] if restore is None else self.checkpoints[restore].kept
        self.covered = frozenset() if restore is None else self.checkpoints[restore].covered
        self.elements, self.writers = [], []
        self.waiting, self.durable = [[] for _ in range(parallelism)], False
        for subtask in range(parallelism):
            mine = [each for each in kept if each.subtask % parallelism == subtask]
            beside = [each for each in kept if each.subtask % parallelism != subtask]
            context = SinkContext(
                "job",
                "sink",
                subtask,
                parallelism,
                "run",
                self.attempt,
                True,
                mine,
                "f",
                self.branches,
                beside,
            )
            self.writers.append(self.sink.committing_writer(context))

    def write(self, subtask: int, count: int) -> None:
        values = [f"{self.written + number}" for number in range(count)]
        self.written += count
        self.elements += values
        self.writers[subtask % len(self.writers)].write(values)

    def prepare(self, final: bool = False) -> list[RestoredSink]:
        kept = []
        self.durable = False
        for subtask, (writer, waiting) in enumerate(zip(self.writers, self.waiting, strict=True)):
            prepared = writer.prepare(final)
            waiting.extend(json.loads(json.dumps(prepared.committables)))
            state = json.loads(json.dumps(prepared.state))
            kept.append(RestoredSink(subtask, Prepared(list(waiting), state)))
        return kept

    def acknowledge(self, kept: list[RestoredSink]) -> None:
        self.covered |= set(self.elements)
        self.elements = []
        number = len(self.checkpoints) + 1
        self.checkpoints[number] = Checkpoint(number, self.base, self.attempt, kept, self.covered)
        self.base, self.durable = number, True

    def commit(self) -> None:
        for writer, waiting in zip(self.writers, self.waiting, strict=True):
            if waiting:
                writer.commit(list(waiting))
                waiting.clear()


@given(data=st.data())
@pytest.mark.parametrize("store", [MortalStore, MortalObjects])
def test_case_61_whoever_dies_whatever_is_restored(store: Any, data: st.DataObject) -> None:
    out = Path(tempfile.mkdtemp(prefix="compaction-"))
    seen: list[str] = []

    def look() -> None:
        twice = [line for line, count in lines(out).items() if count > 1]
        assert not twice, f"seen twice: {twice}, after {seen}"

    def pick(what: str, *options: Any) -> Any:
        found = data.draw(st.sampled_from(options), label=what)
        seen.append(f"{what}={found}")
        return found

    strategy = CompactStrategy(
        pick("bytes", None, 0, 9, 30), pick("checkpoints", 1, 2, 3), pick("threads", 1, 2)
    )
    sink = FileSink(
        str(out),
        StringEncoder(),
        pick("buckets", BasePathBuckets(), ElementBuckets(bucket_of)),
        Rolling(part_bytes=pick("roll", 4, 1000)),
        compaction=Compaction(strategy, pick("compactor", ConcatCompactor(), IdenticalCompactor())),
    )
    disk = Disk(out, look)
    mortal = type("Mortal", (store,), {"disk": disk})
    job = Job(sink, disk)

    def restart(newest: bool = False) -> None:
        """Start again until nobody dies of it."""
        while True:
            choices = [*sorted(job.checkpoints, reverse=True), None]
            restore = choices[0] if newest else pick("restore", choices[0], *choices)
            if not newest:
                disk.left = pick("dies after", None, None, 0, 1, 2, 3, 5)
            try:
                job.start(restore, pick("parallelism", 1, 2, 3))
                break
            except KilledError:
                disk.left = None
        disk.left = None

    def close() -> None:
        for stream in disk.streams:
            with contextlib.suppress(Exception):
                stream.close()
        shutil.rmtree(out)

    with (
        contextlib.closing(SimpleNamespace(close=close)),
        mock.patch.object(sink_module, "open_store", lambda _, path: mortal(LocalDisk(path), str)),
        mock.patch.object(compaction_module, "MAX_HELD_FILES", pick("most held", 3, 256)),
    ):
        job.start(None, pick("parallelism", 1, 2, 3))
        for _ in range(data.draw(st.integers(1, 9), label="steps")):
            step = pick(
                "step", "checkpoint", "checkpoint", "checkpoint", "failed", "restart", "torn", "zombie"
            )
            if step != "restart":
                for subtask in range(pick("writes", 0, 1, 2, 3)):
                    job.write(subtask, pick("count", 1, 2, 5))
            disk.left = pick("dies after", None, None, None, 0, 1, 2, 3, 4, 6, 9, 14)
            try:
                if step == "restart":
                    raise KilledError
                kept = job.prepare()
                if step == "failed":  # tolerated: the next checkpoint takes it along
                    disk.left = None
                    continue
                job.acknowledge(kept)
                if step == "torn":
                    disk.left = pick("torn after", 0, 1, 2, 3, 4, 5)
                job.commit()
                if step == "torn":
                    raise KilledError
                if step == "zombie":  # it is replaced before it commits, and commits then
                    job.write(0, 1)
                    job.acknowledge(job.prepare())
                    disk.left = None
                    zombies = list(zip(job.writers, job.waiting, strict=True))
                    restart(newest=True)
                    for writer, waiting in zombies:
                        writer.commit(waiting)
                        writer.close()
                disk.left = None
            except KilledError:
                disk.left = None
                for writer in job.writers:
                    if pick("closes", False, True):
                        writer.close()
                restart()
        if pick("ends", "here", "restored") == "restored":
            restart()
        job.write(0, 1)
        job.acknowledge(job.prepare(final=True))
        job.commit()
        look()
        missing = job.covered - set(lines(out))
        assert not missing, f"lost: {missing}, after {seen}"
        left = [path for path in hidden(out) if Tag.of(path.name).attempt not in job.branches]
        assert not left, f"left over: {left} after {seen}"
        for writer in job.writers:
            writer.close()
