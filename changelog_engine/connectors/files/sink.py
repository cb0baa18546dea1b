"""A sink of files, exactly once.

1. Elements are appended to files in progress, one for each bucket.
2. A barrier ends files (see Rolling), which are pending from then on, and makes all durable. The checkpoint keeps the names
   of the pending ones, names and lengths of those still in progress, and on a local disk the checksums of all.
3. When the checkpoint is durable, the pending files get their final names.
A restore finishes what the checkpoint has as pending and, cut to its length, what it has in progress, then removes what
attempts before it left: of drivers that were killed, of this run or another, with a checkpoint or without. The end of the
job looks once more, because a driver that was replaced may not know it and write on.

With compaction (see compaction.py) files end at every barrier, and pending ones may wait over several checkpoints.

Invariants:
    * A file with a final name is complete and is covered by a durable checkpoint.
    * Removed is only what an earlier attempt of the same job folder left, and neither the restored checkpoint knows nor one
      that the job did not go on from and may yet be restored. Names say whose a file is (see stores.Tag), and a writer
      removes those of the writers whose place it takes, after it has finished what it was given of them. A file that waits
      for compaction may be known to another writer than its name says: each is told what the others take over.
    * A job in another folder, a copy or a fork for one, takes nothing away.
    * What a restore shows has the bytes that were written: it reads them once more. The running job shows a file moments
      after its fsync and does not read it.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import logging
import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from changelog_engine.clock import Clock, MonotonicMs, SystemClock
from changelog_engine.config.names import writable
from changelog_engine.config.paths import absolute_path
from changelog_engine.connectors.files.buckets import Buckets, DateTimeBuckets
from changelog_engine.connectors.files.compaction import Compaction, HeldFiles, marker_lineage, paths_in
from changelog_engine.connectors.files.compactors import PendingFile
from changelog_engine.connectors.files.encoders import BulkFactory, BulkWriter, RowEncoder
from changelog_engine.connectors.files.rolling import ON_CHECKPOINT, Rolling
from changelog_engine.connectors.files.stores import Store, Tag, open_store
from changelog_engine.connectors.protocols import (
    Committable,
    CommittingSink,
    CommittingWriter,
    Prepared,
    RestoredSink,
    SinkContext,
)
from changelog_engine.errors import ConfigurationError
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.types import TypeInformation

CHECK_INTERVAL_MS = 60_000
log = logging.getLogger("changelog_engine")


@dataclass(frozen=True)
class FileNames:
    """How part files are called: ``<prefix>-<id of the writer>-<counter><suffix>``.

    Args:
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


