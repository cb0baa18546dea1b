"""A sink of files, exactly once.

1. Elements are appended to files in progress, one for each bucket.
2. A barrier ends files (see Rolling), which are pending from then on, and makes all durable. The checkpoint keeps the names
   of the pending ones, and names and lengths of those still in progress.
3. When the checkpoint is durable, the pending files get their final names.
A restore finishes what the checkpoint has as pending and, cut to its length, what it has in progress, then removes what
attempts before it left: of drivers that were killed, of this run or another, with a checkpoint or without. The end of the
job looks once more, because a driver that was replaced may not know it and write on.

Invariants:
    * A file with a final name is complete and is covered by a durable checkpoint.
    * Removed is only what an earlier attempt of the same job folder left, and neither the restored checkpoint knows nor one
      that the job did not go on from and may yet be restored. Names say whose a file is (see stores.Tag), and a writer
      removes those of the writers whose place it takes, after it has finished what it was given of them.
    * A job in another folder, a copy or a fork for one, takes nothing away.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from changelog_engine.clock import Clock, MonotonicMs, SystemClock
from changelog_engine.config.names import writable
from changelog_engine.connectors.files.buckets import Buckets, DateTimeBuckets
from changelog_engine.connectors.files.encoders import BulkFactory, BulkWriter, RowEncoder
from changelog_engine.connectors.files.rolling import ON_CHECKPOINT, Rolling
from changelog_engine.connectors.files.stores import Store, Tag, open_store
from changelog_engine.connectors.protocols import Committable, Prepared, SinkContext
from changelog_engine.errors import ConfigurationError
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.types import TypeInformation

CHECK_INTERVAL_MS = 60_000
_SMALL_BATCH = 4096


@dataclass(frozen=True)
class FileNames:
    """How part files are called: ``<prefix>-<id of the writer>-<counter><suffix>``.

    Args:
        prefix: how names begin.
        suffix: how they end.
        by_subtask: the writer's id is the subtask's number rather than a random one; the counter goes on after a restart.
    """

    prefix: str = "part"
    suffix: str = ""
    by_subtask: bool = False

    def __post_init__(self) -> None:
        for what, value in (("prefix", self.prefix), ("suffix", self.suffix)):
            writable(value, f"the {what} of part files")
            if "/" in value or "\0" in value:
                raise ConfigurationError(
                    f"the {what} of part files must be a part of a file's name, got {value!r}"
                )

    def name(self, writer: str, counter: int) -> str:
        """One name."""
        return f"{self.prefix}-{writer}-{counter}{self.suffix}"

    def counter_after(self, names: Sequence[str], writer: str) -> int:
        """The first counter that none of these files has."""
        pattern = re.compile(
            rf"\.?{re.escape(self.prefix)}-{re.escape(writer)}-(\d+){re.escape(self.suffix)}"
        )
        found = (pattern.match(name) for name in names)
        return max((int(match.group(1)) + 1 for match in found if match), default=0)


class FileSink:
    """Writes elements to files, exactly once.

    Args:
        base_path: folder or URI.
        encoder: elements one by one (RowEncoder) or in bulk (BulkFactory).
        buckets: default: by the hour of the wall clock.
        rolling: default: by size and time for row formats, every checkpoint for bulk formats, which know nothing else.
        names: of the files.
        check_interval_ms: how often the time of files is looked at.
        file_systems: opens the base path.
        clock: the wall clock chooses buckets; the ages of files are measured on the monotonic one.

    Raises:
        ConfigurationError: a rolling policy that a bulk format cannot have.
    """

    def __init__(
        self,
        base_path: str,
        encoder: RowEncoder | BulkFactory,
        buckets: Buckets | None = None,
        rolling: Rolling | None = None,
        names: FileNames | None = None,
        check_interval_ms: int = CHECK_INTERVAL_MS,
        file_systems: FileSystems | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.base_path = base_path
        self.encoder = encoder
        self.buckets = buckets or DateTimeBuckets()
        writable(base_path, "the path of a sink of files")
        bulk = isinstance(encoder, BulkFactory)
        self.rolling = rolling or (ON_CHECKPOINT if bulk else Rolling())
        if bulk and not self.rolling.on_checkpoint:
            raise ConfigurationError(
                "a bulk format's files end at every checkpoint: use RollingPolicy.on_checkpoint_rolling_policy()"
            )
        self.names = names or FileNames()
        self.check_interval_ms = check_interval_ms
        self.file_systems = file_systems or FileSystems()
        self.clock = clock or SystemClock()

    def with_options(self, options: Mapping[str, str]) -> FileSink:
        """This sink with the configuration's options of file systems."""
        sink = copy.copy(self)
        sink.file_systems = FileSystems(options)
        return sink

    def for_type(self, type_info: TypeInformation | None) -> FileSink:
        """This sink for elements of a type."""
        if not isinstance(self.encoder, RowEncoder):
            return self
        sink = copy.copy(self)
        sink.encoder = self.encoder.for_type(type_info)
        return sink

    def check_before_start(self) -> None:
        """Raise if it cannot work, before the job starts.

        Raises:
            ConfigurationError: the base path cannot be written to, or the format lacks a package.
        """
        if isinstance(self.encoder, BulkFactory):
            self.encoder.check()
        open_store(self.file_systems, self.base_path).check()

    def committing_writer(self, context: SinkContext) -> FileWriter:
        """A writer for one subtask."""
        return FileWriter(self, open_store(self.file_systems, self.base_path), context)


