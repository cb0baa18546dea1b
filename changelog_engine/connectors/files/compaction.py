"""Compaction: pending files wait, hidden, until there are enough of them, and appear as one.

1. The files that a barrier has ended are *held*: the checkpoint keeps their names.
2. When the strategy says so, a barrier makes one file of a bucket's held ones. It is hidden, durable, and pending itself:
   the checkpoint names it and the files it was made of, its sources. Of a single file nothing is made: it is pending.
3. When that checkpoint is durable, a marker is written, the compacted file gets its name, its sources are removed, and the
   marker goes.

Invariants:
    * What a held file has is in a finished file if and only if the held one is gone, or is the source of a marker whose
      compacted file is finished. So a job that goes back to an older checkpoint shows nothing twice that it holds, whatever
      branch has shown it, and whenever that one died.
    * Of a compacted file that is not finished no source is removed. If another branch has shown a source of it, the other
      sources are shown as they are, in its place.
    * Held files of another job's folder are never taken away: a fork holds copies.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from changelog_engine.connectors.files.compactors import Compactor, PendingFile
from changelog_engine.connectors.files.encoders import BulkFactory, RowEncoder
from changelog_engine.connectors.files.stores import Store, Tag
from changelog_engine.connectors.protocols import Committable, Prepared
from changelog_engine.errors import ConfigurationError, StorageError

log = logging.getLogger("changelog_engine")

MAX_HELD_FILES = 256
PREFIX = "compacted-"


@dataclass(frozen=True)
class CompactStrategy:
    """When files become one, and which.

    Args:
        size_threshold: compact as soon as a bucket's held files have this many bytes together; None for any size.
        checkpoints: compact at the latest when a bucket has held files over this many checkpoints; None for any number.
        threads: how many files are made at a time.

    However the conditions are, `MAX_HELD_FILES` files of a bucket are enough: every checkpoint names those that wait.

    Raises:
        ConfigurationError: neither of the conditions is given.
    """

    size_threshold: int | None = None
    checkpoints: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.size_threshold is None and self.checkpoints is None:
            raise ConfigurationError(
                "FileCompactStrategy does not say when files are compacted: call set_size_threshold(bytes), "
                "enable_compaction_on_checkpoint(checkpoints), or both"
            )


class Compaction(NamedTuple):
    """When files become one, and how."""

    strategy: CompactStrategy
    compactor: Compactor


@dataclass
class _Bucket:
    age: int = 0  # barriers since the oldest file came, if the strategy counts them
    files: list[PendingFile] = field(default_factory=list)


class HeldFiles:
    """The held files of one writer.

    Args:
        compaction: None for a sink without compaction: what is restored is only released.
        encoder: what writes the sink's files.
        new_file: bucket, prefix of the name -> a hidden path and a final one that no file has.
        checksums: of hidden files, as far as they are known; those that are made here are put there.
    """

    def __init__(
        self,
        store: Store,
        compaction: Compaction | None,
        encoder: RowEncoder | BulkFactory,
        new_file: Callable[[str, str], tuple[str, str]],
        checksums: dict[str, int],
    ) -> None:
        self._store = store
        self._compaction = compaction
        self._encoder = encoder
        self._new_file = new_file
        self._checksums = checksums
        self._buckets: dict[str, _Bucket] = {}
        self.shared = False  # whether others may have shown what the restored checkpoint holds

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it: by bucket, the age and the files."""
        return {
            bucket: [held.age, [list(file) for file in held.files]] for bucket, held in self._buckets.items()
        }

    def files(self) -> list[PendingFile]:
        """All files."""
        return [file for held in self._buckets.values() for file in held.files]

    def restore(self, state: Mapping[str, Any], lineage: str, others: bool) -> None:
        """Take over what a checkpoint holds and nobody has shown since.

        Args:
            lineage: of the writer that held them.
            others: whether they are another job's.

        Raises:
            StorageError: a held file is gone, and nobody can have shown it.
            RestoreError: one is not what was written.
        """
        if not state:
            return
        shown = self._shown_sources(lineage) if self.shared else frozenset[str]()
        for bucket, (age, files) in state.items():
            held = _Bucket(age)
            for entry in files:
                file = PendingFile(*entry)
                if self.shared and (file.temporary in shown or self._is_shown_alone(bucket, file)):
                    if not others:
                        self._store.remove(file.temporary)
                elif others:
                    temporary, final = self._new_file(bucket, "")
                    crc = self._checksums.get(file.temporary)
                    if self._store.duplicate(file.temporary, temporary, crc):
                        held.files.append(PendingFile(temporary, final, file.size))
                        if crc is not None:
                            self._checksums[temporary] = crc
                    else:
                        _warn_gone(file)
                elif self._store.exists(file.temporary):
                    self._refuse_changed(file)
                    held.files.append(file)
                elif self.shared:
                    _warn_gone(file)
                else:
                    raise StorageError(
                        f"the hidden file {file.temporary} is gone, which the checkpoint holds for compaction: put it back, "
                        "or restore another checkpoint"
                    )
            if held.files:
                known = self._buckets.setdefault(bucket, held)
                if known is not held:
                    known.files += held.files
                    known.age = max(known.age, held.age)

    def release(self) -> list[PendingFile]:
        """Let go of all files, to be shown as they are."""
        files = self.files()
        self._buckets = {}
        return files

    def _refuse_changed(self, file: PendingFile) -> None:
        self._store.refuse_changed(file.temporary, file.size, self._checksums.get(file.temporary))

    def _shown_sources(self, lineage: str) -> frozenset[str]:
        """Sources of compacted files that are finished, whose removal somebody did not get to."""
        found: set[str] = set()
        for path, _ in self._store.in_progress({marker_lineage(lineage)}):
            try:
                with self._store.open(path) as stream:
                    marker = json.loads(stream.read())
            except StorageError:
                if self._store.exists(path):
                    raise
                continue  # gone meanwhile
            except ValueError:  # torn: then nothing was finished after it
                continue
            if self._store.exists(marker["final"]) or not self._store.exists(marker["temporary"]):
                found.update(marker["sources"])
        return frozenset(found)

    def _is_shown_alone(self, bucket: str, file: PendingFile) -> bool:
        # A copy on an object store is finished before the hidden object is deleted.
        return self._store.exists(_alone(bucket, file)) or self._store.exists(file.final)

    def take(self, ended: Sequence[PendingFile], final: bool) -> list[Committable]:
        """A barrier: hold the files that it has ended, and compact what is due; returns what is to be committed.

        Args:
            final: the job ends: everything is due.

        Raises:
            StorageError: files cannot be read or written.
        """
        assert self._compaction is not None
        for file in ended:
            self._buckets.setdefault(posixpath.dirname(file.final), _Bucket()).files.append(file)
        due = []
        for bucket, held in list(self._buckets.items()):
            due += [(bucket, group) for group in self._due(held, final)]
            if not held.files:
                del self._buckets[bucket]
        return self._compacted(due)

    def _due(self, held: _Bucket, final: bool) -> list[list[PendingFile]]:
        """The files of a bucket that become one each, in the order in which they ended."""
        compaction = self._compaction
        assert compaction is not None
        threshold, checkpoints = compaction.strategy.size_threshold, compaction.strategy.checkpoints
        if checkpoints is not None:
            held.age += 1
        groups: list[list[PendingFile]] = []
        group: list[PendingFile] = []
        size = 0
        for file in held.files:
            group.append(file)
            size += file.size
            if (threshold is not None and size >= threshold) or len(group) >= MAX_HELD_FILES:
                groups.append(group)
                group, size = [], 0
        if groups:  # the rest begins to wait at this barrier
            held.age = min(held.age, 1)
        if group and (final or (checkpoints is not None and held.age >= checkpoints)):
            groups.append(group)
            group = []
        held.files = group
        return groups if compaction.compactor.merges else [[file] for group in groups for file in group]

    def _compacted(self, due: list[tuple[str, list[PendingFile]]]) -> list[Committable]:
        assert self._compaction is not None
        found: list[Committable] = []
        several: list[tuple[list[PendingFile], str, str]] = []
        for bucket, files in due:
            if self.shared and len(files) > 1:
                files = self._still_there(files)
            if len(files) == 1:
                (file,) = files
                found.append([file.temporary, _alone(bucket, file), file.size])
            elif files:
                several.append((files, *self._new_file(bucket, PREFIX)))
        threads = self._compaction.strategy.threads
        if threads == 1 or len(several) < 2:
            return found + [self._made(*each) for each in several]
        with ThreadPoolExecutor(threads, "compaction") as pool:
            made = [pool.submit(self._made, *each) for each in several]
            return found + [each.result() for each in made]

    def _still_there(self, files: list[PendingFile]) -> list[PendingFile]:
        there = []
        for file in files:
            if self._store.exists(file.temporary):
                there.append(file)
            else:
                _warn_gone(file)
        return there

    def _made(self, files: list[PendingFile], temporary: str, final: str) -> Committable:
        """Make one file of several."""
        assert self._compaction is not None
        for file in files:  # what they have lives on in the compacted one alone
            self._refuse_changed(file)
        stream = self._store.create(temporary)
        try:
            with self._store.naming(temporary):
                self._compaction.compactor.merge(self._store, files, stream, self._encoder)
                size = stream.tell()
            crc = self._store.persist(stream, temporary, closing=True)
        except BaseException as error:
            with contextlib.suppress(Exception):
                stream.close()
            if isinstance(error, pa.ArrowException):
                raise StorageError(f"cannot compact {len(files)} files into {final}: {error}") from error
            raise
        if crc is not None:
            self._checksums[temporary] = crc
        return [temporary, final, size, [list(file) for file in files]]

    def publish(
        self, temporary: str, final: str, size: int, sources: Sequence[Sequence[Any]], first: bool
    ) -> None:
        """Show a compacted file in place of its sources; changes nothing if that is done.

        Args:
            size: its bytes.
            sources: as `take` gave them.
            first: nobody has done so before.

        Raises:
            RestoreError: it has another size; or it is gone, and was never shown. Or one of its sources, in its place, is
                not what was written.
        """
        store, files = self._store, [PendingFile(*source) for source in sources]
        tag = Tag.of(temporary)
        assert tag is not None
        bucket, name = posixpath.split(final)
        marker = store.temporary(bucket, name, tag._replace(lineage=marker_lineage(tag.lineage)))
        hidden = store.exists(temporary)
        if hidden and self.shared:
            there = [file for file in files if store.exists(file.temporary)]
            # Whoever finishes this file removes its sources only then.
            if len(there) < len(files) and store.exists(temporary) and not store.exists(final):
                log.warning(
                    "the files of %s are shown as they are: another branch of the job has shown some of them",
                    final,
                )
                for file in there:
                    self._refuse_changed(file)
                    store.finish(file.temporary, file.final, file.size)
                store.remove(marker)
                store.remove(temporary)
                return
        if hidden:
            self._write_marker(marker, temporary, final, files)
        elif not store.exists(marker):
            # It goes after the sources: with one of them there, nobody has shown the file.
            first = first or any(store.exists(file.temporary) for file in files)
        store.finish(temporary, final, size, first)
        left = [file for file in files if not store.remove(file.temporary)]
        if not left:
            store.remove(marker)

    def _write_marker(self, marker: str, temporary: str, final: str, files: Sequence[PendingFile]) -> None:
        text = {"temporary": temporary, "final": final, "sources": [file.temporary for file in files]}
        self._store.remove(marker)  # of a commit that was torn
        try:
            stream = self._store.create(marker)
            with self._store.naming(marker):
                stream.write(json.dumps(text).encode())
            self._store.persist(stream, marker, closing=True)
        except StorageError as error:
            # A driver that was replaced may be about to show the same file. Of the marker that was there a moment ago
            # a third may have taken itself for the one to write it again, so that it need not be there now.
            written = isinstance(error.__cause__, FileExistsError) or self._store.exists(marker)
            if self._store.exists(temporary) and not written:
                raise


def marker_lineage(lineage: str) -> str:
    """What stands in the tags of the markers of a lineage's writers."""
    return hashlib.sha256(f"markers of {lineage}".encode()).hexdigest()[:12]


def paths_in(prepared: Prepared) -> Iterator[str]:
    """The hidden files that a checkpoint names: those it holds, those that are pending, and what these were made of."""
    for temporary, _, _, *sources in prepared.committables:
        yield temporary
        for files in sources:
            yield from (file[0] for file in files)
    for _, files in (prepared.state or {}).get("held", {}).values():
        yield from (file[0] for file in files)


def _alone(bucket: str, file: PendingFile) -> str:
    """The name of a file that is compacted alone: the same on all branches, of which one can have shown it."""
    return posixpath.join(bucket, PREFIX + posixpath.basename(file.final))


def _warn_gone(file: PendingFile) -> None:
    log.warning(
        "the hidden file %s, which a checkpoint holds for compaction, is gone: another branch of the job has shown it, as "
        "part of a compacted file, or somebody has deleted it",
        file.temporary,
    )
