"""Forks that were begun and not finished: a process that is killed meanwhile leaves them, and the next fork takes them away.

On a local disk a fork is made in a hidden folder beside its place, on object stores at its place. A note names the process:
beside the hidden folder, or in the folder at its place. It comes before the folder, and goes when the fork is there.

Invariants:
    * Nothing is removed that may still be finished, nor anything that has a commit of a job's.
    * On object stores, of any number of processes one has the place: the one whose note got there, when nothing else was.
    * There, what a fork left is taken away by one process, which says so first in a claim beside the folder: another one
      that found the same note before would take away what the next fork has made by then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from changelog_engine.clock import wall_s
from changelog_engine.errors import ChangelogEngineError, StorageError
from changelog_engine.ledger.job_folder import UNFINISHED_FORK, is_unfinished_fork
from changelog_engine.ledger.job_path import folders_in
from changelog_engine.ledger.process_notes import has_ended, process_note, who_noted
from changelog_engine.savepoints.folder import taken
from changelog_engine.storage.protocol import TEMPORARY_PREFIX, Storage

log = logging.getLogger("changelog_engine")

_HIDDEN, _NOTE = f"{TEMPORARY_PREFIX}fork-", ".json"


class UnfinishedFork(NamedTuple):
    """A fork that was not finished."""

    folder: Storage
    note: Mapping[str, object]  # of the process that made it
    ended: bool  # whether that process has ended, so that nobody will finish it

    @property
    def who(self) -> str:
        """The process that made it, for people."""
        return who_noted(self.note)


def begin_fork(base: Storage, slug: str, clock: Callable[[], float]) -> Storage:
    """The folder in which a fork is made.

    Raises:
        StorageError: somebody else was faster there, or it can't be written.
    """
    own = uuid.uuid4().hex
    folder = base.child(f"{_HIDDEN}{own}" if base.local is not None else slug)
    place, note = _note_of(base, folder), _note(clock, own)
    if base.local is not None:
        base.write_durable(place, note)
        folder.make_dirs()
        return folder
    if not base.put_if_absent(place, note):
        raise taken(folder, "fork")
    if any(
        entry.name != UNFINISHED_FORK for entry in folder.list()
    ):  # it was found free, and is not any more
        leave_fork(base, folder)
        raise taken(folder, "fork")
    return folder


def finish_fork(base: Storage, folder: Storage, slug: str) -> None:
    """A fork has all that it needs, its commit too: give it its name.

    Raises:
        StorageError: somebody else has made a folder of that name, or taken away what was made, or it can't be written.
    """
    if base.local is not None and not base.move(_name_of(folder), slug):
        raise StorageError(
            f"{folder.root}, in which the fork was made, is gone: somebody removed it, so the fork was not made",
            folder.root,
        )
    leave_fork(base, folder)


def leave_fork(base: Storage, folder: Storage) -> None:
    """Say that nothing more is made there. A note that stays is harmless where there is a commit, which counts."""
    with contextlib.suppress(StorageError):
        base.delete(_note_of(base, folder))


def give_up_fork(base: Storage, folder: Storage) -> None:
    """Take away what was made of a fork that failed, as far as that works."""
    with contextlib.suppress(ChangelogEngineError):
        _delete(base, folder)


def make_room(base: Storage, slug: str, clock: Callable[[], float] = wall_s) -> None:
    """Take away what forks have left that were not finished: hidden ones, and one at the place of the next.

    Raises:
        StorageError: another process is making a fork at that place, or may be.
    """
    if base.local is None:
        for found in _at(base, [slug], clock):
            if not found.ended:
                raise _being_made(found.folder, found.note)
            _claim_and_remove(base, found, clock)
        return
    for found in _hidden(base, clock):
        if found.ended:
            _remove(base, found)


def _delete(base: Storage, folder: Storage) -> None:
    """Delete an unfinished fork, and its note last.

    On an object store nobody begins at the place before the note is gone, and who begins then has a note of that name.
    """
    if base.local is not None:
        folder.delete_tree()
        base.delete(_note_of(base, folder))
        return
    for entry in folder.list():
        if entry.is_folder:
            folder.delete_tree(entry.name)
        elif entry.name != UNFINISHED_FORK:
            folder.delete(entry.name)
    folder.delete_tree()


def _remove(base: Storage, found: UnfinishedFork) -> None:
    """Take away a fork that nobody finishes."""
    try:
        _delete(base, found.folder)
    except StorageError as failure:
        log.warning("what an unfinished fork by %s left cannot be removed: %s", found.who, failure)
    else:
        log.info("removed %s, a fork by %s that was not finished", found.folder.root, found.who)


def _claim_and_remove(base: Storage, found: UnfinishedFork, clock: Callable[[], float]) -> None:
    """Take away a fork on an object store that nobody finishes, unless another process has done so meanwhile.

    Raises:
        StorageError: another process does so at this moment.
    """
    claims: list[str] = []
    held = found.note
    while not claims or has_ended(held, clock()):  # a claim of a process that was killed is claimed itself
        claims.append(_claim_of(found.folder, held))
        if base.put_if_absent(claims[-1], _note(clock, uuid.uuid4().hex)):
            break
        held = base.read_document(claims[-1])
    else:
        raise _being_made(found.folder, held)
    # The others' claims go when the note is gone: who claims it after that finds another note, or none.
    if found.folder.read_document(UNFINISHED_FORK) == found.note:
        _remove(base, found)
    for claim in claims:
        base.delete(claim)


def _note(clock: Callable[[], float], identity: str) -> bytes:
    return json.dumps({**process_note(clock), "id": identity}).encode()


def _claim_of(folder: Storage, note: Mapping[str, object]) -> str:
    """Where the claim to take away what goes with a note lies, from the base path on."""
    digest = hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()[:32]
    return f"{_HIDDEN}{_name_of(folder)}-{digest}{_NOTE}"


def _being_made(folder: Storage, note: Mapping[str, object]) -> StorageError:
    return StorageError(
        f"{folder.root} is there already: {who_noted(note)}, is making a fork there. If that one was killed, delete the "
        "folder, or name another; a day after its beginning the next fork takes its place",
        folder.root,
    )


def unfinished_forks(base: Storage, clock: Callable[[], float] = wall_s) -> list[UnfinishedFork]:
    """The forks right below a base path that were not finished, those that are being made among them."""
    if base.local is not None:
        return [
            found for found in _hidden(base, clock) if found.folder.exists()
        ]  # else its note only is left
    return list(_at(base, folders_in(base), clock))


def _hidden(base: Storage, clock: Callable[[], float]) -> Iterator[UnfinishedFork]:
    for entry in base.list():
        if entry.name.startswith(_HIDDEN) and entry.name.endswith(_NOTE):
            note = base.read_document(entry.name)
            folder = base.child(entry.name.removesuffix(_NOTE))
            yield UnfinishedFork(folder, note, has_ended(note, clock()))


def _at(base: Storage, names: Iterable[str], clock: Callable[[], float]) -> Iterator[UnfinishedFork]:
    for folder in (base.child(name) for name in names):
        if is_unfinished_fork(folder):
            note = folder.read_document(UNFINISHED_FORK)
            yield UnfinishedFork(folder, note, has_ended(note, clock()))


def _note_of(base: Storage, folder: Storage) -> str:
    """Where the note of a fork lies, from the base path on."""
    name = _name_of(folder)
    return f"{name}{_NOTE}" if base.local is not None else f"{name}/{UNFINISHED_FORK}"


def _name_of(folder: Storage) -> str:
    return folder.root.rpartition("/")[2]