@dataclass
class _Part:
    """A file in progress."""

    temporary: str
    final: str
    stream: Any
    bulk: BulkWriter | None
    created_ms: MonotonicMs
    updated_ms: MonotonicMs
    size: int = 0
    durable: int = -1  # bytes of it
    known: bool = False  # whether a checkpoint may know it


class FileWriter:
    """Writes one subtask's files; see the module."""

    def __init__(self, sink: FileSink, store: Store, context: SinkContext) -> None:
        self._sink = sink
        self._store = store
        self._context = context
        self._rows = sink.encoder if isinstance(sink.encoder, RowEncoder) else None
        self._parts: dict[str, _Part] = {}
        self._pending: list[tuple[Committable, bool]] = []  # and whether a checkpoint may know it
        self._writer = str(context.subtask) if sink.names.by_subtask else str(uuid.uuid4())
        self._counter = 0
        self._counted: set[str] = set()  # buckets whose names were looked at
        self._next_check_ms = sink.clock.monotonic_ms() + sink.check_interval_ms
        place = f"{context.job}/{context.folder or context.run}/{context.uid}"
        lineage = hashlib.sha256(place.encode()).hexdigest()[:12]
        self._tag = Tag(lineage, context.subtask, context.attempt)
        self._lineages = {lineage}  # of all files that may be removed
        self._restore()

    def _restore(self) -> None:
        """Finish what the checkpoint has, remove what came after it."""
        context = self._context
        for _, prepared in context.restored:
            self.commit(prepared.committables)
            state = prepared.state
            if state is None:
                continue
            others = state["job"] != context.job or state.get("folder", context.folder) != context.folder
            for temporary, final, size in state["parts"]:
                tag = Tag.of(temporary)
                branch = tag is not None and tag.attempt in context.branches
                self._store.finish_part_of(temporary, final, size, keep=others or branch)
            if not others:
                self._lineages.add(state["lineage"])
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Remove what earlier attempts left; what is to be kept of it was finished when this one began."""
        if self._context.attempt > 1:  # looking takes time in large folders
            for path, tag in list(self._store.in_progress(self._lineages)):
                if self._is_over(tag):
                    self._store.remove(path)

    def _is_over(self, tag: Tag) -> bool:
        context = self._context
        if tag.attempt >= context.attempt or tag.attempt in context.branches:
            return False
        return tag.subtask is None or tag.subtask % context.parallelism == context.subtask

    def write(self, values: Sequence[Any]) -> None:
        """Append elements to the files of their buckets."""
        if not len(values):
            return
        clock = self._sink.clock
        now_ms = clock.monotonic_ms()
        for bucket, elements in self._sink.buckets.assign(values, clock.wall_ms()):
            if self._rows is None:
                part = self._part(bucket, now_ms)
                assert part.bulk is not None
                with self._store.naming(part.temporary):
                    part.bulk.write(elements)
                part.updated_ms = now_ms
            else:
                self._append(bucket, self._rows.encode(elements), now_ms)

    def _append(self, bucket: str, pieces: list[bytes], now_ms: MonotonicMs) -> None:
        limit = self._sink.rolling.part_bytes
        start, count = 0, len(pieces)
        left = sum(map(len, pieces))  # bytes from start on
        while start < count:
            part = self._parts.get(bucket)
            if part is not None and self._sink.rolling.is_full(part.size):
                self._end(bucket)
            part = self._part(bucket, now_ms)
            end = count
            if limit is not None and part.size + left > limit:
                end, size = start, part.size
                while end < count and size <= limit:
                    size += len(pieces[end])
                    end += 1
            data = b"".join(pieces[start:end])
            with self._store.naming(part.temporary):
                part.stream.write(data)
            part.size += len(data)
            part.updated_ms = now_ms
            left -= len(data)
            start = end

    def _part(self, bucket: str, now_ms: MonotonicMs) -> _Part:
        part = self._parts.get(bucket)
        if part is None:
            names = self._sink.names
            if names.by_subtask and bucket not in self._counted:
                self._counted.add(bucket)
                taken = self._store.names(bucket)
                self._counter = max(self._counter, names.counter_after(taken, self._writer))
            name = names.name(self._writer, self._counter)
            self._counter += 1
            temporary = self._store.temporary(bucket, name, self._tag)
            stream = self._store.create(temporary)
            bulk = None if isinstance(self._sink.encoder, RowEncoder) else self._sink.encoder.open(stream)
            final = f"{bucket}/{name}" if bucket else name
            part = self._parts[bucket] = _Part(temporary, final, stream, bulk, now_ms, now_ms)
        return part

    def _end(self, bucket: str) -> None:
        """A file in progress becomes a pending one."""
        part = self._parts[bucket]
        if part.bulk is not None:
            with self._store.naming(part.temporary):
                part.bulk.finish()
        part.size = part.stream.tell()
        self._store.persist(part.stream, part.temporary, closing=True)
        del self._parts[bucket]
        self._pending.append(([part.temporary, part.final, part.size], part.known))

    def end_epoch(self) -> None:
        """End the files whose time is over."""
        now_ms = self._sink.clock.monotonic_ms()
        if now_ms < self._next_check_ms:
            return
        self._next_check_ms = now_ms + self._sink.check_interval_ms
        for bucket, part in list(self._parts.items()):
            if self._sink.rolling.is_due(part.created_ms, part.updated_ms, now_ms):
                self._end(bucket)

    def prepare(self, final: bool) -> Prepared:
        """Make everything durable; see the module's step 2."""
        if final:
            self._remove_leftovers()
        rolling = self._sink.rolling
        for bucket, part in list(self._parts.items()):
            if final or rolling.on_checkpoint or not self._store.appends or rolling.is_full(part.size):
                self._end(bucket)
        parts = []
        for part in self._parts.values():
            if part.durable != part.size:
                self._store.persist(part.stream, part.temporary, closing=False)
                part.durable = part.size
            part.known = True
            parts.append([part.temporary, part.final, part.size])
        committables = [committable for committable, _ in self._pending]
        self._pending = []
        context = self._context
        state = {
            "job": context.job,
            "folder": context.folder,
            "lineage": self._tag.lineage,
            "parts": parts,
        }
        return Prepared(committables, state)

    def commit(self, committables: Sequence[Committable]) -> None:
        """Give pending files their names."""
        for temporary, final, size in committables:
            self._store.finish(temporary, final, size)

    def close(self) -> None:
        """Close all files, and remove those that no checkpoint can know."""
        for part in self._parts.values():
            # What is lost here is written again.
            if part.bulk is not None:
                with contextlib.suppress(Exception):
                    part.bulk.finish()
            with contextlib.suppress(Exception):
                part.stream.close()
            if not part.known:
                self._store.remove(part.temporary)
        for (temporary, _, _), known in self._pending:
            if not known:
                self._store.remove(temporary)
        self._parts, self._pending = {}, []
