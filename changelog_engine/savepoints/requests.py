"""Savepoints of a running job: who wants one waits for the next checkpoint, and copies it beside the job.

Threads: ``take`` runs in the threads of those who want a savepoint, all else in the coordinator's.

Invariants:
    * The coordinator only says which checkpoint, and protects it; nothing is copied in its thread.
    * Every request ends: with a checkpoint, or with the reason why there will be none.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import (
    MAKES_NO_CHECKPOINTS,
    ChangelogEngineError,
    ConfigurationError,
    JobExecutionError,
)
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.protection import Protection, protect, release
from changelog_engine.savepoints.folder import new_savepoint
from changelog_engine.savepoints.writer import write_savepoint


class _Taken(NamedTuple):
    checkpoint: Checkpoint
    protection: Protection


class _Request(NamedTuple):
    answer: Future[_Taken]
    last: bool  # only the job's last checkpoint will do
    at_once: bool = True  # it does not wait until a checkpoint is due


class SavepointRequests:
    """Requests for savepoints of one job.

    Args:
        folder: the job's folder; None when the job makes no checkpoints.
    """

    def __init__(self, folder: JobFolder | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._ended: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether the next epoch shall end with a checkpoint for somebody."""
        return any(request.at_once and not request.last for request in self._waiting)

    def take(self, directory: str | None, short_id: str, stop: Callable[[], None] | None = None) -> str:
        """Take a savepoint; returns when it is complete.

        Args:
            stop: stops the job; called once the directory was found good. The savepoint is then of its last checkpoint.

        Returns:
            The savepoint's path.

        Raises:
            ConfigurationError: there is no directory, or the job makes no checkpoints.
            JobExecutionError: the job ended before.
            StorageError: the directory can't be written.
        """
        folder = self._folder
        if folder is None:
            raise ConfigurationError(f"savepoints are made of checkpoints, and {MAKES_NO_CHECKPOINTS}")
        if directory is None:
            raise ConfigurationError(
                "no savepoint directory: give one, or set it by env.set_default_savepoint_directory(directory) or "
                "state.savepoints.dir"
            )
        self._refuse_when_ended()
        target = new_savepoint(directory, short_id, folder.name)
        try:
            request = self._request(stop is not None)
            if stop is not None:
                stop()
            checkpoint, protection = request.answer.result()
        except BaseException:
            with contextlib.suppress(ChangelogEngineError):
                target.storage.delete_tree()
            raise
        try:
            return write_savepoint(folder, checkpoint, target).path
        except ChangelogEngineError as failure:
            failure.add_note(
                f"Checkpoint {checkpoint.id} is there: changelog-engine savepoint create {shlex.quote(folder.storage.root)} "
                f"DIRECTORY --at {checkpoint.id} makes a savepoint of it"
            )
            raise
        finally:
            with contextlib.suppress(ChangelogEngineError):  # it expires
                release(folder, protection)

    def taken(self, checkpoint: Checkpoint, last: bool) -> None:
        """A checkpoint, perhaps the job's last, was acknowledged, and nothing happened since."""
        with self._lock:
            due = [request for request in self._waiting if last or not request.last]
            self._waiting = [request for request in self._waiting if request not in due]
        for request in due:
            self._answer(request.answer, checkpoint)

    def checkpoint_failed(self) -> None:
        """A checkpoint failed and is left out: who waited for it waits until the next one is due."""
        with self._lock:
            self._waiting = [request._replace(at_once=False) for request in self._waiting]

    def end(self, last: Checkpoint | None, failure: BaseException | None) -> None:
        """The job ended; its last checkpoint is what there is."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._ended = "the job has ended" if failure is None else "the job failed"
        for request in waiting:
            if failure is not None:
                error = JobExecutionError(f"the job failed before the savepoint: {failure}")
                request.answer.set_exception(error)
            elif last is None:
                request.answer.set_exception(JobExecutionError("the job ended without a checkpoint"))
            else:
                self._answer(request.answer, last)

    def _answer(self, answer: Future[_Taken], checkpoint: Checkpoint) -> None:
        assert self._folder is not None
        try:
            protection = protect(self._folder, checkpoint.id, checkpoint.snapshot, "savepoint")
        except ChangelogEngineError as failure:  # the savepoint fails, the job goes on
            answer.set_exception(failure)
        else:
            answer.set_result(_Taken(checkpoint, protection))

    def _request(self, last: bool) -> _Request:
        request = _Request(Future(), last)
        with self._lock:
            self._refuse_when_ended()
            self._waiting.append(request)
        return request

    def _refuse_when_ended(self) -> None:
        if self._ended is not None:
            where = "" if self._folder is None else f" {shlex.quote(self._folder.storage.root)}"
            raise JobExecutionError(
                f"{self._ended}: changelog-engine savepoint create{where} DIRECTORY makes a savepoint of its last "
                "checkpoint"
            )
