"""Readers beside a job that commits, compacts and truncates: a file that left the tables while it was read is not damage.

Invariant: an error that names a file, or what was retired, is raised, or an answer given that has faults, only where neither
table has moved on since before the reading that gave it, or where they did so each time. Who asked for the newest checkpoint
gets what is the newest then. What the tables are at is looked at behind such an error only: others pay nothing for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError, RetiredError
from changelog_engine.ledger.job_path import open_changelog
from changelog_engine.ledger.snapshots import beside
from changelog_engine.storage.delta_log import DeltaLog

_TIMES = 5
_NOT_KNOWN = object()
Given = ParamSpec("Given")
Read = TypeVar("Read")


@runtime_checkable
class KeepsFaults(Protocol):
    """An answer that tells what could not be read, where others raise."""

    @property
    def faults(self) -> Collection[object]: ...


def read_again(
    read: Callable[Given, Read], others: Callable[[Mapping[str, Any]], Iterable[str]] = lambda given: ()
) -> Callable[Given, Read]:
    """A function that reads a job's tables, and does so again when they moved on under it.

    Args:
        read: its first argument is the path of the job or its changelog. What it gives may be a ``KeepsFaults``. Where it
            fails, it leaves nothing behind.
        others: paths of other jobs that it reads, from its arguments by their names.
    """
    signature = inspect.signature(read)
    (name, *_) = signature.parameters

    @functools.wraps(read)
    def again(*args: Given.args, **named: Given.kwargs) -> Read:
        before: object = _NOT_KNOWN

        def moved() -> bool:
            nonlocal before
            given = signature.bind(*args, **named).arguments
            last, before = before, [_versions(path) for path in (given[name], *others(given))]
            return last != before

        for _ in range(_TIMES - 1):
            try:
                found = read(*args, **named)
                if not (isinstance(found, KeepsFaults) and found.faults and moved()):
                    return found
            except (CorruptChangelogError, RetiredError):
                if not moved():
                    raise
        return read(*args, **named)

    return again


def _versions(path: object) -> tuple[int, int] | None:
    """Of the changelog and the snapshots; None where they can't be read, which the reader itself tells."""
    with suppress(ChangelogEngineError):
        log = open_changelog(str(path))
        snapshots = beside(log.storage)
        return log.version, DeltaLog(snapshots).version if DeltaLog.exists(snapshots) else -1
    return None
