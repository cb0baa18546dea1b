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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
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

    def persist(self, stream: Any, path: str, closing: bool) -> int | None:
        self.disk.step()
        return super().persist(stream, path, closing)

    def finish(self, temporary: str, final: str, size: int, first: bool = False) -> None:
        self.disk.step()
        super().finish(temporary, final, size, first)
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

    def finish(self, temporary: str, final: str, size: int, first: bool = False) -> None:
        source, target = self._storage.join(temporary), self._storage.join(final)
        self.disk.step()
        if os.path.exists(source):
            assert os.path.getsize(source) == size
            shutil.copyfile(source, f"{target}.copy")
            os.replace(f"{target}.copy", target)
            self.disk.step()
            os.unlink(source)
        self.disk.step()

    def persist(self, stream: Any, path: str, closing: bool) -> int | None:
        return super().persist(stream, path, True)


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


class Chaos:
    """What happens to a job, drawn step by step; a failure's message tells all of it."""

    def __init__(self, store: Any, data: st.DataObject) -> None:
        self.out = Path(tempfile.mkdtemp(prefix="compaction-"))
        self.data = data
        self.seen: list[str] = []
        pick = self.pick
        strategy = CompactStrategy(
            pick("bytes", None, 0, 9, 30), pick("checkpoints", 1, 2, 3), pick("threads", 1, 2)
        )
        sink = FileSink(
            str(self.out),
            StringEncoder(),
            pick("buckets", BasePathBuckets(), ElementBuckets(bucket_of)),
            Rolling(part_bytes=pick("roll", 4, 1000)),
            compaction=Compaction(strategy, pick("compactor", ConcatCompactor(), IdenticalCompactor())),
        )
        self.disk = Disk(self.out, self.check_nothing_is_seen_twice)
        self.store = type("Mortal", (store,), {"disk": self.disk})
        self.job = Job(sink, self.disk)

    def pick(self, what: str, *options: Any) -> Any:
        found = self.data.draw(st.sampled_from(options), label=what)
        self.seen.append(f"{what}={found}")
        return found

    @contextlib.contextmanager
    def on_this_disk(self) -> Iterator[None]:
        opened = mock.patch.object(
            sink_module, "open_store", lambda _, path: self.store(LocalDisk(path), str, str)
        )
        most = mock.patch.object(compaction_module, "MAX_HELD_FILES", self.pick("most held", 3, 256))
        try:
            with opened, most:
                yield
        finally:
            for stream in self.disk.streams:
                with contextlib.suppress(Exception):
                    stream.close()
            shutil.rmtree(self.out)

    def start(self, restore: int | None = None) -> None:
        self.job.start(restore, self.pick("parallelism", 1, 2, 3))

    def restart(self, newest: bool = False) -> None:
        """Start again until nobody dies of it."""
        while True:
            choices = [*sorted(self.job.checkpoints, reverse=True), None]
            restore = choices[0] if newest else self.pick("restore", choices[0], *choices)
            if not newest:
                self.disk.left = self.pick("dies after", None, None, 0, 1, 2, 3, 5)
            with contextlib.suppress(KilledError):
                self.start(restore)
                break
            self.disk.left = None
        self.disk.left = None

    def step(self) -> None:
        """An epoch, in which writers may die anywhere."""
        step = self.pick(
            "step", "checkpoint", "checkpoint", "checkpoint", "failed", "restart", "torn", "zombie"
        )
        if step != "restart":
            for subtask in range(self.pick("writes", 0, 1, 2, 3)):
                self.job.write(subtask, self.pick("count", 1, 2, 5))
        self.disk.left = self.pick("dies after", None, None, None, 0, 1, 2, 3, 4, 6, 9, 14)
        try:
            if step == "restart":
                raise KilledError
            self.checkpoint(step)
            self.disk.left = None
        except KilledError:
            self.disk.left = None
            for writer in self.job.writers:
                if self.pick("closes", False, True):
                    writer.close()
            self.restart()

    def checkpoint(self, step: str) -> None:
        kept = self.job.prepare()
        if step == "failed":  # tolerated: the next checkpoint takes it along
            return
        self.job.acknowledge(kept)
        if step == "torn":
            self.disk.left = self.pick("torn after", 0, 1, 2, 3, 4, 5)
        self.job.commit()
        if step == "torn":
            raise KilledError
        if step == "zombie":
            self.commit_after_being_replaced()

    def commit_after_being_replaced(self) -> None:
        self.job.write(0, 1)
        self.job.acknowledge(self.job.prepare())
        self.disk.left = None
        zombies = list(zip(self.job.writers, self.job.waiting, strict=True))
        self.restart(newest=True)
        for writer, waiting in zombies:
            writer.commit(waiting)
            writer.close()

    def end(self) -> None:
        if self.pick("ends", "here", "restored") == "restored":
            self.restart()
        self.job.write(0, 1)
        self.job.acknowledge(self.job.prepare(final=True))
        self.job.commit()

    def check_nothing_is_seen_twice(self) -> None:
        twice = [line for line, count in lines(self.out).items() if count > 1]
        assert not twice, f"seen twice: {twice}, after {self.seen}"

    def check_all_is_there(self) -> None:
        missing = self.job.covered - set(lines(self.out))
        assert not missing, f"lost: {missing}, after {self.seen}"
        left = [path for path in hidden(self.out) if Tag.of(path.name).attempt not in self.job.branches]
        assert not left, f"left over: {left} after {self.seen}"


@given(data=st.data())
@pytest.mark.parametrize("store", [MortalStore, MortalObjects])
def test_case_61_whoever_dies_whatever_is_restored(store: Any, data: st.DataObject) -> None:
    chaos = Chaos(store, data)
    with chaos.on_this_disk():
        chaos.start()
        for _ in range(data.draw(st.integers(1, 9), label="steps")):
            chaos.step()
        chaos.end()
        chaos.check_nothing_is_seen_twice()
        chaos.check_all_is_there()
        for writer in chaos.job.writers:
            writer.close()