class FileSink(CommittingSink):
    """Writes elements to files, exactly once.

    Args:
        encoder: elements one by one (RowEncoder) or in bulk (BulkFactory).
        buckets: default: by the hour of the wall clock.
        rolling: default: by size and time for row formats, every checkpoint for bulk formats, which know nothing else.
        check_interval_ms: how often the time of files is looked at.
        clock: the wall clock chooses buckets; the ages of files are measured on the monotonic one.
        compaction: makes one file of several before they are shown; files end at every checkpoint then.

    Raises:
        ConfigurationError: a rolling policy that a bulk format cannot have, or a compaction that the names or the format
            cannot have.
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
        compaction: Compaction | None = None,
    ) -> None:
        self.base_path = absolute_path(writable(base_path, "the path of a sink of files"))
        self.encoder = encoder
        self.buckets = buckets or DateTimeBuckets()
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
        self.compaction = compaction
        if compaction is not None:
            compaction.compactor.check(encoder)
            if self.names.by_subtask:
                raise ConfigurationError("files that are named by subtask cannot be compacted: use FileSink")

    def with_options(self, options: Mapping[str, str]) -> Self:
        sink = copy.copy(self)
        sink.file_systems = FileSystems(options)
        return sink

    def for_type(self, type_info: TypeInformation | None) -> Self:
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


class FileWriter(CommittingWriter):
    """Writes one subtask's files; see the module."""

    def __init__(self, sink: FileSink, store: Store, context: SinkContext) -> None:
        self._sink = sink
        self._store = store
        self._context = context
        self._rows = sink.encoder if isinstance(sink.encoder, RowEncoder) else None
        self._parts: dict[str, _Part] = {}
        self._pending: list[PendingFile] = []
        self._prepared: set[str] = set()  # hidden files of this writer that were never shown
        self._unknown: set[str] = set()  # hidden files that no checkpoint can know
        self._checksums: dict[str, int] = {}  # of hidden files that the next checkpoint is to know
        self._writer = str(context.subtask) if sink.names.by_subtask else str(uuid.uuid4())
        self._counter = 0
        self._counted: set[str] = set()  # buckets whose names were looked at
        self._row_bytes = 0.0  # of an element, on average, of those that were written last
        self._next_check_ms = sink.clock.monotonic_ms() + sink.check_interval_ms
        place = f"{context.job}/{context.folder or context.run}/{context.uid}"
        lineage = hashlib.sha256(place.encode()).hexdigest()[:12]
        self._tag = Tag(lineage, context.subtask, context.attempt)
        self._lineages = {lineage}  # of all files that may be removed
        self._held = HeldFiles(store, sink.compaction, sink.encoder, self._new_hidden, self._checksums)
        kept = [*context.restored, *(context.beside or ())]
        self._known = {os.path.normpath(path) for _, prepared in kept for path in paths_in(prepared)}
        self._restore()

    def _restore(self) -> None:
        """Finish what the checkpoint has, remove what came after it."""
        context = self._context
        self._held.shared = bool(context.branches) or any(self._is_strange(kept) for kept in context.restored)
        for kept in context.restored:
            state = kept.prepared.state
            # Versions before had none.
            self._checksums.update((state or {}).get("checksums", {}))
            self.commit(kept.prepared.committables)
            if state is None:
                continue
            others = self._is_strange(kept)
            for temporary, final, size in state["parts"]:
                tag = Tag.of(temporary)
                branch = tag is not None and tag.attempt in context.branches
                place = self._place(temporary, final, size)
                crc = self._checksums.get(temporary)
                self._store.finish_part_of(temporary, place, size, others or branch, crc)
            self._held.restore(state.get("held", {}), state["lineage"], others)
            if not others:
                self._lineages.add(state["lineage"])
        if self._sink.compaction is None:
            self._pending += self._held.release()
        waiting = {file.temporary for file in (*self._pending, *self._held.files())}
        for temporary in self._checksums.keys() - waiting:
            del self._checksums[temporary]
        self._remove_leftovers()

    def _is_strange(self, kept: RestoredSink) -> bool:
        """Whether it is another job's, or of another folder."""
        state, context = kept.prepared.state, self._context
        return state is not None and (
            state["job"] != context.job or state.get("folder", context.folder) != context.folder
        )

    def _remove_leftovers(self) -> None:
        """Remove what earlier attempts left; what is to be kept of it was finished when this one began."""
        if self._context.attempt == 1:  # looking takes time in large folders
            return
        if self._context.beside is None:  # what the others hold is not known here: the next attempt looks
            return
        markers = {marker_lineage(lineage) for lineage in self._lineages}
        found = list(self._store.in_progress(self._lineages | markers))
        # Of a compacted file the marker goes first: without the file it says that the sources were shown.
        for path, tag in sorted(found, key=lambda each: each[1].lineage not in markers):
            if self._is_over(tag) and os.path.normpath(path) not in self._known:
                self._store.remove(path)

    def _is_over(self, tag: Tag) -> bool:
        context = self._context
        if tag.attempt >= context.attempt or tag.attempt in context.branches:
            return False
        return tag.subtask is None or tag.subtask % context.parallelism == context.subtask

    def write(self, values: Sequence[Any]) -> None:
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
                self._append(bucket, self._rows, elements, now_ms)

    def _append(self, bucket: str, rows: RowEncoder, values: Sequence[Any], now_ms: MonotonicMs) -> None:
        limit, begun = self._sink.rolling.part_bytes, self._parts.get(bucket)
        room = math.inf if limit is None else limit - (0 if begun is None else begun.size)
        ends = self._row_bytes * len(values) > room  # as it seems; then a file ends after one of the elements
        pieces = rows.encode(values) if ends else [rows.joined(values)]
        if not ends and len(pieces[0]) > room:
            pieces = rows.encode(values)
        start, count = 0, len(pieces)
        left = sum(map(len, pieces))  # bytes from start on
        self._row_bytes = left / len(values)
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
            temporary, final = self._new_hidden(bucket, "")
            stream = self._store.create(temporary)
            bulk = None if isinstance(self._sink.encoder, RowEncoder) else self._sink.encoder.open(stream)
            part = self._parts[bucket] = _Part(temporary, final, stream, bulk, now_ms, now_ms)
        return part

    def _new_hidden(self, bucket: str, prefix: str) -> tuple[str, str]:
        """Where a new file lies, and where it is to appear."""
        name = prefix + self._sink.names.name(self._writer, self._counter)
        self._counter += 1
        temporary = self._store.temporary(bucket, name, self._tag)
        self._unknown.add(temporary)
        return temporary, f"{bucket}/{name}" if bucket else name

    def _end(self, bucket: str) -> None:
        """A file in progress becomes a pending one."""
        part = self._parts[bucket]
        if part.bulk is not None:
            with self._store.naming(part.temporary):
                part.bulk.finish()
        part.size = part.stream.tell()
        self._persist(part, closing=True)
        del self._parts[bucket]
        self._pending.append(PendingFile(part.temporary, part.final, part.size))

    def _persist(self, part: _Part, closing: bool) -> None:
        crc = self._store.persist(part.stream, part.temporary, closing)
        if crc is not None:
            self._checksums[part.temporary] = crc

    def end_epoch(self) -> None:
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
        rolling, compacts = self._sink.rolling, self._sink.compaction is not None
        every = final or compacts or rolling.on_checkpoint or not self._store.appends
        for bucket, part in list(self._parts.items()):
            if every or rolling.is_full(part.size):
                self._end(bucket)
        parts = []
        for part in self._parts.values():
            if part.durable != part.size:
                self._persist(part, closing=False)
                part.durable = part.size
            parts.append([part.temporary, part.final, part.size])
        context = self._context
        state: dict[str, Any] = {
            "job": context.job,
            "folder": context.folder,
            "lineage": self._tag.lineage,
            "parts": parts,
        }
        committables: list[Committable]
        if compacts:
            committables = self._held.take(self._pending, final)
            state["held"] = self._held.state()
        else:
            committables = [list(file) for file in self._pending]
        self._prepared.update(committable[0] for committable in committables)
        if self._checksums:
            state["checksums"] = dict(self._checksums)
        self._pending = []
        self._unknown.clear()
        return Prepared(committables, state)

    def commit(self, committables: Sequence[Committable]) -> None:
        for temporary, final, size, *sources in committables:
            first = temporary in self._prepared
            if not first:
                self._store.refuse_changed(temporary, size, self._checksums.get(temporary))
            if sources:
                self._held.publish(temporary, final, size, sources[0], first)
            else:
                self._store.finish(temporary, self._place(temporary, final), size, first)
            self._prepared.discard(temporary)
            for path in (temporary, *(source[0] for files in sources for source in files)):
                self._checksums.pop(path, None)

    def _place(self, temporary: str, final: str, size: int | None = None) -> str:
        """Where a file is shown: under its name, or beside a file of that name which another job made that counts alike.

        A function of the hidden file's name, so that it is shown once however often that is tried.
        """
        names = self._sink.names
        if not names.by_subtask or not self._store.is_anothers(temporary, final, size):
            return final
        mark = hashlib.sha256(temporary.encode()).hexdigest()[:8]
        place = f"{final.removesuffix(names.suffix)}-{mark}{names.suffix}"
        log.warning(
            "%s was made by another job, which writes into the same folder: the file of this one is %s. Give each job a "
            "folder or a prefix of its own",
            final, place,
        )  # fmt: skip
        return place

    def close(self) -> None:
        for part in self._parts.values():
            # What is lost here is written again.
            if part.bulk is not None:
                with contextlib.suppress(Exception):
                    part.bulk.finish()
            with contextlib.suppress(Exception):
                part.stream.close()
        for temporary in self._unknown:
            self._store.remove(temporary)
        self._parts, self._pending = {}, []
        self._unknown.clear()
